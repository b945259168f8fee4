"""Contents of a result folder (tables, figures, report, parameters), and summaries of a result as text and for JSON."""

from __future__ import annotations

import io
import json
import platform
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import jointglasso as jgl
from jointglasso._display import table_text
from jointglasso._files import atomic_text, write_columns
from jointglasso._wording import count
from jointglasso.cli.folder import MARK, ResultFolder
from jointglasso.cli.session import Session, plain
from jointglasso.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from jointglasso.cli.input_data import Data


#: Packages whose versions are recorded, since results may depend on them.
PACKAGES = ("jointglasso", "numpy", "scipy", "numba", "scikit-learn")


@contextmanager
def result_folder(session: Session, options: Mapping[str, Any]) -> Iterator[Any]:
    """The folder of --out while it is built, or None without --out."""
    if options["out"] is None:
        yield None
        return
    target = ResultFolder(options["out"], overwrite=options["overwrite"])
    with target.building() as folder:
        yield folder
    session.echo(written_to(target))
    session.add(out=target.path)


def written_to(target: ResultFolder) -> str:
    """Sentence that names the result folder, and the report in it."""
    report = "report.html"
    more = f"; open {target.requested / report} in a browser" if (target.path / report).exists() else ""
    return f"Written to {target.requested}{more}."


@dataclass(frozen=True)
class Result:
    """Result of a fit: data, solution, networks, model selection and stability."""

    data: Data
    solution: jgl.Solution
    networks: jgl.JointNetworks
    selection: jgl.SelectionResult | None = None
    stability: jgl.EdgeStability | None = None
    inference: jgl.Inference | None = None
    """Tests of the differences between the classes."""
    not_tested: str = "jointglasso infer tests them"
    """Why the differences are not tested."""

    @property
    def interrupted(self) -> bool:
        """Whether the solve or the model selection was interrupted."""
        return self.solution.status.code == "interrupt" or (self.selection is not None and self.selection.interrupted)


def write_result(
    session: Session, folder: Path, result: Result, options: Mapping[str, Any], groups: Any = "auto"
) -> None:
    """Write all files of a result folder; `groups` of the variables are shown in colour, as in `write_report`."""
    solution, networks = result.solution, result.networks
    solution.save(folder / "solution.jgl")
    networks.export(folder / "edges.csv")
    if networks.edge_clusters is not None:
        write_table(folder / "patterns.csv", networks.patterns())
    if options["time"] is not None:
        write_table(folder / "steps.csv", networks.steps())
    if result.selection is not None:
        write_selection(folder, result.selection)
    if options["differences"]:
        write_table(folder / "differences.csv", _difference_table(result))
    if options["figures"] and can_draw(session):
        _write_figures(folder / "figures", result, options, groups)
    notes = result.data.describe().replace("\n", ": ")
    _write_report(folder, result, {"groups": groups, "title": options["title"], "notes": notes})
    write_parameters(folder, session, result.data, solution=solution.parameters, title=options["title"], notes=notes)


def write_selection(folder: Path, selection: jgl.SelectionResult) -> None:
    """Write the grid with its scores, and the explanation of the choice."""
    write_table(folder / "selection.csv", selection.records)
    atomic_text(folder / "selection.txt", selection.explain() + "\n")


def write_table(path: Path, table: Any) -> None:
    """Write a data frame, or a mapping with columns of equal length, as CSV."""
    text = io.StringIO()
    write_columns(text, {str(name): plain(column) for name, column in table.items()})
    atomic_text(path, text.getvalue())


