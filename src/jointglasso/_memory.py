"""How much memory this process may still take, and what becomes of the memory it lets go."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import local

#: Settings by their numbers in glibc's malloc.h: freed arrays up to this size are kept for the next one, and so many
#: bytes in all. It is the most that glibc comes to by itself.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = (-3, 2**25), (-1, 2**26)


_thread_state = local()


class NeedsMore(Exception):
    """A piece of work needs more bytes than its share: it is to be done again, with fewer others beside it."""

    @property
    def needed(self) -> float:
        """Bytes."""
        return float(self.args[0])


@contextmanager
def sharing_memory(share: float | None) -> Iterator[None]:
    """Note that this thread may take so many bytes while others work beside it; None changes nothing."""
    before = memory_share()
    _thread_state.share = before if share is None else share
    try:
        yield
    finally:
        _thread_state.share = before


def memory_share() -> float:
    """Bytes that this thread may take; infinite where nobody has the memory besides it."""
    return float(getattr(_thread_state, "share", math.inf))


@cache
def keep_freed_memory() -> None:
    """Have the C library keep what is freed for the next array, as it does by itself once a big one was freed.

    A solve frees a megabyte here and there and asks for it again. Given back to the system each time, it must be mapped
    and cleared anew: half of the time of small solves, and more in workers of Dask, which are told to give all back.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    for setting in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
        mallopt(*setting)


def available_memory() -> float | None:
    """Bytes that can be had without pushing anything out; None where the system does not tell."""
    known = [amount for amount in (_free_of_system(), _free_of_container(), _free_of_process()) if amount is not None]
    return min(known) if known else None


def _free_of_system() -> float | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return None


def _free_of_process() -> float | None:
    """What the limits of this process (``ulimit -v`` and ``ulimit -d``) leave."""
    try:
        import resource
    except ImportError:  # not on this system
        return None
    remaining = []
    for limit, field in ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:")):
        allowed = resource.getrlimit(limit)[0]
        if allowed != resource.RLIM_INFINITY:
            remaining.append(max(0.0, float(allowed - _process_bytes(field))))
    return min(remaining, default=None)


def _process_bytes(field: str) -> int:
    """A size of this process, as Linux tells it; 0 elsewhere."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(field):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return 0


def _free_of_container(root: str = "/sys/fs/cgroup", membership: str = "/proc/self/cgroup") -> float | None:
    """The least that the control groups of this process, of either version, and those around them leave."""
    remaining = [_free_of_group(folder) for folder in _control_groups(Path(root), Path(membership))]
    return min((amount for amount in remaining if amount is not None), default=None)


def _control_groups(root: Path, membership: Path) -> Iterator[Path]:
    """Folders of the control groups that count this process's memory, from the outermost inwards."""
    yield root
    yield root / "memory"
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" or "memory" in controllers.split(","):
            folder = root if number == "0" else root / "memory"
            for part in Path(path).parts[1:]:
                folder /= part
                yield folder


def _free_of_group(folder: Path) -> float | None:
    """What a control group leaves of its limit; None where it has none. File pages that it counts can be dropped."""
    for limit, used, droppable in (
        ("memory.max", "memory.current", "inactive_file "),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
    ):
        try:
            allowed = (folder / limit).read_text(encoding="ascii").strip()
            if allowed == "max" or int(allowed) >= 2**62:
                return None
            taken = int((folder / used).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        return max(0.0, float(int(allowed) - taken + _statistic(folder, droppable)))
    return None


def _statistic(folder: Path, name: str) -> int:
    try:
        for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return 0
