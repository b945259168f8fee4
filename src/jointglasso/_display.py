"""How results show themselves in a notebook.

What is drawn belongs to the report, far above the results themselves; it is loaded when a notebook asks.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def html_of(result: Any) -> str:
    """HTML of a solution, networks or a selection: a table and a small network to play with."""
    text: str = import_module("jointglasso.report.notebook").html_of(result)
    return text


def readable_bytes(amount: float) -> str:
    """An amount of memory in words."""
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def readable_seconds(amount: float) -> str:
    """A span of time in words."""
    if amount < 120:
        return f"{amount:.1g} s" if amount < 10 else f"{amount:.0f} s"
    return f"{amount / 60:.0f} min" if amount < 7200 else f"{amount / 3600:.1f} h"
