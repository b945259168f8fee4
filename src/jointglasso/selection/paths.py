"""Solving along columns of a grid, each point started from the one before."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import signature
from typing import Any

from jointglasso.covariance import CovarianceSource
from jointglasso.engine import solve, solve_path
from jointglasso.engine.executors import Executor, Tell, Work, check_executor, map_work
from jointglasso.errors import argument
from jointglasso.selection.progress import Tracker
from jointglasso.solution import ConvergenceWarning, Solution
from jointglasso.validation import InputTypeError, check_jobs

#: Pairs of variables up to which a path reads the covariances once and remembers the pairs above its smallest lambda1.
#: Beyond it that list could fill the memory, for points that are perhaps never reached.
_REMEMBERED_PAIRS = 5_000_000


def path(source: CovarianceSource, lambdas: Sequence[tuple[float, float]], **options: Any) -> Iterator[Solution]:
    """Solutions at decreasing penalties, each the warm start of the next."""
    p = source.n_variables
    if p * (p - 1) // 2 <= _REMEMBERED_PAIRS:
        yield from solve_path(source, lambdas, **options)
        return
    previous: Solution | None = None
    for lambda1, lambda2 in lambdas:
        previous = solve(source, lambda1, lambda2, warm_start=previous, **options)
        yield previous


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
            similar = get_close_matches(name, known, 1)
            meant = f" (similar: {similar[0]!r})" if similar else ""
            raise InputTypeError(f"{name}= is no argument here, nor one of solve{meant}: correct it.", parameter=name)
    return {name: value for name, value in given.items() if value is not None}
