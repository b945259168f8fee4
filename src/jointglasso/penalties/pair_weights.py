"""Weights of single pairs in the penalty: prior knowledge, and edges that are forbidden."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.penalties.pair_input import Exceptions, read_pair_weights, read_triples
from jointglasso.validation import InputError


class PairWeights:
    """Factor v_ij on the penalty of each pair of variables: a short list of exceptions, 1 everywhere else.

    ``v_ij < 1`` makes an edge likelier, ``v_ij = 0`` leaves it unpenalised, ``v_ij > 1`` makes it less likely and
    ``v_ij = inf`` forbids it: the entry is zero in all classes. The diagonal is not affected.

    Parameters
    ----------
    rows, columns : int arrays (m,)
        The two variables, by number, of each exceptional pair, in either order.
    values : array (m,)
        Their weights, from 0 to infinity.
    n_variables : int
        Number of variables p. Memory follows m, not p.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> import numpy as np
    >>> jgl.PairWeights([0, 1], [1, 2], [0.5, np.inf], n_variables=3)
    PairWeights(n_variables=3, exceptions=2, forbidden=1)
    """

    def __init__(self, rows: Any, columns: Any, values: Any, n_variables: int) -> None:
        self._key, self._value = read_triples(rows, columns, values, n_variables)
        self.n_variables = int(n_variables)

    @classmethod
    def _of(cls, exceptions: Exceptions, n_variables: int) -> PairWeights:
        """Take over a list that is checked and sorted already."""
        weights = cls.__new__(cls)
        weights._key, weights._value = exceptions
        weights.n_variables = n_variables
        return weights

    @property
    def exceptions(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Variables i < j and weight of the pairs whose weight is not 1, sorted by (i, j)."""
        rows, columns = np.divmod(self._key, self.n_variables)
        return rows, columns, self._value

    @property
    def forbidden(self) -> tuple[IntArray, IntArray]:
        """Variables i < j of the pairs that must be zero."""
        rows, columns = np.divmod(self._key[np.isinf(self._value)], self.n_variables)
        return rows, columns

    def __len__(self) -> int:
        """Number of exceptions."""
        return len(self._key)

    def factors(self, i: IntArray, j: IntArray) -> FloatArray:
        """Weights of pairs i < j."""
        found = np.ones(len(i))
        if len(self._key):
            key = i.astype(np.int64) * self.n_variables + j
            place = np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)
            hit = self._key[place] == key
            found[hit] = self._value[place[hit]]
        return found

    def among(self, variables: IntArray) -> PairWeights:
        """Weights with only the exceptions between the given variables; the numbering stays."""
        here = np.zeros(self.n_variables, dtype=bool)
        here[variables] = True
        rows, columns = np.divmod(self._key, self.n_variables)
        kept = here[rows] & here[columns]
        return PairWeights._of((self._key[kept], self._value[kept]), self.n_variables)

    def exceptions_in(self, rows: slice, columns: slice) -> tuple[IntArray, IntArray, FloatArray]:
        """Exceptions within a tile, numbered from its corner, and their weights."""
        # The keys of one row of the tile follow one another.
        left = np.arange(rows.start, rows.stop, dtype=np.int64) * self.n_variables + columns.start
        first = np.searchsorted(self._key, left)
        count = np.searchsorted(self._key, left + (columns.stop - columns.start)) - first
        at = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
        i = np.repeat(np.arange(len(left)), count)
        return i, self._key[at] - left[i], self._value[at]

    def __repr__(self) -> str:
        n_forbidden = int(np.isinf(self._value).sum())
        return f"PairWeights(n_variables={self.n_variables}, exceptions={len(self)}, forbidden={n_forbidden})"


def as_pair_weights(given: Any, variable_names: tuple[str, ...]) -> PairWeights | None:
    """Weights from any form that `jointglasso.solve` takes; None where every pair has weight 1."""
    if given is None:
        return None
    p = len(variable_names)
    weights = given if isinstance(given, PairWeights) else PairWeights._of(read_pair_weights(given, variable_names), p)
    if weights.n_variables != p:
        raise InputError(
            f"pair_weights is of {weights.n_variables} variables, the data of {p}: give weights of the same variables.",
            "pair_weights",
        )
    return weights if len(weights) else None
