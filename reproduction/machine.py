"""The machine in words, for the record beside every result."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from jointglasso._version import __version__


def describe_machine() -> str:
    """Date, cores, processor and versions."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    cores = f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores ({_processor()}), {platform.system()}"
    return f"{cores}, Python {platform.python_version()}, {packages}, jointglasso {__version__}"


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
