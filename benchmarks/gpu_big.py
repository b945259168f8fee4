"""Big groups with and without a CUDA device: seconds to a certified gap, and where they go.

    python benchmarks/gpu_big.py FILE.npz [--columns COLUMNS.npy] [--lambdas 0.5,0.01 ...] [--devices cuda cpu] [...]

FILE holds X (samples x genes) and y (labels); raw covariances, as in the paper's table 2, whose five settings are the
default. COLUMNS names the columns of X to take, by number; else those without missing values. With fewer of them groups
count as big all the same. Kernels are compiled on a small problem first.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

import jointglasso as jgl
from common import describe_machine, peak_mebibytes
from jointglasso import config
from jointglasso.solvers import big_sweeps, column_ascent, dual_point

SETTINGS = ["0.5,0.01", "0.4,0.05", "0.3,0.1", "0.2,0.2", "0.1,0.5"]

#: Parts of a solve whose time is told: where they live, and by which name.
PARTS: list[tuple[Any, str, str]] = [
    (column_ascent.ColumnAscent, "sweep", "sweeps"),
    (column_ascent.ColumnAscent, "_reorder", "orders of columns"),
    (big_sweeps, "_start_ascent", "start of sweeps"),
    (big_sweeps, "_point", "Theta of the sweeps"),
    (dual_point.DualPoint, "_logdet", "factors"),
    (dual_point.DualPoint, "with_rounding", "rounding"),
    (dual_point.DualPoint, "n_absent", "zeros proved"),
]


def timed(spent: dict[str, list[float]]) -> None:
    """Note the seconds of each part."""

    def note(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        @wraps(function)
        def outer(*arguments: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                spent[name].append(time.perf_counter() - began)

        return outer

    for owner, attribute, name in PARTS:
        setattr(owner, attribute, note(getattr(owner, attribute), name))


def compile_kernels(device: str) -> float:
    """Seconds that a small problem takes when it is the first."""
    began = time.perf_counter()
    draw = np.random.default_rng(0)
    X = [
        draw.standard_normal((40, 8)) @ draw.standard_normal((8, 300)) + draw.standard_normal((40, 300)) for _ in "abc"
    ]
    size, config.HUGE = config.HUGE, 50
    jgl.solve(jgl.SampleCovariance(X, device=device), 2.0, 0.1, tol=1e-4)
    config.HUGE = size
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--columns")
    parser.add_argument("--every", type=int, default=1, help="take each so many-th column only")
    parser.add_argument("--lambdas", nargs="+", default=SETTINGS)
    parser.add_argument("--devices", nargs="+", default=["cuda"])
    parser.add_argument("--seconds", type=float, default=900.0, help="the longest that one solve may take")
    arguments = parser.parse_args()
    describe_machine()
    with np.load(arguments.file) as stored:
        X, y = stored["X"], stored["y"]
    X = X[:, np.isfinite(X).all(axis=0)] if arguments.columns is None else X[:, np.load(arguments.columns)]
    X = X[:, :: arguments.every]
    config.HUGE = min(config.HUGE, X.shape[1] // 4)
    classes = [X[y == label] for label in dict.fromkeys(y.tolist())]
    spent: dict[str, list[float]] = defaultdict(list)
    timed(spent)
    for device in arguments.devices:
        print(f"{device}: the first small problem takes {compile_kernels(device):.1f} s", flush=True)
    for lambdas in arguments.lambdas:
        for device in arguments.devices:
            spent.clear()
            _solve(classes, device, *map(float, lambdas.split(",")), arguments.seconds, spent)


def _solve(
    classes: list[np.ndarray], device: str, l1: float, l2: float, seconds: float, spent: dict[str, list[float]]
) -> None:
    began = time.perf_counter()

    def heard(iteration: Any) -> bool:
        gap = "-" if iteration.gap is None else f"{iteration.gap:.3g}"
        print(f"  {time.perf_counter() - began:7.1f} s  objective {iteration.objective:.3f}  gap {gap}", flush=True)
        return time.perf_counter() - began > seconds

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        solution = jgl.solve(jgl.SampleCovariance(classes, device=device), l1, l2, tol=1e-4, callback=heard)
    taken = time.perf_counter() - began
    edges = [Theta.nnz - Theta.shape[0] for Theta in solution.precision]
    print(f"({l1:g}, {l2:g}) on {device}: {taken:.1f} s, {solution.status}")
    print(f"  largest block {solution.partition.largest}, edges {[n // 2 for n in edges]}, {solution.methods}")
    parts = ", ".join(f"{name} {len(s)}: {sum(s):.1f} s" for name, s in spent.items())
    print(f"  {parts}; timings {solution.timings}; {peak_mebibytes():.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
