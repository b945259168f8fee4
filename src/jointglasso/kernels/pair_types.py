"""What compiled code is given of a penalty, and of the entries it acts on: named tuples of numbers and arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

from jointglasso._typing import FloatArray, IntArray

#: Shapes of the graph of classes: any graph, all classes tied by ``mass_k mass_l``, a forest; or any graph whose ties
#: count squared, which is the Laplacian penalty.
GENERAL, COMPLETE, FOREST, LAPLACIAN = range(4)


class GroupPair(NamedTuple):
    """``lambda1 |t|_1 + lambda2 |t|_2`` of the K-vector t of a pair."""

    lambda1: float
    lambda2: float


class FusedPair(NamedTuple):
    """Coefficients of the fused penalty, and the shape of its graph of classes; or those of the Laplacian penalty.

    Both are one type, told apart by `shape` when a kernel runs: code that took long to compile is compiled once.
    """

    l1: FloatArray
    ties: FloatArray
    shape: int
    mass: FloatArray
    """COMPLETE: classes k and l are tied by ``mass[k] * mass[l]``."""
    parent: IntArray
    """FOREST: the neighbour towards the root of each class, -1 for a root."""
    order: IntArray
    """FOREST: the classes, parents before their children."""


class Held(NamedTuple):
    """One pair: held by the classes ``cls[:n]``, ascending, and zero in all others; v multiplies its penalty."""

    cls: IntArray
    n: int
    v: float


class Work(NamedTuple):
    """Room for the functions of one pair to work in, as much as the penalty asks for."""

    real: FloatArray
    whole: IntArray


class Entries(NamedTuple):
    """The entries of some pairs, one pair after another, the classes that hold a pair in ascending order."""

    start: IntArray
    """(P + 1,): entries of pair q are start[q]:start[q + 1]."""
    cls: IntArray
    """Class of each entry; empty for penalties that treat all classes alike."""
    factor: FloatArray
    """(P,): weight of each pair in the penalty; empty where all are 1."""
    n_classes: int
    """Number of classes K, whether they hold pairs or not."""


class Blocks(NamedTuple):
    """The class blocks of a system in flat storage, with what the likelihood and the penalty need of them."""

    offset: IntArray
    size: IntArray
    member_start: IntArray
    weight: FloatArray
    """Of the class of each block."""
    S: FloatArray
    factor: FloatArray
    """Weight of each pair at its places in flat storage, infinite where it is forbidden; empty where all are 1."""


class Places(NamedTuple):
    """Where the variables of a group are: (K, U) block and place there in each class, -1: in none."""

    block_of: IntArray
    slot_of: IntArray
    variable: IntArray
    """Number within the group of each member of the blocks."""


class Columns(NamedTuple):
    """What a sweep over the columns changes."""

    W: Any
    """In single or double precision."""
    theta: FloatArray
    """Row j of a block: the column of its variable j off the diagonal, as that column sees it."""
    precision: FloatArray
    """Diagonal of Theta, in the order of the members."""


class Stack(NamedTuple):
    """The class blocks of one big group; its variables, and so the rows of the blocks, in the order of the sweeps."""

    block_of: IntArray
    slot_of: IntArray
    """(K, U): block of each variable in each class and place there, -1: in none."""
    variable: IntArray
    """Variable of each member of the blocks."""
    offset: IntArray
    size: IntArray
    member_start: IntArray
    weight: FloatArray
    """Of the class of each block."""
    S: Any
    """Covariances in single precision."""
    factor: Any
    """Weight of each pair at its places, infinite where it is forbidden; empty where all are 1."""


class SparseColumns(NamedTuple):
    """Columns of Theta off the diagonal, as each column sees itself: CSR over the variables."""

    start: IntArray
    other: IntArray
    value: FloatArray
    """(n, K): in all classes."""


class Ascent(NamedTuple):
    """What a sweep over the columns of a big group changes."""

    W: Any
    """In single precision."""
    precision: FloatArray
    """Diagonal of Theta, in the order of the members."""
    columns: SparseColumns
