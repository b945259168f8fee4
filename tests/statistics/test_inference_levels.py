"""Inference on simulated data with a known truth: coverage, level and false discoveries, seeded and within bounds."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import jointglasso as jgl
import recovery
from jointglasso.inference import support
from jointglasso.solution.result import Refit
from simulations import (
    DESIGNS,
    Count,
    Design,
    data_set,
    differ,
    exponentials,
    partial,
    real_classes,
    score,
    student,
    truths,
)


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
        assert 0.93 <= mean(count.non_edges) <= 0.97
    for count in (edges, differences, Q):
        assert 0.035 <= mean(count.level) <= 0.065
        assert mean(count.strict) < 0.002
        assert mean(count.false) < 0.15


def test_intervals_cover_and_tests_keep_their_level():
    assert_honest(*simulate(Design("band", 40, (80, 160)), 25))


def arms(rng, changed):
    """Samples of two arms before and after: a chain of ten variables, in the arms of different strength.

    `changed` is added to the value of the first pair in one class of the four.
    """
    samples = {}
    for name, strength in (
        ("drug_before", 0.3),
        ("drug_after", 0.3),
        ("placebo_before", 0.45),
        ("placebo_after", 0.45),
    ):
        Theta = np.eye(10) + strength * (np.eye(10, k=1) + np.eye(10, k=-1))
        if name == "drug_after":
            Theta[0, 1] = Theta[1, 0] = strength - changed
        samples[name] = rng.multivariate_normal(np.zeros(10), np.linalg.inv(Theta), size=120)
    return samples


def test_a_contrast_of_changes_keeps_its_level_and_finds_a_change():
    interaction = {"drug_after": 1, "drug_before": -1, "placebo_after": -1, "placebo_before": 1}
    rng, rejected, covered, power = np.random.default_rng(0), [], [], 0
    for _ in range(20):
        table = jgl.infer(arms(rng, 0.0)).contrast(interaction)
        rejected += (table.p_value < 0.05).tolist()
        covered += ((table.low < 0) & (table.high > 0)).tolist()
        power += jgl.infer(arms(rng, 0.8)).contrast(interaction, fdr=0.1).iloc[:1].variable1.tolist() == ["x0"]
    assert 0.03 <= mean(rejected) <= 0.07
    assert mean(covered) == pytest.approx(1.0 - mean(rejected))
    assert power >= 16


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


def test_textbook_intervals_of_shrunken_values_miss_the_edges():
    """T with its textbook variance, and Liu's statistic with variances of residuals; both need the refit."""
    design = Design("band", 40, (150, 300))
    n = np.array(design.sizes)
    s, weights, upper = np.sqrt(np.log(40) / n.mean()), np.sqrt(n / n.mean()), np.triu_indices(40, 1)
    covered = {(way, refitted): [] for way in ("textbook", "Liu") for refitted in (False, True)}
    for number in range(8):
        truth, samples = data_set(design, 3, number)
        source = jgl.SampleCovariance(list(samples.values()), scale="correlation")
        shrunken = jgl.solve(source, s / 2, s / 2, weights=weights)
        for refitted in (False, True):
            precision = jgl.refit(source, shrunken).precision if refitted else shrunken.precision
            for sparse_matrix, true, X in zip(precision, truth, samples.values(), strict=True):
                Theta, S, edge = sparse_matrix.toarray(), np.corrcoef(X.T), (true != 0)[upper]
                T, d, residual = 2 * Theta - Theta @ S @ Theta, np.diagonal(Theta), np.diagonal(Theta @ S @ Theta)
                error = np.sqrt((np.outer(d, d) + Theta**2) / len(X))
                covered["textbook", refitted].append((np.abs(T - true) <= 1.96 * error)[upper][edge].mean())
                rho = np.clip(-T / np.sqrt(np.outer(residual, residual)), -0.999, 0.999)[upper]
                far = np.abs(np.arctanh(rho) - np.arctanh(partial(true)))
                covered["Liu", refitted].append((far <= 1.96 / np.sqrt(len(X) - 3))[edge].mean())
    assert 0.70 <= mean(covered["textbook", False]) <= 0.90
    assert 0.55 <= mean(covered["Liu", False]) <= 0.65
    assert mean(covered["textbook", True]) > 0.91
    assert mean(covered["Liu", True]) > 0.88


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


@pytest.mark.filterwarnings("ignore::jointglasso.data.windows.DependentSamplesWarning")  # which it is about
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


#: Real data beside the checkout, where they are.
DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="real data are not part of the package")
def test_random_halves_of_a_class_of_every_set_of_real_data_do_not_differ():
    shares = {name: mean([differ((X, 0, number))[-1] for number in range(60)]) for name, X in real_classes(DATA)}
    assert len(shares) == 12
    assert max(shares.values()) <= 0.15, shares


@pytest.mark.slow
@pytest.mark.parametrize("name", ["noise p100 K3 n100", "noise p60 K4 n60"])
def test_hardly_an_edge_is_found_in_noise(name):
    false = []
    for seed in range(10):
        X, y, _ = recovery.draw(name, seed)
        false.append(np.mean(jgl.select(X, y).solution.n_edges))
    assert mean(false) <= 3.0


#: Matthews correlation of the default with the true edges, mean of four data sets.
MATTHEWS = {
    "scale-free p50 K2 n100": 0.756,
    "band p100 K3 n60/120/240": 0.744,
    "hub p100 K4 n150": 0.829,
    "identical scale-free p100 K3 n150": 0.931,
    "half moved scale-free p100 K3 n150": 0.817,
    "random p80 K3 n80/160/160": 0.773,
    "band p60 K4 n100": 0.704,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::jointglasso.selection.SelectionWarning")  # the choice of old lies on an edge
def test_more_of_the_truth_is_found_than_by_version_0_1():
    gains = []
    for name, expected in MATTHEWS.items():
        found = []
        for seed in range(4):
            X, y, truth = recovery.draw(name, seed)
            found.append([recovery.matthews(way(X, y), truth) for way in (recovery.default, recovery.earlier)])
        now, before = np.mean(found, axis=0)
        assert now == pytest.approx(expected, abs=0.03), name
        assert now > before + 0.03, name
        gains.append(now - before)
    assert mean(gains) >= 0.05


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
