"""Differences of partial correlations between pairs of classes, and between consecutive classes."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jointglasso._typing import FloatArray
from jointglasso.data.checks import InputError, InputTypeError
from jointglasso.networks.clusters import compared_pairs
from jointglasso.networks.edge_list import as_objects

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks


#: Kinds of change of the estimates from the first class to the second, indexed by code.
CHANGES = ("size", "only first", "only second", "opposite signs")

#: Columns of a table of tests; required are the classes, the variables and `p_value`.
_TESTED = ("variable1", "variable2", "class1", "class2", "estimated_difference", "low", "high", "p_value", "q_value")


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
    names, classes = as_objects(networks.variable_names), as_objects(networks.class_names)
    parts = []
    for one, two in comparisons:
        pair = np.flatnonzero(np.abs(values[:, one] - values[:, two]) > 0)  # not where a class lacks the pair: NaN
        first, second = values[pair, one], values[pair, two]
        change = np.select([second == 0, first == 0, first * second < 0], [1, 2, 3], default=0)
        columns = {
            "pair": pair,
            "class1": np.repeat(classes[[one]], len(pair)),
            "class2": np.repeat(classes[[two]], len(pair)),
            "variable1": names[edges.first[edges.starts[pair]]],
            "variable2": names[edges.second[edges.starts[pair]]],
            "partial_correlation1": first,
            "partial_correlation2": second,
            "difference": first - second,
            "change": as_objects(CHANGES)[change],
        }
        parts.append(pd.DataFrame(columns))
    table = pd.concat(parts, ignore_index=True).assign(tested=False)
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
    values = values_by_class(networks)
    compared = None if networks.edge_clusters is None else compared_pairs(networks)
    rows: list[dict[str, Any]] = []
    for k, (before, after) in enumerate(pairwise(networks.class_names)):
        one, two = values[:, k], values[:, k + 1]
        in_both = ~np.isnan(one) & ~np.isnan(two)
        rows.append({"before": before, "after": after})
        if compared is not None:  # values equal on the penalised scale may differ as partial correlations
            differ = (compared.clusters[:, k] != compared.clusters[:, k + 1]) & in_both & ((one != 0) | (two != 0))
            rows[-1] |= {"changed": differ.sum(), "certified": (differ & compared.differ_for_certain(k, k + 1)).sum()}
        appeared, vanished = in_both & (one == 0) & (two != 0), in_both & (one != 0) & (two == 0)
        rows[-1] |= {"appeared": appeared.sum(), "vanished": vanished.sum(), "size": np.nansum(np.abs(one - two))}
    return pd.DataFrame(rows)
