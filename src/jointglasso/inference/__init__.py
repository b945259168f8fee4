"""Inference: intervals, tests and false discovery rates for the edges of every class and for their differences.

`support` estimates the support, `estimates` removes the bias of the selection, `standard_errors` estimates the
variances, `tests` has the tests of edges and of differences with their q-values, and `result` the tables.
`explained_variance` has the predictability of variables. `permutation`, `bootstrap` and `case_dropping` repeat the
estimation on resamples through `batch`; `data` reads the samples and has the combinations of options that are valid.

Examples
--------
Those of the results, and of functions that do not define X and y, continue these lines:

>>> import numpy as np
>>> import jointglasso as jgl
>>> rng = np.random.default_rng(0)
>>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
>>> X[:, 1] += X[:, 0]
"""

from jointglasso.inference.bootstrap import NetworkBootstrap, bootstrap_network
from jointglasso.inference.case_dropping import CentralityStability, centrality_stability
from jointglasso.inference.explained_variance import Predictability, predictability
from jointglasso.inference.infer_edges import InferenceWarning, infer
from jointglasso.inference.permutation import NetworkTest, network_test
from jointglasso.inference.result import Inference

__all__ = [
    "CentralityStability",
    "Inference",
    "InferenceWarning",
    "NetworkBootstrap",
    "NetworkTest",
    "Predictability",
    "bootstrap_network",
    "centrality_stability",
    "infer",
    "network_test",
    "predictability",
]
