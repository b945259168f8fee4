"""One large group in sparse storage: candidate pairs with their covariances, working sets of entries, and points.

Candidates are the pairs of a scan with slack, and those with a weight below 1: every other pair has a weighted
covariance of at most `t` times its weight in each class, so that it is inside the dual ball while ``w_k |W_k,ij| <=
slack`` in each class. Theta is non-zero at entries (pair, class) of a working set, a subset of the candidates and of
other pairs that were found to violate the conditions. Each class has an elimination order of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from jointglasso import config
from jointglasso._cached_property import cached_property
from jointglasso._threads import Workers, single_threaded_blas
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks.big_group import BigGroup, GroupSupport
from jointglasso.blocks.sparse_factor import FactorSparsity, SparseFactor, SparseInverse, neighbours
from jointglasso.blocks.system import find_keys
from jointglasso.kernels.pair_types import Entries
from jointglasso.penalties import PairPenalty

Result = TypeVar("Result")

#: Fraction of the slack at which an entry of W is listed.
LISTED_SLACK = 0.6


@dataclass(frozen=True)
class SparseGroup:
    """A group with its candidate pairs i < j (indices within the group, sorted) and the slack of all others."""

    layout: BigGroup
    penalty: PairPenalty
    diagonal_penalty: float
    i: IntArray
    j: IntArray
    slack: float
    n_threads: int = 1

    @cached_property
    def weights(self) -> FloatArray:
        """(K,): weight of each class with a block in the group, 0 for the others."""
        weights = np.zeros(self.layout.n_classes)
        weights[self.layout.block_class] = self.layout.block_weight
        return weights

    @cached_property
    def classes(self) -> list[int]:
        """Classes with a block in the group."""
        return np.unique(self.layout.block_class).tolist()

    def map_classes(self, function: Callable[[int], Result]) -> dict[int, Result]:
        """Results of a function for each class, on threads; with several classes BLAS has one thread."""
        with single_threaded_blas() if len(self.classes) > 1 else nullcontext():
            return dict(zip(self.classes, Workers(self.n_threads).map(function, self.classes), strict=True))

    def map_pieces(
        self, function: Callable[[tuple[int, IntArray]], Result], indices: Iterable[tuple[int, IntArray]], n_pieces: int
    ) -> list[Result]:
        """Apply a function to parts of index arrays, one array for each class, on threads with single-threaded BLAS."""
        pieces = [(k, part) for k, index in indices for part in np.array_split(index, n_pieces) if len(part)]
        with single_threaded_blas():
            return Workers(self.n_threads).map(function, pieces)

    @cached_property
    def member_class(self) -> IntArray:
        """(M,): class of each member."""
        return self.layout.block_class[self.layout.member_block]

    @cached_property
    def members_of(self) -> dict[int, IntArray]:
        """Members of each class in the order of its matrices, that of the variables."""
        by_variable = np.argsort(self.layout.local, kind="stable")
        return {k: by_variable[self.member_class[by_variable] == k] for k in self.classes}

    @cached_property
    def slot(self) -> IntArray:
        """(M,): row of each member in the matrices of its class."""
        slot = np.empty(len(self.layout.members), dtype=np.int64)
        for members in self.members_of.values():
            slot[members] = np.arange(len(members))
        return slot

    @cached_property
    def diagonal(self) -> FloatArray:
        """(M,): diagonal of S."""
        return self.layout.diagonal()

    @cached_property
    def in_block(self) -> BoolArray:
        """(P, K): whether a candidate lies inside a block of each class."""
        return self.layout.class_mask(self.i, self.j)

    @cached_property
    def S(self) -> FloatArray:
        """(P, K): covariances of the candidates, zero outside the blocks."""
        return self.covariances(self.i, self.j, self.in_block)

    def covariances(self, i: IntArray, j: IntArray, in_block: BoolArray) -> FloatArray:
        """(P, K): covariances of pairs inside the blocks; zero elsewhere."""
        S, variables, source = np.zeros(in_block.shape), self.layout.variables, self.layout.source

        def fill(piece: tuple[int, IntArray]) -> None:
            k, pairs = piece
            S[pairs, k] = source.entries(k, variables[i[pairs]], variables[j[pairs]])

        of_class = [(k, np.flatnonzero(in_block[:, k])) for k in self.classes]
        self.map_pieces(fill, of_class, max(1, len(i) // config.PAIR_BATCH))
        return S

    def activated(self, theta: FloatArray, g: FloatArray) -> BoolArray:
        """(P, K): entries to activate at `theta` (P, K) with the negative gradient g: those at which Theta would move.

        Penalties that depend on the class have all classes of a pair in the working set.
        """
        in_block = self.in_block
        entries = self.layout.entries(self.penalty, self.i, self.j, in_block)
        moved = np.zeros(in_block.shape, dtype=bool)
        prox = self.penalty.prox((theta + g)[in_block], np.ones(len(theta)), entries)
        moved[in_block] = (prox != 0.0) | (theta[in_block] != 0.0)
        return in_block & moved.any(axis=1, keepdims=True) if self.penalty.class_dependent else moved

    def slack_exceeds(self, r: float) -> bool:
        """Whether pairs that are not listed stay within the slack if W changes by ``r sqrt(W_ii W_jj)``, W optimal."""
        variance = self.layout.optimal_variance(self.diagonal_penalty)
        change = r * float((self.weights[self.member_class] * variance).max()) * (1.0 + 1e-9)
        return bool(change < (1.0 - LISTED_SLACK) * self.slack)

    def find(self, i: IntArray, j: IntArray) -> IntArray:
        """Candidate of each pair (i, j); -1 if it is none."""
        n = len(self.layout.variables)
        return find_keys(self.i * n + self.j, i * n + j)

    def to_recheck(self, i: IntArray, j: IntArray) -> BoolArray:
        """(P,): candidates whose screening is rechecked: the deferred pairs (i, j), and all that some class lacks.

        The latter only for penalties that depend on the class.
        """
        marked = np.zeros(len(self.i) + 1, dtype=bool)
        marked[self.find(i, j)] = True
        if self.penalty.class_dependent:
            marked[:-1] |= ~self.in_block.all(axis=1)
        return marked[:-1]

    def with_pairs(self, i: IntArray, j: IntArray) -> SparseGroup:
        """The group with more candidates."""
        n = len(self.layout.variables)
        key = np.union1d(self.i * n + self.j, i * n + j)
        return self if len(key) == len(self.i) else replace(self, i=key // n, j=key % n)


@dataclass(frozen=True)
class ActiveEntries:
    """Entries (pair, class) at which Theta may be non-zero: `active` (P, K) marks them among the candidates."""

    group: SparseGroup
    active: BoolArray

    @cached_property
    def pairs(self) -> IntArray:
        """(Q,): candidates with an active entry."""
        return np.flatnonzero(self.active.any(axis=1))

    @cached_property
    def pair(self) -> IntArray:
        """(E,): candidate of each entry."""
        return np.nonzero(self.active)[0]

    @cached_property
    def cls(self) -> IntArray:
        """(E,): class of each entry."""
        return np.nonzero(self.active)[1]

    @cached_property
    def members(self) -> tuple[IntArray, IntArray]:
        """(E,), (E,): members of the row and the column of each entry."""
        member_of, group = self.group.layout.member_of, self.group
        return member_of[self.cls, group.i[self.pair]], member_of[self.cls, group.j[self.pair]]

    @cached_property
    def entries(self) -> Entries:
        """The entries as an argument of the penalty."""
        group, pairs = self.group, self.pairs
        return group.layout.entries(group.penalty, group.i[pairs], group.j[pairs], self.active[pairs])

    @cached_property
    def S(self) -> FloatArray:
        """(E,): covariances of the entries."""
        return self.group.S[self.active]

    @cached_property
    def weight(self) -> FloatArray:
        """(E,): class weight of each entry."""
        return self.group.weights[self.cls]

    @cached_property
    def of_class(self) -> dict[int, IntArray]:
        """Entries of each class."""
        return {k: np.flatnonzero(self.cls == k) for k in self.group.classes}

    @cached_property
    def sparsity(self) -> dict[int, FactorSparsity]:
        """Elimination order and sparsity of the factor of each class."""
        row, column = (self.group.slot[members] for members in self.members)
        return self.group.map_classes(
            lambda k: FactorSparsity.of(len(self.group.members_of[k]), row[self.of_class[k]], column[self.of_class[k]])
        )

    def factor(self, theta: FloatArray, diagonal: FloatArray) -> dict[int, SparseFactor] | None:
        """Factor of each class at the entries (E,) and the diagonal (M,); None if a class is not definite."""
        if not (diagonal > 0.0).all():
            return None
        computed = self.group.map_classes(
            lambda k: self.sparsity[k].factor(diagonal[self.group.members_of[k]], theta[self.of_class[k]])
        )
        factors = {k: factor for k, factor in computed.items() if factor is not None}
        return factors if len(factors) == len(computed) else None

    def gather(self, inverses: dict[int, SparseInverse]) -> tuple[FloatArray, FloatArray]:
        """(E,), (M,): W at the entries and on the diagonal."""
        entries, diagonal = np.empty(len(self.pair)), np.empty(len(self.group.layout.members))
        for k, inverse in inverses.items():
            entries[self.of_class[k]] = inverse.entries
            diagonal[self.group.members_of[k]] = inverse.diagonal
        return entries, diagonal

    def support(self, theta: FloatArray, diagonal: FloatArray) -> GroupSupport:
        """Theta as a list of pairs."""
        value = np.zeros((len(self.pairs), self.active.shape[1]))
        value[self.active[self.pairs]] = theta
        return GroupSupport(self.group.i[self.pairs], self.group.j[self.pairs], value, diagonal)

    def matrix(self, k: int, theta: FloatArray, diagonal: FloatArray) -> Any:
        """Theta of class k as an argument of `kernels.sparse_columns`."""
        from jointglasso.kernels.sparse_columns import SparseMatrix

        (row, column), slot, index = self.members, self.group.slot, self.of_class[k]
        index = index[theta[index] != 0.0]
        members = self.group.members_of[k]
        start, other, edge = neighbours(len(members), slot[row[index]], slot[column[index]])
        return SparseMatrix(diagonal[members], start, other, theta[index][edge])


@dataclass(frozen=True)
class SparsePoint:
    """Theta on a working set, with the factors and inverses of its classes."""

    working_set: ActiveEntries
    theta: FloatArray
    """(E,): entries of the working set."""
    diagonal: FloatArray
    """(M,): diagonal entries."""
    factors: dict[int, SparseFactor]
    inverses: dict[int, SparseInverse] = field(default_factory=dict)

    @classmethod
    def of(cls, working_set: ActiveEntries, theta: FloatArray, diagonal: FloatArray) -> SparsePoint | None:
        """The point with its factors; None if a class is not positive definite."""
        factors = working_set.factor(theta, diagonal)
        return None if factors is None else cls(working_set, theta, diagonal, factors)

    @property
    def group(self) -> SparseGroup:
        return self.working_set.group

    @property
    def support(self) -> GroupSupport:
        """Theta as a list of pairs."""
        return self.working_set.support(self.theta, self.diagonal)

    def inverted(self) -> SparsePoint:
        """The point with its inverses."""
        return replace(self, inverses=self.group.map_classes(lambda k: self.factors[k].invert()))

    def terms(self) -> tuple[FloatArray, float]:
        """Terms of the objective: traces by entry and member, log-determinants; and the sum of the penalties."""
        group, entries = self.group, self.working_set
        weight = group.weights[group.member_class]
        logdets = [-group.weights[k] * factor.logdet for k, factor in self.factors.items()]
        traces = 2.0 * entries.weight * entries.S * self.theta, weight * group.diagonal * self.diagonal
        penalties = 2.0 * float(group.penalty.value(self.theta, entries.entries).sum())
        penalties += group.diagonal_penalty * float(self.diagonal.sum())
        return np.concatenate([*traces, logdets]), penalties

    @property
    def objective(self) -> float:
        terms, penalties = self.terms()
        return float(terms.sum()) + penalties
