"""The drawback of uniform thresholding: two graphs that split, and their union that does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from jointglasso._typing import FloatArray, IntArray
from jointglasso.engine import solve
from jointglasso.plots.canvas import INK, new_figure
from jointglasso.screening import Partition, screen
from reproduction.drawing import caption
from reproduction.matrices import draw_blocks, draw_graph, set_notation, with_edges
from reproduction.result import Result, Row, Settings, judged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIM = (
    "two graphs that differ in variables 1 and 6 each have two components, but their union has one, so that no uniform "
    "partition can divide the variables."
)
LAMBDA1, LAMBDA2 = 0.04, 0.02


def uniform_drawback(settings: Settings) -> Result:
    """Solve two classes in which variables 1 and 6 have changed places, and screen them uniformly and not."""
    del settings  # nothing is drawn at random, and nothing takes long
    S = swapped_covariances()
    solution = solve(S, LAMBDA1, LAMBDA2, tol=1e-12)
    edges = np.stack([(Theta != 0).toarray() & ~np.eye(6, dtype=bool) for Theta in solution.precision])
    own = np.stack([_components(part) for part in edges])
    union = _components(edges.any(axis=0))
    uniform, hybrid = (screen(S, LAMBDA1, LAMBDA2, rule=rule) for rule in ("global", "hybrid"))
    rows: list[Row] = [
        {"graph": name, "components": set_notation(labels), "number": int(labels.max()) + 1}
        for name, labels in (
            ("class 1, solution", own[0]),
            ("union of the classes, solution", union),
            ("class 2, solution", own[1]),
            ("global rule, both classes", uniform.labels[0]),
            ("hybrid rule, class 1", hybrid.labels[0]),
            ("hybrid rule, class 2", hybrid.labels[1]),
        )
    ]
    checks = [own.max() == 1, union.max() == 0, uniform.largest == 6, hybrid == Partition(own)]
    verdict = (
        f"class 1 has the components {set_notation(own[0])}, class 2 {set_notation(own[1])}, their union "
        f"{set_notation(union)}; the global rule leaves a block of {uniform.largest} variables, the hybrid rule finds "
        f"the components of each class exactly (sum of cubes {hybrid.cost} instead of {uniform.cost})."
    )
    return Result(
        CLAIM, verdict, judged(sum(map(bool, checks)), len(checks)), rows, {"": _figure(edges, own, union)},
        ["The graphs of the paper's figure are not in its text; these have the properties it names."],
    )  # fmt: skip


def swapped_covariances() -> FloatArray:
    """Chains 1-2-3 and 4-5-6 in class 1; in class 2 variables 1 and 6 have changed places."""
    common = {(2, 3): 0.07, (4, 5): 0.07}
    return np.stack(
        [with_edges(6, common | {(1, 2): 0.07, (5, 6): 0.07}), with_edges(6, common | {(2, 6): 0.07, (1, 5): 0.07})]
    )


def _components(edges: Any) -> IntArray:
    return Partition(connected_components(edges, directed=False)[1][None].astype(np.int64)).labels[0]


def _figure(edges: Any, own: IntArray, union: IntArray) -> Figure:
    figure = new_figure(9.0, 5.2)
    panels = figure.subplots(2, 3)
    graphs = (edges[0], edges.any(axis=0), edges[1])
    titles = ("(a) class 1", "(b) union of both classes", "(c) class 2")
    for column, (graph, labels, title) in enumerate(zip(graphs, (own[0], union, own[1]), titles, strict=True)):
        top, bottom = panels[:, column]
        draw_blocks(top, labels)
        for i, j in zip(*np.nonzero(graph | np.eye(6, dtype=bool)), strict=True):
            top.plot([j], [i], marker="s", color=INK, markersize=4)
        top.set_title(f"{title}: {set_notation(labels)}", fontsize=9, color=INK)
        draw_graph(bottom, graph, labels)
    panels[0, 0].set_ylabel("edge matrix (squares: edges,\ncolours: components)", fontsize=9)
    caption(figure, "Uniform thresholding and a small difference between two classes", CLAIM)
    return figure
