"""What all selections do with their solves: who does them, their options, and one warning for all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any

from jointglasso._wording import nearest
from jointglasso.engine import solve
from jointglasso.engine.executors import Executor, Tell, Work, check_executor, map_work
from jointglasso.errors import argument
from jointglasso.selection.progress import Tracker
from jointglasso.solution import ConvergenceWarning
from jointglasso.validation import InputTypeError, check_jobs


@dataclass(frozen=True)
class Crew:
    """Who does the solves of a selection: so many threads, or an executor."""

    n_jobs: int | None = None
    executor: Executor | None = None

    @classmethod
    def of(cls, n_jobs: Any, executor: Any) -> Crew:
        """Check what a caller wants."""
        return cls(check_jobs(n_jobs), check_executor(executor))

    def map(
        self,
        function: Callable[[Any, Any, Tell], Any],
        items: Sequence[Any],
        shared: Any,
        tracker: Tracker,
        finish: Callable[[int, Any], Any] = lambda number, result: result,
    ) -> list[Any]:
        """Apply ``function(item, shared, tell)`` to every item; it tells the tracker of its solves.

        `finish` is called with every result, one at a time, and what it returns is kept.
        """

        def tell(number: int, *news: Any) -> bool:
            if news:
                tracker.advance(*news)
            return False

        return map_work(Work(function, items, shared, tell=tell, finish=finish), self.executor, self.n_jobs)


@contextmanager
def quiet_solves() -> Iterator[None]:
    """Keep back the warnings of single solves; whoever runs many of them warns once, with their number.

    The filters belong to the whole process: enter this in the thread that starts the others.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def warn_not_converged(n_failed: int, n_solves: int, what: str) -> None:
    """Warn once about all the solves that missed their tolerance."""
    if n_failed:
        warnings.warn(
            f"{n_failed} of {n_solves} solves of the {what} stopped before their tolerance: raise "
            f"{argument('max_iter')} or {argument('tol')}, or leave out the weakest penalties.",
            ConvergenceWarning,
            stacklevel=3,
        )


def solve_options(given: dict[str, Any]) -> dict[str, Any]:
    """Options for `solve`, those left at None dropped; what neither knows is refused before anything is done."""
    known = list(signature(solve).parameters)
    for name in given:
        if name not in known:
            raise InputTypeError(
                f"{name}= is no argument here, nor one of solve ({nearest(name, known)}): correct it.", name
            )
    return {name: value for name, value in given.items() if value is not None}
