"""Graphs as XML: GraphML, which Gephi, yEd, igraph, networkx and Cytoscape read, and GEXF, the format of Gephi."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from jointglasso.networks.attributes import NODE_TYPES, GraphColumns, graph_columns, places
from jointglasso.validation import InputError

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks

#: Characters that XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_GRAPHML_TYPES = {"string": "string", "double": "double", "boolean": "boolean", "integer": "int"}

#: Red, green and blue of edges by sign, as in the figures.
_POSITIVE, _NEGATIVE = (0, 114, 178), (213, 94, 0)


def write_graphml(networks: JointNetworks, file: IO[bytes], title: str, class_name: str | None) -> None:
    """Write one undirected graph; several classes give parallel edges told apart by the attribute `class`."""
    _check_names(networks, "GraphML")
    columns = graph_columns(networks, class_name)
    keys = {name: f"e{i}" for i, name in enumerate(columns.edges)}
    file.write(_graphml_head(columns, keys, title).encode("utf-8"))
    for i, values in enumerate(columns.node_rows()):
        data = "".join(f'<data key="n{j}">{_text(value)}</data>' for j, value in enumerate(values.values()))
        file.write(f"<node id={quoteattr(str(i))}>{data}</node>\n".encode())
    file.writelines(_graphml_edges(columns, keys))
    file.write(b"</graph>\n</graphml>\n")


def _graphml_head(columns: GraphColumns, keys: dict[str, str], title: str) -> str:
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">']
    for i, (name, kind) in enumerate(NODE_TYPES.items()):
        lines.append(f'<key id="n{i}" for="node" attr.name="{name}" attr.type="{_GRAPHML_TYPES[kind]}"/>')
    for name, kind in columns.edge_types.items():
        lines.append(f'<key id="{keys[name]}" for="edge" attr.name="{name}" attr.type="{_GRAPHML_TYPES[kind]}"/>')
    lines.append('<key id="g0" for="graph" attr.name="name" attr.type="string"/>')
    lines.append(f'<graph id="G" edgedefault="undirected">\n<data key="g0">{_text(title)}</data>\n')
    return "\n".join(lines)


def _graphml_edges(columns: GraphColumns, keys: dict[str, str]) -> Iterator[bytes]:
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


def write_gexf(networks: JointNetworks, file: IO[bytes], title: str, class_name: str | None) -> None:
    """Write GEXF 1.3 with places and colours; the edges of a pair in several classes are of different kinds.

    Gephi would merge them otherwise.
    """
    _check_names(networks, "GEXF")
    columns, place = graph_columns(networks, class_name), places(networks)
    file.write(_gexf_head(columns, title).encode("utf-8"))
    for i, values in enumerate(columns.node_rows()):
        shown = f'<viz:size value="{6.0 + 2.0 * values["degree"] ** 0.5:.4g}"/>'
        shown += f'<viz:position x="{place[i, 0]:.6g}" y="{-place[i, 1]:.6g}" z="0"/>'
        file.write(f'<node id="{i}" label={_quoted(values["name"])}>{_gexf_values(values)}{shown}</node>\n'.encode())
    file.write(b"</nodes>\n<edges>\n")
    for i, (first, second, values) in enumerate(columns.edge_rows()):
        red, green, blue = _POSITIVE if values["partial_correlation"] > 0 else _NEGATIVE
        file.write(
            f'<edge id="{i}" source="{first}" target="{second}" weight="{values["weight"]!r}" '
            f"kind={_quoted(values['class'])}>{_gexf_values(values)}"
            f'<viz:color r="{red}" g="{green}" b="{blue}"/></edge>\n'.encode()
        )
    file.write(b"</edges>\n</graph>\n</gexf>\n")


def _gexf_head(columns: GraphColumns, title: str) -> str:
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<gexf xmlns="http://gexf.net/1.3" xmlns:viz="http://gexf.net/1.3/viz" version="1.3">',
        f"<meta><creator>jointglasso</creator><description>{escape(title)}</description></meta>",
        '<graph defaultedgetype="undirected">',
    ]
    for what, types in (("node", NODE_TYPES), ("edge", columns.edge_types)):
        listed = (f'<attribute id="{name}" title="{name}" type="{kind}"/>' for name, kind in types.items())
        lines += [f'<attributes class="{what}">', *listed, "</attributes>"]
    return "\n".join([*lines, "<nodes>\n"])


def _gexf_values(values: dict[str, Any]) -> str:
    cells = "".join(f'<attvalue for="{name}" value={_quoted(value)}/>' for name, value in values.items())
    return f"<attvalues>{cells}</attvalues>"


def _check_names(networks: JointNetworks, format: str) -> None:
    """Refuse names that XML cannot hold."""
    for what, names in (("Variable", networks.variable_names), ("Class", networks.class_names)):
        for name in names:
            if _FORBIDDEN.search(name):
                raise InputError(
                    f"{what} {name!r} holds a character that {format} cannot: rename it or export as CX2 (.cx2).",
                    "format",
                )


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _text(value: Any) -> str:
    """As the content of an element; a parser turns a bare carriage return into a line feed."""
    return escape(_word(value), {"\r": "&#13;"})


def _quoted(value: Any) -> str:
    """As an attribute, in which a parser makes blanks of bare line breaks."""
    return quoteattr(_word(value), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
