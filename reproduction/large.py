"""Large p: seconds per iteration and complexity, where running to the end would take days."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from jointglasso._typing import FloatArray
from reproduction.cases import run_cases
from reproduction.complexity import complexity_curves
from reproduction.designs import DESIGNS, PAPER_LAMBDAS, case, data_notes, draw, lambdas
from reproduction.drawing import Curve, curve_grid, curve_of, panels
from reproduction.methods import PLAIN_NOTE, estimated_seconds, rate_note, time_iteration
from reproduction.result import Holds, Result, Row, Settings, judged

CLAIM = (
    "at p=10,000 the average time of one iteration of HADMM is far below that of LADMM and GADMM, and its advantage "
    "in complexity is even larger than at p=1000."
)
RULE_OF = {"HADMM": "hybrid", "LADMM": "class", "GADMM": "global"}


def p10000(settings: Settings) -> Result:
    """Time single iterations of the three methods, and compare the complexity of their partitions."""
    return large_result(measure_large(settings), settings)


def measure_large(settings: Settings) -> list[Row]:
    """One row for each design, seed, pair of penalties and number of classes."""
    p, n_iter, n_seeds = settings.sized((400, 3, 1), (2000, 3, 2), (10_000, 50, 1))
    classes: tuple[int, ...] = settings.classes or settings.sized((2, 3), (2,), tuple(range(2, 11)))
    names = settings.penalties or settings.sized(("P3",), ("P3",), tuple(PAPER_LAMBDAS))
    size = (settings.n_variables or p, classes, names, n_iter, _budget(settings))
    tasks = [(design, seed, *size) for design, seed in product(DESIGNS, settings.seeds(n_seeds))]
    return [_with_one_rate(row) for rows in run_cases(large_rows, tasks, settings.workers) for row in rows]


def _with_one_rate(row: Row) -> Row:
    """The row with estimates by the rate of this process, whichever process made it."""
    estimated = [(method, rule) for method, rule in RULE_OF.items() if row[f"{method} how"] == "estimated"]
    return {**row} | {f"{method} seconds": estimated_seconds(row[f"{rule} cost"]) for method, rule in estimated}


def _budget(settings: Settings) -> float:
    return 2.0 if settings.quick else settings.limit


def large_rows(
    design: str, seed: int, p: int, classes: tuple[int, ...], names: tuple[str, ...], n_iter: int, budget: float
) -> list[Row]:
    """Rows of one data set, drawn once."""
    S = draw(design, p, max(classes), seed)
    return [_row(S[:K], design, name, seed, n_iter, budget) for name, K in product(names, classes)]


def large_result(rows: list[Row], settings: Settings) -> Result:
    """Verdict, figures of the first seed and notes for measured rows."""
    p = int(rows[0]["p"])
    shown = [row for row in rows if row["seed"] == settings.seed]
    figures = {
        "": curve_grid(
            panels(shown, p, _time_curves),
            {"": "seconds per\niteration"},
            f"Time of one iteration, p={p:,}",
            CLAIM,
        ),
        "-complexity": curve_grid(
            panels(shown, p, complexity_curves),
            {"": "sum of cubed\nblock sizes"},
            f"Complexity of the partitions, p={p:,}",
            CLAIM,
        ),
    }
    estimated = any(not _timed(row) for row in rows)
    notes = [
        PLAIN_NOTE,
        *data_notes(p),
        f"Processor seconds of one iteration, one BLAS thread: median of a few, of fewer if {_budget(settings):g} s "
        "are over before. Where three iterations would take longer by the block sizes and the measured speed of one "
        'eigendecomposition, or would not fit into memory, the time is "estimated" from these (open markers) and not '
        "compared. The figures show the first seed.",
        *([rate_note()] if estimated else []),
    ]
    return Result(CLAIM, _verdict(rows), _judge(rows), rows, figures, notes)


def _row(S: FloatArray, design: str, name: str, seed: int, n_iter: int, budget: float) -> Row:
    penalties = lambdas(name, S.shape[1])
    row = case(design, name, S.shape[1], len(S)) | {"seed": seed}
    cost = {}
    for method, rule in RULE_OF.items():
        timing, partition = time_iteration(S, *penalties, method, n_iter=n_iter, budget=budget)
        cost[rule] = partition.cost
        row |= {f"{method} seconds": timing.seconds, f"{method} how": timing.how}
        row |= {f"{rule} cost": partition.cost, f"{rule} biggest": partition.largest}
    return row | {"hybrid / best other": cost["hybrid"] / min(cost["class"], cost["global"])}


def _timed(row: Row) -> bool:
    """Whether the iterations of all three methods were run, not estimated."""
    return all(row[f"{method} how"] != "estimated" for method in RULE_OF)


def _judge(rows: list[Row]) -> Holds:
    """The claim is about times and complexity: where no time of a rival was measured it holds in part at best."""
    cheaper = judged(sum(row["hybrid / best other"] <= 0.1 for row in rows), len(rows))
    return "holds in part" if cheaper == "holds" and not all(map(_timed, rows)) else cheaper


def _verdict(rows: list[Row]) -> str:
    parts = []
    for design in dict.fromkeys(str(row["design"]) for row in rows):
        ratio = np.array([row["hybrid / best other"] for row in rows if row["design"] == design])
        parts.append(
            f"type {design}: at most 1/10 of the complexity of the better other rule in {int((ratio <= 0.1).sum())} of "
            f"{len(ratio)} cases (median {np.median(ratio):.1e}, {ratio.min():.1e} to {ratio.max():.1e})"
        )
    own = np.array([row["HADMM seconds"] for row in rows])
    estimated = sum(row[f"{method} how"] == "estimated" for row in rows for method in RULE_OF)
    timed = [row for row in rows if _timed(row)]
    gain = np.array([min(row["LADMM seconds"], row["GADMM seconds"]) / row["HADMM seconds"] for row in timed])
    times = (
        f"Where all three were run ({len(timed)} cases) it is {np.median(gain):.3g} times faster than one of the "
        f"better other method in the median ({gain.min():.2g} to {gain.max():.2g})."
        if timed
        else "No iteration of LADMM and GADMM was run, so that times are not compared."
    )
    return (
        f"{'; '.join(parts)}. An iteration of HADMM takes {own.min():.2g} to {own.max():.2g} s. {times} "
        f"{estimated} of {3 * len(rows)} times are estimated."
    )


def _time_curves(rows: list[Row]) -> dict[str, Curve]:
    return {
        method: replace(
            curve_of(rows, f"{method} seconds"), measured=[row[f"{method} how"] != "estimated" for row in rows]
        )
        for method in RULE_OF
    }
