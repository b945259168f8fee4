"""Closed-form solution of groups whose class graphs are forests, and a starting point for others.

If the strong edges of every class form a forest, the optimal W on each edge {i, j} solves the two-variable problem of
that edge over the classes that have it, and Theta follows from W edge by edge::

    theta_ij = -W_ij / (W_ii W_jj - W_ij^2),    theta_ii = (1 + sum_j W_ij^2 / (W_ii W_jj - W_ij^2)) / W_ii

This is exact if the optimality conditions hold on all other pairs; the duality gap, which is then zero up to
rounding, verifies it. With cycles, the same formulas on a maximum spanning forest give a positive definite starting
point close to the solution.
"""

from __future__ import annotations

import numpy as np

from jointglasso._threads import Workers
from jointglasso._typing import BoolArray, FloatArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.system import bincount
from jointglasso.penalties import UNIFORM, PairPenalty

#: Pairs above which a second thread is used.
_MIN_PAIRS_FOR_THREADS = 1000


def strong_pairs(system: BlockSystem, penalty: PairPenalty) -> BoolArray:
    """(P,): pairs with w S outside the dual ball, which violate the optimality conditions of the empty graph."""
    return ~penalty.is_dual_feasible(system.weigh(system.gather(system.S)), system.entries(penalty))


def forest_solution(
    system: BlockSystem,
    penalty: PairPenalty,
    diagonal_penalty: float,
    violates_global: BoolArray,
    n_threads: int = 1,
    *,
    only_forests: bool = False,
) -> tuple[FloatArray, BoolArray]:
    """Theta in flat storage from the closed form, and (G,) whether each group is a forest, given the strong pairs.

    With `only_forests`, the other groups get the diagonal start.
    """
    from jointglasso.kernels.components import components
    from jointglasso.kernels.forest import forest_covariances

    pairs = np.flatnonzero(violates_global)
    entries, start = system.entries_of(pairs)
    positions = system.upper[entries]
    row, column = system.entry_members(entries)
    weight = system.block_weight[system.entry_block[entries]]
    S = system.S[positions]
    variance = system.optimal_variance(diagonal_penalty)
    product = variance[row] * variance[column]
    factor = system.pair_coupling[pairs] if len(system.pair_factor) else UNIFORM
    per_entry = system.entry_factor[entries] if len(system.pair_factor) else 1.0
    threshold = np.array([penalty.threshold(k) for k in range(system.n_classes)])
    l1 = per_entry * threshold[system.block_class[system.entry_block[entries]]]
    edge = np.abs(weight * S) > l1
    edges = np.flatnonzero(edge)
    strength = np.abs(S[edges]) / np.sqrt(product[edges])
    order = edges[np.argsort(-strength, kind="stable")]
    taken = np.zeros(len(edge), dtype=bool)
    taken[order] = components(len(system.members), row[order], column[order])[1]
    forest = np.ones(system.n_groups, dtype=bool)
    group = system.block_group[system.entry_block[entries]]
    forest[group[edge & ~taken]] = False
    theta = np.zeros(system.S.shape)
    theta[system.diagonal] = 1.0 / variance
    if only_forests:
        taken &= forest[group]
    if not taken.any():
        return theta, forest
    W = np.zeros_like(S)
    workers = Workers(n_threads if len(pairs) > _MIN_PAIRS_FOR_THREADS else 1)
    parts = np.linspace(0, len(pairs), workers.n_threads + 1).astype(np.int64)
    workers.run(forest_covariances, parts, start, factor, taken, (S, weight, product, l1), penalty.pair, W)
    value = -W / (product - W * W)
    term = -value * W
    extra = bincount(row, term, len(variance)) + bincount(column, term, len(variance))
    theta[positions] = theta[system.lower[entries]] = value
    theta[system.diagonal] = (1.0 + extra) / variance
    return theta, forest
