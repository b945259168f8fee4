"""GraphML, which Gephi, yEd, igraph, networkx and Cytoscape read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from jointglasso.networks.attributes import NODE_TYPES, GraphColumns, graph_columns
from jointglasso.validation import InputError

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks

#: Characters that XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_GRAPHML_TYPES = {"string": "string", "double": "double", "boolean": "boolean", "integer": "int"}


def write_graphml(networks: JointNetworks, file: IO[bytes], title: str, class_name: str | None) -> None:
    """Write one undirected graph; several classes give parallel edges told apart by the attribute `class`."""
    check_xml_names(networks, "GraphML")
    columns = graph_columns(networks, class_name)
    keys = {name: f"e{i}" for i, name in enumerate(columns.edges)}
    file.write(_head(columns, keys, title).encode("utf-8"))
    file.writelines(_nodes(columns))
    file.writelines(_edges(columns, keys))
    file.write(b"</graph>\n</graphml>\n")


def check_xml_names(networks: JointNetworks, format: str) -> None:
    """Refuse names that XML cannot hold."""
    for what, names in (("Variable", networks.variable_names), ("Class", networks.class_names)):
        for name in names:
            if _FORBIDDEN.search(name):
                raise InputError(
                    f"{what} {name!r} holds a character that {format} cannot: rename it or export as CX2 (.cx2).",
                    "format",
                )


def _head(columns: GraphColumns, keys: dict[str, str], title: str) -> str:
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">']
    for i, (name, kind) in enumerate(NODE_TYPES.items()):
        lines.append(f'<key id="n{i}" for="node" attr.name="{name}" attr.type="{_GRAPHML_TYPES[kind]}"/>')
    for name, kind in columns.edge_types.items():
        lines.append(f'<key id="{keys[name]}" for="edge" attr.name="{name}" attr.type="{_GRAPHML_TYPES[kind]}"/>')
    lines.append('<key id="g0" for="graph" attr.name="name" attr.type="string"/>')
    lines.append(f'<graph id="G" edgedefault="undirected">\n<data key="g0">{_text(title)}</data>\n')
    return "\n".join(lines)


def _nodes(columns: GraphColumns) -> Iterator[bytes]:
    for i, values in enumerate(columns.node_rows()):
        data = "".join(f'<data key="n{j}">{_text(value)}</data>' for j, value in enumerate(values.values()))
        yield f"<node id={quoteattr(str(i))}>{data}</node>\n".encode()


def _edges(columns: GraphColumns, keys: dict[str, str]) -> Iterator[bytes]:
    # Text of each column first: class names and kinds repeat, so each is escaped once.
    known: dict[Any, str] = {}
    texts = [[_remembered(value, known) for value in column] for column in columns.edges.values()]
    opening = [f'<data key="{keys[name]}">' for name in columns.edges]
    for i, (first, second, *values) in enumerate(zip(columns.first, columns.second, *texts, strict=True)):
        data = "".join(f"{start}{value}</data>" for start, value in zip(opening, values, strict=True))
        yield f'<edge id="{i}" source="{first}" target="{second}">{data}</edge>\n'.encode()


def _remembered(value: Any, known: dict[Any, str]) -> str:
    if isinstance(value, float):
        return repr(value)
    if value not in known:
        known[value] = _text(value)
    return known[value]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # A parser turns a bare carriage return into a line feed.
    return escape(value, {"\r": "&#13;"}) if isinstance(value, str) else repr(value)
