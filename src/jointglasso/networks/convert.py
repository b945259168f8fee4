"""Networks as graphs of other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jointglasso._optional import require
from jointglasso.networks.attributes import GraphColumns, graph_columns

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks


def to_networkx(networks: JointNetworks, class_name: str | None, multigraph: bool) -> Any:
    """Graphs of `JointNetworks.to_networkx`."""
    networkx = require("networkx", "networks")
    if multigraph:
        graph = networkx.MultiGraph()
        _fill_networkx(graph, graph_columns(networks, class_name), keyed=True)
        return graph
    names = networks.class_names if class_name is None else [class_name]
    graphs = {}
    for name in names:
        graphs[name] = networkx.Graph(**{"class": name})
        _fill_networkx(graphs[name], graph_columns(networks, name), keyed=False)
    return graphs if class_name is None else graphs[class_name]


def _fill_networkx(graph: Any, columns: GraphColumns, keyed: bool) -> None:
    names = columns.nodes["name"]
    nodes: list[Any] = names if len(set(names)) == len(names) else list(range(len(names)))
    graph.add_nodes_from((nodes[i], {**values, "position": i}) for i, values in enumerate(columns.node_rows()))
    rows = ((nodes[first], nodes[second], values) for first, second, values in columns.edge_rows())
    if keyed:
        graph.add_edges_from((first, second, values["class"], values) for first, second, values in rows)
    else:
        graph.add_edges_from(rows)


def to_igraph(networks: JointNetworks, class_name: str | None, multigraph: bool) -> Any:
    """Graphs of `JointNetworks.to_igraph`."""
    if multigraph:
        return _igraph(graph_columns(networks, class_name))
    names = networks.class_names if class_name is None else [class_name]
    graphs = {name: _igraph(graph_columns(networks, name)) for name in names}
    return graphs if class_name is None else graphs[class_name]


def _igraph(columns: GraphColumns) -> Any:
    igraph = require("igraph", "igraph")
    return igraph.Graph(
        n=len(columns.nodes["name"]),
        edges=list(zip(columns.first, columns.second, strict=True)),
        vertex_attrs=columns.nodes,
        edge_attrs=columns.edges,
    )
