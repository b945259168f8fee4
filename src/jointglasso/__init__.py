"""Exact joint graphical lasso with hybrid covariance thresholding and a certificate for every answer.

The public names are resolved when first used, so that importing the package loads neither numba nor scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from jointglasso._version import __version__

#: Public subpackages.
_PACKAGES = ("anndata", "datasets", "io", "pl", "plots", "tl")

#: The public names, by module.
_NAMES = {
    "data": "CovarianceSource DenseCovariance SampleCovariance",
    "data.windows": "prewhiten",
    "engine": "NotEnoughMemory Plan plan solve solve_path",
    "estimators": "GraphicalLasso GraphicalLassoCV GraphicalLassoIC JointGraphicalLasso JointGraphicalLassoCV "
    "TimeVaryingGraphicalLasso",
    "inference": "CentralityStability Inference InferenceWarning NetworkBootstrap NetworkTest Predictability "
    "bootstrap_network centrality_stability infer network_test predictability",
    "networks": "JointNetworks",
    "penalties": "PairWeights",
    "problem": "JointProblem",
    "progress_bar": "RichProgress",
    "report": "write_report",
    "screening": "ComponentCurve Partition component_curve screen",
    "selection": "EdgeStability LambdaGrid SelectionProgress SelectionResult SelectionWarning edge_stability "
    "lambda_grid refit select",
    "solution": "Certificate ConvergenceWarning Iteration LowRank Refit RefitWarning Solution Status load",
    "errors": "InputError",
    "solvers": "ADMM Newton ProximalGradient",
    "warm": "warm_kernels",
}
_HOME = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", *_PACKAGES, *_HOME]

if TYPE_CHECKING:
    from jointglasso import (
        anndata as anndata,
        datasets as datasets,
        io as io,
        pl as pl,
        plots as plots,
        tl as tl,
    )
    from jointglasso.data import (
        CovarianceSource as CovarianceSource,
        DenseCovariance as DenseCovariance,
        SampleCovariance as SampleCovariance,
    )
    from jointglasso.data.windows import prewhiten as prewhiten
    from jointglasso.engine import (
        NotEnoughMemory as NotEnoughMemory,
        Plan as Plan,
        plan as plan,
        solve as solve,
        solve_path as solve_path,
    )
    from jointglasso.errors import InputError as InputError
    from jointglasso.estimators import (
        GraphicalLasso as GraphicalLasso,
        GraphicalLassoCV as GraphicalLassoCV,
        GraphicalLassoIC as GraphicalLassoIC,
        JointGraphicalLasso as JointGraphicalLasso,
        JointGraphicalLassoCV as JointGraphicalLassoCV,
        TimeVaryingGraphicalLasso as TimeVaryingGraphicalLasso,
    )
    from jointglasso.inference import (
        CentralityStability as CentralityStability,
        Inference as Inference,
        InferenceWarning as InferenceWarning,
        NetworkBootstrap as NetworkBootstrap,
        NetworkTest as NetworkTest,
        Predictability as Predictability,
        bootstrap_network as bootstrap_network,
        centrality_stability as centrality_stability,
        infer as infer,
        network_test as network_test,
        predictability as predictability,
    )
    from jointglasso.networks import JointNetworks as JointNetworks
    from jointglasso.penalties import PairWeights as PairWeights
    from jointglasso.problem import JointProblem as JointProblem
    from jointglasso.progress_bar import RichProgress as RichProgress
    from jointglasso.report import write_report as write_report
    from jointglasso.screening import (
        ComponentCurve as ComponentCurve,
        Partition as Partition,
        component_curve as component_curve,
        screen as screen,
    )
    from jointglasso.selection import (
        EdgeStability as EdgeStability,
        LambdaGrid as LambdaGrid,
        SelectionProgress as SelectionProgress,
        SelectionResult as SelectionResult,
        SelectionWarning as SelectionWarning,
        edge_stability as edge_stability,
        lambda_grid as lambda_grid,
        refit as refit,
        select as select,
    )
    from jointglasso.solution import (
        Certificate as Certificate,
        ConvergenceWarning as ConvergenceWarning,
        Iteration as Iteration,
        LowRank as LowRank,
        Refit as Refit,
        RefitWarning as RefitWarning,
        Solution as Solution,
        Status as Status,
        load as load,
    )
    from jointglasso.solvers import ADMM as ADMM, Newton as Newton, ProximalGradient as ProximalGradient
    from jointglasso.warm import warm_kernels as warm_kernels


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"jointglasso.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'jointglasso' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"jointglasso.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
