"""`jointglasso report` and `jointglasso export`: what can be made of a saved solution."""

from __future__ import annotations

from pathlib import Path

import click

from jointglasso.cli.saved import beside
from jointglasso.cli.session import Command, Session
from jointglasso.cli.wording import edges_found, proof

_SOLUTION = click.Path(path_type=Path)


@click.command(cls=Command)
@click.argument("solution", type=_SOLUTION)
@click.option("-o", "--out", default="report.html", show_default=True, type=_SOLUTION, help="File to write.")
@click.option("--title", help="Heading of the report.")
@click.pass_obj
def report(session: Session, solution: Path, out: Path, title: str | None) -> None:
    """Write a report on a solution.

    The report on the saved SOLUTION is one HTML file that opens in any browser. If SOLUTION lies in the folder that fit
    wrote, the choice of the penalties, stability, title and notes come along.

    \b
    Example:
      jointglasso report networks/solution.jgl -o report.html
    """
    import jointglasso as jgl

    found = jgl.load(solution)
    networks = jgl.JointNetworks.from_solution(found)
    known = beside(solution, found, networks)
    options = {**known.more, **({} if title is None else {"title": title})}
    written = jgl.write_report(out, found, selection=known.selection, stability=known.stability, **options)
    session.say(edges_found(networks))
    session.say(proof(found))
    session.say(f"Written: {written}")
    session.answer(out=written.resolve())


@click.command(cls=Command)
@click.argument("solution", type=_SOLUTION)
@click.argument("out", type=_SOLUTION, nargs=-1, required=True)
@click.option("--class", "class_name", help="Write this class only.")
@click.option(
    "--format", type=click.Choice(["graphml", "gexf", "cx2", "cyjs", "csv", "parquet"]),
    help="Format, where the name of OUT does not tell.",
)  # fmt: skip
@click.pass_obj
def export(session: Session, solution: Path, out: tuple[Path, ...], class_name: str | None, format: str | None) -> None:
    """Write networks for other programs.

    Writes those of a saved SOLUTION to files whose names tell the format: .graphml, .gexf, .cx2, .cyjs, .csv or
    .parquet.

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
