"""Arguments of compiled code: penalties, pairs, blocks and dual variables as named tuples of numbers and arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jointglasso._typing import FloatArray, IntArray

#: Shapes of the class graph: any graph; complete with edge weights ``mass_k mass_l``; a forest.
GENERAL, COMPLETE, FOREST = range(3)

#: Rows of the integer workspace of one pair, for every penalty.
N_INTEGER_ROWS = 7


class GroupPair(NamedTuple):
    """Group penalty of a pair: ``lambda1 |t|_1 + lambda2 |t|_2``, t (K,) its entries."""

    lambda1: float
    lambda2: float


class MaximumPair(NamedTuple):
    """Maximum penalty of a pair: ``lambda1 |t|_1 + lambda2 max_k |t_k|``, t (K,) its entries."""

    lambda1: float
    lambda2: float


class CommonPair(NamedTuple):
    """Common substructure penalty of a pair: ``min_c rho |c| + gamma sum_k |t_k - c|`` over all K classes."""

    gamma: float
    rho: float
    n_classes: int


class FusedPair(NamedTuple):
    """Fused penalty ``sum_k l1_k |t_k| + sum_{k<l} g_kl |t_k - t_l|`` of a pair."""

    l1: FloatArray
    """(K,): weights of |t_k|."""
    class_graph: FloatArray
    """(K, K): edge weights g_kl of the class graph, symmetric, zero without an edge."""
    shape: int
    """GENERAL, COMPLETE or FOREST; all have one type, so that kernels with a long compile time are compiled once."""
    mass: FloatArray
    """(K,): COMPLETE: ``g_kl = mass[k] * mass[l]``."""
    parent: IntArray
    """(K,): FOREST: parent of each class, -1 at a root."""
    order: IntArray
    """(K,): FOREST: classes in topological order, parents first."""


class LaplacianPair(NamedTuple):
    """Laplacian penalty ``sum_k l1_k |t_k| + sum_{k<l} g_kl (t_k - t_l)^2`` of a pair."""

    l1: FloatArray
    """(K,): weights of |t_k|."""
    class_graph: FloatArray
    """(K, K): edge weights g_kl of the class graph, symmetric, zero without an edge."""


class PenaltyWorkspace(NamedTuple):
    """Scratch rows of the functions of one pair, with a number for each class: as many as the penalty needs."""

    real: FloatArray
    """(R, K)."""
    integer: IntArray
    """(N_INTEGER_ROWS, K)."""


class PairClasses(NamedTuple):
    """One pair of variables: entries in the classes ``cls[:n]``, ascending, and screened out (zero) in the others."""

    cls: IntArray
    n: int
    v: float
    """Weight of the coupling term of the pair."""
    l1: FloatArray
    """(n,): weight of |t_k| in each of these classes, lambda1 included; infinite where the entry is forbidden."""
    work: PenaltyWorkspace


class Entries(NamedTuple):
    """Entries of P pairs, pair after pair, the classes that contain a pair in ascending order."""

    start: IntArray
    """(P + 1,): the entries of pair q are start[q]:start[q + 1]."""
    cls: IntArray
    """(E,): class of each entry; empty for penalties that treat all classes alike."""
    factor: FloatArray
    """(P,): weight of each pair in the penalty; empty where all are 1."""
    n_classes: int
    """Number of classes K, with or without entries."""
    l1: FloatArray = np.empty(0)
    """(E,): weight of each entry in the L1 part; empty where it is that of the pair."""


class Blocks(NamedTuple):
    """Class blocks of a system in flat storage: block b is a matrix (size[b], size[b]) from offset[b] on."""

    offset: IntArray
    size: IntArray
    member_start: IntArray
    """First member of each block in arrays over the members (the rows of all blocks)."""
    weight: FloatArray
    """Weight w_k of the class of each block."""
    S: FloatArray
    """Covariances, flat."""
    l1_weight: FloatArray
    """L1 weight at each position of flat storage, infinite for a forbidden edge; empty where all are 1."""
    coupling: FloatArray = np.empty(0)
    """Weight of the coupling term of the pair at each position; empty where it is the L1 weight."""


class PermutedBlocks(NamedTuple):
    """Class blocks of one group. The variables of a large one, and so its rows, are in the order of the sweeps."""

    block_of: IntArray
    slot_of: IntArray
    """(K, U) both: block of each variable in each class and its row there, -1 where the class lacks it."""
    variable: IntArray
    """Variable of each member of the blocks."""
    offset: IntArray
    size: IntArray
    member_start: IntArray
    weight: FloatArray
    """Weight w_k of the class of each block."""
    S: Any
    """Covariances, flat, in the precision of W."""
    l1_weight: Any
    """L1 weight at each position, infinite for a forbidden edge; empty where all are 1."""
    coupling: Any = np.empty(0)
    """Weight of the coupling term of the pair at each position; empty where it is the L1 weight."""


class SparseColumns(NamedTuple):
    """Columns of Theta off the diagonal, each from its own update (not symmetric): CSR over the U variables."""

    start: IntArray
    other: IntArray
    """(nnz,): row of each pair."""
    value: FloatArray
    """(nnz, K): entries in all classes."""


class DualState(NamedTuple):
    """Iterates of the column sweeps over a group: W, and Theta column by column."""

    W: Any
    """W, flat, in single precision for a large group, else in double precision."""
    tau: FloatArray
    """(M,): diagonal of Theta, in the order of the members."""
    columns: SparseColumns
