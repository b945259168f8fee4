"""Pair weights v_ij of the penalty, for prior knowledge about single edges and for forbidden edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.data.checks import InputError
from jointglasso.penalties.pair_input import Exceptions, read_pair_weights, read_triples


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
        """Build from a list that has been checked and sorted."""
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
        out = np.ones(len(i))
        if len(self._key):
            key = i.astype(np.int64) * self.n_variables + j
            place = np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)
            hit = self._key[place] == key
            out[hit] = self._value[place[hit]]
        return out

    def restricted_to(self, variables: IntArray) -> PairWeights:
        """Weights restricted to pairs of `variables`; the variable indices do not change."""
        selected = np.zeros(self.n_variables, dtype=bool)
        selected[variables] = True
        rows, columns = np.divmod(self._key, self.n_variables)
        both = selected[rows] & selected[columns]
        return PairWeights._of((self._key[both], self._value[both]), self.n_variables)

    def exceptions_in(self, rows: slice, columns: slice) -> tuple[IntArray, IntArray, FloatArray]:
        """Exceptions within a tile: row and column relative to its corner, and weights."""
        # The sorted keys of one row of the tile are contiguous.
        first_key = np.arange(rows.start, rows.stop, dtype=np.int64) * self.n_variables + columns.start
        first = np.searchsorted(self._key, first_key)
        count = np.searchsorted(self._key, first_key + (columns.stop - columns.start)) - first
        index = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
        i = np.repeat(np.arange(len(first_key)), count)
        return i, self._key[index] - first_key[i], self._value[index]

    def __repr__(self) -> str:
        n_forbidden = int(np.isinf(self._value).sum())
        return f"PairWeights(n_variables={self.n_variables}, exceptions={len(self)}, forbidden={n_forbidden})"


def as_pair_weights(value: Any, variable_names: tuple[str, ...]) -> PairWeights | None:
    """`PairWeights` from any form that `jointglasso.solve` takes; None if every pair has weight 1."""
    if value is None:
        return None
    p = len(variable_names)
    weights = value if isinstance(value, PairWeights) else PairWeights._of(read_pair_weights(value, variable_names), p)
    if weights.n_variables != p:
        raise InputError(
            f"pair_weights is of {weights.n_variables} variables, the data of {p}: give weights of the same variables.",
            "pair_weights",
        )
    return weights if len(weights) else None
