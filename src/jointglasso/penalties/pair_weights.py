"""Weights of pairs in the penalty, for prior knowledge about single edges and for forbidden edges.

One weight v_ij of a pair multiplies its penalty. Weights by class a_k,ij and of the coupling b_ij replace the penalty
by ``lambda1 sum_k a_k,ij |t_k| + lambda2 b_ij R(t)``, R being the coupling term.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._optional import is_from
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data.checks import InputError, InputTypeError, check_count
from jointglasso.data.naming import matrix_by_name
from jointglasso.penalties.base import coupling_weights

#: Errors of this module are about one argument.
wrong = partial(InputError, parameter="pair_weights")

#: Sorted keys ``i * p + j``, i < j, and the weights, (m,) or (m, K + 1) as in `PairWeights`; no row is all ones.
Exceptions = tuple[IntArray, FloatArray]

#: Relative tolerance for two weights of one pair to count as equal up to rounding.
_EQUAL_WEIGHTS = 1e-10


def read_pair_weights(weights: Any, names: Sequence[str]) -> Exceptions:
    """Read a (p, p) array or data frame, a sparse matrix, or a dict {(variable, variable): weight}."""
    if isinstance(weights, Mapping):
        return _from_dict(weights, names)
    if sparse.issparse(weights):
        return _from_sparse(weights, names)
    if is_from(weights, "pandas") and weights.ndim == 2:
        weights = matrix_by_name(weights, names)
        if weights is None:
            raise wrong("The rows and columns of pair_weights must be named by the variables of the data, each once.")
    return _from_dense(weights, names)


def read_triples(rows: Any, columns: Any, values: Any, n_variables: Any) -> Exceptions:
    """Read three arrays: the indices of the two variables and the weight of each pair."""
    p = check_count("n_variables", n_variables)
    i, j = (_as_numbers(name, index) for name, index in (("rows", rows), ("columns", columns)))
    weights = _as_weights(values)
    if not i.shape == j.shape == weights.shape[:1] or i.ndim != 1 or weights.ndim > 2:
        raise InputError(
            f"rows, columns and values have shapes {i.shape}, {j.shape} and {weights.shape}: give three lists of equal "
            "length.",
            "values",
        )
    if weights.ndim == 2 and not np.isfinite(weights[:, 0]).all():
        raise _infinite_coupling()
    names = range(p)
    for index in (i, j):
        outside = np.flatnonzero((index < 0) | (index >= p))
        if len(outside):
            raise _out_of_range(index[outside[0]], p)
    diagonal = np.flatnonzero(i == j)
    if len(diagonal):
        raise _not_a_pair(names[i[diagonal[0]]])
    return _canonical(i, j, weights, names)


def _from_dict(weights: Mapping[Any, Any], names: Sequence[str]) -> Exceptions:
    number_of = {name: position for position, name in enumerate(names)}
    i, j = np.empty(len(weights), dtype=np.int64), np.empty(len(weights), dtype=np.int64)
    values = np.empty(len(weights))
    for position, (pair, weight) in enumerate(weights.items()):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputTypeError(
                f"The keys of pair_weights must be pairs of variables (name or number), not {pair!r}.", "pair_weights"
            )
        if isinstance(weight, bool) or not isinstance(weight, Real):
            raise InputTypeError(f"The pair weight of {pair!r} must be a number >= 0, not {weight!r}.", "pair_weights")
        i[position], j[position] = (_number_of(variable, number_of) for variable in pair)
        if i[position] == j[position]:
            raise _not_a_pair(names[i[position]])
        values[position] = weight
    return _canonical(i, j, values, names)


def _number_of(variable: Any, number_of: dict[str, int]) -> int:
    if isinstance(variable, Integral):
        number = int(variable)
        if not 0 <= number < len(number_of):
            raise _out_of_range(number, len(number_of))
        return number
    if variable not in number_of:
        raise InputError(
            f"pair_weights names the variable {variable!r}, which the data does not have.",
            "pair_weights",
            variable=str(variable),
        )
    return number_of[variable]


def _from_sparse(matrix: Any, names: Sequence[str]) -> Exceptions:
    """Stored entries, zeros included, of either triangle or both; the diagonal is ignored."""
    _require_shape(matrix.shape, len(names))
    entries = sparse.coo_array(matrix)
    i, j = (index.astype(np.int64) for index in entries.coords)
    key = i * len(names) + j
    sorted_key = np.sort(key)
    twice = np.flatnonzero(np.diff(sorted_key) == 0)
    if len(twice):
        a, b = divmod(int(sorted_key[twice[0]]), len(names))
        raise wrong(
            f"pair_weights stores the pair {names[a]!r}, {names[b]!r} twice at the same place: call sum_duplicates() "
            "first, or leave one out."
        )
    off = i != j
    return _canonical(i[off], j[off], _as_weights(entries.data)[off], names)


def _from_dense(weights: Any, names: Sequence[str]) -> Exceptions:
    """Both triangles of an array; the diagonal is ignored."""
    V = _as_weights(weights)
    _require_shape(V.shape, len(names))
    # NaN compares unequal to 1, so that every NaN enters the list and is refused by `_canonical`.
    exceptional = V != 1.0
    i, j = np.nonzero(np.triu(exceptional | exceptional.T, 1))
    both = np.concatenate([i, i]), np.concatenate([j, j])
    return _canonical(*both, np.concatenate([V[i, j], V[j, i]]), names, "is not symmetric at")


def _canonical(
    i: IntArray, j: IntArray, values: FloatArray, names: Sequence[Any], conflict: str = "gives two weights to the pair"
) -> Exceptions:
    """Sort by pair, merge duplicates with equal weights, and drop weights of 1."""
    table = values[:, None] if values.ndim == 1 else values
    bad = np.argwhere(~(table >= 0.0))
    if len(bad):
        a, b = names[i[bad[0, 0]]], names[j[bad[0, 0]]]
        raise wrong(
            f"The pair weight of {a!r}, {b!r} is {table[tuple(bad[0])]:g}; it must be a number >= 0, or inf to forbid "
            "the edge."
        )
    key = np.minimum(i, j) * len(names) + np.maximum(i, j)
    order = np.argsort(key, kind="stable")
    key, values, table = key[order], values[order], table[order]
    repeated = np.flatnonzero(np.diff(key) == 0)
    one, other = table[repeated], table[repeated + 1]
    with np.errstate(invalid="ignore"):
        differ = np.argwhere((one != other) & (np.abs(one - other) > _EQUAL_WEIGHTS * np.minimum(one, other)))
    if len(differ):
        row, column = repeated[differ[0, 0]], differ[0, 1]
        a, b = divmod(int(key[row]), len(names))
        raise wrong(
            f"pair_weights {conflict} {names[a]!r}, {names[b]!r} ({table[row, column]:g} and "
            f"{table[row + 1, column]:g}): give one weight to each pair."
        )
    exceptional = np.flatnonzero((np.diff(key, prepend=-1) != 0) & (table != 1.0).any(axis=1))
    return key[exceptional], values[exceptional]


def _as_weights(values: Any) -> FloatArray:
    if np.iscomplexobj(values):
        raise InputTypeError("pair_weights holds complex numbers: weights are real numbers >= 0.", "pair_weights")
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            "pair_weights must be an array (p, p), a sparse matrix, a dict {(variable, variable): weight}, "
            f"PairWeights, or a list or dict of these by class, not {type(values).__name__} {values!r}.",
            "pair_weights",
        ) from None


def _as_numbers(name: str, values: Any) -> IntArray:
    numbers = np.asarray(values)
    if numbers.size and not np.issubdtype(numbers.dtype, np.integer):
        raise InputTypeError(f"{name} must hold the numbers of variables, not {numbers.dtype}.", name)
    return numbers.astype(np.int64)


def _require_shape(shape: tuple[int, ...], p: int) -> None:
    if tuple(shape) != (p, p):
        raise wrong(f"pair_weights has shape {tuple(shape)}, but there are {p} variables: give shape ({p}, {p}).")


def _out_of_range(number: Any, p: int) -> ValueError:
    return wrong(f"pair_weights names variable number {number}, but the {p} variables are numbered 0 to {p - 1}.")


def _not_a_pair(name: Any) -> ValueError:
    return wrong(f"pair_weights holds the pair of {name!r} with itself: the diagonal has no pair weight, leave it out.")


class PairWeights:
    """Factors on the penalty of each pair of variables: a short list of exceptions, 1 everywhere else.

    ``v_ij < 1`` makes an edge likelier, ``v_ij = 0`` leaves it unpenalised, ``v_ij > 1`` makes it less likely and
    ``v_ij = inf`` forbids it: the entry is zero in all classes. The diagonal is not affected. With K + 1 weights of a
    pair the first is that of the coupling term, finite, the others are those of ``|theta_k,ij|`` in each class, where
    an infinite one forbids the edge in that class.

    Parameters
    ----------
    rows, columns : int arrays (m,)
        The two variables, by number, of each exceptional pair, in either order.
    values : array (m,) or (m, K + 1)
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
        self._key, self._value = _with_forbidden(read_triples(rows, columns, values, n_variables))
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
        """Variables i < j and weights of the pairs whose weights are not 1, sorted by (i, j)."""
        rows, columns = np.divmod(self._key, self.n_variables)
        return rows, columns, self._value

    @property
    def forbidden(self) -> tuple[IntArray, IntArray]:
        """Variables i < j of the pairs that must be zero in all classes."""
        rows, columns = np.divmod(self._key[np.isinf(coupling_weights(self._value))], self.n_variables)
        return rows, columns

    @property
    def forbidden_entries(self) -> tuple[IntArray, IntArray, BoolArray]:
        """Variables i < j of the exceptional pairs, and the classes that forbid them, (m, K), or (m, 1) for all."""
        rows, columns, values = self.exceptions
        return rows, columns, np.isinf(values[:, None] if values.ndim == 1 else values[:, 1:])

    @property
    def lighter(self) -> tuple[IntArray, IntArray]:
        """Variables i < j of the pairs with a weight below 1, of a class or of the coupling term."""
        below = (self._value < 1.0) if self._value.ndim == 1 else (self._value < 1.0).any(axis=1)
        rows, columns = np.divmod(self._key[below], self.n_variables)
        return rows, columns

    @property
    def by_class(self) -> bool:
        """Whether the classes and the coupling term have weights of their own."""
        return self._value.ndim == 2

    def __len__(self) -> int:
        """Number of exceptions."""
        return len(self._key)

    def factors(self, i: IntArray, j: IntArray) -> FloatArray:
        """Weights (m,) or (m, K + 1) of pairs i < j."""
        out = np.ones((len(i), *self._value.shape[1:]))
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
        n_forbidden = len(self.forbidden[0])
        return f"PairWeights(n_variables={self.n_variables}, exceptions={len(self)}, forbidden={n_forbidden})"


