"""Clusters of classes with equal edge values, from a fused penalty, as tables and text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jointglasso._typing import IntArray
from jointglasso.data.checks import InputError
from jointglasso.networks.edge_list import as_objects

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks
    from jointglasso.solution import EdgeClusters

#: Codes of a pattern: absent edge, or variable absent from the class.
NO_EDGE, LACKS = -1, -2

#: Number of classes up to which a pattern names all; of more, runs are abbreviated as "first … last".
ALL_NAMED = 6


def same_columns(networks: JointNetworks) -> dict[str, Any]:
    """Columns `same_in`, the classes of equal value, and `same_certified`; empty without a fused penalty."""
    if networks.edge_clusters is None:
        return {}
    edges, compared = networks.edge_list, compared_pairs(networks)
    entries, (_, is_known) = (edges.pair, edges.class_index), networks.edge_clusters.find(edges.first, edges.second)
    members = compared.clusters[edges.pair] == compared.clusters[entries][:, None]
    patterns, which = np.unique(members, axis=0, return_inverse=True)
    class_lists = as_objects(tuple(", ".join(compress(networks.class_names, row)) for row in patterns))
    return {"same_in": class_lists[which.ravel()], "same_certified": compared.proved_clusters[entries] & is_known}


def same_counts(networks: JointNetworks, one: IntArray, two: IntArray) -> dict[str, Any]:
    """Numbers of edges equal in two classes, and different, and of the certified ones among both."""
    if networks.edge_clusters is None:
        return {}
    compared, edges = compared_pairs(networks), networks.edge_list
    counts: dict[str, list[int]] = {"same": [], "same_certified": [], "different": [], "different_certified": []}
    for k, other in zip(one.tolist(), two.tolist(), strict=True):
        any_edge = edges.has_pair[:, [k, other]].all(axis=1) & edges.signs[:, [k, other]].any(axis=1)
        alike = compared.clusters[:, k] == compared.clusters[:, other]
        differ = compared.differ_for_certain(k, other)
        masks = (alike, alike & compared.proved_clusters[:, k], ~alike, ~alike & differ)
        for column, mask in zip(counts.values(), masks, strict=True):
            column.append(int((mask & any_edge).sum()))
    return counts


def compared_pairs(networks: JointNetworks) -> EdgeClusters:
    """Clusters of equal values for the pairs of the edge list in order; unknown pairs are not certified."""
    edge_clusters, edges = networks.edge_clusters, networks.edge_list
    if edge_clusters is None:
        raise InputError(
            "These networks have no clusters of equal values: solve with penalty='fused', 'chain' or 'graph'.",
            "penalty",
        )
    return edge_clusters.lookup(edges.first[edges.starts], edges.second[edges.starts])


def patterns(networks: JointNetworks) -> pd.DataFrame:
    """Patterns of equal values across the classes, for solutions with a fused penalty.

    Returns
    -------
    pandas.DataFrame
        One row for each pair of variables that is an edge in some class: `variable1`, `variable2`, `pattern` (the
        clusters of classes of equal value separated by bars, such as "A, B | C | no edge: D", or "all classes"),
        `changes`, `certified` (whether the change, or its absence, is certified) and `strength`, the maximum
        absolute partial correlation.
    """
    edge_clusters, edges = compared_pairs(networks), networks.edge_list
    names = as_objects(networks.variable_names)
    codes, words = pattern_words(networks)
    return pd.DataFrame(
        {
            "variable1": names[edges.first[edges.starts]],
            "variable2": names[edges.second[edges.starts]],
            "pattern": as_objects(words)[codes],
            "changes": edge_clusters.changes,
            "certified": edge_clusters.changes_proved,
            "strength": edges.strength_of_pair,
        }
    )


def pattern_words(networks: JointNetworks) -> tuple[IntArray, tuple[str, ...]]:
    """Code of the pattern of each pair of the edge list, and the patterns as text, most frequent first.

    A pattern holds the cluster of each class, identified by its first class, `NO_EDGE`, or `LACKS` where a class lacks
    one of the variables; as text "A, B | C | no edge: D".
    """
    edge_clusters, edges = compared_pairs(networks), networks.edge_list
    label = np.where(edges.signs == 0, NO_EDGE, edge_clusters.clusters)
    label[~edges.has_pair] = LACKS
    patterns, code, count = np.unique(label, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-count, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[code.ravel()], tuple(_words(row, networks.class_names) for row in patterns[order])


def _words(pattern: IntArray, names: Sequence[str]) -> str:
    if (pattern == pattern[0]).all():
        return "all classes"
    parts = [_listed(np.flatnonzero(pattern == k), names) for k in np.unique(pattern[pattern >= 0])]
    for code, word in ((NO_EDGE, "no edge"), (LACKS, "not measured")):
        if (pattern == code).any():
            parts.append(f"{word}: {_listed(np.flatnonzero(pattern == code), names)}")
    return " | ".join(parts)


def _listed(classes: IntArray, names: Sequence[str]) -> str:
    """Names of classes; of many, runs are abbreviated by the first and the last."""
    if len(names) <= ALL_NAMED:
        return ", ".join(names[k] for k in classes)
    runs = np.split(classes, np.flatnonzero(np.diff(classes) > 1) + 1)
    return ", ".join(names[run[0]] if len(run) == 1 else f"{names[run[0]]} … {names[run[-1]]}" for run in runs)


def summary_of_edge_clusters(networks: JointNetworks) -> str:
    """Sentence on the numbers of pairs with equal values in all classes, and of pairs that change."""
    edge_clusters = compared_pairs(networks)
    if len(edge_clusters.rows) == 0:
        return "There is no edge to compare."
    stays, stays_certified, changes, changes_certified = (
        f"{int(mask.sum()):,}"
        for which in (~edge_clusters.changes, edge_clusters.changes)
        for mask in (which, which & edge_clusters.changes_proved)
    )
    text = (
        f"{stays} of {len(edge_clusters.rows):,} joined pairs have one value in all classes "
        f"({stays_certified} certified for the optimum), "
        f"{changes} change ({changes_certified} certified for the optimum)"
    )
    codes, words = pattern_words(networks)
    counts = np.bincount(codes, minlength=len(words))
    frequent = [f"{words[k]} ({counts[k]:,})" for k in range(len(words)) if words[k] != "all classes"][:3]
    return f"{text}; most often: {'; '.join(frequent)}." if frequent else f"{text}."
