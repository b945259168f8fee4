"""`jointglasso select`, `fit` and `demo`: choice of the penalties, and a folder with networks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

import jointglasso as jgl
from jointglasso._display import table_text
from jointglasso.cli.folder import ResultFolder
from jointglasso.cli.input_data import Data, prepare, read_data
from jointglasso.cli.options import CRITERIA, data_options, folder_options, grid_options, score_options, solve_options
from jointglasso.cli.results import (
    Result,
    can_draw,
    facts_of,
    networks_in_words,
    print_differences,
    result_folder,
    significant_differences,
    tested_differences,
    write_parameters,
    write_result,
    write_selection,
    written_to,
)
from jointglasso.cli.session import INTERRUPTED, NOT_CONVERGED, OK, Command, Session
from jointglasso.cli.solving import arguments_of_solve, bar_options, choose, counting, noting, workers_of


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


@click.command(cls=Command)
@data_options()
@click.option("--lambda1", type=float, help="Sparsity penalty; chosen by a criterion if left out.")
@click.option("--lambda2", type=float, help="Similarity penalty; chosen by a criterion if left out.")
@click.option(
    "--latent-rank",
    metavar="R[,R,...]",
    help="Number of latent variables over all classes, or by class; the penalty on them is found for it.",
)
@click.option(
    "--select", "--criterion", "criterion", type=CRITERIA, help="Criterion for the penalties [default: jbic]."
)
@folder_options("the result", required=True)
@click.option("--stability", type=click.IntRange(min=2), help="Number of random half-samples for stability selection.")
@click.option("--differences", is_flag=True, help="List and draw the differences between each two classes.")
@click.option("--keep-partial", is_flag=True, help="On Ctrl-C write the current iterate with its duality gap.")
@click.option("--prove", is_flag=True, help="Tighten the duality gap until every edge is certified present or absent.")
@click.option("--figures/--no-figures", default=True, show_default=True, help="Draw figures.")
@click.option("--title", help="Heading of the report.")
@solve_options
@grid_options
@score_options
@click.pass_obj
def fit(session: Session, /, **options: Any) -> int:
    """Learn networks and write them to a folder.

    Reads FILE, estimates the network of each class, and compares the classes. Without --lambda1 and --lambda2 the
    penalties are chosen by a criterion; on Ctrl-C, among the grid points solved so far. The folder appears once it is
    complete: report.html, edges.csv, figures, solution.jgl, and parameters.json for repeating the run.

    \b
    Example:
      jointglasso fit cells.csv --label condition --out networks
      jointglasso fit cells.csv --label condition --lambda1 0.3 --lambda2 0.1 --stability 50 --out networks
    """
    _check(options)
    target = ResultFolder(options["out"], overwrite=options["overwrite"])
    with target.building() as folder:  # before the solve, so that an unwritable folder fails early
        data = read_data(session, options)
        with workers_of(session, options) as executor:
            result = _solve(session, data, {**options, "executor": executor})
        with noting(session, lambda: "writing tables, figures and report"):
            write_result(session, folder, result, options)
    print_result(session, result, target)
    if options["time"] is not None:
        steps = result.networks.steps()
        session.echo(f"\nChanges of the estimates from each window to the next:\n{table_text(steps, len(steps))}")
        session.add(steps=steps.to_dict("records"))
    if options["differences"]:
        print_differences(session, result)
    if result.interrupted:
        return INTERRUPTED
    return OK if result.solution.status else NOT_CONVERGED


def print_result(session: Session, result: Result, target: ResultFolder) -> None:
    """Print penalties, edges, stability, certificate and the path of the result."""
    solution, selection = result.solution, result.selection
    if selection is not None:
        explained = session.in_options(selection.explain())
        for note in result.data.notes:  # printed when the data were read
            explained = explained.replace(f"{note}\n", "")
        session.echo(f"\n{explained}")
        session.add(
            criterion=selection.criterion, score=selection.score, explanation=session.in_options(selection.explain())
        )
    else:
        session.echo("Penalties: lambda1 = {lambda1:.4g}, lambda2 = {lambda2:.4g}.".format(**solution.parameters))
    session.echo(f"\n{networks_in_words(result.networks)}\n")
    if solution.low_rank is not None:
        session.echo(f"Latent variables: {solution.low_rank.describe(solution.class_names)}.")
    if result.stability is not None:
        session.echo(f"{result.stability}\n")
    if solution.refit is not None and selection is None:
        session.echo(solution.refit.describe())
    for text in filter(None, (significant_differences(result), session.in_options(str(solution)))):
        session.echo(text)
    session.echo(written_to(target))
    session.add(**facts_of(result), out=target.path)


def _check(options: dict[str, Any]) -> None:
    fixed = [name for name in ("lambda1", "lambda2") if options[name] is not None]
    if len(fixed) == 1:
        other = "lambda2" if fixed == ["lambda1"] else "lambda1"
        raise click.UsageError(f"--{fixed[0]} is given without --{other}: give both, or none to have them chosen.")
    if fixed and options["criterion"]:
        raise click.UsageError("--select chooses the penalties, but --lambda1 and --lambda2 are given: leave one out.")
    if fixed and options["penalty"] == "auto":
        raise click.UsageError("--penalty auto goes with a choice of the penalties: leave --lambda1 and --lambda2 out.")
    for name in ("prove", "stability"):
        if options["latent_rank"] is not None and options[name]:
            raise click.UsageError(f"--{name} does not go with --latent-rank: leave one of them out.")


def _solve(session: Session, data: Data, options: dict[str, Any]) -> Result:
    """Select the penalties where they are not fixed, solve, certify and compute the stability of the edges."""
    from jointglasso.selection.relaxed import with_refit

    selection = None
    if options["lambda1"] is None:
        selection = choose(session, data, options["criterion"] or "jbic", options)
        solution = selection.solution
        options = options | {"penalty": solution.parameters["penalty"]}  # the one that "auto" has chosen
        if options["prove"] and not selection.interrupted:
            penalties = selection.lambda1, selection.lambda2
            solution = _solve_at(session, data, options, penalties, warm_start=solution)
    else:
        penalties = options["lambda1"], options["lambda2"]
        solution = _solve_at(session, data, options, penalties, checkpoint=options["checkpoint"])
    finished = solution.status.code != "interrupt" and (selection is None or not selection.interrupted)
    undecided = solution.certificate.edges_undetermined
    if options["prove"] and finished and undecided:
        gap = solution.certificate.relative_gap
        session.note(f"--prove: {undecided:,} entries stay undecided at a relative gap of {gap:.0e}.")
    if solution.refit is None:
        solution = with_refit(data.source, solution)
    stability = None
    if options["stability"] and finished:
        stability = _edge_stability(session, data, solution, options)
    networks = jgl.JointNetworks.from_solution(solution, stability=stability and stability.frequencies)
    if not finished:
        return Result(data, solution, networks, selection, stability, not_tested="the run was interrupted")
    with noting(session, lambda: "testing the differences"):
        return Result(data, solution, networks, selection, stability, *tested_differences(data))


def _solve_at(
    session: Session, data: Data, options: dict[str, Any], penalties: tuple[float, float], **more: Any
) -> jgl.Solution:
    """Solve at given penalties, with a progress bar."""
    with jgl.RichProgress(**bar_options(session)) as progress:
        return jgl.solve(
            data.source,
            penalties[0],
            penalties[1],
            callback=progress,
            on_interrupt="return" if options["keep_partial"] else "raise",
            prove=options["prove"],
            weights=data.preparation["weights"],
            **arguments_of_solve(options, data),
            **more,
        )


def _edge_stability(session: Session, data: Data, solution: Any, options: dict[str, Any]) -> Any:
    with counting(session, "stability of the edges") as show:
        return jgl.edge_stability(
            data.samples,
            lambda1=solution.parameters["lambda1"],
            lambda2=solution.parameters["lambda2"],
            n_subsamples=options["stability"],
            random_state=options["seed"],
            callback=show,
            **data.preparation,
            **arguments_of_solve(options, data),
        )


@click.command(cls=Command)
@click.option(
    "--out", default="jointglasso-demo", show_default=True, type=click.Path(path_type=Path),
    help="Folder for the result; that of an earlier demo is replaced.",
)  # fmt: skip
@click.pass_obj
def demo(session: Session, out: Path) -> int:
    """Try it on gene expression in three cancers.

    The data are inside the package: 61 genes in 195 tumours. Chooses the penalties, estimates the network of each
    cancer with a certificate of optimality, and writes a folder with a report. Takes a few seconds, the first time on
    a machine half a minute for compiling.

    \b
    Example:
      jointglasso demo --out demo
    """
    from jointglasso.data.samples import Samples

    target = ResultFolder(out, overwrite=True)
    with target.building() as folder:
        table, processes = jgl.datasets.load_expression()
        how = {"scale": "correlation", "association": "pearson", "constant": "refuse", "missing": "refuse"}
        samples = Samples.from_labels(table.X, table.y, table.variable_names)
        data = prepare(session, samples, {**how, "weights": "sqrt_sample_size"}, table.source)
        began = time.perf_counter()
        with counting(session, "choosing penalties by jbic") as show:
            selection = jgl.select(data.samples, callback=show, **data.preparation)
        session.echo(f"Penalties chosen and networks estimated in {time.perf_counter() - began:.1f} s.")
        networks = jgl.JointNetworks.from_solution(selection.solution)
        result = Result(data, selection.solution, networks, selection, None, *tested_differences(data))
        options = {"title": "Gene networks of three cancers", "figures": True, "differences": False, "time": None}
        with noting(session, lambda: "writing tables, figures and report"):
            write_result(session, folder, result, options, processes)
    print_result(session, result, target)
    return OK if selection.solution.status else NOT_CONVERGED
