"""Sections of the report: certificate, parameters, model selection, comparison of the classes, shared networks."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from jointglasso import __version__
from jointglasso._optional import version_of
from jointglasso._wording import count
from jointglasso.data.checks import InputTypeError
from jointglasso.networks import JointNetworks
from jointglasso.networks.comparisons import compared_pairs, pattern_words, summary_of_edge_clusters
from jointglasso.penalties.common import CommonPenalty
from jointglasso.selection import SelectionResult
from jointglasso.solution import Certificate, Solution

#: Section of the report: a title with rows of term, value and note, paragraphs, charts or a table.
Card = dict[str, Any]


#: Relative gap below which the rounding error of the objective dominates.
_ROUNDING = 1e-13

_SCREENING_WORDS = {
    "dynamic": "heuristic screening, with a KKT check of every screened-out entry",
    "hybrid": "hybrid covariance thresholding, Algorithm 1 of the paper",
    "global": "one partition for all classes",
    "class": "each class separately",
    "none": "no screening",
}

_PARAMETER_NOTES = {
    "lambda1": "Sparsity penalty on every entry: the larger, the fewer edges.",
    "lambda2": "Similarity penalty across the classes: the larger, the more similar the networks.",
    "weights": "Weight of each class in the objective.",
    "penalize_diagonal": "Whether the penalty lambda1 includes the diagonal.",
    "fuse_diagonal": "Whether the penalty lambda2 includes the diagonals.",
    "tol": "Duality gap, relative to the objective, at which a solve has converged.",
    "sample_sizes": "Samples of each class that were used.",
    "association": "Correlation that was estimated from the samples.",
    "missing": "Treatment of missing values.",
    "pair_weights": "Pairs of variables with an individual factor on the penalty.",
}


def verdict(solution: Solution) -> dict[str, Any]:
    """One line on convergence and certified edges."""
    gap = solution.certificate.relative_gap
    if solution.status.converged:
        distance = "rounding error" if gap < _ROUNDING else _plain(gap)
        certificate, n_edges = solution.certificate, sum(solution.n_edges)
        if not certificate.edges_undetermined:
            return {"good": True, "text": "Certified (optimisation): exactly the edges of the optimum"}
        edges = f"{certificate.edges_present:,} of {n_edges:,} edges certified"
        return {"good": True, "text": f"Certified optimal to {distance} (optimisation); {edges}"}
    return {"good": False, "text": "Not converged: see the certificate"}


def certificate_facts(solution: Solution, *, of_support: bool = False) -> Card:
    """Section on the certificate: convergence, duality gap, objective, certified entries.

    `of_support`: the solution is that of the support step of `infer`, not the networks shown.
    """
    certificate, status = solution.certificate, solution.status
    rows = [
        _row("Converged", "yes" if status.converged else "no", str(status)),
        _row(
            "Duality gap",
            f"{_plain(certificate.gap)} ({_plain(certificate.relative_gap)} of the objective)",
            "Upper bound on the difference between the objective and its minimum. It is computed for the complete "
            "problem, including all screened-out entries.",
        ),
        _row(
            "Objective",
            f"{certificate.objective:.10g}",
            f"The minimum lies between the dual bound {certificate.dual_objective:.10g} and this value.",
        ),
        *_certified_edges(certificate, sum(solution.n_edges)),
    ]
    title = "Certificate of optimality"
    if not of_support:
        return {"id": "proof", "title": title, "rows": rows}
    words = "Of the penalised model whose support the estimates start from (optimisation), not of the edges shown."
    return {"id": "proof", "title": f"{title} of the support step", "paragraphs": [words], "rows": rows}


def _certified_edges(certificate: Certificate, n_edges: int) -> list[dict[str, str]]:
    return [
        _row(
            "Edges certified",
            f"{certificate.edges_present:,} of {n_edges:,}",
            "Edges, counted over all classes, that are non-zero in the exact solution, too. The duality gap bounds the "
            "distance between each entry and its value in the exact solution, and an edge is certified when that bound "
            "excludes zero. Weak edges need a smaller gap.",
        ),
        _row(
            "Absent, certified",
            f"{certificate.edges_absent:,}",
            "Zero entries, counted over all classes, that are zero in the exact solution, too.",
        ),
        _row(
            "Undecided",
            f"{certificate.edges_undetermined:,}",
            "Entries that this gap cannot decide: weak edges, and zeros close to the threshold. A smaller tol, or "
            "jointglasso fit --prove, decides them."
            if certificate.edges_undetermined
            else "All entries are decided: the networks are those of the exact solution.",
        ),
        _row(
            "Not covered",
            "the data",
            "Certified refers to the optimisation, not to statistical significance. Stability selection and "
            "jointglasso infer assess the uncertainty due to sampling.",
        ),
    ]


def parameter_facts(
    solution: Solution, parameters: Mapping[str, Any] | None, selection: Any = None, n_edges: Sequence[int] = ()
) -> Card:
    """Section on the parameters, given by the user or else of the solution, and on the run.

    `n_edges` (K,) are the edges of the networks shown; those of the solution by default.
    """
    partition = solution.partition
    listed = solution.parameters if parameters is None else parameters
    values = {str(name): value for name, value in listed.items() if value is not None}
    if isinstance(selection, SelectionResult):
        chosen = {"lambda1": selection.lambda1, "lambda2": selection.lambda2}
        values = {name: value for name, value in chosen.items() if name not in values} | values
    rows = [
        *(
            _row(name, _by_class(value, solution), _PARAMETER_NOTES.get(name, ""))
            for name, value in values.items()
            if name != "pair_weights" or value
        ),
        _row("Values", *_values(solution)),
        _row("Variables", f"{len(solution.variable_names):,}"),
        *(
            _row(f"Edges in {name}", f"{count:,}")
            for name, count in zip(solution.class_names, n_edges or solution.n_edges, strict=True)
        ),
        _row("Screening", solution.screening, _SCREENING_WORDS.get(solution.screening, "")),
        _row(
            "Blocks",
            f"{partition.n_blocks:,}, the largest of {partition.largest:,} variables",
            "Independent blocks after screening, summed over the classes.",
        ),
        _row("Solver", solution.solver),
        _row("Iterations", f"{solution.n_iter:,}"),
        _row("Time", f"{solution.timings.get('total', sum(solution.timings.values())):.3g} s"),
    ]
    return {"id": "parameters", "title": "Parameters and run", "rows": rows}


def _values(solution: Solution) -> tuple[str, str]:
    """Kind of the edge values (penalised, relaxed or maximum likelihood), with an explanation."""
    if solution.refit is None:
        return "penalised", "Partial correlations are shrunk towards zero by the penalties."
    words = f"{solution.refit.describe()} The certificate refers to the penalised estimate, which selects the edges."
    is_relaxed = min(solution.refit.relaxation, default=1.0) < 1.0
    return "relaxed" if is_relaxed else "maximum likelihood", words


def _by_class(value: Any, solution: Solution) -> str:
    """Text of a value; a sequence with one number per class is listed by class, or once where all are equal."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != len(solution.class_names):
        return _show(value)
    shown = [_show(number) for number in value]
    if len(shown) > 1 and len(set(shown)) == 1:
        return f"{shown[0]} for every class"
    return ", ".join(f"{name}: {number}" for name, number in zip(solution.class_names, shown, strict=True))


