"""Compiling every kernel once, so that the first real solve need not wait."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from jointglasso import tuning
from jointglasso._threads import available_cores

#: Most processes that help to compile every kernel: more would wait for one another.
_MOST_HELPERS = 5


def warm_kernels() -> float:
    """Run small problems through every solver and rule, filling numba's cache on disk; return the seconds it took.

    Other processes, one for each further core, do the same beginning with the last problems: what one of them compiles
    the others find or wait for.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> seconds = jgl.warm_kernels()  # doctest: +SKIP
    """
    began = time.perf_counter()
    n_helpers = min(available_cores() - 1, _MOST_HELPERS) if kernel_cache().folder is not None else 0
    with ExitStack() as helpers:
        for helper in range(n_helpers):
            helpers.enter_context(_another_process(f"_run_backwards({helper} / {n_helpers})"))
        for problem in _problems():
            problem()
    return time.perf_counter() - began


@contextmanager
def compile_ahead() -> Iterator[None]:
    """Let another process compile what a first solve with the group penalty needs last; all of it is needed soon."""
    if available_cores() < 2:
        yield
        return
    with _another_process("_compile_last()"):
        yield


@contextmanager
def _another_process(call: str) -> Iterator[None]:
    """Have a function of this module called by another process, which ends here at the latest; nobody depends on it."""
    command = [sys.executable, "-c", f"from jointglasso import warm; warm.{call}"]
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _problems() -> list[Callable[[], object]]:
    """Small problems that need every kernel between them."""
    from jointglasso.covariance import SampleCovariance
    from jointglasso.engine.execute import SOLVERS, solve
    from jointglasso.engine.screen import SCREENING
    from jointglasso.problem import make_problem
    from jointglasso.screening import RULES, screen
    from jointglasso.selection import refit

    rng = np.random.default_rng(0)
    samples = [rng.standard_normal((30, 8)) + rng.standard_normal((30, 1)) for _ in range(2)]
    source = SampleCovariance(samples, scale="correlation")
    S = np.stack([source.block(k, np.arange(8)) for k in range(2)])
    # A group too big for the code that sweeps over small ones from end to end.
    place = np.arange(tuning.SWEPT_BLOCK + 4)
    chain = np.stack([0.6 ** np.abs(place[:, None] - place)] * 2)

    def judge() -> None:
        solution = solve(S, 0.2, 0.1)
        make_problem(source, 0.2, 0.1).objective(solution.precision)
        refit(source, solution)

    # What takes longest comes first and last: that is where processes begin.
    return [
        partial(solve, chain, 0.2, 0.05),
        judge,
        partial(solve, chain, 0.2, 0.05, solver="newton"),
        *(partial(screen, S, 0.2, 0.1, rule=rule) for rule in RULES),
        *(
            partial(solve, S, 0.2, 0.1, screening=screening, solver=solver)
            for solver in SOLVERS
            for screening in SCREENING
        ),
        *(
            partial(solve, matrices, 0.2, 0.1, penalty="chain", solver=solver)  # for all that compare values
            for matrices, solver in ((S, "admm"), (S, "proximal_gradient"), (S, "auto"), (chain, "auto"))
        ),
    ]


def _run_backwards(part: float) -> None:
    """Solve the problems from the last one on, or from a part of them before it."""
    problems = _problems()[::-1]
    first = int(part * len(problems))
    for problem in problems[first:] + problems[:first]:
        problem()


def _compile_last() -> None:
    """Compile the sweeps over small groups, nearly half of what a first solve has to compile, and what comes after."""
    from jointglasso.kernels.cache import compile_for
    from jointglasso.kernels.pair_types import Blocks, GroupPair
    from jointglasso.kernels.small_columns import Groups, Limits, ascend_small_groups
    from jointglasso.kernels.support import sweep_support

    x, n, which = np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
    groups, blocks = Groups(n, n, n, n, 0, 0), Blocks(n, n, n, x, x, x)
    limits = Limits(x, 0, 0.0, 0.0, 0.0, 0, 0.0, 0.0)
    compile_for(ascend_small_groups, GroupPair(0.0, 0.0), groups, blocks, limits, x, x, which)
    matrix = np.zeros((0, 0))
    compile_for(sweep_support, matrix, n, n, 0.0, 0, 0.0, matrix, matrix)


@dataclass(frozen=True)
class KernelCache:
    """Which kernels need not be compiled again."""

    folder: Path | None
    """Where the compiled code is kept; None if no folder can be written."""
    lasting: bool
    """Whether it is sure to be there for later runs."""
    n_ready: int
    """Kernels with compiled code there."""
    n_kernels: int
    """Kernels in all, some of which are only used by rare options."""
    sweeps: bool
    """Whether the kernel of nearly every solve, which takes longest to compile, is among them."""


def kernel_cache() -> KernelCache:
    """Look which kernels have been compiled on this machine for this version of the package and of Python."""
    import jointglasso.kernels
    from jointglasso.kernels.cache import cache_lasts, is_kernel

    kernels = {}
    for module in pkgutil.iter_modules(jointglasso.kernels.__path__, "jointglasso.kernels."):
        for item in vars(importlib.import_module(module.name)).values():
            if is_kernel(item) and item.py_func.__module__ == module.name:
                kernels[item.py_func] = item.stats.cache_path
    folder = next(iter(kernels.values()))
    ready = set()
    if folder is not None:
        ready = {
            function for function, place in kernels.items() if any(Path(place).glob(f"{_file_name(function)}.*.nbi"))
        }
    sweeps = any(function.__name__ == "ascend_small_groups" for function in ready)
    return KernelCache(folder and Path(folder), cache_lasts(), len(ready), len(kernels), sweeps)


def _file_name(function: object) -> str:
    """Beginning of the name under which numba keeps a function: module, name and line."""
    module = function.__module__.rpartition(".")[2]
    return f"{module}.{function.__qualname__}-{function.__code__.co_firstlineno}"  # type: ignore[attr-defined]
