"""Whether the blocks can be solved: covariances that are some, a minimum that exists, a start that is definite."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.blocks.linalg import factorize
from jointglasso.certificate import unpenalised_entries
from jointglasso.problem import JointProblem
from jointglasso.validation import indefinite_start, no_minimum, not_semidefinite, semidefinite


def require_solvable(problem: JointProblem, system: BlockSystem) -> None:
    """Refuse blocks whose S is not a covariance matrix, and unpenalised problems without a minimum."""
    if not getattr(problem.source, "is_semidefinite", False):
        for block in np.flatnonzero(~semidefinite(system.S, system.offset, system.size)):
            name = problem.source.class_names[system.block_class[block]]
            raise not_semidefinite(name, f"in a block of {system.size[block]} of its variables")
    require_minimum(problem, system)


def require_definite_start(problem: JointProblem, system: BlockSystem, start: FloatArray) -> None:
    """Refuse a warm start that is not symmetric and positive definite."""
    names = problem.source.class_names
    wild = np.flatnonzero(~np.isfinite(start))
    if len(wild):
        block = np.searchsorted(system.offset, wild[0], side="right") - 1
        raise indefinite_start(names[system.block_class[block]], "finite")
    row, column = system.entry_members()
    root = np.sqrt(np.abs(start[system.diagonal]))
    apart = np.abs(start[system.upper] - start[system.lower])
    crooked = np.flatnonzero(apart > 1e-6 * root[row] * root[column])
    if len(crooked):
        raise indefinite_start(names[system.block_class[system.entry_block[crooked[0]]]], "symmetric")
    start[system.lower] = start[system.upper]
    bad = np.flatnonzero(~factorize(system, start).definite)
    if len(bad):
        raise indefinite_start(names[system.block_class[bad[0]]], "positive definite")


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
    deviation = np.sqrt(np.diagonal(S))
    # The rank of the correlations: that of the covariances, computed, depends on the units.
    if np.linalg.matrix_rank(S / deviation / deviation[:, None], hermitian=True) < len(members):
        raise no_minimum(problem.source.class_names[system.block_class[block]])
