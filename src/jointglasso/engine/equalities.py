"""Certified equalities and differences between the values of an edge in two classes, from the duality gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.duality import CertifiedEdges
from jointglasso.penalties import PairPenalty
from jointglasso.problem import JointProblem
from jointglasso.solution import EdgeClusters


@dataclass(frozen=True)
class EqualityProofs:
    """Pairs i < j of variables, and (m, T) which comparisons of neighbouring classes are certified."""

    rows: IntArray
    columns: IntArray
    proved: BoolArray


NO_PROOFS = EqualityProofs(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=bool))


def certified_equalities(
    system: BlockSystem,
    theta: FloatArray,
    edges: CertifiedEdges,
    penalty: PairPenalty,
    *,
    screening_proved: bool = True,
) -> EqualityProofs:
    """Comparisons of neighbouring classes that the gap of their group certifies, for the non-zero pairs.

    Equalities are certified in `edges`; two values are certified to differ if their distance exceeds the sum of their
    radii. Unless the screening is certified, only pairs inside blocks in all classes are considered.
    """
    class_pairs = penalty.fused_class_pairs
    if not len(class_pairs):
        return NO_PROOFS
    nonzero = system.gather(theta) != 0.0
    pairs = np.flatnonzero(np.logical_or.reduceat(nonzero, system.pair_start[:-1])) if len(nonzero) else NO_PROOFS.rows
    if not screening_proved:
        pairs = pairs[np.diff(system.pair_start)[pairs] == system.n_classes]
    if not len(pairs):
        return NO_PROOFS
    entries, start = system.entries_of(pairs)
    row, cls = np.repeat(np.arange(len(pairs)), np.diff(start)), system.entry_class[entries]
    values, radius, equal = theta[system.upper[entries]], edges.gap_radius[entries], edges.equal[pairs]
    # A screened-out entry is a certified zero, unless the class has the pair in a block of another group.
    by_class, radii, in_block = (np.zeros((len(pairs), system.n_classes)) for _ in range(3))
    by_class[row, cls], radii[row, cls], in_block[row, cls] = values, radius, 1.0
    one, two = class_pairs.T
    distance, limit = np.abs(by_class[:, one] - by_class[:, two]), radii[:, one] + radii[:, two]
    proved = np.where(distance == 0.0, equal, distance > (1.0 + 1e-12) * limit)
    if (coupling := penalty.coupling) is not None:
        # Classes that are not connected to those of this group may have the pair in a group of another task.
        connected = in_block @ coupling.parts > 0.0
        proved &= connected[:, one]
    if system.same_variables is not None:
        others = np.zeros((system.same_variables[-1] + 1, system.n_classes))
        every = np.repeat(system.same_variables, np.diff(system.pair_start))
        others[every, system.entry_class] = 1.0
        in_other_group = others[system.same_variables[pairs]] > in_block
        proved &= ~(in_other_group[:, one] | in_other_group[:, two])
    i, j = (ends[pairs] for ends in system.pair_variables)
    return EqualityProofs(np.minimum(i, j), np.maximum(i, j), proved)


def edge_clusters_of(
    problem: JointProblem, precision: Sequence[Any], proofs: Sequence[EqualityProofs]
) -> EdgeClusters | None:
    """Clusters of classes with equal values of each edge, with certified comparisons; None without a fused penalty."""
    class_pairs = problem.penalty.fused_class_pairs
    if not len(class_pairs):
        return None
    result = EdgeClusters.of(precision, class_pairs, problem.source.absent)
    for piece in proofs:
        if len(piece.rows):
            result = result.with_proofs(piece.rows, piece.columns, piece.proved)
    return result
