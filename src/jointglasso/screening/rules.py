"""The screening rules: K partitions from one scan of the pairs.

Algorithm 1 (`screening/hybrid.py`) merges a pair above lambda1 in a class as soon as its two variables are joined in
another class, because the entry *might* be non-zero; one merge can trigger many others. Dynamic screening starts from
the pairs outside the dual ball, each joined in the classes in which it is non-zero in the problem of its two variables.
After the groups are solved, the optimality conditions of the screened-out entries are checked (`engine/recheck.py`),
and only violations are merged. Algorithm 1 would make each of these merges too: the result is exact and never coarser
than the hybrid partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, IntArray
from jointglasso.data import as_source
from jointglasso.data.checks import InputError, check_choice
from jointglasso.penalties import PairPenalty
from jointglasso.problem import ProblemOptions
from jointglasso.screening.hybrid import Covariances, hybrid_by_class, hybrid_partition, weighted_covariances
from jointglasso.screening.pairs import PairTable, scan_pairs
from jointglasso.screening.partition import Partition, class_components

#: Values of the `rule` argument of `screen`.
RULES = ("class", "global", "hybrid", "dynamic", "none")


def screen(
    S: Any,
    lambda1: float,
    lambda2: float,
    *,
    rule: str = "hybrid",
    penalty: str = "group",
    class_graph: Any = None,
    weights: Any = None,
    pair_weights: Any = None,
    coupling_weights: Any = None,
) -> Partition:
    """Partition the variables of each class so that entries between blocks are zero in the solution.

    Parameters
    ----------
    S : array (K, p, p), sequence or dict of (p, p) arrays, or CovarianceSource
        Sample covariance matrices.
    lambda1, lambda2 : float
        Penalties, as in `jointglasso.solve`.
    rule : {"hybrid", "class", "global", "dynamic", "none"}
        ``"hybrid"`` is the paper's Algorithm 1, the finest partition satisfying condition (8). ``"class"``
        and ``"global"`` are the two simpler rules it combines. ``"dynamic"``, the start of dynamic screening, omits the
        merge step: finer, but only a candidate that must be checked after solving. ``"none"`` keeps all variables in
        one block.
    penalty, class_graph
        Penalty that couples the classes, as in `jointglasso.solve`.
    weights : None, "equal", "sample_size", array (K,) or dict, optional
        Weight of each class in the likelihood.
    pair_weights, coupling_weights : array (p, p), sparse matrix, dict or PairWeights, optional
        Factors on the penalty of each pair, as in `jointglasso.solve`.

    Returns
    -------
    Partition

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]]
    >>> jgl.screen(S, 0.1, 0.1)
    Partition(n_classes=1, n_variables=3, n_blocks=2, largest=2, cost=9)
    """
    check_choice("rule", rule, RULES)
    source = as_source(S)
    options = ProblemOptions(
        penalty, class_graph, weights, pair_weights=pair_weights, coupling_weights=coupling_weights
    )
    chosen, w = options.penalty_of(source, lambda1, lambda2), options.weights_of(source)
    v = options.weights_of_pairs(source)
    if rule == "none":
        partition = Partition(np.zeros((source.n_classes, source.n_variables), dtype=np.int64), chosen.coupling)
    else:
        pairs = scan_pairs(source, chosen, w, v, strong_only=rule in ("global", "dynamic"))
        partition = partition_of_pairs(rule, pairs, chosen, weighted_covariances(source, w, v, chosen))
    return partition.with_isolated(source.absent).named(source.class_names)


def partition_of_pairs(
    rule: str, pairs: PairTable, penalty: PairPenalty, covariances: Covariances | None = None
) -> Partition:
    """Apply one rule, other than "none", to a table of pairs.

    "class" joins pairs in each class where they exceed lambda1, "global" (Danaher et al.) pairs outside the dual ball
    in all classes, "dynamic" pairs where they are non-zero in the problem of their two variables. With a penalty that
    is not symmetric in the classes the hybrid rule also needs the weighted `covariances` of pairs that are not in the
    table; without them only its first step is done, that of "dynamic".
    """
    from jointglasso.kernels.components import components

    rows, columns, outside = pairs.rows, pairs.columns, pairs.violates_global_condition
    if rule == "class" and penalty.class_dependent:
        name = penalty.parameters()["penalty"]
        raise InputError(f'The rule "class" does not hold for penalty="{name}": use "hybrid" or "dynamic".', "rule")
    if rule == "global":
        united = components(pairs.n_variables, rows[outside], columns[outside])[0]
        return Partition(np.tile(united, (pairs.exceeds_lambda1.shape[1], 1)), penalty.coupling)
    if rule == "hybrid" and not penalty.class_dependent:
        return hybrid_partition(pairs)
    if rule == "hybrid" and covariances is not None:
        return hybrid_by_class(pairs, penalty, covariances)
    edges = pairs.exceeds_lambda1 if rule == "class" else start_edges(pairs, penalty)
    return Partition(class_components(pairs.n_variables, rows, columns, edges), penalty.coupling)


def start_edges(pairs: PairTable, penalty: PairPenalty) -> BoolArray:
    """(m, K) classes in which each pair outside the dual ball is non-zero in the problem of its two variables."""
    joined = np.zeros(pairs.exceeds_lambda1.shape, dtype=bool)
    strong = np.flatnonzero(pairs.violates_global_condition)
    factor = pairs.factor[strong] if len(pairs.factor) else pairs.factor
    joined[strong] = penalty.signs(pairs.weighted[strong], factor) != 0
    return joined


@dataclass(frozen=True)
class DeferredPairs:
    """Pairs i < j joined in some class and screened out in another one in which they exceed the threshold.

    Algorithm 1 would merge them; dynamic screening defers that until their optimality conditions are violated.
    """

    rows: IntArray
    columns: IntArray

    @classmethod
    def of(cls, pairs: PairTable, partition: Partition) -> DeferredPairs:
        """The deferred pairs of a table in a partition; with one class there are none."""
        labels = partition.labels
        in_block = np.zeros(partition.n_variables, dtype=bool)
        for k, row in enumerate(labels if len(labels) > 1 else ()):
            in_block |= partition.block_sizes(k)[row] > 1
        inside = np.flatnonzero(in_block[pairs.rows] & in_block[pairs.columns])
        rows, columns = pairs.rows[inside], pairs.columns[inside]
        joined = (labels[:, rows] == labels[:, columns]).T
        waits = (pairs.exceeds_lambda1[inside] & ~joined).any(axis=1) & joined.any(axis=1)
        return cls(rows[waits], columns[waits])
