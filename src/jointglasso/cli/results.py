"""Contents of a result folder: tables, figures, report, parameters."""

from __future__ import annotations

import io
import json
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jointglasso._display import table_text
from jointglasso._files import atomic_text, write_columns
from jointglasso.cli.folder import MARK, ResultFolder
from jointglasso.cli.session import Session, plain
from jointglasso.cli.summaries import RATE, edges_found, proof

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

    exports: Sequence[str] = ()
    """Formats beside CSV: "parquet" for the tables, "graphml" and "cx2" for the networks."""
    figures: bool = True
    title: str | None = None
    figure_format: str = "png"
    differences: str | None = None
    """Two class names separated by a comma, or "every two" for all pairs of classes."""
    over_time: bool = False
    """Whether the classes are windows in time."""
    groups: Any = "auto"
    """Groups of the variables, shown in colour, as in `write_report`."""

    def pairs(self, networks: JointNetworks) -> list[tuple[str, str]]:
        """Pairs of classes to compare."""
        return [] if self.differences is None else pairs_of_classes(self.differences, networks)


def write_result(folder: Path, result: Result, contents: Contents, session: Session) -> None:
    """Write all files of a result folder."""
    result.solution.save(folder / "solution.jgl")
    _write_tables(folder, result.networks, contents)
    if result.selection is not None:
        write_selection(folder, result.selection)
    if pairs := contents.pairs(result.networks):
        write_table(folder / "differences.csv", _difference_table(result, pairs))
    if contents.figures and can_draw(session):
        _write_figures(folder, result, contents, pairs)
    notes = result.data.describe().replace("\n", ": ")
    _write_report(folder, result, contents, notes)
    parameters = result.solution.parameters
    write_parameters(folder, session, result.data, solution=parameters, title=contents.title, notes=notes)
    write_explanation(folder, session, _explanation(result), _FILES)


def _write_tables(folder: Path, networks: JointNetworks, contents: Contents) -> None:
    endings = ["csv", "parquet"] if "parquet" in contents.exports else ["csv"]
    (folder / "classes").mkdir()
    for ending in endings:
        networks.export(folder / f"edges.{ending}")
        for name, file in file_names(networks.class_names).items():
            networks.export(folder / "classes" / f"{file}.{ending}", class_name=name)
    if networks.edge_clusters is not None:
        write_table(folder / "patterns.csv", networks.patterns())
    if contents.over_time:
        write_table(folder / "steps.csv", networks.steps())
    for format in set(contents.exports) - {"parquet"}:
        networks.export(folder / f"networks.{format}")


def file_names(class_names: Sequence[str]) -> dict[str, str]:
    """File names for the classes: safe characters only, and unique ignoring case."""
    chosen: dict[str, str] = {}
    for name in class_names:
        safe = re.sub(r"[^\w.+-]+", "_", name)[:80].strip("._") or "class"
        taken = {other.casefold() for other in chosen.values()}
        number = 2
        file = safe
        while file.casefold() in taken:
            file, number = f"{safe}_{number}", number + 1
        chosen[name] = file
    return chosen


def write_selection(folder: Path, selection: SelectionResult) -> None:
    """Write the grid with its scores, and the explanation of the choice."""
    write_table(folder / "selection.csv", selection.records)
    atomic_text(folder / "selection.txt", selection.explain() + "\n")


def write_table(path: Path, table: Any) -> None:
    """Write a data frame, or a mapping with columns of equal length, as CSV."""
    text = io.StringIO()
    write_columns(text, {str(name): plain(column) for name, column in table.items()})
    atomic_text(path, text.getvalue())


def write_explanation(folder: Path, session: Session, lines: Sequence[str], descriptions: Mapping[str, str]) -> None:
    """Write README.txt: a summary, descriptions (`descriptions`) of the files present, and the command."""
    files = [f"  {name:<24}{description}" for name, description in descriptions.items() if (folder / name).exists()]
    text = [*lines, "", "Files:", *files, "", f"Made by: {session.command_line}", ""]
    atomic_text(folder / "README.txt", "\n".join(text))


def _write_figures(folder: Path, result: Result, contents: Contents, pairs: Sequence[tuple[str, str]]) -> None:
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
        picture(folder / "figures" / f"{name}.{contents.figure_format}")
    _draw_differences(folder / "figures", result, pairs, contents.figure_format)


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


