"""The one way through: screen, lay out the groups, solve them, certify, assemble."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso.blocks import BlockSystem, build_system
from jointglasso.certificate import count_certain_edges
from jointglasso.engine.assemble import flat_from_precisions, isolated_objective, sparse_precisions
from jointglasso.problem import JointProblem, make_problem
from jointglasso.screening import Partition
from jointglasso.screening.groups import class_blocks
from jointglasso.screening.rules import partition_by
from jointglasso.solution import Certificate, ConvergenceWarning, History, Solution, Status
from jointglasso.solvers import ADMM, GroupSolver, SolverResult, SolverTask
from jointglasso.solvers.base import Callback, diagonal_start
from jointglasso.validation import (
    check_choice,
    check_count,
    check_positive,
    is_semidefinite,
    no_minimum,
    not_semidefinite,
)

SCREENING = ("hybrid", "global", "class", "none")
SOLVERS: dict[str, type[ADMM]] = {"admm": ADMM}


def solve(
    S: Any,
    lambda1: float,
    lambda2: float,
    *,
    penalty: str = "group",
    weights: Any = None,
    penalize_diagonal: bool = True,
    screening: str = "hybrid",
    solver: str | GroupSolver = "admm",
    tol: float = 1e-6,
    max_iter: int | None = None,
    warm_start: Solution | Sequence[Any] | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Solve the joint graphical lasso; the objective is written out in `jointglasso.problem`.

    Parameters
    ----------
    S : array (K, p, p), sequence or dict of (p, p) arrays, or CovarianceSource
        Sample covariance matrices, one per class. For samples use `jointglasso.SampleCovariance`.
    lambda1 : float
        Sparsity penalty, >= 0.
    lambda2 : float
        Similarity penalty, >= 0; 0 gives K separate graphical lassos.
    penalty : {"group"}
        How the classes are tied together.
    weights : None, "equal", "sample_size", array (K,) or dict, optional
        Weight of each class in the likelihood; equal by default.
    penalize_diagonal : bool, default True
        As in the paper; False is the convention of JGL and GGLasso.
    screening : {"hybrid", "global", "class", "none"}
        Rule that finds zero entries before solving. All are exact; "hybrid", the paper's, is the finest.
    solver : {"admm"} or solver object
        Method, by name or as an object with options, such as ``jointglasso.ADMM(rho=0.1, relaxation=1.0)``.
    tol : float, default 1e-6
        Relative duality gap of the whole problem: gap <= tol * max(1, abs(objective)).
    max_iter : int, optional
        Limit on the iterations; the default depends on the solver.
    warm_start : Solution or sequence of K matrices, optional
        Positive definite matrices to start from, such as the solution at nearby penalties.
    callback : callable, optional
        Called with an `Iteration` after each iteration; a true return value stops the solve.

    Returns
    -------
    Solution
        Sparse precision matrices with their certificate.

    Warns
    -----
    ConvergenceWarning
        The gap reached is larger than `tol`; the solution carries the gap it has.
    """
    clock = _Clock()
    with clock.stage("covariance"):
        problem = make_problem(
            S, lambda1, lambda2, penalty=penalty, weights=weights, penalize_diagonal=penalize_diagonal
        )
    method = _method(solver)
    check_choice("screening", screening, SCREENING)
    check_positive("tol", tol)
    limit = method.default_max_iter if max_iter is None else check_count("max_iter", max_iter)
    with clock.stage("screening"):
        partition = partition_by(screening, problem.source, problem.penalty, problem.weights)
    with clock.stage("covariance"):
        system, isolated = _lay_out(problem, partition, method)
        _require_solvable(problem, system)
    with clock.stage("solve"):
        settled = isolated_objective(problem, isolated)
        start = _start(problem, system, warm_start)
        task = SolverTask(system, problem.penalty, problem.diagonal_penalty, tol, limit, start, settled, callback)
        result = method.solve(task)
    with clock.stage("certificate"):
        certificate = _certify(problem, system, result, settled)
        precision = sparse_precisions(problem, system, result.theta, isolated)
    status = _status(certificate, result, tol)
    if not status:
        warnings.warn(str(status), ConvergenceWarning, stacklevel=2)
    return Solution(
        precision=precision,
        objective=certificate.objective,
        certificate=certificate,
        partition=partition,
        status=status,
        n_iter=result.n_iter,
        timings=clock.read(),
        history=History(result.history),
        solver=method.name,
        screening=screening,
        class_names=problem.source.class_names,
        variable_names=problem.source.variable_names,
    )


