"""What a solve from samples will take on a cluster, foretold from a few tiles and a few groups that are done here.

A scan of all pairs of a million variables takes a core hours, so it is not done for the plan. A few tiles of it, drawn
at random, are timed. So are a few groups: those of some variables drawn at random, found by following their
strong pairs and solved through an executor that keeps apart what a worker does and what the calling process does.
"""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso import config
from jointglasso._display import ReprMixin, readable_bytes, readable_seconds
from jointglasso._threads import available_cores, map_on_threads, single_threaded_blas
from jointglasso._typing import FloatArray, IntArray
from jointglasso.data import SampleCovariance
from jointglasso.data.checks import InputTypeError
from jointglasso.penalties import UNIFORM
from jointglasso.problem import JointProblem
from jointglasso.screening.pairs import TileScan, scan_tile_range, tile_ranges

#: Runs of tiles for each core and their length, variables that are drawn, variables of a group that is followed no
#: further.
_RUNS, _RUN, _SEEDS, _FOLLOWED = 8, 8, 60, 2000

#: Bytes a second from one machine to another, once packed: 10 Gbit/s.
NETWORK = 1e9


@dataclass(frozen=True)
class ClusterSize:
    """Workers like the machine that plans."""

    workers: int
    cores: int
    """Threads of each worker."""
    memory: float | None
    """Bytes that each worker has, where that was said."""


@dataclass(frozen=True, repr=False)
class ClusterPlan(ReprMixin):
    """What a solve will take on a cluster.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> source = jgl.SampleCovariance([np.random.default_rng(0).normal(size=(50, 40))], scale="correlation")
    >>> planned = jgl.plan(source, 0.5, 0.1, workers=4)
    >>> planned.size.workers, planned.scan_seconds > 0
    (4, True)
    """

    size: ClusterSize
    send_seconds: float
    """Giving the samples to every worker, over a network of 10 Gbit/s unless workers read them from files."""
    scan_seconds: float
    """Looking at all pairs, on all workers."""
    solve_seconds: float
    """Solving the groups, on all workers; not less than the largest of them takes."""
    own_seconds: float
    """What the calling process does meanwhile or between: cutting out blocks, packing, proving, assembling."""
    worker_memory: float
    """Bytes needed by each worker."""
    own_memory: float
    """Bytes needed by the calling process, beyond the samples."""
    n_pairs: float
    """Pairs above the threshold that travel back, about."""
    largest_group: int
    """Variables of the largest group among those that were looked at."""
    followed_to_its_end: bool
    """False where a group was too big to be looked at: then it decides, and this plan knows too little."""

    @property
    def seconds(self) -> float:
        """Estimated seconds in all."""
        return self.send_seconds + self.scan_seconds + max(self.solve_seconds, self.own_seconds)

    @property
    def fits(self) -> bool:
        """Whether each worker has the memory it needs, as far as was said."""
        return self.size.memory is None or self.worker_memory <= self.size.memory

    def _parts(self) -> list[Any]:
        cores = "" if self.size.cores == 1 else f" with {self.size.cores} threads each"
        too_little = "" if self.fits else f"too little: it has {readable_bytes(self.size.memory or 0.0)}"
        rows = [
            ("samples to the workers", readable_seconds(self.send_seconds), ""),
            ("scan for pairs", readable_seconds(self.scan_seconds), f"{self.n_pairs:.2g} pairs come back"),
            ("groups, on the workers", readable_seconds(self.solve_seconds), f"largest seen: {self.largest_group}"),
            ("groups, calling process", readable_seconds(self.own_seconds), ""),
            ("memory of a worker", readable_bytes(self.worker_memory), too_little),
            ("memory, calling process", readable_bytes(self.own_memory), "beyond the samples"),
        ]
        far = f"A group of more than {_FOLLOWED} variables was met: raise the penalties, or expect more."
        return [
            f"{self.size.workers} workers{cores}: about {readable_seconds(self.seconds)}",
            dict(zip(("part", "takes", ""), zip(*rows, strict=True), strict=True)),
            *([] if self.followed_to_its_end else [far]),
        ]


