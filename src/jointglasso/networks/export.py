"""Networks as files; the ending of the name determines the format."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from jointglasso._files import atomic_write, write_columns
from jointglasso._optional import require
from jointglasso._wording import listed
from jointglasso.data.checks import InputError
from jointglasso.errors import argument
from jointglasso.networks.attributes import chosen_rows, graph_columns
from jointglasso.networks.cytoscape import write_cx2
from jointglasso.networks.tables import edge_columns

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks


@dataclass(frozen=True)
class NetworkFormat:
    """A file format: endings of the names of its files, and the function that writes one."""

    suffixes: tuple[str, ...]
    write: Callable[[JointNetworks, IO[bytes], str, str | None], None]


def export(
    networks: JointNetworks, path: str | os.PathLike[str], format: str | None = None, class_name: str | None = None
) -> Path:
    """Write the networks to a file; see `JointNetworks.export`."""
    target = Path(path)
    name = _format_of(target) if format is None else str(format).lower().lstrip(".")
    if name not in FORMATS:
        raise InputError(f"The format {format!r} is not known; choose one of {listed(FORMATS)}.", "format")
    if class_name is not None:
        networks.class_index(class_name)  # refuses an unknown class before a file is opened
    with atomic_write(target) as file:
        FORMATS[name].write(networks, file, target.stem, class_name)
    return target


def _format_of(path: Path) -> str:
    suffix = path.suffix.lower()
    for name, format in FORMATS.items():
        if suffix in format.suffixes:
            return name
    ending = f"the ending {suffix!r}" if suffix else "no ending"
    raise InputError(
        f"{path.name!r} has {ending}, which tells no format: name the file .graphml, .cx2, .csv or .parquet, "
        f"or set {argument('format')} to one of {listed(FORMATS)}.",
        "format",
    )


#: Characters that XML 1.0 cannot hold, and the carriage return, which parsers change.
_NOT_XML = re.compile("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_graphml(networks: JointNetworks, file: IO[bytes], title: str, class_name: str | None) -> None:
    """Write one undirected graph, nodes by position; parallel edges of several classes differ in `class`."""
    for what, names in (("Variable", networks.variable_names), ("Class", networks.class_names)):
        for name in filter(_NOT_XML.search, names):
            raise InputError(
                f"{what} {name!r} holds a character that GraphML cannot: rename it or export as CX2 (.cx2).", "format"
            )
    networkx = require("networkx", "networks")
    columns = graph_columns(networks, class_name)
    graph = networkx.MultiGraph(name=title)
    graph.add_nodes_from(enumerate(columns.node_rows()))
    graph.add_edges_from(columns.edge_rows())
    networkx.write_graphml_xml(graph, file, encoding="utf-8", edge_id_from_attribute=None)


def _table(networks: JointNetworks, class_name: str | None) -> dict[str, Any]:
    """Columns of the edge table, and the positions of both ends, which distinguish variables of one name."""
    rows = chosen_rows(networks, class_name)
    columns = {name: column[rows] for name, column in edge_columns(networks).items()}
    edges = networks.edge_list
    return {**columns, "position1": edges.first[rows], "position2": edges.second[rows]}


def write_csv(networks: JointNetworks, file: IO[bytes], title: str, class_name: str | None) -> None:
    """Write the edge table as UTF-8 text with commas; an unknown stability is an empty cell."""
    table = {name: column.tolist() for name, column in _table(networks, class_name).items()}
    if not networks.has_stability:
        table["stability"] = [""] * len(table["stability"])
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    write_columns(text, table)
    text.flush()
    text.detach()


def write_parquet(networks: JointNetworks, file: IO[bytes], title: str, class_name: str | None) -> None:
    """Write the edge table as Parquet; the names of all variables and classes go along as metadata."""
    arrow = require("pyarrow", "tables")
    parquet = require("pyarrow.parquet", "tables")
    table = _table(networks, class_name)
    # An empty column of words would otherwise get no type at all.
    columns = {
        name: arrow.array(column, type=arrow.string() if column.dtype == object else None)
        for name, column in table.items()
    }
    names = {"variable_names": list(networks.variable_names), "class_names": list(networks.class_names)}
    metadata = {"jointglasso": json.dumps(names, ensure_ascii=False)}
    parquet.write_table(arrow.table(columns).replace_schema_metadata(metadata), file)


#: Formats by name.
FORMATS = {
    "graphml": NetworkFormat((".graphml",), write_graphml),
    "cx2": NetworkFormat((".cx2",), write_cx2),
    "csv": NetworkFormat((".csv",), write_csv),
    "parquet": NetworkFormat((".parquet", ".pq"), write_parquet),
}
