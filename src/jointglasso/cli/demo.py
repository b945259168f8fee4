"""`jointglasso demo`: the complete analysis of a data set inside the package."""

from __future__ import annotations

import time
from pathlib import Path

import click

from jointglasso.cli.fit import print_result
from jointglasso.cli.folder import ResultFolder
from jointglasso.cli.input_data import prepare
from jointglasso.cli.results import Result, write_result
from jointglasso.cli.session import NOT_CONVERGED, OK, Command, Session
from jointglasso.cli.solving import counting, noting
from jointglasso.cli.summaries import tested_differences


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
    import jointglasso as jgl
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
        session.say(f"Penalties chosen and networks estimated in {time.perf_counter() - began:.1f} s.")
        networks = jgl.JointNetworks.from_solution(selection.solution)
        result = Result(data, selection.solution, networks, selection, None, *tested_differences(data))
        options = {"title": "Gene networks of three cancers", "figures": True, "differences": False, "time": None}
        with noting(session, lambda: "writing tables, figures and report"):
            write_result(session, folder, result, options, processes)
    print_result(session, result, target)
    return OK if selection.solution.status else NOT_CONVERGED
