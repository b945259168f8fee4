"""What the benchmarks share: timing, memory, data, tables."""

from __future__ import annotations

import os
import platform
import resource
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import norm

import jointglasso as jgl
from synthetic import make_joint_ggm

PAPER_LAMBDAS = {"P1": (0.009, 0.0005), "P2": (0.0086, 0.001), "P3": (0.0082, 0.0015)}
DESIGNS = {"A": ("A", 10), "B10": ("B", 10), "B40": ("B", 40), "C10": ("C", 10), "C40": ("C", 40)}


def describe_machine() -> None:
    with open("/proc/cpuinfo") as lines:
        model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "?")
    print(
        f"# {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores ({model}), Python {platform.python_version()}, "
        f"numpy {np.__version__}, jointglasso {jgl.__version__}, load {os.getloadavg()[0]:.1f}"
    )


def best_of(repeats: int, function: Callable[[], Any]) -> tuple[float, Any]:
    """Shortest time of several calls, and the last result: the machine is shared, noise only adds."""
    best, result = np.inf, None
    for _ in range(repeats):
        began = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - began)
    return best, result


def plain_pass(S: np.ndarray) -> float:
    """Seconds of one plain pass over the matrices, the yardstick for screening."""
    return best_of(3 if S[0].size < 1e7 else 1, lambda: [np.abs(matrix).max() for matrix in S])[0]


def peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident_mebibytes() -> float:
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * resource.getpagesize() / 2**20


def memory_of(function: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds, peak MiB above what was held before, sampled every 20 ms, and the result of one call."""
    before, peak, running = resident_mebibytes(), 0.0, True

    def watch() -> None:
        nonlocal peak
        while running:
            peak = max(peak, resident_mebibytes() - before)
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        began = time.perf_counter()
        result = function()
        seconds = time.perf_counter() - began
    finally:
        running = False
        watcher.join()
    return seconds, peak, result


def paper_covariances(design: str, p: int, n_classes: int, seed: int = 0) -> np.ndarray:
    kind, n_blocks = DESIGNS[design]
    return make_joint_ggm(kind, p, n_classes, n_blocks=n_blocks, output="covariances", random_state=seed).covariances


def matched_lambdas(name: str, p: int) -> tuple[float, float]:
    """The paper's lambdas, given at p=1000, n=5000, carried over to n=5p by the expected degree of the noise graph."""
    lambda1, lambda2 = PAPER_LAMBDAS[name]
    sd_then, sd_now = 0.2 / np.sqrt(5000), 0.2 / np.sqrt(5 * p)

    def carry(threshold: float) -> float:
        degree = 1000 * 2 * norm.sf(threshold / sd_then)
        return float(norm.isf(degree / (2 * p)) * sd_now)

    new1 = carry(lambda1)
    return new1, carry(lambda1 + lambda2) - new1


def print_row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def print_header(*cells: str) -> None:
    print_row(*cells)
    print("|" + "---|" * len(cells), flush=True)
