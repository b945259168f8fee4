"""The card about edges that are the same in several classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointglasso.networks import JointNetworks
from jointglasso.networks.same import compared_pairs, pattern_words, summary_of_sameness

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
