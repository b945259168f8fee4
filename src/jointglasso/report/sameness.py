"""Cards about edges that are the same in several classes, and about what changes from class to class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso.networks import JointNetworks
from jointglasso.networks.same import compared_pairs, pattern_words, summary_of_sameness

if TYPE_CHECKING:
    from jointglasso.solution import Solution

#: Patterns listed.
LISTED = 30


def sameness_facts(networks: JointNetworks) -> dict[str, Any] | None:
    """How many edges have one value in all classes, which patterns occur, and what is proved."""
    if networks.sameness is None:
        return None
    same = compared_pairs(networks)
    codes, words = pattern_words(networks)
    counts = np.bincount(codes, minlength=len(words))
    proved = np.bincount(codes, same.changes_proved, minlength=len(words)).astype(int)
    rows = [[words[k], f"{counts[k]:,}", f"{proved[k]:,}"] for k in range(min(len(words), LISTED))]
    paragraphs = [
        summary_of_sameness(networks),
        "The table lists the classes of each value between bars. Proved is that a pair changes between neighbouring "
        "classes in the exact solution, or that it has one value in all of them.",
    ]
    if len(words) > LISTED:
        paragraphs.append(f"{len(words) - LISTED:,} rarer patterns are left out.")
    table = {"columns": ["pattern", "pairs", "proved"], "rows": rows}
    return {"id": "sameness", "title": "The same or different", "paragraphs": paragraphs, "table": table}


def steps_facts(networks: JointNetworks, solution: Solution) -> dict[str, Any] | None:
    """What changes from each class to the next, where the penalty takes the classes in order."""
    if networks.n_classes < 2 or solution.parameters.get("penalty") not in ("chain", "laplacian"):
        return None
    steps = networks.steps()
    rows = [[f"{cell:.3f}" if isinstance(cell, float) else f"{cell}" for cell in row] for row in steps.values.tolist()]
    words = {
        "changed": "pairs that change",
        "certified": "proved",
        "appeared": "edges that appear",
        "vanished": "that vanish",
        "size": "sum of |differences|",
    }
    table = {"columns": [words.get(name, name) for name in steps.columns], "rows": rows}
    return {"id": "steps", "title": "From each class to the next", "table": table}
