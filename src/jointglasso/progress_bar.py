"""Terminal progress bar for long solves."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from jointglasso.solution import Iteration


class RichProgress:
    """Callback for `jointglasso.solve` that shows solved groups, current duality gap and remaining time.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]]]
    >>> with jgl.RichProgress() as progress:  # doctest: +ELLIPSIS
    ...     solution = jgl.solve(S, 0.3, 0.1, callback=progress)
    solving ... 1/1 groups, gap ...
    """

    def __init__(self, **options: Any) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            **options,
        )
        self._gap = "gap not known yet"
        self._task = self._bar.add_task("solving", total=1.0, state="")

    def __enter__(self) -> RichProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, iteration: Iteration) -> None:
        """Update the bar after one iteration."""
        if iteration.gap is not None:  # not computed in every iteration
            self._gap = f"gap {iteration.gap:.1e}"
        state = f"{iteration.groups_done}/{iteration.n_groups} groups, {self._gap}"
        self._bar.update(self._task, completed=iteration.share_done, state=state)
