"""The penalty of one pair in compiled code: functions chosen by the type of the penalty when a kernel is compiled.

A kernel that is given a `GroupPair` or a `FusedPair` calls ``pair_update(penalty, ...)`` and gets the function `update`
of the module that goes with it. Each type has compiled kernels of its own, so that the group penalty pays for no other;
the fused and the Laplacian penalty share theirs, since these take long to compile. What the functions compute is said
in `group_pair`; all modules offer the same names and arguments.

The bodies below say only what is asked for: Python never runs them, the overloads that follow take their place.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from numba.extending import overload

from jointglasso._typing import FloatArray, IntArray
from jointglasso.kernels import fused_pair, group_pair, laplacian_pair
from jointglasso.kernels.cache import HELPER
from jointglasso.kernels.pair_types import LAPLACIAN, FusedPair, GroupPair, Held, Work

#: Modules of each type; of two the second is meant where the `shape` is LAPLACIAN.
_MODULES: dict[type, list[ModuleType]] = {GroupPair: [group_pair], FusedPair: [fused_pair, laplacian_pair]}

#: lambda2 of the group penalty, in units of lambda1, up to which it ties the classes weakly. Were hubs of 500 pairs
#: rescaled class by class at five times lambda1, they would be overshot from sweep to sweep, and never settle.
_WEAK_COUPLING = 0.5

#: Functions of one pair make no arrays, so that no references need be counted (see `cache.leaf`).
_INLINE = {**HELPER, "no_cpython_wrapper": False, "forceinline": True, "_nrt": False}

Penalty = Any
"""A `GroupPair` or a `FusedPair`."""


def module_of(penalty: Penalty) -> ModuleType:
    """Module with the functions of a penalty."""
    modules = _MODULES[type(penalty)]
    return modules[1] if len(modules) > 1 and penalty.shape == LAPLACIAN else modules[0]


def pair_homogeneous(penalty: Penalty) -> bool:
    """Whether twice the argument costs twice as much."""
    raise NotImplementedError


def pair_apart(penalty: Penalty) -> bool:
    """Whether a class may be rescaled by itself, because the penalty ties the classes weakly."""
    raise NotImplementedError


def pair_threshold(penalty: Penalty, k: int) -> float:
    """Where a pair is below its weight times this in every class it is inside the dual ball."""
    raise NotImplementedError


def pair_value(penalty: Penalty, theta: FloatArray, pair: Held) -> float:
    """Penalty of a pair."""
    raise NotImplementedError


def pair_update(penalty: Penalty, a: FloatArray, b: FloatArray, pair: Held, out: FloatArray, work: Work) -> None:
    """Minimise ``sum_k a_k x_k^2 / 2 - b_k x_k`` plus the penalty, into `out`, which holds a guess at it."""
    raise NotImplementedError


def pair_inside(penalty: Penalty, u: FloatArray, pair: Held, work: Work) -> bool:
    """Whether u is a subgradient of the penalty at zero."""
    raise NotImplementedError


def pair_subgradient(
    penalty: Penalty, theta: FloatArray, target: FloatArray, a: FloatArray, pair: Held, out: FloatArray, work: Work
) -> None:
    """A subgradient of the penalty at `theta`, the nearest to `target`, into `out`; a: curvatures that may serve."""
    raise NotImplementedError


def pair_gauge(penalty: Penalty, u: FloatArray, pair: Held, work: Work) -> float:
    """Smallest g >= 0 with u in g times the subdifferential at zero."""
    raise NotImplementedError


def pair_slope(penalty: Penalty, theta: FloatArray, pair: Held, out: FloatArray) -> None:
    """Slope of the penalty at each entry, while zeros stay zero and clusters equal; what it is at zeros is not said."""
    raise NotImplementedError


def pair_clusters(penalty: Penalty, theta: FloatArray, pair: Held, out: IntArray) -> int:
    """Number of the cluster of each entry, -1 at zeros, and how many there are."""
    raise NotImplementedError


def pair_bend(penalty: Penalty, theta: FloatArray, pair: Held, step: FloatArray, out: FloatArray) -> None:
    """Add to `out` by how much the slope changes along a step on the face, which is zero where `theta` is."""
    raise NotImplementedError


@overload(pair_homogeneous, strict=False, jit_options=_INLINE)
def _homogeneous(penalty: Any) -> Any:
    default, *rest = (module.HOMOGENEOUS for module in _MODULES[penalty.instance_class])
    if not rest:
        return lambda penalty: default
    laplacian = rest[0]
    return lambda penalty: laplacian if penalty.shape == LAPLACIAN else default


@overload(pair_apart, strict=False, jit_options=_INLINE)
def _weakly_coupled(penalty: Any) -> Any:
    if penalty.instance_class is GroupPair:
        return lambda penalty: penalty.lambda2 <= _WEAK_COUPLING * penalty.lambda1
    return lambda penalty: False


def _dispatch(stub: Callable[..., Any], name: str) -> None:
    """Let compiled code that calls `stub` call the function of this name, of the module that goes with a penalty."""

    @overload(stub, strict=False, jit_options=_INLINE)
    def choose(penalty: Any, *arguments: Any) -> Any:
        default, *rest = (getattr(module, name) for module in _MODULES[penalty.instance_class])
        if not rest:
            return lambda penalty, *arguments: default(penalty, *arguments)
        laplacian = rest[0]
        return lambda penalty, *arguments: (
            laplacian(penalty, *arguments) if penalty.shape == LAPLACIAN else default(penalty, *arguments)
        )


for _stub in (
    pair_threshold, pair_value, pair_update, pair_inside, pair_subgradient, pair_gauge, pair_slope, pair_clusters,
    pair_bend,
):  # fmt: skip
    _dispatch(_stub, _stub.__name__.removeprefix("pair_"))
