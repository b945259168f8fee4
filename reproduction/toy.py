"""The toy example, where only the hybrid rule splits, and a picture of a non-uniform partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jointglasso._typing import FloatArray
from jointglasso.engine import solve
from jointglasso.plots.canvas import INK, new_figure
from jointglasso.screening import Partition, screen
from reproduction.drawing import caption
from reproduction.matrices import draw_blocks, set_notation, with_edges
from reproduction.result import Result, Row, Settings, judged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIM = (
    "in the example of two classes and three variables (lambda1=0.04, lambda2=0.02) class-specific or global "
    "thresholding alone cannot divide the variables, but their combination can."
)
PARTITION_CLAIM = (
    "in a non-uniform partition variables 7 and 9 can be together in one class and apart in the other, variables 3 "
    "and 4 the other way round; white entries are zero, known before solving."
)
LAMBDA1, LAMBDA2 = 0.04, 0.02
RULES = {"class": "class-specific", "global": "global", "hybrid": "hybrid"}

#: A relative gap of 1e-12 allows entries to be off by its root.
SAME = 1e-6


def toy(settings: Settings) -> Result:
    """Screen the toy with three rules and compare the screened solution with the unscreened one."""
    del settings  # nothing is drawn at random, and nothing takes long
    S = toy_covariances()
    found = {rule: screen(S, LAMBDA1, LAMBDA2, rule=rule) for rule in RULES}
    whole = solve(S, LAMBDA1, LAMBDA2, screening="none", solver="newton", tol=1e-12).precision
    split = solve(S, LAMBDA1, LAMBDA2, screening="hybrid", tol=1e-12).precision
    difference = max(float(np.abs((a - b).toarray()).max()) for a, b in zip(whole, split, strict=True))
    wide = screen(wide_covariances(), LAMBDA1, LAMBDA2)
    rows: list[Row] = [
        {
            "rule": name,
            "class 1": set_notation(found[rule].labels[0]),
            "class 2": set_notation(found[rule].labels[1]),
            "biggest block": found[rule].largest,
            "sum of cubes": found[rule].cost,
        }
        for rule, name in RULES.items()
    ]
    checks = [
        found["class"].largest == 3,
        found["global"].largest == 3,
        found["hybrid"].largest == 2,
        difference < SAME,
    ]
    verdict = (
        f"class-specific and global thresholding keep all three variables together, hybrid gives {rows[2]['class 1']} "
        f"in class 1 and {rows[2]['class 2']} in class 2; the solution is the unscreened one (largest difference "
        f"{difference:.0e})."
    )
    figures = {"": _figure(S, found), "-partition": _partition_figure(wide)}
    notes = [
        "The covariances of the paper's figure are not in its text; these are other numbers with the same penalties "
        "and property.",
        f"The picture of the partition: class 1 {set_notation(wide.labels[0])}, class 2 "
        f"{set_notation(wide.labels[1])}, found by "
        "Algorithm 1 from covariances made for it.",
    ]
    return Result(CLAIM, verdict, judged(sum(checks), len(checks)), rows, figures, notes)


def toy_covariances() -> FloatArray:
    """Two classes, three variables."""
    return np.stack(
        [
            with_edges(3, {(1, 2): 0.07, (1, 3): 0.05, (2, 3): 0.03}),
            with_edges(3, {(1, 2): 0.03, (1, 3): 0.05, (2, 3): 0.07}),
        ]
    )


def wide_covariances() -> FloatArray:
    """Two classes, ten variables, whose partitions differ as in the paper's illustration."""
    both = {(1, 2): 0.08, (5, 6): 0.08, (7, 8): 0.08}
    return np.stack(
        [
            with_edges(10, both | {(2, 3): 0.07, (8, 9): 0.07, (3, 4): 0.03}),
            with_edges(10, both | {(3, 4): 0.07, (9, 10): 0.07, (8, 9): 0.03}),
        ]
    )


def _figure(S: FloatArray, found: dict[str, Partition]) -> Figure:
    figure = new_figure(8.6, 5.0)
    panels = figure.subplots(2, 4)
    for k, line in enumerate(panels):
        together = np.zeros(3, dtype=np.int64)
        draw_blocks(line[0], together, S[k])
        line[0].images[0].set_alpha(0.0)
        line[0].set_ylabel(f"class {k + 1}", fontsize=9, color=INK)
        for ax, rule in zip(line[1:], RULES, strict=True):
            draw_blocks(ax, found[rule].labels[k])
            ax.set_xlabel(set_notation(found[rule].labels[k]), fontsize=8)
    for ax, title in zip(panels[0], ("covariances", *RULES.values()), strict=True):
        ax.set_title(title, fontsize=9, color=INK)
    caption(figure, "Three thresholding rules on the toy example: only hybrid splits", CLAIM)
    return figure


def _partition_figure(partition: Partition) -> Figure:
    figure = new_figure(7.2, 4.6)
    for k, ax in enumerate(figure.subplots(1, 2)):
        draw_blocks(ax, partition.labels[k])
        ax.set_title(f"class {k + 1}", fontsize=9, color=INK)
        ax.set_xlabel(set_notation(partition.labels[k]), fontsize=8)
    caption(figure, "A non-uniform partition: one colour, one block", PARTITION_CLAIM)
    return figure
