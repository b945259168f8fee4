"""The check after a dynamic screen: whether the pairs that were cut satisfy the optimality conditions.

A waiting pair is held by some classes and cut in others, where it uses up `spent` of its dual budget lambda2^2. If it
is non-zero where it is held, the classes where it is cut have no more than lambda1 each; if it is zero everywhere, all
classes together must fit into one dual ball.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.system import bincount
from jointglasso.certificate import Bounds, largest_subgradient
from jointglasso.penalties import UNIFORM, PairPenalty


def violated_pairs(
    system: BlockSystem, theta: FloatArray, bounds: Bounds, spent: FloatArray, penalty: PairPenalty
) -> tuple[IntArray, IntArray]:
    """Variables i < j of the waiting pairs that fail the check at `theta` and must be merged."""
    if not spent.any():
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    entries, pair, factor = _waiting_entries(system, spent)
    at = system.upper[entries]
    u = system.weigh(bounds.inverse[at] - system.S[at], entries)
    used = bincount(pair, penalty.excess(u, factor), system.n_pairs) + spent
    nonzero = bincount(pair, np.abs(theta[at]), system.n_pairs) > 0
    violated = np.flatnonzero((spent > 0) & (nonzero | (used > penalty.budget(system.pair_factor))))
    i, j = system.pair_variables
    return i[violated], j[violated]


def respects_cuts(
    system: BlockSystem, theta: FloatArray, dual: FloatArray, spent: FloatArray, penalty: PairPenalty
) -> bool:
    """Whether a dual point leaves the classes where the waiting pairs are cut what they use of the budget."""
    entries, pair, factor = _waiting_entries(system, spent)
    at = system.upper[entries]
    if theta[at].any():
        return False
    u = system.weigh(dual[at] - system.S[at], entries)
    used = bincount(pair, penalty.excess(u, factor), system.n_pairs)
    return bool((used + spent <= penalty.budget(system.pair_factor))[spent > 0].all())


def groups_with_unproved_cuts(system: BlockSystem, bounds: Bounds, spent: FloatArray, penalty: PairPenalty) -> IntArray:
    """Groups with a waiting pair of which the gap does not prove that it passes the check at the exact solution.

    If there are none, the exact solution of the restricted problem is that of the whole problem, and the bounds of the
    restricted problem are bounds of it.
    """
    if not spent.any():
        return np.empty(0, dtype=np.int64)
    entries, pair, factor = _waiting_entries(system, spent)
    largest = largest_subgradient(system, bounds.dual, bounds.gap, entries)
    used = bincount(pair, penalty.excess(largest, factor), system.n_pairs)
    budget = penalty.budget(system.pair_factor)
    # The pair is zero where it is held if its entries stay inside the dual ball, or each of them below lambda1 ...
    too_large = bincount(pair, (~penalty.below(largest, factor)).astype(float), system.n_pairs) > 0
    maybe_nonzero = (used >= budget) & too_large
    # ... and may be cut in the others if all of them together fit into the ball.
    unproved = (spent > 0) & (maybe_nonzero | (used + spent > budget))
    return np.unique(system.pair_group[unproved])


def _waiting_entries(system: BlockSystem, spent: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Entries of the waiting pairs, their pairs, and their weights in the penalty (empty where all are 1)."""
    waiting = np.flatnonzero(spent > 0)
    entries, start = system.entries_of(waiting)
    pair = np.repeat(waiting, np.diff(start))
    return entries, pair, system.pair_factor[pair] if len(system.pair_factor) else UNIFORM
