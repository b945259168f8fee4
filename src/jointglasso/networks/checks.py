"""Validation of the arguments of `JointNetworks`, and look-up of variables by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, IntArray
from jointglasso.data.checks import InputError, InputTypeError

#: Errors of this module are about one argument.
wrong = partial(InputError, parameter="precision")


def check_precision(matrices: Any) -> list[Any]:
    """Return K sparse symmetric matrices of one size with positive diagonals and no stored zeros."""
    from scipy import sparse

    if isinstance(matrices, str) or not isinstance(matrices, Collection) or sparse.issparse(matrices):
        raise InputTypeError(
            f"precision must be a list with one matrix per class, not {type(matrices).__name__}.", "precision"
        )
    if len(matrices) == 0:
        raise wrong("precision is empty: give at least one matrix.")
    out: list[Any] = []
    for k, matrix in enumerate(matrices):
        Theta = sparse.csc_array(matrix, dtype=np.float64)
        if Theta.shape != (Theta.shape[0], Theta.shape[0]) or Theta.shape[0] == 0:
            raise wrong(f"The precision matrix {k} has shape {Theta.shape}: it must be square and not empty.")
        if out and Theta.shape != out[0].shape:
            raise wrong(
                f"The precision matrix {k} has shape {Theta.shape}, the first one {out[0].shape}: all classes must "
                "have the same variables."
            )
        _check_values(Theta, k)
        if (Theta.data == 0).any():
            Theta = Theta.copy()
            Theta.eliminate_zeros()
        out.append(Theta)
    return out


def _check_values(Theta: Any, k: int) -> None:
    if not np.isfinite(Theta.data).all():
        raise wrong(f"The precision matrix {k} holds NaN or infinite values: give a finite matrix.")
    diagonal = Theta.diagonal()
    if (diagonal <= 0).any():
        variable = int(np.flatnonzero(diagonal <= 0)[0])
        raise wrong(
            f"The precision matrix {k} has {diagonal[variable]:g} on the diagonal at variable {variable}: it must be "
            "positive, which correlations or adjacency matrices without a diagonal are not."
        )
    difference = abs(Theta - Theta.T)
    if difference.nnz and difference.max() > 1e-8 * diagonal.max():
        raise wrong(f"The precision matrix {k} is not symmetric: use (A + A.T) / 2 if only rounding is to blame.")


def check_edge_matrices(name: str, matrices: Any, n_classes: int, n_variables: int) -> list[Any] | None:
    """Return K sparse matrices (p, p) of edge attributes between 0 and 1, or None."""
    from scipy import sparse

    if matrices is None:
        return None
    sparse_matrices = [sparse.coo_array(matrix) for matrix in matrices]
    if [matrix.shape for matrix in sparse_matrices] != [(n_variables, n_variables)] * n_classes:
        raise InputError(
            f"{name} must hold {n_classes} matrices of shape {(n_variables, n_variables)}, one per class, "
            f"not {[matrix.shape for matrix in sparse_matrices]}.",
            name,
        )
    for k, matrix in enumerate(sparse_matrices):
        values = matrix.data.astype(np.float64)
        if len(values) and not (values.min() >= 0 and values.max() <= 1):
            raise InputError(f"{name} of class {k} must lie between 0 and 1.", name)
    return sparse_matrices


def check_absent(absent: Any, n_classes: int, n_variables: int) -> BoolArray | None:
    """Return the mask (K, p) of variables absent from each class, or None where none is absent."""
    if absent is None:
        return None
    mask = np.asarray(absent)
    if mask.dtype != bool or mask.shape != (n_classes, n_variables):
        raise InputError(
            f"absent must be a boolean array {(n_classes, n_variables)}, True where a class lacks a variable, not "
            f"{mask.dtype} of shape {mask.shape}.",
            "absent",
        )
    return mask if mask.any() else None


class NameIndex:
    """Indices of variables by name."""

    def __init__(self, names: Sequence[str]) -> None:
        self._size = len(names)
        self._positions: dict[str, list[int]] = {}
        for position, name in enumerate(names):
            self._positions.setdefault(name, []).append(position)

    def position(self, variable: Any) -> int:
        """Position of a variable given by name or, where names come twice, by position."""
        if isinstance(variable, int | np.integer) and not isinstance(variable, bool):
            if not -self._size <= variable < self._size:
                raise InputError(
                    f"There is no variable number {variable}: positions go from 0 to {self._size - 1}.",
                    "variable",
                    variable=str(variable),
                )
            return int(variable) % self._size
        matches = self._positions.get(str(variable), [])
        if not matches:
            raise InputError(
                f"There is no variable {variable!r}: see variable_names.", "variable", variable=str(variable)
            )
        if len(matches) > 1:
            raise InputError(
                f"There are {len(matches)} variables named {variable!r}, at positions {matches}: give the position "
                "instead.",
                "variable",
                variable=str(variable),
            )
        return matches[0]

    def positions(self, variables: Any) -> IntArray:
        """Positions of several different variables, in the order given."""
        if isinstance(variables, str) or not isinstance(variables, Iterable):
            raise InputTypeError(f"variables must be a list of names or positions, not {variables!r}.", "variables")
        out = np.array([self.position(variable) for variable in variables], dtype=np.int64)
        if len(out) == 0:
            raise InputError("variables is empty: name at least one variable.", "variables")
        if len(np.unique(out)) < len(out):
            values, counts = np.unique(out, return_counts=True)
            raise InputError(f"variables names the variable at position {values[counts > 1][0]} twice.", "variables")
        return out
