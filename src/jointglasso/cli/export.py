"""`jointglasso report` and `jointglasso export`: reports and network files from a saved solution."""

from __future__ import annotations

import json
from pathlib import Path

import click

import jointglasso as jgl
from jointglasso.cli.folder import MARK
from jointglasso.cli.session import Command, Session

_SOLUTION = click.Path(path_type=Path)


@click.command(cls=Command)
@click.argument("solution", type=_SOLUTION)
@click.option("-o", "--out", default="report.html", show_default=True, type=_SOLUTION, help="File to write.")
@click.option("--title", help="Heading of the report.")
@click.pass_obj
def report(session: Session, solution: Path, out: Path, title: str | None) -> None:
    """Write a report on a solution.

    The report on the saved SOLUTION is one HTML file that opens in any browser. If SOLUTION lies in the folder that fit
    wrote, its title and notes are included.

    \b
    Example:
      jointglasso report networks/solution.jgl -o report.html
    """
    loaded, mark = jgl.load(solution), solution.parent / MARK
    facts = json.loads(mark.read_text(encoding="utf-8")) if mark.is_file() else {}
    written = jgl.write_report(out, loaded, title=title or facts.get("title"), notes=facts.get("notes"))
    session.echo(str(loaded))
    session.echo(f"Written: {written}")
    session.add(out=written.resolve())


@click.command(cls=Command)
@click.argument("solution", type=_SOLUTION)
@click.argument("out", type=_SOLUTION, nargs=-1, required=True)
@click.option("--class", "class_name", help="Write this class only.")
@click.option(
    "--format", type=click.Choice(["graphml", "csv", "parquet"]),
    help="Format, where the suffix of OUT does not determine it.",
)  # fmt: skip
@click.pass_obj
def export(session: Session, solution: Path, out: tuple[Path, ...], class_name: str | None, format: str | None) -> None:
    """Write networks for other programs.

    Writes the networks of a saved SOLUTION. The suffix of each file determines its format: .graphml, .csv or
    .parquet.

    \b
    Example:
      jointglasso export networks/solution.jgl networks.graphml edges.csv
    """
    networks = jgl.JointNetworks.from_solution(jgl.load(solution))
    written = [networks.export(path, format, class_name=class_name) for path in out]
    for path in written:
        session.echo(f"Written: {path}")
    session.add(out=[path.resolve() for path in written], class_name=class_name)
