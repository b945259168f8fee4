"""Edges of K sparse precision matrices as flat arrays, one entry per pair of variables and class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._cached_property import cached_property
from jointglasso._typing import BoolArray, FloatArray, IntArray

#: Kinds of edges, indexed by code.
KINDS = ("shared", "partly shared", "specific")
SHARED, PARTLY_SHARED, SPECIFIC = range(3)

#: Number of pairs of variables up to which a picture of a network is readable.
READABLE = 150


@dataclass(frozen=True)
class EdgeList:
    """Edges of all classes, sorted by pair of variables and then by class.

    `first` < `second` are indices of variables, `class_index` that of the class, and `pair` numbers the distinct pairs
    of the union of all classes.
    """

    first: IntArray
    second: IntArray
    class_index: IntArray
    precision: FloatArray
    partial_correlation: FloatArray
    pair: IntArray
    n_classes: int
    absent: BoolArray | None = None
    """(K, p): True for variables absent from a class; None where all classes have all variables."""

    def __len__(self) -> int:
        return len(self.first)

    @property
    def n_pairs(self) -> int:
        """Number of distinct pairs in the union of all classes."""
        return int(self.pair[-1]) + 1 if len(self.pair) else 0

    @cached_property
    def starts(self) -> IntArray:
        """Index of the first entry of each pair."""
        return np.flatnonzero(np.diff(self.pair, prepend=-1))

    @cached_property
    def classes_of_pair(self) -> IntArray:
        """Number of classes in which each pair is an edge."""
        return np.bincount(self.pair, minlength=self.n_pairs)

    @cached_property
    def has_pair(self) -> BoolArray:
        """(pairs, K): classes that have both variables of each pair."""
        if self.absent is None:
            return np.ones((self.n_pairs, self.n_classes), dtype=bool)
        return ~(self.absent[:, self.first[self.starts]] | self.absent[:, self.second[self.starts]]).T

    @cached_property
    def in_all(self) -> BoolArray:
        """Whether each pair is an edge in all the classes that have both of its variables."""
        return np.asarray(self.classes_of_pair == self.has_pair.sum(axis=1))

    @cached_property
    def strength_of_pair(self) -> FloatArray:
        """Maximum absolute partial correlation of each pair over the classes."""
        if not len(self):
            return np.zeros(0)
        return np.asarray(np.maximum.reduceat(np.abs(self.partial_correlation), self.starts))

    def readable_strength(self, max_pairs: int = READABLE) -> float:
        """Threshold on the strength that keeps `max_pairs` pairs; 0 where there are at most 25 % more."""
        if self.n_pairs <= 1.25 * max_pairs:
            return 0.0
        return float(np.partition(self.strength_of_pair, -max_pairs)[-max_pairs])

    @cached_property
    def sign_differs(self) -> BoolArray:
        """Whether a pair is positive in one class and negative in another."""
        positive = np.bincount(self.pair, weights=self.precision > 0, minlength=self.n_pairs)
        return (positive > 0) & (positive < self.classes_of_pair)

    @cached_property
    def kind_of_pair(self) -> IntArray:
        """Code of the kind of each pair, an index into `KINDS`."""
        kind = np.where(self.in_all, SHARED, PARTLY_SHARED)
        # With several classes an edge of one class is specific, also where the others lack its variables.
        kind[(self.classes_of_pair == 1) & (self.n_classes > 1)] = SPECIFIC
        return kind

    @property
    def pairs_by_kind(self) -> dict[str, int]:
        """Number of pairs of each kind."""
        return dict(zip(KINDS, np.bincount(self.kind_of_pair, minlength=len(KINDS)).tolist(), strict=True))

    @cached_property
    def kind(self) -> IntArray:
        """Code of the kind of each edge."""
        return self.kind_of_pair[self.pair]

    @cached_property
    def signs(self) -> FloatArray:
        """Signs (pairs, K) of the partial correlations, 0 for absent edges."""
        table = np.zeros((self.n_pairs, self.n_classes))
        table[self.pair, self.class_index] = np.sign(self.partial_correlation)
        return table

    def node_sums(self, n_variables: int, values: FloatArray | None = None) -> Any:
        """Sums (p, K) of values (m,) over the edges of each variable, by class; the numbers of edges without values."""
        cells = np.concatenate([self.first, self.second]) * self.n_classes + np.tile(self.class_index, 2)
        sums = np.bincount(cells, None if values is None else np.tile(values, 2), n_variables * self.n_classes)
        return sums.reshape(n_variables, self.n_classes)


def edge_list(matrices: Sequence[Any], absent: BoolArray | None = None) -> EdgeList:
    """Edges of K symmetric csc_arrays with positive diagonals; `absent` (K, p) masks variables a class lacks."""
    p = matrices[0].shape[0]
    parts = [upper_entries(Theta) for Theta in matrices]
    first = np.concatenate([part[0] for part in parts])
    second = np.concatenate([part[1] for part in parts])
    value = np.concatenate([part[2] for part in parts])
    partial = np.concatenate([part[3] for part in parts])
    class_index = np.repeat(np.arange(len(matrices)), [len(part[0]) for part in parts])
    key = first * p + second
    order = np.lexsort((class_index, key))
    pair = np.cumsum(np.diff(key[order], prepend=-1) != 0) - 1
    return EdgeList(
        first[order], second[order], class_index[order], value[order], partial[order], pair, len(matrices), absent
    )  # fmt: skip


def lookup(matrices: Sequence[Any], edges: EdgeList) -> FloatArray:
    """Entries of K sparse non-negative matrices at the edges; either triangle may hold them, the larger one counts."""
    out = np.zeros(len(edges))
    for k, matrix in enumerate(matrices):
        in_class, entries = edges.class_index == k, sparse.csr_array(matrix, dtype=np.float64)
        out[in_class] = values_at(entries.maximum(entries.T.tocsr()), edges.first[in_class], edges.second[in_class])
    return out


def values_at(matrix: Any, rows: IntArray, columns: IntArray) -> FloatArray:
    """Entries of a sparse matrix, 0 where not stored."""
    return np.asarray(matrix[rows, columns]) if len(rows) else np.zeros(0)  # scipy returns no array of no entries


def upper_entries(Theta: Any) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Rows, columns, values and partial correlations of the non-zero entries i < j of a sparse precision matrix."""
    entries = Theta.tocoo()
    above = (entries.row < entries.col) & (entries.data != 0)
    rows, columns = entries.row[above].astype(np.int64), entries.col[above].astype(np.int64)
    value = entries.data[above].astype(np.float64)
    scale = 1.0 / np.sqrt(Theta.diagonal())
    # Zero minus, to avoid negative zeros.
    return rows, columns, value, 0.0 - value * scale[rows] * scale[columns]


def partial_correlation_matrix(Theta: Any) -> Any:
    """Partial correlations (p, p) as a sparse matrix without diagonal."""
    row, column, _, partial = upper_entries(Theta)
    upper = sparse.coo_array((partial, (row, column)), shape=Theta.shape)
    return upper + upper.T


def each(matrices: list[Any] | None, keep: IntArray) -> list[Any] | None:
    """Submatrices of the rows and columns `keep`, or None."""
    return None if matrices is None else [matrix.tocsc()[:, keep][keep, :] for matrix in matrices]