def selection_facts(selection: Any) -> Card | None:
    """Section on model selection: its explanation, and a table of the evaluated grid points."""
    if selection is None:
        return None
    if not isinstance(selection, SelectionResult):
        raise InputTypeError(f"selection must be a result of select, not {type(selection).__name__}.", "selection")
    # Left out are the number of a column of the grid, and what follows from lambda1 and lambda2.
    frame = pd.DataFrame(selection.records).drop(columns=["column", "strength", "similarity"], errors="ignore")
    rows = [[_show(value) for value in row] for row in frame.itertuples(index=False)]
    table = {"columns": list(frame), "rows": rows, "best": selection.best}
    title = "Choice of the penalties"
    return {"id": "selection", "title": title, "paragraphs": selection.explain().splitlines(), "table": table}


def note_facts(notes: str | Sequence[str] | None) -> Card | None:
    """Section with the notes of the user, a paragraph each."""
    if not notes:
        return None
    paragraphs = [notes] if isinstance(notes, str) else list(notes)
    return {"id": "notes", "title": "Notes", "paragraphs": [str(paragraph) for paragraph in paragraphs]}


def footer() -> str:
    """Versions and date."""
    packages = ", ".join(f"{name} {version_of(name) or 'unknown'}" for name in ("numpy", "scipy", "numba"))
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"Made by jointglasso {__version__} on {made}. Python {platform.python_version()}, {packages}."


def _row(term: str, value: str, note: str = "") -> dict[str, str]:
    return {"term": term, "value": value, "note": note}


def _plain(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}"


