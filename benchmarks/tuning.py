"""What the numbers of `jointglasso.config` are worth: each halved and doubled, against the time as it is.

Times are CPU seconds of this process on one thread, the smallest of three, each problem timed with the old and the new
number in turn. A ratio above 1 says that the number is better as it is.

    python benchmarks/tuning.py [NAME ...]
"""

from __future__ import annotations

import sys
import time

import numpy as np

import jointglasso as jgl
from jointglasso import config
from synthetic import make_joint_ggm

REPEATS = 3


def problems():
    """Small groups, one big sparse group, a big dense one, and one whose penalty compares classes."""
    modules = make_joint_ggm("modules", 600, 3, n_samples=80, n_blocks=60, random_state=0).covariances
    rng = np.random.default_rng(0)
    sparse = rng.standard_normal((2, 150, 400)) + 0.5 * rng.standard_normal((2, 150, 1))
    dense = rng.standard_normal((2, 100, 150)) + rng.standard_normal((2, 100, 1))
    big = jgl.SampleCovariance(list(sparse), scale="correlation")
    throughout = jgl.SampleCovariance(list(dense), scale="correlation")
    return {
        "modules": lambda: jgl.solve(modules, 0.35, 0.1, n_jobs=1),
        "sparse": lambda: jgl.solve(big, 0.25, 0.05, n_jobs=1),
        "dense": lambda: jgl.solve(throughout, 0.2, 0.1, n_jobs=1),
        "fused": lambda: jgl.solve(modules, 0.4, 0.05, penalty="fused", n_jobs=1),
    }


def seconds(solve):
    start = time.process_time()
    solve()
    return time.process_time() - start


def ratio(solve, name, value):
    """Time with another number in units of the time as it is."""
    given, best = getattr(config, name), [np.inf, np.inf]
    for _ in range(REPEATS):
        for at, number in enumerate((given, value)):
            setattr(config, name, number)
            best[at] = min(best[at], seconds(solve))
    setattr(config, name, given)
    return best[1] / best[0]


def scaled(value, factor):
    """A number, or all of a tuple, times a factor; whole numbers stay whole."""
    if isinstance(value, tuple):
        return tuple(scaled(part, factor) for part in value)
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def main(names):
    every = [name for name in vars(config) if name.isupper()]
    work = problems()
    for solve in work.values():
        solve()  # compiled and in cache
    print("| number | as it is | " + " | ".join(f"{name} /2, x2" for name in work) + " |")
    print("|---|---|" + "---|" * len(work))
    for name in names or every:
        value = getattr(config, name)
        cells = [" ".join(f"{ratio(solve, name, scaled(value, f)):.2f}" for f in (0.5, 2)) for solve in work.values()]
        print(f"| {name} | {value} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