def as_pair_weights(
    value: Any, variable_names: Sequence[str], class_names: Sequence[str] = (), coupling_weights: Any = None
) -> PairWeights | None:
    """`PairWeights` from any form that `jointglasso.solve` takes; None if all weights are 1.

    `class_names` are needed for weights by class and of the coupling term; with `coupling_weights`, `value` weighs the
    L1 part only.
    """
    classes = _by_class(value, class_names)
    if coupling_weights is not None:
        try:
            coupling = _for_all(coupling_weights, variable_names)
        except (InputError, InputTypeError) as error:
            message = str(error).replace("pair_weights", "coupling_weights").replace("pair weight", "coupling weight")
            raise type(error)(message, "coupling_weights", variable=error.variable) from None
        return _combined([value] * len(class_names) if classes is None else classes, coupling, variable_names)
    if classes is not None:
        return _combined(classes, None, variable_names)
    weights = _for_all(value, variable_names)
    if weights is not None and weights.by_class and weights.exceptions[2].shape[1] != len(class_names) + 1:
        raise wrong(
            f"pair_weights is of {weights.exceptions[2].shape[1] - 1} classes, the data of {len(class_names)}: give "
            "weights of the same classes."
        )
    return weights


def _by_class(value: Any, class_names: Sequence[str]) -> list[Any] | None:
    """Weights of each class from a list, a dict or a (K, p, p) array; None if `value` is for all classes."""
    if isinstance(value, Mapping):
        if not value or any(isinstance(key, tuple) or isinstance(one, Real) for key, one in value.items()):
            return None
        unknown = next((str(key) for key in value if str(key) not in class_names), None)
        if unknown is not None:
            raise InputError(
                f"pair_weights names the class {unknown!r}, which the data does not have: its classes are "
                f"{list(class_names)}. The keys of weights for all classes are pairs of variables.",
                "pair_weights",
                class_name=unknown,
            )
        named = {str(key): weights for key, weights in value.items()}
        return [named.get(name) for name in class_names]
    if not isinstance(value, list | tuple) and not (isinstance(value, np.ndarray) and value.ndim == 3):
        return None
    if not len(value) or not all(_is_table(one) for one in value):
        return None
    if len(value) != len(class_names):
        raise wrong(
            f"pair_weights is a list of {len(value)} tables of weights, but there are {len(class_names)} classes: give "
            "one for each class, or one for all."
        )
    return list(value)