def _method(solver: str | GroupSolver) -> GroupSolver:
    if isinstance(solver, str):
        return SOLVERS[check_choice("solver", solver, SOLVERS)]()
    if not hasattr(solver, "solve") or isinstance(solver, type):
        check_choice("solver", solver, SOLVERS)
    return solver


def _lay_out(problem: JointProblem, partition: Partition, method: GroupSolver) -> tuple[BlockSystem, list[IntArray]]:
    """Blocks to be solved, and for each class the variables left out because they are alone."""
    blocks = class_blocks(partition.labels, smallest=1) if method.include_isolated else partition.class_blocks
    member_class = np.repeat(blocks.block_class, blocks.sizes)
    everything = np.arange(partition.n_variables)
    isolated = [
        np.setdiff1d(everything, blocks.members[member_class == k], assume_unique=True)
        for k in range(partition.n_classes)
    ]
    return build_system(problem.source, blocks, problem.weights), isolated


def _require_solvable(problem: JointProblem, system: BlockSystem) -> None:
    """Refuse blocks whose S is not a covariance matrix, and unpenalised problems without a minimum."""
    unpenalised = problem.penalty.lambda1 == 0 and problem.penalty.lambda2 == 0
    names = problem.source.class_names
    for blocks, (stack,) in system.stacks(system.S):
        for m, block in enumerate(range(blocks.start, blocks.stop)):
            if stack.shape[1] > 2 and not is_semidefinite(stack[m]):
                raise not_semidefinite(names[system.block_class[block]], "in a block of its variables")
            if unpenalised and np.linalg.matrix_rank(stack[m], hermitian=True) < stack.shape[1]:
                raise no_minimum(names[system.block_class[block]])


def _start(problem: JointProblem, system: BlockSystem, warm_start: Solution | Sequence[Any] | None) -> FloatArray:
    if warm_start is None:
        return diagonal_start(system, problem.diagonal_penalty)
    matrices = warm_start.precision if isinstance(warm_start, Solution) else list(warm_start)
    n_classes, p = problem.source.n_classes, problem.source.n_variables
    if [np.shape(Theta) for Theta in matrices] != [(p, p)] * n_classes:
        raise ValueError(f"warm_start must hold {n_classes} matrices of shape ({p}, {p}), one per class.")
    return flat_from_precisions(system, matrices, p)


def _certify(problem: JointProblem, system: BlockSystem, result: SolverResult, settled: float) -> Certificate:
    """Add up the groups' gaps; entries outside the blocks are proved zero by the screen itself."""
    counts = count_certain_edges(system, result.theta, result.bounds, problem.penalty)
    n_classes, p = problem.source.n_classes, problem.source.n_variables
    screened = n_classes * p * (p - 1) // 2 - len(system.upper)
    return Certificate(
        objective=settled + result.bounds.total_objective,
        gap=result.bounds.total_gap,
        group_gaps=result.bounds.gap,
        edges_present=counts.present,
        edges_absent=counts.absent + screened,
        edges_undetermined=counts.undetermined,
    )


def _status(certificate: Certificate, result: SolverResult, tol: float) -> Status:
    reached = f"relative duality gap {certificate.relative_gap:.1e}, tolerance {tol:.1e}"
    if certificate.relative_gap <= tol:
        return Status(True, f"Converged after {result.n_iter} iterations: {reached}.")
    if result.stopped_by == "callback":
        return Status(False, f"Stopped by the callback after {result.n_iter} iterations: {reached}.", "Let it run on.")
    if result.stopped_by == "paper's rule":
        return Status(
            False,
            f"The paper's stopping rule held after {result.n_iter} iterations: {reached}.",
            'Use stopping="gap" to reach the tolerance.',
        )
    return Status(
        False,
        f"Stopped at max_iter={result.n_iter}: {reached}.",
        "Raise max_iter, warm-start from this solution, raise lambda1, or accept the gap by raising tol.",
    )


class _Clock:
    """Seconds spent in each stage."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.seconds = {"covariance": 0.0, "screening": 0.0, "solve": 0.0, "certificate": 0.0}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - began

    def read(self) -> dict[str, float]:
        return {**self.seconds, "total": time.perf_counter() - self.began}
