"""In which classes an edge is the same and in which it is another: what a fused penalty found, as tables and words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso._optional import require
from jointglasso._typing import BoolArray, IntArray
from jointglasso.networks.edge_list import as_objects
from jointglasso.validation import InputError

if TYPE_CHECKING:
    import pandas as pd

    from jointglasso.networks.joint import JointNetworks
    from jointglasso.solution import Sameness

#: Codes of a pattern: the class has no edge, or it lacks one of the variables.
NO_EDGE, LACKS = -1, -2

#: Up to this many classes all are named in a pattern; of more, neighbours in a row become "first … last".
ALL_NAMED = 6


def same_columns(networks: JointNetworks) -> dict[str, Any]:
    """In which classes each edge has the same value, where a fused penalty compared them."""
    if networks.sameness is None:
        return {}
    members, proved = _cluster_members(networks)
    patterns, which = np.unique(members, axis=0, return_inverse=True)
    words = as_objects(tuple(", ".join(compress(networks.class_names, row)) for row in patterns))
    return {"same_in": words[which.ravel()], "same_certified": proved}


def _cluster_members(networks: JointNetworks) -> tuple[BoolArray, BoolArray]:
    """(edges, K): the classes that share the value of each edge, and whether that is proved of all of them."""
    edges, same = networks.edge_list, networks.sameness
    members = np.zeros((len(edges), networks.n_classes), dtype=bool)
    members[np.arange(len(edges)), edges.class_index] = True
    proved = np.zeros(len(edges), dtype=bool)
    if same is None or len(same.rows) == 0:
        return members, proved
    place, known = same.find(edges.first, edges.second)
    at, k = place[known], edges.class_index[known]
    members[known] = same.clusters[at] == same.clusters[at, k][:, None]
    proved[known] = same.proved_clusters[at, k]
    return members, proved


def same_counts(networks: JointNetworks, one: IntArray, two: IntArray) -> dict[str, Any]:
    """Number of edges that are the same in two classes, of those that differ, and of those where that is proved."""
    if networks.sameness is None:
        return {}
    same, edges = compared_pairs(networks), networks.edge_list
    label, sure, joined = same.clusters, same.proved_clusters, edges.signs != 0
    counts = np.zeros((4, len(one)), dtype=np.int64)
    for row, (k, other) in enumerate(zip(one.tolist(), two.tolist(), strict=True)):
        both = edges.has_pair[:, k] & edges.has_pair[:, other]
        alike, any_edge = label[:, k] == label[:, other], both & (joined[:, k] | joined[:, other])
        differ = ~alike & same.differ_for_certain(k, other)
        which = (alike, alike & sure[:, k], ~alike, differ)
        counts[:, row] = [(mask & any_edge).sum() for mask in which]
    return dict(zip(("same", "same_certified", "different", "different_certified"), counts, strict=True))


def compared_pairs(networks: JointNetworks) -> Sameness:
    """What is the same, for the pairs of the edge list in their order; not known of a pair is never proved."""
    same, edges = networks.sameness, networks.edge_list
    if same is None:
        raise InputError(
            "These networks do not tell which values are the same: solve with penalty='fused', 'chain' or 'graph'.",
            "penalty",
        )
    return same.at(edges.first[edges.starts], edges.second[edges.starts])


def pattern_table(networks: JointNetworks) -> pd.DataFrame:
    """Table of `JointNetworks.patterns`."""
    same, edges = compared_pairs(networks), networks.edge_list
    names = as_objects(networks.variable_names)
    codes, words = pattern_words(networks)
    return require("pandas", "networks").DataFrame(
        {
            "variable1": names[edges.first[edges.starts]],
            "variable2": names[edges.second[edges.starts]],
            "pattern": as_objects(words)[codes],
            "changes": same.changes,
            "certified": same.changes_proved,
            "strength": edges.strength_of_pair,
        }
    )


def pattern_codes(networks: JointNetworks) -> tuple[IntArray, IntArray]:
    """Number of the pattern of each pair of the edge list, and the patterns (n, K), most frequent first.

    A pattern holds the cluster of each class, named by its first class, `NO_EDGE`, or `LACKS` where a class lacks one
    of the variables.
    """
    same, edges = compared_pairs(networks), networks.edge_list
    label = np.where(edges.signs == 0, NO_EDGE, same.clusters)
    label[~edges.has_pair] = LACKS
    patterns, code, count = np.unique(label, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-count, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[code.ravel()], patterns[order]


def pattern_words(networks: JointNetworks) -> tuple[IntArray, tuple[str, ...]]:
    """Number of the pattern of each pair, and each pattern in words: "A, B | C | no edge: D"."""
    codes, patterns = pattern_codes(networks)
    return codes, tuple(_words(row, networks.class_names) for row in patterns)


def _words(pattern: IntArray, names: Sequence[str]) -> str:
    if (pattern == pattern[0]).all():
        return "all classes"
    parts = [_listed(np.flatnonzero(pattern == k), names) for k in np.unique(pattern[pattern >= 0])]
    for code, word in ((NO_EDGE, "no edge"), (LACKS, "not measured")):
        if (pattern == code).any():
            parts.append(f"{word}: {_listed(np.flatnonzero(pattern == code), names)}")
    return " | ".join(parts)


def _listed(classes: IntArray, names: Sequence[str]) -> str:
    """Names of classes; of many, those in a row by the first and the last."""
    if len(names) <= ALL_NAMED:
        return ", ".join(names[k] for k in classes)
    runs = np.split(classes, np.flatnonzero(np.diff(classes) > 1) + 1)
    return ", ".join(names[run[0]] if len(run) == 1 else f"{names[run[0]]} … {names[run[-1]]}" for run in runs)


def summary_of_sameness(networks: JointNetworks) -> str:
    """How many edges are one value throughout, and how many change, in a sentence or two."""
    same = compared_pairs(networks)
    if len(same.rows) == 0:
        return "There is no edge to compare."
    stays, stays_proved, changes, changes_proved = (
        f"{int(mask.sum()):,}"
        for which in (~same.changes, same.changes)
        for mask in (which, which & same.changes_proved)
    )
    text = (
        f"{stays} of {len(same.rows):,} joined pairs have one value in all classes ({stays_proved} proved), "
        f"{changes} change ({changes_proved} proved)"
    )
    codes, words = pattern_words(networks)
    counts = np.bincount(codes, minlength=len(words))
    most = [f"{words[k]} ({counts[k]:,})" for k in range(len(words)) if words[k] != "all classes"][:3]
    return f"{text}; most often: {'; '.join(most)}." if most else f"{text}."
