"""Kernels of a few lines against their references in plain NumPy, on random arguments."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import reference
from jointglasso.data.source import FORGIVEN, FORGIVEN_EACH, semidefinite
from jointglasso.kernels import (
    column_batches,
    column_parts,
    dense,
    face,
    forest,
    group_pair,
    pair_index,
    scan,
)
from jointglasso.kernels.jit import njit
from jointglasso.kernels.pair_types import Entries, GroupPair, PairClasses, PenaltyWorkspace
from jointglasso.penalties import ANY_CLASS, UNIFORM, GroupPenalty

NONE = np.empty(0, dtype=np.int64)


@pytest.fixture(params=range(12))
def rng(request):
    return np.random.default_rng(request.param)


# Functions that only kernels call need a kernel around them.


@njit
def cholesky(A, L):
    return dense.cholesky(A, L)


@njit
def invert(L, W, scratch):
    dense.invert(L, W, scratch)


@njit
def block_of(flat, offset, size, block):
    return dense.block_of(flat, offset, size, block).copy()


@njit
def copy(row, out):
    dense.copy(row, out)


@njit
def axpy(factor, row, out):
    column_parts.axpy(factor, row, out)


@njit
def add_four_rows(factors, starts, n, flat, out):
    dense.add_four_rows(factors, starts, n, flat, out)


@njit
def diagonal_entry(variance, square):
    return column_parts.diagonal_entry(variance, square)


@njit
def pair_covariance(S, weight, product, lambda1, lambda2):
    return forest.pair_covariance(S, weight, product, np.full(len(S), lambda1), lambda2)


@njit
def append_column(other, value, n, columns):
    column_batches.append_column(other, value, n, columns)


@njit
def with_capacity(n_needed, n, columns):
    return column_batches.with_capacity(n_needed, n, columns)


@njit
def subgradient(penalty, theta, target, pair, out):
    group_pair.subgradient(penalty, theta, target, pair, out)


@njit
def sort_by_ratio(u, pair):
    return group_pair.sort_by_ratio(u, pair)


@njit
def is_dual_feasible(penalty, u, pair):
    return group_pair.is_dual_feasible(penalty, u, pair)


@njit
def update(penalty, a, b, pair, out):
    group_pair.update(penalty, a, b, pair, out)


@njit
def retract_and_threshold(penalty, theta, pair, values):
    group_pair.retract(penalty, theta, pair, values)
    return group_pair.threshold(penalty, 0)


@njit
def rescale(penalty, column):
    column_parts.rescale(penalty, column)


@njit
def on_face(penalty, theta, pair, step, gradient, product, number):
    group_pair.gradient(penalty, theta, pair, gradient)
    group_pair.hvp(penalty, theta, pair, step, product)
    return group_pair.clusters(penalty, theta, pair, number)


def draw_blocks(rng):
    """Square matrices in flat storage, sorted by size: matrices, their flat storage, offsets, sizes."""
    size = np.sort(rng.integers(1, 7, rng.integers(1, 6)))
    blocks = [rng.normal(size=(b, b)) for b in size]
    return blocks, np.concatenate([block.ravel() for block in blocks]), np.r_[0, np.cumsum(size**2)], size


def draw_definite(rng, b):
    X = rng.normal(size=(b + 2, b))
    return X.T @ X


def draw_pairs(rng):
    """CSR start of the entries of some pairs, and their weights or none."""
    start = np.r_[0, np.cumsum(rng.integers(0, 5, 6))]
    return start, UNIFORM if rng.random() < 0.3 else rng.choice([0.0, 0.5, 1.0, 3.0], 6)


def draw_graph(rng):
    """Adjacency (n, n) and its CSR form."""
    n = int(rng.integers(1, 12))
    upper = np.triu(rng.random((n, n)) < rng.choice([0.1, 0.4, 0.8]), 1)
    adjacency = upper | upper.T
    return adjacency, np.r_[0, np.cumsum(adjacency.sum(axis=1))], np.nonzero(adjacency)[1]


def test_dense_blocks(rng):
    A = draw_definite(rng, int(rng.integers(1, 8)))
    L, W, scratch = np.zeros((3, *A.shape))
    logdet = cholesky(A, L)
    expected, expected_logdet = reference.cholesky(A)
    np.testing.assert_allclose(L, expected, atol=1e-10)
    assert logdet == pytest.approx(expected_logdet, abs=1e-10)
    invert(L, W, scratch)
    np.testing.assert_allclose(W, reference.invert(L), rtol=1e-8, atol=1e-8)
    _, flat, offset, size = draw_blocks(rng)
    number = int(rng.integers(len(size)))
    np.testing.assert_array_equal(block_of(flat, offset, size, number), reference.block_of(flat, offset, size, number))


def test_rows(rng):
    row, out = rng.normal(size=4), rng.normal(size=6)
    found, sum_found = out.copy(), out[:4].copy()
    copy(row, found)
    np.testing.assert_array_equal(found, reference.copy(row, out))
    axpy(-0.3, row, sum_found)
    np.testing.assert_allclose(sum_found, reference.axpy(-0.3, row, out[:4]), rtol=1e-14)
    factors, starts, flat, out = rng.normal(size=4), rng.integers(0, 9, 4), rng.normal(size=14), rng.normal(size=5)
    expected = reference.add_four_rows(factors, starts, 5, flat, out)
    add_four_rows(factors, starts, 5, flat, out)
    np.testing.assert_allclose(out, expected, atol=1e-14)
    variance, square = rng.uniform(0.1, 3.0), rng.choice([0.0, 1e-3, 5.0])
    assert diagonal_entry(variance, square) == pytest.approx(reference.diagonal_entry(variance, square), rel=1e-12)


def test_many_small_blocks(rng):
    blocks, flat, offset, size = draw_blocks(rng)
    other = rng.normal(size=len(flat))
    trace, squares = np.empty(len(size)), np.empty(len(size))
    dense.trace_and_squares(flat, other, offset, size, trace, squares)
    pairs = [(block, reference.block_of(other, offset, size, b)) for b, block in enumerate(blocks)]
    expected = np.array([reference.trace_and_squares(*pair) for pair in pairs])
    np.testing.assert_allclose(np.stack([trace, squares], axis=1), expected, atol=1e-9)
    scale, sums = rng.uniform(size=size.sum()), np.empty(size.sum())
    dense.scaled_row_sums(flat, size, scale, sums)
    of_blocks = zip(blocks, np.split(scale, np.cumsum(size)[:-1]), strict=True)
    np.testing.assert_allclose(sums, np.concatenate([reference.scaled_row_sums(*pair) for pair in of_blocks]))
    # Rank one less than full, and pushed out of the cone by more or less than what is forgiven.
    for b, block in enumerate(blocks):
        unit = np.linalg.qr(block)[0]
        block[:] = (unit * np.r_[rng.choice([-1e-4, -1e-12, 0.0, 0.1]), np.ones(size[b] - 1)]) @ unit.T
    flat = np.concatenate([(0.5 * (block + block.T)).ravel() for block in blocks])
    blocks = [reference.block_of(flat, offset, size, b) for b in range(len(size))]
    diagonals = [np.where(np.diag(A) == 0.0, 1.0, np.diag(A)) for A in blocks]
    raised = [A + (FORGIVEN + FORGIVEN_EACH * len(A)) * np.diag(d) for A, d in zip(blocks, diagonals, strict=True)]
    assert semidefinite(flat, offset, size).tolist() == [bool(np.linalg.eigvalsh(A).min() > 0.0) for A in raised]


def test_rows_of_the_upper_triangle(rng):
    p = int(rng.integers(1, 150))
    matrix = rng.normal(size=(p, p))
    rows, others = (rng.integers(0, p, 5) for _ in range(2))
    out = np.empty((5, 5))
    scan.take_upper(matrix, rows, others, out)
    np.testing.assert_array_equal(out, reference.take_upper(matrix, rows, others))


def test_index_of_pairs(rng):
    n_classes, p = int(rng.integers(1, 4)), int(rng.integers(2, 9))
    labels = rng.integers(0, 3, (n_classes, p))
    members = [np.flatnonzero(row == label) for row in labels for label in range(3)]
    classes = np.repeat(np.arange(n_classes), 3)
    kept = [b for b, inside in enumerate(members) if len(inside) > 1]
    block_of, slot_of = np.full((n_classes, p), -1), np.full((n_classes, p), -1)
    for number, b in enumerate(kept):
        block_of[classes[b], members[b]] = number
        slot_of[classes[b], members[b]] = np.arange(len(members[b]))
    size = np.array([len(members[b]) for b in kept], dtype=np.int64)
    start, offset = np.r_[0, np.cumsum(size)], np.r_[0, np.cumsum(size**2)]
    variables = np.concatenate([*(members[b] for b in kept), NONE])
    n_entries = int((size * (size - 1) // 2).sum())
    pair_start, entries = np.full(n_entries + 1, -1), np.full((3, n_entries), -1)
    scratch = np.empty((3, n_classes), dtype=np.int64)
    n_pairs = pair_index.index_pairs(block_of, slot_of, start, variables, offset, scratch, pair_start, entries)
    index = [pair_start[: n_pairs + 1], *entries]
    assert [part.tolist() for part in index] == reference.index_pairs(block_of, slot_of, offset, size)

    upper, _, block = entries
    row, column = np.empty(n_entries, np.int64), np.empty(n_entries, np.int64)
    pair_index.members_of_entries(upper, block, offset, size, start, row, column)
    expected = reference.members_of_entries(upper - offset[block], size[block], start[block])
    np.testing.assert_array_equal([row, column], expected)


def test_graphs(rng):
    adjacency, start, other = draw_graph(rng)
    n, max_size = len(adjacency), int(rng.integers(1, 6))
    order = rng.permutation(n)
    found = column_batches.colours(start, other, order, max_size)
    np.testing.assert_array_equal(found, reference.colours(adjacency, order, max_size))
    assert column_batches.cut_batches(start, other, max_size).tolist() == reference.cut_batches(adjacency, max_size)


def test_closed_form_on_forests(rng):
    start, factor = draw_pairs(rng)
    n = start[-1]
    lambda1, lambda2 = rng.uniform(0.0, 0.3), rng.choice([0.0, 0.2, 1.0])
    weight, largest = (
        rng.uniform(0.5, 2.0, n),
        (factor if len(factor) else np.ones(6))[np.repeat(range(6), np.diff(start))],
    )
    S = (largest * lambda1 + rng.uniform(0.05, 2.0, n)) / weight * rng.choice([-1.0, 1.0], n)
    data = np.stack([S, weight, S**2 * rng.uniform(1.1, 4.0, n)])
    taken = rng.random(n) < 0.7
    W = np.zeros(n)
    l1 = lambda1 * (np.repeat(factor, np.diff(start)) if len(factor) else np.ones(len(W)))
    forest.forest_covariances(0, 6, start, factor, taken, (*data, l1), GroupPair(lambda1, lambda2), W)
    expected = reference.forest_covariances(start, factor, taken, data, lambda1, lambda2)
    np.testing.assert_allclose(W, expected, rtol=1e-8, atol=1e-10)
    if n:
        found = pair_covariance(*data, 0.1 * lambda1, lambda2)
        np.testing.assert_allclose(
            found, reference.pair_covariance(*data, 0.1 * lambda1, lambda2), rtol=1e-8, atol=1e-10
        )


def test_group_penalty_of_one_pair(rng):
    n, v = int(rng.integers(1, 6)), rng.choice([0.5, 1.0, 2.0])
    lambda1, lambda2 = rng.uniform(0.0, 0.5), rng.choice([0.0, 0.3, 2.0])
    work = PenaltyWorkspace(np.empty((2, n)), NONE[None])
    penalty, pair = GroupPair(lambda1, lambda2), PairClasses(NONE, n, v, np.full(n, v * lambda1), work)
    theta = rng.normal(size=n) * (rng.random(n) < 0.7) * rng.choice([0.0, 1.0], p=[0.2, 0.8])
    target, step, a = rng.normal(size=n), rng.normal(size=n), rng.uniform(0.1, 3.0, n)
    start, factor, out, target_step = np.array([0, n]), np.array([v]), np.empty(n), step.copy()
    subgradient(penalty, theta, target, pair, out)
    np.testing.assert_allclose(out, reference.subgradient(theta, target, v, lambda1, lambda2), atol=1e-13)
    inside = reference.is_dual_feasible(target, start, factor, lambda1, lambda2)[0]
    assert is_dual_feasible(penalty, target, pair) == inside
    update(penalty, a, target, pair, out)
    expected = reference.penalty_update(a, target, start, factor, lambda1, lambda2)
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-12)
    gradient, product, number = np.empty(n), np.zeros(n), np.empty(n, np.int64)
    count = on_face(penalty, theta, pair, step, gradient, product, number)
    np.testing.assert_allclose(gradient, reference.gradient(theta, v, lambda1, lambda2), atol=1e-14)
    np.testing.assert_array_equal(number, reference.clusters(theta))
    assert count == np.count_nonzero(theta)
    expected = reference.hvp(theta, v, lambda2, step) if theta.any() else np.zeros(n)
    np.testing.assert_allclose(product, expected, atol=1e-12)
    assert retract_and_threshold(penalty, theta, pair, step) == reference.threshold(lambda1)
    np.testing.assert_array_equal(step, reference.retract(theta, v * lambda1, target_step))


def test_entries_by_ratio(rng):
    n = int(rng.integers(1, 7))
    u, l1 = rng.normal(size=n) * (rng.random(n) < 0.8), rng.choice([0.0, 0.5, 1.0, np.inf], n)
    work = PenaltyWorkspace(np.empty((2, n)), NONE[None])
    count = sort_by_ratio(u, PairClasses(NONE, n, 1.0, l1, work))
    found, expected = work.real[:, :count], reference.sort_by_ratio(u, l1)
    np.testing.assert_array_equal(found[:, found[1] > 0.0], expected[:, expected[1] > 0.0])
    np.testing.assert_array_equal(np.sort(found), np.sort(expected))
    assert (np.diff(found[1] > 0.0) >= 0).all()  # infinite ratios are first


def test_group_penalty_of_many_pairs(rng):
    start, factor = draw_pairs(rng)
    n, lambda1, lambda2 = start[-1], rng.uniform(0.0, 0.5), rng.choice([0.0, 0.3, 2.0])
    penalty, data = GroupPenalty(lambda1, lambda2), Entries(start, ANY_CLASS, factor, 5)
    theta = rng.normal(size=n) * (rng.random(n) < 0.6)
    a, b = rng.uniform(0.1, 3.0, n), 2.0 * rng.normal(size=n)
    expected = reference.penalty_update(a, b, start, factor, lambda1, lambda2)
    np.testing.assert_allclose(penalty.update(a, b, data), expected, rtol=1e-9, atol=1e-12)
    inside = penalty.is_dual_feasible(b, data)
    np.testing.assert_array_equal(inside, reference.is_dual_feasible(b, start, factor, lambda1, lambda2))
    variable, gradient = penalty.face(theta, data)
    expected_variable, expected_gradient = reference.face(theta, start, factor, lambda1, lambda2)
    np.testing.assert_array_equal(variable, expected_variable)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-14)
    step = rng.normal(size=n)
    product, diagonal = penalty.hvp(theta, step, data), penalty.hessian_diagonal(theta, data)
    retracted = penalty.retract(theta, step, data)
    for pair, (first, last) in enumerate(itertools.pairwise(start)):
        t, v = theta[first:last], factor[pair] if len(factor) else 1.0
        masked = np.where(t != 0.0, step[first:last], 0.0)
        expected = np.where(t != 0.0, reference.hvp(t, v, lambda2, masked), 0.0) if t.any() else np.zeros(len(t))
        np.testing.assert_allclose(product[first:last], expected, atol=1e-12)
        np.testing.assert_allclose(diagonal[first:last], reference.hessian_diagonal(t, v, lambda2), atol=1e-12)
        kept = reference.retract(t, v * lambda1, step[first:last])
        np.testing.assert_array_equal(retracted[first:last], kept)


@pytest.mark.parametrize("lambda2", [0.1, 5.0])
def test_rescaling_of_a_column(rng, lambda2):
    """Class by class where lambda2 is small, and one factor otherwise; class 1 has no block."""
    blocks = np.array([0, -1, 1, 2])
    weight, variance, tau, square = rng.uniform(0.1, 3.0, (4, 4))
    square[:3] *= rng.choice([0.1, 1.0])
    column = column_parts.Column.allocate(4, 1, 1, 1, 1, weight)
    column.place[column_parts.BLOCK] = blocks
    rows = column_parts.WEIGHT, column_parts.VARIANCE, column_parts.TAU, column_parts.SQUARE
    column.diagonal[list(rows)] = weight, variance, tau, square
    rescale(GroupPair(1.0, lambda2), column)
    own = blocks >= 0
    expected = reference.rescale(weight[own], variance[own], tau[own], square[own], lambda2 > 1.0)
    np.testing.assert_allclose(column.diagonal[column_parts.RAY, own], expected, rtol=1e-12)


def test_products_with_a_sparse_matrix(rng):
    """``W D W`` at the entries of D, for two blocks one after another."""
    sizes, offset = rng.integers(1, 300, 2), 0
    parts = []
    for b in sizes:
        upper = np.triu(rng.random((b, b)) < 0.05) | np.eye(b, dtype=bool)
        values = np.where(upper, rng.normal(size=(b, b)), 0.0)
        parts.append((upper | upper.T, np.triu(values) + np.triu(values, 1).T, rng.normal(size=(b, b))))
    parts = [(pattern, D, W + W.T) for pattern, D, W in parts]
    base, start, column, entry, values = [], [0], [], [], []
    for pattern, D, _ in parts:
        number = np.full(pattern.shape, -1)
        number[np.triu(pattern)] = len(values) + np.arange(np.triu(pattern).sum())
        number = np.maximum(number, number.T)
        values.extend(D[np.triu(pattern)])
        for row in range(len(D)):
            base.append(offset)
            column.extend(np.flatnonzero(pattern[row]))
            entry.extend(number[row, pattern[row]])
            start.append(len(column))
        offset += D.size
    width, slot = np.repeat(sizes, sizes), np.concatenate([np.arange(b) for b in sizes])
    index = face.SupportIndex(*(np.array(one, dtype=np.int64) for one in (base, width, slot, start, column, entry)))
    W, n_rows = np.concatenate([W.ravel() for *_, W in parts]), int(sizes.sum())
    values, product, out = np.array(values), np.empty(offset), np.full(len(values), np.nan)
    face.multiply_rows(0, n_rows, index, W, values, product)
    expected = np.concatenate([reference.multiply_rows(D, W).ravel() for _, D, W in parts])
    np.testing.assert_allclose(product, expected, atol=1e-10)
    face.sample_rows(0, n_rows, index, W, product, np.ones(len(values), dtype=bool), out)
    upper = [reference.sample_rows(D, W, pattern)[np.triu(pattern)] for pattern, D, W in parts]
    np.testing.assert_allclose(out, np.concatenate(upper), rtol=1e-8, atol=1e-8)


def test_columns_are_appended_and_room_is_made(rng):
    n, m, n_classes = (int(number) for number in rng.integers(1, 6, 3))
    found, expected = (
        column_batches.SparseColumns(
            np.zeros(3, dtype=np.int64), np.zeros(n + m, dtype=np.int64), np.zeros((n + m, n_classes))
        )
        for _ in range(2)
    )
    for at, size in ((0, n), (n, m)):
        other, value = rng.integers(0, 9, size), rng.normal(size=(size + 2, n_classes))
        append_column(other, value, at, found)
        reference.append_column(other, value, at, expected)
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, two)
    for needed in (n, n + m, n + m + 1, 3 * (n + m)):
        grown, right = with_capacity(needed, n, found), reference.with_capacity(needed, n, expected)
        assert len(grown.other) == len(grown.value) >= needed
        np.testing.assert_array_equal(grown.other[:n], right.other[:n])
        np.testing.assert_array_equal(grown.value[:n], right.value[:n])
