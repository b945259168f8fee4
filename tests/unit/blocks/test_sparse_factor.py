"""Sparse Cholesky factor, entries of the inverse, columns and eigenvalue bounds against dense linear algebra."""

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from jointglasso.blocks import sparse_factor
from jointglasso.blocks.sparse_factor import FactorSparsity, neighbours
from jointglasso.kernels.sparse_columns import SparseMatrix
from jointglasso.solvers.sparse_check import ClassInverse, least_eigenvalue
from tests.helpers.sparse_designs import grid_edges, random_edges


def definite(n, edges, rng, margin=0.5):
    i, j = edges
    A = np.zeros((n, n))
    A[i, j] = A[j, i] = 0.3 * rng.normal(size=len(i))
    np.fill_diagonal(A, np.abs(A).sum(axis=1) + margin)
    return A


@pytest.mark.parametrize("tail", [0.0, 0.25, 0.5, 2.0])
def test_factor_inverse_and_columns(monkeypatch, tail):
    monkeypatch.setattr(sparse_factor, "_TAIL_FRACTION", tail)
    rng = np.random.default_rng(0)
    n, (i, j) = 600, random_edges(600, 900, rng)
    A = definite(n, (i, j), rng)
    sparsity = FactorSparsity.of(n, i, j)
    assert sorted(sparsity.order) == list(range(n))
    assert (sparsity.n_tail == 0) == (tail == 2.0)
    factor = sparsity.factor(np.diagonal(A), A[i, j])
    inverse, W = factor.invert(), np.linalg.inv(A)
    assert factor.logdet == pytest.approx(np.linalg.slogdet(A)[1], abs=2e-12)
    np.testing.assert_allclose(inverse.entries, W[i, j], atol=2e-15)
    np.testing.assert_allclose(inverse.diagonal, np.diagonal(W), atol=5e-15)
    np.testing.assert_allclose(inverse.columns(np.arange(20)), W[:, :20], atol=2e-15)
    value, known = inverse.at(j, i)
    assert known.all()
    np.testing.assert_array_equal(value, inverse.entries)
    rows, columns = rng.integers(0, n, (2, 500))
    off = rows != columns
    value, known = inverse.at(rows[off], columns[off])
    np.testing.assert_allclose(value[known], W[rows[off], columns[off]][known], atol=5e-15)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 40), density=st.floats(0.0, 1.0), tail=st.floats(0.0, 1.5))
def test_any_graph(seed, n, density, tail):
    rng = np.random.default_rng(seed)
    i, j = np.nonzero(np.triu(rng.random((n, n)) < density, 1))
    A = definite(n, (i, j), rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_factor, "_TAIL_FRACTION", tail)
        sparsity = FactorSparsity.of(n, i, j)
    inverse, W = sparsity.factor(np.diagonal(A), A[i, j]).invert(), np.linalg.inv(A)
    np.testing.assert_allclose(inverse.entries, W[i, j], atol=1e-13)
    np.testing.assert_allclose(inverse.multiply(np.eye(n)), W, atol=1e-13)


def test_the_sparsity_is_that_of_the_factor():
    i, j = grid_edges(12)
    sparsity = FactorSparsity.of(144, i, j)
    A = definite(144, (i, j), np.random.default_rng(1))
    L = np.linalg.cholesky(A[np.ix_(sparsity.order, sparsity.order)])
    for column in range(sparsity.n_columns):
        rows = sparsity.rows[sparsity.offset[column] : sparsity.offset[column + 1]]
        assert set(column + 1 + np.flatnonzero(L[column + 1 :, column])) <= set(rows)
    assert len(sparsity.rows) < 0.35 * 144 * 143 / 2


def test_an_expensive_order_is_given_up():
    i, j = random_edges(300, 2000, np.random.default_rng(0))
    assert FactorSparsity.within(100.0, 300, i, j) is None


def test_an_indefinite_matrix_has_no_factor():
    i, j = random_edges(200, 300, np.random.default_rng(0))
    for tail in (0.25, 2.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sparse_factor, "_TAIL_FRACTION", tail)
            sparsity = FactorSparsity.of(200, i, j)
        assert sparsity.factor(np.ones(200), np.full(len(i), 0.9)) is None


@pytest.mark.parametrize("tail", [0.25, 2.0])
def test_the_backward_error_covers_the_error_of_the_factor(monkeypatch, tail):
    """E = L L' - A, in extended precision, is within the bound, and a few units in the last place away from it."""
    monkeypatch.setattr(sparse_factor, "_TAIL_FRACTION", tail)
    rng = np.random.default_rng(0)
    n, (i, j) = 300, random_edges(300, 500, rng)
    A = definite(n, (i, j), rng, margin=1e-3)
    sparsity = FactorSparsity.of(n, i, j)
    factor = sparsity.factor(np.diagonal(A), A[i, j])
    L = np.zeros((n, n), dtype=np.longdouble)
    for column in range(sparsity.n_columns):
        part = slice(sparsity.offset[column], sparsity.offset[column + 1])
        L[sparsity.rows[part], column], L[column, column] = factor.value[part], factor.pivot[column]
    L[sparsity.n_columns :, sparsity.n_columns :] = np.triu(factor.tail).T
    E = np.abs(L @ L.T - A[np.ix_(sparsity.order, sparsity.order)].astype(np.longdouble))
    norm, relative = factor.backward_error
    root = np.sqrt(np.diagonal(A)[sparsity.order])
    assert 0.0 < E.sum(axis=1).max() <= norm
    assert (relative * np.outer(root, root) >= E).all()
    assert norm < 1e4 * float(E.sum(axis=1).max())


