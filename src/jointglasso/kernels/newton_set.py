"""Active entries of a group and the components of their graph: the working set of one Newton iteration.

The unknowns of an iteration are the active off-diagonal entries 0..E-1, pair by pair, then the diagonal entries
E..E+V-1 of the V variables with an active entry. Variables are renumbered component by component ("nodes").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.kernels.components import _find
from jointglasso.kernels.group_pair import of_pair
from jointglasso.kernels.group_state import cholesky, invert
from jointglasso.kernels.jit import njit
from jointglasso.kernels.pair_types import GroupPair


class Point(NamedTuple):
    """A point (theta, W) with the data of its KKT conditions."""

    start: IntArray
    """(P + 1,): CSR start of the entries of each pair."""
    factor: FloatArray
    """Weight of each pair in the penalty; empty where all are 1."""
    upper: IntArray
    block: IntArray
    """Flat position and block of each entry."""
    weight: FloatArray
    """Weight w_k of the class of each block."""
    S: FloatArray
    W: FloatArray
    theta: FloatArray


@njit
def mark_active(first: int, last: int, point: Point, penalty: GroupPair, mark: BoolArray) -> None:
    """Mark the pairs first..last-1 that are non-zero or violate the KKT conditions at zero."""
    start, factor, upper, entry_block, weight, S, W, theta = point
    l1, l2 = penalty.lambda1, penalty.lambda2
    weighted = factor.shape[0] > 0
    for pair in range(first, last):
        if weighted:
            l1, l2 = of_pair(penalty, factor, pair)
        nonzero = False
        squares = 0.0
        for entry in range(start[pair], start[pair + 1]):
            position = upper[entry]
            if theta[position] != 0.0:
                nonzero = True
                break
            violation = weight[entry_block[entry]] * abs(S[position] - W[position]) - l1
            if violation > 0.0:
                squares += violation * violation
        mark[pair] = nonzero or squares > l2 * l2


@njit
def active_entries(mark: BoolArray, point: Point, penalty: GroupPair) -> tuple[IntArray, IntArray]:
    """CSR start and entries of the marked pairs that are non-zero or have a gradient above lambda1.

    The other entries of a marked pair stay zero in this iteration.
    """
    start, factor, upper, entry_block, weight, S, W, theta = point
    n_pairs = 0
    n_entries = 0
    for pair in range(mark.shape[0]):
        if mark[pair]:
            n_pairs += 1
            n_entries += start[pair + 1] - start[pair]
    entry_start = np.zeros(n_pairs + 1, np.int64)
    entries = np.empty(n_entries, np.int64)
    n = 0
    m = 0
    for pair in range(mark.shape[0]):
        if mark[pair]:
            l1, _ = of_pair(penalty, factor, pair)
            for entry in range(start[pair], start[pair + 1]):
                position = upper[entry]
                if theta[position] != 0.0 or weight[entry_block[entry]] * abs(S[position] - W[position]) > l1:
                    entries[n] = entry
                    n += 1
            m += 1
            entry_start[m] = n
    return entry_start, entries[:n].copy()


@njit
def number_nodes(n_members: int, row: IntArray, column: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Components of at least two members: member of each node, start of each component, node of each member.

    A member without an active entry has node -1.
    """
    parent = np.arange(n_members)
    for entry in range(row.shape[0]):
        a = _find(parent, row[entry])
        b = _find(parent, column[entry])
        if a < b:
            parent[b] = a
        elif b < a:
            parent[a] = b
    size = np.zeros(n_members, np.int64)
    for member in range(n_members):
        size[_find(parent, member)] += 1
    component = np.full(n_members, -1)
    count = 0
    total = 0
    for member in range(n_members):
        if parent[member] == member and size[member] > 1:
            component[member] = count
            count += 1
            total += size[member]
    start = np.zeros(count + 1, np.int64)
    for member in range(n_members):
        if component[member] >= 0:
            start[component[member] + 1] = size[member]
    for c in range(count):
        start[c + 1] += start[c]
    fill = start[:-1].copy()
    members = np.empty(total, np.int64)
    node = np.full(n_members, -1)
    for member in range(n_members):
        c = component[_find(parent, member)]
        if c >= 0:
            node[member] = fill[c]
            members[fill[c]] = member
            fill[c] += 1
    return members, start, node


