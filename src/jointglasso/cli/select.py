"""`jointglasso select`: model selection over a grid of penalties."""

from __future__ import annotations

from typing import Any

import click

from jointglasso._display import table_text
from jointglasso.cli.input_data import read_data
from jointglasso.cli.options import CRITERIA, data_options, folder_options, grid_options, score_options, solve_options
from jointglasso.cli.results import can_draw, result_folder, write_parameters, write_selection
from jointglasso.cli.session import INTERRUPTED, NOT_CONVERGED, OK, Command, Session
from jointglasso.cli.solving import choose, workers_of


@click.command(cls=Command)
@data_options()
@click.option("--criterion", type=CRITERIA, default="jbic", show_default=True, help="Criterion to minimise.")
@folder_options("table, explanation and figure")
@solve_options
@grid_options
@score_options
@click.pass_obj
def select(session: Session, /, **options: Any) -> int:
    """Choose the penalties by a criterion.

    Solves FILE over a grid of penalties, prints the score of each, and explains the choice. On Ctrl-C the
    choice is made among the points solved so far; with --checkpoint the same command resumes from there.

    \b
    Example:
      jointglasso select cells.csv --label condition --criterion cv --out choice
    """
    import jointglasso as jgl

    with result_folder(session, options) as folder:
        data = read_data(session, options)
        with workers_of(session, options) as executor:
            selection = choose(session, data, options["criterion"], {**options, "executor": executor})
        points = selection.table[["lambda1", "lambda2", "edges", "score"]][selection.records["tried"]]
        points.insert(0, "", ["* " if point == selection.best else "" for point in points.index])
        session.echo("\n" + table_text(points, len(points), digits=7))
        session.echo("\n" + session.in_options(selection.explain()))
        if folder is not None:
            write_selection(folder, selection)
            if can_draw(session):
                jgl.plots.plot_selection(selection, path=folder / "selection.png")
            write_parameters(folder, session, data, chosen={"lambda1": selection.lambda1, "lambda2": selection.lambda2})
    chosen = f"--lambda1 {selection.lambda1:.6g} --lambda2 {selection.lambda2:.6g}"
    session.echo(f"To estimate the networks there: jointglasso fit ... {chosen} --out FOLDER")
    session.add(
        lambda1=selection.lambda1,
        lambda2=selection.lambda2,
        criterion=selection.criterion,
        score=selection.score,
        best=selection.best,
        contenders=selection.contenders,
        grid=selection.records,
        explanation=session.in_options(selection.explain()),
        interrupted=selection.interrupted,
        data=data.facts,
        n_failed=selection.n_failed,
    )
    if selection.interrupted:
        return INTERRUPTED
    return NOT_CONVERGED if selection.n_failed else OK
