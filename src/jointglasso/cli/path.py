"""`jointglasso path`: solutions along a path of penalties."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jointglasso._display import table_text
from jointglasso.cli.input_data import Data, read_data
from jointglasso.cli.options import data_options, folder_options, grid_options, numbers, solve_options
from jointglasso.cli.results import facts_of, result_folder, write_parameters, write_table
from jointglasso.cli.session import INTERRUPTED, NOT_CONVERGED, OK, Command, Session
from jointglasso.cli.solving import arguments_of_solve, counting, make_grid, workers_of

if TYPE_CHECKING:
    from jointglasso import Solution


@click.command(cls=Command)
@data_options()
@click.option("--lambda1", help="Sparsity penalties, large to small: 0.5,0.4,0.3. A grid is made if left out.")
@click.option("--lambda2", help="Similarity penalties, one for each lambda1 or one for all.")
@folder_options("table and solutions", required=True)
@click.option("--keep-partial", is_flag=True, help="On Ctrl-C write the points solved so far.")
@solve_options
@grid_options
@click.pass_obj
def path(session: Session, /, **options: Any) -> int:
    """Solve at many penalties.

    Solves FILE at each pair of penalties, warm-started from the previous one, and writes a table and all solutions.

    \b
    Example:
      jointglasso path cells.csv --label condition --lambda1 0.5,0.4,0.3 --lambda2 0.1 --out path
    """
    import jointglasso as jgl

    with result_folder(session, options) as folder:
        data = read_data(session, options)
        points = _points(options, data)
        (folder / "solutions").mkdir()
        with workers_of(session, options) as executor:
            solutions = jgl.solve_path(
                data.source,
                points,
                checkpoint=options["checkpoint"],
                on_interrupt="return" if options["keep_partial"] else "raise",
                weights=data.preparation["weights"],
                **arguments_of_solve(options | {"executor": executor}, data),
            )
            facts = _save_solutions(session, folder, points, solutions)
        write_table(folder / "path.csv", _columns(facts))
        write_parameters(folder, session, data, points=points)
    session.answer(points=facts, asked_for=len(points), data=data.facts)
    if facts[-1]["status_code"] == "interrupt":
        return INTERRUPTED
    return OK if all(fact["converged"] for fact in facts) else NOT_CONVERGED


def _points(options: dict[str, Any], data: Data) -> list[tuple[float, float]]:
    if options["lambda1"] is None:
        if options["lambda2"] is not None:
            raise click.UsageError("--lambda2 is given without --lambda1: give both, or none for a grid.")
        return list(make_grid(options, data))
    if options["lambda2"] is None:
        raise click.UsageError("--lambda1 is given without --lambda2: give both, or none for a grid.")
    first, second = numbers("--lambda1", options["lambda1"]), numbers("--lambda2", options["lambda2"])
    second = second * len(first) if len(second) == 1 else second
    if not first or len(first) != len(second):
        raise click.UsageError(
            f"--lambda1 has {len(first)} numbers and --lambda2 {len(second)}: give as many, or one lambda2 for all."
        )
    return list(zip(first, second, strict=True))


def _save_solutions(
    session: Session, folder: Path, points: list[tuple[float, float]], solutions: Iterable[Solution]
) -> list[dict[str, Any]]:
    """Save each solution as it is computed, and print a table with one row for each."""
    import time

    from jointglasso.selection import SelectionProgress

    began = time.perf_counter()
    facts = []
    with counting(session, "solving") as show:
        for number, solution in enumerate(solutions, start=1):
            file = f"solutions/point-{number:04d}.jgl"
            solution.save(folder / file)
            facts.append({"point": number, "file": file, **facts_of(solution)})
            show(SelectionProgress("path", number, len(points), time.perf_counter() - began))
    shown = ("point", "lambda1", "lambda2", "largest_block", "relative_gap", "seconds")
    columns = {name: [fact[name] for fact in facts] for name in shown}
    columns["edges"] = [sum(fact["edges"].values()) for fact in facts]
    session.say("\n" + table_text(columns, len(facts)))
    return facts


def _columns(facts: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Columns of path.csv; the numbers of edges have a column for each class."""
    columns = {name: [fact[name] for fact in facts] for name in facts[0] if name != "edges"}
    by_class = {f"edges[{name}]": [fact["edges"][name] for fact in facts] for name in facts[0]["edges"]}
    return {**columns, **by_class}
