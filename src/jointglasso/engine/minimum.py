"""Refusal of problems without a minimum, before they are solved.

The objective is unbounded below where S of a class is singular on variables that are not penalised, or where only
differences between classes are penalised and some matrices that differ in no penalised entry are in all null spaces.

The latter, `is_unbounded`: with lambda1 = 0 and no penalty of the diagonal, there is a minimum unless there are
positive semidefinite D_k, not all zero, with ``S_k D_k = 0`` whose penalised entries are equal in all classes (zero
where a pair is forbidden): their penalty is zero and the log-determinants grow. The alternative is a dual point:
symmetric Z_k, zero at unpenalised entries, with ``sum_k Z_k = 0`` at penalised ones, and Z_k positive definite on the
null space of S_k.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.blocks import BlockSystem
from jointglasso.data.checks import no_common_minimum, no_minimum, not_semidefinite
from jointglasso.data.source import semidefinite
from jointglasso.duality import unpenalised_entries
from jointglasso.penalties.base import Coupling
from jointglasso.problem import JointProblem

#: Norm of the differences between the D_k, of total trace 1, that counts as zero; eigenvalue of Z that is not rounding;
#: relative eigenvalue of S that is.
_ZERO, _POSITIVE, _SINGULAR = 1e-7, 1e-13, 1e-12


def require_solvable(problem: JointProblem, system: BlockSystem) -> None:
    """Refuse blocks whose S is not a covariance matrix, and unpenalised problems without a minimum."""
    if not problem.source.is_semidefinite:
        for block in np.flatnonzero(~semidefinite(system.S, system.offset, system.size)):
            name = problem.source.class_names[system.block_class[block]]
            raise not_semidefinite(name, f"in a block of {system.size[block]} of its variables")
    _require_minimum(problem, system)


def _require_minimum(problem: JointProblem, system: BlockSystem) -> None:
    """Refuse a class whose S is singular on variables of which neither a pair nor the diagonal is penalised.

    The objective would be unbounded below. Single pairs are checked, and sets of variables with all pairs unpenalised;
    if some pairs of a set are penalised or forbidden, the minimum may or may not exist, which the solver detects.
    """
    if problem.diagonal_penalty > 0:
        return
    if problem.penalty.class_graph is not None and problem.penalty.box_radius(system.n_classes) == 0.0:
        _require_definite_together(problem, system)
    entries = unpenalised_entries(system, problem.penalty)
    if not len(entries):
        return
    from jointglasso.kernels.components import components

    row, column = system.entry_members(entries)
    variance = system.S[system.diagonal]
    perfect = system.S[system.upper[entries]] ** 2 >= variance[row] * variance[column] * (1.0 - 1e-12)
    for e in np.flatnonzero(perfect):
        _require_definite(problem, system, np.array([row[e], column[e]]))
    component = components(len(system.members), row, column)[0]
    size = np.bincount(component)
    n_pairs = np.bincount(component[row], minlength=len(size))
    by_component = np.split(np.argsort(component, kind="stable"), np.cumsum(size)[:-1])
    for c in np.flatnonzero((size > 2) & (n_pairs == size * (size - 1) // 2)):
        _require_definite(problem, system, by_component[c])


def _require_definite_together(problem: JointProblem, system: BlockSystem) -> None:
    """Refuse groups whose objective decreases without end along matrices that differ in no penalised entry.

    Differences between classes are all that is penalised, and they do not change (theory, theorem P2). Groups whose
    classes have different variables are not checked.
    """
    coupling = cast(Coupling, problem.penalty.coupling)
    component = coupling.parts.argmax(axis=1)  # the first class of each component of the class graph
    for group in range(system.n_groups):
        in_group = np.flatnonzero(system.block_group == group)
        members = [system.members[system.member_start[n] : system.member_start[n + 1]] for n in in_group]
        if len(members[0]) < 2 or not all(np.array_equal(members[0], one) for one in members[1:]):
            continue
        penalised, forbidden = _difference_masks(problem, system, in_group)
        for number in np.unique(component[system.block_class[in_group]]):
            blocks = in_group[component[system.block_class[in_group]] == number]
            b = len(members[0])
            S = np.stack([system.S[system.offset[n] : system.offset[n + 1]].reshape(b, b) for n in blocks])
            scale = np.sqrt(np.einsum("kii->i", S))  # one for all classes, so that equal entries remain equal
            S = S / scale / scale[:, None]
            names = [problem.source.class_names[k] for k in system.block_class[blocks]]
            # A sum of semidefinite matrices has their common null space.
            common = np.sum([matrix / (np.diagonal(matrix).max() or 1.0) for matrix in S], axis=0)
            rank = int(np.linalg.matrix_rank(common, hermitian=True))
            if rank < b and not forbidden.any():
                raise no_common_minimum(names, f"on {b} variables their covariance matrices have rank {rank} together")
            if is_unbounded(S, penalised, forbidden):
                raise no_common_minimum(names, "their covariance matrices are singular in directions that share them")


def _difference_masks(problem: JointProblem, system: BlockSystem, blocks: IntArray) -> tuple[BoolArray, BoolArray]:
    """(b, b) both: entries whose differences between classes are penalised, and those forbidden in a class.

    The blocks are those of a group, all of the same variables.
    """
    b, first = int(system.size[blocks[0]]), int(system.offset[blocks[0]])
    penalised, forbidden = np.zeros((b, b), dtype=bool), np.zeros((b, b), dtype=bool)
    entries = np.flatnonzero(system.entry_block == blocks[0])
    if len(system.pair_factor):
        entries = entries[system.of_entries(system.pair_coupling)[entries] > 0.0]
    for positions in (system.upper[entries], system.lower[entries]):
        penalised.flat[positions - first] = True
    for block in blocks:
        positions = system.forbidden[system.forbidden_block == block]
        forbidden.flat[positions - system.offset[block]] = True
    np.fill_diagonal(penalised, problem.penalty.fused_diagonal_penalty is not None)
    return penalised, forbidden


def _require_definite(problem: JointProblem, system: BlockSystem, members: IntArray) -> None:
    """Refuse members of one block on which S is singular."""
    block = system.diagonal_block[members[0]]
    slots = members - system.member_start[block]
    b = system.size[block]
    S = system.S[system.offset[block] : system.offset[block + 1]].reshape(b, b)[np.ix_(slots, slots)]
    deviation = np.sqrt(np.diagonal(S))
    # Rank of the correlation matrix: the numerical rank of the covariance matrix depends on the units.
    if np.linalg.matrix_rank(S / deviation / deviation[:, None], hermitian=True) < len(members):
        raise no_minimum(problem.source.class_names[system.block_class[block]])


def is_unbounded(S: FloatArray, penalised: BoolArray, forbidden: BoolArray) -> bool | None:
    """Whether (K, b, b) covariances S have such a direction D; None if undecided.

    `penalised` (b, b) marks entries whose differences are penalised. The squared norm of the differences between the
    ``D_k = N_k A_k N_k'``, N_k spanning the null space of S_k, is minimised over A_k of total trace 1 by accelerated
    projected gradients. Its gradient is Z: definite Z prove a minimum, a norm of zero gives D.
    """
    null_spaces = [_null_space(matrix) for matrix in S]
    if not any(N.size for N in null_spaces):
        return False
    A = _project([np.eye(N.shape[1]) for N in null_spaces])
    point, momentum = A, 1.0
    for _ in range(int(min(2000.0, 1e10 / S.size / S.shape[1]))):
        D = np.stack([N @ a @ N.T for N, a in zip(null_spaces, point, strict=True)])
        Z = penalised * (D - D.mean(axis=0)) + forbidden * D
        gradient = [N.T @ z @ N for N, z in zip(null_spaces, Z, strict=True)]
        norm = float(np.linalg.norm(Z))
        if norm < _ZERO:
            return True
        # At the minimiser the smallest eigenvalue is the squared norm.
        if min(float(np.linalg.eigvalsh(g).min(initial=np.inf)) for g in gradient) > max(0.01 * norm**2, _POSITIVE):
            return False
        before, A = A, _project([a - g for a, g in zip(point, gradient, strict=True)])
        uphill = sum(float(((y - a) * (a - b)).sum()) for y, a, b in zip(point, A, before, strict=True)) > 0.0
        following = 1.0 if uphill else 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        factor = 0.0 if uphill else (momentum - 1.0) / following
        point, momentum = [a + factor * (a - b) for a, b in zip(A, before, strict=True)], following
    return None


def _null_space(S: FloatArray) -> FloatArray:
    """(b, r): orthonormal basis of the null space, with eigenvalues of zero up to rounding."""
    values, vectors = np.linalg.eigh(S)
    return vectors[:, values <= _SINGULAR * np.abs(values).max()]


def _project(matrices: list[FloatArray]) -> list[FloatArray]:
    """Nearest positive semidefinite matrices of total trace 1: their eigenvalues are projected on the simplex."""
    factors = [np.linalg.eigh(matrix) for matrix in matrices]
    values = np.concatenate([eigenvalues for eigenvalues, _ in factors])
    ordered = np.sort(values)[::-1]
    level = (np.cumsum(ordered) - 1.0) / np.arange(1, len(values) + 1)
    threshold = level[np.flatnonzero(ordered > level)[-1]]
    return [(vectors * np.maximum(eigenvalues - threshold, 0.0)) @ vectors.T for eigenvalues, vectors in factors]
