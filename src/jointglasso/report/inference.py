"""Tests of edges and of differences for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso.inference import Inference, NetworkBootstrap
from jointglasso.networks import JointNetworks
from jointglasso.report.wording import Card

if TYPE_CHECKING:
    import pandas as pd

#: Rows of a table that the page shows.
SHOWN = 200

#: Pairs of the chart of intervals, and points of a chart of differences, those with the smallest p-values.
DRAWN, POINTS = 25, 2_000

#: Charts of differences, and of q-values, and variables of the latter.
CHARTS, MATRIX = 6, 40

#: False discovery rate of what is listed.
RATE = 0.1


def inference_cards(found: Inference | None) -> list[Card]:
    """Edges and differences at a false discovery rate of 0.1, with intervals."""
    if found is None:
        return []
    edges = found.edges(fdr=RATE)
    paragraphs = [found.method(RATE), *found.notes, _counted(edges, "edges", "edges.csv")]
    cards: list[Card] = [
        {
            "id": "inference",
            "title": "Edges with intervals",
            "paragraphs": paragraphs,
            "charts": [*_forest(found), *_matrices(found)],
            "table": _cells(edges),
        }
    ]
    if found.n_classes > 1:
        differences = found.differences(fdr=RATE)
        words = [_counted(differences, "differences between two classes", "differences.csv")]
        cards.append(
            {
                "id": "tests",
                "title": "Differences with intervals",
                "paragraphs": words,
                "charts": _volcanoes(found),
                "table": _cells(differences),
            }
        )
    return cards


def bootstrap_cards(found: NetworkBootstrap | None) -> list[Card]:
    """Centrality of the variables, with percentile intervals."""
    if found is None or not found.edge.any():
        return []
    table = found.centrality()
    mean = table.groupby("variable", sort=False).strength.mean().sort_values(ascending=False, kind="stable")
    numbers = table.set_index(["class", "variable"])[["strength", "low", "high"]].round(4)
    pairs = [
        {"name": name, "values": [[*numbers.loc[(k, name)].tolist(), True] for k in found.class_names]}
        for name in mean[mean > 0].index[:DRAWN]
    ]
    words = "sum of the absolute partial correlations of a variable's edges, 95 % interval of the bootstrap"
    return [
        {
            "id": "bootstrap",
            "title": "Centrality with intervals",
            "paragraphs": [
                f"{found.n_resamples:,} resamples; rank is the mean over them, 1 being the most central variable of "
                "its class. Edges are those found in the data."
            ],
            "charts": [{"kind": "forest", "classes": list(found.class_names), "words": words, "pairs": pairs}],
            "table": _cells(table[table.strength > 0]),
        }
    ]


def pair_tests(found: Inference | None, networks: JointNetworks) -> dict[str, list[float | None]] | None:
    """P and q of the hypothesis that a pair is the same in all classes, for the pairs of the networks."""
    if found is None or found.n_classes < 2:
        return None
    if tuple(networks.variable_names) != found.variable_names:
        return None
    p_values, q_values = found.heterogeneity_values
    edges, p = networks.edge_list, networks.n_variables
    wanted = edges.first[edges.starts] * p + edges.second[edges.starts]
    known = found.estimates.rows * p + found.estimates.columns
    place = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    there = known[place] == wanted if len(known) else np.zeros(len(wanted), dtype=bool)
    return {
        name: [float(values[at]) if yes else None for at, yes in zip(place, there, strict=True)]
        for name, values in (("p", p_values), ("q", q_values))
    }


def _forest(found: Inference) -> list[dict[str, Any]]:
    """Intervals in every class of the pairs that are an edge in one."""
    leading = found.leading(RATE, DRAWN)
    if len(leading) == 0:
        return []
    numbers = np.stack([values[leading] for values in found.intervals()], axis=-1).round(4)
    edge = found.q_values[leading] <= RATE
    ends = found.estimates.rows[leading], found.estimates.columns[leading]
    pairs = [
        {
            "name": f"{found.variable_names[i]} \u2013 {found.variable_names[j]}",
            "values": [[*numbers[n, k].tolist(), bool(edge[n, k])] for k in range(found.n_classes)],
        }
        for n, (i, j) in enumerate(zip(*ends, strict=True))
    ]
    words = "partial correlation, 95 % interval; filled: found at the false discovery rate"
    return [{"kind": "forest", "classes": list(found.class_names), "words": words, "pairs": pairs}]


def _matrices(found: Inference) -> list[dict[str, Any]]:
    """Q-values of the edges found, a matrix for each class, of the variables with the smallest ones in any."""
    edge = found.q_values <= RATE
    order = np.argsort(np.where(edge, found.q_values, np.inf).min(axis=1), kind="stable")
    order = order[edge[order].any(axis=1)]
    ends = np.column_stack([found.estimates.rows[order], found.estimates.columns[order]])
    chosen = sorted(list(dict.fromkeys(ends.ravel().tolist()))[:MATRIX])
    place = {variable: n for n, variable in enumerate(chosen)}
    inside = [at for at, (i, j) in zip(order.tolist(), ends.tolist(), strict=True) if i in place and j in place]
    charts = []
    for k, name in enumerate(found.class_names[:CHARTS]):
        cells = [
            [
                place[int(found.estimates.rows[at])],
                place[int(found.estimates.columns[at])],
                float(f"{found.q_values[at, k]:.2g}"),
                bool(found.estimates.z[at, k] > 0),
            ]
            for at in inside
            if edge[at, k]
        ]
        if cells:
            names = [found.variable_names[variable] for variable in chosen]
            charts.append({"kind": "heat", "label": name, "names": names, "cells": cells})
    return charts


def _volcanoes(found: Inference) -> list[dict[str, Any]]:
    """Differences against their p-values, a chart for each two classes that differ, those that differ most first."""
    charts: list[dict[str, Any]] = []
    for (first, second), part in found.differences().groupby(["class1", "class2"], sort=False):
        hit = part.q_value <= RATE
        if not hit.any():
            continue
        shown = part.head(max(POINTS, int(hit.sum())))
        ends = zip(shown.variable1, shown.variable2, hit, strict=False)
        names = [f"{a} \u2013 {b}" if yes else None for a, b, yes in ends]
        height = -np.log10(np.maximum(shown.p_value, 1e-300))
        places = zip(shown.difference.round(4).tolist(), height.round(3).tolist(), strict=True)
        points = [[*place, name] for place, name in zip(places, names, strict=True)]
        charts.append({"kind": "volcano", "label": f"{first} \u2212 {second}", "points": points})
    return sorted(charts, key=lambda chart: -sum(point[2] is not None for point in chart["points"]))[:CHARTS]


def _counted(table: pd.DataFrame, what: str, file: str) -> str:
    more = (
        f", of which the first {SHOWN} are shown; jointglasso infer writes all to {file}" if len(table) > SHOWN else ""
    )
    return (
        f"{len(table):,} {what} at a false discovery rate of {RATE:g}{more}. Intervals are those of 95 %, each alone."
    )


def _cells(table: pd.DataFrame) -> dict[str, Any]:
    rows = [
        [value if isinstance(value, str) else f"{value:.3g}" for value in row]
        for row in table.head(SHOWN).itertuples(index=False)
    ]
    return {"columns": list(table), "rows": rows}
