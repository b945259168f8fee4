"""The common layout: repeatable, legible and quick, for trees, cycles and big networks with modules alike."""

import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse
from scipy.spatial.distance import pdist

from jointglasso.networks.layout import common_layout
from reports import big_solution, protein_solution, ring


def graph(n_variables, pairs, value=-0.2):
    """Precision matrix whose edges are `pairs`."""
    first, second = np.asarray(pairs, dtype=int).reshape(-1, 2).T
    upper = sparse.coo_array((np.full(len(first), value), (first, second)), shape=(n_variables, n_variables))
    return sparse.csc_array(upper + upper.T + 2.0 * sparse.eye_array(n_variables))


def random_pairs(rng, n, m):
    pairs = np.unique(np.sort(rng.integers(0, n, (m, 2)), axis=1), axis=0)
    return pairs[pairs[:, 0] != pairs[:, 1]]


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(2, 30), st.integers(0, 80))
def test_layout_is_finite_repeatable_and_keeps_variables_apart(seed, n, m):
    Theta = graph(n, random_pairs(np.random.default_rng(seed), n, m))
    place = common_layout([Theta])
    assert place.shape == (n, 2) and np.isfinite(place).all()
    np.testing.assert_array_equal(place, common_layout([Theta]))
    assert pdist(place).min() > 0.25


def test_a_single_variable_has_a_place():
    assert np.isfinite(common_layout([graph(1, [])])).all()


@pytest.mark.parametrize("n", [20, 60])
def test_path_and_cycle_look_like_themselves(n):
    pairs = [(i, i + 1) for i in range(n - 1)]
    place = common_layout([graph(n, pairs)])
    assert np.ptp(place[:, 0]) > 1.8 * np.ptp(place[:, 1]), "a path lies flat"
    assert n_crossings(place, pairs) == 0
    place = common_layout([ring(n, 0.4)])
    radius = np.hypot(*((place - place.mean(axis=0)) / np.ptp(place, axis=0)).T)
    assert radius.std() < 0.1 * radius.mean(), "a cycle is round"


def test_a_tree_has_few_crossings():
    rng = np.random.default_rng(3)
    pairs = np.array([(int(rng.integers(0, i)), i) for i in range(1, 80)])
    assert n_crossings(common_layout([graph(80, pairs)]), pairs) <= 4


def n_crossings(place, pairs):
    """Number of pairs of edges without a common end whose lines cross."""

    def side(a, b, c):
        return np.sign((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))

    found = 0
    for i, (a, b) in enumerate(pairs):
        for c, d in pairs[:i]:
            if len({a, b, c, d}) == 4:
                pa, pb, pc, pd = place[[a, b, c, d]]
                found += side(pa, pb, pc) != side(pa, pb, pd) and side(pc, pd, pa) != side(pc, pd, pb)
    return found


def test_components_do_not_overlap():
    rng = np.random.default_rng(1)
    sizes = rng.integers(2, 40, 15)
    parts = [graph(n, [(int(rng.integers(0, i)), i) for i in range(1, n)]) for n in sizes.tolist()]
    place = common_layout([sparse.csc_array(sparse.block_diag(parts))])
    pieces = np.split(place, np.cumsum(sizes)[:-1])
    boxes = [(piece.min(axis=0), piece.max(axis=0)) for piece in pieces]
    for i, (low1, high1) in enumerate(boxes):
        for low2, high2 in boxes[:i]:
            assert (high1 + 0.5 < low2).any() or (high2 + 0.5 < low1).any()


def test_layout_of_real_networks_keeps_variables_apart():
    precision = protein_solution().precision
    place = common_layout(precision)
    assert np.isfinite(place).all()
    assert pdist(place).min() > 0.3


def test_layout_brings_neighbours_near():
    Theta = ring(60, 0.4)
    place = common_layout([Theta])
    edges = sparse.coo_array(sparse.triu(Theta, k=1))
    along = np.linalg.norm(place[edges.row] - place[edges.col], axis=1)
    assert np.median(along) < 0.3 * np.median(pdist(place))


def test_layout_separates_components_and_puts_lonely_variables_below():
    blocks = sparse.block_diag([ring(8, 0.4), ring(5, 0.4), np.eye(3)], format="csc")
    place = common_layout([sparse.csc_array(blocks)])
    boxes = [(place[part].min(axis=0), place[part].max(axis=0)) for part in (slice(0, 8), slice(8, 13))]
    (low1, high1), (low2, high2) = boxes
    assert (high1 < low2).any() or (high2 < low1).any()
    assert place[13:, 1].min() > place[:13, 1].max()


@pytest.mark.parametrize("n_edges", [0, 1, 2])
def test_layout_of_next_to_nothing(n_edges):
    Theta = sparse.csc_array(ring(3, 0.4, skip=tuple(range(n_edges, 3))))
    place = common_layout([Theta, Theta])
    assert np.isfinite(place).all() and pdist(place).min() > 0.3


def test_layout_sees_all_classes():
    one, two = ring(12, 0.4, skip=range(6, 12)), ring(12, 0.4, skip=range(6))
    np.testing.assert_allclose(common_layout([one, two]), common_layout([ring(12, 0.4)]))


def test_big_layout_is_quick_and_legible():
    solution = big_solution()
    begin = time.process_time()
    place = common_layout(solution.precision)
    assert time.process_time() - begin < 15.0
    assert np.isfinite(place).all()
    edges = sparse.coo_array(sparse.triu(solution.precision[0], k=1))
    along = np.linalg.norm(place[edges.row] - place[edges.col], axis=1)
    rng = np.random.default_rng(1)
    apart = np.linalg.norm(place[rng.permutation(2000)] - place, axis=1)
    assert np.median(along) < 0.5 * np.median(apart)
    assert np.quantile(pdist(place[:1000]), 1e-4) > 0.2
