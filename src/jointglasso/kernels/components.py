"""Union-find: components of each class, the closure of Algorithm 1 (hybrid thresholding), and coupled class blocks."""

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


@njit_internal
def join(parent: IntArray, one: int, other: int) -> bool:
    """Unite the components of two nodes; whether they were different."""
    a, b = _find(parent, one), _find(parent, other)
    parent[b] = a
    return a != b


@njit_internal
def _label(parent: IntArray, labels: IntArray) -> None:
    """Write labels 0, 1, ... of the components in the order of their smallest member."""
    n = parent.shape[0]
    label_of_root = np.full(n, -1, np.int64)
    count = 0
    for node in range(n):
        root = _find(parent, node)
        if label_of_root[root] < 0:
            label_of_root[root] = count
            count += 1
        labels[node] = label_of_root[root]


@njit
def components(n_nodes: int, rows: IntArray, columns: IntArray) -> IntArray:
    """Label (n_nodes,) the connected components of the graph with edges ``rows[e] - columns[e]``."""
    parent = np.arange(n_nodes)
    for edge in range(rows.shape[0]):
        join(parent, rows[edge], columns[edge])
    labels = np.empty(n_nodes, np.int64)
    _label(parent, labels)
    return labels


@njit
def class_components(n_variables: int, rows: IntArray, columns: IntArray, in_class: BoolArray) -> IntArray:
    """Label (K, p) the components of each class; pair e is an edge of class k where ``in_class[e, k]``."""
    n_classes = in_class.shape[1]
    labels = np.empty((n_classes, n_variables), np.int64)
    for k in range(n_classes):
        parent = np.arange(n_variables)
        for edge in range(rows.shape[0]):
            if in_class[edge, k]:
                join(parent, rows[edge], columns[edge])
        _label(parent, labels[k])
    return labels


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
) -> IntArray:
    """Labels (K, p) of the finest partition that satisfies condition (8): Algorithm 1 of the paper, event driven.

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

    labels = np.empty((n_classes, n_variables), np.int64)
    for k in range(n_classes):
        _label(parent[k], labels[k])
    return labels


@njit
def couple_blocks(
    labels: IntArray, block_start: IntArray, members: IntArray, block_class: IntArray, coupled: BoolArray
) -> IntArray:
    """Label the groups of class blocks that share a pair of variables and must be solved jointly.

    `labels` (K, p) is the block of each variable in each class, -1 where it is isolated. Blocks of two classes that are
    `coupled` (K, K) join when they have at least two variables in common.
    """
    n_blocks = block_class.shape[0]
    parent = np.arange(n_blocks)
    common = np.zeros(n_blocks, np.int64)
    for block in range(n_blocks):
        k = block_class[block]
        for other_class in range(k + 1, labels.shape[0]):
            if not coupled[k, other_class]:
                continue
            for slot in range(block_start[block], block_start[block + 1]):
                other = labels[other_class, members[slot]]
                if other >= 0:
                    common[other] += 1
                    if common[other] == 2:
                        join(parent, block, other)
            for slot in range(block_start[block], block_start[block + 1]):
                other = labels[other_class, members[slot]]
                if other >= 0:
                    common[other] = 0
    groups = np.empty(n_blocks, np.int64)
    _label(parent, groups)
    return groups
