"""False discovery rates by Benjamini and Hochberg (1995)."""

from __future__ import annotations

import numpy as np

from jointglasso._typing import FloatArray


def q_values(p_values: FloatArray, n_tests: int) -> FloatArray:
    """Smallest false discovery rate at which each of the smallest of `n_tests` p-values would be a discovery.

    Where only the small p-values are given the others count as 1, which can only make the q-values larger.
    """
    order = np.argsort(p_values, kind="stable")
    ranked = p_values[order] * n_tests / np.arange(1, len(p_values) + 1)
    out = np.empty(len(p_values))
    out[order] = np.minimum(np.minimum.accumulate(ranked[::-1])[::-1], 1.0)
    return out
