"""Section of the report on the common substructure penalty: the shared network, and that of each class."""

from __future__ import annotations

import numpy as np

from jointglasso._wording import count
from jointglasso.networks import JointNetworks
from jointglasso.penalties.common import CommonPenalty
from jointglasso.report.wording import MAX_LISTED, Card
from jointglasso.solution import Solution

#: Maximum number of variables of a matrix, those with the strongest edges.
MAX_MATRIX = 40


def substructure_card(solution: Solution) -> Card | None:
    """Numbers of edges, the strongest edges and a matrix of the shared and of each class-specific network."""
    if solution.parameters.get("penalty") != CommonPenalty.name or solution.absent is not None:
        return None
    parts = JointNetworks.shared_and_specific(solution)
    edges = parts.edges()
    edges = edges.reindex(edges["partial_correlation"].abs().sort_values(ascending=False, kind="stable").index)
    numbers = dict(zip(parts.class_names, parts.n_edges, strict=True))
    own = [f"{name} {count(number, 'edge')}" for name, number in list(numbers.items())[1:]]
    paragraphs = [
        f"The shared network has {count(numbers['shared'], 'edge')}; of their own have {', '.join(own)}.",
        "The off-diagonal part of each precision matrix is the sum of the shared one and that of the class: an edge of "
        "both is one whose value differs from the shared value. The networks of the page are these sums.",
    ]
    if len(edges) > MAX_LISTED:
        paragraphs.append(f"The table lists the {MAX_LISTED} strongest of {len(edges):,} edges.")
    listed = edges[["class", "variable1", "variable2", "partial_correlation"]].head(MAX_LISTED)
    rows = [[*names, f"{value:.3f}"] for *names, value in listed.itertuples(index=False)]
    ends = edges[["variable1", "variable2"]].to_numpy().ravel().tolist()
    strongest = set(list(dict.fromkeys(ends))[:MAX_MATRIX])
    names = [name for name in parts.variable_names if name in strongest]
    place = {name: number for number, name in enumerate(names)}
    charts = []
    for part in parts.class_names:
        cells = [
            [place[one], place[two], float(np.round(value, 3)), bool(value > 0.0)]
            for one, two, value in edges.loc[
                edges["class"] == part, ["variable1", "variable2", "partial_correlation"]
            ].itertuples(index=False)
            if one in place and two in place
        ]
        if cells:
            charts.append(
                {"kind": "heat", "label": part, "names": names, "cells": cells, "quantity": "partial correlation"}
            )
    return {
        "id": "substructure",
        "title": "Shared and class-specific networks",
        "paragraphs": paragraphs,
        "charts": charts,
        "table": {"columns": ["network", "variable 1", "variable 2", "partial correlation"], "rows": rows},
    }
