"""What the gap proves about the same edge in two classes: that its values are equal, or that they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.certificate import CertainEdges
from jointglasso.covariance import absent_of
from jointglasso.penalties import PairPenalty
from jointglasso.problem import JointProblem
from jointglasso.solution import Sameness


@dataclass(frozen=True)
class TieProofs:
    """Pairs i < j of variables, and which comparisons (m, T) of tied classes are proved as they came out."""

    rows: IntArray
    columns: IntArray
    proved: BoolArray


NO_PROOFS = TieProofs(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=bool))


def certain_ties(
    system: BlockSystem,
    theta: FloatArray,
    edges: CertainEdges,
    penalty: PairPenalty,
    *,
    cuts_proved: bool = True,
) -> TieProofs:
    """Comparisons of tied classes that the gap of their group proves, of the pairs that are not zero.

    Values that are equal are proved so already; others differ for certain where their distance is more than how far
    both may be off. Unless the cuts of a dynamic screen are proved, only pairs that all classes hold count.
    """
    class_pairs = penalty.tied_classes
    if not len(class_pairs):
        return NO_PROOFS
    nonzero = system.gather(theta) != 0.0
    pairs = np.flatnonzero(np.logical_or.reduceat(nonzero, system.pair_start[:-1])) if len(nonzero) else NO_PROOFS.rows
    if not cuts_proved:
        pairs = pairs[np.diff(system.pair_start)[pairs] == system.n_classes]
    if not len(pairs):
        return NO_PROOFS
    entries, start = system.entries_of(pairs)
    row, cls = np.repeat(np.arange(len(pairs)), np.diff(start)), system.entry_class[entries]
    values, radius, equal = theta[system.upper[entries]], edges.reach[entries], edges.equal[pairs]
    # Where a class does not hold a pair its value is zero, for certain; unless it holds it in another group.
    by_class, radii, in_block = (np.zeros((len(pairs), system.n_classes)) for _ in range(3))
    by_class[row, cls], radii[row, cls], in_block[row, cls] = values, radius, 1.0
    one, two = class_pairs.T
    distance, limit = np.abs(by_class[:, one] - by_class[:, two]), radii[:, one] + radii[:, two]
    proved = np.where(distance == 0.0, equal, distance > (1.0 + 1e-12) * limit)
    if system.same_variables is not None:
        others = np.zeros((system.same_variables[-1] + 1, system.n_classes))
        every = np.repeat(system.same_variables, np.diff(system.pair_start))
        others[every, system.entry_class] = 1.0
        in_other_group = others[system.same_variables[pairs]] > in_block
        proved &= ~(in_other_group[:, one] | in_other_group[:, two])
    i, j = (ends[pairs] for ends in system.pair_variables)
    return TieProofs(np.minimum(i, j), np.maximum(i, j), proved)


def sameness_of(problem: JointProblem, precision: Sequence[Any], proofs: Sequence[TieProofs]) -> Sameness | None:
    """In which classes each edge of a solution is the same, with what its pieces prove; None unless values can be."""
    class_pairs = problem.penalty.tied_classes
    if not len(class_pairs):
        return None
    result = Sameness.of(precision, class_pairs, absent_of(problem.source))
    for piece in proofs:
        if len(piece.rows):
            result = result.with_proofs(piece.rows, piece.columns, piece.proved)
    return result
