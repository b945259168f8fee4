"""Python frames between `jointglasso.solve` and the compiled functions of a default solve.

    python benchmarks/call_chain.py [--svg docs/pictures/call_graph.svg]

Prints the chain to the first compiled function that a solve calls, and to the first one of each stage after the scan.
With `--svg` the call graph is drawn: every function on the way to a compiled function, below the one that calls it.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import jointglasso as jgl
import jointglasso.kernels


def chains(solve: Callable[[], Any]) -> dict[str, list[str]]:
    """Frames from `solve` to each compiled function at its first call, the outermost first, in order of the calls."""
    solve()  # compiles what is needed, which fails once functions are replaced
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
                if where == "functools":  # a cached property
                    continue
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


def drawing(found: dict[str, list[str]]) -> str:
    """The chains as an SVG tree, a function in each row; compiled functions are in colour."""
    rows: list[tuple[int, int, str]] = []  # depth, row of the caller, name
    row_of: dict[tuple[str, ...], int] = {}
    for kernel, frames in found.items():
        chain = [frame for frame in frames if not frame.startswith("_threads.")] + [f"kernels.{kernel}"]
        for depth in range(len(chain)):
            path = tuple(chain[: depth + 1])
            if path not in row_of:
                row_of[path] = len(rows)
                rows.append((depth, row_of.get(path[:-1], 0), chain[depth]))
    width, height = 17 * max(depth for depth, _, _ in rows) + 330, 14 * len(rows) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="monospace" font-size="11"><title>Call graph of a default solve</title>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for row, (depth, caller, name) in enumerate(rows):
        x, y = 10 + 17 * depth, 16 + 14 * row
        if depth:
            elbow = f"M{x - 12},{19 + 14 * caller} V{y - 4} H{x - 2}"
            parts.append(f'<path d="{elbow}" fill="none" stroke="#b0b0b0"/>')
        colour = "#b3410e" if name.startswith("kernels.") else "#222"
        parts.append(f'<text x="{x}" y="{y}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--svg", type=Path, help="file for the drawing")
    arguments = parser.parse_args()
    S = example()
    found = chains(lambda: jgl.solve(S, 0.2, 0.05))
    if arguments.svg is not None:
        arguments.svg.write_text(drawing(found), "utf-8")
    for name, frames in found.items():
        print(f"{len(frames):2d} frames to {name}")
    for name in (next(iter(found)), "small_columns.ascend_small_groups"):
        print(f"\nChain to {name}:")
        for depth, frame in enumerate(found[name], 1):
            print(f"{depth:3d} {frame}")


if __name__ == "__main__":
    main()
