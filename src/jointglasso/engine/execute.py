"""`solve`: screen, solve the groups, recheck the screened-out entries, certify, assemble."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from jointglasso._threads import blas_threads_for
from jointglasso._typing import BoolArray
from jointglasso.data.checks import InputError, check_path, check_warm_start, known_arguments
from jointglasso.engine.certify import certify
from jointglasso.engine.checkpoint import Checkpoint
from jointglasso.engine.latent import check_latent, with_latent, with_rank
from jointglasso.engine.nonzeros import sparse_matrices
from jointglasso.engine.options import RunnerOptions, SolveOptions, require_suited
from jointglasso.engine.planning import check_memory, out_of_memory
from jointglasso.engine.progress import Clock
from jointglasso.engine.reweighting import reweight
from jointglasso.engine.runner import GroupRunner, status_of
from jointglasso.engine.screening import Screen
from jointglasso.engine.task_result import TaskResult, edge_clusters_of, isolated_objective
from jointglasso.engine.tasks import WarmStart
from jointglasso.errors import warn_caller
from jointglasso.penalties.shapes import Shape, as_shape
from jointglasso.problem import JointProblem
from jointglasso.screening import Partition
from jointglasso.screening.groups import ClassBlocks
from jointglasso.screening.pairs import PairTable
from jointglasso.solution import Callback, Certificate, ConvergenceWarning, History, Solution
from jointglasso.solvers import GroupSolver


@known_arguments()
def solve(
    S: Any,
    lambda1: float,
    lambda2: float,
    *,
    penalty: str = "group",
    class_graph: Any = None,
    weights: Any = None,
    penalize_diagonal: bool = True,
    fuse_diagonal: bool = False,
    pair_weights: Any = None,
    coupling_weights: Any = None,
    penalty_shape: str | None = None,
    shape_parameter: float | None = None,
    latent: float | None = None,
    latent_rank: int | Sequence[int] | None = None,
    screening: str = "dynamic",
    solver: str | GroupSolver = "auto",
    tol: float = 1e-6,
    prove: bool = False,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    warm_start: Solution | Sequence[Any] | None = None,
    callback: Callback | None = None,
    on_interrupt: str = "raise",
    checkpoint: str | os.PathLike[str] | None = None,
    max_memory: float | None = None,
    executor: Any = None,
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
    penalty : {"group", "maximum", "common", "fused", "chain", "graph", "laplacian"}
        How the classes are coupled: "group" favours a common support, "maximum" does so by the largest entry of each
        pair, "common" divides each network into one that all classes share and one of its own (Hara and Washio 2013),
        "fused" favours equal values in all classes, "chain" equal values in consecutive classes, "graph" equal
        values in neighbours of `class_graph`, and "laplacian" similar values in neighbours.
    class_graph : array (K, K), list, dict or str, optional
        For "graph" and "laplacian", which classes are neighbours: an array of weights, edges such as ``[("control",
        "a"), ("control", "b", 0.5)]``, a dict ``{("control", "a"): 1.0}`` or ``{"control": ["a", "b"]}``. A list of all
        classes is a chain in that order, as "chain" takes it; without it "chain" and "laplacian" go by the order of the
        data. "sample_size" with "fused" compares two classes in proportion to the product of their sample sizes.
    weights : None, "equal", "sample_size", array (K,) or dict, optional
        Weight of each class in the likelihood; equal by default.
    penalize_diagonal : bool, default True
        As in the paper; False is the convention of JGL and GGLasso.
    fuse_diagonal : bool, default False
        Whether "fused", "chain" and "graph" compare the diagonals of the classes, too: the convention of JGL's fused
        penalty. Classes are then coupled at every variable, and the groups are solved by ADMM and Newton's method.
    pair_weights : array (p, p), sparse matrix, dict or PairWeights, optional
        Factor on the penalty of each pair of variables, 1 by default: below 1 where prior knowledge supports an edge,
        0 to leave it unpenalised, above 1 where it is against one, ``inf`` to forbid it. An array is symmetric and its
        diagonal is ignored; of a sparse matrix the stored entries count, zeros included, in one triangle or both; a
        dict has the form ``{(variable, variable): weight}`` with names or indices. A list or dict of such tables, one
        for each class, weighs the L1 part class by class: ``lambda1 sum_k a_k,ij |theta_k,ij|``.
    coupling_weights : array (p, p), sparse matrix, dict or PairWeights, optional
        Factor on the term that couples the classes, for each pair, finite. By default it is `pair_weights` where one
        table is for all classes, and 1 where each class has its own; given, `pair_weights` weighs the L1 part only.
    penalty_shape : {"adaptive", "scad", "mcp", "log", "sqrt", "atan"}, optional
        Concave function of the penalty of each pair, which shrinks strong edges less: one to five further convex solves
        with pair weights from the solve before (local linear approximation). The certificate is that of the last
        convex problem; `Solution.parameters` has the concave objective of each step, which does not increase, and the
        certified stationarity gap. "sqrt" with lambda2 = 0 is the penalty of Guo et al. (2011).
    shape_parameter : float, optional
        Size of an edge, in units of lambda1 + lambda2, beyond which it is penalised less: 3.7 for "scad", 3 for "mcp",
        1 for the others by default.
    latent : float, optional
        Penalty mu on latent variables: the precision matrices of what was measured are ``Theta_k = A_k - L_k``, L_k
        being positive semidefinite, the penalties act on A_k, and ``mu sum_k tr L_k`` is added. `Solution.precision` is
        then A_k, the network given the latent variables, and `Solution.low_rank` is L_k. The problem is first solved
        without them; if the gap certifies L = 0, this is the solution. Otherwise ADMM on full matrices follows.
    latent_rank : int or list of K ints, optional
        Number of latent variables instead of `latent`: over all classes together, or in each class. mu is found by
        bisection and is ``Solution.low_rank.mu``; InputError names the nearest ranks if no mu gives this one.
    screening : {"dynamic", "hybrid", "global", "class", "none"}
        Rule that finds zero entries before solving. All are exact. "hybrid" is the paper's Algorithm 1; "dynamic" is
        finer still: it starts from a finer partition and merges blocks only where the solution violates KKT.
    solver : {"auto", "newton", "proximal_gradient", "admm"} or solver object
        Method, by name or as an object with options, such as ``jointglasso.ADMM(rho=0.1, relaxation=1.0)``. "auto"
        uses the closed form where it is exact, column sweeps otherwise, proximal Newton where these leave a gap, and
        ADMM for dense groups.
    tol : float, default 1e-6
        Relative duality gap of the full problem: gap <= tol * max(mean weight, abs(objective)).
    prove : bool, default False
        Continue after convergence until the gap certifies every edge, as far as `max_iter` and the arithmetic permit
        (single precision in large groups); `Certificate.edge_gap` is the gap that the weakest edge needs.
    max_iter : int, optional
        Limit on the iterations; the default depends on the solver.
    n_jobs : int, optional
        Independent groups solved at the same time, on threads; -1 for as many as there are cores. By default one at a
        time, each free to use all cores. Screening always uses all cores, and ADMM takes all groups together.
    warm_start : Solution or sequence of K matrices, optional
        Positive definite matrices to start from, such as the solution at nearby penalties.
    callback : callable, optional
        Called with an `Iteration` after each iteration, and again when a task is finished; a true return value stops
        the solve.
    on_interrupt : {"raise", "return"}
        On Ctrl-C raise KeyboardInterrupt, or return the current iterate with its duality gap.
    checkpoint : path, optional
        Folder for the results of finished tasks and, twice a minute, snapshots of running ones. The same call after an
        interrupt of any kind resumes from there; a folder of another problem is refused. If writing fails, there is a
        warning and the solve continues.
    max_memory : float, optional
        Bytes that the solve may use beyond its input, on each machine that it runs on; by default the free memory.
        Fewer groups are then solved at a time; a solve that would still need more is refused at once, with the
        penalties that would fit.
    executor : None, "threads" or object with ``submit``, optional
        Executor of the independent groups: threads of this process, `n_jobs` at a time, by default; else any executor
        of `concurrent.futures`, such as a ProcessPoolExecutor. Only the blocks of a group are sent to its worker. The
        solution is the same; callback and progress are called when a task is finished.

    Returns
    -------
    Solution
        Sparse precision matrices with their certificate.

    Warns
    -----
    ConvergenceWarning
        The gap reached is larger than `tol`; the solution carries the gap it has.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> solution = jgl.solve(S, lambda1=0.1, lambda2=0.1)
    >>> solution.precision[0].toarray().round(3)
    array([[ 0.993, -0.288],
           [-0.288,  0.993]])
    >>> solution.status.converged, bool(solution.certificate.relative_gap < 1e-6)
    (True, True)
    """
    options = SolveOptions(
        penalty, class_graph, weights, penalize_diagonal, fuse_diagonal, pair_weights, coupling_weights, penalty_shape,
        shape_parameter, latent, latent_rank, screening, solver, tol, prove, max_iter, n_jobs, warm_start, callback,
        on_interrupt, checkpoint, max_memory, executor,
    )  # fmt: skip
    return solve_with(S, lambda1, lambda2, options)