def adversarial(kind, n, seed):
    """(n, n): a sparse positive definite matrix on which rounding shows, and its edges."""
    rng = np.random.default_rng(seed)
    i, j = grid_edges(int(n**0.5)) if kind == "grid" else random_edges(n, 2 * n, rng)
    weight = 10.0 ** rng.uniform(-4, 4, len(i)) if kind == "weights" else np.ones(len(i))
    A = np.zeros((n, n))
    A[i, j] = A[j, i] = -weight
    sums = -A.sum(axis=1)
    shift = {"grid": 0.1, "singular": 0.0, "nearly singular": 1e-13, "weights": 1e-9, "scaled": 1e-3, "hub": 0.1}[kind]
    if kind == "hub":  # eigenvalues of the star cancel: its diagonal is the sum of the squares
        i, j = np.zeros(n - 1, dtype=np.int64), np.arange(1, n)
        A[:], sums = 0.0, np.ones(n)
        A[0, 1:] = A[1:, 0] = np.sqrt(np.arange(1.0, n))
        sums[0] = n * (n - 1) / 2.0
    np.fill_diagonal(A, sums + shift + (sums == 0.0))
    if kind == "scaled":
        scale = 10.0 ** rng.uniform(-3, 3, n)
        A *= np.outer(scale, scale)
    return A, i, j


def is_definite_exactly(A, mu):
    """Whether A - mu I is positive definite, in rational arithmetic, for the numbers as they are stored."""
    M = [[Fraction(float(x)) for x in row] for row in A]
    for a in range(len(M)):
        M[a][a] -= Fraction(float(mu))
    for a in range(len(M)):
        if M[a][a] <= 0:
            return False
        for b in range(a + 1, len(M)):
            if M[b][a]:
                factor = M[b][a] / M[a][a]
                for c in range(a + 1, len(M)):
                    M[b][c] -= factor * M[a][c]
    return True


@pytest.mark.parametrize("tail", [0.25, 2.0])
@pytest.mark.parametrize("kind", ["singular", "nearly singular", "weights", "scaled", "hub"])
def test_the_eigenvalue_bound_holds_exactly_for_ill_conditioned_matrices(kind, tail, monkeypatch):
    monkeypatch.setattr(sparse_factor, "_TAIL_FRACTION", tail)
    for seed in range(6):
        A, i, j = adversarial(kind, 14, seed)
        sparsity = FactorSparsity.of(len(A), i, j)
        factor = sparsity.factor(np.diagonal(A), A[i, j])
        if factor is None:
            continue
        mu = least_eigenvalue(factor.invert(), np.diagonal(A), A[i, j])
        assert mu == 0.0 or is_definite_exactly(A, mu)
        assert kind not in ("hub", "weights") or (mu > 0.0 and not is_definite_exactly(A, 4.0 * mu))
        norm, relative = factor.backward_error
        E = exact_error(factor, A)
        assert 0.0 <= float(E.sum(axis=1).max()) <= norm
        root = np.sqrt(np.diagonal(A)[sparsity.order])
        assert (relative * np.outer(root, root) >= E).all()


def exact_inverse(A):
    """Inverse (n, n) and determinant of a positive definite matrix in rational arithmetic, as it is stored."""
    n, determinant = len(A), Fraction(1)
    M = [[Fraction(float(x)) for x in row] + [Fraction(int(a == b)) for b in range(n)] for a, row in enumerate(A)]
    for a in range(n):
        pivot = M[a][a]
        determinant *= pivot
        M[a] = [x / pivot for x in M[a]]
        for b in range(n):
            if b != a and M[b][a]:
                M[b] = [x - M[b][a] * y for x, y in zip(M[b], M[a], strict=True)]
    return [row[n:] for row in M], determinant


def log(x):
    """Logarithm of a positive fraction, whose numerator and denominator may be beyond the range of floats."""
    return Decimal(x.numerator).ln() - Decimal(x.denominator).ln()


