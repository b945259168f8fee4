"""The figure of correctness: ADMM and HADMM converge to the same objective."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.plots.canvas import INK, ORANGE, new_figure, tidy
from jointglasso.screening import screen
from reproduction.designs import BLOCKS_NOTE, CHOICES_NOTE, DESIGNS, draw, lambdas, scaling_notes
from reproduction.drawing import STYLES, caption
from reproduction.methods import METHODS, PLAIN_NOTE, run_admm, run_default
from reproduction.result import Result, Row, Settings, judged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIM = "over 500 iterations both HADMM and ADMM converge to the same objective value, on all three types of data."

#: Relative difference of two objectives that count as the same.
SAME = 1e-6


def figure_correctness(settings: Settings) -> Result:
    """Follow the objective of both methods, and check the end against a certified optimum."""
    p, n_classes, n_seeds = settings.sized((80, 2, 1), (200, 2, 3), (1000, 6, 3))
    n_iter = 400 if settings.quick else 500
    penalties = lambdas("P3", p)
    curves: dict[str, dict[str, FloatArray]] = {}
    optimum: dict[str, float] = {}
    ends: list[Row] = []
    for design, seed in product(DESIGNS, range(settings.seed, settings.seed + n_seeds)):
        S = draw(design, p, n_classes, seed)
        found = {
            method: run_admm(S, *penalties, METHODS[method], n_iter).history.objective for method in ("ADMM", "HADMM")
        }
        certified = run_default(S, *penalties, tol=1e-12)
        best = np.nan if certified is None else certified.objective
        biggest = screen(S, *penalties).largest
        ends.append({"design": design, "seed": seed, "p": p, "HADMM's biggest block": biggest} | _end(found, best))
        if seed == settings.seed:
            curves[design], optimum[design] = found, best
    notes = [
        "The iterations end before the last one if the paper's stopping rule holds. The figure shows the first seed.",
        PLAIN_NOTE,
        BLOCKS_NOTE,
        CHOICES_NOTE,
        *scaling_notes(p),
    ]
    same = [float(row["ADMM - HADMM, relative"]) <= SAME for row in ends]
    figure = _figure(curves, optimum, n_classes, p)
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


def _end(curves: dict[str, FloatArray], optimum: float) -> dict[str, object]:
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


def _figure(curves: dict[str, dict[str, FloatArray]], optimum: dict[str, float], n_classes: int, p: int) -> Figure:
    figure = new_figure(3.4 * len(curves), 5.4)
    panels = figure.subplots(2, len(curves), sharex=True, sharey="row", squeeze=False)
    for column, (design, found) in enumerate(curves.items()):
        top, bottom = panels[:, column]
        for method, width in (("ADMM", 3.5), ("HADMM", 1.2)):
            steps = np.arange(1, len(found[method]) + 1)
            colour = STYLES[method][0]
            shade = 0.45 if method == "ADMM" else 1.0
            top.plot(steps, found[method], color=colour, linewidth=width, alpha=shade, label=method)
            bottom.semilogy(
                steps, np.abs(found[method] - optimum[design]), color=colour, linewidth=width, alpha=shade, label=method
            )
        shorter = min(map(len, found.values()))
        apart = np.abs(found["ADMM"][:shorter] - found["HADMM"][:shorter])
        bottom.semilogy(np.arange(1, shorter + 1), apart, color=ORANGE, linewidth=0.8, label="difference of the two")
        top.set_title(f"type {design}", fontsize=9, color=INK)
        bottom.set_xlabel("iteration", fontsize=8)
        tidy(top)
        tidy(bottom)
    panels[0, 0].set_ylabel("objective", fontsize=8)
    panels[1, 0].set_ylabel("distance to the\ncertified optimum", fontsize=8)
    panels[0, 0].legend(frameon=False, fontsize=8)
    panels[1, 0].legend(frameon=False, fontsize=8)
    caption(figure, f"Objective of ADMM and HADMM, p={p}, {n_classes} classes", CLAIM)
    return figure
