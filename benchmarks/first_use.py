"""What the first use compiles, and how long that takes, kernel by kernel, in a process that finds nothing compiled.

    python benchmarks/first_use.py [WHAT] [--top 30]

WHAT is "demo" (one solve of the synthetic data, the default), "select" (a selection and a refit on it) or "warm"
(everything, as `jointglasso doctor --warm` does). Seconds are those of the processor, so that a busy machine counts
little; what numba compiles of its own on the way is charged to the kernel that asked for it.
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
    if what == "select":
        jgl.refit(jgl.SampleCovariance.from_labels(X, y), jgl.select(X, y).solution)
    else:
        jgl.solve(np.stack([np.corrcoef(X[y == k], rowvar=False) for k in "abc"]), 0.2, 0.05)


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
    parser.add_argument("what", nargs="?", choices=("demo", "select", "warm"), default="demo")
    parser.add_argument("--top", type=int, default=30)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        measure(arguments.what, arguments.top)
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, arguments.what, "--top", str(arguments.top), "--here"]
        subprocess.run(command, env={**os.environ, "NUMBA_CACHE_DIR": folder}, check=True)


if __name__ == "__main__":
    main()
