"""One way out: networks into files, the format told by the name."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from jointglasso._files import atomic_write, write_columns
from jointglasso._optional import require
from jointglasso._wording import listed
from jointglasso.errors import argument
from jointglasso.networks.attributes import chosen_rows
from jointglasso.networks.cytoscape import write_cx2, write_cyjs
from jointglasso.networks.tables import edge_columns
from jointglasso.networks.xml import write_gexf, write_graphml
from jointglasso.validation import InputError

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks


@dataclass(frozen=True)
class Format:
    """A file format: how a file of it is called, and the function that writes it."""

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
        networks.class_index(class_name)  # an unknown class is told before a file is opened
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
        f"{path.name!r} has {ending}, which tells no format: name the file .graphml, .gexf, .cx2, .cyjs, .csv or "
        f".parquet, or set {argument('format')} to one of {listed(FORMATS)}.",
        "format",
    )


def _table(networks: JointNetworks, class_name: str | None) -> dict[str, Any]:
    """Columns of the edge table, and the positions of both ends, which tell variables of one name apart."""
    rows = chosen_rows(networks, class_name)
    columns = {name: column[rows] for name, column in edge_columns(networks).items()}
    edges = networks.edge_list
    return {**columns, "position1": edges.first[rows], "position2": edges.second[rows]}


def write_csv(networks: JointNetworks, file: IO[bytes], title: str, class_name: str | None) -> None:
    """Write the edge table as UTF-8 text with commas; an unknown stability is left empty, names are no formulas."""
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
    "graphml": Format((".graphml",), write_graphml),
    "gexf": Format((".gexf",), write_gexf),
    "cx2": Format((".cx2",), write_cx2),
    "cyjs": Format((".cyjs",), write_cyjs),
    "csv": Format((".csv",), write_csv),
    "parquet": Format((".parquet", ".pq"), write_parquet),
}
