"""Compiling the kernels once a machine, however many workers begin at the same time."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import numpy as np

from jointglasso._version import __version__

_ready = False


def compile_once() -> None:
    """Let one process of this machine fill the cache of compiled kernels while the others wait for it."""
    global _ready
    if _ready:
        return
    from jointglasso.kernels.cache import private_folder

    folder = private_folder()
    if folder is not None:
        mark = folder / f"{_state_of_kernels()}.ready"
        if not mark.exists():
            with _alone_on_this_machine(folder / "compiling.lock"):
                if not mark.exists():
                    _solve_small_problems()
                    mark.touch()
    _ready = True


def _state_of_kernels() -> str:
    """Changes with whatever makes numba compile anew."""
    import jointglasso.kernels

    files = sorted(Path(next(iter(jointglasso.kernels.__path__))).glob("*.py"))
    state = [__version__, version("numba"), sys.version, *(f"{path}{path.stat().st_mtime_ns}" for path in files)]
    return hashlib.blake2b("\n".join(state).encode(), digest_size=12).hexdigest()


@contextmanager
def _alone_on_this_machine(path: Path) -> Iterator[None]:
    """Hold a lock that ends with this process at the latest; without one where the system has none."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _solve_small_problems() -> None:
    """A problem of small groups and one of a big group, which together run through what most solves need."""
    from jointglasso.engine.execute import solve

    place = np.arange(60)
    chain = 0.6 ** np.abs(place[:, None] - place)
    for size, lambda1 in ((8, 0.3), (60, 0.2)):
        solve(np.stack([chain[:size, :size]] * 2), lambda1, 0.05)
