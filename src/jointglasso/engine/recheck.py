"""The check after a dynamic screen: whether the pairs that were cut satisfy the optimality conditions.

A waiting pair is held by some classes and cut in others, where it uses up `spent` of its dual budget lambda2^2. If it
is non-zero where it is held, the classes where it is cut have no more than lambda1 each; if it is zero everywhere, all
classes together must fit into one dual ball.
"""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.certificate import Bounds, largest_subgradient, used_at_most
from jointglasso.penalties import UNIFORM, PairPenalty


class _Waiting:
    """The waiting pairs of a system, with their entries one pair after another."""

    def __init__(self, system: BlockSystem, spent: FloatArray) -> None:
        self.system = system
        self.pairs = np.flatnonzero(spent > 0)
        self.entries, self.start = system.entries_of(self.pairs)
        self.at = system.upper[self.entries]
        self.spent = spent[self.pairs]
        self.factor = system.pair_factor[self.pairs] if len(system.pair_factor) else UNIFORM

    def used(self, subgradient: FloatArray, penalty: PairPenalty) -> FloatArray:
        """Part of their dual budget that the classes which hold them use."""
        return penalty.used(subgradient, self.start, self.factor)

    def subgradient(self, W: FloatArray) -> FloatArray:
        """Of their entries, given W in flat storage."""
        return self.system.weigh(W[self.at] - self.system.S[self.at], self.entries)

    def any_of(self, entries: BoolArray) -> BoolArray:
        """Pairs of which some entry is marked."""
        return np.logical_or.reduceat(entries, self.start[:-1])


def violated_pairs(
    system: BlockSystem, theta: FloatArray, bounds: Bounds, spent: FloatArray, penalty: PairPenalty
) -> tuple[IntArray, IntArray]:
    """Variables i < j of the waiting pairs that fail the check at `theta` and must be merged."""
    if not spent.any():
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    waiting = _Waiting(system, spent)
    used = waiting.used(waiting.subgradient(bounds.inverse), penalty) + waiting.spent
    failed = waiting.any_of(theta[waiting.at] != 0.0) | (used > penalty.budget(waiting.factor))
    row, column = system.entry_members(system.pair_start[waiting.pairs[failed]])
    return system.members[row], system.members[column]


def respects_cuts(
    system: BlockSystem, theta: FloatArray, dual: FloatArray, spent: FloatArray, penalty: PairPenalty
) -> bool:
    """Whether a dual point leaves the classes where the waiting pairs are cut what they use of the budget."""
    waiting = _Waiting(system, spent)
    if theta[waiting.at].any():
        return False
    used = waiting.used(waiting.subgradient(dual), penalty)
    return bool((used + waiting.spent <= penalty.budget(waiting.factor)).all())


def groups_with_unproved_cuts(system: BlockSystem, bounds: Bounds, spent: FloatArray, penalty: PairPenalty) -> IntArray:
    """Groups with a waiting pair of which the gap does not prove that it passes the check at the exact solution.

    If there are none, the exact solution of the restricted problem is that of the whole problem, and the bounds of the
    restricted problem are bounds of it.
    """
    if not spent.any():
        return np.empty(0, dtype=np.int64)
    waiting = _Waiting(system, spent)
    largest = largest_subgradient(system, bounds.dual, bounds.gap, waiting.entries)
    used, budget = used_at_most(waiting.used(largest, penalty), system), penalty.budget(waiting.factor)
    # The pair is zero where it is held if its entries stay inside the dual ball, or each of them below lambda1 ...
    per_entry = np.repeat(waiting.factor, np.diff(waiting.start)) if len(waiting.factor) else UNIFORM
    maybe_nonzero = (used >= budget) & waiting.any_of(~penalty.below(largest, per_entry))
    # ... and may be cut in the others if all of them together fit into the ball.
    unproved = waiting.pairs[maybe_nonzero | (used + used_at_most(waiting.spent, system) >= budget)]
    return np.unique(system.block_group[system.entry_block[system.pair_start[unproved]]])
