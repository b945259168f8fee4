"""Pair weights as they are given, checked and turned into a sorted list of exceptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray
from jointglasso.validation import InputError, InputTypeError, check_count

#: Errors of this module are about one argument.
wrong = partial(InputError, parameter="pair_weights")

#: Sorted keys ``i * p + j``, i < j, and the weights, none of which is 1.
Exceptions = tuple[IntArray, FloatArray]

#: Rows of a dense array looked at together.
_STRIP = 256

#: Two weights of one pair that differ by less, relatively, are the same but for rounding.
_SAME = 1e-10


def read_pair_weights(given: Any, names: Sequence[str]) -> Exceptions:
    """Read a (p, p) array or data frame, a sparse matrix, or a dict {(variable, variable): weight}."""
    if isinstance(given, Mapping):
        return _from_dict(given, names)
    if sparse.issparse(given):
        return _from_sparse(given, names)
    if hasattr(given, "columns"):
        given = _by_name(given, names)
    return _from_dense(given, names)


def read_triples(rows: Any, columns: Any, values: Any, n_variables: Any) -> Exceptions:
    """Read three arrays: the two variables, by number, and the weight of each pair."""
    p = check_count("n_variables", n_variables)
    i, j = (_as_numbers(name, given) for name, given in (("rows", rows), ("columns", columns)))
    weights = _as_weights(values)
    if not i.shape == j.shape == weights.shape or i.ndim != 1:
        raise InputError(
            f"rows, columns and values have shapes {i.shape}, {j.shape} and {weights.shape}: give three lists of equal "
            "length.",
            "values",
        )
    names = range(p)
    for given in (i, j):
        outside = np.flatnonzero((given < 0) | (given >= p))
        if len(outside):
            raise _out_of_range(given[outside[0]], p)
    same = np.flatnonzero(i == j)
    if len(same):
        raise _not_a_pair(names[i[same[0]]])
    return _canonical(i, j, weights, names)


def _from_dict(given: Mapping[Any, Any], names: Sequence[str]) -> Exceptions:
    number = {name: at for at, name in enumerate(names)}
    i, j = np.empty(len(given), dtype=np.int64), np.empty(len(given), dtype=np.int64)
    values = np.empty(len(given))
    for at, (pair, weight) in enumerate(given.items()):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputTypeError(
                f"The keys of pair_weights must be pairs of variables (name or number), not {pair!r}.", "pair_weights"
            )
        if isinstance(weight, bool) or not isinstance(weight, Real):
            raise InputTypeError(f"The pair weight of {pair!r} must be a number >= 0, not {weight!r}.", "pair_weights")
        i[at], j[at] = (_number_of(variable, number) for variable in pair)
        if i[at] == j[at]:
            raise _not_a_pair(names[i[at]])
        values[at] = weight
    return _canonical(i, j, values, names)


def _number_of(variable: Any, number: dict[str, int]) -> int:
    if isinstance(variable, Integral):
        at = int(variable)
        if not 0 <= at < len(number):
            raise _out_of_range(at, len(number))
        return at
    if variable not in number:
        raise InputError(
            f"pair_weights names the variable {variable!r}, which the data does not have.",
            "pair_weights",
            variable=str(variable),
        )
    return number[variable]


def _from_sparse(given: Any, names: Sequence[str]) -> Exceptions:
    """Stored entries, zeros included, of either triangle or both; the diagonal is not looked at."""
    _require_shape(given.shape, len(names))
    entries = sparse.coo_array(given)
    i, j = (at.astype(np.int64) for at in entries.coords)
    place = i * len(names) + j
    sorted_place = np.sort(place)
    twice = np.flatnonzero(np.diff(sorted_place) == 0)
    if len(twice):
        a, b = divmod(int(sorted_place[twice[0]]), len(names))
        raise wrong(
            f"pair_weights stores the pair {names[a]!r}, {names[b]!r} twice at the same place: call sum_duplicates() "
            "first, or leave one out."
        )
    off = i != j
    return _canonical(i[off], j[off], _as_weights(entries.data)[off], names)


def _from_dense(given: Any, names: Sequence[str]) -> Exceptions:
    """Both triangles of an array, strip by strip; the diagonal is not looked at."""
    V = _as_weights(given)
    p = len(names)
    _require_shape(V.shape, p)
    keys, values = [], []
    for top in range(0, p, _STRIP):
        strip = slice(top, min(top + _STRIP, p))
        upper, mirrored = V[strip, top:], V[top:, strip].T
        # Weights that are not numbers differ from 1 and from their mirror images: they are all in the list.
        i, j = np.nonzero((upper != 1.0) | (mirrored != 1.0))
        i, j = i[j > i], j[j > i]
        both = np.concatenate([i, i]) + top, np.concatenate([j, j]) + top
        key, value = _canonical(*both, np.concatenate([upper[i, j], mirrored[i, j]]), names, "is not symmetric at")
        keys.append(key)
        values.append(value)
    return np.concatenate(keys), np.concatenate(values)


def _by_name(given: Any, names: Sequence[str]) -> Any:
    """Bring a data frame into the order of the variables."""
    rows, columns = [str(name) for name in given.index], [str(name) for name in given.columns]
    if sorted(rows) != sorted(names) or sorted(columns) != sorted(names):
        raise wrong("The rows and columns of pair_weights must be named by the variables of the data, each once.")
    row, column = ({name: at for at, name in enumerate(labels)} for labels in (rows, columns))
    return given.to_numpy()[np.ix_([row[name] for name in names], [column[name] for name in names])]


def _canonical(
    i: IntArray, j: IntArray, values: FloatArray, names: Sequence[Any], conflict: str = "gives two weights to the pair"
) -> Exceptions:
    """Sort by pair, merge what is given twice alike, and drop weights of 1."""
    bad = np.flatnonzero(~(values >= 0.0))
    if len(bad):
        a, b = names[i[bad[0]]], names[j[bad[0]]]
        raise wrong(
            f"The pair weight of {a!r}, {b!r} is {values[bad[0]]:g}; it must be a number >= 0, or inf to forbid the "
            "edge."
        )
    key = np.minimum(i, j) * len(names) + np.maximum(i, j)
    order = np.argsort(key, kind="stable")
    key, values = key[order], values[order]
    again = np.flatnonzero(np.diff(key) == 0)
    one, other = values[again], values[again + 1]
    with np.errstate(invalid="ignore"):
        differ = again[(one != other) & (np.abs(one - other) > _SAME * np.minimum(one, other))]
    if len(differ):
        a, b = divmod(int(key[differ[0]]), len(names))
        raise wrong(
            f"pair_weights {conflict} {names[a]!r}, {names[b]!r} ({values[differ[0]]:g} and "
            f"{values[differ[0] + 1]:g}): give one weight to each pair."
        )
    kept = np.flatnonzero((np.diff(key, prepend=-1) != 0) & (values != 1.0))
    return key[kept], values[kept]


def _as_weights(given: Any) -> FloatArray:
    if np.iscomplexobj(given):
        raise InputTypeError("pair_weights holds complex numbers: weights are real numbers >= 0.", "pair_weights")
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            "pair_weights must be an array (p, p), a sparse matrix, a dict {(variable, variable): weight} or "
            f"PairWeights, not {type(given).__name__} {given!r}.",
            "pair_weights",
        ) from None


def _as_numbers(name: str, given: Any) -> IntArray:
    numbers = np.asarray(given)
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
