"""`jointglasso report` and `jointglasso export`: reports and network files from a saved solution."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jointglasso._files import harmless
from jointglasso.cli.folder import MARK
from jointglasso.cli.session import Command, Session
from jointglasso.cli.summaries import edges_found, proof

if TYPE_CHECKING:
    from jointglasso import JointNetworks, Solution
    from jointglasso.report.wording import SavedSelection

_SOLUTION = click.Path(path_type=Path)


@click.command(cls=Command)
@click.argument("solution", type=_SOLUTION)
@click.option("-o", "--out", default="report.html", show_default=True, type=_SOLUTION, help="File to write.")
@click.option("--title", help="Heading of the report.")
@click.pass_obj
def report(session: Session, solution: Path, out: Path, title: str | None) -> None:
    """Write a report on a solution.

    The report on the saved SOLUTION is one HTML file that opens in any browser. If SOLUTION lies in the folder that fit
    wrote, its choice of penalties, stability, title and notes are included.

    \b
    Example:
      jointglasso report networks/solution.jgl -o report.html
    """
    import jointglasso as jgl

    loaded = jgl.load(solution)
    networks = jgl.JointNetworks.from_solution(loaded)
    options = {**_beside(solution, loaded, networks), **({} if title is None else {"title": title})}
    written = jgl.write_report(out, loaded, **options)
    session.say(edges_found(networks))
    session.say(proof(loaded))
    session.say(f"Written: {written}")
    session.answer(out=written.resolve())


@click.command(cls=Command)
@click.argument("solution", type=_SOLUTION)
@click.argument("out", type=_SOLUTION, nargs=-1, required=True)
@click.option("--class", "class_name", help="Write this class only.")
@click.option(
    "--format", type=click.Choice(["graphml", "cx2", "csv", "parquet"]),
    help="Format, where the suffix of OUT does not determine it.",
)  # fmt: skip
@click.pass_obj
def export(session: Session, solution: Path, out: tuple[Path, ...], class_name: str | None, format: str | None) -> None:
    """Write networks for other programs.

    Writes the networks of a saved SOLUTION. The suffix of each file determines its format: .graphml, .cx2,
    .csv or .parquet.

    \b
    Example:
      jointglasso export networks/solution.jgl networks.graphml edges.csv
    """
    import jointglasso as jgl

    networks = jgl.JointNetworks.from_solution(jgl.load(solution))
    written = [networks.export(path, format, class_name=class_name) for path in out]
    for path in written:
        session.say(f"Written: {path}")
    session.answer(out=[path.resolve() for path in written], class_name=class_name)


def _beside(file: Path, solution: Solution, networks: JointNetworks) -> dict[str, Any]:
    """Arguments of `write_report` stored by `fit` in the folder of the solution; empty for other folders."""
    folder = file.parent
    if not (folder / MARK).is_file():
        return {}
    facts = json.loads((folder / MARK).read_text(encoding="utf-8"))
    options = {name: facts[name] for name in ("title", "notes") if facts.get(name)}
    if (folder / "selection.csv").is_file():
        options["selection"] = _selection(folder, solution)
    if (folder / "edges.csv").is_file():
        options["stability"] = _stability(folder / "edges.csv", networks)
    return options


def _selection(folder: Path, solution: Solution) -> SavedSelection:
    import pandas as pd

    records = pd.read_csv(folder / "selection.csv", float_precision="round_trip").to_dict("list")
    chosen = float(solution.parameters["lambda1"]), float(solution.parameters["lambda2"])
    tried = list(zip(records["lambda1"], records["lambda2"], strict=True))
    explanation = folder / "selection.txt"
    text = explanation.read_text(encoding="utf-8") if explanation.is_file() else ""
    from jointglasso.report.wording import SavedSelection

    return SavedSelection(records, tried.index(chosen) if chosen in tried else None, text, *chosen)


def _stability(file: Path, networks: JointNetworks) -> list[Any] | None:
    """Selection frequencies (K sparse matrices) from the edge table, or None where it has none."""
    import pandas as pd
    from scipy import sparse

    table = pd.read_csv(file, dtype={"class": str}, keep_default_na=False, na_values={"stability": [""]})
    with_stability = table[table["stability"].notna()]
    if not len(with_stability):
        return None
    by_class = [with_stability[with_stability["class"] == harmless(name)] for name in networks.class_names]
    shape = (networks.n_variables, networks.n_variables)
    return [sparse.coo_array((part.stability, (part.position1, part.position2)), shape=shape) for part in by_class]
