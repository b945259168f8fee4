"""The figure of correctness: ADMM and HADMM converge to the same objective."""

from __future__ import annotations

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
    p, n_classes, n_iter = (80, 2, 400) if settings.quick else (1000, 6, 500)
    lambda1, lambda2 = lambdas("P3", p)
    curves: dict[str, dict[str, FloatArray]] = {}
    biggest: dict[str, int] = {}
    optimum: dict[str, float] = {}
    for design in ("A", "B40", "C40") if settings.quick else DESIGNS:
        S = draw(design, p, n_classes, settings.seed)
        curves[design] = {
            method: run_admm(S, lambda1, lambda2, METHODS[method], n_iter).history.objective
            for method in ("ADMM", "HADMM")
        }
        biggest[design] = screen(S, lambda1, lambda2).largest
        certified = run_default(S, lambda1, lambda2, tol=1e-12)
        optimum[design] = np.nan if certified is None else certified.objective
    ends: list[Row] = [
        {"design": design, "HADMM's biggest block": biggest[design]} | _end(curves[design], optimum[design])
        for design in curves
    ]
    same = [float(row["ADMM - HADMM, relative"]) <= SAME for row in ends]
    worst = max(float(row["ADMM - HADMM, relative"]) for row in ends)
    from_optimum = max(float(row["HADMM - optimum, relative"]) for row in ends)
    verdict = (
        f"after {max(row['iterations'] for row in ends)} iterations the two objectives differ by at most "
        f"{worst:.1e}, relative to their size, "
        f"and from the certified optimum by at most {from_optimum:.1e}."
    )
    figure = _figure(curves, optimum, n_classes, p)
    notes = [
        "The iterations end before the last one if the paper's stopping rule holds.",
        PLAIN_NOTE,
        BLOCKS_NOTE,
        CHOICES_NOTE,
        *scaling_notes(p),
    ]
    return Result(CLAIM, verdict, judged(sum(same), len(same)), ends, {"": figure}, notes)


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
