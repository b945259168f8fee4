"""How much longer a selection takes beside busy processes: at most three times, or the exit status is 1.

    env -u OMP_NUM_THREADS -u OPENBLAS_NUM_THREADS python benchmarks/load.py [--busy 2] [--rounds 3]

Threads that wait for each other in BLAS, around matrices of 25 variables, once made this a factor of 20 to 60. Times
with and without load are taken in turns, in one process, on a machine that is quiet otherwise; medians are compared.
Two cores shared fairly with two busy processes give a factor of 1.5 to 2.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import numpy as np

import jointglasso as jgl
from common import describe_machine, print_header, print_row

LIMIT = 3.0

#: Variables and sample sizes of the classes.
CASES = {"25 items, 2 classes": (25, (213, 387)), "100 variables, 3 classes": (100, (80, 80, 80))}


@contextmanager
def busy(n_processes: int) -> Iterator[None]:
    """Processes that do nothing but compute."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n_processes)]
    try:
        time.sleep(0.2 if others else 0.0)
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def draw(p: int, sizes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Five scales with a common cause each."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((sum(sizes), p))
    X += rng.standard_normal((sum(sizes), 5))[:, np.arange(p) % 5]
    return X, np.repeat(np.arange(len(sizes)), sizes)


def seconds(function) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    describe_machine()
    print_header("what", "idle s", f"beside {options.busy} s", "ratio")
    worst = 0.0
    for name, (p, sizes) in CASES.items():
        X, y = draw(p, sizes)
        chosen = jgl.select(X, y)  # compiles, too
        source = jgl.SampleCovariance.from_labels(X, y, scale="correlation")
        for what, function in (
            ("select", lambda X=X, y=y: jgl.select(X, y)),
            ("refit", lambda source=source, chosen=chosen: [jgl.refit(source, chosen.solution) for _ in range(20)]),
        ):
            times: dict[int, list[float]] = {0: [], options.busy: []}
            for _ in range(options.rounds):
                for n_processes, taken in times.items():
                    with busy(n_processes):
                        taken.append(seconds(function))
            idle, loaded = (median(taken) for taken in times.values())
            worst = max(worst, loaded / idle)
            print_row(f"{what}, {name}", f"{idle:.2f}", f"{loaded:.2f}", f"{loaded / idle:.2f}")
    print(f"worst ratio {worst:.2f}, limit {LIMIT:g}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
