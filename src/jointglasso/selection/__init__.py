"""Choosing the penalties, and how far the edges can be trusted.

Examples
--------
Those of the results, and of functions that do not define X and y, continue these lines:

>>> import numpy as np
>>> import jointglasso as jgl
>>> rng = np.random.default_rng(0)
>>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
>>> X[:, 1] += X[:, 0]
"""

from jointglasso.screening.curve import lambda_max
from jointglasso.selection.criteria import aic, bic, ebic, jbic
from jointglasso.selection.grids import LambdaGrid, lambda_grid
from jointglasso.selection.relaxed import refit
from jointglasso.selection.result import SelectionResult
from jointglasso.selection.select_penalty import SelectionWarning, select
from jointglasso.selection.solves import SelectionProgress
from jointglasso.selection.stability import EdgeStability, edge_stability

__all__ = [
    "EdgeStability",
    "LambdaGrid",
    "SelectionProgress",
    "SelectionResult",
    "SelectionWarning",
    "aic",
    "bic",
    "ebic",
    "edge_stability",
    "jbic",
    "lambda_grid",
    "lambda_max",
    "refit",
    "select",
]
