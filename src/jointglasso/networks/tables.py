"""Tables of networks: edges, degrees, partial correlations and centrality."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jointglasso._optional import require
from jointglasso._sparse import components_of
from jointglasso._typing import FloatArray, IntArray
from jointglasso._wording import aligned, count
from jointglasso.data.checks import InputError
from jointglasso.errors import warn_caller
from jointglasso.networks.communities import node_groups
from jointglasso.networks.comparisons import same_columns
from jointglasso.networks.edge_list import KINDS, partial_correlation_matrix

if TYPE_CHECKING:
    from jointglasso.networks.joint import JointNetworks


def edge_columns(networks: JointNetworks) -> dict[str, Any]:
    """Columns of the edge table, in order."""
    edges = networks.edge_list
    names = np.array(networks.variable_names, dtype=object)
    return {
        "variable1": names[edges.first],
        "variable2": names[edges.second],
        "class": np.array(networks.class_names, dtype=object)[edges.class_index],
        "precision": edges.precision,
        "partial_correlation": edges.partial_correlation,
        "kind": np.array(KINDS, dtype=object)[edges.kind],
        "stability": networks.edge_stability,
        "certified": networks.edge_certified,
        **same_columns(networks),
    }


def edges(networks: JointNetworks) -> pd.DataFrame:
    """List the edges.

    Returns
    -------
    pandas.DataFrame
        One row per pair of variables and class with a non-zero entry, sorted by pair and class. Columns
        `variable1`, `variable2`, `class`, `precision`, `partial_correlation`, `kind` ("shared", "partly shared",
        "specific"), `stability` (NaN where unknown) and `certified` (False where unknown). With a fused penalty also
        `same_in`, the classes in the cluster of equal value of the edge, and `same_certified`, whether that cluster is
        certified.
    """
    return pd.DataFrame(edge_columns(networks))


#: Maximum number of variables of a dense table.
_MAX_DENSE = 5000


def _by_variable(networks: JointNetworks, values: Any) -> pd.DataFrame:
    """Table of values (p, K), one row per variable, one column per class."""
    index = pd.Index(networks.variable_names, name="variable", dtype=object)
    return pd.DataFrame(values, index=index, columns=list(networks.class_names))


def degrees(networks: JointNetworks) -> pd.DataFrame:
    """Degrees of the variables: one row per variable, one column per class."""
    table = _by_variable(networks, networks.degree_table)
    return table if networks.absent is None else table.astype("Int64").mask(networks.absent.T)


def predictability(networks: JointNetworks) -> pd.DataFrame:
    """Share of the variance of each variable that its neighbours explain, ``1 - 1 / (theta_jj sigma_jj)``.

    Sigma is the inverse of the matrix whose edges are shown, so that a variable without edges has 0. One row per
    variable, one column per class; missing where a matrix is not positive definite.
    """
    table = _by_variable(networks, np.column_stack([explained_variance(Theta) for Theta in networks.precision]))
    return table if networks.absent is None else table.mask(networks.absent.T)


def explained_variance(Theta: Any) -> FloatArray:
    """(p,): ``1 - 1 / (theta_jj sigma_jj)`` with Sigma the inverse, computed by connected components.

    NaN in components that are not positive definite.
    """
    diagonal = Theta.diagonal()
    explained = np.zeros(len(diagonal))
    for component in components_of(Theta):
        require_dense("Predictability", len(component))
        block = Theta[component][:, component].toarray()
        try:
            root = np.linalg.inv(np.linalg.cholesky(block))
        except np.linalg.LinAlgError:
            explained[component] = np.nan
            continue
        explained[component] = 1.0 - 1.0 / (diagonal[component] * (root**2).sum(axis=0))
    return explained


def require_dense(what: str, n_variables: int) -> None:
    """Refuse dense matrices that are too big."""
    if n_variables > _MAX_DENSE:
        raise InputError(
            f"{what} of {n_variables:,} variables takes too much memory: take subnetwork(...) first, or edges().",
            "networks",
        )


def partial_correlations(networks: JointNetworks, class_name: str | None = None) -> Any:
    """Partial correlations as labelled tables.

    Parameters
    ----------
    class_name : str, optional
        Return the table of this class only.

    Returns
    -------
    dict of pandas.DataFrame by class, or one pandas.DataFrame
        Symmetric, 1 on the diagonal, 0 for absent edges, NaN where the class lacks a variable.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> networks = jgl.JointNetworks([[[2.0, -0.8], [-0.8, 2.0]]], ["all"], ["a", "b"])
    >>> networks.partial_correlations("all")
         a    b
    a  1.0  0.4
    b  0.4  1.0
    """
    require_dense("A table of partial correlations", networks.n_variables)
    frames = {}
    for name in networks.class_names if class_name is None else [str(class_name)]:
        k = networks.class_index(name)
        values = partial_correlation_matrix(networks.precision[k]).toarray()
        np.fill_diagonal(values, 1.0)
        if networks.absent is not None:
            values[networks.absent[k]] = values[:, networks.absent[k]] = np.nan
        frames[name] = pd.DataFrame(values, index=networks.variable_names, columns=networks.variable_names)
    return frames if class_name is None else frames[str(class_name)]


def summary_rows(networks: JointNetworks) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of the summary table, one row per class."""
    edges = networks.edge_list
    header: tuple[str, ...] = ("class", "edges", "only here", "joined variables", "strongest edge")
    rows: list[tuple[str, ...]] = []
    for k, name in enumerate(networks.class_names):
        in_class = np.flatnonzero(edges.class_index == k)
        only = int((edges.classes_of_pair[edges.pair[in_class]] == 1).sum())
        strongest = "–"
        if len(in_class):
            top = in_class[np.abs(edges.partial_correlation[in_class]).argmax()]
            ends = f"{networks.variable_names[edges.first[top]]} – {networks.variable_names[edges.second[top]]}"
            strongest = f"{ends} {edges.partial_correlation[top]:+.2f}"
        joined = int((networks.degree_table[:, k] > 0).sum())
        rows.append((name, f"{len(in_class):,}", f"{only:,}", f"{joined:,}", strongest))
    return header, rows


