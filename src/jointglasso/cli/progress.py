"""Bars on the standard error while something takes its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from jointglasso.cli.session import Session

if TYPE_CHECKING:
    from jointglasso.selection import SelectionProgress


def say_if_compiling(session: Session) -> None:
    """Explain the wait before the first solve on a machine, and have another process share the work."""
    from jointglasso.warm import compile_ahead, kernel_cache

    cache = kernel_cache()
    if not cache.sweeps:
        often = "First use on this machine: compiling takes half a minute, once."
        session.note(often if cache.lasting else "Compiling takes half a minute.")
        click.get_current_context().with_resource(compile_ahead())


def bar_options(session: Session) -> dict[str, Any]:
    """Options of a rich progress bar that leaves nothing behind, and is not there if nobody watches."""
    from rich.console import Console

    return {"console": Console(stderr=True), "transient": True, "disable": not session.shows_progress}


@contextmanager
def counting(session: Session, what: str) -> Iterator[Callable[[SelectionProgress], None]]:
    """Give a callback for `select` and `edge_stability` that shows the solves done and the time left."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    )  # fmt: skip
    with Progress(*columns, **bar_options(session)) as bar:
        task = bar.add_task(what, total=None)

        def show(progress: SelectionProgress) -> None:
            bar.update(task, completed=progress.done, total=progress.total)

        yield show
