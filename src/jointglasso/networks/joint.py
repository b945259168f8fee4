"""Networks of several classes as one object."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from jointglasso._cached_property import cached_property
from jointglasso._display import html_of
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data.checks import InputError, InputTypeError, check_count
from jointglasso.data.naming import distinct_class_names, names_of_all
from jointglasso.networks import comparisons, export as files, tables
from jointglasso.networks.communities import find_communities
from jointglasso.networks.edge_list import EdgeList, each, edge_list, lookup, values_at
from jointglasso.penalties.class_graph import complete_of
from jointglasso.penalties.common import CommonPenalty, shared_values
from jointglasso.solution import EdgeClusters, Solution

#: Errors of this module are about one argument.
wrong = partial(InputError, parameter="precision")


def check_precision(matrices: Any) -> list[Any]:
    """Return K sparse symmetric matrices of one size with positive diagonals and no stored zeros."""
    if isinstance(matrices, str) or not isinstance(matrices, Collection) or sparse.issparse(matrices):
        raise InputTypeError(
            f"precision must be a list with one matrix per class, not {type(matrices).__name__}.", "precision"
        )
    if len(matrices) == 0:
        raise wrong("precision is empty: give at least one matrix.")
    out: list[Any] = []
    for k, matrix in enumerate(matrices):
        Theta = sparse.csc_array(matrix, dtype=np.float64)
        if Theta.shape != (Theta.shape[0], Theta.shape[0]) or Theta.shape[0] == 0:
            raise wrong(f"The precision matrix {k} has shape {Theta.shape}: it must be square and not empty.")
        if out and Theta.shape != out[0].shape:
            raise wrong(
                f"The precision matrix {k} has shape {Theta.shape}, the first one {out[0].shape}: all classes must "
                "have the same variables."
            )
        _check_values(Theta, k)
        if (Theta.data == 0).any():
            Theta = Theta.copy()
            Theta.eliminate_zeros()
        out.append(Theta)
    return out


def _check_values(Theta: Any, k: int) -> None:
    if not np.isfinite(Theta.data).all():
        raise wrong(f"The precision matrix {k} holds NaN or infinite values: give a finite matrix.")
    diagonal = Theta.diagonal()
    if (diagonal <= 0).any():
        variable = int(np.flatnonzero(diagonal <= 0)[0])
        raise wrong(
            f"The precision matrix {k} has {diagonal[variable]:g} on the diagonal at variable {variable}: it must be "
            "positive, which correlations or adjacency matrices without a diagonal are not."
        )
    difference = abs(Theta - Theta.T)
    if difference.nnz and difference.max() > 1e-8 * diagonal.max():
        raise wrong(f"The precision matrix {k} is not symmetric: use (A + A.T) / 2 if only rounding is to blame.")


def check_edge_matrices(name: str, matrices: Any, n_classes: int, n_variables: int) -> list[Any] | None:
    """Return K sparse matrices (p, p) of edge attributes between 0 and 1, or None."""
    if matrices is None:
        return None
    sparse_matrices = [sparse.coo_array(matrix) for matrix in matrices]
    if [matrix.shape for matrix in sparse_matrices] != [(n_variables, n_variables)] * n_classes:
        raise InputError(
            f"{name} must hold {n_classes} matrices of shape {(n_variables, n_variables)}, one per class, "
            f"not {[matrix.shape for matrix in sparse_matrices]}.",
            name,
        )
    for k, matrix in enumerate(sparse_matrices):
        values = matrix.data.astype(np.float64)
        if len(values) and not (values.min() >= 0 and values.max() <= 1):
            raise InputError(f"{name} of class {k} must lie between 0 and 1.", name)
    return sparse_matrices


def check_absent(absent: Any, n_classes: int, n_variables: int) -> BoolArray | None:
    """Return the mask (K, p) of variables absent from each class, or None where none is absent."""
    if absent is None:
        return None
    mask = np.asarray(absent)
    if mask.dtype != bool or mask.shape != (n_classes, n_variables):
        raise InputError(
            f"absent must be a boolean array {(n_classes, n_variables)}, True where a class lacks a variable, not "
            f"{mask.dtype} of shape {mask.shape}.",
            "absent",
        )
    return mask if mask.any() else None


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
    An edge is *shared* when it is in all classes, *partly shared* in at least two, *specific* in one of several.
    Classes that lack one of the variables are ignored.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> one, two = [[2.0, -0.8], [-0.8, 2.0]], [[2.0, 0.0], [0.0, 2.0]]
    >>> jgl.JointNetworks([one, two], ["ill", "well"], ["a", "b"]).n_edges
    [1, 0]
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

    @classmethod
    def shared_and_specific(cls, solution: Solution) -> JointNetworks:
        """The network that all classes share, "shared", and that of each class alone, of penalty "common".

        Penalised values ``C_ij`` and ``Theta_k,ij - C_ij``; the diagonals are those of the classes, and their mean.

        Examples
        --------
        >>> import jointglasso as jgl
        >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.5], [0.5, 1.0]]]
        >>> jgl.JointNetworks.shared_and_specific(jgl.solve(S, 0.1, 0.1, penalty="common")).n_edges
        [1, 0, 0]
        """
        facts, names = solution.parameters, list(solution.class_names)
        if facts["penalty"] != CommonPenalty.name or solution.absent is not None:
            problem = 'Shared networks are of penalty="common" and of classes with the same variables.'
            raise InputError(problem, "solution")
        penalty = CommonPenalty(facts["lambda1"], facts["lambda2"], complete_of(len(names)))
        union = sparse.triu(sum(abs(Theta) for Theta in solution.precision), 1).tocoo()
        rows = np.column_stack([values_at(Theta.tocsr(), union.row, union.col) for Theta in solution.precision])
        shared = shared_values(rows, penalty)
        diagonals = [Theta.diagonal() for Theta in solution.precision]
        parts = [(shared, np.mean(diagonals, axis=0)), *zip((rows - shared[:, None]).T, diagonals, strict=True)]
        uppers = [sparse.coo_array((values, union.coords), shape=union.shape) for values, _ in parts]
        matrices = [
            upper + upper.T + sparse.diags_array(diagonal) for upper, (_, diagonal) in zip(uppers, parts, strict=True)
        ]
        return cls(matrices, ["shared", *names], solution.variable_names)

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
        return self.edge_list.node_sums(self.n_variables)

    @cached_property
    def _positions(self) -> dict[str, list[int]]:
        """Indices of the variables of each name."""
        positions: dict[str, list[int]] = {}
        for index, name in enumerate(self.variable_names):
            positions.setdefault(name, []).append(index)
        return positions

    def position(self, variable: str | int) -> int:
        """Index of a variable given by name, or by index where names are duplicated."""
        p, matches = self.n_variables, self._positions.get(str(variable), [])
        if isinstance(variable, int | np.integer) and not isinstance(variable, bool):
            if -p <= variable < p:
                return int(variable) % p
            problem = f"There is no variable number {variable}: positions go from 0 to {p - 1}."
        elif len(matches) == 1:
            return matches[0]
        elif matches:
            known = f"There are {len(matches)} variables named {variable!r}, at positions {matches}"
            problem = f"{known}: give the position instead."
        else:
            problem = f"There is no variable {variable!r}: see variable_names."
        raise InputError(problem, "variable", variable=str(variable))

    def positions(self, variables: Iterable[str | int]) -> IntArray:
        """Indices of several distinct variables, in the order given."""
        if isinstance(variables, str) or not isinstance(variables, Iterable):
            raise InputTypeError(f"variables must be a list of names or positions, not {variables!r}.", "variables")
        out = np.array([self.position(variable) for variable in variables], dtype=np.int64)
        if len(out) == 0:
            raise InputError("variables is empty: name at least one variable.", "variables")
        values, counts = np.unique(out, return_counts=True)
        if (counts > 1).any():
            raise InputError(f"variables names the variable at position {values[counts > 1][0]} twice.", "variables")
        return out

    def class_index(self, class_name: str) -> int:
        """Index of a class given by name."""
        if str(class_name) not in self.class_names:
            known = ", ".join(map(repr, self.class_names))
            raise InputError(
                f"There is no class {class_name!r}; the classes are {known}.", "class_name", class_name=str(class_name)
            )
        return self.class_names.index(str(class_name))

    # Tables, described where they are made

    centrality = tables.centrality
    compare = comparisons.compare
    degrees = tables.degrees
    differences = comparisons.differences
    edges = tables.edges
    export = files.export
    neighbours = tables.neighbours
    partial_correlations = tables.partial_correlations
    patterns = comparisons.patterns
    predictability = tables.predictability
    steps = comparisons.steps

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
        method of igraph; the result is deterministic.
        """
        index = pd.Index(self.variable_names, name="variable", dtype=object)
        return pd.Series(find_communities(self, resolution), index=index, name="community")

    def subnetwork(self, variables: Iterable[str | int]) -> JointNetworks:
        """Induced subnetwork of variables, by name or index in the order given.

        The precisions are unchanged: an edge means dependence conditional on all variables of the original network.
        """
        keep = self.positions(variables)
        return JointNetworks(
            each(self._precision, keep) or [],
            self.class_names,
            [self.variable_names[i] for i in keep],
            certified=each(self._certified, keep),
            stability=each(self._stability, keep),
            edge_clusters=None if self.edge_clusters is None else self.edge_clusters.restricted_to(keep),
            absent=None if self.absent is None else self.absent[:, keep],
        )

    def strongest(self, n_pairs: int) -> JointNetworks:
        """Networks of the `n_pairs` pairs with the largest maximum absolute partial correlation over the classes."""
        edges, p = self.edge_list, self.n_variables
        chosen = edges.starts[np.argsort(-edges.strength_of_pair, kind="stable")[: check_count("n_pairs", n_pairs, 0)]]
        upper = sparse.csc_array((np.ones(len(chosen)), (edges.first[chosen], edges.second[chosen])), shape=(p, p))
        mask = upper + upper.T + sparse.eye_array(p)
        return JointNetworks(
            [Theta.multiply(mask) for Theta in self._precision],
            self.class_names,
            self.variable_names,
            certified=self._certified,
            stability=self._stability,
            edge_clusters=self.edge_clusters,
            absent=self.absent,
        )

    def to_networkx(self, class_name: str | None = None) -> Any:
        """Convert to networkx graphs.

        Nodes are the names of the variables, or their indices where names are duplicated; `name` and `position` are
        node attributes, and isolated variables are included. Edges have the columns of `edges` as attributes, and
        `weight`, the absolute partial correlation, which the algorithms of networkx use.

        Parameters
        ----------
        class_name : str, optional
            Return the graph of this class only.

        Returns
        -------
        dict of networkx.Graph by class, or one networkx.Graph
        """
        return files.graphs(self, class_name, files.as_networkx)

    def to_igraph(self, class_name: str | None = None) -> Any:
        """Convert to igraph graphs, with the parameters and edge attributes of `to_networkx`, vertices by index.

        Returns
        -------
        dict of igraph.Graph by class, or one igraph.Graph
        """
        return files.graphs(self, class_name, files.as_igraph)

    __str__ = tables.summary

    def _repr_html_(self) -> str:
        return html_of(self)

    def __repr__(self) -> str:
        counted = ", ".join(f"{count} {name}" for name, count in self.edge_list.pairs_by_kind.items())
        edges = ", ".join(f"{name}: {count}" for name, count in zip(self.class_names, self.n_edges, strict=True))
        return f"JointNetworks({self.n_variables} variables; edges by class {{{edges}}}; pairs {counted})"
