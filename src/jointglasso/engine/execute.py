"""The one way through: screen, solve the groups, check what was cut, certify, assemble."""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jointglasso._threads import blas_threads_for
from jointglasso._typing import IntArray
from jointglasso.certificate import Bounds, bound_groups, count_certain_edges
from jointglasso.engine.assemble import isolated_objective, sparse_precisions
from jointglasso.engine.groups import GroupRunner, Options, Outcome, SpentBudget
from jointglasso.engine.progress import Control
from jointglasso.engine.recheck import groups_with_unproved_cuts, violated_pairs
from jointglasso.penalties import PairWeights
from jointglasso.problem import JointProblem, make_problem
from jointglasso.screening import Partition
from jointglasso.screening.dynamic import DynamicScreen
from jointglasso.screening.groups import ClassBlocks, class_blocks
from jointglasso.screening.hybrid import hybrid_partition
from jointglasso.screening.pairs import scan_pairs
from jointglasso.screening.rules import partition_by
from jointglasso.solution import Callback, Certificate, ConvergenceWarning, History, Solution, Status
from jointglasso.solvers import ADMM, GroupSolver, Newton, ProximalGradient
from jointglasso.validation import (
    check_callback,
    check_choice,
    check_count,
    check_jobs,
    check_positive,
    check_warm_start,
)

SCREENING = ("dynamic", "hybrid", "global", "class", "none")
SOLVERS: dict[str, Callable[[], GroupSolver]] = {
    "auto": lambda: Newton(closed_form=True),
    "newton": Newton,
    "proximal_gradient": ProximalGradient,
    "admm": ADMM,
}


