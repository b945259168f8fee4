"""The penalty of one pair in compiled code: functions chosen by the type of the penalty when a kernel is compiled.

A kernel that is given a `GroupPair`, a `FusedPair` or a `LaplacianPair` calls ``pair_update(penalty, ...)`` and gets
the function `update` of the module that goes with the type; each type has a compiled kernel of its own, and none pays
for the others. What the functions compute is said in `group_pair`; all modules offer the same names and arguments.

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
from jointglasso.kernels.pair_types import FusedPair, GroupPair, LaplacianPair

_MODULES: dict[type, ModuleType] = {GroupPair: group_pair, FusedPair: fused_pair, LaplacianPair: laplacian_pair}

_INLINE = {**HELPER, "no_cpython_wrapper": False, "forceinline": True}

Penalty = Any
"""One of the named tuples above."""


def module_of(kind: type) -> ModuleType:
    """Module with the functions of one type of penalty."""
    return _MODULES[kind]


def _function(penalty: Any, name: str) -> Callable[..., Any]:
    """What a module offers under a name, given numba's type of a penalty."""
    found: Callable[..., Any] = getattr(_MODULES[penalty.instance_class], name)
    return found


def pair_homogeneous(penalty: Penalty) -> bool:
    """Whether twice the argument costs twice as much."""
    raise NotImplementedError


def pair_apart(penalty: Penalty) -> bool:
    """Whether a class may be rescaled by itself, because the penalty couples classes through ratios only."""
    raise NotImplementedError


def pair_threshold(penalty: Penalty, k: int) -> float:
    """Where a pair is below its weight times this in every class it is inside the dual ball."""
    raise NotImplementedError


def pair_value(penalty: Penalty, theta: FloatArray, cls: IntArray, n: int, v: float) -> float:
    """Penalty of a pair of weight v, held by the classes ``cls[:n]`` and zero in all others."""
    raise NotImplementedError


def pair_update(
    penalty: Penalty,
    a: FloatArray,
    b: FloatArray,
    cls: IntArray,
    n: int,
    v: float,
    out: FloatArray,
    room: FloatArray,
    iroom: IntArray,
) -> None:
    """Minimise ``sum_k a_k x_k^2 / 2 - b_k x_k`` plus the penalty, into `out`, which holds a guess at it."""
    raise NotImplementedError


def pair_inside(
    penalty: Penalty, u: FloatArray, cls: IntArray, n: int, v: float, room: FloatArray, iroom: IntArray
) -> bool:
    """Whether u is a subgradient of the penalty at zero."""
    raise NotImplementedError


def pair_subgradient(
    penalty: Penalty,
    theta: FloatArray,
    wanted: FloatArray,
    a: FloatArray,
    cls: IntArray,
    n: int,
    v: float,
    out: FloatArray,
    room: FloatArray,
    iroom: IntArray,
) -> None:
    """A subgradient of the penalty at `theta`, the nearest to `wanted`, into `out`; a: curvatures that may serve."""
    raise NotImplementedError


def pair_gauge(
    penalty: Penalty, u: FloatArray, cls: IntArray, n: int, v: float, room: FloatArray, iroom: IntArray
) -> float:
    """Smallest g >= 0 with u in g times the subdifferential at zero."""
    raise NotImplementedError


def pair_slope(penalty: Penalty, theta: FloatArray, cls: IntArray, n: int, v: float, out: FloatArray) -> None:
    """Slope of the penalty at each entry, while zeros stay zero and clusters equal; what it is at zeros is not said."""
    raise NotImplementedError


def pair_clusters(penalty: Penalty, theta: FloatArray, cls: IntArray, n: int, out: IntArray) -> int:
    """Number of the cluster of each entry, -1 at zeros, and how many there are."""
    raise NotImplementedError


def pair_bend(
    penalty: Penalty, theta: FloatArray, cls: IntArray, n: int, v: float, step: FloatArray, out: FloatArray
) -> None:
    """Add to `out` by how much the slope changes along a step on the face, which is zero where `theta` is."""
    raise NotImplementedError


@overload(pair_homogeneous, strict=False, jit_options=_INLINE)
def _homogeneous(penalty: Any) -> Any:
    answer = bool(_MODULES[penalty.instance_class].HOMOGENEOUS)
    return lambda penalty: answer


@overload(pair_apart, strict=False, jit_options=_INLINE)
def _apart(penalty: Any) -> Any:
    answer = _MODULES[penalty.instance_class] is group_pair
    return lambda penalty: answer


@overload(pair_threshold, strict=False, jit_options=_INLINE)
def _threshold(penalty: Any, k: Any) -> Any:
    chosen = _function(penalty, "threshold")
    return lambda penalty, k: chosen(penalty, k)


@overload(pair_value, strict=False, jit_options=_INLINE)
def _value(penalty: Any, theta: Any, cls: Any, n: Any, v: Any) -> Any:
    chosen = _function(penalty, "value")
    return lambda penalty, theta, cls, n, v: chosen(penalty, theta, cls, n, v)


@overload(pair_update, strict=False, jit_options=_INLINE)
def _update(penalty: Any, a: Any, b: Any, cls: Any, n: Any, v: Any, out: Any, room: Any, iroom: Any) -> Any:
    chosen = _function(penalty, "update")
    return lambda penalty, a, b, cls, n, v, out, room, iroom: chosen(penalty, a, b, cls, n, v, out, room, iroom)


@overload(pair_inside, strict=False, jit_options=_INLINE)
def _inside(penalty: Any, u: Any, cls: Any, n: Any, v: Any, room: Any, iroom: Any) -> Any:
    chosen = _function(penalty, "inside")
    return lambda penalty, u, cls, n, v, room, iroom: chosen(penalty, u, cls, n, v, room, iroom)


@overload(pair_subgradient, strict=False, jit_options=_INLINE)
def _subgradient(
    penalty: Any, theta: Any, wanted: Any, a: Any, cls: Any, n: Any, v: Any, out: Any, room: Any, iroom: Any
) -> Any:
    chosen = _function(penalty, "subgradient")
    return lambda penalty, theta, wanted, a, cls, n, v, out, room, iroom: chosen(
        penalty, theta, wanted, a, cls, n, v, out, room, iroom
    )


@overload(pair_gauge, strict=False, jit_options=_INLINE)
def _gauge(penalty: Any, u: Any, cls: Any, n: Any, v: Any, room: Any, iroom: Any) -> Any:
    chosen = _function(penalty, "gauge")
    return lambda penalty, u, cls, n, v, room, iroom: chosen(penalty, u, cls, n, v, room, iroom)


@overload(pair_slope, strict=False, jit_options=_INLINE)
def _slope(penalty: Any, theta: Any, cls: Any, n: Any, v: Any, out: Any) -> Any:
    chosen = _function(penalty, "slope")
    return lambda penalty, theta, cls, n, v, out: chosen(penalty, theta, cls, n, v, out)


@overload(pair_clusters, strict=False, jit_options=_INLINE)
def _clusters(penalty: Any, theta: Any, cls: Any, n: Any, out: Any) -> Any:
    chosen = _function(penalty, "clusters")
    return lambda penalty, theta, cls, n, out: chosen(penalty, theta, cls, n, out)


@overload(pair_bend, strict=False, jit_options=_INLINE)
def _bend(penalty: Any, theta: Any, cls: Any, n: Any, v: Any, step: Any, out: Any) -> Any:
    chosen = _function(penalty, "bend")
    return lambda penalty, theta, cls, n, v, step, out: chosen(penalty, theta, cls, n, v, step, out)