@njit
def symmetric_pattern(
    n_nodes: int, end_i: IntArray, end_j: IntArray, local: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """CSR sparsity over the nodes, both triangles, diagonal first: start of each row, local column and unknown."""
    n_entries = end_i.shape[0]
    start = np.zeros(n_nodes + 1, np.int64)
    for node in range(n_nodes):
        start[node + 1] = 1
    for entry in range(n_entries):
        start[end_i[entry] + 1] += 1
        start[end_j[entry] + 1] += 1
    for node in range(n_nodes):
        start[node + 1] += start[node]
    fill = start[:-1].copy()
    column = np.empty(start[n_nodes], np.int32)
    unknown = np.empty(start[n_nodes], np.int64)
    for node in range(n_nodes):
        column[fill[node]] = local[node]
        unknown[fill[node]] = n_entries + node
        fill[node] += 1
    for entry in range(n_entries):
        i = end_i[entry]
        j = end_j[entry]
        column[fill[i]] = local[j]
        unknown[fill[i]] = entry
        fill[i] += 1
        column[fill[j]] = local[i]
        unknown[fill[j]] = entry
        fill[j] += 1
    return start, column, unknown


@njit
def restrict_sparsity(
    start: IntArray, column: IntArray, unknown: IntArray, keep: BoolArray
) -> tuple[IntArray, IntArray, IntArray]:
    """The positions of a CSR sparsity marked in `keep`."""
    n_nodes = start.shape[0] - 1
    new_start = np.zeros(n_nodes + 1, np.int64)
    new_column = np.empty(column.shape[0], np.int32)
    new_unknown = np.empty(column.shape[0], np.int64)
    n = 0
    for node in range(n_nodes):
        for position in range(start[node], start[node + 1]):
            if keep[position]:
                new_column[n] = column[position]
                new_unknown[n] = unknown[position]
                n += 1
        new_start[node + 1] = n
    return new_start, new_column[:n].copy(), new_unknown[:n].copy()


@njit
def fill_components(
    component_start: IntArray,
    area: IntArray,
    start: IntArray,
    column: IntArray,
    unknown: IntArray,
    x: FloatArray,
    dense: FloatArray,
) -> None:
    """Write the dense matrices of the components from the unknowns x."""
    for c in range(component_start.shape[0] - 1):
        size = component_start[c + 1] - component_start[c]
        for i in range(size):
            base = area[c] + i * size
            dense[base : base + size] = 0.0
            node = component_start[c] + i
            for position in range(start[node], start[node + 1]):
                dense[base + column[position]] = x[unknown[position]]


@njit
def scatter_component(matrix: FloatArray, slots: IntArray, base: int, block_size: int, W: FloatArray) -> None:
    """Copy the upper triangle of a component's matrix into both triangles of its block, in cache-sized squares."""
    n = matrix.shape[0]
    side = 64
    for first_row in range(0, n, side):
        for first_column in range(first_row, n, side):
            for i in range(first_row, min(first_row + side, n)):
                row_start = base + slots[i] * block_size
                for j in range(max(first_column, i), min(first_column + side, n)):
                    W[row_start + slots[j]] = matrix[i, j]
            for j in range(first_column, min(first_column + side, n)):
                row_start = base + slots[j] * block_size
                for i in range(first_row, min(min(first_row + side, n), j)):
                    W[row_start + slots[i]] = matrix[i, j]


@njit
def factor_components(which: IntArray, component_start: IntArray, area: IntArray, dense: FloatArray) -> FloatArray:
    """Replace small components by their lower Cholesky factors; log-determinants.

    Infinite where a component is not positive definite, at which the loop stops.
    """
    logdet = np.full(which.shape[0], np.inf)
    for n in range(which.shape[0]):
        c = which[n]
        size = component_start[c + 1] - component_start[c]
        A = dense[area[c] : area[c + 1]].reshape(size, size)
        logdet[n] = cholesky(A, A)
        if logdet[n] == np.inf:
            break
    return logdet


@njit
def invert_components(
    which: IntArray,
    component_start: IntArray,
    area: IntArray,
    dense: FloatArray,
    slot: IntArray,
    base: IntArray,
    block_size: IntArray,
    W: FloatArray,
) -> None:
    """Write the inverses of small components, from their Cholesky factors, into W."""
    widest = 0
    for c in which:
        widest = max(widest, component_start[c + 1] - component_start[c])
    flat, buffer = np.empty(widest * widest), np.empty(widest * widest)
    for c in which:
        first, last = component_start[c], component_start[c + 1]
        size = last - first
        inverse = flat[: size * size].reshape(size, size)
        L = dense[area[c] : area[c + 1]].reshape(size, size)
        invert(L, inverse, buffer[: size * size].reshape(size, size))
        scatter_component(inverse, slot[first:last], base[c], block_size[c], W)
