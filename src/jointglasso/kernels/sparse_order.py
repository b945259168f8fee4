"""Elimination order of a sparse symmetric matrix: approximate minimum degree that stops at a dense tail.

Eliminating a variable joins its neighbours to a clique. A quotient graph (Amestoy, Davis and Duff 1996) stores each
clique as one *element*, a list of its variables: variable i keeps a list of elements and a list of variables, which
together never exceed its initial degree, because a new element replaces at least one member of the list. The variables
of the element made by eliminating i are the row indices of column i of the Cholesky factor, so that the order gives the
sparsity of the factor as well.

When the least degree reaches a given fraction of the number of variables left over, these form a nearly dense matrix:
elimination stops, and this tail is left to dense factorisation, which runs many times faster per multiplication.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jointglasso._typing import IntArray
from jointglasso.kernels.jit import njit, njit_internal


@njit_internal
def _remove(i: int, degree: IntArray, head: IntArray, following: IntArray, previous: IntArray) -> None:
    """Take variable i out of the list of the variables of its degree."""
    after, before = following[i], previous[i]
    if after >= 0:
        previous[after] = before
    if before >= 0:
        following[before] = after
    else:
        head[degree[i]] = after


@njit_internal
def _insert(i: int, degree: IntArray, head: IntArray, following: IntArray, previous: IntArray) -> None:
    """Put variable i into the list of the variables of its degree."""
    first = head[degree[i]]
    following[i], previous[i] = first, -1
    if first >= 0:
        previous[first] = i
    head[degree[i]] = i


@njit
def minimum_degree(
    start: IntArray, other: IntArray, tail_fraction: float, limit: float
) -> tuple[IntArray, int, IntArray, NDArray[np.int32]]:
    """Order of n variables, number n_1 of eliminated ones, and the sparsity of the first n_1 columns of the factor.

    `start` (n + 1,) and `other` are the neighbours of each variable, both triangles, without the diagonal. The last two
    results are the offset of each column (n_1 + 1,) and its row indices, renumbered to the order and ascending. The sum
    of squared column lengths is at most `limit`: beyond it n_1 = -1 is returned, with empty arrays.
    """
    n = start.shape[0] - 1
    lists, length = other.copy(), start[1:] - start[:-1]
    n_elements = np.zeros(n, dtype=np.int64)  # the first entries of each list are elements
    degree = length.copy()
    head, following, previous = np.full(max(n, 1), -1), np.full(n, -1), np.full(n, -1)
    for i in range(n):
        _insert(i, degree, head, following, previous)
    eliminated, absorbed = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    first, size = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)  # of the variables of each element
    pool, used = np.empty(max(16, 2 * other.shape[0]), dtype=np.int32), 0
    member, outside = np.full(n, -1), np.zeros(n, dtype=np.int64)
    scratch = np.empty(int(length.max()) + 1 if n else 1, dtype=np.int64)
    order = np.empty(n, dtype=np.int64)
    stamp, least, work = np.int64(0), 0, 0.0
    count = 0
    while count < n:
        while head[least] < 0:
            least += 1
        if least > 0 and least >= tail_fraction * (n - count - 1):
            break
        pivot = head[least]
        _remove(pivot, degree, head, following, previous)
        eliminated[pivot] = True
        order[count] = pivot
        count += 1
        # The new element: neighbours of the pivot, and variables of its elements, which it absorbs.
        bound = 0
        for t in range(length[pivot]):
            item = lists[start[pivot] + t]
            bound += size[item] if t < n_elements[pivot] else 1
        while used + bound > pool.shape[0]:
            larger = np.empty(2 * pool.shape[0], dtype=np.int32)
            larger[:used] = pool[:used]
            pool = larger
        first[pivot] = used
        for t in range(length[pivot]):
            item = lists[start[pivot] + t]
            if t < n_elements[pivot]:
                absorbed[item] = True
                for place in range(first[item], first[item] + size[item]):
                    i = pool[place]
                    if not eliminated[i] and member[i] != pivot:
                        member[i] = pivot
                        pool[used] = i
                        used += 1
            elif not eliminated[item] and member[item] != pivot:
                member[item] = pivot
                pool[used] = item
                used += 1
        size[pivot] = used - first[pivot]
        work += float(size[pivot]) ** 2
        if work > limit:
            return order[:0], -1, order[:0], pool[:0]
        # outside[e] - stamp: number of variables of element e that the new element does not have.
        for place in range(first[pivot], used):
            i = pool[place]
            for t in range(n_elements[i]):
                e = lists[start[i] + t]
                if not absorbed[e]:
                    if outside[e] < stamp:
                        outside[e] = stamp + size[e]
                    outside[e] -= 1
        for place in range(first[pivot], used):
            i = pool[place]
            _remove(i, degree, head, following, previous)
            scratch[0] = pivot
            kept, external = 1, size[pivot] - 1
            for t in range(n_elements[i]):
                e = lists[start[i] + t]
                if not absorbed[e] and outside[e] > stamp:  # else it is part of the new element
                    scratch[kept] = e
                    kept += 1
                    external += outside[e] - stamp
            elements = kept
            for t in range(n_elements[i], length[i]):
                other_variable = lists[start[i] + t]
                if not eliminated[other_variable] and member[other_variable] != pivot:
                    scratch[kept] = other_variable
                    kept += 1
            external += kept - elements
            for t in range(kept):
                lists[start[i] + t] = scratch[t]
            n_elements[i], length[i] = elements, kept
            degree[i] = min(external, degree[i] + size[pivot] - 1, n - count - 1)
            _insert(i, degree, head, following, previous)
            least = min(least, degree[i])
        stamp += n + 1
    n_eliminated = count
    for i in range(n):
        if not eliminated[i]:
            order[count] = i
            count += 1
    rank = np.empty(n, dtype=np.int32)
    for place in range(n):
        rank[order[place]] = place
    offset = np.zeros(n_eliminated + 1, dtype=np.int64)
    rows = np.empty(used, dtype=np.int32)
    for column in range(n_eliminated):
        pivot, begin = order[column], offset[column]
        for t in range(size[pivot]):
            rows[begin + t] = rank[pool[first[pivot] + t]]
        offset[column + 1] = begin + size[pivot]
        rows[begin : offset[column + 1]].sort()
    return order, n_eliminated, offset, rows
