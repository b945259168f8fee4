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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jointglasso._typing import BoolArray, IntArray
from jointglasso.kernels.jit import njit, njit_internal


class QuotientGraph(NamedTuple):
    """Variables and elements of a partly eliminated graph of n variables; an element has the number of its pivot."""

    start: IntArray
    lists: IntArray
    """From start[i] on: the elements of variable i, then its variables."""
    length: IntArray
    n_elements: IntArray
    eliminated: BoolArray
    absorbed: BoolArray
    """Elements that are part of a later one."""
    first: IntArray
    size: IntArray
    """Position in the pool, and number, of the variables of each element."""
    member: IntArray
    """Last element that a variable was put into."""
    outside: IntArray
    """Number of variables of an element that the newest one does not have, plus a time stamp."""


class DegreeLists(NamedTuple):
    """Variables by (approximate) degree, in doubly linked lists."""

    degree: IntArray
    head: IntArray
    following: IntArray
    previous: IntArray


@njit_internal
def _remove(i: int, lists: DegreeLists) -> None:
    after, before = lists.following[i], lists.previous[i]
    if after >= 0:
        lists.previous[after] = before
    if before >= 0:
        lists.following[before] = after
    else:
        lists.head[lists.degree[i]] = after


@njit_internal
def _insert(i: int, lists: DegreeLists) -> None:
    first = lists.head[lists.degree[i]]
    lists.following[i], lists.previous[i] = first, -1
    if first >= 0:
        lists.previous[first] = i
    lists.head[lists.degree[i]] = i


@njit_internal
def _make_element(
    pivot: int, graph: QuotientGraph, pool: NDArray[np.int32], used: int
) -> tuple[NDArray[np.int32], int]:
    """Eliminate the pivot: its variables and those of its elements, which are absorbed, become an element."""
    bound, begin = 0, graph.start[pivot]
    for t in range(graph.length[pivot]):
        bound += graph.size[graph.lists[begin + t]] if t < graph.n_elements[pivot] else 1
    if used + bound > pool.shape[0]:
        larger = np.empty(max(2 * pool.shape[0], used + bound), dtype=np.int32)
        larger[:used] = pool[:used]
        pool = larger
    graph.first[pivot], graph.eliminated[pivot] = used, True
    for t in range(graph.length[pivot]):
        item = graph.lists[begin + t]
        if t < graph.n_elements[pivot]:
            graph.absorbed[item] = True
            for place in range(graph.first[item], graph.first[item] + graph.size[item]):
                i = pool[place]
                if not graph.eliminated[i] and graph.member[i] != pivot:
                    graph.member[i], pool[used] = pivot, i
                    used += 1
        elif not graph.eliminated[item] and graph.member[item] != pivot:
            graph.member[item], pool[used] = pivot, item
            used += 1
    graph.size[pivot] = used - graph.first[pivot]
    return pool, used


@njit_internal
def _count_outside(variables: NDArray[np.int32], graph: QuotientGraph, stamp: int) -> None:
    """For each element that meets the newest one: stamp + number of its variables that are not in the newest one."""
    for i in variables:
        for t in range(graph.n_elements[i]):
            e = graph.lists[graph.start[i] + t]
            if not graph.absorbed[e]:
                if graph.outside[e] < stamp:
                    graph.outside[e] = stamp + graph.size[e]
                graph.outside[e] -= 1


@njit_internal
def _update_variable(i: int, pivot: int, graph: QuotientGraph, stamp: int, scratch: IntArray) -> int:
    """Remove from the lists of variable i what the new element contains; returns a bound on its degree."""
    begin = graph.start[i]
    scratch[0] = pivot
    kept, degree = 1, graph.size[pivot] - 1
    for t in range(graph.n_elements[i]):
        e = graph.lists[begin + t]
        if not graph.absorbed[e] and graph.outside[e] > stamp:  # else it is part of the new element
            scratch[kept] = e
            kept += 1
            degree += graph.outside[e] - stamp
    n_elements = kept
    for t in range(graph.n_elements[i], graph.length[i]):
        variable = graph.lists[begin + t]
        if not graph.eliminated[variable] and graph.member[variable] != pivot:
            scratch[kept] = variable
            kept += 1
    for t in range(kept):
        graph.lists[begin + t] = scratch[t]
    graph.n_elements[i], graph.length[i] = n_elements, kept
    return degree + kept - n_elements


@njit
def minimum_degree(
    start: IntArray, other: IntArray, tail_fraction: float, limit: float
) -> tuple[IntArray, int, IntArray, NDArray[np.int32]]:
    """Order of n variables, number n_1 of eliminated ones, and the sparsity of the first n_1 columns of the factor.

    `start` (n + 1,) and `other` are the neighbours of each variable, both triangles, without the diagonal. The last two
    results are the offset of each column (n_1 + 1,) and the variables of its rows, in any order. If the sum of squared
    column lengths exceeds `limit`, n_1 = -1 and the arrays are empty.
    """
    n = start.shape[0] - 1
    length = start[1:] - start[:-1]
    zero, false = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_)
    graph = QuotientGraph(
        start, other.copy(), length, zero, false, false.copy(), zero.copy(), zero.copy(), np.full(n, -1), zero.copy()
    )
    lists = DegreeLists(length.copy(), np.full(max(n, 1), -1), np.full(n, -1), np.full(n, -1))
    for i in range(n):
        _insert(i, lists)
    pool, used = np.empty(max(16, 2 * other.shape[0]), dtype=np.int32), 0
    scratch = np.empty((int(length.max()) if n else 0) + 1, dtype=np.int64)
    order = np.empty(n, dtype=np.int64)
    stamp, least, work, count = np.int64(0), 0, 0.0, 0
    while count < n:
        while lists.head[least] < 0:
            least += 1
        if least > 0 and least >= tail_fraction * (n - count - 1):
            break
        pivot = lists.head[least]
        _remove(pivot, lists)
        order[count] = pivot
        count += 1
        pool, used = _make_element(pivot, graph, pool, used)
        work += float(graph.size[pivot]) ** 2
        if work > limit:
            return order[:0], -1, order[:0], pool[:0]
        variables = pool[graph.first[pivot] : used]
        _count_outside(variables, graph, stamp)
        for i in variables:
            _remove(i, lists)
            bound = min(_update_variable(i, pivot, graph, stamp, scratch), n - count - 1)
            lists.degree[i] = min(bound, lists.degree[i] + graph.size[pivot] - 1)
            _insert(i, lists)
            least = min(least, lists.degree[i])
        stamp += n + 1
    n_columns, offset = count, np.empty(count + 1, dtype=np.int64)
    for column in range(n_columns):
        offset[column] = graph.first[order[column]]
    offset[n_columns] = used
    for i in range(n):
        if not graph.eliminated[i]:
            order[count] = i
            count += 1
    return order, n_columns, offset, pool[:used]
