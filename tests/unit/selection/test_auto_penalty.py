"""``penalty="auto"``: fused where the classes share values, group where they share the graph alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import jointglasso as jgl


def samples(same_values: bool, seed: int = 0, n: int = 150, p: int = 16):
    """Three classes with a chain of edges, of equal values or of values of their own."""
    rng = np.random.default_rng(seed)
    draws = []
    common = rng.uniform(0.3, 0.4, p - 1) * rng.choice([-1, 1], p - 1)
    for _ in range(3):
        values = common if same_values else rng.uniform(0.3, 0.4, p - 1) * rng.choice([-1, 1], p - 1)
        Theta = np.eye(p) + np.diag(values, 1) + np.diag(values, -1)
        draws.append(rng.multivariate_normal(np.zeros(p), np.linalg.inv(Theta), size=n))
    return np.vstack(draws), np.repeat(["a", "b", "c"], n)


@pytest.mark.parametrize(("same_values", "penalty"), [(True, "fused"), (False, "group")])
def test_the_penalty_follows_the_data(same_values, penalty):
    X, y = samples(same_values)
    chosen = jgl.select(X, y, penalty="auto")
    assert chosen.solution.parameters["penalty"] == penalty
    assert f'Penalty "{penalty}" rather than' in chosen.explain()
    alone = jgl.select(X, y, penalty=penalty)
    assert (chosen.lambda1, chosen.lambda2) == (alone.lambda1, alone.lambda2)


def test_ordered_classes_are_compared_as_a_chain():
    X, y = samples(True)
    chosen = jgl.select(X, pd.Categorical(y, ordered=True), penalty="auto")
    assert 'Penalty "chain" rather than "group"' in chosen.explain()


def test_group_where_nothing_can_be_held_out():
    X, y = samples(True, n=12)
    chosen = jgl.select(X, y, penalty="auto")
    assert chosen.solution.parameters["penalty"] == "group" and "at least 15 samples" in chosen.explain()
    covariances = jgl.SampleCovariance.from_labels(X, y, scale="correlation")
    assert jgl.select(covariances, penalty="auto").solution.parameters["penalty"] == "group"
