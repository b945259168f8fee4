"""What a result folder knows beside its solution: the choice of the penalties, stability, title and notes."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso.cli.folder import MARK

if TYPE_CHECKING:
    from jointglasso import JointNetworks, Solution


@dataclass(frozen=True)
class SavedSelection:
    """A choice of penalties as the folder holds it, in the words that the report asks for."""

    records: dict[str, list[Any]]
    best: int | None
    words: str
    lambda1: float
    lambda2: float

    def explain(self) -> str:
        """Why these penalties were chosen."""
        return self.words


@dataclass(frozen=True)
class Beside:
    """Options of a report that lie beside a solution."""

    selection: SavedSelection | None = None
    stability: list[Any] | None = None
    more: dict[str, Any] = field(default_factory=dict)


def beside(file: Path, solution: Solution, networks: JointNetworks) -> Beside:
    """Read what `fit` wrote into the folder of a solution; nothing where it lies elsewhere."""
    folder = file.parent
    if not (folder / MARK).is_file():
        return Beside()
    facts = json.loads((folder / MARK).read_text(encoding="utf-8"))
    more = {name: facts[name] for name in ("title", "notes") if facts.get(name)}
    return Beside(_selection(folder, solution), _stability(folder / "edges.csv", networks), more)


def _rows(file: Path) -> list[dict[str, str]]:
    if not file.is_file():
        return []
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _selection(folder: Path, solution: Solution) -> SavedSelection | None:
    rows = _rows(folder / "selection.csv")
    if not rows:
        return None
    records = {name: [_value(row[name]) for row in rows] for name in rows[0]}
    chosen = float(solution.parameters["lambda1"]), float(solution.parameters["lambda2"])
    tried = list(zip(records.get("lambda1", []), records.get("lambda2", []), strict=True))
    words = folder / "selection.txt"
    text = words.read_text(encoding="utf-8") if words.is_file() else ""
    return SavedSelection(records, tried.index(chosen) if chosen in tried else None, text, *chosen)


def _value(text: str) -> Any:
    """A number where it is one; an empty cell is a number that is not known."""
    if text == "":
        return float("nan")
    try:
        return float(text) if not text.lstrip("-").isdigit() else int(text)
    except ValueError:
        return text


def _stability(file: Path, networks: JointNetworks) -> list[Any] | None:
    """Selection frequencies that the table of edges holds."""
    from scipy import sparse

    rows = [row for row in _rows(file) if row.get("stability")]
    if not rows:
        return None
    p = networks.n_variables
    matrices = []
    for name in networks.class_names:
        mine = [row for row in rows if row["class"] == name]
        ends = np.array([(int(row["position1"]), int(row["position2"])) for row in mine], dtype=np.int64).reshape(-1, 2)
        values = np.array([float(row["stability"]) for row in mine])
        matrices.append(sparse.coo_array((values, (ends[:, 0], ends[:, 1])), shape=(p, p)))
    return matrices
