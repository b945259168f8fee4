"""Python frames between `jointglasso.solve` and the compiled functions of a default solve.

    python benchmarks/call_chain.py

Prints the chain to the first compiled function that a solve calls, and to the first one of each stage after the scan.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np

import jointglasso as jgl
import jointglasso.kernels


def chains(solve: Callable[[], Any]) -> dict[str, list[str]]:
    """Frames from `solve` to each compiled function at its first call, the outermost first, in order of the calls."""
    solve()  # compiles: a kernel cannot be compiled while those that it calls are replaced
    found: dict[str, list[str]] = {}
    replaced = []
    for info in pkgutil.iter_modules(jointglasso.kernels.__path__):
        module = importlib.import_module(f"jointglasso.kernels.{info.name}")
        for name, function in list(vars(module).items()):
            if hasattr(function, "py_func"):
                setattr(module, name, _recording(f"{info.name}.{name}", function, found))
                replaced.append((module, name, function))
    try:
        solve()
    finally:
        for module, name, function in replaced:
            setattr(module, name, function)
    return found


def _recording(name: str, function: Any, found: dict[str, list[str]]) -> Any:
    def recorded(*arguments: Any) -> Any:
        if name not in found:
            frames = []
            for frame in inspect.stack(0)[1:]:
                where = frame.frame.f_globals.get("__name__", "")
                if not where.startswith("jointglasso."):
                    break
                frames.append(f"{where.removeprefix('jointglasso.')}.{frame.function}")
            found[name] = frames[::-1]
        return function(*arguments)

    recorded.py_func = function.py_func
    return recorded


def example() -> Any:
    """A problem with a group that column sweeps solve."""
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((60, 12)) @ (np.eye(12) + 0.3) for _ in range(2)]
    return np.stack([np.corrcoef(x, rowvar=False) for x in X])


def main() -> None:
    S = example()
    found = chains(lambda: jgl.solve(S, 0.2, 0.05))
    for name, frames in found.items():
        print(f"{len(frames):2d} frames to {name}")
    for name in (next(iter(found)), "small_columns.ascend_small_groups"):
        print(f"\nChain to {name}:")
        for depth, frame in enumerate(found[name], 1):
            print(f"{depth:3d} {frame}")


if __name__ == "__main__":
    main()
