"""Networks of several classes as one object."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso._display import html_of
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data.checks import InputError, check_count
from jointglasso.data.naming import distinct_class_names, names_of_all
from jointglasso.networks import attributes, tables
from jointglasso.networks.checks import (
    NameIndex,
    check_absent,
    check_edge_matrices,
    check_precision,
)
from jointglasso.networks.clusters import pattern_table
from jointglasso.networks.communities import find_communities
from jointglasso.networks.differences import class_pairs, difference_table, steps_table
from jointglasso.networks.edge_list import KINDS, EdgeList, each, edge_list, lookup, restricted, without
from jointglasso.networks.export import export
from jointglasso.networks.tables import centrality_table

if TYPE_CHECKING:
    import pandas as pd

    from jointglasso.solution import EdgeClusters, Solution


class JointNetworks:
    """Networks of K classes over the same variables; edges are the non-zero off-diagonal precisions.

    Parameters
    ----------
    precision : sequence of K matrices (p, p)
        Symmetric precision matrices, sparse or dense, with exact zeros.
    class_names : sequence of K str
        Unique names of the classes.
    variable_names : sequence of p str
        Names of the variables. Duplicates, such as gene symbols, are allowed and addressed by index.
    certified : sequence of K boolean sparse matrices, optional
        Entries certified to be non-zero in the exact solution.
    stability : sequence of K sparse matrices, optional
        Selection frequency of each edge, between 0 and 1.
    edge_clusters : EdgeClusters, optional
        Clusters of classes with equal edge values, of a solution with a fused penalty.
    absent : bool array (K, p), optional
        Variables absent from a class. Their table cells are missing, not zero.

    Notes
    -----
    An edge is *shared* when it is in all classes, *partly shared* in at least two, *specific* in one of several. It
    is *differential* when it is not in all classes or changes its sign between them. Classes that lack one of the
    variables are ignored.
    """

    def __init__(
        self,
        precision: Sequence[Any],
        class_names: Sequence[str],
        variable_names: Sequence[str],
        *,
        certified: Sequence[Any] | None = None,
        stability: Sequence[Any] | None = None,
        edge_clusters: EdgeClusters | None = None,
        absent: BoolArray | None = None,
    ) -> None:
        self._precision = check_precision(precision)
        self.class_names = tuple(distinct_class_names(class_names, self.n_classes))
        # Names of variables may be duplicated, as gene symbols are.
        self.variable_names = tuple(names_of_all("variable_names", variable_names, self.n_variables, "variables"))
        self._certified = check_edge_matrices("certified", certified, self.n_classes, self.n_variables)
        self._stability = check_edge_matrices("stability", stability, self.n_classes, self.n_variables)
        self.edge_clusters = edge_clusters
        self.absent = check_absent(absent, self.n_classes, self.n_variables)

    @classmethod
    def from_solution(cls, solution: Solution, *, stability: Sequence[Any] | None = None) -> JointNetworks:
        """Networks of a solution, with its certified edges.

        Parameters
        ----------
        solution : Solution
            Result of `jointglasso.solve`, or ``select(...).solution``. Values are the relaxed estimates on
            the support where the solution has them (`Solution.refit`), else the penalised ones.
        stability : sequence of K sparse matrices, optional
            Selection frequencies.
        """
        return cls(
            solution.estimate,
            solution.class_names,
            solution.variable_names,
            certified=solution.certified,
            stability=stability,
            edge_clusters=solution.edge_clusters,
            absent=solution.absent,
        )

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self._precision)

    @property
    def n_variables(self) -> int:
        """Number of variables p."""
        return int(self._precision[0].shape[0])

    @property
    def precision(self) -> list[Any]:
        """Precision matrices, one csc_array per class."""
        return list(self._precision)

    @property
    def n_edges(self) -> list[int]:
        """Number of edges of each class."""
        return np.bincount(self.edge_list.class_index, minlength=self.n_classes).tolist()

    @property
    def has_stability(self) -> bool:
        """Whether selection frequencies are known."""
        return self._stability is not None

    @property
    def has_certified(self) -> bool:
        """Whether it is known which edges are certified."""
        return self._certified is not None

    @cached_property
    def edge_list(self) -> EdgeList:
        """Edges as arrays of indices and values."""
        return edge_list(self._precision, self.absent)

    @cached_property
    def edge_stability(self) -> FloatArray:
        """Selection frequency of each entry of `edge_list`, NaN where unknown."""
        if self._stability is None:
            return np.full(len(self.edge_list), np.nan)
        return lookup(self._stability, self.edge_list)

    @cached_property
    def edge_certified(self) -> BoolArray:
        """Whether each entry of `edge_list` is certified to be non-zero."""
        if self._certified is None:
            return np.zeros(len(self.edge_list), dtype=bool)
        return lookup(self._certified, self.edge_list) > 0

    @cached_property
    def degree_table(self) -> IntArray:
        """Degrees as an array (p, K)."""
        edges = self.edge_list
        ends = np.concatenate([edges.first, edges.second])
        flat = ends * self.n_classes + np.tile(edges.class_index, 2)
        return np.bincount(flat, minlength=self.n_variables * self.n_classes).reshape(self.n_variables, self.n_classes)

    @cached_property
    def _index(self) -> NameIndex:
        return NameIndex(self.variable_names)

    def position(self, variable: str | int) -> int:
        """Index of a variable given by name, or by index where names are duplicated."""
        return self._index.position(variable)

    def positions(self, variables: Iterable[str | int]) -> IntArray:
        """Indices of several distinct variables, in the order given."""
        return self._index.positions(variables)

    def class_index(self, class_name: str) -> int:
        """Index of a class given by name."""
        if str(class_name) not in self.class_names:
            known = ", ".join(map(repr, self.class_names))
            raise InputError(
                f"There is no class {class_name!r}; the classes are {known}.", "class_name", class_name=str(class_name)
            )
        return self.class_names.index(str(class_name))

    def edges(self) -> pd.DataFrame:
        """List the edges.

        Returns
        -------
        pandas.DataFrame
            One row per pair of variables and class with a non-zero entry, sorted by pair and class. Columns
            `variable1`, `variable2`, `class`, `precision`, `partial_correlation`, `kind` ("shared", "partly shared",
            "specific"), `differential`, `stability` (NaN where unknown) and `certified` (False where unknown). With a
            fused penalty also `same_in`, the classes in the cluster of equal value of the edge, and `same_certified`,
            whether that cluster is certified.
        """
        import pandas as pd

        return pd.DataFrame(tables.edge_columns(self))

    def partial_correlations(self, class_name: str | None = None) -> Any:
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
        return tables.partial_correlation_tables(self, class_name)

    def degrees(self) -> pd.DataFrame:
        """Degrees of the variables: one row per variable, one column per class."""
        return tables.degree_frame(self)

    def predictability(self) -> pd.DataFrame:
        """Share of the variance of each variable that its neighbours explain, ``1 - 1 / (theta_jj sigma_jj)``.

        Sigma is the inverse of the matrix whose edges are shown, so that a variable without edges has 0. One row per
        variable, one column per class; missing where a matrix is not positive definite.
        """
        return tables.predictability_frame(self)

    def hubs(self, n: int = 10, class_name: str | None = None) -> pd.DataFrame:
        """Variables with most edges, over all classes or in one: `n` rows of `degrees`, in decreasing order.

        Variables without an edge are not listed.
        """
        order = self.hub_positions(n, class_name)
        return self.degrees().iloc[order]

    def hub_positions(self, n: int = 10, class_name: str | None = None) -> IntArray:
        """Indices of the variables with most edges, in decreasing order; ties in the order of the variables."""
        table = self.degree_table if class_name is None else self.degree_table[:, [self.class_index(class_name)]]
        count = table.sum(axis=1)
        order = np.argsort(-count, kind="stable")[: check_count("n", n, 0)]
        return order[count[order] > 0]

    def centrality(self) -> pd.DataFrame:
        """Centrality of each variable in each class.

        Returns
        -------
        pandas.DataFrame
            One row per variable and class: `variable`, `class`, `degree` (number of neighbours), `strength` (sum of
            |partial correlation|), `expected_influence` (sum of the partial correlations with their signs) and
            `betweenness` (fraction of the shortest paths between other variables through the variable, with edge
            lengths 1 / |partial correlation|).

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
        return centrality_table(self)

    def communities(self, resolution: float = 1.0) -> pd.Series:
        """Detect communities of variables by modularity.

        Parameters
        ----------
        resolution : float, default 1
            The larger, the more and smaller the communities.

        Returns
        -------
        pandas.Series
            Label of the community of each variable, 1 for the largest; 0 for variables without an edge.

        Notes
        -----
        Modularity of the graph weighted by sums of |partial correlation| over the classes, maximised by the Leiden
        method where igraph is installed, else by the Louvain method of networkx; the result is deterministic.
        """
        import pandas as pd

        index = pd.Index(self.variable_names, name="variable", dtype=object)
        return pd.Series(find_communities(self, resolution), index=index, name="community")

    def neighbours(self, variable: str | int, class_name: str | None = None) -> pd.DataFrame:
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
        index = self.position(variable)
        edges = self.edge_list
        mask = (edges.first == index) | (edges.second == index)
        if class_name is not None:
            mask &= edges.class_index == self.class_index(class_name)
        return tables.neighbour_table(self, index, np.flatnonzero(mask))

    def subnetwork(self, variables: Iterable[str | int]) -> JointNetworks:
        """Induced subnetwork of variables, by name or index in the order given.

        The precisions are unchanged: an edge means dependence conditional on all variables of the original network.
        """
        keep = self.positions(variables)
        return JointNetworks(
            [restricted(Theta, keep) for Theta in self._precision],
            self.class_names,
            [self.variable_names[i] for i in keep],
            certified=each(self._certified, keep),
            stability=each(self._stability, keep),
            edge_clusters=None if self.edge_clusters is None else self.edge_clusters.restricted_to(keep),
            absent=None if self.absent is None else self.absent[:, keep],
        )

    def strongest(self, n_pairs: int) -> JointNetworks:
        """Networks of the `n_pairs` pairs with the largest maximum absolute partial correlation over the classes."""
        edges = self.edge_list
        n_selected = check_count("n_pairs", n_pairs, 0)
        mask = np.zeros(edges.n_pairs, dtype=bool)
        mask[np.argsort(-edges.strength_of_pair, kind="stable")[:n_selected]] = True
        removed = ~mask[edges.pair]
        return JointNetworks(
            [without(Theta, edges, removed & (edges.class_index == k)) for k, Theta in enumerate(self._precision)],
            self.class_names,
            self.variable_names,
            certified=self._certified,
            stability=self._stability,
            edge_clusters=self.edge_clusters,
            absent=self.absent,
        )

    def compare(self) -> pd.DataFrame:
        """Compare all pairs of classes.

        Returns
        -------
        pandas.DataFrame
            One row per pair of classes: `class1`, `class2`, the number of edges in both (`common`), in one of them
            (`only_first`, `only_second`), those of both with different signs (`sign_flips`), and the Jaccard index
            (`jaccard`), the ratio of common edges to edges in either, NaN when there are none. With a fused penalty
            also the number of common edges of equal value (`same`), of edges in either of different value
            (`different`), and of the certified ones among these (`same_certified`, `different_certified`).
        """
        return tables.comparison(self)

    def patterns(self) -> pd.DataFrame:
        """Patterns of equal values across the classes, for solutions with a fused penalty.

        Returns
        -------
        pandas.DataFrame
            One row for each pair of variables that is an edge in some class: `variable1`, `variable2`, `pattern` (the
            clusters of classes of equal value separated by bars, such as "A, B | C | no edge: D", or "all classes"),
            `changes`, `certified` (whether the change, or its absence, is certified) and `strength`, the maximum
            absolute partial correlation.
        """
        return pattern_table(self)

    def steps(self) -> pd.DataFrame:
        """Changes between consecutive classes, for ordered classes such as points in time, stages or doses.

        Returns
        -------
        pandas.DataFrame
            One row per step: `before`, `after`; with a fused penalty the number of pairs whose value changes
            (`changed`) and of certified changes (`certified`); the number of edges that appear and vanish (`appeared`,
            `vanished`), and the sum of |differences| of the partial correlations (`size`).
        """
        return steps_table(self)

    def jaccard(self) -> pd.DataFrame:
        """Jaccard index of the edge sets of all pairs of classes, as a symmetric table."""
        return tables.jaccard_table(self)

    def differences(self, class1: str | None = None, class2: str | None = None, *, tested: Any = None) -> pd.DataFrame:
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
        return difference_table(self, class_pairs(self, class1, class2), tested)

    def sign_flips(self) -> pd.DataFrame:
        """Edges of pairs whose partial correlation is positive in one class and negative in another."""
        edges = self.edge_list
        return self.edges()[edges.sign_differs[edges.pair]].reset_index(drop=True)

    def to_networkx(self, class_name: str | None = None, *, multigraph: bool = False) -> Any:
        """Convert to networkx graphs.

        Nodes are the names of the variables, or their indices where names are duplicated; `name` and `position` are
        node attributes, and isolated variables are included. Edges have the columns of `edges` as attributes, and
        `weight`, the absolute partial correlation, which the algorithms of networkx use.

        Parameters
        ----------
        class_name : str, optional
            Return the graph of this class only.
        multigraph : bool, default False
            Return one MultiGraph of all classes, with the class as key of each edge.

        Returns
        -------
        dict of networkx.Graph by class, networkx.Graph when `class_name` is given, or networkx.MultiGraph
        """
        return attributes.graphs(self, class_name, multigraph, attributes.as_networkx)

    def to_igraph(self, class_name: str | None = None, *, multigraph: bool = False) -> Any:
        """Convert to igraph graphs, with the parameters and edge attributes of `to_networkx`, vertices by index.

        Returns
        -------
        dict of igraph.Graph by class, or one igraph.Graph
        """
        return attributes.graphs(self, class_name, multigraph, attributes.as_igraph)

    def export(self, path: str | os.PathLike[str], format: str | None = None, *, class_name: str | None = None) -> Path:
        """Write the networks to a file atomically.

        Parameters
        ----------
        path : str or path
            File to write; an existing one is replaced when the new one is complete.
        format : {"graphml", "cx2", "csv", "parquet"}, optional
            By default the suffix of `path`. "cx2" is the exchange format of Cytoscape, with the coordinates of the
            variables; it and GraphML (written by networkx) include isolated variables. "csv" and "parquet" hold the
            table of `edges`, followed by the indices of both variables.
        class_name : str, optional
            Write this class only. Otherwise a pair of variables has one edge for each class that has it, identified by
            the edge attribute `class`.

        Returns
        -------
        pathlib.Path
            The file written.
        """
        return export(self, path, format, class_name)

    def __str__(self) -> str:
        return tables.summary(self)

    def _repr_html_(self) -> str:
        return html_of(self)

    def __repr__(self) -> str:
        kinds = np.bincount(self.edge_list.kind_of_pair, minlength=len(KINDS))
        counted = ", ".join(f"{count} {name}" for name, count in zip(KINDS, kinds, strict=True))
        edges = ", ".join(f"{name}: {count}" for name, count in zip(self.class_names, self.n_edges, strict=True))
        return f"JointNetworks({self.n_variables} variables; edges by class {{{edges}}}; pairs {counted})"
