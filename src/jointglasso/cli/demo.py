"""`jointglasso demo`: the complete analysis of a data set inside the package."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import click

from jointglasso.cli.fit import print_result
from jointglasso.cli.folder import ResultFolder
from jointglasso.cli.input_data import prepare
from jointglasso.cli.results import Contents, Result, write_result
from jointglasso.cli.session import NOT_CONVERGED, OK, Command, Session
from jointglasso.cli.solving import counting, say_if_compiling

#: A coarse grid, so that the demonstration is short.
RATIOS = (0.1, 0.3)
N_LAMBDAS = 6
MIN_RATIO = 0.3


@click.command(cls=Command)
@click.option(
    "--out", default="jointglasso-demo", show_default=True, type=click.Path(path_type=Path),
    help="Folder for the result; that of an earlier demo is replaced.",
)  # fmt: skip
@click.pass_obj
def demo(session: Session, out: Path) -> int:
    """Try it on protein data of six cancers.

    The data are inside the package. Chooses the penalties on a small grid, solves with a certificate, and writes a
    folder with a report. Takes less than half a minute, and once per machine a little longer for compiling.

    \b
    Example:
      jointglasso demo --out demo
    """
    import jointglasso as jgl

    target = ResultFolder(out, overwrite=True)
    with target.building() as folder:
        how = {"scale": "correlation", "association": "pearson", "constant": "refuse", "missing": "refuse"}
        data = prepare(jgl.datasets.load_rppa(), {**how, "weights": "sqrt_sample_size"})
        session.say(data.describe())
        say_if_compiling(session)
        began = time.perf_counter()
        grid = jgl.lambda_grid(data.source, n_lambdas=N_LAMBDAS, ratios=RATIOS, min_ratio=MIN_RATIO)
        with counting(session, "choosing penalties by jbic") as show, warnings.catch_warnings():
            warnings.simplefilter("ignore", jgl.SelectionWarning)  # the text below says that the grid is small
            selection = jgl.select(data.samples, grid=grid, callback=show, **data.preparation)
        seconds = time.perf_counter() - began
        session.say(f"Penalties chosen on a small grid and networks solved in {seconds:.1f} s; fit searches further.\n")
        networks = jgl.JointNetworks.from_solution(selection.solution)
        result = Result(data, selection.solution, networks, selection)
        write_result(folder, result, Contents(title="Protein networks of six cancers"), session)
    print_result(session, result, target, explain=False)
    return OK if selection.solution.status else NOT_CONVERGED
