"""Text and HTML representations of results, for terminals and notebooks.

Figures come from `jointglasso.report`, an upper layer, which is imported when a notebook renders a result.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Rows of a table that are printed.
SHOWN = 10


class ReprMixin:
    """Mixin for results: ``str`` gives sentences and short tables, a notebook the same as HTML with the networks."""

    def _parts(self) -> list[Any]:
        """Sentences (str) and tables (data frames or dicts of columns), in reading order."""
        raise NotImplementedError

    def _networks(self) -> Any:
        """`JointNetworks` that a notebook draws, or None."""
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


def table_text(part: Any, max_rows: int = SHOWN, digits: int = 3) -> str:
    """The first rows of a table as text, numbers with this many significant digits."""
    table = as_frame(part)
    text: str = table.head(max_rows).to_string(index=False, float_format=lambda value: f"{value:.{digits}g}")
    return f"{text}\n... {len(table) - max_rows:,} more" if len(table) > max_rows else text


def html_of(result: Any) -> str:
    """HTML of a result: sentences, tables and a small interactive network."""
    text: str = import_module("jointglasso.report.write").html_of(result)
    return text


def readable_bytes(amount: float) -> str:
    """Bytes with a unit: ``512 bytes``, ``3 MiB``, ``1.5 GiB``."""
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def readable_seconds(amount: float) -> str:
    """Seconds with a unit: ``0.3 s``, ``2.5 min``, ``15 min``, ``2.5 h``."""
    if amount < 0.01:
        return "less than 0.01 s"
    if amount < 120:
        return f"{amount:.1g} s" if amount < 10 else f"{amount:.0f} s"
    if amount < 7200:
        return f"{amount / 60:.1f} min" if amount < 600 else f"{amount / 60:.0f} min"
    return f"{amount / 3600:.1f} h"
