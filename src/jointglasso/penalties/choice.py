"""The penalty object from the arguments `penalty`, `lambda1`, `lambda2` and `class_graph`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jointglasso._typing import BoolArray, IntArray
from jointglasso.data.checks import InputError, check_choice, check_nonnegative
from jointglasso.penalties.base import PairPenalty
from jointglasso.penalties.class_graph import complete_of, forest_of, read_class_graph
from jointglasso.penalties.common import CommonPenalty
from jointglasso.penalties.fused import FusedPenalty
from jointglasso.penalties.group import GroupPenalty, MaximumPenalty
from jointglasso.penalties.laplacian import LaplacianPenalty
from jointglasso.penalties.missing_variables import MissingVariables, PartialClassPenalty

#: Values of the `penalty` argument.
PENALTIES = ("group", "maximum", "common", "fused", "chain", "graph", "laplacian")


def make_penalty(
    penalty: str,
    lambda1: Any,
    lambda2: Any,
    class_graph: Any,
    class_names: Sequence[str],
    sample_sizes: IntArray | None = None,
    absent: BoolArray | None = None,
    *,
    fuse_diagonal: bool = False,
) -> PairPenalty:
    """The penalty from the arguments of `jointglasso.solve`; `absent` (K, p) marks variables missing from a class."""
    check_choice("penalty", penalty, PENALTIES)
    l1, l2 = check_nonnegative("lambda1", lambda1), check_nonnegative("lambda2", lambda2)
    if fuse_diagonal and penalty not in ("fused", "chain", "graph"):
        raise InputError(
            f'fuse_diagonal=True goes with penalty="fused", "chain" or "graph", not with "{penalty}": leave it out, or '
            "choose one of these.", "fuse_diagonal",
        )  # fmt: skip
    if penalty in ("group", "maximum", "common") and class_graph is not None:
        raise InputError(
            f'class_graph goes with penalty="chain", "graph" or "laplacian", not with "{penalty}".', "class_graph"
        )
    if penalty in ("group", "maximum"):
        return GroupPenalty(l1, l2) if penalty == "group" else MaximumPenalty(l1, l2)
    if penalty == "fused":
        if not (class_graph is None or (isinstance(class_graph, str) and class_graph in ("complete", "sample_size"))):
            raise InputError(
                'penalty="fused" couples all classes; for another class_graph use penalty="graph".', "class_graph"
            )
        graph = complete_of(len(class_names)) if class_graph is None else class_graph
    elif penalty == "graph" and class_graph is None:
        raise InputError(
            'penalty="graph" needs class_graph=, such as [("control", "a"), ("control", "b", 0.5)].', "class_graph"
        )
    elif penalty == "common":
        graph = "complete"
    else:
        graph = "chain" if class_graph is None else class_graph
    weights = read_class_graph(graph, class_names, sample_sizes)
    if penalty == "chain" and not _is_chain(weights):
        raise InputError(
            'penalty="chain" takes the classes in order; for another class_graph use penalty="graph".', "class_graph"
        )
    kind = {"laplacian": LaplacianPenalty, "common": CommonPenalty}.get(penalty, FusedPenalty)
    chosen = kind(l1, l2, weights, penalty, fuse_diagonal)
    return chosen if absent is None else PartialClassPenalty(chosen, MissingVariables(absent))


def _is_chain(graph: Any) -> bool:
    degree = (graph > 0).sum(axis=0)
    connected = (graph > 0).sum() == 2 * (len(graph) - 1) and forest_of(graph) is not None
    return bool(connected and (degree <= 2).all())