def _write_figures(folder: Path, result: Result, options: Mapping[str, Any], groups: Any) -> None:
    """Draw the figures for which the result has data."""
    networks, solution = result.networks, result.solution
    folder.mkdir()
    jgl.plots.plot_networks(networks, groups=groups, path=folder / "networks.png")
    jgl.plots.plot_degrees(networks, path=folder / "degrees.png")
    jgl.plots.plot_adjacency(networks, solution.partition, path=folder / "adjacency.png")
    jgl.plots.plot_centrality(networks, path=folder / "centrality.png")
    if result.selection is not None:
        jgl.plots.plot_selection(result.selection, path=folder / "selection.png")
    if options["time"] is not None:
        jgl.plots.plot_over_time(networks, path=folder / "over_time.png")
    if networks.has_stability:
        jgl.plots.plot_stability(networks, path=folder / "stability.png")
    if options["differences"]:
        _draw_differences(folder, result)


def can_draw(session: Session) -> bool:
    """Whether matplotlib is installed; if not, print how to install it."""
    if find_spec("matplotlib") is not None:
        return True
    session.note("Figures are left out: pip install 'jointglasso[plots,networks]' installs what they need.")
    return False


def _write_report(folder: Path, result: Result, options: dict[str, Any]) -> None:
    prepared = {name: result.data.preparation.get(name) for name in ("association", "missing")}
    jgl.write_report(
        folder / "report.html",
        result.solution,
        networks=result.networks,
        selection=result.selection,
        stability=result.stability,
        inference=result.inference,
        parameters=prepared | result.solution.parameters | {"sample_sizes": result.data.samples.sizes.tolist()},
        **options,
    )