@pytest.mark.parametrize("tail", [0.25, 2.0])
@pytest.mark.parametrize("kind", ["grid", "nearly singular", "weights", "scaled", "hub"])
def test_bounds_on_the_inverse_and_the_determinant_hold_exactly(kind, tail, monkeypatch):
    """Errors of the entries on the sparsity, of columns and of log det are below their bounds, in exact arithmetic."""
    monkeypatch.setattr(sparse_factor, "_TAIL_FRACTION", tail)
    getcontext().prec, n_bounds = 60, 0
    for seed in range(3):
        A, i, j = adversarial(kind, 9 if kind == "grid" else 12, seed)
        n, sparsity = len(A), FactorSparsity.of(len(A), i, j)
        factor = sparsity.factor(np.diagonal(A), A[i, j])
        if factor is None:
            continue
        start, other, edge = neighbours(n, i, j)
        matrix = SparseMatrix(np.diagonal(A).copy(), start, other, A[i, j][edge])
        inverse = ClassInverse(factor.invert(), matrix, A[i, j], 1.0)
        if not inverse.mu > 0.0:
            continue
        (eps, logdet_error), (W, determinant) = inverse.error, exact_inverse(A)
        X, bounds = inverse.columns(np.arange(n))
        worst = max(abs(Fraction(X[a, b]) - W[a][b]) / Fraction(bounds[b]) for a in range(n) for b in range(n))
        assert worst <= 1
        if not np.isfinite(eps):
            continue
        n_bounds += 1
        a, b = np.triu_indices(n, 1)
        value, known = inverse.inverse.at(a, b)
        pairs = [*zip(a[known], b[known], value[known], strict=True)]
        pairs += zip(range(n), range(n), inverse.inverse.diagonal, strict=True)
        assert all((Fraction(x) - W[a][b]) ** 2 <= Fraction(eps) ** 2 * W[a][a] * W[b][b] for a, b, x in pairs)
        stored = log(math.prod(Fraction(x) for x in [*factor.pivot, *np.diagonal(factor.tail)]) ** 2)
        assert abs(stored - log(determinant)) <= logdet_error
    assert n_bounds > 0 or kind not in ("grid", "hub")


def exact_error(factor, A):
    """(n, n): |L L' - A| in elimination order, from exact products and sums."""
    sparsity, n = factor.sparsity, len(A)
    L = np.zeros((n, n))
    for column in range(sparsity.n_columns):
        part = slice(sparsity.offset[column], sparsity.offset[column + 1])
        L[sparsity.rows[part], column], L[column, column] = factor.value[part], factor.pivot[column]
    L[sparsity.n_columns :, sparsity.n_columns :] = np.triu(factor.tail).T
    rows = [[Fraction(x) for x in row] for row in L.tolist()]
    ordered = A[np.ix_(sparsity.order, sparsity.order)].tolist()
    return np.array([[
        abs(float(sum(x * y for x, y in zip(rows[a], rows[b], strict=True)) - Fraction(ordered[a][b])))
        for b in range(n)] for a in range(n)])  # fmt: skip


def test_local_columns_are_within_their_bounds():
    from jointglasso.kernels.sparse_columns import (
        RelaxationLimits,
        SparseMatrix,
        entries_of_inverse,
        list_large_entries,
    )

    rng = np.random.default_rng(0)
    n, (i, j) = 400, grid_edges(20)
    A = definite(n, (i, j), rng, margin=0.4)
    W, mu = np.linalg.inv(A), float(np.linalg.eigvalsh(A)[0])
    start, other, edge = neighbours(n, i, j)
    matrix = SparseMatrix(np.diagonal(A).copy(), start, other, A[i, j][edge])
    limits, limit = RelaxationLimits(mu, 1e-3, 100_000), 0.01
    row, column, given_up = list_large_entries(np.arange(n), matrix, limits, limit)
    assert not len(given_up)
    listed = np.zeros((n, n), dtype=bool)
    listed[row, column] = True
    lower = np.tril(np.ones((n, n), dtype=bool), -1)
    assert np.abs(W[lower & ~listed]).max() <= limit
    assert listed[lower & (np.abs(W) > limit)].all()
    rows, columns = np.nonzero(lower)
    order = np.argsort(columns, kind="stable")
    value, error = np.empty(len(rows)), np.empty(len(rows))
    entries_of_inverse(rows[order], columns[order], matrix, limits, value, error)
    assert (error <= 1e-3 * (1.0 + 1e-6)).all()
    assert (np.abs(value - W[rows[order], columns[order]]) <= error).all()
    impatient = limits._replace(max_work=12)
    assert len(list_large_entries(np.arange(n), matrix, impatient, limit)[2]) > n / 2


def test_relaxation_is_limited_by_the_entries_it_reads():
    """A hub with three strong neighbours needs few updates, each of which reads its whole row."""
    from jointglasso.kernels.sparse_columns import RelaxationLimits, SparseMatrix, list_large_entries

    n = 400
    value = np.where(np.arange(1, n) <= 3, 0.2, 1e-9)
    start, other, edge = neighbours(n, np.zeros(n - 1, dtype=np.int64), np.arange(1, n))
    star, columns = SparseMatrix(np.ones(n), start, other, value[edge]), np.arange(4)
    for max_work, n_given_up in ((50, 4), (50 * n, 0)):
        given_up = list_large_entries(columns, star, RelaxationLimits(0.6, 1e-6, max_work), 0.01)[2]
        assert len(given_up) == n_given_up
