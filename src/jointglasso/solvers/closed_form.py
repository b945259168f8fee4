"""Exact solution of groups whose class graphs are forests, and a good start for all others.

If the strong edges of every class form a forest, the optimal W on each edge {i, j} solves the two-variable problem of
that edge alone, over the classes that have it, and Theta follows from W edge by edge::

    theta_ij = -W_ij / (W_ii W_jj - W_ij^2),    theta_ii = (1 + sum_j W_ij^2 / (W_ii W_jj - W_ij^2)) / W_ii

This is exact wherever the optimality conditions hold on the pairs that are no edges; the duality gap, which
is then zero up to rounding, is the check. With cycles the same formulas on a maximum spanning forest give a positive
definite start close to the solution.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.system import bincount
from jointglasso.penalties import PairPenalty


def forest_solution(system: BlockSystem, penalty: PairPenalty, diagonal_penalty: float) -> tuple[FloatArray, BoolArray]:
    """Theta in flat storage from the closed form, and which groups are forests."""
    from jointglasso.kernels.forest import forest_covariances, spanning_forest

    row, column = system.entry_members()
    weight = system.block_weight[system.entry_block]
    S = system.gather(system.S)
    variance = system.optimal_variance(diagonal_penalty)
    product = variance[row] * variance[column]
    edge = _strong_entries(system, penalty, weight * S)
    edges = np.flatnonzero(edge)
    strength = np.abs(S[edges]) / np.sqrt(product[edges])
    order = edges[np.argsort(-strength, kind="stable")]
    taken, closes_cycle = spanning_forest(order, edge, row, column, len(system.members))
    W = forest_covariances(
        system.pair_start, system.pair_factor, taken, S, weight, product, penalty.lambda1, penalty.lambda2
    )
    theta = -W / (product - W * W)
    share = -theta * W
    extra = bincount(row, share, len(variance)) + bincount(column, share, len(variance))
    forest = np.ones(system.n_groups, dtype=bool)
    forest[system.block_group[system.entry_block[closes_cycle]]] = False
    return system.scatter(theta, (1.0 + extra) / variance), forest


def _strong_entries(system: BlockSystem, penalty: PairPenalty, weighted: FloatArray) -> BoolArray:
    """Entries above lambda1 whose pair is outside the dual ball."""
    used = bincount(system.pair_of_entry, penalty.excess(weighted, system.entry_factor), system.n_pairs)
    strong = used > penalty.budget(system.pair_factor)
    return penalty.above(weighted, system.entry_factor) & strong[system.pair_of_entry]
