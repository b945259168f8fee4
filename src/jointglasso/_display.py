"""How results show themselves, on a terminal and in a notebook.

What is drawn belongs to the report, far above the results themselves; it is loaded when a notebook asks.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Rows of a table that are shown.
SHOWN = 10


class Shown:
    """A result that prints itself as sentences and short tables; a notebook shows them as HTML, with its networks."""

    def _parts(self) -> list[Any]:
        """Sentences and tables, as data frames or dicts of columns, in the order in which they are read."""
        raise NotImplementedError

    def _networks(self) -> Any:
        """`JointNetworks` to look at in a notebook, or None."""
        return None

    def __str__(self) -> str:
        return "\n".join(part if isinstance(part, str) else f"\n{table_text(part)}\n" for part in self._parts()).strip(
            "\n"
        )

    def __repr__(self) -> str:
        first = next(part for part in self._parts() if isinstance(part, str))
        return f"<{type(self).__name__}: {first}>"

    def _repr_html_(self) -> str:
        return html_of(self)


def as_frame(table: Any) -> Any:
    """A table as a data frame."""
    return import_module("pandas").DataFrame(table) if isinstance(table, dict) else table


def table_text(part: Any, max_rows: int = SHOWN) -> str:
    """The first rows of a table as text."""
    table = as_frame(part)
    text: str = table.head(max_rows).to_string(index=False, float_format=lambda value: f"{value:.3g}")
    return f"{text}\n... {len(table) - max_rows:,} more" if len(table) > max_rows else text


def html_of(result: Any) -> str:
    """HTML of a result: its sentences and tables, and a small network to play with."""
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
