"""Two real data sets."""

from jointglasso.datasets.embedded import load_expression, load_rppa

__all__ = ["load_expression", "load_rppa"]
