"""Comparisons of the classes: edges in common, differences of partial correlations, clusters of equal values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, compress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jointglasso._typing import FloatArray, IntArray
from jointglasso.data.checks import InputError, InputTypeError

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks
    from jointglasso.solution import EdgeClusters


#: Kinds of change of the estimates from the first class to the second, indexed by code.
CHANGES = ("size", "only first", "only second", "opposite signs")

#: Columns of a table of tests; required are the classes, the variables and `p_value`.
_TESTED = ("variable1", "variable2", "class1", "class2", "estimated_difference", "low", "high", "p_value", "q_value")

#: Codes of a pattern: absent edge, or variable absent from the class.
NO_EDGE, LACKS = -1, -2

#: Number of classes up to which a pattern names all; of more, runs are abbreviated as "first … last".
ALL_NAMED = 6


def overlaps(networks: JointNetworks) -> tuple[IntArray, IntArray, IntArray]:
    """Numbers (K, K) of common edges, of common edges with different signs, and of edges of the first class.

    Only pairs whose variables both classes have are counted.
    """
    edges = networks.edge_list
    joined = np.abs(edges.signs)
    common = np.rint(joined.T @ joined).astype(np.int64)
    # A pair with equal signs adds 1 to the product, one with different signs -1.
    flips = (common - np.rint(edges.signs.T @ edges.signs).astype(np.int64)) // 2
    return common, flips, np.rint(joined.T @ edges.has_pair).astype(np.int64)


def compare(networks: JointNetworks) -> pd.DataFrame:
    """Compare all pairs of classes by their estimated edges; `infer` tests differences.

    Returns
    -------
    pandas.DataFrame
        One row per pair of classes: `class1`, `class2`, the number of edges in both (`common`), in one of them
        (`only_first`, `only_second`), those of both with different signs (`sign_flips`), and the Jaccard index
        (`jaccard`), the ratio of common edges to edges in either, NaN when there are none. With a fused penalty
        also the number of common edges of equal value (`same`), of edges in either of different value
        (`different`), and of the certified ones among these (`same_certified`, `different_certified`).
    """
    common, flips, size = overlaps(networks)
    union = size + size.T - common
    index = np.divide(common, union, out=np.full(common.shape, np.nan), where=union > 0)
    one, two = np.triu_indices(networks.n_classes, 1)
    names = np.array(networks.class_names, dtype=object)
    return pd.DataFrame(
        {
            "class1": names[one],
            "class2": names[two],
            "common": common[one, two],
            "only_first": (size - common)[one, two],
            "only_second": (size - common)[two, one],
            "sign_flips": flips[one, two],
            "jaccard": index[one, two],
            **same_counts(networks, one, two),
        }
    )


def class_pairs(networks: JointNetworks, class1: str | None, class2: str | None) -> list[tuple[int, int]]:
    """Indices of the two classes named, or of all pairs of classes."""
    if networks.n_classes < 2:
        raise InputError("Differences need two classes, and there is one.", "class1")
    if class1 is None and class2 is None:
        return list(combinations(range(networks.n_classes), 2))
    if class1 is None or class2 is None:
        raise InputError("Differences are between two classes: name both of them, or none for every two.", "class1")
    if str(class1) == str(class2):
        raise InputError(f"Differences are between two classes, but class1 and class2 are both {class1!r}.", "class1")
    return [(networks.class_index(class1), networks.class_index(class2))]


def values_by_class(networks: JointNetworks) -> FloatArray:
    """Partial correlations (pairs, K): 0 for absent edges, NaN where a class lacks a variable."""
    edges = networks.edge_list
    table = np.where(edges.has_pair, 0.0, np.nan)
    table[edges.pair, edges.class_index] = edges.partial_correlation
    return table


def differences(
    networks: JointNetworks, class1: str | None = None, class2: str | None = None, *, tested: Any = None
) -> pd.DataFrame:
    """Differences of the estimated partial correlations of two classes, largest first.

    A difference of estimates is not a significant difference: `tested` joins the tests of `infer`. Edges present
    in both classes are included: often the largest differences are among them.

    Parameters
    ----------
    class1, class2 : str, optional
        Classes to compare; all pairs by default.
    tested : Inference or DataFrame, optional
        Tests to join to the differences, from `infer`; rows are then sorted by p-value.

    Returns
    -------
    pandas.DataFrame
        One row for each two classes and pair of variables that differ: `class1`, `class2`, `variable1`,
        `variable2`, `partial_correlation1`, `partial_correlation2` (0 for absent edges), `difference` (first minus
        second), `change` of the estimates ("only first", "only second", "opposite signs" or "size") and `tested`,
        False for pairs without a test. With tests of `infer` also the desparsified `estimated_difference`, its
        interval `low`, `high`, `p_value` and `q_value`.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> one, two = [[2.0, -0.8], [-0.8, 2.0]], [[2.0, -0.2], [-0.2, 2.0]]
    >>> networks = jgl.JointNetworks([one, two], ["ill", "well"], ["a", "b"])
    >>> networks.differences()[["variable1", "variable2", "difference", "change"]]
      variable1 variable2  difference change
    0         a         b         0.3   size
    """
    return difference_table(networks, class_pairs(networks, class1, class2), tested).drop(columns="pair")


def difference_table(networks: JointNetworks, comparisons: list[tuple[int, int]], tested: Any) -> pd.DataFrame:
    """`differences` of the compared classes, with the number of each pair in the edge list as the column `pair`."""
    edges, values = networks.edge_list, values_by_class(networks)
    names, classes = (np.array(words, dtype=object) for words in (networks.variable_names, networks.class_names))
    one, two = np.array(comparisons).T
    gap = np.abs(values[:, one] - values[:, two])  # NaN where a class lacks the pair
    comparison, pair = np.nonzero(gap.T > 0)
    one, two = one[comparison], two[comparison]
    first, second = values[pair, one], values[pair, two]
    change = np.select([second == 0, first == 0, first * second < 0], [1, 2, 3], default=0)
    columns = {
        "pair": pair,
        "class1": classes[one],
        "class2": classes[two],
        "variable1": names[edges.first[edges.starts[pair]]],
        "variable2": names[edges.second[edges.starts[pair]]],
        "partial_correlation1": first,
        "partial_correlation2": second,
        "difference": first - second,
        "change": np.array(CHANGES, dtype=object)[change],
    }
    table = pd.DataFrame(columns).assign(tested=False)
    if tested is None:
        return table.sort_values("difference", key=lambda values: -values.abs(), kind="stable", ignore_index=True)
    table = table.merge(_tests(tested, networks), how="left", on=["class1", "class2", "variable1", "variable2"])
    table["tested"] = table["p_value"].notna()
    return table.sort_values("p_value", kind="stable", ignore_index=True)


def _tests(tested: Any, networks: JointNetworks) -> pd.DataFrame:
    """Columns class1, class2, variable1, variable2, p_value and, where the tests have them, interval and q_value.

    Every pair is listed in both orders of the classes and of its variables.
    """
    if len(set(networks.variable_names)) < networks.n_variables:
        raise InputError(
            "Tests are matched by the names of the variables, but some names come twice: rename these.", "tested"
        )
    try:
        table = tested if isinstance(tested, pd.DataFrame) else tested.differences()
    except AttributeError:
        problem = f"tested must be a result of infer or a data frame, not {type(tested).__name__}."
        raise InputTypeError(problem, "tested") from None
    out = table.rename(columns={"difference": "estimated_difference"})
    missing = [name for name in ("class1", "class2", "variable1", "variable2", "p_value") if name not in out]
    if missing:
        raise InputError(f"tested has no column {missing[0]!r}: give a result of infer.", "tested")
    out = out[[name for name in _TESTED if name in out]]
    swapped = out.rename(columns={"class1": "class2", "class2": "class1", "low": "high", "high": "low"})
    signed = list({"estimated_difference", "low", "high"} & set(out))
    swapped[signed] = -swapped[signed]
    both = pd.concat([out, swapped])
    turned = both.rename(columns={"variable1": "variable2", "variable2": "variable1"})
    return pd.concat([both, turned]).drop_duplicates(["class1", "class2", "variable1", "variable2"])


def steps(networks: JointNetworks) -> pd.DataFrame:
    """Changes between consecutive classes, for ordered classes such as points in time, stages or doses.

    Returns
    -------
    pandas.DataFrame
        One row per step: `before`, `after`; with a fused penalty the number of pairs whose value changes
        (`changed`) and of certified changes (`certified`); the number of edges that appear and vanish (`appeared`,
        `vanished`), and the sum of |differences| of the partial correlations (`size`).
    """
    if networks.n_classes < 2:
        raise InputError("Steps lead from one class to the next, and there is one.", "networks")
    values, names = values_by_class(networks), networks.class_names
    one, two = values[:, :-1], values[:, 1:]
    in_both = ~np.isnan(one) & ~np.isnan(two)
    columns: dict[str, Any] = {"before": names[:-1], "after": names[1:]}
    if networks.edge_clusters is not None:  # values equal on the penalised scale may differ as partial correlations
        compared = compared_pairs(networks)
        differ = (compared.clusters[:, :-1] != compared.clusters[:, 1:]) & in_both & ((one != 0) | (two != 0))
        certain = np.column_stack([compared.differ_for_certain(k, k + 1) for k in range(len(names) - 1)])
        columns |= {"changed": differ.sum(axis=0), "certified": (differ & certain).sum(axis=0)}
    columns["appeared"] = (in_both & (one == 0) & (two != 0)).sum(axis=0)
    columns["vanished"] = (in_both & (one != 0) & (two == 0)).sum(axis=0)
    return pd.DataFrame(columns | {"size": [np.nansum(step) for step in np.abs(one - two).T]})


def same_columns(networks: JointNetworks) -> dict[str, Any]:
    """Columns `same_in`, the classes of equal value, and `same_certified`; empty without a fused penalty."""
    if networks.edge_clusters is None:
        return {}
    edges, compared = networks.edge_list, compared_pairs(networks)
    entries, (_, is_known) = (edges.pair, edges.class_index), networks.edge_clusters.find(edges.first, edges.second)
    members = compared.clusters[edges.pair] == compared.clusters[entries][:, None]
    patterns, which = np.unique(members, axis=0, return_inverse=True)
    class_lists = np.array([", ".join(compress(networks.class_names, row)) for row in patterns], dtype=object)
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
    names = np.array(networks.variable_names, dtype=object)
    codes, words = pattern_words(networks)
    return pd.DataFrame(
        {
            "variable1": names[edges.first[edges.starts]],
            "variable2": names[edges.second[edges.starts]],
            "pattern": np.array(words, dtype=object)[codes],
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