def write_parameters(folder: Path, session: Session, data: Data, **more: Any) -> None:
    """Write parameters.json: command, data, options and versions, for repeating the run."""
    facts = {
        "command_line": session.command_line,
        "arguments": session.arguments,
        "data": data.facts,
        **more,
        "versions": {**{name: version(name) for name in PACKAGES}, "python": platform.python_version()},
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    atomic_text(folder / MARK, json.dumps(plain(facts), indent=2, ensure_ascii=False) + "\n")


#: Maximum number of difference figures; of more pairs of classes those with the largest differences.
MAX_DRAWN = 6

#: Maximum number of differences printed.
MAX_PRINTED = 8


def _difference_table(result: Result) -> pd.DataFrame:
    """Differences of each two classes, with their tests."""
    if result.networks.n_classes < 2:
        raise click.UsageError("--differences needs two classes, but the data have one: add --label.")
    return result.networks.differences(tested=result.inference)


def _draw_differences(folder: Path, result: Result) -> None:
    """Draw a figure for each pair of classes, up to `MAX_DRAWN`."""
    networks = result.networks
    table = networks.differences()
    sizes = (table["difference"] ** 2).groupby([table["class1"], table["class2"]], sort=False).sum()
    largest = sizes.sort_values(ascending=False, kind="stable").index[:MAX_DRAWN]
    for number, (one, two) in enumerate(largest, start=1):
        safe = re.sub(r"[^\w.+-]+", "_", f"difference_{number}_{one}_minus_{two}")[:160]
        jgl.plots.plot_differences(networks, one, two, tested=result.inference, path=folder / f"{safe}.png")


def significant_differences(result: Result) -> str:
    """Sentence on the number of significant differences, or why they are not tested."""
    if result.networks.n_classes < 2:
        return ""
    if result.inference is None:
        return f"Differences between the classes are not tested: {result.not_tested}."
    n = len(result.inference.differences(fdr=RATE))
    scores = " on normal scores" if result.inference.association == "nonparanormal" else ""
    return (
        f"Significant differences between two classes at a false discovery rate of {RATE:g}: {n:,} "
        f"(desparsified estimates{scores}{'; the report and --differences list them' if n else ''})."
    )


def print_differences(session: Session, result: Result) -> None:
    """Print the differences with the smallest p-values, or the largest where they are not tested."""
    table = _difference_table(result)
    tested = result.inference is not None
    which = "Those of" if tested else "The largest of"
    ending = " with the smallest p-values, as desparsified difference with 95 % interval" if tested else ", not tested"
    session.echo(f"\n{which} {len(table):,} differences between the estimates{ending}; no edge counts as 0:")
    columns = ["variable1", "variable2", "class1", "class2", "partial_correlation1", "partial_correlation2"]
    columns += ["estimated_difference", "low", "high", "q_value"] if tested else ["difference"]
    session.echo(table_text(table[columns].head(MAX_PRINTED)))
    session.add(differences=table.head(MAX_PRINTED).to_dict("records"))


def networks_in_words(networks: jgl.JointNetworks) -> str:
    """Edges of each class, those in common, and those of equal value where the penalty is of the fused kind."""
    from jointglasso.networks.comparisons import summary_of_edge_clusters

    if not networks.edge_list.n_pairs:
        return f"{networks}\nNo two variables are joined in any class: at these penalties the data show no edge."
    return str(networks) if networks.edge_clusters is None else f"{networks}\n{summary_of_edge_clusters(networks)}"


def facts_of(result: Result) -> dict[str, Any]:
    """Fields of a result for JSON."""
    solution = result.solution
    certificate, latent = solution.certificate, solution.low_rank
    return {
        "lambda1": solution.parameters["lambda1"],
        "lambda2": solution.parameters["lambda2"],
        "converged": solution.status.converged,
        "status": str(solution.status),
        "status_code": solution.status.code,
        "objective": solution.objective,
        "relative_gap": certificate.relative_gap,
        "edges": dict(zip(solution.class_names, solution.n_edges, strict=True)),
        "latent": None if latent is None else dict(zip(solution.class_names, latent.ranks, strict=True)),
        "edges_proved_present": certificate.edges_present,
        "edges_proved_absent": certificate.edges_absent,
        "edges_undecided": certificate.edges_undetermined,
        **({} if solution.edge_clusters is None else {"comparisons": solution.edge_clusters.count()}),
        "largest_block": solution.partition.largest,
        "seconds": solution.timings["total"],
        "pairs": result.networks.edge_list.pairs_by_kind,
        "data": result.data.facts,
    }


#: Maximum number of variables, by what the standard errors take: one pass, resamples, resamples of polychoric fits.
MAX_TESTED, MAX_RESAMPLED, MAX_MIXED = 500, 150, 40

#: Minimum number of samples of a class by variable.
SAMPLES_BY_VARIABLE = 0.2

#: False discovery rate of the differences that are called significant.
RATE = 0.1


def tested_differences(data: Data) -> tuple[jgl.Inference | None, str]:
    """Result of `infer` on the samples of a fit, or None with the reason.

    Pearson's correlations are tested on normal scores: with them heavy tails make differences where there are none.
    """
    from jointglasso.data.kinds import LATENT
    from jointglasso.data.windows import DependentSamplesWarning

    samples, association = data.samples, data.preparation["association"]
    missing = data.preparation.get("missing", "refuse")
    if samples.n_classes < 2:
        return None, "there is one class"
    resampled = association in ("spearman", *LATENT) or missing == "pairwise"
    max_variables = MAX_MIXED if association in LATENT else MAX_RESAMPLED if resampled else MAX_TESTED
    if samples.sample_fraction != 1.0:
        return None, "the windows share samples"
    if samples.absent is not None:
        return None, "the classes have different variables"
    if samples.n_variables > max_variables:
        return None, f"{samples.n_variables:,} variables are more than the {max_variables} up to which fit tests them"
    for name, size in zip(samples.class_names, samples.sizes.tolist(), strict=True):
        if size < SAMPLES_BY_VARIABLE * samples.n_variables:
            return None, f"class {name!r} has {count(size, 'sample')} for {samples.n_variables:,} variables"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jgl.InferenceWarning)
            warnings.simplefilter("error", DependentSamplesWarning)
            used = "nonparanormal" if association == "pearson" else association
            return jgl.infer(samples, association=used, missing=missing), ""
    except DependentSamplesWarning:
        return None, "consecutive samples are alike, and tests take samples as independent"
    except InputError as error:
        return None, str(error).rstrip(".")
