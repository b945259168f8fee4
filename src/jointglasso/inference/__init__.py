"""Inference: intervals, tests and false discovery rates for the edges of every class and for their differences.

`support` finds where edges may be, `desparsified` takes the bias of that choice away, `standard_errors` says how
sure the estimates are, `tests` compares classes and counts false discoveries, and `result` is what a user sees.
`permutation` and `bootstrap` estimate the same thing again and again, by way of `batch`.
"""

from jointglasso.inference.bootstrap import NetworkBootstrap, bootstrap_network
from jointglasso.inference.front import infer
from jointglasso.inference.permutation import NetworkTest, network_test
from jointglasso.inference.result import Inference

__all__ = ["Inference", "NetworkBootstrap", "NetworkTest", "bootstrap_network", "infer", "network_test"]
