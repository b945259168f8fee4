"""Files of Cytoscape: its exchange format CX2, and the JSON of Cytoscape.js."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

from jointglasso.networks.attributes import NODE_TYPES, GraphColumns, graph_columns

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks


def write_cx2(networks: JointNetworks, file: IO[bytes], title: str, class_name: str | None) -> None:
    """Write CX2 version 2.0: descriptor, counts, declarations, the aspects, and the status at the end."""
    columns = graph_columns(networks, class_name)
    aspects: dict[str, list[Any]] = {
        "attributeDeclarations": [_declarations(columns)],
        "networkAttributes": [_network_attributes(networks, title)],
        "nodes": [{"id": i, "v": values} for i, values in enumerate(columns.node_rows())],
        "edges": [
            {"id": i, "s": first, "t": second, "v": values}
            for i, (first, second, values) in enumerate(columns.edge_rows())
        ],
    }
    present = {name: elements for name, elements in aspects.items() if elements}
    document: list[dict[str, Any]] = [
        {"CXVersion": "2.0", "hasFragments": False},
        {"metaData": [{"name": name, "elementCount": len(elements)} for name, elements in present.items()]},
        *({name: elements} for name, elements in present.items()),
        {"status": [{"success": True}]},
    ]
    _write_json(document, file)


def _declarations(columns: GraphColumns) -> dict[str, Any]:
    return {
        "networkAttributes": {
            "name": {"d": "string"},
            "description": {"d": "string"},
            "classes": {"d": "list_of_string"},
        },
        "nodes": {name: {"d": kind} for name, kind in NODE_TYPES.items()},
        "edges": {name: {"d": kind} for name, kind in columns.edge_types.items()},
    }


def _network_attributes(networks: JointNetworks, title: str) -> dict[str, Any]:
    return {
        "name": title,
        "description": "Joint graphical lasso: one edge per pair of variables and class with a non-zero precision",
        "classes": list(networks.class_names),
    }


def write_cyjs(networks: JointNetworks, file: IO[bytes], title: str, class_name: str | None) -> None:
    """Write the JSON of Cytoscape.js, as Cytoscape itself saves it."""
    columns = graph_columns(networks, class_name)
    nodes = [
        {"data": {"id": str(i), "shared_name": values["name"], **values}}
        for i, values in enumerate(columns.node_rows())
    ]
    edges = [
        {"data": {"id": f"e{i}", "source": str(first), "target": str(second), **values}}
        for i, (first, second, values) in enumerate(columns.edge_rows())
    ]
    document = {
        "format_version": "1.0",
        "generated_by": "jointglasso",
        "target_cytoscapejs_version": "~3.0",
        "data": _network_attributes(networks, title),
        "elements": {"nodes": nodes, "edges": edges},
    }
    _write_json(document, file)


def _write_json(document: Any, file: IO[bytes]) -> None:
    file.write(json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8"))
