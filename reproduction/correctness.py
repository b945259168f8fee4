"""The figure of correctness: ADMM and HADMM converge to the same objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from jointglasso.plots.canvas import INK, ORANGE, new_figure, tidy
from jointglasso.screening import screen
from reproduction.cases import run_cases
from reproduction.designs import DESIGNS, data_notes, draw, lambdas
from reproduction.drawing import STYLES, caption
from reproduction.methods import METHODS, PLAIN_NOTE, run_admm, run_default
from reproduction.result import Result, Row, Settings, judged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIM = "over 500 iterations both HADMM and ADMM converge to the same objective value, on all three types of data."

#: Relative difference of two objectives that count as the same.
SAME = 1e-6

#: Column of the objectives after each iteration: drawn, not tabulated.
CURVES = "curves"


def figure_correctness(settings: Settings) -> Result:
    """Follow the objective of both methods, and check the end against a certified optimum."""
    return correctness_result(measure_correctness(settings), settings)


def correctness_cases(settings: Settings) -> list[tuple[str, int, str, int, int]]:
    """Design, number of variables, penalties, number of classes and seed of each data set."""
    p, n_classes, n_seeds = settings.sized((80, 2, 1), (200, 2, 3), (1000, 6, 3))
    p, classes, names = settings.n_variables or p, settings.classes or (n_classes,), settings.penalties or ("P3",)
    return [(d, p, name, K, seed) for d, seed, name, K in product(DESIGNS, settings.seeds(n_seeds), names, classes)]


def measure_correctness(settings: Settings) -> list[Row]:
    """One row for each data set, with the objectives of ADMM and HADMM after each iteration."""
    cases = correctness_cases(settings)
    n_iter = 400 if settings.quick else 500
    tasks = [(method, *case, n_iter) for method in ("ADMM", "HADMM") for case in cases]
    found = dict(zip([task[:-1] for task in tasks], run_cases(objectives, tasks, settings.workers), strict=True))
    return [correctness_row(case, {method: found[method, *case] for method in ("ADMM", "HADMM")}) for case in cases]


def objectives(method: str, design: str, p: int, name: str, n_classes: int, seed: int, n_iter: int) -> list[float]:
    """Objective of ADMM or HADMM after each iteration, until the paper's stopping rule holds."""
    S = draw(design, p, n_classes, seed)
    return run_admm(S, *lambdas(name, p), METHODS[method], n_iter).history.objective.tolist()


def correctness_row(case_key: tuple[str, int, str, int, int], curves: Mapping[str, Sequence[float]]) -> Row:
    """The row of one data set: last objectives, a certified optimum, their distances, and the curves for the figure."""
    design, p, name, n_classes, seed = case_key
    S, penalties = draw(design, p, n_classes, seed), lambdas(name, p)
    certified = run_default(S, *penalties, tol=1e-12)
    best = np.nan if certified is None else certified.objective
    head = {"design": design, "seed": seed, "p": p, "K": n_classes}
    return head | {"HADMM's biggest block": screen(S, *penalties).largest} | _end(curves, best) | {CURVES: curves}


def correctness_result(rows: list[Row], settings: Settings) -> Result:
    """Verdict, figure of the first seed and notes for measured rows."""
    p = int(rows[0]["p"])
    notes = [
        "The iterations end before the last one if the paper's stopping rule holds. The figure shows the first seed.",
        PLAIN_NOTE,
        *data_notes(p),
    ]
    figure = _figure([row for row in rows if row["seed"] == settings.seed])
    ends: list[Row] = [{key: value for key, value in row.items() if key != CURVES} for row in rows]
    same = [float(row["ADMM - HADMM, relative"]) <= SAME for row in ends]
    return Result(CLAIM, _verdict(ends), judged(sum(same), len(same)), ends, {"": figure}, notes)


def _verdict(ends: list[Row]) -> str:
    apart, from_optimum = (
        max(float(row[column]) for row in ends) for column in ("ADMM - HADMM, relative", "HADMM - optimum, relative")
    )
    coarse = sorted({str(row["design"]) for row in ends if row["HADMM's biggest block"] > 0.9 * row["p"]})
    alike = (
        f" HADMM's biggest block has more than nine tenths of the variables in a case of {' and '.join(coarse)}: "
        "there the two methods are nearly one."
        if coarse
        else ""
    )
    return (
        f"in {len(ends)} cases, after at most {max(row['iterations'] for row in ends)} iterations, the two objectives "
        f"differ by at most {apart:.1e}, relative to their size, and from the certified optimum by at most "
        f"{from_optimum:.1e}.{alike}"
    )


def _end(curves: Mapping[str, Sequence[float]], optimum: float) -> dict[str, object]:
    last = {method: float(values[-1]) for method, values in curves.items()}
    scale = max(1.0, abs(optimum))
    return {
        "iterations": len(curves["HADMM"]),
        "ADMM": last["ADMM"],
        "HADMM": last["HADMM"],
        "certified optimum": optimum,
        "ADMM - HADMM, relative": abs(last["ADMM"] - last["HADMM"]) / scale,
        "HADMM - optimum, relative": abs(last["HADMM"] - optimum) / scale,
    }


def _figure(rows: list[Row]) -> Figure:
    figure = new_figure(3.4 * len(rows), 5.4)
    panels = figure.subplots(2, len(rows), sharex=True, sharey="row", squeeze=False)
    for column, row in enumerate(rows):
        found = {method: np.array(values) for method, values in row[CURVES].items()}
        top, bottom = panels[:, column]
        for method, width in (("ADMM", 3.5), ("HADMM", 1.2)):
            steps = np.arange(1, len(found[method]) + 1)
            colour = STYLES[method][0]
            shade = 0.45 if method == "ADMM" else 1.0
            top.plot(steps, found[method], color=colour, linewidth=width, alpha=shade, label=method)
            bottom.semilogy(
                steps,
                np.abs(found[method] - row["certified optimum"]),
                color=colour,
                linewidth=width,
                alpha=shade,
                label=method,
            )
        shorter = min(map(len, found.values()))
        apart = np.abs(found["ADMM"][:shorter] - found["HADMM"][:shorter])
        bottom.semilogy(np.arange(1, shorter + 1), apart, color=ORANGE, linewidth=0.8, label="difference of the two")
        top.set_title(f"type {row['design']}", fontsize=9, color=INK)
        bottom.set_xlabel("iteration", fontsize=8)
        tidy(top)
        tidy(bottom)
    panels[0, 0].set_ylabel("objective", fontsize=8)
    panels[1, 0].set_ylabel("distance to the\ncertified optimum", fontsize=8)
    panels[0, 0].legend(frameon=False, fontsize=8)
    panels[1, 0].legend(frameon=False, fontsize=8)
    caption(figure, f"Objective of ADMM and HADMM, p={rows[0]['p']}, {rows[0]['K']} classes", CLAIM)
    return figure
