"""Compiling every kernel once, so that the first real solve need not wait."""

from __future__ import annotations

import importlib
import pkgutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jointglasso import tuning


def warm_kernels() -> float:
    """Run small problems through every solver and rule, filling numba's cache on disk; return the seconds it took.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> seconds = jgl.warm_kernels()  # doctest: +SKIP
    """
    from jointglasso.covariance import SampleCovariance
    from jointglasso.engine.execute import SOLVERS, solve
    from jointglasso.engine.screen import SCREENING
    from jointglasso.problem import make_problem
    from jointglasso.screening import RULES, screen
    from jointglasso.selection import refit

    began = time.perf_counter()
    rng = np.random.default_rng(0)
    samples = [rng.standard_normal((30, 8)) + rng.standard_normal((30, 1)) for _ in range(2)]
    source = SampleCovariance(samples, scale="correlation")
    S = np.stack([source.block(k, np.arange(8)) for k in range(2)])
    for rule in RULES:
        screen(S, 0.2, 0.1, rule=rule)
    for solver in SOLVERS:
        for screening in SCREENING:
            solution = solve(S, 0.2, 0.1, screening=screening, solver=solver)
    make_problem(source, 0.2, 0.1).objective(solution.precision)
    refit(source, solution)
    # A group too big for the code that sweeps over small ones from end to end.
    place = np.arange(tuning.SWEPT_BLOCK + 4)
    chain = 0.6 ** np.abs(place[:, None] - place)
    wide = 0.6 ** np.abs(np.subtract.outer(np.arange(300), np.arange(300)))
    for solver in ("auto", "newton"):
        solve(np.stack([chain, chain]), 0.2, 0.05, solver=solver)
    for penalty in ("chain", "laplacian"):  # one of each kind of penalty that compares values
        for matrices, solver in ((S, "auto"), (S, "admm"), (S, "proximal_gradient"), (np.stack([wide, wide]), "auto")):
            solve(matrices, 0.2, 0.1, penalty=penalty, solver=solver)
    return time.perf_counter() - began


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
    """Kernels in all, some of which are only used by others or by rare options."""


def kernel_cache() -> KernelCache:
    """Look which kernels have been compiled on this machine for this version of the package and of Python."""
    import jointglasso.kernels
    from jointglasso.kernels.cache import cache_lasts

    kernels = {}
    for module in pkgutil.iter_modules(jointglasso.kernels.__path__, "jointglasso.kernels."):
        for item in vars(importlib.import_module(module.name)).values():
            if hasattr(item, "py_func") and item.py_func.__module__ == module.name:
                kernels[item.py_func] = item.stats.cache_path
    folder = next(iter(kernels.values()))
    ready = 0
    if folder is not None:
        ready = sum(any(Path(place).glob(f"{_file_name(function)}.*.nbi")) for function, place in kernels.items())
    return KernelCache(folder and Path(folder), cache_lasts(), ready, len(kernels))


def _file_name(function: object) -> str:
    """Beginning of the name under which numba keeps a function: module, name and line."""
    module = function.__module__.rpartition(".")[2]
    return f"{module}.{function.__qualname__}-{function.__code__.co_firstlineno}"  # type: ignore[attr-defined]
