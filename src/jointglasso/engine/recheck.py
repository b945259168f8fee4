"""The check after a dynamic screen: whether the pairs that were cut satisfy the optimality conditions."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.linalg import factorize
from jointglasso.blocks.system import bincount
from jointglasso.penalties import PairPenalty


def violated_pairs(system: BlockSystem, theta: FloatArray, penalty: PairPenalty) -> tuple[IntArray, IntArray]:
    """Variables i < j of the pairs that may not stay cut in the classes where they wait.

    A pair that is non-zero in some class leaves the other classes no more than lambda1 each; a pair that is zero
    everywhere must fit, with the classes that hold it and those that do not, into one dual ball.
    """
    watched = system.spent > 0
    if not watched.any():
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    weight = system.block_weight[system.entry_block]
    entries = system.gather(theta)
    u = weight * (system.gather(factorize(system, theta).inverse) - system.gather(system.S))
    used = bincount(system.pair_of_entry, penalty.excess(u), system.n_pairs) + system.spent
    nonzero = bincount(system.pair_of_entry, np.abs(entries), system.n_pairs) > 0
    violated = np.flatnonzero(watched & (nonzero | (used > penalty.lambda2**2)))
    i, j = system.pair_variables
    return i[violated], j[violated]
