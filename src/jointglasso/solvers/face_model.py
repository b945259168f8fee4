"""Quadratic model of one Newton iteration, and its minimisation on faces of the penalty; see `solvers/newton.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jointglasso import config
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.diagonal import FusedDiagonal
from jointglasso.blocks.linalg import Factorization
from jointglasso.blocks.support import SymmetricSupport, conjugate_gradients
from jointglasso.blocks.system import bincount

if TYPE_CHECKING:
    from jointglasso.solvers.newton import NewtonState

#: Halvings of a step on a face; entries retracted from far beyond it distort the others.
_MAX_HALVINGS = 10


class FaceModel:
    """Quadratic model of the likelihood plus the penalty on the working set of one iteration.

    Unknowns: the entries of the working pairs, pair by pair, then all diagonal entries. Sums over unknowns count
    off-diagonal entries twice; gradients and Hessian products include the class weight but not that factor.
    """

    def __init__(self, state: NewtonState) -> None:
        self.state, self.task = state, state.task
        self.work = 0.0
        system, penalty = self.task.system, self.task.penalty
        W, theta = state.factor.inverse, state.theta
        self.fused = FusedDiagonal.of(system, penalty)
        # Products only determine a direction: single precision suffices, with W of order one for any units.
        self.scale = float(W[system.diagonal].max()) if system.size[-1] > config.LARGE else 1.0
        self.W = W if self.scale == 1.0 else (W / self.scale).astype(np.float32)
        pairs = self._working_pairs(W, theta)
        index, _ = system.entries_of(pairs)
        self.n = len(index)
        row, column = system.entry_members(index)
        members = np.arange(len(system.members))
        self.entries = system.entries(penalty, pairs)
        self.pair_group = system.pair_group[pairs]
        self.position = np.concatenate([system.upper[index], system.diagonal])
        self.mirror = system.lower[index]
        block = np.concatenate([system.entry_block[index], system.diagonal_block])
        self.weight = system.block_weight[block]
        self.group = system.block_group[block]
        self.twice = np.where(np.arange(len(block)) < self.n, 2.0, 1.0)
        self.support = SymmetricSupport(
            system.offset,
            system.size,
            np.concatenate([row, members]),
            np.concatenate([column, members]),
            state.n_threads,
        )
        self.x, w = theta[self.position], W[self.position]
        self.gradient = self.weight * (system.S[self.position] - w)
        self.gradient[self.n :] += self.task.diagonal_penalty
        variance = w[self.n :]
        self.curvature = self.weight * np.concatenate(
            [w[: self.n] ** 2 + variance[row] * variance[column], variance**2]
        )
        self.extra = state.damping[self.group] * self.curvature

    def _working_pairs(self, W: FloatArray, theta: FloatArray) -> IntArray:
        """Pairs that are non-zero in Theta or after a proximal step.

        Far from the solution many more pairs enter than are non-zero at the optimum: only those with the largest
        decrease enter, so that the set grows by a bounded factor.
        """
        state, system, penalty = self.state, self.task.system, self.task.penalty
        upper = system.upper
        curvature = system.weigh(
            system.products_of_members(W[system.diagonal], np.ones(system.n_blocks)) + W[upper] ** 2
        )
        x = theta[upper]
        present = system.sum_per_pair((x != 0.0).astype(float)) > 0.0
        curvature *= system.of_entries(((1.0 + state.damping) * state.metric_scale)[system.pair_group])
        step = penalty.update(
            curvature, curvature * x + system.weigh(W[upper] - system.S[upper]), system.entries(penalty)
        )
        enters = (system.sum_per_pair((step != 0.0).astype(float)) > 0.0) & ~present
        moving = state.moving[system.pair_group]
        present &= moving
        enters &= moving
        limit = int(config.WORKING_SET_GROWTH * (np.count_nonzero(present) + len(system.members) / system.n_blocks))
        if np.count_nonzero(enters) > limit:
            decrease = system.sum_per_pair(curvature * step * step)
            enters &= decrease >= np.partition(decrease[enters], -limit)[-limit]
        return np.flatnonzero(present | enters)

    # Sums and products

    def sums(self, values: FloatArray) -> FloatArray:
        """(G,): sums over the unknowns of each group."""
        return bincount(self.group, self.twice * values, len(self.state.damping))

    def objective(self, u: FloatArray, factor: Factorization) -> FloatArray:
        """(G,): objective at the unknowns u; complete in moving groups, since all other entries are zero there."""
        system, task = self.task.system, self.task
        linear = self.weight * system.S[self.position] * u
        linear[self.n :] += task.diagonal_penalty * u[self.n :]
        logdet = system.block_weight * np.where(factor.definite, factor.logdet, -np.inf)
        return self.sums(linear) - system.sum_per_group(logdet) + self.penalty_value(u)

    def moved(self, direction: FloatArray) -> FloatArray:
        """Theta plus a direction, in flat storage."""
        theta = self.state.theta.copy()
        moved = self.x + direction
        theta[self.position] = moved
        theta[self.mirror] = moved[: self.n]
        return theta

    def product(self, d: FloatArray, wanted: BoolArray) -> FloatArray:
        """Hessian of the damped model times d at the `wanted` unknowns."""
        self.work += self.support.work
        product = self.scale**2 * self.support.product(self.W, d, wanted)
        return (self.weight * product + self.extra * d) * wanted

    def penalty_value(self, u: FloatArray) -> FloatArray:
        """(G,): penalty of the unknowns, without the linear diagonal penalty."""
        penalty = 2.0 * self.task.penalty.value(u[: self.n], self.entries)
        total = bincount(self.pair_group, penalty, len(self.state.damping))
        return total if self.fused is None else total + self.fused.value(u[self.n :])

    # Minimisation

    def minimise(self) -> tuple[FloatArray, FloatArray]:
        """Direction, and the change of the model plus penalty (G,), negative for a descent.

        Conjugate gradients minimise on the face of a point; where the step leaves the closure of the face, it is
        retracted to it, and the smaller face is next. The best point of each group counts.
        """
        open_groups, best = self.state.moving.copy(), self._at_x
        current = self._first_point()
        for _ in range(config.NEWTON_FACES):
            best = self._better(best, current, self.state.moving)
            step = self._on_face(current, open_groups)
            moved, n_crossed = self._along(current, step, open_groups)
            # Faces that hardly improve the model are left to the next iteration.
            gained = best.value - moved.value
            open_groups &= (gained < 0.0) | (gained > config.FACE_GAIN * np.abs(moved.value))
            best = self._better(best, moved, self.state.moving)
            open_groups &= n_crossed > config.MIN_CROSSINGS * self._count(moved.point != 0.0)
            if not open_groups.any():
                break
            current = moved
        return best.point - self.x, np.where(self.state.moving, best.value, 0.0)

    def _along(self, current: _ModelPoint, step: FloatArray, groups: BoolArray) -> tuple[_ModelPoint, FloatArray]:
        """Point after a step retracted to the face, halved where it increases the model; (G,) entries that left it."""
        for _ in range(_MAX_HALVINGS):
            target = current.point + step
            trial = self._retract(current.point, target)
            moved = self._moved_to(current, trial)
            worse = groups & (moved.value > current.value)
            if not worse.any():
                break
            step = np.where(worse[self.group], 0.5 * step, step)
        return moved, self._count(trial != target)

    def _first_point(self) -> _ModelPoint:
        """Point after the proximal step; the step is shortened where it increases the model."""
        current, moving = self._moved_to(self._at_x, self._prox()), self.state.moving
        for _ in range(config.NEWTON_FACES):
            self._adapt_metric(current)
            too_long = moving & (current.value > 0.0)
            if not too_long.any():
                break
            shorter = np.where(too_long[self.group], self._prox(), current.point)
            current = self._moved_to(self._at_x, shorter)
        return current

    def _prox(self) -> FloatArray:
        """Proximal step from x in the current metric."""
        metric, n = (self.curvature + self.extra) * self.state.metric_scale[self.group], self.n
        linear = metric * self.x - self.gradient
        off = self.task.penalty.update(metric[:n], linear[:n], self.entries)
        return np.append(off, self.x[n:] if self.fused is None else self.fused.update(metric[n:], linear[n:]))

    @property
    def _at_x(self) -> _ModelPoint:
        zero = np.zeros(len(self.state.moving))
        return _ModelPoint(self.x, np.zeros_like(self.x), zero, self.penalty_value(self.x))

    def _moved_to(self, start: _ModelPoint, point: FloatArray) -> _ModelPoint:
        """Model at `point`, from its values at another one."""
        d = point - start.point
        product, penalties = self.product(d, np.ones(len(d), dtype=bool)), self.penalty_value(point)
        change = self.sums((self.gradient + start.product + 0.5 * product) * d) + penalties - start.penalties
        return _ModelPoint(point, start.product + product, start.value + change, penalties)

    def _better(self, best: _ModelPoint, other: _ModelPoint, groups: BoolArray) -> _ModelPoint:
        """The point with the lower value in each of `groups`; products and penalties of it are not needed."""
        better = groups & (other.value < best.value)
        if better.all():
            return other
        mask = better[self.group]
        point, value = np.where(mask, other.point, best.point), np.where(better, other.value, best.value)
        return _ModelPoint(point, best.product, value, best.penalties)

    def _adapt_metric(self, first: _ModelPoint) -> None:
        """Rayleigh quotient of the Hessian in its diagonal metric at the proximal step, for the metric of the next."""
        d, state = first.point - self.x, self.state
        metric = self.sums((self.curvature + self.extra) * d * d)
        quotient = self.sums(first.product * d) / np.where(metric > 0.0, metric, 1.0)
        state.metric_scale = np.where(
            state.moving, np.clip(np.maximum(0.5 * state.metric_scale, quotient), 1.0, 1e8), state.metric_scale
        )

    def _count(self, mask: BoolArray) -> FloatArray:
        return bincount(self.group, mask.astype(float), len(self.state.moving))

    def _retract(self, point: FloatArray, trial: FloatArray) -> FloatArray:
        """`trial` moved to the closure of the face of `point`."""
        n = self.n
        off = self.task.penalty.retract(point[:n], trial[:n], self.entries)
        diagonal = trial[n:] if self.fused is None else self.fused.retract(point[n:], trial[n:])
        return np.concatenate([off, diagonal])

    def _on_face(self, at: _ModelPoint, groups: BoolArray) -> FloatArray:
        """Newton's step on the face of a point, in the given groups."""
        penalty, n, off = self.task.penalty, self.n, at.point[: self.n]
        variable, slope, n_variables = self._face(at.point)
        free = (variable >= 0) & groups[self.group]
        chosen = np.flatnonzero(free)
        variable, group = variable[chosen], np.zeros(n_variables, dtype=np.int64)
        group[variable] = self.group[chosen]
        leader_sign = np.zeros(n_variables)
        leader_sign[variable[::-1]] = np.sign(at.point[chosen[::-1]])
        sign = np.sign(at.point[chosen]) * leader_sign[variable]  # the maximum penalty has clusters of both signs
        unit = self.task.unit  # the accuracy of conjugate gradients is relative to the size of the objective
        measure = self.twice[chosen] * sign / unit

        def reduced(values: FloatArray) -> FloatArray:
            return bincount(variable, measure * values[chosen], n_variables)

        def expanded(z: FloatArray) -> FloatArray:
            out = np.zeros(len(at.point))
            out[chosen] = sign * z[variable]
            return out

        def hvp(z: FloatArray) -> FloatArray:
            d = expanded(z)
            product = self.product(d, free)
            if is_curved:
                product[:n] += penalty.hvp(off, d[:n], self.entries)
            return reduced(product)

        of_penalty = penalty.hessian_diagonal(off, self.entries)
        is_curved = bool(of_penalty.any())
        diagonal = self.curvature + self.extra
        diagonal[:n] += of_penalty
        jacobi = bincount(variable, self.twice[chosen] * diagonal[chosen] / unit, n_variables)
        jacobi[jacobi == 0.0] = 1.0
        z, _ = conjugate_gradients(
            hvp, lambda r: r / jacobi, -reduced(self.gradient + at.product + slope),
            lambda v: bincount(group, v, len(groups)), lambda lengths: lengths[group], 0.1 * self.state.limits / unit,
            config.FACE_STEPS,
        )  # fmt: skip
        return expanded(z)

    def _face(self, point: FloatArray) -> tuple[IntArray, FloatArray, int]:
        """Cluster of each unknown, -1 at zeros, the gradient of the penalty on the face, and the number of clusters."""
        n, diagonal = self.n, point[self.n :]
        cluster, slope = self.task.penalty.face(point[:n], self.entries)
        number: IntArray = np.arange(len(diagonal))
        diagonal_slope = np.zeros(len(diagonal))
        if self.fused is not None:
            number, diagonal_slope = self.fused.face(diagonal)
        n_off = int(cluster.max(initial=-1)) + 1
        return (
            np.concatenate([cluster, number + n_off]),
            np.concatenate([slope, diagonal_slope]),
            n_off + int(number.max()) + 1,
        )


class _ModelPoint(NamedTuple):
    """A point, the Hessian times its distance from x, the change of model plus penalty (G,), and the penalty (G,)."""

    point: FloatArray
    product: FloatArray
    value: FloatArray
    penalties: FloatArray