def _show(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "–" if np.isnan(value) else f"{value:.6g}"
    return "–" if value is None else str(value)


#: Maximum number of patterns listed.
MAX_LISTED = 30


def edge_cluster_facts(networks: JointNetworks) -> dict[str, Any] | None:
    """Section on equal values across classes: patterns, their frequencies, and certified pairs."""
    if networks.edge_clusters is None:
        return None
    edge_clusters = compared_pairs(networks)
    codes, words = pattern_words(networks)
    counts = np.bincount(codes, minlength=len(words))
    certified = np.bincount(codes, edge_clusters.changes_proved, minlength=len(words)).astype(int)
    rows = [[words[k], f"{counts[k]:,}", f"{certified[k]:,}"] for k in range(min(len(words), MAX_LISTED))]
    paragraphs = [
        summary_of_edge_clusters(networks),
        "The table lists clusters of classes of equal value, separated by bars. Certified: the pair changes between "
        "neighbouring classes in the exact solution, or has one value in all of them; this is no test of significance.",
    ]
    if len(words) > MAX_LISTED:
        paragraphs.append(f"{len(words) - MAX_LISTED:,} rarer patterns are left out.")
    table = {"columns": ["pattern", "pairs", "certified (optimum)"], "rows": rows}
    return {"id": "edge_clusters", "title": "Equal values across classes", "paragraphs": paragraphs, "table": table}


def steps_facts(networks: JointNetworks, solution: Solution) -> dict[str, Any] | None:
    """Section on changes between consecutive classes, for penalties on ordered classes."""
    if networks.n_classes < 2 or solution.parameters.get("penalty") not in ("chain", "laplacian"):
        return None
    steps = networks.steps()
    rows = [[f"{cell:.3f}" if isinstance(cell, float) else f"{cell}" for cell in row] for row in steps.values.tolist()]
    words = {
        "changed": "pairs that change",
        "certified": "certified (optimum)",
        "appeared": "edges that appear",
        "vanished": "that vanish",
        "size": "sum of |differences|",
    }
    table = {"columns": [words.get(name, name) for name in steps.columns], "rows": rows}
    return {"id": "steps", "title": "From each class to the next", "table": table}


#: Maximum number of variables of a matrix.
MAX_MATRIX = 40


def heat_charts(edges: pd.DataFrame, variable_names: Sequence[str], labels: Sequence[str]) -> list[dict[str, Any]]:
    """Matrices of the edges of each class, of the variables that come first in a table, in their order.

    The table has the columns `class`, `variable1`, `variable2`, `value` and `positive`.
    """
    ends = edges[["variable1", "variable2"]].to_numpy().ravel().tolist()
    first = set(list(dict.fromkeys(ends))[:MAX_MATRIX])
    names = [name for name in variable_names if name in first]
    place = {name: number for number, name in enumerate(names)}
    cells: dict[str, list[list[Any]]] = {label: [] for label in labels}
    for label, one, two, *value in edges[["class", "variable1", "variable2", "value", "positive"]].to_numpy().tolist():
        if label in cells and one in place and two in place:
            cells[label].append([place[one], place[two], *value])
    return [{"kind": "heat", "label": label, "names": names, "cells": part} for label, part in cells.items() if part]


def substructure_card(solution: Solution) -> Card | None:
    """Numbers of edges, the strongest edges and a matrix of the shared and of each class-specific network."""
    if solution.parameters.get("penalty") != CommonPenalty.name or solution.absent is not None:
        return None
    parts = JointNetworks.shared_and_specific(solution)
    edges = parts.edges()
    edges = edges.reindex(edges["partial_correlation"].abs().sort_values(ascending=False, kind="stable").index)
    numbers = dict(zip(parts.class_names, parts.n_edges, strict=True))
    specific = [f"{name} {count(number, 'edge')}" for name, number in list(numbers.items())[1:]]
    paragraphs = [
        f"The shared network has {count(numbers['shared'], 'edge')}; of their own have {', '.join(specific)}.",
        "The off-diagonal part of each precision matrix is the sum of the shared one and that of the class: an edge of "
        "both is one whose value differs from the shared value. The networks of the page are these sums.",
    ]
    if len(edges) > MAX_LISTED:
        paragraphs.append(f"The table lists the {MAX_LISTED} strongest of {len(edges):,} edges.")
    listed = edges[["class", "variable1", "variable2", "partial_correlation"]].head(MAX_LISTED)
    rows = [[*names, f"{value:.3f}"] for *names, value in listed.itertuples(index=False)]
    values = edges.assign(value=edges["partial_correlation"].round(3), positive=edges["partial_correlation"] > 0.0)
    charts = heat_charts(values, parts.variable_names, parts.class_names)
    for chart in charts:
        chart["quantity"] = "partial correlation"
    return {
        "id": "substructure",
        "title": "Shared and class-specific networks",
        "paragraphs": paragraphs,
        "charts": charts,
        "table": {"columns": ["network", "variable 1", "variable 2", "partial correlation"], "rows": rows},
    }
