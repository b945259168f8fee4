"""Many small problems at once, permutation tests of whole networks, and the bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.inference.batch import Estimator, fit_on_support, sweep_resamples
from jointglasso.inference.bootstrap import NetworkBootstrap
from jointglasso.inference.permutation import _paired_orders, _permutation, calibrated, draw_p_values, pooled_weights
from jointglasso.inference.support import penalty_of
from jointglasso.penalties import GroupPenalty
from simulations import chain, normal, student, truths


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
    z, error, _ = estimator.estimate_batch([scores], with_se=True)[0]
    assert np.isfinite(z).all()
    assert (error > 0).all()


def test_a_batch_gives_what_infer_gives(chains):
    samples = samples_of(chains, (60, 90))
    found = jgl.infer(samples, association="pearson").estimates
    sizes = np.array([60.0, 90.0])
    estimator = Estimator(sizes, np.sqrt(sizes / sizes.mean()))
    z, error, variance = estimator.estimate_batch([list(samples.values())] * 3, with_se=True)[2]
    np.testing.assert_allclose(z, found.z, atol=1e-5)
    np.testing.assert_allclose(error, found.error, rtol=1e-5)
    single = np.where(np.arange(len(z)) == 3, 2.0, 0.0)
    assert (variance(single) <= 4.0 * error[3] ** 2 * (1 + 1e-9)).all()  # moderated standard errors are the larger ones


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
    orders = _paired_orders(("a", "b"), subjects, np.array([0, 3]))
    np.testing.assert_array_equal(orders, [[0, 4], [1, 5], [2, 3]])
    rng = np.random.default_rng(0)
    for _ in range(20):
        order = _permutation([orders], 6, rng)
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
    found, inflation = calibrated(z, error)
    np.testing.assert_allclose(found, np.broadcast_to([0.1, 0.3], z.shape), rtol=0.06)
    np.testing.assert_allclose(inflation, [1.0, 9.0], rtol=0.12)


def test_pairs_without_a_pooled_effect_have_no_weight():
    rng = np.random.default_rng(0)
    z, error = 0.1 * rng.normal(size=(500, 2)), np.full((500, 2), 0.1)
    z[:10] += 1.0
    weight = pooled_weights(z, error)
    assert (weight[:10] > 0.7).all() and np.count_nonzero(weight[10:]) <= 40 and np.abs(weight[10:]).max() < 0.2


def test_p_values_of_draws_count_ties():
    draws = np.array([[2.0, 1.0], [2.0 + 1e-13, 3.0], [1.0, 2.0], [3.0, 0.0]])
    np.testing.assert_allclose(draw_p_values(draws)[0], [0.75, 0.75])
    np.testing.assert_allclose(draw_p_values(draws)[3], [0.25, 1.0])


def test_the_adaptive_test_has_the_power_of_each_statistic():
    """All edges differ a little, or one of them much: what one statistic misses another one finds."""
    rejected = {"all": [], "one": []}
    for number in range(12):
        pairs = {"all": (chain(10, 0.3), chain(10, 0.42)), "one": (chain(10, 0.3, 0.0), chain(10, 0.3, 0.5))}
        for words, matrices in pairs.items():
            samples = samples_of(matrices, (200, 200), seed=number)
            test = jgl.network_test(samples, n_permutations=99, random_state=number)
            rejected[words].append([p <= 0.05 for p in test.p_values.values()])
    everywhere, single = (np.mean(rejected[words], axis=0) for words in ("all", "one"))
    assert everywhere[0] < 0.5 < everywhere[3] and single[2] < 0.5 < single[3]


def arms_of(drug_after, *others, n=100, seed=0):
    names = ("drug_after", "drug_before", "placebo_after", "placebo_before")
    return dict(zip(names, samples_of([drug_after, *others], [n] * 4, seed).values(), strict=True))


ARMS = {"drug_after": "drug", "drug_before": "drug", "placebo_after": "placebo", "placebo_before": "placebo"}
INTERACTION = {"drug_after": 1, "drug_before": -1, "placebo_after": -1, "placebo_before": 1}


def test_a_contrast_is_of_changes_not_of_arms():
    options = {"contrast": INTERACTION, "arms": ARMS, "n_permutations": 99, "random_state": 0}
    unlike_arms = arms_of(chain(8, 0.1), chain(8, 0.1), chain(8, 0.45), chain(8, 0.45))
    assert jgl.network_test(unlike_arms, n_permutations=39, random_state=0).p_values["strength"] <= 0.05
    assert jgl.network_test(unlike_arms, **options).p_values["adaptive"] > 0.05
    one_arm = arms_of(chain(8, 0.3, 0.6), chain(8, 0.3, 0.0), chain(8, 0.45), chain(8, 0.45), n=250)
    test = jgl.network_test(one_arm, **options)
    assert test.p_values["maximum"] <= 0.02
    assert set(test.nodes().variable[:2]) == {"x0", "x1"}
    estimates = jgl.infer(one_arm).contrast(INTERACTION)
    assert estimates.iloc[0].variable1 == "x0" and estimates.iloc[0].variable2 == "x1"


def test_rows_are_permuted_within_arms():
    subjects = {name: np.arange(40) for name in ARMS}
    samples = arms_of(*[chain(4, 0.3)] * 4, n=40)
    options = {"contrast": INTERACTION, "arms": ARMS, "n_permutations": 9, "random_state": 0}
    assert jgl.network_test(samples, paired=subjects, **options).paired
    with pytest.raises(ValueError, match="add up to 1 over the classes drug_after, drug_before"):
        jgl.network_test(samples, contrast={"drug_after": 1, "placebo_after": -1}, arms=ARMS)
    with pytest.raises(ValueError, match="arms needs a contrast"):
        jgl.network_test(samples, arms=ARMS)
    with pytest.raises(ValueError, match="arms must name the arm of each class"):
        jgl.network_test(samples, contrast=INTERACTION, arms={**ARMS, "other": "drug"})


def test_the_size_of_the_coefficients_of_a_contrast_does_not_matter():
    samples = arms_of(*[chain(4, 0.3)] * 4, n=40)
    draws = {"n_permutations": 5, "random_state": 0}
    one, huge = (
        jgl.network_test(samples, contrast={name: size * c for name, c in INTERACTION.items()}, **draws)
        for size in (1.0, 1e200)
    )
    assert one.statistics == huge.statistics and one.p_values == huge.p_values


def test_equal_classes_do_not_differ_in_any_set():
    X = samples_of([chain(4, 0.3)], (40,))["c0"]
    test = jgl.network_test({"one": X, "two": X}, sets={"pair": ["x0", "x1"]}, n_permutations=5, random_state=0)
    assert test.sets().enrichment[0] == 0.0 and test.sets().p_value[0] == 1.0


@pytest.mark.parametrize(
    ("option", "value"), [("contrast", "one"), ("arms", ["drug"]), ("sets", ["x0", "x1"])], ids=lambda x: str(x)
)
def test_options_by_name_are_dicts(option, value):
    with pytest.raises(TypeError, match=f"must be a dict.*not {type(value).__name__}"):
        jgl.network_test(arms_of(*[chain(4, 0.3)] * 4, n=40), **{option: value})


def test_differences_are_found_in_the_set_that_has_them(tmp_path):
    samples = samples_of([chain(12, 0.3, 0.0), chain(12, 0.3, 0.6)], (150, 150), seed=1)
    file = tmp_path / "sets.gmt"
    file.write_text("first\tabout\tx0\tx1\tx2\nlast\tabout\tx9\tx10\tx11\tother\nunknown\tabout\ty\tx3\n")
    test = jgl.network_test(samples, sets=file, n_permutations=99, random_state=0)
    table = test.sets().set_index("set")
    assert list(table.index) == ["first", "last"] and table.n_variables.tolist() == [3, 3]
    assert table.p_value["first"] <= 0.02 and table.p_enrichment["first"] <= 0.02 and table.enrichment["first"] > 3
    assert table.p_value["last"] > 0.05 and table.p_enrichment["last"] > 0.05
    every = jgl.network_test(samples, sets={"all": samples_names(12)}, n_permutations=9, random_state=0)
    assert every.sets().statistic[0] == pytest.approx(every.statistics["l2"]) and every.sets().enrichment[
        0
    ] == pytest.approx(1)
    with pytest.raises(ValueError, match="No set has two variables"):
        jgl.network_test(samples, sets={"none": ["a", "b"]}, n_permutations=9)
    file.write_text("first\tabout\n")
    with pytest.raises(ValueError, match=r"Set 1 of 'sets\.gmt' has no genes"):
        jgl.network_test(samples, sets=file)


def samples_names(p):
    return [f"x{i}" for i in range(p)]


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


def test_differences_of_the_centralities(star):
    found = star.centrality_differences()
    assert list(found) == ["class1", "class2", "variable", "difference", "low", "high", "p_value", "q_value"]
    assert {"x0", "x1", "x2", "x3", "x4", "x5"} <= set(found.variable) and found.p_value.is_monotonic_increasing
    first = found.iloc[0]
    assert first.variable == "x0" and first.q_value < 1e-3 and 0.0 < first.low < first.difference < first.high
    strength = star.centrality().pivot(index="variable", columns="class", values="strength")
    change = (strength.c0 - strength.c1)[found.variable]
    np.testing.assert_allclose(found.difference, change, rtol=0, atol=1e-12)


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


def test_a_class_without_an_edge_rediscovers_none():
    """Whatever p-values the edges of the other class have in a resample of it."""
    rng = np.random.default_rng(0)
    linked = rng.normal(size=(100, 5))
    linked[:, 1:] += 0.8 * linked[:, :-1]
    found = jgl.bootstrap_network({"a": linked, "b": rng.normal(size=(100, 5))}, n_resamples=12, random_state=0)
    assert found.edge.any(axis=0).tolist() == [True, False]
    assert found.detection_rate[found.edge[:, 0], 0].max() > 0.5
    assert (found.detection_rate[:, 1] == 0.0).all()


def test_bad_bootstrap_options_are_told(chains):
    samples = samples_of([chains[0]], (30,))
    with pytest.raises(ValueError, match="n_resamples=1 must be at least 2"):
        jgl.bootstrap_network(samples, n_resamples=1)
    with pytest.raises(ValueError, match="fdr=2 is a share"):
        jgl.bootstrap_network(samples, fdr=2.0)
    with pytest.raises(ValueError, match="choose one of 'strength', 'expected_influence'"):
        jgl.bootstrap_network(samples, n_resamples=2).centrality("betweenness")


def test_bootstrap_intervals_are_reflected_at_twice_the_estimate():
    """Basic bootstrap: the estimate of the data is no draw, and neither is the first resample left out."""
    values = np.random.default_rng(0).normal(size=(6, 3, 2))
    empty = np.zeros((3, 2), dtype=bool)
    again = NetworkBootstrap(
        rho=values, edge=empty, detection_rate=empty, common=empty[:, 0], pooled_sign=np.ones(3), n_resamples=5,
        rows=np.array([0, 0, 1]), columns=np.array([1, 2, 2]), class_names=("a", "b"), variable_names=tuple("xyz"),
    )  # fmt: skip
    estimate, low, high = again._corrected(values, 0.8)
    np.testing.assert_allclose(estimate, 2.0 * values[0] - values[1:].mean(axis=0))
    np.testing.assert_allclose(low, 2.0 * values[0] - np.quantile(values[1:], 0.9, axis=0))
    np.testing.assert_allclose(high, 2.0 * values[0] - np.quantile(values[1:], 0.1, axis=0))
