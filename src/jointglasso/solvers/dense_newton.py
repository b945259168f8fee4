"""Newton's method on one big group, with its matrices whole: the work of a device that multiplies them fast.

Sweeps over the columns come near the solution first (`big_sweeps.py`); from there a few steps of Newton's method reach
it. They are those of `big_newton.py`, conjugate gradients on a face of the penalty with a damping term, on other
ground: all matrices are dense and lie on the device (`backends/arrays.py`), an iteration inverts Theta as a whole, and
a product with the Hessian, ``W D W`` at the unknowns, reads one row of W for every non-zero number of D and one for
every unknown. From the diagonal instead of from sweeps such steps are short: the 2,000 by which the objective of 10,521
genes had to fall came in portions of 10 to 40.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso import tuning
from jointglasso._typing import FloatArray, IntArray
from jointglasso.backends.arrays import HostArrays
from jointglasso.backends.group_arrays import Face, GroupArrays
from jointglasso.solvers.base import Report, reason_to_end
from jointglasso.solvers.big_newton import conjugate_gradients

#: The shortest step that is tried.
_SHORTEST = 1e-6


@dataclass(frozen=True)
class DenseTask:
    """The group as if every class had all of its variables; see `big_device.py` for those that do not."""

    arrays: HostArrays
    penalty: GroupArrays
    S: list[Any]
    """(n, n) covariances of each class, over there."""
    weight: FloatArray
    diagonal_penalty: float
    limit: Callable[[float], float]
    max_iter: int
    report: Report
    beyond: float = 0.0
    """What the objective counts that is not of the group."""


@dataclass(frozen=True)
class DenseSolution:
    """Theta as pairs with their values, and its inverse, over there."""

    i: IntArray
    j: IntArray
    value: FloatArray
    """(P, K)."""
    diagonal: FloatArray
    """(K, n)."""
    W: list[Any]
    n_iter: int
    why: str


def solve_dense(task: DenseTask, i: IntArray, j: IntArray, x: FloatArray) -> DenseSolution | None:
    """Iterate from pairs i < j with their values and then the diagonal, (K, P + n); None if that is not near enough."""
    state = _Dense.at(task, i, j, x)
    if state is None:
        return None
    number = 0
    while True:
        state.look()
        if number == 0 and not state.rough_gap <= tuning.DEVICE_NEAR * abs(state.objective):
            return None
        stop = task.report(state.objective, state.gap if np.isfinite(state.gap) else None)
        solved = state.gap <= tuning.DEVICE_PART * task.limit(state.objective)
        why = reason_to_end(solved=solved, stop=stop, last=number == task.max_iter)
        if why or not state.improve():
            break
        number += 1
    state.keep(state.nonzero())
    numpy, P = task.arrays.numpy, state.n_pairs
    ends, value, diagonal = (numpy(state.i), numpy(state.j)), numpy(state.x[:, :P]).T, numpy(state.x[:, P:])
    return DenseSolution(*ends, value, diagonal, state.W, number, why or "rounding")


class _Dense:
    """Theta with its inverse, objective and gap, and the damping.

    Unknowns are arrays (K, P + n): those of the pairs, then the diagonal.
    """

    def __init__(self, task: DenseTask) -> None:
        self.task, self.arrays, self.xp, self.penalty = task, task.arrays, task.arrays.xp, task.penalty
        self.n, self.n_classes = len(task.S[0]), len(task.S)
        self.weight = self.arrays.array(task.weight)[:, None]
        self.own = self.xp.arange(self.n)
        self.S_own = self.xp.stack([S[self.own, self.own] for S in task.S])
        self.variance = self.S_own + task.diagonal_penalty / self.weight
        self.damping = 0.0

    @classmethod
    def at(cls, task: DenseTask, i: IntArray, j: IntArray, x: FloatArray) -> _Dense | None:
        """At a given Theta; None if that is not definite."""
        state = cls(task)
        state._at_pairs(state.arrays.array(i), state.arrays.array(j))
        x = state.arrays.array(x)
        factors = state._factors(x)
        if factors is None:
            return None
        state._accept(x, factors)
        return state

    # Theta and the objective

    @property
    def n_pairs(self) -> int:
        return len(self.i)

    def _at_pairs(self, i: Any, j: Any) -> None:
        self.i, self.j = i, j
        self.S_pairs = self.xp.stack([S[i, j] for S in self.task.S])

    def _theta(self, x: Any, k: int, dtype: Any = np.float64) -> Any:
        theta = self.xp.zeros((self.n, self.n), dtype=dtype)
        theta[self.i, self.j] = theta[self.j, self.i] = x[k, : self.n_pairs]
        theta[self.own, self.own] = x[k, self.n_pairs :]
        return theta

    def _factors(self, x: Any) -> tuple[list[Any], FloatArray] | None:
        """Cholesky factors and log-determinants of all classes; None if one is not definite."""
        if not bool((x[:, self.n_pairs :] > 0.0).all()):
            return None
        factors, logdet = [], np.empty(self.n_classes)
        for k in range(self.n_classes):
            L = self.arrays.factor(self._theta(x, k))
            if L is None:
                return None
            logdet[k] = self._logdet(L)
            factors.append(L)
        return factors, logdet

    def _logdet(self, L: Any) -> float:
        return 2.0 * float(self.xp.log(L[self.own, self.own]).sum())

    def inner(self, a: Any, b: Any) -> float:
        P = self.n_pairs
        return float(2.0 * (a[:, :P] * b[:, :P]).sum() + (a[:, P:] * b[:, P:]).sum())

    def penalty_of(self, x: Any) -> float:
        P = self.n_pairs
        return 2.0 * self.penalty.value(x[:, :P]) + self.task.diagonal_penalty * float(x[:, P:].sum())

    def _objective(self, x: Any, logdet: FloatArray) -> float:
        linear = self.weight * self.xp.concatenate([self.S_pairs, self.S_own], axis=1)
        return self.inner(linear, x) - float(self.task.weight @ logdet) + self.penalty_of(x) - self.task.beyond

    def _accept(self, x: Any, factors: Any) -> None:
        """Take over x with the inverse of Theta."""
        self.x, (Ls, self.logdet) = x, factors
        self.objective, self.gap = self._objective(x, self.logdet), np.inf
        self.W: list[Any] = []
        while Ls:
            self.W.append(self.arrays.inverse(Ls.pop(0)))
        self.W_own = self.xp.stack([W[self.own, self.own] for W in self.W])

    # What violates the conditions, and the gap

    def look(self) -> None:
        """List the pairs that are not zero, or may not stay zero; find the gap where it is small."""
        self._list()
        self.rough_gap = self._rough_gap()
        self.gap = self._gap() if self.rough_gap <= self.task.limit(self.objective) else np.inf

    def nonzero(self) -> Any:
        """Which of the pairs listed are not zero."""
        return (self.x[:, : self.n_pairs] != 0.0).any(axis=0)

    def keep(self, mark: Any) -> None:
        """List only the pairs that are marked."""
        kept, P = self.xp.flatnonzero(mark), self.n_pairs
        self.x = self.xp.concatenate([self.x[:, :P][:, kept], self.x[:, P:]], axis=1)
        self._at_pairs(self.i[kept], self.j[kept])

    def _list(self) -> None:
        """Pairs that are not zero, or outside the dual ball, and their subgradients."""
        xp, n = self.xp, self.n
        self.keep(self.nonzero())
        keys, rows = [self.i * n + self.j], max(1, tuning.DEVICE_TILE // n)
        for first in range(0, n, rows):
            some = slice(first, first + rows)
            apart = [w * (W[some] - S[some]) for w, W, S in zip(self.task.weight, self.W, self.task.S, strict=True)]
            mark = self.penalty.outside(xp.stack(apart)) & (self.own > self.own[some, None])
            keys.append(xp.flatnonzero(mark) + first * n)
        key = xp.unique(xp.concatenate(keys))
        x = xp.zeros((self.n_classes, len(key) + n))
        x[:, xp.searchsorted(key, keys[0])] = self.x[:, : self.n_pairs]
        x[:, len(key) :] = self.x[:, self.n_pairs :]
        self.x = x
        self._at_pairs(key // n, key % n)
        self.u = self.weight * (xp.stack([W[self.i, self.j] for W in self.W]) - self.S_pairs)

    def _rough_gap(self) -> float:
        """Gap to second order: half of tr(R Theta R Theta)."""
        xp, P, a = self.xp, self.n_pairs, self.arrays
        self.g = self.penalty.nearest_subgradient(self.x[:, :P], self.u)
        R, R_own = (self.g - self.u) / self.weight, self.variance - self.W_own
        rough = 0.0
        for k, w in enumerate(self.task.weight):
            f = xp.flatnonzero(R[k])
            i, j = self.i[f], self.j[f]
            pattern = a.pattern(xp.concatenate([i, j, self.own]), xp.concatenate([j, i, self.own]), self.n)
            M = a.rows_times(pattern, xp.concatenate([R[k, f], R[k, f], R_own[k]]), self._theta(self.x, k, np.float32))
            rough += 0.5 * float(w) * float((M * M.T).sum(dtype=np.float64))
        return rough

    def _gap(self) -> float:
        """Gap with the nearest subgradients as dual point; infinite where that is not definite."""
        P, gap = self.n_pairs, 0.0
        for k, w in enumerate(self.task.weight):
            dual = self.W[k].copy()
            listed = self.S_pairs[k] + self.g[k] / float(w)
            dual[self.i, self.j] = dual[self.j, self.i] = listed
            dual[self.own, self.own] = self.variance[k]
            trace = float(2.0 * (listed * self.x[k, :P]).sum() + (self.variance[k] * self.x[k, P:]).sum())
            L = self.arrays.factor(dual)
            if L is None:
                return np.inf
            gap += float(w) * (trace - self.n - self._logdet(L) - float(self.logdet[k]))
        return max(gap, 0.0)

    # One iteration

    def improve(self) -> bool:
        """Choose the working set, find a direction and search along it; whether any step helped."""
        W = self.xp.stack([W[self.i, self.j] for W in self.W])
        ends = self.W_own[:, self.i] * self.W_own[:, self.j]
        curvature = self.weight * self.xp.concatenate([W * W + ends, self.W_own**2], axis=1)
        gradient = self.xp.concatenate([-self.u, self.weight * (self.S_own - self.W_own)], axis=1)
        product = _Products(self)
        while True:
            d, promised = _direction(self, product, self.x, gradient, curvature)
            if promised < 0.0 or self.damping > 1e8:
                break
            self.damping = max(4.0 * self.damping, 0.1)
        return self._search(d, gradient, promised)

    def _search(self, d: Any, gradient: Any, promised: float) -> bool:
        before, penalty, length = self.objective, self.penalty_of(self.x), 1.0
        slope = self.inner(gradient, d) + self.penalty_of(self.x + d) - penalty
        while length > _SHORTEST:
            trial = self.x + length * d
            factors = self._factors(trial)
            if factors is not None:
                after = self._objective(trial, factors[1])
                if after <= before + tuning.ARMIJO * length * slope + 1e-13 * abs(before):
                    kept = (before - after) / -promised if promised < 0.0 else 0.0
                    if length < 1.0 or kept < 0.25:
                        self.damping = max(4.0 * self.damping, 0.1)
                    elif kept > 0.7:
                        self.damping = self.damping / 5.0 if self.damping > 5e-3 else 0.0
                    self._accept(trial, factors)
                    return before - after > 1e-14 * abs(before)
            length *= 0.5
        return False


class _Products:
    """``w (W D W)`` at the unknowns that are free, D zero at the others; single precision, which the search judges."""

    def __init__(self, state: _Dense) -> None:
        self.state = state
        self.W = [W.astype(np.float32) for W in state.W]

    def restrict(self, free: Any) -> None:
        """Look at these pairs only, until restricted again."""
        s, xp = self.state, self.state.xp
        self.free = [xp.flatnonzero(mine) for mine in free]
        self.ends = [(s.i[f], s.j[f]) for f in self.free]
        self.patterns = [
            s.arrays.pattern(xp.concatenate([i, j, s.own]), xp.concatenate([j, i, s.own]), s.n) for i, j in self.ends
        ]

    def __call__(self, v: Any) -> Any:
        s, xp, P, arrays = self.state, self.state.xp, self.state.n_pairs, self.state.arrays
        out = xp.zeros_like(v)
        scale = float(xp.abs(v).max()) or 1.0
        for k, (f, (i, j)) in enumerate(zip(self.free, self.ends, strict=True)):
            values = v[k, f] / scale
            whole = xp.concatenate([values, values, v[k, P:] / scale])
            T = xp.ascontiguousarray(arrays.rows_times(self.patterns[k], whole, self.W[k]).T)
            weight = scale * float(s.task.weight[k])
            out[k, f] = weight * arrays.dots(T, self.W[k], i, j)
            out[k, P:] = weight * arrays.dots(T, self.W[k], s.own, s.own)
        return out


def _direction(state: _Dense, product: _Products, x: Any, gradient: Any, curvature: Any) -> tuple[Any, float]:
    """Minimise the damped model: solve on the face, drop what changes sign, repeat; the direction and the change."""
    xp, P, penalty = state.xp, state.n_pairs, state.penalty
    extra = state.damping * curvature
    curvature = curvature + extra
    face = penalty.enter_face(x[:, :P], gradient[:, :P], curvature[:, :P])
    z, slope, best, change = x, gradient, 0.0, 0.0

    def gain(moved: Any, turned: Any) -> float:
        way = moved - z
        model = state.inner(slope, way) + 0.5 * state.inner(turned, way)
        return -(model + state.penalty_of(moved) - state.penalty_of(z))

    for _ in range(tuning.NEWTON_ROUNDS):
        product.restrict(face.free)
        pull = xp.concatenate([penalty.slope(face), xp.full_like(x[:, P:], state.task.diagonal_penalty)], axis=1)
        residual = -(slope + pull)
        residual[:, :P] *= face.free
        v, turned, steps = _on_face(state, product, extra, residual, curvature, face, best)
        moved = z + v
        crossed = face.free & (moved[:, :P] * face.sign <= 0.0)
        n_crossed = int(crossed.sum())
        if n_crossed:
            moved[:, :P] = xp.where(crossed, 0.0, moved[:, :P])
            turned = product(moved - z) + extra * (moved - z)
        gained = gain(moved, turned)
        if n_crossed and gained < 0.0:
            # Entries that went far beyond zero dragged the others along: let them go to zero alone.
            moved = z.copy()
            moved[:, :P] = xp.where(crossed, 0.0, z[:, :P])
            turned = product(moved - z) + extra * (moved - z)
            gained = gain(moved, turned)
        best, change = max(best, gained), change - gained
        slope, z = slope + turned, moved
        if not n_crossed or (n_crossed <= tuning.FEW_CROSSINGS * P * state.n_classes and steps <= 3):
            break
        face = penalty.update_face(z[:, :P], face._replace(free=face.free & ~crossed))
    return z - x, change


def _on_face(
    state: _Dense, product: _Products, extra: Any, residual: Any, curvature: Any, face: Face, best: float
) -> tuple[Any, Any, int]:
    """Newton's equations on the face: the solution, the product of the damped model with it, and the steps taken."""
    P, penalty = state.n_pairs, state.penalty

    def products(p: Any) -> tuple[Any, Any]:
        q = product(p) + extra * p
        whole = q.copy()
        whole[:, :P] = face.free * (q[:, :P] + penalty.bend(face, p[:, :P]))
        return q, whole

    diagonal = curvature.copy()
    diagonal[:, :P] += face.curve * (1.0 - face.unit * face.unit)
    tolerance = tuning.NEWTON_TOLERANCE if state.damping else tuning.DEVICE_TOLERANCE
    return conjugate_gradients(products, state.inner, residual, diagonal, tuning.DEVICE_STEPS, tolerance, best)
