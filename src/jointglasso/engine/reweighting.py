"""Concave penalties by local linear approximation: convex solves whose weights follow from the solve before.

With h concave (`penalties/shapes.py`) and the penalty of a pair the sum of terms phi_m, the objective is::

    F(Theta) = f(Theta) + 2 sum_{i<j} sum_m v_ijm c_m h(phi_m(theta_ij) / c_m)

The terms are lambda1 |theta_k,ij| for each class and the coupling term, so that an edge that is strong in one class is
penalised less there and as before in the others. "sqrt" (Guo et al. 2011), penalty="common" and a single class have one
term, the penalty of the pair. Each c_m is the coefficient of its term times (lambda1 + lambda2) / (mean class weight):
with one class phi / c is |theta| in units of lambda1 + lambda2, as in the definitions of SCAD and MCP.
Since h is concave, ``h(s) <= h(s_0) + h'(s_0) (s - s_0)``: the convex problem with weights ``v_ijm h'(s_0)`` plus a
constant majorises F and touches it at Theta_0, so that its solution does not increase F (by more than its gap). The
weights stay 1 at zero pairs; they are listed for the non-zero pairs only.

Stationarity: F and the majoriser at Theta_0 have the same directional derivatives at Theta_0. The difference between
the majoriser at Theta_0 and a lower bound on its minimum, the dual value of the next solve, is therefore a certified
stationarity gap of Theta_0: it vanishes if and only if Theta_0 is a stationary point of F.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray
from jointglasso.data.checks import InputError
from jointglasso.engine.tasks import WarmStart
from jointglasso.penalties import PairWeights
from jointglasso.penalties.shapes import Shape, penalty_terms
from jointglasso.problem import JointProblem
from jointglasso.solution import Solution

Solve = Callable[[JointProblem, WarmStart | None], Solution]


@dataclass(frozen=True)
class _Terms:
    """Terms of the penalties of the non-zero pairs of an estimate."""

    i: IntArray
    j: IntArray
    phi: FloatArray
    """(m, T): the coupling term and the L1 terms of the classes, or the penalty of the pair."""
    base: FloatArray
    """(m, T): weights v_ijm of the problem."""
    scale: FloatArray
    """(T,): c_m; zero for a term that vanishes."""

    @classmethod
    def of(cls, problem: JointProblem, precision: list[Any], by_class: bool) -> _Terms:
        p, penalty = problem.source.n_variables, problem.penalty
        upper = [sparse.triu(sparse.csr_array(Theta), 1, format="coo") for Theta in precision]
        keys = np.unique(np.concatenate([U.row.astype(np.int64) * p + U.col for U in upper]))
        i, j = np.divmod(keys, p)
        rows = np.zeros((len(keys), len(precision)))
        for k, U in enumerate(upper):
            rows[np.searchsorted(keys, U.row.astype(np.int64) * p + U.col), k] = U.data
        factor = np.ones(len(keys)) if problem.pair_weights is None else problem.pair_weights.factors(i, j)
        phi, scale = penalty_terms(penalty, penalty.mask_missing(rows, i, j), problem.unit, by_class)
        base = factor if factor.ndim == 2 else np.tile(factor[:, None], len(scale))
        return cls(i, j, phi, base, scale)

    def total(self, weights: FloatArray) -> float:
        """``2 sum_{i<j} sum_m weights_ijm phi_ijm``; forbidden entries are zero and count nothing."""
        return 2.0 * float(np.where(self.phi > 0.0, weights, 0.0).ravel() @ self.phi.ravel())

    def concave(self, shape: Shape) -> float:
        """``2 sum_{i<j} sum_m v_ijm c_m h(phi_ijm / c_m)``."""
        value = np.where(self.scale > 0.0, self.scale * shape.value(self._size), self.phi)
        return 2.0 * float(np.where(self.phi > 0.0, self.base, 0.0).ravel() @ value.ravel())

    def slopes(self, shape: Shape) -> FloatArray:
        """(m, T): weights ``v_ijm h'(phi_ijm / c_m)`` of the majorising problem."""
        return self.base * np.where(self.scale > 0.0, shape.slope(self._size), 1.0)

    @property
    def _size(self) -> FloatArray:
        return self.phi / np.where(self.scale > 0.0, self.scale, 1.0)


def reweight(problem: JointProblem, shape: Shape, start: WarmStart | None, solve: Solve, tol: float) -> Solution:
    """Solution of the last convex problem; `parameters` holds the concave objectives and the stationarity gap."""
    whole_pairs = shape.name == "sqrt" or problem.penalty.parameters()["penalty"] == "common"
    by_class = problem.source.n_classes > 1 and not whole_pairs
    if not by_class and problem.pair_weights is not None and problem.pair_weights.by_class:
        raise InputError(
            f'penalty_shape="{shape.name}" acts on whole pairs here and takes one weight for a pair: leave weights by '
            "class out.", "pair_weights",
        )  # fmt: skip
    penalised = problem.penalty.scale > 0.0
    solution = solve(problem, start)
    terms = _Terms.of(problem, solution.precision, by_class)
    smooth = solution.objective - terms.total(terms.base)  # likelihood and diagonal terms
    objectives = [smooth + terms.concave(shape)] if penalised else [solution.objective]
    stationarity, n_iter = np.inf, solution.n_iter
    for _ in range(shape.max_steps if penalised else 0):
        if not solution.status or not len(terms.phi):
            break
        slopes = terms.slopes(shape)
        majoriser = smooth + terms.total(slopes)
        weights = _weights(problem, terms, slopes)
        solution = solve(replace(problem, pair_weights=weights), WarmStart(solution.precision, trusted=True))
        n_iter, gap = n_iter + solution.n_iter, solution.certificate.gap
        stationarity = max(majoriser - (solution.objective - gap), 0.0)
        terms = _Terms.of(problem, solution.precision, by_class)
        smooth = solution.objective - terms.total(weights.factors(terms.i, terms.j).reshape(terms.base.shape))
        objectives.append(smooth + terms.concave(shape))
        unit = max(problem.unit, abs(objectives[-1]))
        if solution.status and objectives[-1] > objectives[-2] + gap + 1e-9 * unit:
            raise RuntimeError("A reweighting step increased the concave objective by more than its duality gap.")
        if stationarity <= 10.0 * tol * unit:
            break
    return replace(solution, n_iter=n_iter, parameters=solution.parameters | {
        "penalty_shape": shape.name,
        "shape_parameter": shape.parameter,
        "concave_objectives": [float(value) for value in objectives],
        "stationarity_gap": None if np.isinf(stationarity) else float(stationarity),
    })  # fmt: skip


def _weights(problem: JointProblem, terms: _Terms, slopes: FloatArray) -> PairWeights:
    """Weights `slopes` at the non-zero pairs and those of the problem elsewhere."""
    p = problem.source.n_variables
    keys, values = terms.i * p + terms.j, slopes
    if problem.pair_weights is not None:
        i, j, v = problem.pair_weights.exceptions
        other = ~np.isin(i * p + j, keys)
        v = v if v.ndim == 2 else np.tile(v[:, None], slopes.shape[1])
        keys, values = np.concatenate([keys, (i * p + j)[other]]), np.concatenate([values, v[other]])
    if slopes.shape[1] == 1:
        return PairWeights(*np.divmod(keys, p), values[:, 0], p)
    values[np.isinf(values[:, 0]), 0] = 1.0  # forbidden by the weights of all classes
    return PairWeights(*np.divmod(keys, p), values, p)
