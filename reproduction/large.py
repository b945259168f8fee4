"""p=10,000: seconds per iteration and complexity, where running to the end would take days."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray
from reproduction.complexity import complexity_cells
from reproduction.designs import (
    BLOCKS_NOTE,
    ONE_OF_EACH,
    ONE_OF_EACH_NOTE,
    PAPER_LAMBDAS,
    case,
    draw,
    lambdas,
    scaling_notes,
)
from reproduction.drawing import Curve, curve_grid
from reproduction.methods import PLAIN_NOTE, time_iteration
from reproduction.result import Result, Row, Settings, judged

CLAIM = (
    "at p=10,000 the average time of one iteration of HADMM is far below that of LADMM and GADMM, and its advantage "
    "in complexity is even larger than at p=1000."
)
RULE_OF = {"HADMM": "hybrid", "LADMM": "class", "GADMM": "global"}


def p10000(settings: Settings) -> Result:
    """Time single iterations of the three methods, and compare the complexity of their partitions."""
    p, classes, n_iter, budget = (400, (2, 3), 3, 0.5) if settings.quick else (10_000, range(2, 11), 50, 4.0)
    names = ("P3",) if settings.quick else tuple(PAPER_LAMBDAS)
    rows: list[Row] = []
    for design in ("A", "C40") if settings.quick else ONE_OF_EACH:
        S = draw(design, p, max(classes), settings.seed)
        for name in names:
            rows += [_row(S[:K], design, name, n_iter, budget) for K in classes]
        del S  # 8 GB at p=10,000: the next type must not be drawn beside it
    figures = {
        "": curve_grid(_time_cells(rows, p), {"": "seconds per\niteration"}, f"Time of one iteration, p={p:,}", CLAIM),
        "-complexity": curve_grid(
            complexity_cells(rows, p),
            {"": "sum of cubed\nblock sizes"},
            f"Complexity of the partitions, p={p:,}",
            CLAIM,
        ),
    }
    notes = [
        PLAIN_NOTE,
        BLOCKS_NOTE,
        ONE_OF_EACH_NOTE,
        *scaling_notes(p),
        f'Median of up to {n_iter} iterations. Times are "scaled" if {budget:g} s were over before, and "estimated" '
        "from block "
        "sizes and the measured speed of one eigendecomposition if three iterations would take longer than that, or "
        "the iterates would not fit into memory (open markers).",
    ]
    ratios = np.array([row["hybrid / best other"] for row in rows])
    return Result(CLAIM, _verdict(rows), judged(int((ratios <= 0.1).sum()), len(rows)), rows, figures, notes)


def _row(S: FloatArray, design: str, name: str, n_iter: int, budget: float) -> Row:
    penalties = lambdas(name, S.shape[1])
    row = case(design, name, S.shape[1], len(S))
    cost = {}
    for method, rule in RULE_OF.items():
        timing, partition = time_iteration(S, *penalties, method, n_iter=n_iter, budget=budget)
        cost[rule] = partition.cost
        row |= {f"{method} seconds": timing.seconds, f"{method} how": timing.how}
        row |= {f"{rule} cost": partition.cost, f"{rule} biggest": partition.largest}
    return row | {"hybrid / best other": cost["hybrid"] / min(cost["class"], cost["global"])}


def _verdict(rows: list[Row]) -> str:
    gain = np.array([min(row["LADMM seconds"], row["GADMM seconds"]) / row["HADMM seconds"] for row in rows])
    ratio = np.array([row["hybrid / best other"] for row in rows])
    measured = sum(row[f"{method} how"] != "estimated" for row in rows for method in RULE_OF)
    return (
        f"an iteration of HADMM is {np.median(gain):.3g} times faster than one of the better other method in the "
        f"median ({gain.min():.2g} to {gain.max():.2g} times over {len(gain)} cases); its complexity is "
        f"{np.median(ratio):.1e} of the "
        f"better other rule in the median ({ratio.min():.1e} to {ratio.max():.1e}), at most 1/10 in "
        f"{int((ratio <= 0.1).sum())} "
        f"cases. Of the {3 * len(rows)} times {measured} are measured and {3 * len(rows) - measured} estimated."
    )


def _time_cells(rows: list[Row], p: int) -> dict[tuple[str, str], dict[str, Curve]]:
    cells: dict[tuple[str, str], dict[str, Curve]] = {}
    keys = complexity_cells(rows, p)
    groups = dict.fromkeys((row["design"], row["lambdas"]) for row in rows)
    for key, group in zip(keys, groups, strict=True):
        chosen = [row for row in rows if (row["design"], row["lambdas"]) == group]
        cells[key] = {
            method: Curve(
                [row["K"] for row in chosen],
                [row[f"{method} seconds"] for row in chosen],
                [row[f"{method} how"] != "estimated" for row in chosen],
            )
            for method in RULE_OF
        }
    return cells
