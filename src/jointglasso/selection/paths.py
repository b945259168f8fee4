"""Solving along columns of a grid, each point started from the one before."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from joblib import Parallel, delayed

from jointglasso.covariance import CovarianceSource
from jointglasso.engine import solve, solve_path
from jointglasso.solution import ConvergenceWarning, Solution
from jointglasso.validation import check_jobs

Item = TypeVar("Item")
Result = TypeVar("Result")


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


def map_jobs(function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None) -> list[Result]:
    """Apply a function to every item, several at a time on threads: the solver's kernels run beside each other."""
    jobs = check_jobs(n_jobs)
    if jobs is None or jobs == 1:
        return [function(item) for item in items]
    return list(Parallel(n_jobs=jobs, prefer="threads")(delayed(function)(item) for item in items))


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
            f"{n_failed} of {n_solves} solves of the {what} stopped before their tolerance: raise max_iter or tol, or "
            "leave out the weakest penalties.",
            ConvergenceWarning,
            stacklevel=3,
        )


def solve_options(given: dict[str, Any]) -> dict[str, Any]:
    """Options for `solve`, those left at None dropped."""
    return {name: value for name, value in given.items() if value is not None}
