"""Compilation of all kernels into numba's on-disk cache ahead of the first solve."""

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

from jointglasso import config
from jointglasso._threads import available_cores

#: Maximal number of compiling processes; more would wait for shared dependencies.
_MAX_PROCESSES = 5


def warm_kernels() -> float:
    """Run small problems through every solver and rule, which fills numba's cache on disk; return the seconds taken.

    Other processes, one for each further core, compile the most expensive kernels first and continue with these
    problems in reverse order; a kernel that one process has compiled is read from the cache by the others.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> seconds = jgl.warm_kernels()  # doctest: +SKIP
    """
    began = time.perf_counter()
    n_processes = min(available_cores() - 1, _MAX_PROCESSES) if kernel_cache().folder is not None else 0
    with ExitStack() as processes:
        for number in range(n_processes):
            processes.enter_context(_subprocess(f"_run_backwards({number}, {n_processes})"))
        for problem in _problems():
            problem()
    return time.perf_counter() - began


@contextmanager
def compile_ahead() -> Iterator[None]:
    """Compile, in another process, the kernels that a first solve with the group penalty reaches last."""
    if available_cores() < 2:
        yield
        return
    with _subprocess("_compile_last()"):
        yield


@contextmanager
def _subprocess(call: str) -> Iterator[None]:
    """Call a function of this module in another process, which is killed when the block ends; failure is ignored."""
    command = [sys.executable, "-c", f"from jointglasso import warm; warm.{call}"]
    devnull = subprocess.DEVNULL
    try:
        process = subprocess.Popen(command, stdin=devnull, stdout=devnull, stderr=devnull)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _problems() -> list[Callable[[], object]]:
    """Small problems that together use every kernel."""
    from jointglasso.data import SampleCovariance
    from jointglasso.engine.execute import solve
    from jointglasso.engine.options import SOLVERS
    from jointglasso.engine.screening import SCREENING
    from jointglasso.problem import make_problem
    from jointglasso.screening import RULES, screen
    from jointglasso.selection import lambda_grid, refit

    rng = np.random.default_rng(0)
    samples = [rng.standard_normal((30, 8)) + rng.standard_normal((30, 1)) for _ in range(2)]
    source = SampleCovariance(samples, scale="correlation")
    S = np.stack([source.block(k, np.arange(8)) for k in range(2)])
    # A block above the limit of the kernel for small groups.
    index = np.arange(config.LARGE + 4)
    chain = np.stack([0.6 ** np.abs(index[:, None] - index)] * 2)
    # Moving averages of noise: neighbours are correlated, in a block large enough for sparse storage.
    noise = rng.standard_normal((2, 60, config.SPARSE_BLOCK + 103))
    averages = np.lib.stride_tricks.sliding_window_view(noise, 4, axis=2).mean(axis=3)

    def evaluate() -> None:
        solution = solve(S, 0.2, 0.1)
        make_problem(source, 0.2, 0.1).objective(solution.precision)
        refit(source, solution)

    # The most expensive problems are first and last, where the processes start.
    return [
        partial(solve, chain, 0.2, 0.05),
        evaluate,
        partial(solve, SampleCovariance(list(averages), scale="correlation"), 0.5, 0.05),
        partial(solve, chain, 0.2, 0.05, solver="newton"),
        *(partial(screen, S, 0.2, 0.1, rule=rule) for rule in RULES),
        *(
            partial(solve, S, 0.2, 0.1, screening=screening, solver=solver)
            for solver in SOLVERS
            for screening in SCREENING
        ),
        partial(lambda_grid, source),
        _compile_last,
        partial(lambda_grid, source, penalty="chain"),
        *(
            partial(solve, matrices, 0.2, 0.1, penalty="chain", solver=solver)  # covers all fused penalties
            for matrices, solver in ((S, "admm"), (S, "proximal_gradient"), (S, "auto"), (chain, "auto"))
        ),
    ]


def _run_backwards(number: int, n_processes: int) -> None:
    """Compile every `n_processes`-th of the most expensive kernels, then solve the problems in reverse order.

    The kernels are compiled from argument types: a problem would first need other kernels, the same in all processes,
    which would all compile them.
    """
    for compile_one in _longest()[number::n_processes]:
        compile_one()
    for problem in _problems()[::-1]:
        problem()


def _compile_last() -> None:
    """Compile the column sweeps over small groups (nearly half of the compile time of a first solve) and the refit."""
    from jointglasso.kernels.jit import compile_for
    from jointglasso.kernels.pair_types import GroupPair
    from jointglasso.kernels.support_newton import sweep_support

    n, matrix = np.zeros(0, dtype=np.int64), np.zeros((0, 0))
    _compile_small_sweeps(GroupPair(0.0, 0.0))
    compile_for(sweep_support, matrix, n, n, 0.0, 0, 0.0, matrix, matrix)


