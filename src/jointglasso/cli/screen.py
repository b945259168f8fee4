"""`jointglasso screen`: block sizes, memory and time before solving."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from jointglasso._display import readable_seconds
from jointglasso.cli.input_data import Data, read_data
from jointglasso.cli.options import data_options
from jointglasso.cli.session import Command, Session
from jointglasso.cli.solving import MANY_VARIABLES, say_if_compiling
from jointglasso.errors import InputError

if TYPE_CHECKING:
    from jointglasso import ComponentCurve, SelectionProgress

RULES = {
    "none": "no screening",
    "global": "one partition for all classes",
    "class": "one threshold in each class",
    "hybrid": "the paper's rule",
    "dynamic": "the finest, starting partition of a solve",
}

#: Minimum number of pairs at the suggested penalties, where the curve has as many.
FIRST_EDGES = 10

#: Block sizes for which the smallest penalties are printed.
SIZES = (50, 200, 1000)

#: Points of the first column behind its best one, whose time is taken as that of the points to come.
N_BEHIND = 2

#: Solves after the search, in units of its points: folds for the held-out likelihood, and the choice in halves.
N_MORE = 20

#: The trial of the first column ends after this many seconds.
TRIAL_SECONDS = 20.0


@click.command(cls=Command)
@data_options()
@click.option("--lambda1", type=float, help="Sparsity penalty to examine; a suggested one if left out.")
@click.option("--lambda2", type=float, help="Similarity penalty to examine.")
@click.option("--ratio", default=0.3, show_default=True, help="Ratio lambda2 / lambda1 of the curve.")
@click.option("--points", default=12, show_default=True, type=click.IntRange(min=2), help="Points of the curve.")
@click.option("--plot", type=click.Path(dir_okay=False), help="Draw the curve: a PNG, PDF or SVG file.")
@click.pass_obj
def screen(session: Session, /, **options: Any) -> None:
    """Show blocks, memory and time before solving.

    Shows the blocks into which screening splits FILE as the penalties decrease, the predicted cost of a solve, and the
    time that choosing the penalties takes, from the first solves of that choice.

    \b
    Example:
      jointglasso screen cells.csv --label condition
      jointglasso screen cells.csv --label condition --lambda1 0.3 --lambda2 0.1
    """
    import jointglasso as jgl

    data = read_data(options)
    session.say(data.describe())
    say_if_compiling(session)
    lambda1, lambda2, ratio = _penalties(options)
    curve = jgl.component_curve(data.source, ratio, weights=data.preparation["weights"], n_lambdas=options["points"])
    suggested = _suggest(curve, data.samples.n_variables)
    _show_curve(session, curve)
    _show_suggestions(session, curve, suggested, data.samples.n_variables)
    if lambda1 is None:
        lambda1, lambda2 = suggested
    _show_rules(session, data, lambda1, lambda2)
    _show_selection_time(session, data)
    if options["plot"]:
        jgl.plots.plot_component_curve(curve, path=options["plot"])
        session.say(f"Drawn: {options['plot']}")
    session.answer(data=data.facts)


def _penalties(options: dict[str, Any]) -> tuple[float | None, float, float]:
    """Penalties to examine, and the ratio lambda2 / lambda1 of the curve through them."""
    lambda1, lambda2 = options["lambda1"], options["lambda2"]
    if lambda1 is None:
        if lambda2 is not None:
            raise click.UsageError("--lambda2 is given without --lambda1: give both, or none.")
        return None, 0.0, options["ratio"]
    if lambda2 is None:
        lambda2 = options["ratio"] * lambda1
    return lambda1, lambda2, lambda2 / lambda1 if lambda1 else options["ratio"]


def _suggest(curve: ComponentCurve, n_variables: int) -> tuple[float, float]:
    """Suggested penalties: above the percolation threshold of pure noise, with blocks of moderate size."""
    affordable = curve.smallest_lambda(min(n_variables, SIZES[-1]))[0]
    lambda1 = max(affordable, min(curve.percolation or 0.0, curve.lambda_max))
    with_edges = curve.lambda1[curve.n_edges >= min(FIRST_EDGES, curve.n_edges[-1])]
    lambda1 = min(lambda1, float(with_edges[0])) if curve.n_edges[-1] else lambda1
    return lambda1, curve.ratio * lambda1


def _show_curve(session: Session, curve: ComponentCurve) -> None:
    session.say(f"\nBlocks as the penalties decrease, lambda2 = {curve.ratio:g} lambda1:")
    columns = {
        "lambda1": [f"{value:.4g}" for value in curve.lambda1],
        "lambda2": [f"{value:.4g}" for value in curve.lambda2],
        "blocks": [f"{value:,}" for value in curve.n_blocks],
        "largest": [f"{value:,}" for value in curve.largest],
        "pairs kept": [f"{value:,}" for value in curve.n_edges],
        "cost (cubes)": [f"{value:.2g}" for value in curve.cost],
    }
    session.table(list(columns), list(zip(*columns.values(), strict=True)))
    session.answer(
        curve={
            "ratio": curve.ratio,
            "lambda1": curve.lambda1,
            "lambda2": curve.lambda2,
            "n_blocks": curve.n_blocks,
            "largest": curve.largest,
            "pairs_kept": curve.n_edges,
            "cost": curve.cost,
        },
        lambda_max=curve.lambda_max,
        percolation=curve.percolation,
    )


def _show_suggestions(session: Session, curve: ComponentCurve, suggested: tuple[float, float], p: int) -> None:
    session.say(f"\nNo edge is left from lambda1 = {curve.lambda_max:.4g} on.")
    if curve.percolation is not None:
        session.say(f"Below lambda1 = {curve.percolation:.4g} pure noise would connect most variables (percolation).")
    smallest = {size: curve.smallest_lambda(size) for size in SIZES if size < p}
    for size, (lambda1, lambda2) in smallest.items():
        lower = "" if curve.reaches(size) else " (smaller ones were not computed)"
        session.say(f"Blocks of at most {size:,} variables: lambda1 >= {lambda1:.4g}, lambda2 >= {lambda2:.4g}{lower}.")
    session.say(f"A point to begin with: --lambda1 {suggested[0]:.4g} --lambda2 {suggested[1]:.4g}")
    session.answer(
        suggested={"lambda1": suggested[0], "lambda2": suggested[1]},
        smallest_lambdas={size: {"lambda1": a, "lambda2": b} for size, (a, b) in smallest.items()},
    )


def _show_rules(session: Session, data: Data, lambda1: float, lambda2: float) -> None:
    import jointglasso as jgl

    weights = data.preparation["weights"]
    partitions = {rule: jgl.screen(data.source, lambda1, lambda2, rule=rule, weights=weights) for rule in RULES}
    session.say(f"\nBlocks by screening rule at lambda1 = {lambda1:.4g}, lambda2 = {lambda2:.4g}:")
    session.table(
        ["rule", "blocks", "largest", "cost (cubes)", ""],
        [
            [rule, f"{part.n_blocks:,}", f"{part.largest:,}", f"{float(part.cost):.2g}", RULES[rule]]
            for rule, part in partitions.items()
        ],
        left_aligned=(0, 4),
    )
    plan = jgl.plan(data.source, lambda1, lambda2, weights=weights)
    session.say(f"\nOne solve there: {plan}.")
    session.answer(
        lambda1=lambda1,
        lambda2=lambda2,
        rules={
            rule: {"n_blocks": part.n_blocks, "largest": part.largest, "cost": int(part.cost)}
            for rule, part in partitions.items()
        },
        plan={"n_groups": plan.n_groups, "memory_bytes": plan.memory, "seconds": plan.seconds},
    )


def _show_selection_time(session: Session, data: Data) -> None:
    """Print the time of `fit` without --lambda1, extrapolated from the first column of its search."""
    from jointglasso.selection.select_penalty import N_POINTS

    try:
        seconds, complete = _selection_seconds(data, N_POINTS)
    except InputError as error:
        session.say(f"Choosing the penalties (fit without --lambda1) is not possible: {error}")
        return
    session.say(
        f"Choosing the penalties (fit without --lambda1): {'about' if complete else 'probably more than'} "
        f"{readable_seconds(seconds)} in all, solves with refits, by the time of the first ones"
        + ("." if complete else "; fewer variables take less.")
    )
    session.answer(selection_seconds=seconds, selection_seconds_is_lower_bound=not complete)


class _TrialEnded(Exception):
    """Raised by the callback of a trial selection to stop it."""


def _selection_seconds(data: Data, n_points: int) -> tuple[float, bool]:
    """Predicted seconds of `select`, and whether its first column was evaluated within `TRIAL_SECONDS`."""
    import jointglasso as jgl

    began = time.perf_counter()
    ends = [0.0]

    def record(progress: SelectionProgress) -> None:
        elapsed = time.perf_counter() - began
        if progress.total and progress.stage != "first column":
            raise _TrialEnded
        ends[:] = [elapsed] if not progress.total else [*ends, elapsed]
        if elapsed > TRIAL_SECONDS:
            raise _TrialEnded

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(_TrialEnded):
            chosen = jgl.select(data.samples, callback=record, max_seconds=TRIAL_SECONDS, **data.preparation)
            return time.perf_counter() - began, not chosen.left_out
    elapsed = time.perf_counter() - began
    each = np.diff(ends)[max(len(ends) - 2 - N_BEHIND, 0)] if len(ends) > 1 else elapsed
    n_points = n_points if data.samples.n_classes > 1 else n_points // 3
    n_more = max(n_points - len(ends), 0) + (N_MORE if data.samples.n_variables <= MANY_VARIABLES else 0)
    return elapsed + n_more * float(each), elapsed <= TRIAL_SECONDS
