"""Networks for other programs: files, the format of which is that of their ending, and graphs of networkx and igraph.

Nodes are identified by the indices of the variables, and names are labels: duplicate names remain distinct nodes, and
names need not be valid identifiers of a format.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jointglasso._files import atomic_write, write_columns
from jointglasso._optional import require
from jointglasso._wording import listed
from jointglasso.data.checks import InputError
from jointglasso.errors import argument
from jointglasso.networks.layout import common_layout
from jointglasso.networks.tables import edge_columns

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks


#: Attributes of edges, in order.
ATTRIBUTES = (
    "class", "weight", "precision", "partial_correlation", "kind", "stability", "certified", "same_in",
    "same_certified",
)  # fmt: skip


#: Distance of neighbouring nodes in exported coordinates, about the width of two labels.
_SPACING = 80.0

#: Number of strongest pairs used for the layout; with weaker ones it has no visible structure.
_SHAPING = 300


def edge_table(networks: JointNetworks, class_name: str | None) -> dict[str, Any]:
    """Columns of the edge table of one class, or of all, with the positions of both ends: names can be repeated."""
    edges = networks.edge_list
    rows = slice(None) if class_name is None else edges.class_index == networks.class_index(class_name)
    columns = {**edge_columns(networks), "position1": edges.first, "position2": edges.second}
    return {name: column[rows] for name, column in columns.items()}


def graph_tables(networks: JointNetworks, class_name: str | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables of the nodes and of the edges of one class, or of all classes with an edge for each pair and class.

    Edges are between the nodes `position1` and `position2`. Unknown stabilities are omitted, since most formats lack
    missing values. `degree` counts distinct neighbours: a pair with edges in three classes counts once. `weight` is the
    absolute partial correlation, which graph packages use as edge weight.
    """
    edges = pd.DataFrame(edge_table(networks, class_name))
    edges["weight"] = edges["partial_correlation"].abs()
    if not networks.has_stability:
        del edges["stability"]
    positions = ["position1", "position2"]
    ends = edges[positions].drop_duplicates().to_numpy().ravel()
    degree = np.bincount(ends, minlength=networks.n_variables)
    return (
        pd.DataFrame({"name": np.array(networks.variable_names, dtype=object), "degree": degree}),
        edges[[*positions, *(name for name in ATTRIBUTES if name in edges)]],
    )


def edge_rows(edges: pd.DataFrame) -> list[tuple[int, int, dict[str, Any]]]:
    """Both nodes and the attributes of each edge."""
    return [(row.pop("position1"), row.pop("position2"), row) for row in edges.to_dict("records")]


def graphs(networks: JointNetworks, class_name: str | None, make: Callable[..., Any]) -> Any:
    """A dict with a graph per class, or the graph of one class, created by `make`."""
    names = networks.class_names if class_name is None else [class_name]
    graphs = {name: make(*graph_tables(networks, name), name) for name in names}
    return graphs if class_name is None else graphs[class_name]


def as_networkx(nodes: pd.DataFrame, edges: pd.DataFrame, class_name: str) -> Any:
    """Graph of networkx of one class."""
    graph = require("networkx", "networks").Graph(**{"class": class_name})
    keys = nodes["name"] if nodes["name"].is_unique else nodes.index
    graph.add_nodes_from(zip(keys, nodes.assign(position=nodes.index).to_dict("records"), strict=True))
    graph.add_edges_from((keys[first], keys[second], values) for first, second, values in edge_rows(edges))
    return graph


def as_igraph(nodes: pd.DataFrame, edges: pd.DataFrame, class_name: str) -> Any:
    """Graph of igraph of one class."""
    return require("igraph", "networks").Graph.DataFrame(edges, directed=False, vertices=nodes, use_vids=True)


def export(
    networks: JointNetworks,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    class_name: str | None = None,
) -> Path:
    """Write the networks to a file atomically.

    Parameters
    ----------
    path : str or path
        File to write; an existing one is replaced when the new one is complete.
    format : {"graphml", "csv", "parquet"}, optional
        By default the suffix of `path`. GraphML, for Cytoscape and Gephi, has all variables with their coordinates
        `x` and `y`; "csv" and "parquet" hold the table of `edges`, followed by the indices of both variables.
    class_name : str, optional
        Write this class only. Otherwise a pair of variables has one edge for each class that has it, identified by
        the edge attribute `class`.

    Returns
    -------
    pathlib.Path
        The file written.
    """
    target = Path(path)
    name = _format_of(target) if format is None else str(format).lower().lstrip(".")
    if name not in FORMATS:
        raise InputError(f"The format {format!r} is not known; choose one of {listed(FORMATS)}.", "format")
    if class_name is not None:
        networks.class_index(class_name)  # refuses an unknown class before a file is opened
    with atomic_write(target) as file:
        FORMATS[name](networks, file, target.stem, class_name)
    return target


def _format_of(path: Path) -> str:
    suffix = path.suffix.lower()
    name = {".pq": "parquet"}.get(suffix, suffix[1:])
    if name in FORMATS:
        return name
    ending = f"the ending {suffix!r}" if suffix else "no ending"
    raise InputError(
        f"{path.name!r} has {ending}, which tells no format: name the file .graphml, .csv or .parquet, "
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
                f"{what} {name!r} holds a character that GraphML cannot: rename it or export as CSV.", "format"
            )
    networkx = require("networkx", "networks")
    nodes, edges = graph_tables(networks, class_name)
    strength = networks.edge_list.readable_strength(_SHAPING)
    x, y = (_SPACING * common_layout(networks.precision, strength)).round(1).T
    graph = networkx.MultiGraph(name=title)
    graph.add_nodes_from(enumerate(nodes.assign(x=x, y=y).to_dict("records")))
    graph.add_edges_from(edge_rows(edges))
    networkx.write_graphml_xml(graph, file, encoding="utf-8", edge_id_from_attribute=None)


def write_csv(networks: JointNetworks, file: IO[bytes], title: str, class_name: str | None) -> None:
    """Write the edge table as UTF-8 text with commas; an unknown stability is an empty cell."""
    table = {name: column.tolist() for name, column in edge_table(networks, class_name).items()}
    if not networks.has_stability:
        table["stability"] = [""] * len(table["stability"])
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    write_columns(text, table)
    text.flush()
    text.detach()


def write_parquet(networks: JointNetworks, file: IO[bytes], title: str, class_name: str | None) -> None:
    """Write the edge table as Parquet; the names of all variables and classes go along as metadata."""
    arrow, parquet = require("pyarrow", "tables"), require("pyarrow.parquet", "tables")
    columns = edge_table(networks, class_name)
    # An empty column of words would otherwise get no type.
    types = {name: arrow.string() if column.dtype == object else None for name, column in columns.items()}
    table = arrow.table({name: arrow.array(column, type=types[name]) for name, column in columns.items()})
    names = {"variable_names": networks.variable_names, "class_names": networks.class_names}
    parquet.write_table(table.replace_schema_metadata({"jointglasso": json.dumps(names, ensure_ascii=False)}), file)


#: Functions that write a format, by name.
FORMATS: dict[str, Callable[[JointNetworks, IO[bytes], str, str | None], None]] = {
    "graphml": write_graphml,
    "csv": write_csv,
    "parquet": write_parquet,
}
