"""The figure of running times: HADMM, LADMM, GADMM and our default, over the number of classes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import product

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.screening import screen
from jointglasso.warm import warm_kernels
from reproduction.cases import run_cases
from reproduction.designs import DESIGNS, MUCH, PAPER_LAMBDAS, case, data_notes, draw, lambdas
from reproduction.drawing import Curve, curve_grid, panels
from reproduction.methods import METHODS, PLAIN_NOTE, run_admm, run_default, time_to_stop
from reproduction.result import Holds, Result, Row, Settings, judged

CLAIM = (
    "HADMM is much more efficient than LADMM and GADMM; the time of all three grows with the number of classes, that "
    "of GADMM more than that of HADMM."
)
DEFAULT = "jointglasso default"
METHODS_SHOWN = ("HADMM", "LADMM", "GADMM")
RUN_ORDER = ("GADMM", "LADMM", "HADMM", DEFAULT)

#: Number of variables, classes, penalties and data sets of the three sizes. At p=200 every run ends within a minute.
SIZES = {
    "quick": (100, (2, 3), ("P3",), 1),
    "default": (200, (2, 4), ("P2",), 3),
    "full": (1000, tuple(range(2, 11)), tuple(PAPER_LAMBDAS), 3),
}


def figure_times(settings: Settings) -> Result:
    """Time all methods to the paper's stopping rule, and our default to a relative gap of 1e-8."""
    return times_result(measure_times(settings), settings)


def time_cases(settings: Settings) -> list[tuple[str, int, str, int, int]]:
    """Design, number of variables, penalties, number of classes and seed of each data set."""
    p, classes, names, n_seeds = SIZES[settings.sized("quick", "default", "full")]
    designs = ("A", "B10", "B40") if settings.quick else tuple(DESIGNS)
    p, classes, names = settings.n_variables or p, settings.classes or classes, settings.penalties or names
    return [(d, p, name, K, seed) for d, seed, name, K in product(designs, settings.seeds(n_seeds), names, classes)]


def measure_times(settings: Settings) -> list[Row]:
    """One row for each data set, with the times of all methods; the longest runs are begun first."""
    cases = time_cases(settings)
    tasks = [(method, *case, settings.limit) for method in RUN_ORDER for case in cases]
    timed = dict(zip([task[:-1] for task in tasks], run_cases(time_method, tasks, settings.workers), strict=True))
    return [times_row(case, {method: timed[method, *case] for method in RUN_ORDER}) for case in cases]


def time_method(method: str, design: str, p: int, name: str, n_classes: int, seed: int, limit: float) -> Row:
    """Processor seconds of one method on one data set, how they were found, iterations and biggest block."""
    S, penalties = draw(design, p, n_classes, seed), lambdas(name, p)
    if method != DEFAULT:
        run_admm(draw("A", 40, 2, 0), *lambdas("P2", 40), METHODS[method], 3)  # compilation is not timed
        timing, n_iter = time_to_stop(S, *penalties, method, limit=limit)
        biggest = screen(S, *penalties, rule=METHODS[method]).largest
        return {"seconds": timing.seconds, "how": timing.how, "iterations": n_iter, "biggest": biggest}
    warm_kernels()
    began = time.process_time()
    run_default(S, *penalties, tol=1e-8)
    return {"seconds": time.process_time() - began, "how": "run"}


def times_row(case_key: tuple[str, int, str, int, int], timed: Mapping[str, Row]) -> Row:
    """The row of one data set: what it is, then iterations, blocks, seconds and how these were found."""
    design, p, name, n_classes, seed = case_key
    row = case(design, name, p, n_classes) | {"seed": seed}
    for method in METHODS_SHOWN:
        row |= {f"{method} {what}": timed[method][what] for what in ("iterations", "biggest")}
    for what in ("seconds", "how"):
        row |= {f"{method} {what}": timed[method][what] for method in (*METHODS_SHOWN, DEFAULT)}
    return row


def times_result(rows: list[Row], settings: Settings) -> Result:
    """Verdict, figure and notes for measured rows."""
    p = int(rows[0]["p"])
    notes = [
        PLAIN_NOTE,
        *data_notes(p),
        "Seconds are processor time over all threads (BLAS has one), screening included, of runs to the paper's "
        f"stopping rule. A run that was stopped, after {settings.limit:g} s on the clock, is marked: its time is a "
        "lower bound. No time is estimated.",
        "Intervals go from the smallest to the largest value over seeds and penalties. The figure shows medians.",
    ]
    cells, title = panels(rows, p, _curves), f"Time to the paper's stopping rule, p={p}"
    figure = curve_grid(cells, {"": "processor\nseconds"}, title, CLAIM)
    return Result(CLAIM, _verdict(rows), _judge(rows), rows, {"": figure}, notes)