def solve_with(S: Any, lambda1: float, lambda2: float, options: SolveOptions) -> Solution:
    """`solve` with its options as one object."""
    clock = Clock()
    runner = options.runner()
    with clock.stage("covariance"):
        problem = options.problem(S, lambda1, lambda2)
        shape = as_shape(options.penalty_shape, options.shape_parameter)
        mu, rank = check_latent(problem, options.latent, options.latent_rank)
        if shape is not None and not mu is rank is None:
            raise InputError("penalty_shape= does not go with latent variables: leave it out.", "penalty_shape")
        start = _warm_start(problem, options.warm_start)
        folder = check_path("checkpoint", options.checkpoint)
        if folder is not None:
            runner = replace(runner, checkpoint=Checkpoint(folder, problem))
    if shape is None:
        solution = solve_problem(problem, runner, start, clock)
    else:
        solution = solve_shaped(problem, shape, runner, start, clock)
    if mu is not None:
        solution = with_latent(problem, solution, mu, runner, clock)
    elif rank is not None:
        solution = with_rank(problem, solution, rank, runner, clock)
    if not solution.status:
        warn_caller(str(solution.status), ConvergenceWarning)
    return solution


def solve_shaped(
    problem: JointProblem,
    shape: Shape | None,
    options: RunnerOptions,
    start: WarmStart | None,
    clock: Clock,
    pairs: PairTable | None = None,
) -> Solution:
    """`solve_problem`, repeated with other pair weights where the penalty has a concave `shape`."""

    def convex(weighted: JointProblem, first: WarmStart | None) -> Solution:
        if weighted is problem:
            return solve_problem(problem, options, first, clock, pairs)
        return solve_problem(weighted, replace(options, checkpoint=None), first, clock)

    return convex(problem, start) if shape is None else reweight(problem, shape, start, convex, options.tol)


