"""Sections of the report on inference: tests of edges and differences, bootstrap of centralities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from jointglasso._wording import count
from jointglasso.inference import Inference, NetworkBootstrap
from jointglasso.inference.result import SE_WORDS
from jointglasso.networks import JointNetworks
from jointglasso.report.cards import Card, heat_charts

#: Maximum number of rows of a table.
MAX_ROWS = 200

#: Maximum number of pairs in the chart of intervals, and of points in a volcano plot, smallest p-values first.
MAX_INTERVALS, MAX_POINTS = 25, 2_000

#: Maximum number of volcano plots, and of q-value matrices.
MAX_CHARTS = 6

#: False discovery rate of the edges and differences listed, unless one is given.
RATE = 0.1


def significance_facts(result: Inference, networks: JointNetworks, fdr: float) -> Card:
    """Section on the parameters of the tests."""
    counts = zip(result.class_names, networks.n_edges, strict=True)
    sizes = ", ".join(f"{name}: {size:g}" for name, size in zip(result.class_names, result.sizes, strict=True))
    named = {
        "Values": ("desparsified estimates", "Not shrunken by a penalty."),
        "Edges": (f"significant at a false discovery rate of {fdr:g}", "Benjamini and Hochberg, by class."),
        **{f"Edges in {name}": (f"{number:,}", "") for name, number in counts},
        "Variables": (f"{networks.n_variables:,}", ""),
        "Samples used": (sizes, "Less the covariates regressed out." if result.covariates else ""),
        "Association": (result.association, ""),
        "Missing values": (result.missing, ""),
        "Standard errors": (result.se, SE_WORDS[result.se].capitalize() + "."),
    }
    if result.covariates:
        named["Covariates"] = (", ".join(result.covariates), "Regressed out within classes.")
    rows = [{"term": term, "value": value, "note": note} for term, (value, note) in named.items()]
    return {"id": "parameters", "title": "Parameters", "rows": rows}


def inference_cards(result: Inference | None, fdr: float = RATE) -> list[Card]:
    """Sections with the edges and differences significant at a false discovery rate, with intervals."""
    if result is None:
        return []
    edges = result.edges(fdr=fdr)
    paragraphs = [result.method(fdr), *result.notes, _counted(edges, "edge", "", "edges.csv", fdr)]
    cards: list[Card] = [
        {
            "id": "inference",
            "title": "Edges with intervals",
            "paragraphs": paragraphs,
            "charts": [*_forest(result, fdr), *_matrices(result, fdr)],
            "table": _cells(edges),
        }
    ]
    if result.n_classes > 1:
        differences = result.differences(fdr=fdr)
        summary = [_counted(differences, "difference", " between two classes", "differences.csv", fdr)]
        cards.append(
            {
                "id": "tests",
                "title": "Differences with intervals",
                "paragraphs": summary,
                "charts": _volcanoes(result, fdr),
                "table": _cells(differences),
            }
        )
    return cards


def bootstrap_cards(bootstrap: NetworkBootstrap | None) -> list[Card]:
    """Section with the centrality of the variables and percentile bootstrap intervals."""
    if bootstrap is None or not bootstrap.common.any():
        return []
    table = bootstrap.centrality()
    mean = table.groupby("variable", sort=False).strength.mean().sort_values(ascending=False, kind="stable")
    numbers = table.set_index(["class", "variable"])[["strength", "low", "high"]].round(4)
    pairs = [
        {"name": name, "values": [[*numbers.loc[(k, name)].tolist(), True] for k in bootstrap.class_names]}
        for name in mean[mean > 0].index[:MAX_INTERVALS]
    ]
    label = "sum of the absolute partial correlations over the common pairs of a variable, 95 % bootstrap interval"
    return [
        {
            "id": "bootstrap",
            "title": "Centrality with intervals",
            "paragraphs": [
                f"{bootstrap.n_resamples:,} bootstrap resamples; rank is the mean over them, 1 being the most central "
                "variable of its class. Sums are over the same pairs in every class, those with a significant pooled "
                "effect, and corrected for bias.",
                *_strength_differences(bootstrap),
            ],
            "charts": [{"kind": "forest", "classes": list(bootstrap.class_names), "words": label, "pairs": pairs}],
            "table": _cells(table[table.strength > 0]),
        }
    ]


def _strength_differences(bootstrap: NetworkBootstrap) -> list[str]:
    if len(bootstrap.class_names) < 2:
        return []
    n = int((bootstrap.centrality_differences().q_value <= RATE).sum())
    return [f"Differences of strength between two classes, significant at a false discovery rate of {RATE:g}: {n:,}."]


def pair_tests(result: Inference | None, networks: JointNetworks) -> dict[str, Any] | None:
    """P- and q-values of the heterogeneity test (equality across all classes) for the pairs of the networks.

    With two classes also the desparsified `difference` and its interval, `low` and `high`. Under `significant` the
    numbers of significant differences of all pairs, by class and class, and their false discovery rate.
    """
    if result is None or result.n_classes < 2:
        return None
    if tuple(networks.variable_names) != result.variable_names:
        return None
    p_values, q_values = result.heterogeneity_values
    columns = {"p": p_values, "q": q_values}
    if result.n_classes == 2:
        columns |= dict(zip(("difference", "low", "high"), result.difference_intervals(0, 1), strict=True))
    edges, p = networks.edge_list, networks.n_variables
    wanted = edges.first[edges.starts] * p + edges.second[edges.starts]
    known = result.estimates.rows * p + result.estimates.columns
    position = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    is_tested = known[position] == wanted if len(known) else np.zeros(len(wanted), dtype=bool)
    values_of_pairs = {
        name: [float(values[index]) if tested else None for index, tested in zip(position, is_tested, strict=True)]
        for name, values in columns.items()
    }
    return values_of_pairs | {"significant": {"rate": RATE, "counts": _significant_counts(result)}}


def _significant_counts(result: Inference) -> list[list[int]]:
    """(K, K): numbers of differences that are significant at `RATE`."""
    place = {name: k for k, name in enumerate(result.class_names)}
    counts = np.zeros((result.n_classes, result.n_classes), dtype=np.int64)
    table = result.differences(fdr=RATE)
    ends = table["class1"].map(place).to_numpy(int), table["class2"].map(place).to_numpy(int)
    np.add.at(counts, ends, 1)
    return (counts + counts.T).tolist()


def _forest(result: Inference, fdr: float) -> list[dict[str, Any]]:
    """Intervals in every class of the pairs that are significant in at least one."""
    leading = result.leading(fdr, MAX_INTERVALS)
    if len(leading) == 0:
        return []
    numbers = np.stack([values[leading] for values in result.intervals()], axis=-1).round(4)
    edge = result.q_values[leading] <= fdr
    ends = result.estimates.rows[leading], result.estimates.columns[leading]
    pairs = [
        {
            "name": f"{result.variable_names[i]} \u2013 {result.variable_names[j]}",
            "values": [[*numbers[n, k].tolist(), bool(edge[n, k])] for k in range(result.n_classes)],
        }
        for n, (i, j) in enumerate(zip(*ends, strict=True))
    ]
    label = "partial correlation, 95 % interval; filled: significant at the false discovery rate"
    return [{"kind": "forest", "classes": list(result.class_names), "words": label, "pairs": pairs}]


def _matrices(result: Inference, fdr: float) -> list[dict[str, Any]]:
    """Matrices of q-values of the significant edges, one for each class, for the variables with the smallest."""
    edge = result.q_values <= fdr
    order = np.argsort(np.where(edge, result.q_values, np.inf).min(axis=1), kind="stable")
    place, k = np.nonzero(edge[order])
    pair, names = order[place], np.array(result.variable_names, dtype=object)
    columns = {
        "class": np.array(result.class_names, dtype=object)[k],
        "variable1": names[result.estimates.rows[pair]],
        "variable2": names[result.estimates.columns[pair]],
        "value": [float(f"{value:.2g}") for value in result.q_values[pair, k]],
        "positive": result.estimates.z[pair, k] > 0,
    }
    return heat_charts(pd.DataFrame(columns), result.variable_names, result.class_names[:MAX_CHARTS])


def _volcanoes(result: Inference, fdr: float) -> list[dict[str, Any]]:
    """Volcano plots for the pairs of classes with significant differences, most differences first."""
    charts: list[dict[str, Any]] = []
    for (first, second), part in result.differences().groupby(["class1", "class2"], sort=False):
        significant = part.q_value <= fdr
        if not significant.any():
            continue
        shown = part.head(max(MAX_POINTS, int(significant.sum())))
        ends = zip(shown.variable1, shown.variable2, significant, strict=False)
        names = [f"{a} \u2013 {b}" if yes else None for a, b, yes in ends]
        height = -np.log10(np.maximum(shown.p_value, 1e-300))
        places = zip(shown.difference.round(4).tolist(), height.round(3).tolist(), strict=True)
        points = [[*place, name] for place, name in zip(places, names, strict=True)]
        charts.append({"kind": "volcano", "label": f"{first} \u2212 {second}", "points": points})
    return sorted(charts, key=lambda chart: -sum(point[2] is not None for point in chart["points"]))[:MAX_CHARTS]


def _counted(table: pd.DataFrame, noun: str, which: str, file: str, fdr: float) -> str:
    shown = f", of which the first {MAX_ROWS} are shown; jointglasso infer writes all to {file}"
    return (
        f"{count(len(table), noun)}{which} {'is' if len(table) == 1 else 'are'} significant at a false discovery rate "
        f"of {fdr:g}{shown if len(table) > MAX_ROWS else ''}. Intervals are pointwise, at level 95 %."
    )


def _cells(table: pd.DataFrame) -> dict[str, Any]:
    rows = [
        [value if isinstance(value, str) else f"{value:.3g}" for value in row]
        for row in table.head(MAX_ROWS).itertuples(index=False)
    ]
    return {"columns": list(table), "rows": rows}
