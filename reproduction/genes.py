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
from reproduction.result import Holds, Result, Row, Settings, judged

CLAIM = (
    "under setting 1 (lambda1=0.1, lambda2=0.5) the networks of the classes have very similar topology, because "
    "lambda2 is large; the number of edges falls as lambda1 goes to 0.5."
)
SHOWN = 100

#: Shared edges, of those in either class, from which two networks count as very similar.
VERY_SIMILAR = 0.5

SIMILARITY_NOTE = (
    "Similarity: edges in both classes divided by edges in either, in the mean over pairs of classes; 1 where there is "
    "no edge at all. Drawn are the first hundred variables of the first and the last class."
)


def figure_genes(settings: Settings) -> Result:
    """Draw the first hundred variables of the first and last class at all settings, and compare these."""
    rows, networks = measure_genes(settings)
    if not rows or rows[0]["setting"] != 1:
        raise MemoryError("Setting 1 does not fit into memory on this machine: give fewer genes with --genes.")
    return genes_result(rows, networks, settings)


def measure_genes(settings: Settings) -> tuple[list[Row], list[JointNetworks]]:
    """A row and the networks to draw for each setting that fits into memory."""
    if load_real_data(settings).source.n_classes < 2:
        raise ValueError(
            "The figure compares two classes, and the data have one: give --label, or a second --data file."
        )
    solved = [(number, solve_setting(settings, number)[0]) for number in range(len(SETTINGS))]
    networks = [shown_networks(solution) for _, solution in solved if solution is not None]
    rows = [_row(solution, number) for number, solution in solved if solution is not None]
    return [{**row, **_shown_edges(shown)} for row, shown in zip(rows, networks, strict=True)], networks


def shown_networks(solution: Solution) -> JointNetworks:
    """Networks of the first variables of the first and the last class, the paper's classes one and three."""
    pair, n_shown = (0, len(solution.class_names) - 1), min(SHOWN, len(solution.variable_names))
    # Restricted before it is drawn: `plot_networks` thins out the edges of the whole network first.
    return JointNetworks(
        [solution.precision[k][:n_shown, :n_shown] for k in pair],
        [solution.class_names[k] for k in pair],
        solution.variable_names[:n_shown],
    )


def _shown_edges(networks: JointNetworks) -> dict[str, object]:
    """Edges of each of the two networks that are drawn, and of both."""
    first, last = (sparse.triu(Theta != 0, 1) for Theta in networks.precision)
    return {
        "drawn: edges": f"{first.sum()} / {last.sum()}",
        "drawn: in both": int(first.multiply(last).sum()),
        "drawn: similarity": mean_similarity(networks.precision),
    }


def _figure(networks: JointNetworks, number: int) -> Any:
    figure = plot_networks(networks, pairs="all")
    title = f"Networks of the first {len(networks.variable_names)} variables of two classes, setting {number}"
    crown(figure, title, CLAIM)
    return figure


def genes_result(rows: list[Row], networks: list[JointNetworks], settings: Settings) -> Result:
    """Verdict on the similarity at setting 1 and on the numbers of edges, and one figure for each setting."""
    figures = {
        "" if row["setting"] == 1 else f"-setting{row['setting']}": _figure(shown, row["setting"])
        for row, shown in zip(rows, networks, strict=True)
    }
    data = load_real_data(settings)
    verdict, holds = _judge(rows)
    return Result(CLAIM, verdict, holds, rows, figures, [f"Data: {data.origin}.", data.scale, SIMILARITY_NOTE])


def _judge(rows: list[Row]) -> tuple[str, Holds]:
    similar, drawn = ([row[name] for row in rows] for name in ("similarity", "drawn: similarity"))
    edges = [row["edges"] for row in rows]
    falls = [after < before for before, after in itertools.pairwise(edges)]
    most = similar[0] == max(similar)
    checks = [most, min(similar[0], drawn[0]) >= VERY_SIMILAR, all(falls)]
    rises = [
        f"from setting {rows[n]['setting']} to {rows[n + 1]['setting']}" for n, fell in enumerate(falls) if not fell
    ]
    monotone = "it falls at every step" if not rises else f"it does not fall {', '.join(rises)}, where lambda2 falls"
    verdict = (
        f"at setting 1 the classes share {100 * similar[0]:.0f} % of the edges that any two of them have, "
        f"{'the most' if most else 'not the most'} of all settings ({_percent(similar)}); the two networks drawn share "
        f"{_percent(drawn)} ({', '.join(_drawn_in_words(row) for row in rows)} edges). "
        f"Very similar (at least {100 * VERY_SIMILAR:.0f} % in all variables and in those drawn): "
        f"{'yes' if checks[1] else 'no'}. The number of edges over all classes goes "
        f"{' → '.join(f'{count:,}' for count in edges)} as lambda1 grows: {monotone}. "
        f"Edges proved: {', '.join(format(row['edges proved'], ',') for row in rows)}."
    )
    return verdict, judged(sum(checks), len(checks))


def _drawn_in_words(row: Row) -> str:
    both = row["drawn: in both"]
    return f"{both} of {sum(map(int, row['drawn: edges'].split(' / '))) - both}"


def _percent(shares: list[float]) -> str:
    return ", ".join(f"{100 * share:.2g}" for share in shares) + " %"


def _row(solution: Solution, number: int) -> Row:
    return {
        "setting": number + 1,
        "lambda1": SETTINGS[number][0],
        "lambda2": SETTINGS[number][1],
        "edges": sum(solution.n_edges),
        "edges by class": " / ".join(map(str, solution.n_edges)),
        "similarity": mean_similarity(solution.precision),
        "relative gap": solution.certificate.relative_gap,
        "gap": solution.certificate.gap,
        "edges proved": solution.certificate.edges_present,
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