def plan_on_cluster(
    problem: JointProblem,
    size: ClusterSize,
    solve: Callable[[SampleCovariance, Any], Any],
    memory_of_groups: Callable[[Any], float],
) -> ClusterPlan:
    """Time some tiles and some groups here, and count how many of them there are."""
    source = problem.source
    if not isinstance(source, SampleCovariance):
        raise InputTypeError(
            "A plan for workers is made from samples: give a SampleCovariance, or leave out workers.", "workers"
        )
    draw = np.random.default_rng(0)  # the same plan every time
    scan = _timed_tiles(problem, draw)
    with single_threaded_blas():
        groups, whole = _groups_of(problem, draw)
        timed = _timed_groups(problem, groups, solve)
    n_concurrent = size.workers * size.cores
    pieces = max(1, len(tile_ranges(source)))
    rounds = 1 if pieces == 1 else math.ceil(pieces / n_concurrent)  # a short scan is done here
    numbers = float(source.n_variables) * float(np.asarray(source.sample_sizes).sum())
    sent = 0.0 if source.in_files else 8.0 * numbers
    return ClusterPlan(
        size=size,
        send_seconds=sent * (1.0 + math.log2(size.workers)) / NETWORK + _unpacking(source),
        scan_seconds=rounds * scan.seconds / pieces,
        solve_seconds=max(timed.worker / n_concurrent, timed.longest),
        own_seconds=timed.caller,
        worker_memory=20.0 * numbers + size.cores * memory_of_groups(timed.partition),
        own_memory=sent + scan.pairs * (40.0 + 20.0 * source.n_classes) + 100.0 * source.n_classes * source.n_variables,
        n_pairs=scan.pairs,
        largest_group=max(map(len, groups)),
        followed_to_its_end=whole,
    )


def _unpacking(source: SampleCovariance) -> float:
    """Seconds to pack the samples, and to unpack and scale them on a worker, told from some variables."""
    some = source.restricted_to(np.arange(min(2000, source.n_variables)))
    began = time.perf_counter()
    pickle.loads(pickle.dumps(some))
    return (time.perf_counter() - began) * source.n_variables / some.n_variables


