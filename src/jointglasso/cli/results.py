"""Contents of a result folder: tables, figures, report, parameters."""

from __future__ import annotations

import io
import json
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jointglasso._display import table_text
from jointglasso._files import atomic_text, write_columns
from jointglasso.cli.folder import MARK, ResultFolder
from jointglasso.cli.session import Session, plain
from jointglasso.cli.summaries import RATE

if TYPE_CHECKING:
    import pandas as pd

    from jointglasso import EdgeStability, Inference, JointNetworks, SelectionResult, Solution
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
    session.say(f"Written to {target.requested}.")
    session.answer(out=target.path)


@dataclass(frozen=True)
class Result:
    """Result of a fit: data, solution, networks, model selection and stability."""

    data: Data
    solution: Solution
    networks: JointNetworks
    selection: SelectionResult | None = None
    stability: EdgeStability | None = None
    inference: Inference | None = None
    """Tests of the differences between the classes."""
    not_tested: str = "jointglasso infer tests them"
    """Why the differences are not tested."""

    @property
    def interrupted(self) -> bool:
        """Whether the solve or the model selection was interrupted."""
        return self.solution.status.code == "interrupt" or (self.selection is not None and self.selection.interrupted)


@dataclass(frozen=True)
class Contents:
    """Optional contents of the result folder beside the tables."""

    figures: bool = True
    title: str | None = None
    differences: bool = False
    """Whether the differences between each two classes are listed and drawn."""
    over_time: bool = False
    """Whether the classes are windows in time."""
    groups: Any = "auto"
    """Groups of the variables, shown in colour, as in `write_report`."""


def write_result(folder: Path, result: Result, contents: Contents, session: Session) -> None:
    """Write all files of a result folder."""
    result.solution.save(folder / "solution.jgl")
    _write_tables(folder, result.networks, contents)
    if result.selection is not None:
        write_selection(folder, result.selection)
    if contents.differences:
        write_table(folder / "differences.csv", _difference_table(result))
    if contents.figures and can_draw(session):
        _write_figures(folder, result, contents)
    notes = result.data.describe().replace("\n", ": ")
    _write_report(folder, result, contents, notes)
    parameters = result.solution.parameters
    write_parameters(folder, session, result.data, solution=parameters, title=contents.title, notes=notes)


def _write_tables(folder: Path, networks: JointNetworks, contents: Contents) -> None:
    networks.export(folder / "edges.csv")
    if networks.edge_clusters is not None:
        write_table(folder / "patterns.csv", networks.patterns())
    if contents.over_time:
        write_table(folder / "steps.csv", networks.steps())


def write_selection(folder: Path, selection: SelectionResult) -> None:
    """Write the grid with its scores, and the explanation of the choice."""
    write_table(folder / "selection.csv", selection.records)
    atomic_text(folder / "selection.txt", selection.explain() + "\n")


def write_table(path: Path, table: Any) -> None:
    """Write a data frame, or a mapping with columns of equal length, as CSV."""
    text = io.StringIO()
    write_columns(text, {str(name): plain(column) for name, column in table.items()})
    atomic_text(path, text.getvalue())


def _write_figures(folder: Path, result: Result, contents: Contents) -> None:
    """Draw the figures for which the result has data."""
    from jointglasso import plots

    draw: dict[str, Callable[[Path], Any]] = {
        "networks": lambda path: plots.plot_networks(result.networks, groups=contents.groups, path=path),
        "degrees": lambda path: plots.plot_degrees(result.networks, path=path),
        "adjacency": lambda path: plots.plot_adjacency(result.networks, result.solution.partition, path=path),
        "centrality": lambda path: plots.plot_centrality(result.networks, path=path),
    }
    if len(result.solution.history) > 2:  # fewer points show no curve
        draw["convergence"] = lambda path: plots.plot_convergence(result.solution, path=path)
    if result.selection is not None:
        draw["selection"] = lambda path: plots.plot_selection(result.selection, path=path)
    if contents.over_time:
        draw["over_time"] = lambda path: plots.plot_over_time(result.networks, path=path)
    if result.networks.edge_clusters is not None:
        draw["edge_clusters"] = lambda path: plots.plot_edge_clusters(result.networks, path=path)
    if result.networks.has_stability:
        draw["stability"] = lambda path: plots.plot_stability(result.networks, path=path)
    (folder / "figures").mkdir()
    for name, picture in draw.items():
        picture(folder / "figures" / f"{name}.png")
    if contents.differences:
        _draw_differences(folder / "figures", result)


def can_draw(session: Session) -> bool:
    """Whether matplotlib is installed; if not, print how to install it."""
    if find_spec("matplotlib") is not None:
        return True
    session.note("Figures are left out: pip install 'jointglasso[plots,networks]' installs what they need.")
    return False


def _write_report(folder: Path, result: Result, contents: Contents, notes: str) -> None:
    import jointglasso as jgl

    prepared = {name: result.data.preparation.get(name) for name in ("association", "missing")}
    jgl.write_report(
        folder / "report.html",
        result.solution,
        networks=result.networks,
        selection=result.selection,
        stability=result.stability,
        groups=contents.groups,
        inference=result.inference,
        parameters=prepared | result.solution.parameters | {"sample_sizes": result.data.samples.sizes.tolist()},
        title=contents.title,
        notes=notes,
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
    from jointglasso.plots import plot_differences

    networks = result.networks
    table = networks.differences()
    sizes = (table["difference"] ** 2).groupby([table["class1"], table["class2"]], sort=False).sum()
    largest = sizes.sort_values(ascending=False, kind="stable").index[:MAX_DRAWN]
    for number, (one, two) in enumerate(largest, start=1):
        safe = re.sub(r"[^\w.+-]+", "_", f"difference_{number}_{one}_minus_{two}")[:160]
        plot_differences(networks, one, two, tested=result.inference, path=folder / f"{safe}.png")


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
    session.say(f"\n{which} {len(table):,} differences between the estimates{ending}; no edge counts as 0:")
    columns = ["variable1", "variable2", "class1", "class2", "partial_correlation1", "partial_correlation2"]
    columns += ["estimated_difference", "low", "high", "q_value"] if tested else ["difference"]
    session.say(table_text(table[columns].head(MAX_PRINTED)))
    session.answer(differences=table.head(MAX_PRINTED).to_dict("records"))