def _seconds(rows: list[Row], method: str) -> FloatArray:
    """Seconds of the runs that ended; not a number for others."""
    return np.array([row[f"{method} seconds"] if row[f"{method} how"] == "run" else np.nan for row in rows])


def _gains(rows: list[Row]) -> FloatArray:
    """Time of the faster other method over that of HADMM; not a number where it is not known.

    The time of a stopped run is a lower bound: the faster of two is known if the smaller time is that of a run which
    ended.
    """
    gains = []
    for row in rows:
        faster = min(("LADMM", "GADMM"), key=lambda method: float(row[f"{method} seconds"]))
        ended = all(row[f"{method} how"] == "run" for method in (faster, "HADMM"))
        gains.append(row[f"{faster} seconds"] / row["HADMM seconds"] if ended else np.nan)
    return np.array(gains, dtype=float)


def _judge(rows: list[Row]) -> Holds:
    """Faster by `MUCH` in every known case, in some, or in none; growth with the classes is the other half of it."""
    gain = _gains(rows)
    known = gain[np.isfinite(gain)]
    faster = judged(int((known >= MUCH).sum()), len(known))
    growth = _growth(rows)
    grows = bool(growth) and growth["GADMM"] > growth["HADMM"] and min(growth.values()) > 1.0
    return "holds in part" if faster == "holds" and not grows else faster


def _verdict(rows: list[Row]) -> str:
    parts = []
    for design in dict.fromkeys(str(row["design"]) for row in rows):
        by_classes = [
            f"{_spread(_gains([row for row in rows if (row['design'], row['K']) == (design, K)]))} with {K} classes"
            for K in dict.fromkeys(int(row["K"]) for row in rows)
        ]
        parts.append(f"type {design}: {', '.join(by_classes)}")
    ended = {method: sum(row[f"{method} how"] == "run" for row in rows) for method in METHODS_SHOWN}
    listed = ", ".join(f"{method} {count}" for method, count in ended.items())
    default = _seconds(rows, "HADMM") / _seconds(rows, DEFAULT)
    return (
        f"time of the faster of LADMM and GADMM over that of HADMM (median; smallest to largest over seeds and "
        f"penalties; cases of at least {MUCH:g}): {'; '.join(parts)}. Of {len(rows)} runs of each method ended: "
        f"{listed}. The default of this package, to a certified gap of 1e-8, is {_spread(default)} times as fast as "
        f"HADMM. {_growth_in_words(rows)}"
    )


def _spread(ratios: FloatArray) -> str:
    """Median, range and number of large values, where they were measured."""
    known = ratios[np.isfinite(ratios)]
    if not len(known):
        return "not measured"
    large = int((known >= MUCH).sum())
    return f"{np.median(known):.3g} ({known.min():.2g} to {known.max():.2g}; {large} of {len(known)})"


def _growth(rows: list[Row]) -> dict[str, float]:
    """Factor of time from the fewest to the most classes, the median over designs, penalties and seeds, by method."""
    few, many = min(int(row["K"]) for row in rows), max(int(row["K"]) for row in rows)
    if few == many:
        return {}
    first, last = ([row for row in rows if row["K"] == K] for K in (few, many))
    return {method: float(np.nanmedian(_seconds(last, method) / _seconds(first, method))) for method in METHODS_SHOWN}


def _growth_in_words(rows: list[Row]) -> str:
    growth = _growth(rows)
    if not growth:
        return "Growth with the number of classes was not measured."
    few, many = min(int(row["K"]) for row in rows), max(int(row["K"]) for row in rows)
    listed = ", ".join(f"{method} {factor:.2g}" for method, factor in growth.items())
    return f"Growth from {few} to {many} classes, in the median: {listed} times."


def _curves(rows: list[Row]) -> dict[str, Curve]:
    """Medians over the data sets."""
    by_classes = {K: [row for row in rows if row["K"] == K] for K in dict.fromkeys(int(row["K"]) for row in rows)}
    return {
        method: Curve(list(by_classes), [float(np.median(_seconds(group, method))) for group in by_classes.values()])
        for method in (*METHODS_SHOWN, DEFAULT)
    }
