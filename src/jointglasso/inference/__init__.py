"""Inference: intervals, tests and false discovery rates for the edges of every class and for their differences.

`support` finds where edges may be, `desparsified` takes the bias of that choice away, `standard_errors` says how
sure the estimates are, `tests` compares classes, `fdr` counts false discoveries, and `result` is what a user sees.
"""

from jointglasso.inference.front import infer
from jointglasso.inference.result import Inference

__all__ = ["Inference", "infer"]