def _timed_tiles(problem: JointProblem, draw: np.random.Generator) -> _Scan:
    """Time tiles on the diagonal, where neighbours meet that often belong together, and elsewhere.

    There a few tiles of a row in turn, as workers do them: tiles one by one took twice as long on sixteen cores. All
    cores work at a time, as those of a worker's machine will, which share its memory and its clock.
    """
    source: Any = problem.source
    scan = TileScan(source, problem.penalty, problem.weights, problem.pair_weights, False)
    n, n_cores = -(-source.n_variables // config.TILE), available_cores()
    first_of_row = np.concatenate([[0], np.cumsum(np.arange(n, 0, -1))])

    def look(tiles: tuple[int, int]) -> int:
        return len(scan_tile_range(tiles, scan)[0])

    seconds = pairs = 0.0
    for count, apart in ((n, 0), (n * (n - 1) // 2, 1)):
        if not count:
            continue
        runs = []
        for _ in range(_RUNS * n_cores):
            row, column = np.sort(draw.choice(n, 1 + apart, replace=False))[[0, -1]]
            begin = int(first_of_row[row] + column - row)
            runs.append((begin, min(begin + 1 + apart * (_RUN - 1), int(first_of_row[row + 1]))))
        map_on_threads(look, runs[:n_cores])  # warms up
        began = time.perf_counter()
        found = map_on_threads(look, runs)
        each = count / sum(end - begin for begin, end in runs)
        seconds += each * n_cores * (time.perf_counter() - began)
        pairs += each * sum(found)
    return _Scan(seconds, pairs)


def _groups_of(problem: JointProblem, draw: np.random.Generator) -> tuple[list[IntArray], bool]:
    """The groups of some variables, each once for every draw that met it; whether all were followed to their ends."""
    source: Any = problem.source
    deviation = [np.sqrt(source.diagonal(k)) for k in range(source.n_classes)]
    known: dict[int, IntArray] = {}
    groups, whole = [], True
    for seed in draw.integers(0, source.n_variables, _SEEDS):
        if int(seed) not in known:
            members, deferred = {int(seed)}, [int(seed)]
            while deferred and len(members) <= _FOLLOWED:
                front, deferred = np.array(deferred[:64]), deferred[64:]
                new = set(_neighbours(problem, deviation, front).tolist()) - members
                members |= new
                deferred += sorted(new)
            whole &= not deferred
            group = np.array(sorted(members), dtype=np.int64)
            known.update(dict.fromkeys(group.tolist(), group))
        groups.append(known[int(seed)])
    return groups, whole


def _neighbours(problem: JointProblem, deviation: list[FloatArray], front: IntArray) -> IntArray:
    """Variables with a strong pair among those of the front; rounding does not matter to a plan."""
    source: Any = problem.source
    values = []
    for k, spread in enumerate(deviation):
        U = source.unit_vectors(k)
        values.append(problem.weights[k] * (U[front] @ U.T) * spread[front][:, None] * spread)
    above = np.logical_or.reduce([np.abs(S) > problem.penalty.threshold(k) for k, S in enumerate(values)])
    i, j = np.nonzero(above)
    weighted = np.column_stack([S[i, j] for S in values]).astype(np.float64)
    factor = UNIFORM if problem.pair_weights is None else problem.pair_weights.factors(front[i], j)
    strong = problem.penalty.violates_global_condition(weighted, factor) & (front[i] != j)
    if len(factor):
        strong &= np.isfinite(factor)
    return np.unique(j[strong])


@dataclass(frozen=True)
class _Scan:
    """Seconds of a core for all tiles, and pairs in them."""

    seconds: float
    pairs: float


@dataclass(frozen=True)
class _Timed:
    """Seconds of all groups, told from those that were solved."""

    worker: float
    caller: float
    longest: float
    partition: Any


def _timed_groups(problem: JointProblem, groups: list[IntArray], solve: Callable[..., Any]) -> _Timed:
    """Solve the groups that were met, and count up: a group is met in proportion to its size.

    All of them less half of them is what groups take; what every solve takes, however small, would be counted up too.
    """
    source: Any = problem.source
    distinct = list({int(group[0]): group[:_FOLLOWED] for group in groups}.values())
    half = distinct[: (len(distinct) + 1) // 2]
    solve(source.restricted_to(np.concatenate(distinct)), _Apart())  # compiles, and touches what is slow at first
    all_own, all_worker, partition = _seconds(source.restricted_to(np.concatenate(distinct)), solve)
    if len(half) < len(distinct):
        own, worker, _ = _seconds(source.restricted_to(np.concatenate(half)), solve)
        counted = distinct[len(half) :]
        all_own, all_worker = max(0.0, all_own - own), max(0.0, all_worker - worker)
    else:
        counted = distinct
    cost = {int(group[0]): float(len(group)) ** 3 + 100.0 * len(group) for group in distinct}
    scale = all_worker / sum(cost[int(group[0])] for group in counted)
    # Among the variables met, and so among all, each one has its share of the time of its group.
    mean = float(np.mean([scale * cost[int(group[0])] / len(group) for group in groups]))
    return _Timed(
        worker=mean * source.n_variables,
        caller=all_own * source.n_variables / sum(map(len, counted)),
        longest=scale * max(cost.values()),
        partition=partition,
    )


def _seconds(source: SampleCovariance, solve: Callable[..., Any]) -> tuple[float, float, Any]:
    """Seconds of the calling process and of the worker, screening left out, and the partition; the best of three."""
    own, worker = np.inf, np.inf
    for _ in range(3):
        apart = _Apart()
        solution = solve(source, apart)
        worker = min(worker, apart.seconds)
        own = min(own, solution.timings["total"] - solution.timings["screening"] - apart.seconds)
    return float(own), worker, solution.partition


class _Apart:
    """An executor that packs, does the work at once, and knows how long that took."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        packed = pickle.dumps((function, arguments))
        began = time.perf_counter()
        function, arguments = pickle.loads(packed)
        result = pickle.dumps(function(*arguments))
        self.seconds += time.perf_counter() - began
        done: Future[Any] = Future()
        done.set_result(pickle.loads(result))
        return done
