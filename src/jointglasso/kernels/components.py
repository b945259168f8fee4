"""Union-find: connected components, and the closure of Algorithm 1 (hybrid thresholding)."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import BoolArray, IntArray
from jointglasso.kernels.jit import njit, njit_internal


@njit_internal
def _find(parent: IntArray, node: int) -> int:
    """Root of a node, with path halving."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@njit
def components(n_nodes: int, rows: IntArray, columns: IntArray) -> tuple[IntArray, BoolArray]:
    """Connected components of the graph with edges ``rows[e] - columns[e]``, by Kruskal's algorithm.

    Returns labels (n_nodes,) in the order of the smallest members, and (E,) whether each edge joins two components of
    those before it: these edges are a spanning forest.
    """
    parent, joins = np.empty(n_nodes, np.int64), np.empty(rows.shape[0], np.bool_)
    for node in range(n_nodes):
        parent[node] = node
    for edge in range(rows.shape[0]):
        one, other = _find(parent, rows[edge]), _find(parent, columns[edge])
        joins[edge] = one != other
        parent[max(one, other)] = min(one, other)  # the root is the smallest member
    labels, count = np.empty(n_nodes, np.int64), 0
    for node in range(n_nodes):
        if parent[node] < node:
            labels[node] = labels[parent[node]]
        else:
            labels[node] = count
            count += 1
    return labels, joins


@njit_internal
def _adjacency(n_variables: int, rows: IntArray, columns: IntArray, excluded: BoolArray) -> tuple[IntArray, IntArray]:
    """CSR lists of the pairs incident to each variable, without the `excluded` ones."""
    start = np.zeros(n_variables + 1, np.int64)
    for pair in range(rows.shape[0]):
        if not excluded[pair]:
            start[rows[pair] + 1] += 1
            start[columns[pair] + 1] += 1
    for i in range(n_variables):
        start[i + 1] += start[i]
    incident = np.empty(start[n_variables], np.int64)
    fill = start[:-1].copy()
    for pair in range(rows.shape[0]):
        if not excluded[pair]:
            incident[fill[rows[pair]]] = pair
            fill[rows[pair]] += 1
            incident[fill[columns[pair]]] = pair
            fill[columns[pair]] += 1
    return start, incident


@njit
def hybrid_closure(
    n_variables: int, rows: IntArray, columns: IntArray, exceeds_lambda1: BoolArray, violates_global: BoolArray
) -> BoolArray:
    """Pairs (P,) that Algorithm 1 of the paper, event driven, activates: their edges give the finest partition of (8).

    `exceeds_lambda1` (P, K): whether the pair exceeds lambda1 in class k. `violates_global` (P,): whether it violates
    the global condition. An *activated* pair joins its two variables in every class where it exceeds lambda1. Pairs
    that violate the global condition are activated first. Each other pair is deferred until a union, in any class, puts
    both variables into one component (the paper's search for triples (x, i, j)). A union scans the deferred pairs of
    the smaller component only, so that each pair is scanned O(log p) times in each class.
    """
    n_classes = exceeds_lambda1.shape[1]
    parent = np.empty((n_classes, n_variables), np.int64)
    next_member = np.empty((n_classes, n_variables), np.int64)  # circular lists of the members of a component
    size = np.ones((n_classes, n_variables), np.int64)
    for k in range(n_classes):
        for i in range(n_variables):
            parent[k, i] = i
            next_member[k, i] = i
    start, incident = _adjacency(n_variables, rows, columns, violates_global)

    activated = violates_global.copy()
    stack = np.empty(rows.shape[0], np.int64)
    top = 0
    for pair in range(rows.shape[0]):
        if violates_global[pair]:
            stack[top] = pair
            top += 1

    while top > 0:
        top -= 1
        pair = stack[top]
        for k in range(n_classes):
            if not exceeds_lambda1[pair, k]:
                continue
            small = _find(parent[k], rows[pair])
            large = _find(parent[k], columns[pair])
            if small == large:
                continue
            if size[k, small] > size[k, large]:
                small, large = large, small
            # Every deferred pair between the two components is now inside one component of class k.
            member = small
            for _ in range(size[k, small]):
                for slot in range(start[member], start[member + 1]):
                    deferred = incident[slot]
                    if not activated[deferred]:
                        other = rows[deferred] + columns[deferred] - member
                        if _find(parent[k], other) == large:
                            activated[deferred] = True
                            stack[top] = deferred
                            top += 1
                member = next_member[k, member]
            parent[k, small] = large
            size[k, large] += size[k, small]
            swap = next_member[k, small]
            next_member[k, small] = next_member[k, large]
            next_member[k, large] = swap
    return activated