def solve_problem(
    problem: JointProblem,
    options: RunnerOptions,
    start: WarmStart | None,
    clock: Clock,
    pairs: PairTable | None = None,
) -> Solution:
    """Screen, solve, certify, assemble; `pairs` is the scan of the covariances, if already done."""
    require_suited(options.method, problem.penalty)
    screen, final, n_iter = None, None, 0
    try:
        with clock.stage("screening"):
            screen = Screen(problem, options.screening, pairs, options.executor)
        with options.control.interruptible():
            while final is None:
                final, start, n_iter = _solve_round(problem, screen, options, start, clock, n_iter)
    except MemoryError as error:
        raise out_of_memory(problem, screen, options.method, error) from None
    outcomes, certificate, precision, certified = final
    return Solution(
        precision=precision,
        objective=certificate.objective,
        certificate=certificate,
        partition=screen.partition,
        status=status_of(certificate, n_iter, {o.stopped_by for o in outcomes}, options, problem.weights),
        n_iter=n_iter,
        timings=clock.read(),
        history=History(options.control.history),
        solver=options.method.name,
        screening=options.screening,
        methods=dict(Counter(chain.from_iterable(o.methods for o in outcomes))),
        class_names=problem.source.class_names,
        variable_names=problem.source.variable_names,
        certified=certified,
        parameters=_parameters(problem, options),
        edge_clusters=edge_clusters_of(problem, precision, [outcome.certified_equal for outcome in outcomes]),
        absent=screen.absent,
    )


