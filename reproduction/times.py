"""The figure of running times: HADMM, LADMM, GADMM and our default, over the number of classes."""

from __future__ import annotations

import time

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.warm import warm_kernels
from reproduction.designs import (
    BLOCKS_NOTE,
    ONE_OF_EACH,
    ONE_OF_EACH_NOTE,
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
    p, classes, budget = (300, (2, 3), 1.0) if settings.quick else (1000, range(2, 11), 8.0)
    names = ("P3",) if settings.quick else tuple(PAPER_LAMBDAS)
    rows: list[Row] = []
    designs = ("A",) if settings.quick else ONE_OF_EACH
    warm_kernels()  # before anything is timed
    for design in designs:
        S = draw(design, p, max(classes), settings.seed)
        for name in names:
            for n_classes in classes:
                rows.append(case(design, name, p, n_classes) | _times(S[:n_classes], name, p, budget))
    notes = [
        PLAIN_NOTE,
        BLOCKS_NOTE,
        ONE_OF_EACH_NOTE,
        *scaling_notes(p),
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
    return (
        {"iterations": n_iter}
        | {f"{method} seconds": timing.seconds for method, timing in found.items()}
        | {f"{method} how": timing.how for method, timing in found.items()}
    )


def _seconds(rows: list[Row], method: str) -> FloatArray:
    return np.array([row[f"{method} seconds"] for row in rows], dtype=float)


def _judge(rows: list[Row]) -> Holds:
    others = np.minimum(_seconds(rows, "LADMM"), _seconds(rows, "GADMM"))
    return judged(int((_seconds(rows, "HADMM") < others).sum()), len(rows))


def _verdict(rows: list[Row]) -> str:
    others = np.minimum(_seconds(rows, "LADMM"), _seconds(rows, "GADMM"))
    gain = others / _seconds(rows, "HADMM")
    own = _seconds(rows, "HADMM") / _seconds(rows, DEFAULT)
    measured = sum(row[f"{method} how"] == "run" for row in rows for method in METHODS_SHOWN)
    return (
        f"HADMM is faster than the better of the others in {int((gain > 1).sum())} of {len(gain)} cases, "
        f"{np.median(gain):.3g} "
        f"times in the median (smallest {gain.min():.2g}, largest {gain.max():.2g}); the default of this package, to "
        "a certified "
        f"gap of 1e-8, is {np.median(own):.3g} times faster than HADMM in the median. {measured} of {3 * len(rows)} "
        f"times were measured to the end. {_growth(rows)}"
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
