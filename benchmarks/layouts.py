"""Layouts of networks: that of the package beside those of igraph.

Stress is the mean squared relative error of the distances in the picture, scaled, against the numbers of edges between
two variables (weights 1 / number^2). Crowding is the 5 % quantile of the distance to the nearest variable, relative to
its median: near 0 some variables lie on each other.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import igraph
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components, shortest_path
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

import jointglasso as jgl
from common import describe_machine, print_header, print_row
from jointglasso.networks.layout import common_layout, union_weights


def networks() -> Iterator[tuple[str, list[Any]]]:
    """Precision matrices by name: estimated ones, and trees with a third more edges."""
    table, _ = jgl.datasets.load_expression()
    model = jgl.JointGraphicalLasso(lambda1=0.55, lambda2=0.1).fit(table.to_frame(), table.y)
    yield "genes in three cancers", model.solution_.precision
    rng = np.random.default_rng(0)
    for p in (300, 2000):
        parent = (rng.random(p - 1) ** 2 * np.arange(1, p)).astype(int)
        more = rng.integers(0, p, (2, p // 3))
        rows, columns = np.r_[np.arange(1, p), more[0]], np.r_[parent, more[1]]
        upper = sparse.coo_array((rng.uniform(0.1, 0.4, len(rows)), (rows, columns)), shape=(p, p)).tocsr()
        upper = sparse.triu(upper.maximum(upper.T), 1)
        yield "random", [sparse.csc_array(5.0 * sparse.eye_array(p) - upper - upper.T)]


def layouts(precision: list[Any]) -> dict[str, Callable[[], Any]]:
    """Functions that return coordinates (p, 2)."""
    weights = sparse.triu(union_weights(precision), 1).tocoo()
    edges, p = np.column_stack([weights.row, weights.col]).tolist(), precision[0].shape[0]
    graph = igraph.Graph(n=p, edges=edges)
    functions: dict[str, Callable[[], Any]] = {
        "jointglasso": lambda: common_layout(precision),
        "igraph, Fruchterman and Reingold": lambda: (
            graph.layout_fruchterman_reingold(weights=weights.data.tolist()).coords
        ),
    }
    if p <= 300:
        functions["igraph, Kamada and Kawai"] = lambda: graph.layout_kamada_kawai().coords
    return functions


def stress(places: Any, steps: Any) -> float:
    """Mean squared relative error of the distances, at the best scale."""
    upper = np.triu_indices(len(steps), 1)
    distance, number = cdist(places, places)[upper], steps[upper]
    scale = (distance / number).sum() / (distance**2 / number**2).sum()
    return float(((scale * distance / number - 1.0) ** 2).mean())


def main() -> None:
    describe_machine()
    print_header("network", "variables", "layout", "processor s", "stress", "crowding")
    for name, matrices in networks():
        union = union_weights(matrices)
        _, label = connected_components(union, directed=False)
        nodes = np.flatnonzero(label == np.bincount(label).argmax())
        steps = shortest_path(union[nodes][:, nodes], unweighted=True)
        for layout, function in layouts([Theta.tocsc()[:, nodes][nodes] for Theta in matrices]).items():
            random.seed(0)
            began = time.process_time()
            places = np.array(function())
            seconds = time.process_time() - began
            nearest = cKDTree(places).query(places, k=2)[0][:, 1]
            crowding = np.quantile(nearest, 0.05) / np.median(nearest)
            print_row(name, len(nodes), layout, f"{seconds:.2f}", f"{stress(places, steps):.3f}", f"{crowding:.2f}")


if __name__ == "__main__":
    main()
