"""What a piece of work is made of: values that can be pickled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.engine.checkpoint import Checkpoint, Saved
from jointglasso.engine.outcome import Nonzeros
from jointglasso.problem import JointProblem
from jointglasso.screening.dynamic import WaitingPairs
from jointglasso.screening.groups import ClassBlocks
from jointglasso.solvers import GroupSolver


@dataclass(frozen=True)
class WarmStart:
    """Precision matrices to start from."""

    precision: Sequence[Any]
    trusted: bool
    """Whether they come from a solve, so that they, and any blocks of them, are known to be definite."""


@dataclass(frozen=True)
class Shared:
    """What all pieces of work of one round have in common."""

    problem: JointProblem
    method: GroupSolver
    tol: float
    waiting: WaitingPairs | None
    """Pairs cut by a dynamic screen, to be looked at again; None for other screens, whose cuts are right."""
    warm_start: WarmStart | None = None
    checkpoint: Checkpoint | None = None
    """Where long solves leave snapshots."""
    room_for_admm: bool = True
    """Whether big groups may be handed to ADMM, which takes twice the memory."""
    room_for_blocks: bool = True
    """Whether the blocks of every group fit into memory in double precision."""


@dataclass(frozen=True)
class Item:
    """Independent groups to be solved together, each to its share of the gap allowed to the whole problem."""

    number: int
    blocks: ClassBlocks
    share: FloatArray
    rest: float
    """Objective of the rest of the problem, as far as it is known."""
    max_iter: int
    start: Nonzeros | None = None
    """Where an earlier attempt, to a wider gap, ended."""
    saved: Saved | None = None
    """What an earlier run left of it."""
    stays_open: bool = False
    """Whether its blocks are kept at hand when it is solved."""


def waiting_among(waiting: WaitingPairs, members: IntArray, n_variables: int) -> IntArray:
    """Waiting pairs of which both variables are among the members."""
    here = np.zeros(n_variables, dtype=bool)
    here[members] = True
    return np.flatnonzero(here[waiting.rows] & here[waiting.columns])
