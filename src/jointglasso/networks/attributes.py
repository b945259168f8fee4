"""What graph formats and packages say about nodes and edges, as plain Python columns.

Nodes are numbers, the positions of the variables; names are labels. Two variables of one name stay two nodes, and no
format has to find a valid identifier in a name.
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


#: Types of the attributes of edges, by their CX2 names; GraphML calls the same types by the same words.
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

#: Types of the attributes of nodes.
NODE_TYPES = {"name": "string", "degree": "integer"}


@dataclass(frozen=True)
class GraphColumns:
    """Nodes and edges of one graph; every list of `nodes` and of `edges` is a column."""

    first: list[int]
    second: list[int]
    edges: dict[str, list[Any]]
    nodes: dict[str, list[Any]]

    @property
    def edge_types(self) -> dict[str, str]:
        """Types of the edge attributes that are there."""
        return {name: EDGE_TYPES[name] for name in self.edges}

    def edge_rows(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Both ends and the attributes of each edge."""
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


#: Units of the coordinates in files between variables near each other: about two names.
_SPACING = 80.0

#: Pairs that shape the places; weaker ones would make a ball of wool.
_SHAPING = 300


def places(networks: JointNetworks) -> FloatArray:
    """Coordinates (p, 2) for other programs, the second counting downwards."""
    return _SPACING * common_layout(networks.precision, networks.edge_list.readable_strength(_SHAPING))


def graph_columns(networks: JointNetworks, class_name: str | None = None) -> GraphColumns:
    """Columns of the graph of one class, or of all classes with an edge for each pair and class.

    A stability that is not known is left out: most formats have no word for a missing number. `degree` counts
    different neighbours, so that a pair joined in three classes counts once. `weight` is the size of the partial
    correlation, what other programs take for the strength of an edge.
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
    """One graph of all classes, one for each class, or that of one class: `as_networkx` or `as_igraph`."""
    if multigraph:
        return make(graph_columns(networks, class_name), None)
    names = networks.class_names if class_name is None else [class_name]
    graphs = {name: make(graph_columns(networks, name), name) for name in names}
    return graphs if class_name is None else graphs[class_name]


def as_networkx(columns: GraphColumns, class_name: str | None) -> Any:
    """A graph of networkx, of one class or, as a multigraph, of all."""
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
    """A graph of igraph."""
    igraph = require("igraph", "igraph")
    return igraph.Graph(
        n=len(columns.nodes["name"]),
        edges=list(zip(columns.first, columns.second, strict=True)),
        vertex_attrs=columns.nodes,
        edge_attrs=columns.edges,
    )
