"""What the first use compiles, and how long that takes, kernel by kernel, in a process that finds nothing compiled.

    python benchmarks/first_use.py [WHAT] [--top 30]

WHAT is "solve" (one solve of synthetic data, the default), "select" (a selection and a refit), "infer" (confidence
intervals), "fused" (a solve with the fused penalty), "varying" (`TimeVaryingGraphicalLasso.fit`), "large" (a fused
group of more than 256 variables), "each" (one after the other, each in a new process and an empty cache) or "warm"
(everything, as `jointglasso doctor --warm` does). Seconds by kernel are those of the processor, so that a busy machine
counts little; what numba compiles of its own on the way is charged to the kernel that asked for it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from typing import Any

FEATURES = "solve", "select", "infer", "fused", "varying", "large"


def run(what: str) -> None:
    import numpy as np

    import jointglasso as jgl

    if what == "warm":
        from jointglasso.warm import warm_kernels

        warm_kernels()
        return
    rng = np.random.default_rng(0)
    mixing = np.eye(60) + 0.4 * (rng.random((60, 60)) < 2.0 / 60)
    X, y = np.vstack([rng.standard_normal((100, 60)) @ mixing for _ in range(3)]), np.repeat(list("abc"), 100)
    S = np.stack([np.corrcoef(X[y == k], rowvar=False) for k in "abc"])
    if what == "select":
        jgl.refit(jgl.SampleCovariance.from_labels(X, y), jgl.select(X, y).solution)
    elif what == "infer":
        jgl.infer(X, y)
    elif what == "varying":
        from jointglasso.estimators import TimeVaryingGraphicalLasso

        TimeVaryingGraphicalLasso(0.2, 0.05, windows=3).fit(X, np.arange(len(X)))
    elif what == "large":
        index = np.arange(300)
        jgl.solve(np.stack([0.6 ** np.abs(index[:, None] - index)] * 2), 0.2, 0.05, penalty="fused")
    else:
        jgl.solve(S, 0.2, 0.05, penalty="fused" if what == "fused" else "group")


def measure(what: str, top: int) -> None:
    from numba.core import event

    class Compiling(event.Listener):
        def __init__(self) -> None:
            self.stack: list[list[Any]] = []
            self.seconds: dict[str, float] = defaultdict(float)
            self.n_functions = 0

        def on_start(self, event: Any) -> None:
            function = event.data["dispatcher"]
            ours = function.__module__.startswith("jointglasso")
            name = f"{function.__module__}.{function.__name__}".removeprefix("jointglasso.kernels.")
            self.stack.append([name if ours or not self.stack else self.stack[-1][0], time.process_time(), 0.0])

        def on_end(self, event: Any) -> None:
            name, began, inside = self.stack.pop()
            whole = time.process_time() - began
            self.seconds[name] += whole - inside
            self.n_functions += 1
            if self.stack:
                self.stack[-1][2] += whole

    compiling = Compiling()
    event.register("numba:compile", compiling)
    wall, processor = time.perf_counter(), time.process_time()
    run(what)
    total = sum(compiling.seconds.values())
    print(
        f"{what}: {time.perf_counter() - wall:.1f} s, {time.process_time() - processor:.1f} s of the processor, "
        f"{total:.1f} s of them compiling {compiling.n_functions} functions"
    )
    for name, seconds in sorted(compiling.seconds.items(), key=lambda item: -item[1])[:top]:
        print(f"{seconds:6.2f}  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=(*FEATURES, "each", "warm"), default="solve")
    parser.add_argument("--top", type=int, default=30)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        measure(arguments.what, arguments.top)
        return
    for what in FEATURES if arguments.what == "each" else (arguments.what,):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, what, "--top", str(arguments.top), "--here"]
            subprocess.run(command, env={**os.environ, "NUMBA_CACHE_DIR": folder}, check=True)


if __name__ == "__main__":
    main()
