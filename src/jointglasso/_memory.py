"""How much memory this process may still take."""

from __future__ import annotations

import os
from pathlib import Path


def available_memory() -> float | None:
    """Bytes that can be had without pushing anything out; None where the system does not tell."""
    known = [amount for amount in (_free_of_system(), _free_of_container()) if amount is not None]
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


def _free_of_container(folder: str = "/sys/fs/cgroup") -> float | None:
    """What a control group leaves of its limit; file pages that it counts can be dropped, so this is cautious."""
    try:
        limit = Path(folder, "memory.max").read_text(encoding="ascii").strip()
        used = int(Path(folder, "memory.current").read_text(encoding="ascii"))
        return None if limit == "max" else max(0.0, float(int(limit) - used))
    except (OSError, ValueError):
        return None
