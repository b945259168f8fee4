"""The figure of running times: HADMM, LADMM, GADMM and our default, over the number of classes."""

from __future__ import annotations

import time
from itertools import product

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.screening import screen
from jointglasso.warm import warm_kernels
from reproduction.designs import (
    BLOCKS_NOTE,
    CHOICES_NOTE,
    DESIGNS,
    MUCH,
    PAPER_LAMBDAS,
    case,
    draw,
    lambdas,
    scaling_notes,
    shown_lambdas,
)
from reproduction.drawing import Curve, curve_grid
from reproduction.methods import METHODS, PLAIN_NOTE, Timing, run_default, time_to_stop
from reproduction.result import Holds, Result, Row, Settings, judged

CLAIM = (
    "HADMM is much more efficient than LADMM and GADMM; the time of all three grows with the number of classes, that "
    "of GADMM more than that of HADMM."
)
DEFAULT = "jointglasso default"
METHODS_SHOWN = ("HADMM", "LADMM", "GADMM")


#: Number of variables, classes, penalties and data sets of the three sizes. At p=200 every run ends within a minute.
SIZES = {
    "quick": (100, (2, 3), ("P3",), 1),
    "default": (200, (2, 4), ("P2",), 3),
    "full": (1000, tuple(range(2, 11)), tuple(PAPER_LAMBDAS), 3),
}


def figure_times(settings: Settings) -> Result:
    """Time all methods to the paper's stopping rule, and our default to a relative gap of 1e-8."""
    p, classes, names, n_seeds = SIZES[settings.sized("quick", "default", "full")]
    seeds = range(settings.seed, settings.seed + n_seeds)
    designs = ("A", "B10", "B40") if settings.quick else tuple(DESIGNS)
    rows: list[Row] = []
    warm_kernels()  # compilation is not timed
    for design, seed in product(designs, seeds):
        S = draw(design, p, max(classes), seed)
        for name, n_classes in product(names, classes):
            head = case(design, name, p, n_classes) | {"seed": seed}
            rows.append(head | _times(S[:n_classes], lambdas(name, p), settings.limit))
    notes = [
        PLAIN_NOTE,
        BLOCKS_NOTE,
        CHOICES_NOTE,
        *scaling_notes(p),
        f"Seconds are processor time, screening included. Every time is that of a run to the paper's stopping rule; a "
        f"run that takes longer than {settings.limit:g} s on the clock is stopped and not compared.",
        "The figure shows the median over the seeds.",
    ]
    figure = curve_grid(_cells(rows, p), {"": "processor\nseconds"}, f"Time to the paper's stopping rule, p={p}", CLAIM)
    return Result(CLAIM, _verdict(rows), _judge(rows), rows, {"": figure}, notes)


def _times(S: FloatArray, penalties: tuple[float, float], limit: float) -> dict[str, object]:
    timings: dict[str, Timing] = {}
    row: dict[str, object] = {}
    for method in METHODS_SHOWN:
        timings[method], row[f"{method} iterations"] = time_to_stop(S, *penalties, method, limit=limit)
        row[f"{method} biggest"] = screen(S, *penalties, rule=METHODS[method]).largest
    began = time.process_time()
    run_default(S, *penalties, tol=1e-8)
    timings[DEFAULT] = Timing(time.process_time() - began, "run")
    row |= {f"{method} seconds": timing.seconds for method, timing in timings.items()}
    return row | {f"{method} how": timing.how for method, timing in timings.items()}


def _seconds(rows: list[Row], method: str) -> FloatArray:
    return np.array([row[f"{method} seconds"] for row in rows], dtype=float)


def _gains(rows: list[Row]) -> FloatArray:
    """Time of the faster other method over that of HADMM; not a number where a run did not end."""
    return np.minimum(_seconds(rows, "LADMM"), _seconds(rows, "GADMM")) / _seconds(rows, "HADMM")


def _judge(rows: list[Row]) -> Holds:
    """Faster by `MUCH` in every measured case, in some, or in none."""
    gain = _gains(rows)
    known = gain[np.isfinite(gain)]
    return judged(int((known >= MUCH).sum()), len(known))


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
        f"HADMM. {_growth(rows)}"
    )


def _spread(ratios: FloatArray) -> str:
    """Median, range and number of large values, where they were measured."""
    known = ratios[np.isfinite(ratios)]
    if not len(known):
        return "not measured"
    large = int((known >= MUCH).sum())
    return f"{np.median(known):.3g} ({known.min():.2g} to {known.max():.2g}; {large} of {len(known)})"


def _growth(rows: list[Row]) -> str:
    """How time grows from the fewest to the most classes, in the median over designs, penalties and seeds."""
    few, many = min(int(row["K"]) for row in rows), max(int(row["K"]) for row in rows)
    first, last = ([row for row in rows if row["K"] == K] for K in (few, many))
    growth = {method: _seconds(last, method) / _seconds(first, method) for method in METHODS_SHOWN}
    listed = ", ".join(f"{method} {np.nanmedian(g):.2g}" for method, g in growth.items() if np.isfinite(g).any())
    return f"Growth from {few} to {many} classes, in the median: {listed} times."


def _cells(rows: list[Row], p: int) -> dict[tuple[str, str], dict[str, Curve]]:
    cells: dict[tuple[str, str], dict[str, Curve]] = {}
    for design, name in dict.fromkeys((str(row["design"]), str(row["lambdas"])) for row in rows):
        chosen = [row for row in rows if (row["design"], row["lambdas"]) == (design, name)]
        x = list(dict.fromkeys(int(row["K"]) for row in chosen))
        cells[f"type {design}", shown_lambdas(name, p)] = {
            method: Curve(x, [float(np.median(_seconds([r for r in chosen if r["K"] == K], method))) for K in x])
            for method in (*METHODS_SHOWN, DEFAULT)
        }
    return cells
