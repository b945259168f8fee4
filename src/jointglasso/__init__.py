"""Exact joint graphical lasso with hybrid covariance thresholding and a certificate for every answer.

The public names are resolved when first used, so that importing the package loads neither numba nor scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "ADMM": "jointglasso.solvers",
    "anndata": "jointglasso.anndata",
    "Certificate": "jointglasso.solution",
    "ConvergenceWarning": "jointglasso.solution",
    "component_curve": "jointglasso.screening",
    "ComponentCurve": "jointglasso.screening",
    "CovarianceSource": "jointglasso.covariance",
    "datasets": "jointglasso.datasets",
    "DenseCovariance": "jointglasso.covariance",
    "Iteration": "jointglasso.solution",
    "JointNetworks": "jointglasso.networks",
    "JointProblem": "jointglasso.problem",
    "Newton": "jointglasso.solvers",
    "Partition": "jointglasso.screening",
    "plots": "jointglasso.plots",
    "ProximalGradient": "jointglasso.solvers",
    "RichProgress": "jointglasso.progress_bar",
    "SampleCovariance": "jointglasso.covariance",
    "screen": "jointglasso.screening",
    "Solution": "jointglasso.solution",
    "solve": "jointglasso.engine",
    "warm_kernels": "jointglasso.warm",
    "write_report": "jointglasso.report",
    "Status": "jointglasso.solution",
}

__all__ = ["__version__", *_HOME]

if TYPE_CHECKING:
    from jointglasso import anndata as anndata
    from jointglasso import datasets as datasets
    from jointglasso import plots as plots
    from jointglasso.covariance import (
        CovarianceSource as CovarianceSource,
    )
    from jointglasso.covariance import (
        DenseCovariance as DenseCovariance,
    )
    from jointglasso.covariance import (
        SampleCovariance as SampleCovariance,
    )
    from jointglasso.engine import solve as solve
    from jointglasso.networks import JointNetworks as JointNetworks
    from jointglasso.problem import JointProblem as JointProblem
    from jointglasso.progress_bar import RichProgress as RichProgress
    from jointglasso.report import write_report as write_report
    from jointglasso.screening import (
        ComponentCurve as ComponentCurve,
    )
    from jointglasso.screening import (
        Partition as Partition,
    )
    from jointglasso.screening import (
        component_curve as component_curve,
    )
    from jointglasso.screening import (
        screen as screen,
    )
    from jointglasso.solution import (
        Certificate as Certificate,
    )
    from jointglasso.solution import (
        ConvergenceWarning as ConvergenceWarning,
    )
    from jointglasso.solution import (
        Iteration as Iteration,
    )
    from jointglasso.solution import (
        Solution as Solution,
    )
    from jointglasso.solution import (
        Status as Status,
    )
    from jointglasso.solvers import ADMM as ADMM
    from jointglasso.solvers import Newton as Newton
    from jointglasso.solvers import ProximalGradient as ProximalGradient
    from jointglasso.warm import warm_kernels as warm_kernels


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'jointglasso' has no attribute {name!r}")
    module = importlib.import_module(_HOME[name])
    value = module if _HOME[name] == f"jointglasso.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
