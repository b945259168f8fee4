"""Run the paper's experiments again: `python -m reproduction WHAT` in a checkout."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from jointglasso.cli.session import EXIT_CODES, Command, Session
from reproduction import EXPERIMENTS, Settings
from reproduction.designs import PAPER_LAMBDAS

#: The experiments, one a line (which the first character asks for), with their times.
_LIST = "\b\nExperiments, with their times and those of --full:\n" + "\n".join(
    f"  {name:<20}{e.title} ({e.takes}; {e.takes_full})" for name, e in EXPERIMENTS.items()
)

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(cls=Command, epilog=f"{_LIST}\n\n{EXIT_CODES}")
@click.argument("what", type=click.Choice([*EXPERIMENTS, "all"]), metavar="WHAT...", nargs=-1, required=True)
@click.option("--quick", is_flag=True, help="Smaller and shorter: well under a minute.")
@click.option("--full", is_flag=True, help="The paper's size: hours to days. The default takes minutes.")
@click.option(
    "--out",
    default="results",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the results.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the drawn data.")
@click.option(
    "n_variables",
    "--variables",
    default=0,
    type=click.IntRange(min=0),
    help="Drawn data (not table1, avalanche): another number of variables than that of the size.",
)
@click.option("--classes", multiple=True, type=click.IntRange(min=2), help="Drawn data: number of classes; repeatable.")
@click.option(
    "--penalties",
    multiple=True,
    type=click.Choice(tuple(PAPER_LAMBDAS)),
    help="Drawn data: one of the paper's three pairs of penalties; repeatable.",
)
@click.option("n_seeds", "--seeds", default=0, type=click.IntRange(min=0), help="Drawn data: number of data sets.")
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Drawn data: processes, of one thread each, in which the cases run.",
)
@click.option("--data", multiple=True, type=_FILE, help="Real data (table2, figure-genes); may be given several times.")
@click.option(
    "labels", "--label", multiple=True, help="What tells the classes in each --data, in order; a dash: one class."
)
@click.option("--genes", type=_FILE, help="Keep only the variables named in this text file.")
@click.option("--covariances", is_flag=True, help="Real data: covariances as they are, as in the paper.")
@click.option("halved", "--halve", multiple=True, help="Real data: divide the covariances of this class by two.")
@click.option("left_out", "--without", multiple=True, help="Real data: leave out this class.")
@click.option("--without-samples", default="", help="Real data: leave out samples whose names match this expression.")
@click.option(
    "--limit",
    default=600.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds after which a single run is stopped: of a method in figure-times (which then has no time), of single "
    "iterations in p10000, of the default on a setting of real data (which keeps the gap that it has).",
)
@click.pass_obj
def main(session: Session, /, what: tuple[str, ...], out: Path, **options: Any) -> None:
    """Run experiments of the paper, or all of them, and say whether their claims hold.

    Writes the data (CSV), figures (PNG, SVG) and a page (Markdown) into a folder. Without --data the experiments on
    real data use the proteins inside the package.

    Example: python -m reproduction toy --out results
    """
    settings = Settings(**options)
    for name in EXPERIMENTS if "all" in what else what:
        _reproduce_one(session, name, out, settings)


def _reproduce_one(session: Session, name: str, out: Path, settings: Settings) -> None:
    from reproduction import run_experiment
    from reproduction.writer import write_result

    experiment = EXPERIMENTS[name]
    session.echo(f"{experiment.title} ...")
    if settings.full:
        session.note(f"At the paper's size this takes {experiment.takes_full}; without --full {experiment.takes}.")
    began = time.perf_counter()
    result = run_experiment(name, settings)
    files = write_result(name, experiment.title, result, out, settings)
    session.echo(f"  The paper: {result.claim}")
    session.echo(f"  Here: {result.verdict}")
    session.echo(f"  The claim {result.holds}. ({time.perf_counter() - began:.1f} s)")
    session.echo(f"  Written: {', '.join(str(path) for path in files)}")
    found = {"claim": result.claim, "verdict": result.verdict, "holds": str(result.holds), "files": list(files)}
    session.add(**{name: found})


if __name__ == "__main__":
    main(prog_name="python -m reproduction")
