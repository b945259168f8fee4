"""Synthetic data of the benchmarks: planted structure, law of the drawn covariances, reproducibility."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from synthetic import JointData, make_joint_ggm

KINDS = ["A", "B", "C", "modules"]


def dense_precisions(data: JointData) -> np.ndarray:
    return np.stack([precision.toarray() for precision in data.precisions])


def off_diagonal(matrices: np.ndarray) -> np.ndarray:
    return matrices[..., ~np.eye(matrices.shape[-1], dtype=bool)]


def blocks_of(labels: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)}


def make(kind: str, p: int = 40, n_classes: int = 3, **options: Any) -> JointData:
    return make_joint_ggm(kind, p, n_classes, **{"n_blocks": 4, "random_state": 0, **options})


# --- structure ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_precisions_are_symmetric_positive_definite_sparse_arrays(kind: str) -> None:
    for precision in make(kind).precisions:
        assert isinstance(precision, sparse.csc_array)
        assert precision.shape == (40, 40)
        theta = precision.toarray()
        np.testing.assert_array_equal(theta, theta.T)
        assert np.linalg.eigvalsh(theta)[0] > 0
        assert precision.nnz == np.count_nonzero(theta)


@pytest.mark.parametrize(("kind", "r"), [("A", 0.006), ("B", 0.0066), ("C", 0.0066)])
def test_paper_kinds_have_diagonal_5_and_edges_of_5r_with_both_signs(kind: str, r: float) -> None:
    theta = dense_precisions(make(kind, p=100))
    assert np.all(np.diagonal(theta, axis1=1, axis2=2) == 5.0)
    np.testing.assert_array_equal(np.unique(off_diagonal(theta)), [-5.0 * r, 0.0, 5.0 * r])


def test_r_sets_the_size_of_the_edges() -> None:
    assert abs(off_diagonal(dense_precisions(make("B", r=0.01)))).max() == 5.0 * 0.01


def test_kind_a_has_the_asked_share_of_zeros_and_of_shared_edges() -> None:
    theta = dense_precisions(make("A", p=300, n_classes=4))
    n_pairs = 300 * 299 // 2
    n_edges = [np.count_nonzero(np.tril(one, -1)) for one in theta]
    assert n_edges == [round(0.03 * n_pairs)] * 4
    common_edges = np.all(theta != 0, axis=0) & ~np.eye(300, dtype=bool)
    # Own edges of four classes coincide by chance with probability 0.006 ** 4 a pair.
    assert np.count_nonzero(np.tril(common_edges)) == round(0.8 * round(0.03 * n_pairs))
    assert np.all(theta[:, common_edges] == theta[0, common_edges])


@pytest.mark.parametrize(("shared", "share_found"), [(0.0, 0.5), (1.0, 1.0)])
def test_kind_a_extremes_of_shared(shared: float, share_found: float) -> None:
    theta = dense_precisions(make("A", p=200, n_classes=2, density=0.5, shared=shared))
    both = np.count_nonzero(off_diagonal(theta).all(axis=0)) / np.count_nonzero(off_diagonal(theta)[0])
    assert both == pytest.approx(share_found, abs=0.02)


def test_kind_a_full_density() -> None:
    assert np.all(dense_precisions(make("A", p=30, density=1.0)) != 0)


def test_kind_a_edges_are_spread_evenly_over_the_pairs() -> None:
    theta = dense_precisions(make("A", p=200, n_classes=1, density=0.1))[0]
    degrees = np.count_nonzero(theta, axis=0) - 1
    assert degrees.mean() == pytest.approx(19.9, abs=0.1)
    assert degrees.var() == pytest.approx(199 * 0.1 * 0.9, rel=0.35)
    first_half = np.count_nonzero(np.tril(theta, -1)[:100])
    assert first_half / np.count_nonzero(np.tril(theta, -1)) == pytest.approx(0.249, abs=0.03)


def test_kind_b_has_the_same_blocks_and_other_signs_in_every_class() -> None:
    data = make("B", p=43)
    expected = np.minimum(np.arange(43) // 10, 3)
    np.testing.assert_array_equal(data.labels, np.tile(expected, (3, 1)))
    theta = dense_precisions(data)
    np.testing.assert_array_equal(theta != 0, np.broadcast_to(expected[:, None] == expected, theta.shape))
    assert np.any(theta[0] != theta[1])


def test_kind_c_moves_the_asked_share_of_variables_in_each_class() -> None:
    data = make("C", p=100)
    home = np.arange(100) // 25
    movers = []
    for labels, precision in zip(data.labels, data.precisions, strict=True):
        for label in np.unique(labels):
            members = np.flatnonzero(labels == label)
            assert np.all(precision[members][:, members].toarray() != 0)
        blocks = [np.array(sorted(block)) for block in blocks_of(labels)]
        homes = [np.bincount(home[block]).argmax() for block in blocks]
        assert sorted(homes) == [0, 1, 2, 3]
        moved = {j for b, block in zip(homes, blocks, strict=True) for j in block[home[block] != b].tolist()}
        assert len(moved) == 10
        movers.append(moved)
    assert movers[0] != movers[1]


def test_kind_c_without_moves_has_the_blocks_of_kind_b() -> None:
    np.testing.assert_array_equal(make("C", moved=0.0).labels, make("B").labels)
    assert make("C", n_blocks=1, moved=0.0).labels.max() == 0


def test_modules_have_unit_variances_and_factor_correlations() -> None:
    data = make("modules", p=83, noise=0.5, loadings=(0.3, 0.9))
    sigma = np.linalg.inv(dense_precisions(data))
    np.testing.assert_allclose(np.diagonal(sigma, axis1=1, axis2=2), 1.0, atol=1e-12)
    for covariance, labels in zip(sigma, data.labels, strict=True):
        sizes = sorted(len(block) for block in blocks_of(labels))
        assert sizes == [1] * 43 + [10] * 4
        for block in (list(b) for b in blocks_of(labels) if len(b) > 1):
            correlations = abs(off_diagonal(covariance[np.ix_(block, block)]))
            assert 0.09 - 1e-12 <= correlations.min() <= correlations.max() <= 0.81 + 1e-12
            # One factor: rank-one off the diagonal, so every 2-by-2 minor off the diagonal is zero.
            c = covariance[np.ix_(block, block)]
            assert c[0, 2] * c[1, 3] == pytest.approx(c[0, 3] * c[1, 2], abs=1e-12)


def test_modules_common_and_of_one_class() -> None:
    data = make("modules", p=80, shared=0.75)
    modules = [{b for b in blocks_of(labels) if len(b) > 1} for labels in data.labels]
    common = set.intersection(*modules)
    assert common == {frozenset(range(10 * b, 10 * b + 10)) for b in range(3)}
    assert all(len(own - common) == 1 for own in modules)
    theta = dense_precisions(data)[:, :30, :30]
    np.testing.assert_array_equal(theta, np.broadcast_to(theta[0], theta.shape))


@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_modules_extremes(shared: float) -> None:
    data = make("modules", p=40, shared=shared, noise=0.0)
    assert all(len(b) == 10 for labels in data.labels for b in blocks_of(labels))


def test_module_size_is_not_lost_to_rounding() -> None:
    assert np.bincount(make("modules", p=100, n_blocks=1, noise=0.9).labels[0]).max() == 10


def test_labels_are_the_components_of_the_true_precisions() -> None:
    data = make("A", p=60, density=0.01)
    for labels, precision in zip(data.labels, data.precisions, strict=True):
        assert blocks_of(labels) == blocks_of(connected_components(precision)[1])


# --- data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_shapes(kind: str) -> None:
    data = make(kind)
    n = 100 if kind == "modules" else 200
    assert data.n_samples == (n, n, n)
    assert data.samples is not None
    assert [sample.shape for sample in data.samples] == [(n, 40)] * 3
    assert data.X.shape == (3 * n, 40)
    np.testing.assert_array_equal(data.y, np.repeat([0, 1, 2], n))
    assert data.covariances.shape == (3, 40, 40)


def test_number_of_samples_may_differ_by_class() -> None:
    data = make("A", n_samples=[10, 20, 30])
    assert data.n_samples == (10, 20, 30)
    assert data.X.shape == (60, 40)
    np.testing.assert_array_equal(np.bincount(data.y), [10, 20, 30])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_samples", [15, 200])
def test_covariances_of_samples_are_centred_with_divisor_n(kind: str, n_samples: int) -> None:
    data = make(kind, n_samples=n_samples)
    assert data.samples is not None
    expected = [np.cov(sample, rowvar=False, bias=True) for sample in data.samples]
    np.testing.assert_allclose(data.covariances, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_samples_have_the_covariance_of_the_model(kind: str) -> None:
    data = make(kind, p=12, n_classes=2, n_blocks=2, n_samples=40_000)
    sigma = np.linalg.inv(dense_precisions(data))
    assert data.samples is not None
    for sample, covariance, truth in zip(data.samples, data.covariances, sigma, strict=True):
        scale = np.sqrt(np.diagonal(truth))
        assert abs(sample.mean(axis=0) / scale).max() < 5 / np.sqrt(40_000)
        assert abs((covariance - truth) / np.outer(scale, scale)).max() < 5 * np.sqrt(2 / 40_000)


@pytest.mark.parametrize("n_samples", [4, 6, 7, 15], ids=lambda n: f"n={n}")
def test_drawn_covariances_have_the_wishart_mean_and_variance(n_samples: int) -> None:
    # p = 6: n = 4 and 6 take the Gaussian factor (n - 1 < p), 7 and 15 Bartlett's. Strong edges make the
    # colouring matter: a wrong root of the covariance would be seen at once.
    p, draws = 6, 1_000
    model = {"n_samples": n_samples, "output": "covariances", "n_blocks": 2, "noise": 0.0, "shared": 1.0}
    data = make_joint_ggm("modules", p, draws, random_state=1, loadings=(0.7, 0.9), **model)
    sigma = np.linalg.inv(data.precisions[0].toarray())
    mean = (n_samples - 1) / n_samples * sigma
    variance = (n_samples - 1) / n_samples**2 * (sigma**2 + np.outer(np.diag(sigma), np.diag(sigma)))
    standard_error = np.sqrt(variance / draws)
    assert abs((data.covariances.mean(axis=0) - mean) / standard_error).max() < 4.5
    np.testing.assert_allclose(data.covariances.var(axis=0), variance, rtol=0.4)
    assert np.mean(data.covariances.var(axis=0) / variance) == pytest.approx(1.0, abs=0.2)


def test_drawn_covariances_have_the_law_of_sample_covariances() -> None:
    # The generalised variance sees the joint law of all entries, which means and variances of each do not.
    options: dict[str, Any] = {"n_samples": 12, "random_state": 2, "n_blocks": 1, "r": 0.15}
    drawn = make_joint_ggm("B", 5, 800, output="covariances", **options)
    sampled = make_joint_ggm("B", 5, 800, output="samples", **options)
    log_determinants = [np.linalg.slogdet(data.covariances)[1] for data in (drawn, sampled)]
    assert np.mean(log_determinants[0]) == pytest.approx(np.mean(log_determinants[1]), abs=0.25)
    assert np.std(log_determinants[0]) == pytest.approx(np.std(log_determinants[1]), rel=0.18)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_samples", "rank"), [(2, 1), (15, 14), (40, 39), (41, 40), (90, 40)])
def test_drawn_covariances_have_the_rank_of_n_minus_1_samples(kind: str, n_samples: int, rank: int) -> None:
    data = make(kind, n_samples=n_samples, output="covariances")
    for covariance in data.covariances:
        np.testing.assert_array_equal(covariance, covariance.T)
        assert np.linalg.matrix_rank(covariance, hermitian=True, tol=1e-9) == rank


def test_covariance_output_never_needs_n_by_p_memory() -> None:
    tracemalloc.start()
    for _ in make("A", p=100, n_samples=1_000_000, output="covariances").iter_covariances():
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 100 * 100 * 8


@pytest.mark.parametrize("output", ["samples", "covariances"])
def test_iter_covariances_repeats_the_covariances(output: str) -> None:
    data = make("C", output=output)
    first = list(data.iter_covariances())
    np.testing.assert_array_equal(first, data.covariances)
    np.testing.assert_array_equal(first, list(data.iter_covariances()))
    assert data.covariances is data.covariances


# --- reproducibility ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("output", ["samples", "covariances"])
def test_same_seed_same_bits_other_seed_other_bits(kind: str, output: str) -> None:
    one, same, other = (make(kind, output=output, random_state=seed) for seed in (7, 7, 8))
    np.testing.assert_array_equal(dense_precisions(one), dense_precisions(same))
    np.testing.assert_array_equal(one.covariances, same.covariances)
    assert np.all(one.covariances != other.covariances)


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_does_not_depend_on_the_number_of_classes(kind: str) -> None:
    few, many = make(kind, n_classes=2), make(kind, n_classes=4)
    np.testing.assert_array_equal(dense_precisions(few), dense_precisions(many)[:2])
    np.testing.assert_array_equal(few.covariances, many.covariances[:2])


def test_classes_are_drawn_independently() -> None:
    x, y = make("A", n_classes=2, p=100).samples or []
    assert abs(np.corrcoef(x.ravel(), y.ravel())[0, 1]) < 0.03


def test_seed_sequence_is_not_consumed_and_generator_moves_on() -> None:
    seed = np.random.SeedSequence(5).spawn(1)[0]
    np.testing.assert_array_equal(make("A", random_state=seed).X, make("A", random_state=seed).X)
    rng = np.random.default_rng(5)
    first, second = make("A", random_state=rng), make("A", random_state=rng)
    assert np.all(first.X != second.X)
    np.testing.assert_array_equal(first.X, make("A", random_state=np.random.default_rng(5)).X)


def test_too_large_r_is_refused_before_anything_is_drawn() -> None:
    for kind in ("A", "B", "C"):
        with pytest.raises(ValueError, match=r"r=0\.5 makes a precision matrix indefinite"):
            make(kind, p=100, density=0.5, r=0.5)


def test_positive_definite_without_diagonal_dominance_is_accepted() -> None:
    data = make("B", p=100, n_blocks=1, r=0.03)
    theta = dense_precisions(data)
    assert abs(off_diagonal(theta[0])).sum() / 100 > 5.0
    assert np.linalg.eigvalsh(theta)[:, 0].min() > 0
