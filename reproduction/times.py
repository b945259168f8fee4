"""The figure of running times: HADMM, LADMM, GADMM and our default, over the number of classes."""

from __future__ import annotations

import time

import numpy as np

from jointglasso._typing import FloatArray
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
from reproduction.methods import PLAIN_NOTE, Timing, n_iterations_to_stop, run_default, time_to_stop
from reproduction.result import Holds, Result, Row, Settings, judged

CLAIM = (
    "HADMM is much more efficient than LADMM and GADMM; the time of all three grows with the number of classes, that "
    "of GADMM more than that of HADMM."
)
DEFAULT = "jointglasso default"
METHODS_SHOWN = ("HADMM", "LADMM", "GADMM")


def figure_times(settings: Settings) -> Result:
    """Time all methods to the paper's stopping rule, and our default to a relative gap of 1e-8."""
    p, classes, budget = (300, (2, 3), 1.0) if settings.quick else (1000, range(2, 11), settings.limit)
    names = ("P3",) if settings.quick else tuple(PAPER_LAMBDAS)
    rows: list[Row] = []
    designs = ("A",) if settings.quick else tuple(DESIGNS)
    warm_kernels()  # before anything is timed
    for design in designs:
        S = draw(design, p, max(classes), settings.seed)
        for name in names:
            for n_classes in classes:
                rows.append(case(design, name, p, n_classes) | _times(S[:n_classes], name, p, budget))
    notes = [
        PLAIN_NOTE,
        BLOCKS_NOTE,
        CHOICES_NOTE,
        *scaling_notes(p),
        _error_of_estimates(rows),
        f'A method that takes longer than {budget:g} s is stopped and its time "scaled" to the number of iterations '
        "that the "
        "stopping rule takes on the finest blocks; where three iterations alone would take longer, or more memory "
        "than there "
        'is, it is "estimated" from the block sizes and the measured speed of one eigendecomposition (open markers).',
    ]
    figure = curve_grid(_cells(rows, p), {"": "seconds"}, f"Time to the paper's stopping rule, p={p}", CLAIM)
    return Result(CLAIM, _verdict(rows), _judge(rows), rows, {"": figure}, notes)


def _times(S: FloatArray, name: str, p: int, budget: float) -> dict[str, object]:
    lambda1, lambda2 = lambdas(name, p)
    n_iter = n_iterations_to_stop(S, lambda1, lambda2)
    found: dict[str, Timing] = {
        method: time_to_stop(S, lambda1, lambda2, method, n_iter=n_iter, budget=budget) for method in METHODS_SHOWN
    }
    began = time.perf_counter()
    run_default(S, lambda1, lambda2, tol=1e-8)
    found[DEFAULT] = Timing(time.perf_counter() - began, "run")
    row: dict[str, object] = {"iterations": n_iter}
    row |= {f"{method} seconds": timing.seconds for method, timing in found.items()}
    row |= {f"{method} how": timing.how for method, timing in found.items()}
    return row | {f"{method} estimate": found[method].estimate for method in METHODS_SHOWN}


def _seconds(rows: list[Row], method: str) -> FloatArray:
    return np.array([row[f"{method} seconds"] for row in rows], dtype=float)


def _gains(rows: list[Row]) -> FloatArray:
    """Time of the better other method over that of HADMM; not a number where one of the three is only estimated."""
    others = np.minimum(_seconds(rows, "LADMM"), _seconds(rows, "GADMM"))
    timed = np.array([all(row[f"{method} how"] != "estimated" for method in METHODS_SHOWN) for row in rows], dtype=bool)
    return np.where(timed, others / _seconds(rows, "HADMM"), np.nan)


def _judge(rows: list[Row]) -> Holds:
    gain = _gains(rows)
    known = gain[np.isfinite(gain)]
    return judged(int((known >= MUCH).sum()), len(known))


def _verdict(rows: list[Row]) -> str:
    parts = []
    for design in dict.fromkeys(str(row["design"]) for row in rows):
        chosen = [row for row in rows if row["design"] == design]
        gain = _gains(chosen)
        known = gain[np.isfinite(gain)]
        times = f", {known.min():.2g} to {known.max():.2g} times, median {np.median(known):.3g}" if len(known) else ""
        parts.append(
            f"type {design}: at least {MUCH:g} times as fast in {int((known >= MUCH).sum())} of {len(known)} cases"
            f"{times}"
        )
    own = _seconds(rows, "HADMM") / _seconds(rows, DEFAULT)
    ended = {method: sum(row[f"{method} how"] == "run" for row in rows) for method in METHODS_SHOWN}
    estimated = int(np.isnan(_gains(rows)).sum())
    listed = ", ".join(f"{method} {count}" for method, count in ended.items())
    return (
        f"HADMM against the better of the others: {'; '.join(parts)}. {estimated} cases with a time that is only "
        f"estimated are not compared. Of {len(rows)} runs of each method were measured to the end: {listed}; the other "
        "times are scaled from the iterations that were run. The default of this package, to a certified gap of 1e-8, "
        f"is {np.median(own):.3g} times faster than HADMM in the median. {_growth(rows)}"
    )


def _error_of_estimates(rows: list[Row]) -> str:
    """How far estimates from block sizes are off where the same run was measured."""
    ratio = np.array(
        [
            row[f"{method} seconds"] / row[f"{method} estimate"]
            for row in rows
            for method in METHODS_SHOWN
            if row[f"{method} how"] == "run" and row[f"{method} estimate"] > 0
        ]
    )
    if not len(ratio):
        return "No run was measured to the end, so that the error of the estimates is not known."
    return (
        f"Error of the estimates: the {len(ratio)} runs that were measured to the end took {ratio.min():.2g} to "
        f"{ratio.max():.2g} times the estimate (median {np.median(ratio):.2g})."
    )


def _growth(rows: list[Row]) -> str:
    """How time grows from the fewest to the most classes, in the median over the panels."""
    panels: dict[tuple[object, object], list[Row]] = {}
    for row in rows:
        panels.setdefault((row["design"], row["lambdas"]), []).append(row)
    growth = {
        method: float(np.median([_seconds(part, method)[-1] / _seconds(part, method)[0] for part in panels.values()]))
        for method in METHODS_SHOWN
    }
    listed = ", ".join(f"{method} {factor:.2g}" for method, factor in growth.items())
    return f"Growth from the fewest to the most classes, in the median: {listed} times."


def _cells(rows: list[Row], p: int) -> dict[tuple[str, str], dict[str, Curve]]:
    cells: dict[tuple[str, str], dict[str, Curve]] = {}
    for design, name in dict.fromkeys((str(row["design"]), str(row["lambdas"])) for row in rows):
        chosen = [row for row in rows if (row["design"], row["lambdas"]) == (design, name)]
        x = [int(row["K"]) for row in chosen]
        cells[f"type {design}", shown_lambdas(name, p)] = {
            method: Curve(x, _seconds(chosen, method).tolist(), [row[f"{method} how"] == "run" for row in chosen])
            for method in (*METHODS_SHOWN, DEFAULT)
        }
    return cells
