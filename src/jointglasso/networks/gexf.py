"""GEXF, the format of Gephi, with the places and colours of the picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from jointglasso.networks.attributes import NODE_TYPES, GraphColumns, graph_columns, places
from jointglasso.networks.graphml import check_xml_names

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks

#: Red, green and blue of edges by sign, as in the figures.
_POSITIVE, _NEGATIVE = (0, 114, 178), (213, 94, 0)


def write_gexf(networks: JointNetworks, file: IO[bytes], title: str, class_name: str | None) -> None:
    """Write GEXF 1.3; the edges of a pair in several classes are of different kinds, or Gephi would merge them."""
    check_xml_names(networks, "GEXF")
    columns = graph_columns(networks, class_name)
    file.write(_head(columns, title).encode("utf-8"))
    file.writelines(_nodes(columns, places(networks)))
    file.write(b"</nodes>\n<edges>\n")
    file.writelines(_edges(columns))
    file.write(b"</edges>\n</graph>\n</gexf>\n")


def _head(columns: GraphColumns, title: str) -> str:
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<gexf xmlns="http://gexf.net/1.3" xmlns:viz="http://gexf.net/1.3/viz" version="1.3">',
        f"<meta><creator>jointglasso</creator><description>{escape(title)}</description></meta>",
        '<graph defaultedgetype="undirected">',
        '<attributes class="node">',
        *(f'<attribute id="{name}" title="{name}" type="{kind}"/>' for name, kind in NODE_TYPES.items()),
        "</attributes>",
        '<attributes class="edge">',
        *(f'<attribute id="{name}" title="{name}" type="{kind}"/>' for name, kind in columns.edge_types.items()),
        "</attributes>",
        "<nodes>\n",
    ]
    return "\n".join(lines)


def _nodes(columns: GraphColumns, place: Any) -> Iterator[bytes]:
    for i, values in enumerate(columns.node_rows()):
        size = 6.0 + 2.0 * values["degree"] ** 0.5
        yield (
            f'<node id="{i}" label={_quoted(values["name"])}>{_values(values)}'
            f'<viz:size value="{size:.4g}"/><viz:position x="{place[i, 0]:.6g}" y="{-place[i, 1]:.6g}" z="0"/></node>\n'
        ).encode()


def _edges(columns: GraphColumns) -> Iterator[bytes]:
    for i, (first, second, values) in enumerate(columns.edge_rows()):
        red, green, blue = _POSITIVE if values["partial_correlation"] > 0 else _NEGATIVE
        yield (
            f'<edge id="{i}" source="{first}" target="{second}" weight="{values["weight"]!r}" '
            f"kind={_quoted(values['class'])}>{_values(values)}"
            f'<viz:color r="{red}" g="{green}" b="{blue}"/></edge>\n'
        ).encode()


def _values(values: dict[str, Any]) -> str:
    cells = "".join(f'<attvalue for="{name}" value={_quoted(value)}/>' for name, value in values.items())
    return f"<attvalues>{cells}</attvalues>"


def _quoted(value: Any) -> str:
    text = (
        ("true" if value else "false") if isinstance(value, bool) else value if isinstance(value, str) else repr(value)
    )
    # A parser makes blanks of bare line breaks in an attribute.
    return quoteattr(text, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
