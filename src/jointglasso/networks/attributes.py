"""Node and edge attributes for graph formats and packages, as columns of Python objects.

Nodes are identified by the indices of the variables, and names are labels: duplicate names remain distinct nodes, and
names need not be valid identifiers of a format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso._optional import require
from jointglasso._typing import FloatArray, IntArray
from jointglasso.networks.layout import common_layout
from jointglasso.networks.tables import edge_columns

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks


#: Types of the edge attributes, named as in CX2 and GraphML.
EDGE_TYPES = {
    "class": "string",
    "weight": "double",
    "precision": "double",
    "partial_correlation": "double",
    "kind": "string",
    "differential": "boolean",
    "stability": "double",
    "certified": "boolean",
    "same_in": "string",
    "same_certified": "boolean",
}

#: Types of the node attributes.
NODE_TYPES = {"name": "string", "degree": "integer"}


@dataclass(frozen=True)
class GraphColumns:
    """Edges (`first`, `second`: indices of nodes) of a graph, and columns of edge and node attributes."""

    first: list[int]
    second: list[int]
    edges: dict[str, list[Any]]
    nodes: dict[str, list[Any]]

    @property
    def edge_types(self) -> dict[str, str]:
        """Types of the edge attributes present."""
        return {name: EDGE_TYPES[name] for name in self.edges}

    def edge_rows(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Both nodes and the attributes of each edge."""
        names = list(self.edges)
        for first, second, *values in zip(self.first, self.second, *self.edges.values(), strict=True):
            yield first, second, dict(zip(names, values, strict=True))

    def node_rows(self) -> Iterator[dict[str, Any]]:
        """Attributes of each node, in order."""
        names = list(self.nodes)
        for values in zip(*self.nodes.values(), strict=True):
            yield dict(zip(names, values, strict=True))


def chosen_rows(networks: JointNetworks, class_name: str | None) -> IntArray:
    """Rows of the edge list of one class, or all of them."""
    if class_name is None:
        return np.arange(len(networks.edge_list))
    return np.flatnonzero(networks.edge_list.class_index == networks.class_index(class_name))


#: Distance of neighbouring nodes in exported coordinates, about the width of two labels.
_SPACING = 80.0

#: Number of strongest pairs used for the layout; with weaker ones it has no visible structure.
_SHAPING = 300


def places(networks: JointNetworks) -> FloatArray:
    """Coordinates (p, 2) for export; the second axis points downwards."""
    return _SPACING * common_layout(networks.precision, networks.edge_list.readable_strength(_SHAPING))


def graph_columns(networks: JointNetworks, class_name: str | None = None) -> GraphColumns:
    """Columns of the graph of one class, or of all classes with an edge for each pair and class.

    Unknown stabilities are omitted, since most formats lack missing values. `degree` counts distinct neighbours: a pair
    with edges in three classes counts once. `weight` is the absolute partial correlation, which graph packages use as
    edge weight.
    """
    rows = chosen_rows(networks, class_name)
    edges = networks.edge_list
    columns = {**edge_columns(networks), "weight": np.abs(edges.partial_correlation)}
    wanted = [name for name in EDGE_TYPES if name in columns and (name != "stability" or networks.has_stability)]
    pairs = np.unique(edges.pair[rows], return_index=True)[1]
    ends = np.concatenate([edges.first[rows][pairs], edges.second[rows][pairs]])
    return GraphColumns(
        first=edges.first[rows].tolist(),
        second=edges.second[rows].tolist(),
        edges={name: columns[name][rows].tolist() for name in wanted},
        nodes={
            "name": list(networks.variable_names),
            "degree": np.bincount(ends, minlength=networks.n_variables).tolist(),
        },
    )


def graphs(networks: JointNetworks, class_name: str | None, multigraph: bool, make: Callable[..., Any]) -> Any:
    """One multigraph of all classes, a dict with a graph per class, or the graph of one class, created by `make`."""
    if multigraph:
        return make(graph_columns(networks, class_name), None)
    names = networks.class_names if class_name is None else [class_name]
    graphs = {name: make(graph_columns(networks, name), name) for name in names}
    return graphs if class_name is None else graphs[class_name]


def as_networkx(columns: GraphColumns, class_name: str | None) -> Any:
    """Graph of networkx of one class, or multigraph of all classes."""
    networkx = require("networkx", "networks")
    graph = networkx.MultiGraph() if class_name is None else networkx.Graph(**{"class": class_name})
    names = columns.nodes["name"]
    nodes: list[Any] = names if len(set(names)) == len(names) else list(range(len(names)))
    graph.add_nodes_from((nodes[i], {**values, "position": i}) for i, values in enumerate(columns.node_rows()))
    rows = ((nodes[first], nodes[second], values) for first, second, values in columns.edge_rows())
    if class_name is None:
        graph.add_edges_from((first, second, values["class"], values) for first, second, values in rows)
    else:
        graph.add_edges_from(rows)
    return graph


def as_igraph(columns: GraphColumns, class_name: str | None) -> Any:
    """Graph of igraph."""
    igraph = require("igraph", "igraph")
    return igraph.Graph(
        n=len(columns.nodes["name"]),
        edges=list(zip(columns.first, columns.second, strict=True)),
        vertex_attrs=columns.nodes,
        edge_attrs=columns.edges,
    )
