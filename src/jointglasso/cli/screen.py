"""`jointglasso screen`: block sizes, memory and time before solving."""

from __future__ import annotations

from typing import Any

import click

import jointglasso as jgl
from jointglasso._display import table_text
from jointglasso.cli.input_data import Data, read_data
from jointglasso.cli.options import data_options
from jointglasso.cli.session import Command, Session

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


@click.command(cls=Command)
@data_options()
@click.option("--lambda1", type=float, help="Sparsity penalty to examine; a suggested one if left out.")
@click.option("--lambda2", type=float, help="Similarity penalty to examine.")
@click.option("--ratio", default=0.3, show_default=True, help="Ratio lambda2 / lambda1 of the curve.")
@click.option("--points", default=10, show_default=True, type=click.IntRange(min=2), help="Points of the curve.")
@click.option("--plot", type=click.Path(dir_okay=False), help="Draw the curve: a PNG, PDF or SVG file.")
@click.pass_obj
def screen(session: Session, /, **options: Any) -> None:
    """Show blocks, memory and time before solving.

    Shows the blocks into which screening splits FILE as the penalties decrease, and the predicted cost of a solve.

    \b
    Example:
      jointglasso screen cells.csv --label condition
      jointglasso screen cells.csv --label condition --lambda1 0.3 --lambda2 0.1
    """
    data = read_data(session, options)
    lambda1, lambda2, ratio = _penalties(options)
    curve = jgl.component_curve(data.source, ratio, weights=data.preparation["weights"], n_lambdas=options["points"])
    session.echo(f"\n{curve}\n")
    named = ("ratio", "lambda1", "lambda2", "n_blocks", "largest", "cost")
    facts = {name: getattr(curve, name) for name in named} | {"pairs_kept": curve.n_edges}
    session.add(data=data.facts, curve=facts, lambda_max=curve.lambda_max, percolation=curve.percolation)
    suggested = _suggest(curve, data.samples.n_variables)
    _show_suggestions(session, curve, suggested, data.samples.n_variables)
    _show_rules(session, data, *(suggested if lambda1 is None else (lambda1, lambda2)))
    if options["plot"]:
        jgl.plots.plot_component_curve(curve, path=options["plot"])
        session.echo(f"Drawn: {options['plot']}")


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


def _suggest(curve: jgl.ComponentCurve, n_variables: int) -> tuple[float, float]:
    """Suggested penalties: above the percolation threshold of pure noise, with blocks of moderate size."""
    affordable = curve.smallest_lambda(min(n_variables, SIZES[-1]))[0]
    lambda1 = max(affordable, min(curve.percolation or 0.0, curve.lambda_max))
    with_edges = curve.lambda1[curve.n_edges >= min(FIRST_EDGES, curve.n_edges[-1])]
    lambda1 = min(lambda1, float(with_edges[0])) if curve.n_edges[-1] else lambda1
    return lambda1, curve.ratio * lambda1


def _show_suggestions(session: Session, curve: jgl.ComponentCurve, suggested: tuple[float, float], p: int) -> None:
    smallest = {size: curve.smallest_lambda(size) for size in SIZES if size < p}
    for size, (lambda1, lambda2) in smallest.items():
        lower = "" if curve.reaches(size) else " (smaller ones were not computed)"
        session.echo(
            f"Blocks of at most {size:,} variables: lambda1 >= {lambda1:.4g}, lambda2 >= {lambda2:.4g}{lower}."
        )
    session.echo(f"A point to begin with: --lambda1 {suggested[0]:.4g} --lambda2 {suggested[1]:.4g}")
    session.add(
        suggested={"lambda1": suggested[0], "lambda2": suggested[1]},
        smallest_lambdas={size: {"lambda1": a, "lambda2": b} for size, (a, b) in smallest.items()},
    )


def _show_rules(session: Session, data: Data, lambda1: float, lambda2: float) -> None:
    import pandas as pd

    weights = data.preparation["weights"]
    rules, rows = {}, []
    for rule, words in RULES.items():
        part = jgl.screen(data.source, lambda1, lambda2, rule=rule, weights=weights)
        rules[rule] = {"n_blocks": part.n_blocks, "largest": part.largest, "cost": int(part.cost)}
        rows.append({"rule": f"{rule} ({words})", **rules[rule]})
    plan = jgl.plan(data.source, lambda1, lambda2, weights=weights)
    session.echo(f"\nBlocks by screening rule at lambda1 = {lambda1:.4g}, lambda2 = {lambda2:.4g}:")
    session.echo(table_text(pd.DataFrame(rows)))
    session.echo(f"\nOne solve there: {plan}.")
    session.echo(
        "jointglasso fit without --lambda1 chooses the penalties by about 40 solves and refits, at weaker ones too, "
        "and up to 1,000 variables again in two halves of the samples; it shows what is done."
    )
    session.add(
        lambda1=lambda1,
        lambda2=lambda2,
        rules=rules,
        plan={"n_groups": plan.n_groups, "memory_bytes": plan.memory, "seconds": plan.seconds},
    )
