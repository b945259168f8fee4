"""Memory available to this process, and the memory budget of a thread."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import local

_thread_state = local()


class MemoryShareExceeded(Exception):
    """A task needs more bytes than its memory budget; it must be repeated with fewer concurrent tasks."""

    @property
    def needed(self) -> float:
        """Bytes that the task needs."""
        return float(self.args[0])


@contextmanager
def sharing_memory(budget: float | None) -> Iterator[None]:
    """Set the memory budget of this thread (bytes) for the duration of the block; None leaves it unchanged."""
    before = memory_share()
    _thread_state.budget = before if budget is None else budget
    try:
        yield
    finally:
        _thread_state.budget = before


def memory_share() -> float:
    """Memory budget of this thread in bytes; infinite if no other task runs at the same time."""
    return float(getattr(_thread_state, "budget", math.inf))


def available_memory() -> float | None:
    """Bytes that can be allocated without swapping; None if the system does not report them."""
    known = [amount for amount in (_free_of_system(), _free_of_container(), _free_of_process()) if amount is not None]
    return min(known) if known else None


def _free_of_system() -> float | None:
    known = _field("/proc/meminfo", "MemAvailable:")
    if known is not None:
        return 1024.0 * known
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return None


def _free_of_process() -> float | None:
    """Bytes below the resource limits of this process (``ulimit -v`` and ``ulimit -d``); None without limits."""
    try:
        import resource
    except ImportError:  # not on this system
        return None
    remaining = []
    for limit, field in ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:")):
        allowed = resource.getrlimit(limit)[0]
        if allowed != resource.RLIM_INFINITY:
            remaining.append(max(0.0, float(allowed - 1024 * (_field("/proc/self/status", field) or 0))))
    return min(remaining, default=None)


def _field(path: str | Path, name: str) -> int | None:
    """Number behind a name in a file of the kernel; None where there is no such file or name."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith(name)), None)
    except (OSError, ValueError, IndexError):
        return None


def _free_of_container(root: str = "/sys/fs/cgroup", membership: str = "/proc/self/cgroup") -> float | None:
    """Smallest remaining memory of the control groups (v1 or v2) of this process and their parents."""
    remaining = [_free_of_group(folder) for folder in _control_groups(Path(root), Path(membership))]
    return min((amount for amount in remaining if amount is not None), default=None)


def _control_groups(root: Path, membership: Path) -> Iterator[Path]:
    """Folders of the control groups that account for the memory of this process, outermost first."""
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
    """Remaining bytes of a control group, reclaimable page cache included; None if it has no limit."""
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
        return max(0.0, float(int(allowed) - taken + (_field(folder / "memory.stat", droppable) or 0)))
    return None
