"""Files of a result: data as CSV, figures as PNG and SVG, and a page in Markdown."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path

from jointglasso._files import atomic_text
from jointglasso.plots.canvas import finish
from reproduction.machine import describe_machine
from reproduction.result import Result, Row, Settings

#: Rows beyond this are in the CSV file only.
SHOWN_ROWS = 40


def write_result(
    name: str, title: str, result: Result, folder: str | os.PathLike[str], settings: Settings
) -> list[Path]:
    """Write all files of a result, each in one step.

    Parameters
    ----------
    name, title : str
        Name of the experiment, which the files get, and its headline.
    result : Result
        What to write.
    folder : path
        Where to; made if it does not exist.
    settings : Settings
        How the experiment was run.

    Returns
    -------
    list of Path
        The files, the page first.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    page, table = target / f"{name}.md", target / f"{name}.csv"
    pictures = []
    for ending, figure in result.figures.items():
        for format in ("png", "svg"):
            pictures.append(target / f"{name}{ending}.{format}")
            finish(figure, pictures[-1], dpi=130)
    atomic_text(table, _csv(result.rows))
    atomic_text(page, _page(name, title, result, settings))
    return [page, table, *pictures]


def _csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _page(name: str, title: str, result: Result, settings: Settings) -> str:
    size = settings.sized("quick variant", "default size", "the paper's size")
    lines = [
        f"# {title}",
        "",
        f"**The paper**: {result.claim}",
        "",
        f"**Here**: {result.verdict}",
        "",
        f"**The claim {result.holds}.**" if result.holds != "not judged" else "**The claim was not judged.**",
        "",
        *(f"![{title}]({name}{ending}.png)\n" for ending in result.figures),
        *_table(result.rows, name),
        "",
        *(f"- {note}" for note in result.notes),
        f"- `{settings.command(name)}`, {size}, {describe_machine()}.",
        "",
    ]
    return "\n".join(lines)


def _table(rows: Sequence[Row], name: str) -> list[str]:
    if not rows:
        return []
    if len(rows) > SHOWN_ROWS:
        return [f"The {len(rows)} rows of data are in [{name}.csv]({name}.csv)."]
    columns = list(rows[0])
    return [
        f"| {' | '.join(columns)} |",
        "|" + "---|" * len(columns),
        *(f"| {' | '.join(_cell(row[column]) for column in columns)} |" for row in rows),
    ]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
