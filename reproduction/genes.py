"""The figure of gene networks: two classes side by side."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso.networks import JointNetworks
from jointglasso.plots import plot_networks
from jointglasso.solution import Solution
from reproduction.drawing import crown
from reproduction.real_data import SETTINGS, load_real_data, solve_setting
from reproduction.result import Result, Row, Settings, judged

CLAIM = (
    "under setting 1 (lambda1=0.1, lambda2=0.5) the networks of the classes have very similar topology, because "
    "lambda2 is large; the number of edges falls as lambda1 goes to 0.5."
)
SHOWN = 100


def figure_genes(settings: Settings) -> Result:
    """Draw the first hundred variables of the first and last class at all settings, and compare these."""
    data = load_real_data(settings)
    if data.source.n_classes < 2:
        raise ValueError(
            "The figure compares two classes, and the data have one: give --label, or a second --data file."
        )
    rows: list[Row] = []
    figures: dict[str, Any] = {}
    for number in range(len(SETTINGS)):
        solution, _ = solve_setting(settings, number)
        if solution is not None:
            rows.append(_row(solution, number))
            figures["" if number == 0 else f"-setting{number + 1}"] = _figure(solution, number)
    if "" not in figures:
        raise MemoryError("Setting 1 does not fit into memory on this machine: give fewer genes with --genes.")
    return _result(rows, figures, [f"Data: {data.origin}.", data.scale])


def _figure(solution: Solution, number: int) -> Any:
    """Networks of the first variables of the first and the last class, the paper's classes one and three."""
    pair, n_shown = (0, len(solution.class_names) - 1), min(SHOWN, len(solution.variable_names))
    # Restricted before it is drawn: `plot_networks` thins out the edges of the whole network first.
    networks = JointNetworks(
        [solution.precision[k][:n_shown, :n_shown] for k in pair],
        [solution.class_names[k] for k in pair],
        solution.variable_names[:n_shown],
    )
    figure = plot_networks(networks, pairs="all")
    crown(figure, f"Networks of the first {n_shown} variables of two classes, setting {number + 1}", CLAIM)
    return figure


def _result(rows: list[Row], figures: dict[str, Any], notes: list[str]) -> Result:
    similar = [row["similarity"] for row in rows]
    edges = [row["edges"] for row in rows]
    falls = [after < before for before, after in itertools.pairwise(edges)]
    checks = [similar[0] == max(similar), all(falls)]
    rises = [
        f"from setting {rows[n]['setting']} to {rows[n + 1]['setting']}" for n, fell in enumerate(falls) if not fell
    ]
    monotone = "it falls at every step" if not rises else f"it does not fall {', '.join(rises)}, where lambda2 falls"
    verdict = (
        f"at setting 1 the classes share {100 * similar[0]:.0f} % of the edges that any two of them have, at setting "
        f"{rows[-1]['setting']} {100 * similar[-1]:.0f} %; the number of edges over all classes goes "
        f"{' → '.join(f'{count:,}' for count in edges)} as lambda1 grows: {monotone}."
    )
    return Result(CLAIM, verdict, judged(sum(checks), len(checks)), rows, figures, notes)


def _row(solution: Solution, number: int) -> Row:
    return {
        "setting": number + 1,
        "lambda1": SETTINGS[number][0],
        "lambda2": SETTINGS[number][1],
        "edges": sum(solution.n_edges),
        "edges by class": " / ".join(map(str, solution.n_edges)),
        "similarity": mean_similarity(solution.precision),
        "relative gap": solution.certificate.relative_gap,
        "converged": bool(solution.status),
    }


def mean_similarity(precision: list[Any]) -> float:
    """Mean over pairs of classes of the edges in both divided by those in either (1 where there is no edge at all)."""
    patterns = [sparse.triu(Theta != 0, 1).tocsr() for Theta in precision]
    found = []
    for a in range(len(patterns)):
        for b in range(a):
            both, either = patterns[a].multiply(patterns[b]).sum(), (patterns[a] + patterns[b] > 0).sum()
            found.append(both / either if either else 1.0)
    return float(np.mean(found))