def _solve_round(
    problem: JointProblem, screen: Screen, options: RunnerOptions, start: WarmStart | None, clock: Clock, n_iter: int
) -> tuple[tuple[list[TaskResult], Certificate, list[Any], list[Any]] | None, WarmStart, int]:
    """Solve the groups of the current partition and check KKT at the screened-out entries.

    Results, certificate, precision matrices and masks of certified entries, or None if violations were merged; start of
    the next round; iterations of all rounds.
    """
    blocks, isolated = _blocks_to_solve(screen.partition, options.method)
    with clock.stage("screening"):
        memory = check_memory(problem, screen, blocks, options)
    with blas_threads_for(screen.partition.largest):
        with clock.stage("solve"):
            isolated_value = isolated_objective(problem, isolated)
            runner = GroupRunner(problem, blocks, isolated_value, options, screen, start, memory, n_iter=n_iter)
            outcomes = runner.run()
        clock.move("solve", "covariance", runner.covariance_seconds)
        n_iter = runner.n_iter
        stop, proof = options.control.stopped_by is not None or not options.remaining(n_iter), None
        if not stop and any(o.is_big for o in outcomes):
            # Another round takes minutes. The gap includes the violations, which may be within the tolerance.
            with clock.stage("certificate"):
                proof = certify(problem, runner, outcomes, screen)
            stop = proof[1].relative_gap <= options.tol
        with clock.stage("screening"):
            merged = not stop and screen.merge([o.violated for o in outcomes])
        with clock.stage("certificate"):
            if not merged and proof is None:
                proof = certify(problem, runner, outcomes, screen)
            results = outcomes if merged or proof is None else proof[0]
            precision, certified = sparse_matrices(problem, [o.nonzeros for o in results], isolated)
    kept = {o.number: o.cached_blocks.point for o in results if o.cached_blocks is not None}
    points = {number: point for number, point in kept.items() if point is not None}
    final = None if merged or proof is None else (*proof, precision, certified)
    return final, WarmStart(precision, trusted=True, points=points), n_iter


def _parameters(problem: JointProblem, options: RunnerOptions) -> dict[str, Any]:
    sizes = problem.source.sample_sizes
    return {
        **problem.penalty.parameters(),
        "weights": problem.weights.tolist(),
        "penalize_diagonal": problem.penalize_diagonal,
        "tol": options.tol,
        "sample_sizes": None if sizes is None else [int(n) for n in sizes],
        "pair_weights": 0 if problem.pair_weights is None else len(problem.pair_weights),
    }


def _warm_start(problem: JointProblem, warm_start: Solution | Sequence[Any] | None) -> WarmStart | None:
    if warm_start is None:
        return None
    matrices = warm_start.precision if isinstance(warm_start, Solution) else warm_start
    checked = check_warm_start(matrices, problem.source.class_names, problem.source.n_variables)
    return WarmStart(checked, trusted=False)  # a Solution may come from a file, or from another problem


def _blocks_to_solve(partition: Partition, method: GroupSolver) -> tuple[ClassBlocks, BoolArray]:
    """Blocks to be solved, and a mask (K, p) of the singletons, which have a closed form."""
    blocks = partition.blocks_from(1) if method.include_isolated else partition.class_blocks
    isolated = np.ones(partition.labels.shape, dtype=bool)
    isolated[blocks.member_class, blocks.members] = False
    return blocks, isolated
