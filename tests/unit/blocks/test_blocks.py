"""Sums over the entries of a block system, against dictionaries keyed by variables and groups."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from jointglasso._lapack import mirror_upper
from jointglasso.blocks import build_system
from jointglasso.blocks.linalg import factorize
from jointglasso.data import as_source
from jointglasso.screening.groups import class_blocks


def random_system(seed, n_classes, p, n_labels, weights):
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_labels, size=(n_classes, p))
    X = rng.standard_normal((n_classes, 3 * p, p))
    S = X.transpose(0, 2, 1) @ X / (3 * p)
    return build_system(as_source(S), class_blocks(labels, smallest=2), weights), rng


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), n_classes=st.integers(1, 4), p=st.integers(3, 9), n_labels=st.integers(1, 4))
def test_sums_per_pair_and_group_follow_the_variables(seed, n_classes, p, n_labels):
    system, rng = random_system(seed, n_classes, p, n_labels, np.ones(n_classes))
    values = rng.standard_normal(len(system.upper))
    row, column = system.entry_members()
    pairs = list(zip(system.members[row].tolist(), system.members[column].tolist(), strict=True))
    expected = defaultdict(float)
    for pair, value in zip(pairs, values, strict=True):
        expected[pair] += value
    summed = system.sum_per_pair(values)
    i, j = system.pair_variables
    found = dict(zip(zip(i.tolist(), j.tolist(), strict=True), summed.tolist(), strict=True))
    assert found == pytest.approx(dict(expected))
    np.testing.assert_allclose(system.of_entries(summed), [expected[pair] for pair in pairs])
    per_group = np.zeros(system.n_groups)
    for group, value in zip(system.block_group[system.entry_block], values, strict=True):
        per_group[group] += value
    np.testing.assert_allclose(system.sum_pairs_per_group(summed), per_group, atol=1e-12)


def test_entries_are_weighed_by_their_class():
    weights = np.array([1.0, 0.5, 3.0])
    system, rng = random_system(0, 3, 6, 2, weights)
    values, some = rng.standard_normal(len(system.upper)), np.array([0, 3, 4])
    expected = weights[system.block_class[system.entry_block]] * values
    np.testing.assert_allclose(system.weigh(values), expected)
    np.testing.assert_allclose(system.weigh(values[some], some), expected[some])
    equal, _ = random_system(0, 3, 6, 2, np.ones(3))
    assert equal.weigh(values) is values


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), n_classes=st.integers(1, 4), p=st.integers(3, 9), n_labels=st.integers(1, 5))
def test_pairs_are_found_by_their_variables(seed, n_classes, p, n_labels):
    system, _ = random_system(seed, n_classes, p, n_labels, np.ones(n_classes))
    i, j = (ends[::2] for ends in np.triu_indices(p, 1))
    wanted = set(zip(i.tolist(), j.tolist(), strict=True))
    pairs = zip(*(v.tolist() for v in system.pair_variables), strict=True)
    assert system.find_pairs(i, j).tolist() == [n for n, pair in enumerate(pairs) if pair in wanted]


def test_the_inverse_of_an_indefinite_block_is_zero_whatever_memory_held_before(monkeypatch):
    system, _ = random_system(3, 3, 8, 2, np.ones(3))
    flat = system.S.copy()
    flat[: system.size[0] ** 2] *= -1.0
    monkeypatch.setattr(np, "empty_like", lambda like: np.full(like.shape, np.inf))
    factor = factorize(system, flat)
    assert not factor.definite[0]
    assert factor.definite[1:].all()
    assert (factor.inverse[: system.size[0] ** 2] == 0.0).all()
    assert np.isfinite(factor.inverse).all()


@pytest.mark.parametrize("group", [0, 1, 2])
def test_groups_apart_have_the_numbers_of_their_places(group):
    rng = np.random.default_rng(5)
    S = np.stack([np.cov(rng.standard_normal((12, 40))) for _ in range(2)])
    labels = np.repeat([0, 1, 2], [3, 4, 5])
    system = build_system(as_source(S), class_blocks(np.stack([labels, labels]), smallest=2), np.ones(2))
    flat = rng.standard_normal(len(system.S))
    part, inside = system.only_groups(np.array([group]))
    np.testing.assert_array_equal(part.S, system.S[inside])
    entries = np.flatnonzero(system.block_group[system.entry_block] == group)
    np.testing.assert_array_equal(part.gather(flat[inside]), flat[system.upper[entries]])


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 130])
def test_the_upper_triangle_is_copied_onto_the_lower_one(n):
    A = np.random.default_rng(n).normal(size=(n, n))
    expected = np.triu(A) + np.triu(A, 1).T
    mirror_upper(A)
    np.testing.assert_array_equal(A, expected)