#: Files of a result folder and their descriptions, for README.txt.
_FILES = {
    "report.html": "interactive report, for any browser",
    "edges.csv": "all edges: the two variables, the class, precision, partial correlation, shared or specific, "
    "stability (empty if not computed), and whether the edge is certified (optimisation)",
    "edges.parquet": "the same for pandas, R arrow and others",
    "classes": "the same, a file for each class",
    "patterns.csv": "in which classes each edge has the same value, and whether equality or change is certified",
    "steps.csv": "how many edges change from each window to the next, and how many changes are certified",
    "differences.csv": "differences between the estimates of the classes, with interval, p-value and q-value of the "
    "desparsified difference; tested is False where there is no test",
    "networks.graphml": "for Gephi, Cytoscape, igraph, networkx",
    "networks.cx2": "for Cytoscape and NDEx, with positions and style",
    "figures": "networks (the strongest edges where there are many; the report shows all), degrees, centrality, "
    "matrices, convergence, stability and the choice of the penalties",
    "selection.csv": "the penalties tried, with scores and numbers of edges",
    "selection.txt": "why these penalties were chosen",
    "solution.jgl": "the solution, penalised and relaxed values; read it with jointglasso.load, or "
    "jointglasso report and jointglasso export",
    "parameters.json": "data, options and versions, for repeating the run",
}


def _explanation(result: Result) -> list[str]:
    solution = result.solution
    penalties = "lambda1 = {lambda1:.6g}, lambda2 = {lambda2:.6g}".format(**solution.parameters)
    chosen = "as given" if result.selection is None else f"chosen by {result.selection.criterion_name}"
    return [
        "Networks by the joint graphical lasso: an edge joins two variables in a class where they are conditionally",
        "dependent given all other variables.",
        "",
        result.data.describe(),
        f"Penalties {penalties}, {chosen}.",
        edges_found(result.networks),
        *filter(None, [significant_differences(result)]),
        *([] if solution.refit is None else [solution.refit.describe()]),
        proof(solution),
    ]


#: Maximum number of difference figures; of more pairs of classes those with the largest differences.
MAX_DRAWN = 6

#: Maximum number of differences printed.
MAX_PRINTED = 8


def pairs_of_classes(text: str, networks: JointNetworks) -> list[tuple[str, str]]:
    """All pairs of classes, or the pair named in `text`."""
    if networks.n_classes < 2:
        raise click.UsageError("--differences needs two classes, but the data have one: add --label.")
    if text == "every two":
        return list(combinations(networks.class_names, 2))
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2:
        raise click.UsageError(f"--differences {text!r} must name two classes with a comma between, or none.")
    for name in names:
        networks.class_index(name)
    return [(names[0], names[1])]


def _difference_table(result: Result, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Differences of one pair of classes or of all pairs, with their tests."""
    named = pairs[0] if len(pairs) == 1 else ()
    return result.networks.differences(*named, tested=result.inference)


def _draw_differences(folder: Path, result: Result, pairs: Sequence[tuple[str, str]], ending: str) -> None:
    """Draw a figure for each pair of classes, up to `MAX_DRAWN`."""
    from jointglasso.plots import plot_differences

    networks = result.networks
    files = file_names(networks.class_names)
    sizes = {pair: float((networks.differences(*pair)["difference"] ** 2).sum()) for pair in pairs}
    for one, two in sorted(sizes, key=lambda pair: -sizes[pair])[:MAX_DRAWN]:
        path = folder / f"{files[one]}_minus_{files[two]}.{ending}"
        plot_differences(networks, one, two, tested=result.inference, path=path)


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


def print_differences(session: Session, result: Result, pairs: Sequence[tuple[str, str]]) -> None:
    """Print the differences with the smallest p-values, or the largest where they are not tested."""
    table = _difference_table(result, pairs)
    tested = result.inference is not None
    which = "Those of" if tested else "The largest of"
    ending = " with the smallest p-values, as desparsified difference with 95 % interval" if tested else ", not tested"
    session.say(f"\n{which} {len(table):,} differences between the estimates{ending}; no edge counts as 0:")
    one, two = pairs[0] if len(pairs) == 1 else ("class1", "class2")
    columns = {"variable1": "variable", "variable2": "and variable"}
    columns |= {} if len(pairs) == 1 else {"class1": "class1", "class2": "class2"}
    columns |= {"partial_correlation1": f"in {one}", "partial_correlation2": f"in {two}"}
    columns |= {"estimated_difference" if tested else "difference": f"{one} minus {two}"}
    columns |= {"low": "from", "high": "to", "q_value": "q-value"} if tested else {}
    session.say(table_text(table[list(columns)].rename(columns=columns).head(MAX_PRINTED)))
    session.answer(differences=table.head(MAX_PRINTED).to_dict("records"))
