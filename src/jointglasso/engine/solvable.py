"""Whether the problem has a minimum where something is not penalised."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.certificate import unpenalised_entries
from jointglasso.problem import JointProblem
from jointglasso.validation import no_minimum


def require_minimum(problem: JointProblem, system: BlockSystem) -> None:
    """Refuse a class whose S is singular on variables of which neither a pair nor the diagonal is penalised.

    Precision could be piled up there for nothing. Sets of variables with all their pairs unpenalised are looked at, and
    single pairs; if some pairs of a set are penalised or forbidden, the minimum may or may not exist, and the solver
    will find out.
    """
    entries = unpenalised_entries(system, problem.penalty)
    if problem.diagonal_penalty > 0 or not len(entries):
        return
    from jointglasso.kernels.components import components

    row, column = system.entry_members(entries)
    variance = system.S[system.diagonal]
    perfect = system.S[system.upper[entries]] ** 2 >= variance[row] * variance[column] * (1.0 - 1e-12)
    for e in np.flatnonzero(perfect):
        _require_definite(problem, system, np.array([row[e], column[e]]))
    component = components(len(system.members), row, column)
    size = np.bincount(component)
    n_pairs = np.bincount(component[row], minlength=len(size))
    by_component = np.split(np.argsort(component, kind="stable"), np.cumsum(size)[:-1])
    for c in np.flatnonzero((size > 2) & (n_pairs == size * (size - 1) // 2)):
        _require_definite(problem, system, by_component[c])


def _require_definite(problem: JointProblem, system: BlockSystem, members: IntArray) -> None:
    """Refuse members of one block on which S is singular."""
    block = system.diagonal_block[members[0]]
    slots = members - system.member_start[block]
    b = system.size[block]
    S = system.S[system.offset[block] : system.offset[block + 1]].reshape(b, b)[np.ix_(slots, slots)]
    if np.linalg.matrix_rank(S, hermitian=True) < len(members):
        raise no_minimum(problem.source.class_names[system.block_class[block]])
