"""Connected components of sparse symmetric matrices, and log-determinants by them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray


def components_of(Theta: Any) -> list[IntArray]:
    """Connected components (two or more variables) of the graph of a sparse matrix, as index arrays."""
    _, label = sparse.csgraph.connected_components(Theta, directed=False)
    joined = np.flatnonzero(np.bincount(label)[label] > 1)
    order = joined[np.argsort(label[joined], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1) if len(order) else []


def diagonal_blocks(Theta: Any) -> list[tuple[IntArray, FloatArray]]:
    """Connected components (two or more variables) with their dense diagonal blocks."""
    parts = components_of(Theta)
    part_of, position = np.full(Theta.shape[0], -1), np.zeros(Theta.shape[0], dtype=np.int64)
    for number, members in enumerate(parts):
        part_of[members], position[members] = number, np.arange(len(members))
    entries = sparse.coo_array(Theta)
    number = part_of[entries.row]
    order = np.argsort(number, kind="stable")
    ends = np.searchsorted(number[order], np.arange(len(parts) + 1))
    rows, columns, values = position[entries.row][order], position[entries.col][order], entries.data[order]
    blocks = []
    for part, members in enumerate(parts):
        span = slice(ends[part], ends[part + 1])
        block = np.zeros((len(members), len(members)))
        block[rows[span], columns[span]] = values[span]
        blocks.append((members, block))
    return blocks


def logdet(Theta: Any) -> float:
    """Log-determinant of a sparse matrix, by components; LinAlgError where it is not positive definite."""
    rows = sparse.csr_array(Theta)
    diagonal = rows.diagonal()
    isolated = np.ones(len(diagonal), dtype=bool)
    total = 0.0
    for members, block in diagonal_blocks(rows):
        factor = np.linalg.cholesky(block)
        total += 2.0 * float(np.log(np.diagonal(factor)).sum())
        isolated[members] = False
    if (diagonal <= 0.0).any():
        raise np.linalg.LinAlgError("the diagonal is not positive")
    return total + float(np.log(diagonal[isolated]).sum())
