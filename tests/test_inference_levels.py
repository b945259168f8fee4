"""Inference on simulated data with a known truth: coverage, level and false discoveries, seeded and within bounds."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import jointglasso as jgl
import recovery
from jointglasso.inference import support
from jointglasso.solution.refit import Refit
from simulations import DESIGNS, Count, Design, data_set, exponentials, score, student, truths


def simulate(design, repetitions, **options):
    """Counts of edges, differences and heterogeneity over some data sets."""
    counts = Count(), Count(), Count()
    for number in range(repetitions):
        truth, samples = data_set(design, 3, number)
        score(truth, jgl.infer(samples, **options), *counts)
    return counts


def mean(values):
    return float(np.mean(values))


def assert_honest(edges, differences, Q):
    assert 0.93 <= mean(edges.edges) <= 0.97
    for count in (edges, differences):
        assert 0.93 <= mean(count.non_edges) <= 0.975
    for count in (edges, differences, Q):
        assert 0.033 <= mean(count.level) <= 0.065
        assert mean(count.strict) < 0.002
        assert mean(count.false) < 0.15


def test_intervals_cover_and_tests_keep_their_level():
    assert_honest(*simulate(Design("band", 40, (80, 160)), 25))


def test_gaussian_standard_errors_on_gaussian_data():
    assert_honest(*simulate(Design("scale-free", 40, (120, 120, 120)), 15, se="gaussian", association="pearson"))


def test_without_the_refit_tests_lose_their_level():
    """The contrast that makes the tests above worth something."""

    def penalised(source, solution, **options):
        return Refit(solution.precision, np.zeros(source.n_classes), ())

    design = Design("band", 40, (80, 160))
    with mock.patch.object(support, "refit", penalised):
        edges, _, _ = simulate(design, 10)
    assert mean(edges.level) < 0.03


def test_heavy_tails_need_moderated_standard_errors():
    design = Design("scale-free", 40, (150, 150), student)
    plain, *_ = simulate(design, 15, se="gaussian", association="pearson")
    edges, differences, _ = simulate(design, 15)
    assert mean(plain.false) > 0.2
    assert mean(edges.false) < 0.15
    assert mean(differences.false) < 0.2
    assert mean(edges.level) < 0.075


def test_normal_scores_hold_for_skewed_margins():
    design = Design("band", 40, (150, 150), exponentials)
    assert_honest(*simulate(design, 15))
    plain, *_ = simulate(design, 5, association="pearson")
    assert mean(plain.edges) < 0.85


def test_repeated_measures_are_paid_for():
    """Subjects whose residuals go together: every sample by itself would reject far too often."""
    rng = np.random.default_rng(0)
    plain, honest = [], []
    subject = np.repeat(np.arange(40), 4)
    for _ in range(12):
        X = rng.normal(size=(40, 15))[subject] + 0.5 * rng.normal(size=(160, 15))
        plain.append((jgl.infer(X).edges().p_value <= 0.05).mean())
        honest.append((jgl.infer(X, groups=subject).edges().p_value <= 0.05).mean())
    assert mean(plain) > 0.15
    assert mean(honest) < 0.08


def test_random_halves_of_one_real_class_do_not_differ():
    """Every difference is false. Kidney cancers have outliers, which Pearson's correlation takes for differences."""
    proteins = jgl.datasets.load_rppa()
    X = proteins.X[proteins.y == "KIRC"][:, ::4]
    differs = {"nonparanormal": 0, "pearson": 0}
    for seed in range(10):
        half = np.random.default_rng(seed).permutation(len(X)) < len(X) // 2
        for association in differs:
            found = jgl.infer({"a": X[half], "b": X[~half]}, association=association)
            differs[association] += len(found.differences(fdr=0.1)) > 0
    assert differs["nonparanormal"] <= 2
    assert differs["pearson"] >= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["noise p100 K3 n100", "noise p60 K4 n60"])
def test_hardly_an_edge_is_found_in_noise(name):
    false = []
    for seed in range(10):
        X, y, _ = recovery.draw(name, seed)
        false.append(np.mean(jgl.select(X, y).solution.n_edges))
    assert mean(false) <= 3.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::jointglasso.selection.SelectionWarning")  # the choice of old lies on an edge
@pytest.mark.parametrize("name", [name for name in recovery.DESIGNS if "noise" not in name])
def test_more_of_the_truth_is_found_than_by_version_0_1(name):
    gain = []
    for seed in range(3):
        X, y, truth = recovery.draw(name, seed)
        gain.append(recovery.matthews(recovery.default(X, y), truth) - recovery.matthews(recovery.earlier(X, y), truth))
    assert mean(gain) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_every_design_of_the_table(design):
    edges, differences, Q = simulate(design, 40)
    if design.graph == "noise":
        edges.edges.append(0.95)
    assert_honest(edges, differences, Q)


def test_the_truths_are_what_they_say():
    rng = np.random.default_rng(0)
    for graph in ("scale-free", "band", "hub", "random", "noise"):
        for Theta in truths(graph, 30, 2, rng):
            assert np.linalg.eigvalsh(Theta)[0] > 0
            np.testing.assert_allclose(np.diagonal(np.linalg.inv(Theta)), 1.0)
