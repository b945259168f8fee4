"""`jointglasso infer`: tests of edges and differences, with confidence intervals and false discovery rates."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import jointglasso as jgl
from jointglasso._display import table_text
from jointglasso._files import atomic_text
from jointglasso.cli.input_data import Data, covariates_of, prepare, read_labelled, samples_of, shape
from jointglasso.cli.options import data_options, folder_options, split
from jointglasso.cli.results import can_draw, result_folder, write_parameters, write_table
from jointglasso.cli.session import OK, Command, Session
from jointglasso.cli.solving import counting, noting

if TYPE_CHECKING:
    import pandas as pd

    from jointglasso.data.samples import Samples

#: Rows of a table that are printed.
SHOWN = 15


@click.command(cls=Command)
@data_options(association="nonparanormal")
@click.option(
    "--se", type=click.Choice(["moderated", "gaussian"]), default="moderated", show_default=True,
    help="Standard errors from the data, or those of Gaussian data.",
)  # fmt: skip
@click.option("--groups", help="Column that names the subject of each sample, for repeated measurements.")
@click.option(
    "--fdr", type=click.FloatRange(0, 1, min_open=True), default=0.1, show_default=True, help="False discovery rate."
)
@click.option(
    "--bootstrap", "n_resamples", type=click.IntRange(0), default=0, show_default=True,
    help="Resamples for intervals of centralities; 0 for none.",
)  # fmt: skip
@folder_options("tables, figures and report", checkpoint=False)
@click.option("--title", help="Heading of the report.")
@click.option("--figures/--no-figures", default=True, show_default=True, help="Draw PNG figures.")
@click.pass_obj
def infer(session: Session, /, **options: Any) -> int:
    """Test every edge and every difference.

    Estimates the partial correlation of every pair of variables in every class of FILE, with 95 % intervals, p-values
    and false discovery rates, and compares the classes. Correlations are those of normal scores, unless --association
    pearson is given.

    \b
    Example:
      jointglasso infer cells.csv --label condition --out tests
      jointglasso infer cells.csv --label condition --groups subject --covariates batch,age --out tests
    """
    _check(options)
    with result_folder(session, options) as folder:
        samples, data, arguments = _read(session, options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jgl.InferenceWarning)  # printed with the notes of the result
            with noting(session, lambda: "estimating and testing"):
                result = jgl.infer(samples, se=options["se"], **arguments)
            _print_tables(session, result, options["fdr"], data.describe())
            bootstrap = None
            if options["n_resamples"]:
                with counting(session, "bootstrap", "estimates") as show:
                    bootstrap = jgl.bootstrap_network(
                        samples, n_resamples=options["n_resamples"], fdr=options["fdr"],
                        random_state=0, callback=show, **arguments,
                    )  # fmt: skip
                if result.n_classes > 1:
                    strengths = bootstrap.centrality_differences()
                    _print_differences(
                        session, "Differences of strength", strengths[strengths.q_value <= options["fdr"]]
                    )
        if folder is not None:
            with noting(session, lambda: "writing tables, figures and report"):
                _write(session, folder, data, (result, bootstrap), options)
    return OK


def _read(session: Session, options: dict[str, Any]) -> tuple[Samples, Data, dict[str, Any]]:
    """Samples, their description, and the arguments of `infer` with subjects and covariates."""
    groups = split([options["groups"] or ""])
    table, preparation, _ = read_labelled(options, groups)
    arguments = {name: preparation[name] for name in ("association", "missing", "weights")}
    covariates = covariates_of(table, options)
    samples, done = shape(samples_of(table, options), options, covariates[[]])
    arguments["groups"] = table.annotations[groups[0]] if groups else None
    arguments["covariates"] = covariates if covariates.shape[1] else None
    # `infer` reports constant variables, and EM is for `infer` alone.
    described = preparation | {"constant": "isolate"} | ({"missing": "pairwise"} if options["missing"] == "em" else {})
    return samples, prepare(session, samples, described, "; ".join([table.source, *done]), options["file"]), arguments


def _check(options: dict[str, Any]) -> None:
    from jointglasso.inference.data import check_combination

    if options["overlap"] > 0:
        raise click.UsageError("--overlap does not go with tests: windows that share samples are not independent.")
    if options["scale"] == "covariance":
        raise click.UsageError("--scale covariance: partial correlations are the same on either scale; leave it out.")
    if options["constant"] == "isolate":
        raise click.UsageError("--constant isolate does not go with tests, which need every variable: take drop.")
    missing = "refuse" if options["missing"] == "drop-variables" else options["missing"]
    check_combination(
        options["association"], missing, groups=options["groups"], covariates=options["covariates"] or None,
        se=options["se"],
    )  # fmt: skip


def _print_tables(session: Session, result: jgl.Inference, fdr: float, described: str) -> None:
    """Print the first significant edges and differences, and the notes that are no part of the text `described`."""
    edges = result.edges(fdr=fdr)
    counts = {name: int((edges["class"] == name).sum()) for name in result.class_names}
    by_class = ", ".join(f"{number} in {name}" for name, number in counts.items())
    session.echo(f"\nEdges significant at a false discovery rate of {fdr:g}: {by_class}")
    session.echo(table_text(edges, SHOWN) if len(edges) else "")
    session.add(edges=counts, n_pairs=result.n_pairs, notes=result.notes, fdr=fdr)
    if result.n_classes > 1:
        differences = result.differences(fdr=fdr)
        _print_differences(session, "Differences", differences)
        session.add(differences=len(differences))
    for note in result.notes:
        if note not in described:
            session.note(note)


def _print_differences(session: Session, what: str, table: pd.DataFrame) -> None:
    """Print the number of significant differences and the first of them."""
    session.echo(f"\n{what} between classes significant at that rate: {len(table)}")
    session.echo(table_text(table, SHOWN) if len(table) else "")


def _write(
    session: Session, folder: Path, data: Data, results: tuple[jgl.Inference, jgl.NetworkBootstrap | None], options: Any
) -> None:
    """Write tables, networks, report and figures into the result folder."""
    (result, bootstrap), fdr = results, options["fdr"]
    tables = {"edges": result.edges(), "common": result.pooled_effect()}
    if result.n_classes > 1:
        tables |= {"differences": result.differences(), "heterogeneity": result.heterogeneity()}
    if bootstrap is not None:
        tables |= {"centrality": bootstrap.centrality(), "bootstrap_edges": bootstrap.edges()}
        if result.n_classes > 1:
            tables["centrality_differences"] = bootstrap.centrality_differences()
    for name, table in tables.items():
        write_table(folder / f"{name}.csv", table)
    if find_spec("networkx") is not None:
        result.graph(fdr).export(folder / "networks.graphml")
    atomic_text(folder / "method.txt", result.method(fdr) + "\n")
    if result.solution is not None:
        shown = f"The networks show the edges at a false discovery rate of {fdr:g}."
        jgl.write_report(
            folder / "report.html",
            result.solution,
            inference=result,
            fdr=fdr,
            bootstrap=bootstrap,
            title=options["title"],
            notes=[data.describe().replace("\n", ": "), shown],
        )
    if options["figures"] and can_draw(session):
        _draw(folder / "figures", result, bootstrap, fdr)
    write_parameters(folder, session, data)


def _draw(folder: Path, result: jgl.Inference, bootstrap: jgl.NetworkBootstrap | None, fdr: float) -> None:

    folder.mkdir()
    jgl.plots.plot_intervals(result, fdr=fdr, path=folder / "intervals.png")
    if bootstrap is not None:
        jgl.plots.plot_bootstrap(bootstrap, path=folder / "centrality.png")
    if result.n_classes > 1:
        jgl.plots.plot_volcano(result, fdr=fdr, path=folder / "volcano.png")
