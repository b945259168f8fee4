"""Strong scaling of `select` and of one solve: threads, processes and Dask workers beside one core.

    python benchmarks/scaling.py --workers 2 --variables 500

Every way is timed in turn, several times over; the fastest time of each counts. Efficiency is the time on one core
divided by the time with so many workers, and by their number. All ways must give the same bits, or the script fails.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

import jointglasso as jgl


@contextmanager
def ways(n_workers: int) -> Iterator[dict[str, dict[str, Any]]]:
    """Arguments of each way of doing the work."""
    from distributed import Client, LocalCluster

    context = multiprocessing.get_context("spawn")
    options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}
    with (
        ProcessPoolExecutor(n_workers, mp_context=context) as pool,
        LocalCluster(**options) as cluster,
        Client(cluster) as client,
    ):
        yield {
            "one core": {"n_jobs": 1},
            f"{n_workers} threads": {"n_jobs": n_workers},
            f"{n_workers} processes": {"executor": pool},
            f"{n_workers} Dask workers": {"executor": client},
        }


def selection(p: int) -> Callable[..., Any]:
    """`select` over a 10 x 5 grid with 5 folds."""
    data = jgl.datasets.make_joint_ggm("modules", p, 2, n_samples=100, n_blocks=p // 20, random_state=0)
    X = {f"class {k}": samples for k, samples in enumerate(data.samples)}
    source = jgl.SampleCovariance(list(data.samples), correlation=True)
    grid = jgl.lambda_grid(source, n_lambdas=10, min_ratio=0.3)
    return lambda **how: jgl.select(X, criterion="cv", cv=5, grid=grid, random_state=0, **how).records["score"]


def solves(p: int) -> Callable[..., Any]:
    """One solve with many groups of some size."""
    draw = np.random.default_rng(0)
    common = [draw.standard_normal((100, p // 50)).repeat(50, axis=1) for _ in range(2)]
    source = jgl.SampleCovariance([draw.standard_normal((100, p)) + 1.2 * f for f in common], correlation=True)
    return lambda **how: jgl.solve(source, 0.42, 0.05, **how).objective


@contextmanager
def cores_for(label: str) -> Iterator[None]:
    """Hold this process to one core where one is measured; a single solve would use them all."""
    allowed = os.sched_getaffinity(0)
    if label == "one core":
        os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def measure(name: str, work: Callable[..., Any], how: dict[str, dict[str, Any]], repeats: int) -> None:
    """Time every way in turn, and say what it gained."""
    answers = {label: work(**arguments) for label, arguments in how.items()}  # and everything is compiled
    first = next(iter(answers.values()))
    different = [label for label, answer in answers.items() if not np.array_equal(answer, first, equal_nan=True)]
    if different:
        raise SystemExit(f"{name}: {different} give other numbers than one core")
    seconds: dict[str, list[float]] = {label: [] for label in how}
    for _ in range(repeats):
        for label, arguments in how.items():
            with cores_for(label):
                began = time.perf_counter()
                work(**arguments)
                seconds[label].append(time.perf_counter() - began)
    alone = min(next(iter(seconds.values())))
    for label, taken in seconds.items():
        n = 1 if label == "one core" else int(label.split()[0])
        print(f"{name:<28} {label:<16} {min(taken):8.2f} s  efficiency {alone / min(taken) / n:.0%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--variables", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; the same bits from every way or an error")
    with ways(given.workers) as how:
        measure(f"select, p={given.variables}, 5 folds", selection(given.variables), how, given.repeats)
        measure(f"solve, p={4 * given.variables}", solves(4 * given.variables), how, given.repeats)


if __name__ == "__main__":
    main()
