"""How central the variables are."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso._optional import require
from jointglasso._typing import FloatArray, IntArray
from jointglasso.networks.edge_list import as_objects

if TYPE_CHECKING:
    import pandas as pd

    from jointglasso.networks.joint import JointNetworks


def centrality_table(networks: JointNetworks) -> pd.DataFrame:
    """Table of `JointNetworks.centrality`."""
    p, K = networks.n_variables, networks.n_classes
    strength, influence, betweenness = (np.zeros((p, K)) for _ in range(3))
    edges = networks.edge_list
    for k in range(K):
        mine = edges.class_index == k
        first, second, value = edges.first[mine], edges.second[mine], edges.partial_correlation[mine]
        ends = np.concatenate([first, second])
        strength[:, k] = np.bincount(ends, np.tile(np.abs(value), 2), p)
        influence[:, k] = np.bincount(ends, np.tile(value, 2), p)
        betweenness[:, k] = _betweenness(p, first, second, 1.0 / np.abs(value))
    table = require("pandas", "networks").DataFrame(
        {
            "variable": np.repeat(as_objects(networks.variable_names), K),
            "class": np.tile(as_objects(networks.class_names), p),
            "degree": networks.degree_table.ravel(),
            "strength": strength.ravel(),
            "expected_influence": influence.ravel(),
            "betweenness": betweenness.ravel(),
        }
    )
    return table if networks.absent is None else table[~networks.absent.T.ravel()].reset_index(drop=True)


def _betweenness(p: int, first: IntArray, second: IntArray, length: FloatArray) -> Any:
    """Share of the shortest paths between two others that lead through each variable, by igraph or networkx."""
    if len(first) == 0 or p < 3:
        return np.zeros(p)
    if find_spec("igraph") is not None:
        igraph = require("igraph", "igraph")
        graph = igraph.Graph(n=p, edges=np.column_stack([first, second]).tolist())
        return np.array(graph.betweenness(weights=length.tolist())) * (2.0 / ((p - 1) * (p - 2)))
    networkx = require("networkx", "networks")
    graph = networkx.Graph()
    graph.add_nodes_from(range(p))
    graph.add_weighted_edges_from(zip(first.tolist(), second.tolist(), length.tolist(), strict=True))
    found = networkx.betweenness_centrality(graph, weight="weight", normalized=True)
    return np.array([found[i] for i in range(p)])
