"""Scaling of `select` and of one solve, in threads, processes and Dask workers; and the scan.

    python benchmarks/scaling.py --workers 2 --variables 500
    python benchmarks/scaling.py --workers 2 8 16 --variables 500 --only select
    python benchmarks/scaling.py --workers 16 --scan 20000

Every way is timed in turn, several times over; the fastest time of each counts, and the first, in which workers import
the package and load its kernels, stands beside it. Efficiency is the time on one core (BLAS on one thread as well)
divided by the time with so many workers, and by their number; for weak scaling the problem grows with them. All ways
must give the same bits, or the script fails. `--scan P` times the scan of P
variables on one core and on all, beside the bare products of its tiles.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import jointglasso as jgl
from genome_scale import bare_products, module_samples
from jointglasso.problem import make_problem
from jointglasso.screening.curve import critical_correlation
from jointglasso.screening.pairs import scan_pairs
from synthetic import make_joint_ggm


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
    data = make_joint_ggm("modules", p, 2, n_samples=100, n_blocks=p // 20, random_state=0)
    X = {f"class {k}": samples for k, samples in enumerate(data.samples)}
    source = jgl.SampleCovariance(list(data.samples), scale="correlation")
    grid = jgl.lambda_grid(source, n_lambdas=10, min_ratio=0.3)
    return lambda **how: jgl.select(X, criterion="cv", cv=5, grid=grid, random_state=0, **how).records["score"]


def solves(p: int) -> Callable[..., Any]:
    """One solve with many groups of some size."""
    draw = np.random.default_rng(0)
    common = [draw.standard_normal((100, p // 50)).repeat(50, axis=1) for _ in range(2)]
    source = jgl.SampleCovariance([draw.standard_normal((100, p)) + 1.2 * f for f in common], scale="correlation")
    return lambda **how: jgl.solve(source, 0.42, 0.05, **how).objective


@contextmanager
def on_cores(n: int) -> Iterator[None]:
    """Hold this process to so many cores, and BLAS to one of them; a single solve, and BLAS, would use them all."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:n])
    try:
        with threadpool_limits(1):
            yield
    finally:
        os.sched_setaffinity(0, allowed)


def timed(label: str, work: Callable[..., Any], arguments: dict[str, Any]) -> tuple[float, Any]:
    """Seconds of one way, and what it gives."""
    with on_cores(1) if label == "one core" else nullcontext():
        began = time.perf_counter()
        answer = work(**arguments)
        return time.perf_counter() - began, answer


#: Seconds and answer on one core, which is timed once however many numbers of workers are tried.
alone: dict[str, tuple[float, Any]] = {}


def measure(name: str, work: Callable[..., Any], how: dict[str, dict[str, Any]], repeats: int) -> None:
    """Time every way in turn, and say what it gained."""
    first: dict[str, tuple[float, Any]] = {}
    how = {label: arguments for label, arguments in how.items() if label != "one core" or name not in alone}
    for label, arguments in how.items():
        first[label] = timed(label, work, arguments)
        print(f"{name:<28} {label:<16} {first[label][0]:8.2f} s  at first", flush=True)
    answer = alone[name][1] if name in alone else first["one core"][1]
    different = [label for label, (_, found) in first.items() if not np.array_equal(found, answer, equal_nan=True)]
    if different:
        raise SystemExit(f"{name}: {different} give other numbers than one core")
    best = dict.fromkeys(how, np.inf)
    for _ in range(repeats):
        for label, arguments in how.items():
            best[label] = min(best[label], timed(label, work, arguments)[0])
    alone.setdefault(name, (best.get("one core", np.inf), answer))
    for label, taken in best.items():
        n = 1 if label == "one core" else int(label.split()[0])
        efficiency = alone[name][0] / taken / n
        print(f"{name:<28} {label:<16} {taken:8.2f} s  efficiency {efficiency:.0%}", flush=True)


def measure_weak(
    name: str, one: Callable[..., Any], many: Callable[..., Any], how: dict[str, dict[str, Any]], repeats: int
) -> None:
    """Time one share of the work on one core, and as many shares as there are workers on all of them."""
    best: dict[str, float] = {}
    for label, arguments in how.items():
        work = one if label == "one core" else many
        best[label] = min(timed(label, work, arguments)[0] for _ in range(repeats))
        efficiency = best["one core"] / best[label]
        print(f"{name:<28} {label:<16} {best[label]:8.2f} s  efficiency {efficiency:.0%} (weak)", flush=True)


def modules(p: int) -> tuple[jgl.SampleCovariance, float, float]:
    """The modules design, three classes of 200 samples, and penalties at which it falls into groups."""
    lambda2 = 0.1
    lambda1 = 1.05 * critical_correlation(200, p) - lambda2 + 0.08
    return jgl.SampleCovariance(drawn(p), scale="correlation", device="cpu"), lambda1, lambda2


@cache
def drawn(p: int) -> list[np.ndarray]:
    return module_samples(p, 200, 3)


def scan(p: int, n_workers: int) -> None:
    """Time the scan for pairs on all cores and on one, and what it cannot do without."""
    drawn(p)
    for n in (n_workers, 1):
        best = dict.fromkeys(("samples centred and scaled", "bare products", "scan", "screen"), np.inf)
        for _ in range(4):
            seconds = {}
            with on_cores(n):
                seconds["samples centred and scaled"], (source, lambda1, lambda2) = timed("", modules, {"p": p})
                problem = make_problem(source, lambda1, lambda2)
                seconds["bare products"] = bare_products(source)
                arguments = {"source": source, "penalty": problem.penalty, "weights": problem.weights}
                seconds["scan"], _ = timed("", scan_pairs, arguments)
                arguments = {"S": source, "lambda1": lambda1, "lambda2": lambda2}
                seconds["screen"], _ = timed("", jgl.screen, arguments)
            best = {part: min(best[part], seconds[part]) for part in best}
        parts = ", ".join(f"{part} {taken:.3f} s" for part, taken in best.items())
        print(f"p={p}, {n} cores: {parts}; scan over bare {best['scan'] / best['bare products']:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[2])
    parser.add_argument("--only", choices=["select", "solve"])
    parser.add_argument("--variables", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scan", type=int)
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; the same bits from every way or an error")
    if given.scan:
        jgl.warm_kernels()
        scan(given.scan, given.workers[0])
        return
    select, p = selection(given.variables), 4 * given.variables
    for n_workers in given.workers:
        with ways(n_workers) as how:
            if given.only != "solve":
                measure(f"select, p={given.variables}, 5 folds", select, how, given.repeats)
            if given.only != "select":
                measure(f"solve, p={p}", solves(p), how, given.repeats)
                measure_weak(f"solve, p={p} a worker", solves(p), solves(p * n_workers), how, given.repeats)


if __name__ == "__main__":
    main()
