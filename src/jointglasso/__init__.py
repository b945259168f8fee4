"""Exact joint graphical lasso with hybrid covariance thresholding and a certificate for every answer.

The public names are resolved when first used, so that importing the package loads neither numba nor scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "ADMM": "jointglasso.solvers",
    "Certificate": "jointglasso.solution",
    "ConvergenceWarning": "jointglasso.solution",
    "CovarianceSource": "jointglasso.covariance",
    "DenseCovariance": "jointglasso.covariance",
    "Iteration": "jointglasso.solution",
    "JointProblem": "jointglasso.problem",
    "Newton": "jointglasso.solvers",
    "Partition": "jointglasso.screening",
    "ProximalGradient": "jointglasso.solvers",
    "SampleCovariance": "jointglasso.covariance",
    "Solution": "jointglasso.solution",
    "Status": "jointglasso.solution",
    "datasets": "jointglasso.datasets",
    "screen": "jointglasso.screening",
    "solve": "jointglasso.engine",
}

__all__ = ["__version__", *_HOME]

if TYPE_CHECKING:
    from jointglasso import datasets
    from jointglasso.covariance import CovarianceSource, DenseCovariance, SampleCovariance
    from jointglasso.engine import solve
    from jointglasso.problem import JointProblem
    from jointglasso.screening import Partition, screen
    from jointglasso.solution import Certificate, ConvergenceWarning, Iteration, Solution, Status
    from jointglasso.solvers import ADMM, Newton, ProximalGradient


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'jointglasso' has no attribute {name!r}")
    module = importlib.import_module(_HOME[name])
    value = module if name == "datasets" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