def solve(
    S: Any,
    lambda1: float,
    lambda2: float,
    *,
    penalty: str = "group",
    weights: Any = None,
    penalize_diagonal: bool = True,
    pair_weights: Any = None,
    screening: str = "dynamic",
    solver: str | GroupSolver = "auto",
    tol: float = 1e-6,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    warm_start: Solution | Sequence[Any] | None = None,
    callback: Callback | None = None,
    on_interrupt: str = "raise",
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
    pair_weights : array (p, p), sparse matrix, dict or PairWeights, optional
        Factor on the penalty of each pair of variables, 1 by default: below 1 where prior knowledge speaks for an edge,
        0 to leave it unpenalised, above 1 where it speaks against, ``inf`` to forbid it. An array is symmetric and its
        diagonal is not looked at; of a sparse matrix the stored entries count, zeros included, in one triangle or both;
        a dict has the form ``{(variable, variable): weight}`` with names or numbers.
    screening : {"dynamic", "hybrid", "global", "class", "none"}
        Rule that finds zero entries before solving. All are exact. "hybrid" is the paper's Algorithm 1; "dynamic" is
        finer still: it cuts more, checks the solution, and merges only what the check asks for.
    solver : {"auto", "newton", "proximal_gradient", "admm"} or solver object
        Method, by name or as an object with options, such as ``jointglasso.ADMM(rho=0.1, relaxation=1.0)``. "auto"
        takes the closed form where it is exact and proximal Newton elsewhere.
    tol : float, default 1e-6
        Relative duality gap of the whole problem: gap <= tol * max(1, abs(objective)).
    max_iter : int, optional
        Limit on the iterations; the default depends on the solver.
    n_jobs : int, optional
        Independent groups solved at the same time, on threads; -1 for as many as there are cores. By default one at a
        time, each free to use all cores. Screening always uses all cores, and ADMM takes all groups together.
    warm_start : Solution or sequence of K matrices, optional
        Positive definite matrices to start from, such as the solution at nearby penalties.
    callback : callable, optional
        Called with an `Iteration` after each iteration, and again when a piece of work is finished; a true return value
        stops the solve.
    on_interrupt : {"raise", "return"}
        On Ctrl-C raise KeyboardInterrupt, or return what there is with its honest gap.

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
    method = _method(solver)
    check_choice("screening", screening, SCREENING)
    check_choice("on_interrupt", on_interrupt, ("raise", "return"))
    control = Control(check_callback(callback), return_on_interrupt=on_interrupt == "return")
    options = Options(
        method=method,
        tol=check_positive("tol", tol),
        max_iter=method.default_max_iter if max_iter is None else check_count("max_iter", max_iter),
        n_jobs=check_jobs(n_jobs),
        control=control,
    )
    with clock.stage("covariance"):
        problem = make_problem(
            S,
            lambda1,
            lambda2,
            penalty=penalty,
            weights=weights,
            penalize_diagonal=penalize_diagonal,
            pair_weights=pair_weights,
        )
        start = _warm_matrices(problem, warm_start)
    with clock.stage("screening"):
        screen = _Screen(problem, screening)
    with control.listening():
        final = _solve_in_rounds(problem, screen, options, start, clock)
    status = _status(final, options)
    if not status:
        warnings.warn(str(status), ConvergenceWarning, stacklevel=2)
    return Solution(
        precision=final.precision,
        objective=final.certificate.objective,
        certificate=final.certificate,
        partition=screen.partition,
        status=status,
        n_iter=final.n_iter,
        timings=clock.read(),
        history=History(control.history),
        solver=method.name,
        screening=screening,
        methods=dict(Counter(name for o in final.outcomes for name in o.result.methods)),
        class_names=problem.source.class_names,
        variable_names=problem.source.variable_names,
    )


@dataclass(frozen=True)
class _Final:
    """Where the last round ended."""

    outcomes: list[Outcome]
    certificate: Certificate
    precision: list[Any]
    n_iter: int


def _solve_in_rounds(
    problem: JointProblem, screen: _Screen, options: Options, start: list[Any] | None, clock: _Clock
) -> _Final:
    """Solve the groups, check what the screen cut, merge what fails; again until nothing does."""
    n_iter = 0
    while True:
        blocks, isolated = _lay_out(screen.partition, options.method)
        left = replace(options, max_iter=options.max_iter - n_iter)
        with blas_threads_for(screen.partition.largest):
            with clock.stage("solve"):
                settled = isolated_objective(problem, isolated)
                runner = GroupRunner(problem, blocks, settled, left, screen.spent, start)
                outcomes = runner.run()
            clock.move("solve", "covariance", runner.covariance_seconds)
            n_iter += runner.n_iter
            with clock.stage("screening"):
                stop = options.control.stopped_by is not None or n_iter >= options.max_iter
                merged = not stop and screen.merge_violated(outcomes)
            with clock.stage("certificate"):
                may_sharpen = not (stop or merged or options.method.lockstep)
                outcomes, certificate = _prove(problem, runner, outcomes, screen, may_sharpen)
                precision = sparse_precisions(problem, [(o.system, o.result.theta) for o in outcomes], isolated)
        if not merged:
            return _Final(outcomes, certificate, precision, n_iter)
        start = precision


def _prove(
    problem: JointProblem, runner: GroupRunner, outcomes: list[Outcome], screen: _Screen, may_sharpen: bool
) -> tuple[list[Outcome], Certificate]:
    """Certify; where nothing is violated but the gap is too wide to prove it, solve some groups more sharply first."""
    certificate, proved = _certify(problem, runner, outcomes, screen)
    for _ in range(3 if may_sharpen else 0):
        sharper = outcomes if proved else runner.sharpen(outcomes)
        if all(new is old for new, old in zip(sharper, outcomes, strict=True)):
            break
        outcomes = sharper
        certificate, proved = _certify(problem, runner, outcomes, screen)
    return outcomes, certificate


class _Screen:
    """A static partition, or a dynamic one that is merged until the solution passes the check."""

    def __init__(self, problem: JointProblem, rule: str) -> None:
        self.problem = problem
        self.dynamic: DynamicScreen | None = None
        if rule == "dynamic":
            pairs = scan_pairs(problem.source, problem.penalty, problem.weights, problem.pair_weights)
            self.dynamic = DynamicScreen(pairs, problem.penalty)
        else:
            self._partition = partition_by(rule, problem.source, problem.penalty, problem.weights, problem.pair_weights)

    @property
    def partition(self) -> Partition:
        return self._partition if self.dynamic is None else self.dynamic.partition

    @property
    def spent(self) -> SpentBudget | None:
        return None if self.dynamic is None else self.dynamic.spent

    def doubtful_cuts(self) -> int:
        """Entries cut by the dynamic screen but not by Algorithm 1, whose cuts need no check."""
        if self.dynamic is None:
            return 0
        safe = hybrid_partition(self.dynamic.pairs)
        pair_weights = self.problem.pair_weights
        return _n_inside(safe, pair_weights) - _n_inside(self.partition, pair_weights)

    def merge_violated(self, outcomes: list[Outcome]) -> bool:
        """Merge the pairs that fail the check; whether there were any."""
        if self.dynamic is None:
            return False
        penalty = self.problem.penalty
        found = [violated_pairs(o.system, o.result.theta, o.result.bounds, o.spent, penalty) for o in outcomes]
        i, j = (np.concatenate(part) for part in zip(*found, strict=True))
        if len(i):
            self.dynamic.merge(i, j)
        return bool(len(i))


def _n_inside(partition: Partition, pair_weights: PairWeights | None) -> int:
    """Number of entries i < j inside the blocks, without the forbidden ones."""
    sizes = map(partition.block_sizes, range(partition.n_classes))
    inside = sum(int((size * (size - 1) // 2).sum()) for size in sizes)
    if pair_weights is None:
        return inside
    i, j = pair_weights.forbidden
    return inside - int((partition.labels[:, i] == partition.labels[:, j]).sum())


def _method(solver: str | GroupSolver) -> GroupSolver:
    if isinstance(solver, str):
        return SOLVERS[check_choice("solver", solver, SOLVERS)]()
    if not hasattr(solver, "solve") or isinstance(solver, type):
        check_choice("solver", solver, SOLVERS)
    return solver


def _warm_matrices(problem: JointProblem, warm_start: Solution | Sequence[Any] | None) -> list[Any] | None:
    if warm_start is None:
        return None
    matrices = warm_start.precision if isinstance(warm_start, Solution) else warm_start
    return check_warm_start(matrices, problem.source.n_classes, problem.source.n_variables)


def _lay_out(partition: Partition, method: GroupSolver) -> tuple[ClassBlocks, list[IntArray]]:
    """Blocks to be solved, and for each class the variables left out because they are alone."""
    blocks = class_blocks(partition.labels, smallest=1) if method.include_isolated else partition.class_blocks
    inside = np.zeros(partition.labels.shape, dtype=bool)
    inside[np.repeat(blocks.block_class, blocks.sizes), blocks.members] = True
    return blocks, [np.flatnonzero(~row) for row in inside]


def _certify(
    problem: JointProblem, runner: GroupRunner, outcomes: list[Outcome], screen: _Screen
) -> tuple[Certificate, bool]:
    """Add up the groups' gaps; entries outside the blocks are proved zero by the screen, if that is proved right.

    Also whether it is.
    """
    penalty = problem.penalty
    proved = not any(len(groups_with_unproved_cuts(o.system, o.result.bounds, o.spent, penalty)) for o in outcomes)
    bounds = [o.result.bounds if proved else _bounds_of_whole(problem, o) for o in outcomes]
    gap = math.fsum(b.total_gap for b in bounds)
    # Unless the cuts are proved, groups may yet be tied together, and only the gap of the whole bounds anything.
    radii = [b.gap if proved else np.full_like(b.gap, gap) for b in bounds]
    counts = [
        count_certain_edges(o.system, o.result.theta, b.dual, radius, penalty, cuts_proved=proved)
        for o, b, radius in zip(outcomes, bounds, radii, strict=True)
    ]
    n_classes, p = problem.source.n_classes, problem.source.n_variables
    screened = n_classes * p * (p - 1) // 2 - sum(len(o.system.upper) for o in outcomes)
    doubtful = 0 if proved else screen.doubtful_cuts()
    group_gaps = np.zeros(runner.blocks.n_groups)
    for groups, b in zip(runner.items, bounds, strict=True):
        group_gaps[groups] = b.gap
    certificate = Certificate(
        objective=runner.settled + math.fsum(b.total_objective for b in bounds),
        gap=gap,
        group_gaps=group_gaps[runner.blocks.by_cost],
        edges_present=sum(count.present for count in counts),
        edges_absent=sum(count.absent for count in counts) + screened - doubtful,
        edges_undetermined=sum(count.undetermined for count in counts) + doubtful,
    )
    return certificate, proved


def _bounds_of_whole(problem: JointProblem, outcome: Outcome) -> Bounds:
    """Bounds by a dual point that respects the pairs cut by a dynamic screen."""
    return bound_groups(
        outcome.system,
        outcome.result.theta,
        problem.penalty,
        problem.diagonal_penalty,
        spent=outcome.spent,
        rescue=True,
    )


_GO_ON = "Solve again with warm_start=this solution to go on."
_REMEDIES = {
    "interrupt": _GO_ON,
    "callback": _GO_ON,
    "max_iter": "Raise max_iter, warm-start from this solution, raise lambda1, or accept the gap by raising tol.",
    "paper's rule": 'Use stopping="gap" to reach the tolerance.',
    "rounding": "The limit of double precision is reached: raise tol, or rescale badly scaled data.",
    "tolerance": "The groups met their limits but not their sum: solve again with warm_start=this solution.",
}


def _status(final: _Final, options: Options) -> Status:
    certificate, n_iter = final.certificate, final.n_iter
    reached = f"relative duality gap {certificate.relative_gap:.1e}, tolerance {options.tol:.1e}"
    if certificate.relative_gap <= options.tol:
        return Status(True, f"Converged after {n_iter} iterations: {reached}.")
    ended = {o.result.stopped_by for o in final.outcomes} | {options.control.stopped_by}
    why = next(reason for reason in _REMEDIES if reason in ended)
    return Status(False, f"Stopped by {why} after {n_iter} iterations: {reached}.", _REMEDIES[why])


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

    def move(self, source: str, target: str, seconds: float) -> None:
        """Count time measured inside one stage towards another."""
        moved = min(seconds, self.seconds[source])
        self.seconds[source] -= moved
        self.seconds[target] += moved

    def read(self) -> dict[str, float]:
        return {**self.seconds, "total": time.perf_counter() - self.began}
