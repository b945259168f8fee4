"""Functions of one pair in compiled code, dispatched on the type of the penalty when a kernel is compiled.

A kernel with a `GroupPair` or a `FusedPair` argument calls ``pair_update(penalty, ...)``, which is the function
`update` of the corresponding module. Each type has separately compiled kernels, so that a solve compiles the functions
of its penalty only. `group_pair` documents the functions; all modules define the same names with the same arguments.

In Python these names are functions without a body: compiled code uses their overloads.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from numba.extending import overload

from jointglasso.kernels import common_pair, fused_pair, group_pair, laplacian_pair, maximum_pair
from jointglasso.kernels.jit import HELPER
from jointglasso.kernels.pair_types import CommonPair, FusedPair, GroupPair, LaplacianPair, MaximumPair

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


def _dispatched(name: str) -> Callable[..., Any]:
    """Function that in compiled code is the function `name` of the module of its first argument, the penalty."""

    def stub(penalty: Penalty, *arguments: Any) -> Any:
        raise NotImplementedError(f"{name} of a pair is called by kernels only.")

    @overload(stub, strict=False, jit_options=OPTIONS)
    def choose(penalty: Any, *arguments: Any) -> Any:
        return getattr(_MODULES[penalty.instance_class], name).py_func

    return stub


pair_threshold, pair_value, pair_update = _dispatched("threshold"), _dispatched("value"), _dispatched("update")
pair_is_dual_feasible, pair_gauge = _dispatched("is_dual_feasible"), _dispatched("gauge")
pair_subgradient, pair_gradient = _dispatched("subgradient"), _dispatched("gradient")
pair_clusters, pair_hvp, pair_retract = _dispatched("clusters"), _dispatched("hvp"), _dispatched("retract")


def pair_homogeneous(penalty: Penalty) -> bool:
    """Whether ``phi(c t) = c phi(t)`` for c > 0."""
    raise NotImplementedError


def pair_weakly_coupled(penalty: Penalty) -> bool:
    """Whether the penalty couples the classes so weakly that `column_parts.rescale` has a factor for each class."""
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
