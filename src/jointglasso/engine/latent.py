"""Latent variables: the sparse plus low-rank model ``Theta = A - L``, from a solution without latent variables."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jointglasso._memory import available_memory
from jointglasso._threads import blas_threads_for, cores_here
from jointglasso.blocks import BlockSystem, build_system
from jointglasso.data.checks import InputError, check_positive
from jointglasso.duality import subgradient_within
from jointglasso.engine.nonzeros import Nonzeros, flat_from_precisions, sparse_matrices
from jointglasso.engine.options import RunnerOptions
from jointglasso.engine.planning import NotEnoughMemory
from jointglasso.engine.progress import Clock
from jointglasso.engine.runner import status_of
from jointglasso.engine.task_result import edge_clusters_of
from jointglasso.errors import argument
from jointglasso.penalties import SafeRegion
from jointglasso.problem import JointProblem
from jointglasso.rounding import rounded_bounds
from jointglasso.screening import Partition
from jointglasso.screening.groups import class_blocks
from jointglasso.solution import Certificate, History, LowRank, Solution
from jointglasso.solvers.latent import LatentPoint, LatentProblem, low_rank_is_zero, solve_latent

#: Bytes per entry of the full matrices; and the default limit on ADMM iterations.
_BYTES_PER_ENTRY, _MAX_ITER = 500.0, 20_000

#: Solves of the bisection for a given rank.
_MAX_BISECTIONS = 40

#: Radius of the entries of A: the gap does not bound them.
_NO_BOUND = 1e100


def check_latent(problem: JointProblem, mu: Any, rank: Any) -> tuple[float | None, int | list[int] | None]:
    """Validate the arguments `latent` and `latent_rank`; refuse problems that latent variables do not support."""
    if mu is None and rank is None:
        return None, None
    if mu is not None and rank is not None:
        raise InputError("latent_rank= finds the mu that latent= gives: leave one of them out.", "latent_rank")
    if problem.source.absent is not None:
        raise InputError(
            "latent= needs every variable in every class: drop the variables that a class lacks, or leave latent out.",
            "latent",
        )
    if problem.penalty.fused_diagonal_penalty is not None:
        raise InputError("latent= does not go with fuse_diagonal=True: give one of them.", "latent")
    n_classes, p = problem.source.n_classes, problem.source.n_variables
    needed = _BYTES_PER_ENTRY * n_classes * float(p) ** 2
    available = available_memory()
    if available is not None and needed > available:
        raise NotEnoughMemory(
            f"latent= works on whole matrices and needs about {needed / 2**30:.1f} GiB for {p} variables; "
            f"{available / 2**30:.1f} GiB are available: take fewer variables, or leave latent out."
        )
    if mu is not None:
        return check_positive("latent", mu), None
    return None, _checked_rank(rank, n_classes, p)


def with_rank(
    problem: JointProblem, plain: Solution, rank: int | Sequence[int], options: RunnerOptions, clock: Clock
) -> Solution:
    """Solution whose low-rank parts have `rank` latent variables over all classes, or rank[k] in class k.

    The rank falls with mu, though not in every step. mu is halved from where L = 0 until there are enough latent
    variables, and then bisected on a logarithmic scale, each solve from the one before.
    """
    wanted, by_class = (rank, None) if isinstance(rank, int) else (sum(rank), list(rank))
    too_few, too_many, tried, found = _largest_mu(problem, plain), 0.0, dict[float, list[int]](), plain
    while len(tried) < _MAX_BISECTIONS and too_few > (1.0 + 1e-6) * too_many:
        mu = float(np.sqrt(too_few * too_many)) if too_many else 0.5 * too_few
        found = with_latent(problem, plain, mu, options, clock, start=found)
        ranks = tried[mu] = [] if found.low_rank is None else found.low_rank.ranks
        if options.control.stopped_by or (sum(ranks) == wanted and by_class in (None, ranks)):
            return found
        if sum(ranks) >= wanted:
            too_many = mu
        else:
            too_few = mu
    first = {tuple(ranks): mu for mu, ranks in tried.items()}
    nearest = sorted(first, key=lambda ranks: abs(sum(ranks) - wanted))[:3]
    ranks_of = "; ".join(f"{list(ranks)} at mu = {first[ranks]:.4g}" for ranks in nearest)
    raise InputError(
        f"{argument('latent_rank', rank)}: no penalty mu gives low-rank parts of this rank at these lambda1 and "
        f"lambda2; the nearest ranks by class are {ranks_of}. Ask for one of these, or give another lambda1.",
        "latent_rank",
    )


def _checked_rank(rank: Any, n_classes: int, n_variables: int) -> int | list[int]:
    """Return the rank over all classes, or the ranks by class; InputError if none is above 0, or one is p or more."""
    try:
        ranks = [operator.index(one) for one in (rank if isinstance(rank, (list, tuple, np.ndarray)) else [rank])]
    except TypeError:
        ranks = []
    by_class = isinstance(rank, (list, tuple, np.ndarray))
    most = n_variables - 1 if by_class else n_classes * (n_variables - 1)
    if len(ranks) != (n_classes if by_class else 1) or not sum(ranks) or not 0 <= min(ranks) <= max(ranks) <= most:
        raise InputError(
            f"{argument('latent_rank', rank)} must be a whole number from 1 on, the rank over all classes, or a list "
            f"of {n_classes} whole numbers below {n_variables}, one for each class.",
            "latent_rank",
        )
    return ranks if by_class else ranks[0]


def _largest_mu(problem: JointProblem, plain: Solution) -> float:
    """Estimate of the smallest mu without latent variables: the largest eigenvalue of ``w_k (S_k - W_k)``."""
    p = problem.source.n_variables
    largest = 0.0
    for k, (weight, Theta) in enumerate(zip(problem.weights, plain.precision, strict=True)):
        excess = problem.source.block(k, np.arange(p)) - np.linalg.inv(Theta.toarray())
        largest = max(largest, weight * float(np.linalg.eigvalsh(excess)[-1]))
    return max(largest, 1e-12)


def with_latent(
    problem: JointProblem,
    plain: Solution,
    mu: float,
    options: RunnerOptions,
    clock: Clock,
    start: Solution | None = None,
) -> Solution:
    """The solution with latent variables, from the one without; the two are equal if L = 0 is certified.

    `start` is a solution at another mu to start from.
    """
    p, coupled = problem.source.n_variables, problem.penalty.coupling
    plain = replace(plain, parameters=plain.parameters | {"latent": mu})
    labels = np.zeros((problem.source.n_classes, p), dtype=np.int64)
    blocks = class_blocks(labels, smallest=1, coupled=coupled)
    with clock.stage("covariance"):
        system = build_system(problem.source, blocks, problem.weights, problem.pair_weights, cores_here())
    latent = LatentProblem(system, problem.penalty, problem.diagonal_penalty, mu)
    theta = flat_from_precisions(system, plain.precision, p)
    nothing = [np.zeros((p, 0))] * system.n_blocks
    point = theta, nothing
    if start is not None and (low_rank := start.low_rank) is not None:
        point = flat_from_precisions(system, start.precision, p), [low_rank.factors[k] for k in system.block_class]
    with clock.stage("certificate"), blas_threads_for(p):
        bounds = rounded_bounds(system, theta, problem.penalty, problem.diagonal_penalty, scale_to_feasible=True)
        none = low_rank_is_zero(latent, bounds.dual, bounds.total_gap)
    if none or options.control.stopped_by is not None:
        return replace(plain, low_rank=LowRank(mu, nothing, proved_zero=none))
    control = options.control
    limit = options.max_iter if options.max_iter != options.method.default_max_iter else _MAX_ITER
    with clock.stage("solve"), blas_threads_for(p), control.interruptible():
        found, n_iter, ended = solve_latent(
            latent, point, lambda objective: options.tol * max(problem.unit, abs(objective)), limit, control.record
        )
    n_iter += plain.n_iter
    certificate = _certificate(problem, system, found)
    precision, certified = sparse_matrices(problem, [Nonzeros.of(system, found.A)], np.zeros(labels.shape, dtype=bool))
    by_class = [found.factors[block] for block in np.argsort(system.block_class)]
    return replace(
        plain,
        precision=precision,
        objective=certificate.objective,
        certificate=certificate,
        partition=Partition(labels, coupled),
        status=status_of(certificate, n_iter, {ended}, options, problem.weights),
        n_iter=n_iter,
        timings=clock.read(),
        history=History(control.history),
        methods={"admm": 1},
        certified=certified,
        edge_clusters=edge_clusters_of(problem, precision, []),
        low_rank=LowRank(mu, by_class),
    )


def _certificate(problem: JointProblem, system: BlockSystem, point: LatentPoint) -> Certificate:
    """Certificate: the gap, and entries of A that are zero because the dual point is in the interior of its ball.

    The gap bounds the error of Theta = A - L, but not of A: no entry of A is certified to be non-zero.
    """
    dual = point.dual.copy()
    dual[system.diagonal] = system.optimal_variance(problem.diagonal_penalty)  # the optimal value, as without L
    u, radius = subgradient_within(system, dual, np.full(system.n_groups, point.gap), problem.penalty)
    entries = system.gather(point.A)
    anywhere = np.full(len(entries), _NO_BOUND)
    absent = problem.penalty.certified_zeros(SafeRegion(entries, u, radius, anywhere), system.entries(problem.penalty))
    n_absent = int((absent & (entries == 0.0)).sum()) if np.isfinite(point.gap) else 0
    forbidden = len(system.forbidden) // 2
    return Certificate(
        objective=point.objective,
        gap=point.gap,
        group_gaps=np.array([point.gap]),
        edges_present=0,
        edges_absent=n_absent + forbidden,
        edges_undetermined=len(entries) - n_absent,
        rounding=point.rounding,
        unit=problem.unit,
    )
