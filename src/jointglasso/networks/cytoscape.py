"""CX2, the exchange format of Cytoscape and NDEx, with positions and style."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

from jointglasso.networks.attributes import NODE_TYPES, GraphColumns, graph_columns, places

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks


#: Colours of edges by sign, as in the figures.
POSITIVE, NEGATIVE = "#0072B2", "#D55E00"


def write_cx2(networks: JointNetworks, file: IO[bytes], title: str, class_name: str | None) -> None:
    """Write CX2 version 2.0: descriptor, counts, declarations, the aspects, and the status at the end."""
    columns = graph_columns(networks, class_name)
    position = places(networks).round(1).tolist()
    aspects: dict[str, list[Any]] = {
        "attributeDeclarations": [_declarations(columns)],
        "networkAttributes": [_network_attributes(networks, title)],
        "nodes": [
            {"id": i, "x": position[i][0], "y": position[i][1], "v": values}
            for i, values in enumerate(columns.node_rows())
        ],
        "edges": [
            {"id": i, "s": first, "t": second, "v": values}
            for i, (first, second, values) in enumerate(columns.edge_rows())
        ],
        "visualProperties": [_style(columns)],
        "visualEditorProperties": [{"properties": {"nodeSizeLocked": True, "arrowColorMatchesEdge": True}}],
    }
    present = {name: elements for name, elements in aspects.items() if elements}
    document: list[dict[str, Any]] = [
        {"CXVersion": "2.0", "hasFragments": False},
        {"metaData": [{"name": name, "elementCount": len(elements)} for name, elements in present.items()]},
        *({name: elements} for name, elements in present.items()),
        {"status": [{"success": True}]},
    ]
    file.write(json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8"))


def _style(columns: GraphColumns) -> dict[str, Any]:
    """Style: names on nodes, edges coloured by sign, width by strength."""
    strongest = max(columns.edges["weight"], default=1.0)
    max_degree = max(columns.nodes["degree"], default=1) or 1
    return {
        "default": {
            "network": {"NETWORK_BACKGROUND_COLOR": "#FFFFFF"},
            "node": {
                "NODE_SHAPE": "ellipse", "NODE_BACKGROUND_COLOR": "#8FA3B5", "NODE_BORDER_WIDTH": 0.0,
                "NODE_WIDTH": 24.0, "NODE_HEIGHT": 24.0, "NODE_LABEL_FONT_SIZE": 12, "NODE_LABEL_COLOR": "#1B2430",
            },
            "edge": {"EDGE_LINE_COLOR": POSITIVE, "EDGE_WIDTH": 2.0, "EDGE_OPACITY": 0.8},
        },
        "nodeMapping": {
            "NODE_LABEL": {"type": "PASSTHROUGH", "definition": {"attribute": "name", "type": "string"}},
            "NODE_WIDTH": _continuous("degree", "integer", (0, 18.0), (max_degree, 44.0)),
        },
        "edgeMapping": {
            "EDGE_LINE_COLOR": {
                "type": "CONTINUOUS",
                "definition": {
                    "attribute": "partial_correlation",
                    "type": "double",
                    "map": [_range((-1.0, NEGATIVE), (0.0, NEGATIVE)), _range((0.0, POSITIVE), (1.0, POSITIVE))],
                },
            },
            "EDGE_WIDTH": _continuous("weight", "double", (0.0, 0.8), (strongest, 8.0)),
        },
    }  # fmt: skip


def _continuous(attribute: str, kind: str, low: tuple[float, Any], high: tuple[float, Any]) -> dict[str, Any]:
    definition = {"attribute": attribute, "type": kind, "map": [_range(low, high)]}
    return {"type": "CONTINUOUS", "definition": definition}


def _range(low: tuple[float, Any], high: tuple[float, Any]) -> dict[str, Any]:
    """Interpolation between two pairs (value of the attribute, visual property)."""
    return {
        "min": low[0], "minVPValue": low[1], "includeMin": True,
        "max": high[0], "maxVPValue": high[1], "includeMax": True,
    }  # fmt: skip


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
