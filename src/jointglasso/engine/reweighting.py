"""Concave penalties by local linear approximation: convex solves whose pair weights follow from the solve before.

With phi the penalty of a pair and h concave (`penalties/shapes.py`), the objective is::

    F(Theta) = f(Theta) + 2 sum_{i<j} v_ij c h(phi(theta_ij) / c),   c = (lambda1 + lambda2)^2 / (mean class weight)

With one class, phi / c is |theta| in units of lambda1, as in the definitions of SCAD and MCP.
Since h is concave, ``h(s) <= h(s_0) + h'(s_0) (s - s_0)``: the convex problem with pair weights ``v_ij h'(s_0)`` plus a
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
from jointglasso.engine.tasks import WarmStart
from jointglasso.penalties import PairWeights
from jointglasso.penalties.shapes import Shape
from jointglasso.problem import JointProblem
from jointglasso.solution import Solution

Solve = Callable[[JointProblem, WarmStart | None], Solution]


@dataclass(frozen=True)
class _Sizes:
    """Penalties phi of the non-zero pairs of an estimate."""

    i: IntArray
    j: IntArray
    phi: FloatArray
    base: FloatArray
    """Pair weights v_ij of the problem."""

    @classmethod
    def of(cls, problem: JointProblem, precision: list[Any]) -> _Sizes:
        p, penalty = problem.source.n_variables, problem.penalty
        upper = [sparse.triu(sparse.csr_array(Theta), 1, format="coo") for Theta in precision]
        keys = np.unique(np.concatenate([U.row.astype(np.int64) * p + U.col for U in upper]))
        i, j = np.divmod(keys, p)
        rows = np.zeros((len(keys), len(precision)))
        for k, U in enumerate(upper):
            rows[np.searchsorted(keys, U.row.astype(np.int64) * p + U.col), k] = U.data
        values, entries = penalty.as_entries(penalty.mask_missing(rows, i, j))
        base = np.ones(len(keys)) if problem.pair_weights is None else problem.pair_weights.factors(i, j)
        return cls(i, j, penalty.value(values, entries) if len(keys) else np.empty(0), base)


def _sum(weights: FloatArray, values: FloatArray) -> float:
    """``2 sum_{i<j} weights_ij values_ij``."""
    return 2.0 * float(weights @ values)


def reweight(problem: JointProblem, shape: Shape, start: WarmStart | None, solve: Solve, tol: float) -> Solution:
    """Solution of the last convex problem; `parameters` holds the concave objectives and the stationarity gap."""
    scale = (problem.penalty.lambda1 + problem.penalty.lambda2) ** 2 / problem.unit
    solution = solve(problem, start)
    sizes = _Sizes.of(problem, solution.precision)
    smooth = solution.objective - _sum(sizes.base, sizes.phi)  # likelihood and diagonal terms
    objectives = (
        [smooth + _sum(sizes.base, scale * shape.value(sizes.phi / scale))] if scale > 0.0 else [solution.objective]
    )
    stationarity, n_iter = np.inf, solution.n_iter
    for _ in range(shape.max_steps if scale > 0.0 else 0):
        if not solution.status or not len(sizes.phi):
            break
        weights = _weights(problem, sizes, shape.slope(sizes.phi / scale))
        majoriser = smooth + _sum(weights.factors(sizes.i, sizes.j), sizes.phi)
        solution = solve(replace(problem, pair_weights=weights), WarmStart(solution.precision, trusted=True))
        n_iter, gap = n_iter + solution.n_iter, solution.certificate.gap
        stationarity = max(majoriser - (solution.objective - gap), 0.0)
        sizes = _Sizes.of(problem, solution.precision)
        smooth = solution.objective - _sum(weights.factors(sizes.i, sizes.j), sizes.phi)
        objectives.append(smooth + _sum(sizes.base, scale * shape.value(sizes.phi / scale)))
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


def _weights(problem: JointProblem, sizes: _Sizes, slope: FloatArray) -> PairWeights:
    """Pair weights v_ij h'(s_ij) at the non-zero pairs and v_ij elsewhere."""
    p = problem.source.n_variables
    keys, values = sizes.i * p + sizes.j, sizes.base * slope
    if problem.pair_weights is not None:
        i, j, v = problem.pair_weights.exceptions
        other = ~np.isin(i * p + j, keys)
        keys, values = np.concatenate([keys, (i * p + j)[other]]), np.concatenate([values, v[other]])
    return PairWeights(*np.divmod(keys, p), values, p)
