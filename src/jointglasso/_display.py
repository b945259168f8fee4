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
