"""Which penalties can be afforded: asked before they are solved, so that a choice among the rest remains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from jointglasso._memory import available_memory
from jointglasso._typing import FloatArray
from jointglasso.covariance import CovarianceSource
from jointglasso.engine import plan
from jointglasso.problem import PROBLEM, make_problem
from jointglasso.screening.curve import drawn_covariances, reachable_floor
from jointglasso.screening.pairs import known_pairs
from jointglasso.selection.grids import of_problem
from jointglasso.validation import check_weights

#: Up to so many variables everything is tried.
_SMALL = 1000

#: Pairs above lambda1 that a screening pass may list.
_PAIRS = 20_000_000

#: Pairs of the one scan that the points share.
_LISTED = 5_000_000

#: Pairs drawn at random to estimate how many there are.
_DRAWN = 200_000


@contextmanager
def scanned_once(source: CovarianceSource, options: dict[str, Any]) -> Iterator[None]:
    """Inside, plans and solves of very many variables have one scan of the covariances between them.

    It lists as many pairs as a twentieth of the memory will hold, and at most `_LISTED`; weaker penalties than that are
    scanned by themselves.
    """
    if source.n_variables <= _SMALL or options.get("pair_weights") is not None or options.get("screening") == "none":
        yield
        return
    room = options.get("max_memory") or available_memory() or np.inf
    w = check_weights(options.get("weights"), source.class_names, source.sample_sizes)
    floor = reachable_floor(source, w, None, int(min(_LISTED, 0.05 * room / (17.0 + 9.0 * source.n_classes))))
    with known_pairs(source, make_problem(source, floor, 0.0, **of_problem(options)).penalty, w):
        yield


class Budget:
    """Tells whether a point fits into memory and time: `max_seconds` for a solve, by its plan; None for no limit."""

    def __init__(self, source: CovarianceSource, max_seconds: float | None, options: dict[str, Any]) -> None:
        self._source = source
        self._max_seconds = max_seconds
        self._max_memory = options.get("max_memory")
        self._options = {name: options[name] for name in (*PROBLEM, "screening") if name in options}
        self._peaks = self._drawn_peaks() if source.n_variables > _SMALL else None

    def objection(self, lambda1: float, lambda2: float) -> str:
        """Why the point cannot be solved; empty if it can."""
        if self._peaks is None:
            return ""
        p = self._source.n_variables
        n_pairs = (1.0 - np.searchsorted(self._peaks, lambda1) / len(self._peaks)) * p * (p - 1) / 2
        if n_pairs > _PAIRS:
            return "too many pairs above lambda1"
        found = plan(self._source, lambda1, lambda2, **self._options)
        room = available_memory() if self._max_memory is None else self._max_memory
        if room is not None and found.memory > 0.8 * room:
            return "memory"
        if self._max_seconds is not None and found.seconds > self._max_seconds:
            return f"a solve of more than {self._max_seconds:g} s"
        return ""

    def _drawn_peaks(self) -> FloatArray:
        """Largest weighted covariance over the classes of pairs drawn at random, sorted."""
        source = self._source
        w = check_weights(self._options.get("weights"), source.class_names, source.sample_sizes)
        return np.sort(np.abs(drawn_covariances(source, w, _DRAWN)).max(axis=1))


def describe_left_out(left_out: dict[tuple[float, float], str]) -> str:
    """What was left out, in words; empty if nothing was."""
    if not left_out:
        return ""
    reasons = "; ".join(sorted(set(left_out.values())))
    strongest = max(left_out, key=sum)
    return (
        f"{len(left_out)} weaker points were left out beforehand because they cannot be afforded ({reasons}), from "
        f"lambda1 = {strongest[0]:.4g}, lambda2 = {strongest[1]:.4g} on: the choice is among the others."
    )
