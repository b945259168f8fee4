"""Predictability of variables: truth by the precision matrix, intervals, differences between classes, subjects."""

from __future__ import annotations

import numpy as np
import pytest

import jointglasso as jgl


def chain(p, value):
    return np.eye(p) - value * (np.eye(p, k=1) + np.eye(p, k=-1))


def samples(Theta, n, rng):
    return rng.multivariate_normal(np.zeros(len(Theta)), np.linalg.inv(Theta), size=n)


def explained(Theta):
    return 1.0 - 1.0 / (np.diag(Theta) * np.diag(np.linalg.inv(Theta)))


def test_many_samples_have_the_values_of_the_precision_matrix_and_the_known_standard_errors():
    Theta, n = chain(6, 0.4), 40_000
    found = jgl.predictability(samples(Theta, n, np.random.default_rng(0)), association="pearson")
    true = explained(Theta)
    assert np.abs(found.table["all"] - true).max() < 0.01
    # The variance of a squared multiple correlation R^2 is 4 R^2 (1 - R^2)^2 / n, that of log(1 - R^2) 4 R^2 / n.
    assert found.error[:, 0] == pytest.approx(np.sqrt(4.0 * true / n), rel=0.06)


def test_intervals_cover_and_noise_explains_nothing():
    """Neighbours chosen and fitted on the same samples explain about 0.09 of the variance of noise with 100 samples."""
    rng = np.random.default_rng(1)
    Theta = np.eye(30)
    Theta[:10, :10] = chain(10, 0.4)
    parts = [samples(Theta, 100, rng) for _ in range(12)]
    tables = [jgl.predictability(X).variables().set_index("variable") for X in parts]
    true = {f"x{j}": value for j, value in enumerate(explained(Theta))}
    errors, covered, noise = [], [], []
    for table in tables:
        truth = table.index.map(true)
        errors.append((table["predictability"] - truth)[truth < 1e-9].mean())
        noise.append((table["low"] > 0)[truth < 1e-9].mean())
        covered.append(((table["low"] <= truth + 1e-9) & (truth <= table["high"])).mean())
    assert -0.01 < np.mean(errors) < 0.05
    assert 0.9 < np.mean(covered) < 0.995 and np.mean(noise) < 0.06


def test_differences_are_found_where_they_are():
    rng = np.random.default_rng(2)
    strong, weak = chain(12, 0.3), chain(12, 0.3)
    strong[0, 1] = strong[1, 0] = -0.7
    found = jgl.predictability({"strong": samples(strong, 200, rng), "weak": samples(weak, 300, rng)})
    table = found.differences(fdr=0.05)
    assert set(table["variable"]) == {"x0", "x1"} and (table["difference"] > 0.2).all() and (table["low"] > 0).all()
    assert len(found.differences()) == 12
    assert (table["low"] < table["difference"]).all() and (table["difference"] < table["high"]).all()


def test_subjects_are_the_units():
    """Four copies of every sample, as measurements of one subject, say as much as one."""
    X = samples(chain(5, 0.35), 120, np.random.default_rng(3))
    once = jgl.predictability(X)
    copied = jgl.predictability(np.repeat(X, 4, axis=0), groups=np.repeat(np.arange(120), 4))
    assert copied.degrees == 119.0
    assert copied.eta == pytest.approx(once.eta, abs=0.08)
    assert 0.85 < np.mean(copied.error / once.error) < 1.25


@pytest.mark.parametrize(
    ("options", "message"),
    [({"association": "mixed"}, "association='mixed'"), ({"missing": "em"}, "missing='em'"), ({"y": None}, "classes")],
)
def test_what_has_no_errors_of_prediction_is_refused(options, message):
    X = samples(chain(4, 0.3), 40, np.random.default_rng(4))
    with pytest.raises(jgl.InputError, match=message):
        jgl.predictability(X, **options).differences()