def summary(networks: JointNetworks) -> str:
    """Summary of the networks as text."""
    head = f"Networks of {networks.n_variables:,} variables in {count(networks.n_classes, 'class')}"
    if networks.n_classes > 1:
        shared = networks.edge_list.pairs_by_kind["shared"]
        head += f"; {networks.edge_list.n_pairs:,} pairs joined, {shared:,} of them in all classes"
    return "\n".join([head, *aligned(*summary_rows(networks))])


def neighbours(networks: JointNetworks, variable: str | int, class_name: str | None = None) -> pd.DataFrame:
    """List the edges of one variable.

    Parameters
    ----------
    variable : str or int
        Name, or index where the name is not unique.
    class_name : str, optional
        Restrict to one class.

    Returns
    -------
    pandas.DataFrame
        Column `variable` with the neighbour, and the columns of `edges` from `class` on.
    """
    edges, index = networks.edge_list, networks.position(variable)
    mask = (edges.first == index) | (edges.second == index)
    if class_name is not None:
        mask &= edges.class_index == networks.class_index(class_name)
    rows = np.flatnonzero(mask)
    other = edges.first[rows] + edges.second[rows] - index
    order = np.lexsort((edges.class_index[rows], other))
    table = networks.edges().iloc[rows[order]].drop(columns=["variable1", "variable2"]).reset_index(drop=True)
    table.insert(0, "variable", np.array(networks.variable_names, dtype=object)[other[order]])
    return table


def centrality(networks: JointNetworks, groups: Any = None) -> pd.DataFrame:
    """Centrality of each variable in each class.

    Parameters
    ----------
    groups : dict, Series, sequence or "communities", optional
        Group of each variable (symptoms of two disorders, pathways), for the bridge centralities of Jones, Ma and
        McNally (2021).

    Returns
    -------
    pandas.DataFrame
        One row per variable and class: `variable`, `class`, `degree` (number of neighbours), `strength` (sum of
        |partial correlation|), `expected_influence` (sum of the partial correlations with their signs) and
        `betweenness` (fraction of the shortest paths between other variables through the variable, with edge
        lengths 1 / |partial correlation|; NaN, with a warning, unless igraph is installed). With `groups` also
        `bridge_strength` and `bridge_expected_influence`, the sums over the neighbours in other groups; NaN for
        variables of no group.

    Examples
    --------
    >>> import numpy as np, jointglasso as jgl
    >>> chain = np.array([[2.0, -0.8, 0.0], [-0.8, 2.0, 0.4], [0.0, 0.4, 2.0]])
    >>> jgl.JointNetworks([chain], ["all"], ["a", "b", "c"]).centrality()
      variable class  degree  strength  expected_influence  betweenness
    0        a   all       1       0.4                 0.4          0.0
    1        b   all       2       0.6                 0.2          1.0
    2        c   all       1       0.2                -0.2          0.0
    """
    p, K = networks.n_variables, networks.n_classes
    edges, grouping = networks.edge_list, node_groups(networks, groups)
    first, second, value = edges.first, edges.second, edges.partial_correlation

    def sums(of_edge: FloatArray) -> FloatArray:
        return edges.node_sums(p, of_edge).ravel().astype(np.float64)

    classes = [edges.class_index == k for k in range(K)]
    if len(first) and p > 2 and find_spec("igraph") is None:
        warn_caller("The betweenness is NaN: it needs the package igraph (pip install 'jointglasso[networks]').")
    between = [betweenness(p, first[mask], second[mask], 1.0 / np.abs(value[mask])) for mask in classes]
    table = pd.DataFrame(
        {
            "variable": np.repeat(np.array(networks.variable_names, dtype=object), K),
            "class": np.tile(np.array(networks.class_names, dtype=object), p),
            "degree": networks.degree_table.ravel(),
            "strength": sums(np.abs(value)),
            "expected_influence": sums(value),
            "betweenness": np.column_stack(between).ravel(),
        }
    )
    if grouping is not None:
        one, other = grouping.of[first], grouping.of[second]
        across, without_group = np.where((one != other) & (one >= 0) & (other >= 0), value, 0.0), grouping.of < 0
        table["bridge_strength"] = np.where(np.repeat(without_group, K), np.nan, sums(np.abs(across)))
        table["bridge_expected_influence"] = np.where(np.repeat(without_group, K), np.nan, sums(across))
    return table if networks.absent is None else table[~networks.absent.T.ravel()].reset_index(drop=True)


def betweenness(p: int, first: IntArray, second: IntArray, length: FloatArray) -> FloatArray:
    """Fraction (p,) of the shortest paths between two other variables that pass through each; NaN without igraph.

    `first`, `second` and `length` (m,) are the ends and the lengths of the edges.
    """
    if len(first) == 0 or p < 3:
        return np.zeros(p)
    if find_spec("igraph") is None:
        return np.full(p, np.nan)
    graph = require("igraph", "networks").Graph(n=p, edges=np.column_stack([first, second]).tolist())
    return np.array(graph.betweenness(weights=length.tolist())) * (2.0 / ((p - 1) * (p - 2)))
