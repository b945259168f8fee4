"""The graph of the classes: which classes are compared, how strongly, and what shape that has."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray, IntArray


def forest_of(ties: FloatArray) -> tuple[IntArray, IntArray] | None:
    """Parent of each class, -1 for roots, and an order with parents first, if the ties form no cycle."""
    n_classes = len(ties)
    edges = int(np.count_nonzero(np.triu(ties, 1)))
    n_parts, part = sparse.csgraph.connected_components(sparse.csr_array(ties > 0), directed=False)
    if edges != n_classes - n_parts:
        return None
    parent = np.full(n_classes, -1, dtype=np.int64)
    order: list[int] = []
    for root in np.unique(part, return_index=True)[1]:
        nodes, before = sparse.csgraph.breadth_first_order(sparse.csr_array(ties > 0), int(root), directed=False)
        order.extend(int(node) for node in nodes)
        for node in nodes[1:]:
            parent[node] = before[node]
    return parent, np.array(order, dtype=np.int64)


def masses_of(ties: FloatArray) -> FloatArray | None:
    """Masses m > 0 with ties ``m_k m_l`` between all classes, if there are any; three classes or more."""
    n_classes = len(ties)
    off = ~np.eye(n_classes, dtype=bool)
    if n_classes < 3 or not (ties[off] > 0).all():
        return None
    masses = np.empty(n_classes)
    for k in range(n_classes):
        one, two = [other for other in range(3) if other != k][:2]
        masses[k] = np.sqrt(ties[k, one] * ties[k, two] / ties[one, two])
    product = np.outer(masses, masses)
    return masses if np.allclose(product[off], ties[off], rtol=1e-14, atol=0.0) else None