def _is_table(value: Any) -> bool:
    """Whether `value` holds weights of pairs, rather than one row of them."""
    if value is None or isinstance(value, Mapping | PairWeights) or getattr(value, "ndim", 0) == 2:
        return True
    return isinstance(value, list | tuple) and len(value) > 0 and isinstance(value[0], list | tuple | np.ndarray)


def _for_all(value: Any, variable_names: Sequence[str]) -> PairWeights | None:
    """Weights of one table; None if all are 1."""
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


def _combined(l1: Sequence[Any], coupling: PairWeights | None, names: Sequence[str]) -> PairWeights | None:
    """Weights of the L1 part of each class and of the coupling term in one list of exceptions."""
    read: dict[int, PairWeights | None] = {}  # one table may stand for all classes
    tables = [coupling]
    for one in l1:
        if id(one) not in read:
            read[id(one)] = _for_all(one, names)
        tables.append(read[id(one)])
    if any(table is not None and table.by_class for table in tables):
        raise wrong("PairWeights of all classes cannot be given for one class: give weights of one class.")
    if coupling is not None and len(coupling.forbidden[0]):
        raise _infinite_coupling()
    keys = np.unique(np.concatenate([table._key for table in tables if table is not None] or [np.empty(0, np.int64)]))
    i, j = np.divmod(keys, len(names))
    values = np.column_stack([np.ones(len(keys)) if table is None else table.factors(i, j) for table in tables])
    if not len(keys):
        return None
    keys, values = _with_forbidden((keys, values))
    if (values == values[:, :1]).all():
        values = values[:, 0].copy()
    return PairWeights._of((keys, values), len(names))


def _with_forbidden(exceptions: Exceptions) -> Exceptions:
    """Infinite coupling weights for pairs that all classes forbid."""
    key, values = exceptions
    if values.ndim == 2:
        values = values.copy()
        values[np.isinf(values[:, 1:]).all(axis=1)] = np.inf
    return key, values


def _infinite_coupling() -> ValueError:
    return InputError(
        "A weight of the coupling term must be finite: to forbid an edge, give it an infinite weight in pair_weights.",
        "coupling_weights",
    )
