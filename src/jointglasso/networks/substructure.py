"""Networks of a solution with the common substructure penalty: the shared part, and that of each class."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from jointglasso.data.checks import InputError
from jointglasso.networks.edge_list import values_at
from jointglasso.penalties.class_graph import complete_of
from jointglasso.penalties.common import CommonPenalty, shared_values
from jointglasso.solution import Solution


def shared_and_specific(solution: Solution) -> tuple[list[Any], list[str]]:
    """Matrices C and ``Theta_k - C`` off the diagonal, K + 1 in all, and their names."""
    facts, names = solution.parameters, list(solution.class_names)
    if facts["penalty"] != CommonPenalty.name or solution.absent is not None:
        raise InputError('Shared networks are of penalty="common" and of classes with the same variables.', "solution")
    penalty = CommonPenalty(facts["lambda1"], facts["lambda2"], complete_of(len(names)))
    union = sparse.triu(sum(abs(Theta) for Theta in solution.precision), 1).tocoo()
    rows = np.column_stack([values_at(sparse.csr_array(Theta), union.row, union.col) for Theta in solution.precision])
    shared = shared_values(rows, penalty)
    diagonals = [Theta.diagonal() for Theta in solution.precision]
    parts = [(shared, np.mean(diagonals, axis=0)), *zip((rows - shared[:, None]).T, diagonals, strict=True)]
    matrices = []
    for values, diagonal in parts:
        upper = sparse.coo_array((values, (union.row, union.col)), shape=union.shape)
        matrices.append(sparse.csc_array(upper + upper.T + sparse.diags_array(diagonal)))
    return matrices, ["shared", *names]
