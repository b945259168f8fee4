"""Parts of sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import BoolArray, IntArray
from jointglasso.networks.edge_list import EdgeList


def restricted(matrix: Any, keep: IntArray) -> Any:
    """Rows and columns of some variables."""
    return matrix.tocsc()[:, keep][keep, :]


def without(matrix: Any, edges: EdgeList, gone: BoolArray) -> Any:
    """Take edges out of a symmetric matrix."""
    first, second = edges.first[gone], edges.second[gone]
    ends = (np.concatenate([first, second]), np.concatenate([second, first]))
    taken = sparse.csc_array((np.ones(2 * len(first), dtype=bool), ends), shape=matrix.shape)
    return matrix - matrix.multiply(taken)


def each(matrices: list[Any] | None, keep: IntArray) -> list[Any] | None:
    """The same of several matrices, where there are any."""
    return None if matrices is None else [restricted(matrix, keep) for matrix in matrices]
