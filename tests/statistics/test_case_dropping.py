"""Case-dropping bootstrap of centralities: the CS coefficient by its definition, on a hub and on noise."""

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.inference.batch import Scores
from jointglasso.inference.case_dropping import _centralities


def hub(n, rng, strength=(0.9, 0.7, 0.5, 0.3)):
    X = rng.normal(size=(n, 6))
    for j, b in enumerate(strength, start=1):
        X[:, j] += b * X[:, 0]
    return X


def test_cs_is_the_largest_fraction_up_to_which_all_are_stable():
    # draws above 0.7: all, 19 of 20, 18 of 20, all; a fraction beyond an unstable one does not count
    r = np.ones((2, 4, 20, 1))
    r[0, 1, 0], r[0, 2, :2] = 0.69, 0.0
    stability = jgl.CentralityStability(np.array([0.05, 0.1, 0.15, 0.2]), r, ("a",))
    assert stability.cs() == {"a": 0.1} and stability.cs("expected_influence") == {"a": 0.2}
    assert stability.cs(probability=0.9) == {"a": 0.2} and stability.cs(correlation=0.68) == {"a": 0.1}
    r[0, 0] = 0.0
    assert stability.cs() == {"a": 0.0}
    row = stability.table.query("measure == 'strength' and dropped == 0.15").iloc[0]
    assert row["correlation"] == pytest.approx(0.9) and row["low"] == 0.0


def test_a_strong_hub_is_stable_and_noise_is_not():
    rng = np.random.default_rng(1)
    X, y = np.vstack([hub(300, rng), rng.normal(size=(300, 6))]), np.repeat(["hub", "noise"], 300)
    by_class = {
        name: jgl.centrality_stability(X[y == name], n_resamples=20, random_state=0).cs()["all"]
        for name in ("hub", "noise")
    }
    assert by_class["hub"] >= 0.5 and by_class["noise"] == 0.0


def test_centralities_of_all_samples_are_those_of_the_bootstrap():
    rng = np.random.default_rng(2)
    X, y = np.vstack([hub(150, rng), hub(80, rng, (0.6, -0.6))]), np.repeat([1, 2], [150, 80])
    estimates = jgl.infer(X, y, keep="all").estimates
    values = _centralities(6, estimates.error, estimates.degrees, 0.1, estimates.z)
    again = jgl.bootstrap_network(X, y, n_resamples=2, random_state=0)
    for measure, own in zip(("strength", "expected_influence"), values, strict=True):
        np.testing.assert_allclose(again._centralities(measure)[0], own, atol=1e-12)


def test_subjects_are_dropped_with_all_their_samples():
    subjects = np.repeat(np.arange(20), 3)
    units = Scores([subjects[:, None].astype(float)], [subjects])
    (rows,) = units.subsample(0.25, np.random.default_rng(0))
    assert len(rows) == 45 and len(np.unique(rows)) == 15


def test_fractions_leave_eight_units_and_seeds_repeat():
    X = hub(24, np.random.default_rng(3))
    one, two = (jgl.centrality_stability(X, n_resamples=3, random_state=5) for _ in range(2))
    assert one.fractions.max() == pytest.approx(0.65)
    np.testing.assert_array_equal(one.correlations, two.correlations)
    with pytest.raises(jgl.InputError, match="fewer than 8"):
        jgl.centrality_stability(X[:8], n_resamples=2)