def _longest() -> list[Callable[[], None]]:
    """Compile functions of the most expensive kernels, about half of the total time, those used last first."""
    from jointglasso.kernels.entries import UPDATE, apply
    from jointglasso.kernels.jit import compile_for
    from jointglasso.kernels.pair_types import Entries, FusedPair, GroupPair, PenaltyWorkspace

    x, n, matrix = np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros((0, 0))
    integers = matrix.astype(np.int64)
    fused, entries, work = FusedPair(x, matrix, 0, x, n, n), Entries(n, n, x, 0), PenaltyWorkspace(matrix, integers)
    return [
        partial(_compile_big_sweeps, fused),
        partial(_compile_small_sweeps, fused),
        partial(compile_for, apply, fused, UPDATE, x, x, entries, work, x),
        partial(_compile_big_sweeps, GroupPair(0.0, 0.0)),
        partial(_compile_small_sweeps, GroupPair(0.0, 0.0)),
    ]


def _compile_small_sweeps(pair: object) -> None:
    from jointglasso.kernels.jit import compile_for
    from jointglasso.kernels.pair_types import Blocks
    from jointglasso.kernels.small_columns import GroupIndex, SweepLimits, SweepWorkspace, ascend_small_groups

    x, n, which = np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
    groups, blocks = GroupIndex(n, n, n, n, 0, 0), Blocks(n, n, n, x, x, x)
    limits, workspace = SweepLimits(x, 0, 0.0, 0.0, 0.0), SweepWorkspace.allocate(groups, blocks, 0, 0)
    compile_for(ascend_small_groups, pair, groups, blocks, limits, x, x, which, workspace)


def _compile_big_sweeps(pair: object) -> None:
    from jointglasso.kernels.column_batches import sweep_columns
    from jointglasso.kernels.column_parts import Column
    from jointglasso.kernels.columns import ColumnUpdates, Sweep
    from jointglasso.kernels.jit import compile_for
    from jointglasso.kernels.pair_types import DualState, PermutedBlocks, SparseColumns
    from jointglasso.kernels.team import Team

    x, xx = np.zeros(0), np.zeros((0, 0))
    n, nn, single = x.astype(np.int64), xx.astype(np.int64), x.astype(np.float32)
    stack, ascent = PermutedBlocks(nn, nn, n, n, n, n, x, single, x), DualState(single, x, SparseColumns(n, n, xx))
    sweep = Sweep(stack, ascent, 0.0, ColumnUpdates.allocate(0, 0, 0), x)
    column = Column.allocate(0, 0, 0, 0, 0, single)
    compile_for(sweep_columns, pair, True, n, n, column, sweep, Team(n, n, n, n))


@dataclass(frozen=True)
class KernelCache:
    """State of the on-disk cache of compiled kernels."""

    folder: Path | None
    """Cache folder; None if no folder is writable."""
    lasting: bool
    """Whether the folder persists for later runs."""
    n_ready: int
    """Number of kernels with compiled code in the cache."""
    n_kernels: int
    """Number of all kernels, some of them used by rare options only."""
    sweeps: bool
    """Whether the kernel of the column sweeps, used by nearly every solve and slowest to compile, is cached."""


def kernel_cache() -> KernelCache:
    """State of the kernel cache for this machine and this version of the package and of Python."""
    import jointglasso.kernels
    from jointglasso.kernels.jit import cache_folder, is_kernel

    kernels: set[Callable[..., object]] = set()
    for module in pkgutil.iter_modules(jointglasso.kernels.__path__, "jointglasso.kernels."):
        for item in vars(importlib.import_module(module.name)).values():
            if is_kernel(item) and item.py_func.__module__ == module.name:
                kernels.add(item.py_func)
    folder = cache_folder()
    files = {file.name for file in folder.path.rglob("*.nbi")} if folder.path else set()
    ready = {function for function in kernels if any(name.startswith(_file_name(function)) for name in files)}
    sweeps = any(function.__name__ == "ascend_small_groups" for function in ready)
    return KernelCache(folder.path, folder.lasting, len(ready), len(kernels), sweeps)


def _file_name(function: object) -> str:
    """Prefix of numba's cache file name of a function: module, name and line."""
    module = function.__module__.rpartition(".")[2]
    return f"{module}.{function.__qualname__}-{function.__code__.co_firstlineno}."  # type: ignore[attr-defined]
