"""Many small problems at once, permutation tests of whole networks, and the bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.inference.batch import Estimator, fit_on_support, sweep_resamples
from jointglasso.inference.permutation import _paired_orders, _permutation, calibrated, strength_difference
from jointglasso.inference.support import penalty_of
from jointglasso.penalties import GroupPenalty
from simulations import normal, student, truths


def samples_of(Thetas, sizes, seed=0):
    rng = np.random.default_rng(seed)
    return {f"c{k}": normal(Theta, n, rng) for k, (Theta, n) in enumerate(zip(Thetas, sizes, strict=True))}


@pytest.fixture(scope="module")
def chains():
    p = 12
    step = np.eye(p, k=1) + np.eye(p, k=-1)
    return np.eye(p) + 0.4 * step, np.eye(p) - 0.4 * step


# The compiled support step


@pytest.mark.parametrize(("p", "sizes"), [(8, (30, 60)), (25, (40, 40, 80)), (40, (25, 60))])
def test_the_compiled_fit_is_solve_and_refit(p, sizes):
    rng = np.random.default_rng(p)
    sizes = np.array(sizes, dtype=float)
    S = np.array([[np.corrcoef(rng.normal(size=(int(n), p)).T) for n in sizes] for _ in range(4)])
    weights = np.sqrt(sizes / sizes.mean())
    lambda1, lambda2 = penalty_of(p, sizes, 1.0)
    fits = [*map(fit_on_support, S, sweep_resamples(S, weights, GroupPenalty(lambda1, lambda2)))]
    assert sum(fit is not None for fit in fits) >= 3
    for problem, theta in enumerate(fits):
        if theta is None:
            continue
        penalised = jgl.solve(list(S[problem]), lambda1, lambda2, weights=weights, penalize_diagonal=False, tol=1e-10)
        exact = jgl.refit(list(S[problem]), penalised)
        for found, expected in zip(theta, exact.precision, strict=True):
            np.testing.assert_allclose(found, expected.toarray(), atol=1e-5)
            np.testing.assert_array_equal(found != 0, expected.toarray() != 0)


def test_what_does_not_settle_is_said_and_goes_the_usual_way():
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=(9, 14)), rng.normal(size=(40, 14))]
    estimator = Estimator(np.array([9.0, 40.0]), np.ones(2), penalty_multiplier=0.2)
    S = np.array([[np.corrcoef(Z.T) for Z in scores]])
    (theta,) = sweep_resamples(S, np.ones(2), GroupPenalty(*penalty_of(14, estimator.sizes, 0.2)))
    assert fit_on_support(S[0], theta) is None
    z, error = estimator.estimate_batch([scores], judged=True)[0]
    assert np.isfinite(z).all()
    assert (error > 0).all()


def test_a_batch_gives_what_infer_gives(chains):
    samples = samples_of(chains, (60, 90))
    found = jgl.infer(samples, association="pearson").estimates
    sizes = np.array([60.0, 90.0])
    estimator = Estimator(sizes, np.sqrt(sizes / sizes.mean()))
    z, error = estimator.estimate_batch([list(samples.values())] * 3, judged=True)[2]
    np.testing.assert_allclose(z, found.z, atol=1e-5)
    np.testing.assert_allclose(error, found.error, rtol=1e-5)


# Permutation tests


def test_different_networks_are_told_apart_and_their_variables_named():
    p = 12
    first, second = np.eye(p), np.eye(p)
    first[2, 7] = first[7, 2] = 0.6
    test = jgl.network_test(samples_of([first, second], (150, 150), seed=1), n_permutations=99, random_state=0)
    assert test.p_values["maximum"] == pytest.approx(0.01)
    assert set(test.nodes().variable[:2]) == {"x2", "x7"}
    assert list(test.table) == ["statistic", "value", "p_value"]
    assert list(test.nodes()) == ["variable", "statistic", "p_value", "p_familywise", "q_value"]
    assert (test.node_p_familywise >= test.node_p_values).all()
    assert "99 permutations" in str(test)


def test_strength_sees_a_network_that_is_more_connected(chains):
    samples = samples_of([chains[0], np.eye(12)], (100, 100))
    test = jgl.network_test(samples, n_permutations=99, random_state=0)
    assert test.p_values["strength"] <= 0.05
    same = jgl.network_test(samples_of([chains[0], chains[1]], (100, 100)), n_permutations=99, random_state=0)
    assert same.p_values["strength"] > 0.05  # signs differ, strength does not
    assert same.p_values["l2"] <= 0.02


def test_p_values_are_seeded_counted_and_of_three_classes_too(chains):
    samples = samples_of([chains[0]] * 3, (40, 50, 60))
    runs = [jgl.network_test(samples, n_permutations=39, random_state=1) for _ in range(2)]
    assert runs[0].p_values == runs[1].p_values
    for p in runs[0].p_values.values():
        assert round(p * 40) == pytest.approx(p * 40)
        assert 1 / 40 <= p <= 1
    seen = []
    jgl.network_test(samples, n_permutations=5, random_state=1, callback=seen.append)
    assert max(progress.done for progress in seen) == 6


def test_paired_permutations_stay_within_subjects():
    subjects = [np.array(["u", "v", "w"]), np.array(["w", "u", "v"])]
    orders = _paired_orders(("a", "b"), subjects)
    np.testing.assert_array_equal(orders, [[0, 4], [1, 5], [2, 3]])
    rng = np.random.default_rng(0)
    for _ in range(20):
        order = _permutation(orders, 6, rng)
        for pair in orders:
            assert set(order[pair]) == set(pair)


def test_pairing_is_checked_by_name(chains):
    samples = samples_of([chains[0]] * 2, (20, 20))
    subject = {"c0": np.arange(20), "c1": np.arange(20)}
    assert jgl.network_test(samples, paired=subject, n_permutations=9, random_state=0).paired
    with pytest.raises(ValueError, match="'0' is not in both classes"):
        jgl.network_test(samples, paired={**subject, "c1": np.arange(1, 21)}, n_permutations=9)
    with pytest.raises(ValueError, match="Subject '3' comes twice in class 'c0'"):
        jgl.network_test(samples, paired={**subject, "c0": [3, 3, *range(18)]}, n_permutations=9)


def test_answers_in_categories_are_permuted():
    rng = np.random.default_rng(0)
    X = {name: rng.normal(size=(150, 4)) for name in "ab"}
    same = {name: np.digitize(values, [-0.5, 0.5]).astype(float) for name, values in X.items()}
    X["a"][:, 1] += 1.5 * X["a"][:, 0]
    other = {**same, "a": np.digitize(X["a"], [-0.5, 0.5]).astype(float)}
    options = {"association": "mixed", "n_permutations": 19, "random_state": 0}
    assert jgl.network_test(same, **options).p_values["maximum"] > 0.05
    assert jgl.network_test(other, **options).p_values["maximum"] == 0.05


def test_one_class_cannot_be_compared():
    with pytest.raises(ValueError, match="only one"):
        jgl.network_test(np.random.default_rng(0).normal(size=(30, 4)))


def test_calibration_makes_the_bulk_of_the_pairs_noise():
    rng = np.random.default_rng(0)
    z, error = rng.normal(size=(5000, 2)) * [0.1, 0.3], np.full((5000, 2), 0.1)
    np.testing.assert_allclose(calibrated(z, error), np.broadcast_to([0.1, 0.3], z.shape), rtol=0.06)
    assert strength_difference(z, calibrated(z, error)) < 4 < strength_difference(z, error)


def test_the_level_holds_where_classes_differ_in_size_and_tails():
    """Equal graphs, 40 against 120 samples, heavy tails against none; plain statistics reject a third of them."""
    rejected = []
    for number in range(16):
        rng = np.random.default_rng([5, number])
        Theta = truths("scale-free", 12, 1, rng)[0]
        samples = {"a": student(Theta, 40, rng), "b": normal(Theta, 120, rng)}
        test = jgl.network_test(samples, n_permutations=39, random_state=number)
        rejected.append([p <= 0.05 for p in test.p_values.values()])
    assert np.mean(rejected, axis=0).max() <= 0.2  # three of sixteen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "n", "most"), [(student, 60, 0.10), (normal, 40, 0.09)], ids=["unlike tails", "same distribution"]
)
def test_the_level_of_two_hundred_tests(first, n, most):
    rejected = []
    for number in range(200):
        rng = np.random.default_rng([6, number])
        Theta = truths("scale-free", 20, 1, rng)[0]
        samples = {"a": first(Theta, n, rng), "b": normal(Theta, 4 * n, rng)}
        test = jgl.network_test(samples, n_permutations=99, random_state=number)
        rejected.append([p <= 0.05 for p in test.p_values.values()])
    assert np.mean(rejected, axis=0).max() < most


# Bootstrap


@pytest.fixture(scope="module")
def star():
    """One variable joined to five others in the first class, nothing in the second."""
    Theta = np.eye(10)
    Theta[0, 1:6] = Theta[1:6, 0] = -0.35
    return jgl.bootstrap_network(samples_of([Theta, np.eye(10)], (150, 150)), n_resamples=40, random_state=0)


def test_the_hub_is_found_again(star):
    hubs = star.hubs(1)
    assert hubs.iloc[0].variable == "x0"
    assert hubs.iloc[0].share == 1.0
    centrality = star.centrality()
    assert list(centrality) == ["class", "variable", "strength", "low", "high", "rank"]
    first = centrality[(centrality["class"] == "c0") & (centrality.variable == "x0")].iloc[0]
    assert first.low < first.strength < first.high
    assert first["rank"] == 1.0
    influence = star.centrality("expected_influence")
    assert influence[(influence["class"] == "c0") & (influence.variable == "x0")].expected_influence.iloc[0] > 1.0


def test_edges_carry_percentiles_and_how_often_they_come_again(star):
    edges = star.edges()
    assert list(edges) == ["class", "variable1", "variable2", "partial_correlation", "low", "high", "found"]
    leaves = edges.variable2.isin([f"x{i}" for i in range(1, 6)])
    true = edges[(edges["class"] == "c0") & (edges.variable1 == "x0") & leaves]
    assert len(true) >= 4
    assert (true.found > 0.3).all()
    assert ((true.low < true.high) & (true.partial_correlation > 0)).all()


@pytest.mark.filterwarnings("ignore::jointglasso.data.windows.DependentSamplesWarning")  # which it is about
def test_the_bootstrap_takes_whole_subjects():
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(30), 3)
    X = rng.normal(size=(30, 6))[subject] + 0.3 * rng.normal(size=(90, 6))
    found = jgl.bootstrap_network(X, groups=subject, n_resamples=20, random_state=0)
    assert found.n_resamples == 20
    alone = jgl.bootstrap_network(X, n_resamples=20, random_state=0)
    assert alone.edge.sum() > found.edge.sum()  # what is no edge by subjects looks like one by samples


def test_bad_bootstrap_options_are_told(chains):
    samples = samples_of([chains[0]], (30,))
    with pytest.raises(ValueError, match="n_resamples=1 must be at least 2"):
        jgl.bootstrap_network(samples, n_resamples=1)
    with pytest.raises(ValueError, match="fdr=2 is a share"):
        jgl.bootstrap_network(samples, fdr=2.0)
    with pytest.raises(ValueError, match="choose one of 'strength', 'expected_influence'"):
        jgl.bootstrap_network(samples, n_resamples=2).centrality("betweenness")
