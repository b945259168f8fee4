"""Functions of one pair in compiled code, dispatched on the type of the penalty when a kernel is compiled.

A kernel with a `GroupPair` or a `FusedPair` argument calls ``pair_update(penalty, ...)``, which is the function
`update` of the corresponding module. Each type has separately compiled kernels, so that a solve compiles the functions
of its penalty only. `group_pair` documents the functions; all modules define the same names with the same arguments.

The Python bodies below only document the signatures: compiled code uses the overloads that follow.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from numba.extending import overload

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels import common_pair, fused_pair, group_pair, laplacian_pair, maximum_pair
from jointglasso.kernels.jit import HELPER
from jointglasso.kernels.pair_types import (
    CommonPair,
    FusedPair,
    GroupPair,
    LaplacianPair,
    MaximumPair,
    PairClasses,
    PenaltyWorkspace,
)

#: Module of each penalty type.
_MODULES: dict[type, ModuleType] = {
    GroupPair: group_pair,
    MaximumPair: maximum_pair,
    CommonPair: common_pair,
    FusedPair: fused_pair,
    LaplacianPair: laplacian_pair,
}

#: Largest lambda2 / lambda1 of the group penalty at which the classes count as weakly coupled. At a ratio of 5, columns
#: of 500 pairs that are rescaled class by class overshoot in every sweep and do not converge.
_WEAK_COUPLING = 0.5

#: Functions of one pair allocate no arrays, so that references are not counted (see `jit.njit_no_refcount`).
OPTIONS = {**HELPER, "no_cpython_wrapper": False, "_nrt": False}

Penalty = Any
"""One of the coefficients in `_MODULES`."""


def module_of(penalty: Penalty) -> ModuleType:
    """Module with the functions of one pair for a penalty."""
    return _MODULES[type(penalty)]


def pair_homogeneous(penalty: Penalty) -> bool:
    """Whether ``phi(c t) = c phi(t)`` for c > 0."""
    raise NotImplementedError


def pair_weakly_coupled(penalty: Penalty) -> bool:
    """Whether the penalty couples the classes so weakly that `column_parts.rescale` has a factor for each class."""
    raise NotImplementedError


def pair_threshold(penalty: Penalty, k: int) -> float:
    """Threshold of class k: a pair with ``|u_k| <= threshold * weight of entry`` in every class is dual feasible."""
    raise NotImplementedError


def pair_value(penalty: Penalty, theta: FloatArray, pair: PairClasses) -> float:
    """Penalty of the entries `theta` (n,) of a pair."""
    raise NotImplementedError


def pair_update(
    penalty: Penalty, a: FloatArray, b: FloatArray, pair: PairClasses, out: FloatArray, work: PenaltyWorkspace
) -> None:
    """Write the minimiser (n,) of ``sum_k a_k x_k^2 / 2 - b_k x_k`` plus the penalty; `out` holds a warm start."""
    raise NotImplementedError


def pair_is_dual_feasible(penalty: Penalty, u: FloatArray, pair: PairClasses, work: PenaltyWorkspace) -> bool:
    """Whether u (n,) is in the dual ball: the subdifferential of the penalty at zero."""
    raise NotImplementedError


def pair_subgradient(
    penalty: Penalty,
    theta: FloatArray,
    target: FloatArray,
    a: FloatArray,
    pair: PairClasses,
    out: FloatArray,
    work: PenaltyWorkspace,
) -> None:
    """Write the subgradient (n,) of the penalty at `theta` nearest to `target`, possibly in the metric 1/a."""
    raise NotImplementedError


def pair_gauge(penalty: Penalty, u: FloatArray, pair: PairClasses, work: PenaltyWorkspace) -> float:
    """Gauge of the dual ball: the smallest g >= 0 with u in g times the subdifferential at zero."""
    raise NotImplementedError


def pair_gradient(penalty: Penalty, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Write the gradient (n,) of the penalty on the face of `theta`: zeros and equalities fixed. Undefined at zeros."""
    raise NotImplementedError


def pair_clusters(penalty: Penalty, theta: FloatArray, pair: PairClasses, out: IntArray) -> int:
    """Write the cluster number (n,) of each entry, -1 at zeros; returns the number of clusters."""
    raise NotImplementedError


def pair_hvp(penalty: Penalty, theta: FloatArray, pair: PairClasses, step: FloatArray, out: FloatArray) -> None:
    """Add to `out` the Hessian-vector product of the penalty on the face with `step`, zero where `theta` is."""
    raise NotImplementedError


def pair_retract(penalty: Penalty, theta: FloatArray, pair: PairClasses, out: FloatArray) -> None:
    """Move `out` (n,) to the closure of the face of `theta`.

    Values that changed their sign become zero, and values whose order changed, where the penalty has a kink at
    equality, become equal.
    """
    raise NotImplementedError


@overload(pair_homogeneous, strict=False, jit_options=OPTIONS)
def _homogeneous(penalty: Any) -> Any:
    homogeneous = _MODULES[penalty.instance_class].HOMOGENEOUS
    return lambda penalty: homogeneous


@overload(pair_weakly_coupled, strict=False, jit_options=OPTIONS)
def _weakly_coupled(penalty: Any) -> Any:
    if penalty.instance_class is GroupPair:
        return lambda penalty: penalty.lambda2 <= _WEAK_COUPLING * penalty.lambda1
    return lambda penalty: False


def _dispatch(stub: Callable[..., Any], name: str) -> None:
    """Overload `stub` in compiled code by the function `name` of the module of the penalty."""

    @overload(stub, strict=False, jit_options=OPTIONS)
    def choose(penalty: Any, *arguments: Any) -> Any:
        return getattr(_MODULES[penalty.instance_class], name).py_func


for _stub in (
    pair_threshold, pair_value, pair_update, pair_is_dual_feasible, pair_subgradient, pair_gauge, pair_gradient,
    pair_clusters, pair_hvp, pair_retract,
):  # fmt: skip
    _dispatch(_stub, _stub.__name__.removeprefix("pair_"))
