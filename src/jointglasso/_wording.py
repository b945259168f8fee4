"""Text fragments of messages: counts with a noun, lists of names, aligned columns, similar names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def count(number: int, noun: str) -> str:
    """Write ``1 sample``, ``2 samples``, ``12,488 samples``."""
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def listed(names: Iterable[str], most: int = 6) -> str:
    """Write names in quotes, the first few of a long list."""
    quoted = [repr(str(name)) for name in names]
    shown = ", ".join(quoted[:most])
    return shown if len(quoted) <= most else f"{shown} and {len(quoted) - most:,} more"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Lines of a text table; the columns with indices in `left` are left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        cells = enumerate(zip(row, widths, strict=True))
        lines.append("  ".join(f"{cell:<{w}}" if n in left else f"{cell:>{w}}" for n, (cell, w) in cells).rstrip())
    return lines


def nearest(name: str, choices: Sequence[str]) -> str:
    """Sentence with the `choices` most similar to `name`, or all of them if none is similar."""
    if not choices:
        return "there are none"
    folded = {choice.casefold(): choice for choice in reversed(choices)}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=3, cutoff=0.6)
    if close:
        return f"similar: {listed(folded[key] for key in close)}"
    return f"there {'is' if len(choices) == 1 else 'are'} {listed(choices)}"
