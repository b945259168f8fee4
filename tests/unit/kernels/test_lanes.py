"""The loops written in vector instructions, against the same loops in NumPy; LAPACK called by address."""

import threading

import numpy as np
import pytest
from numba import njit

from jointglasso import _lapack
from jointglasso._lapack import factor_in_place, invert_factor_in_place, log_determinant
from jointglasso.kernels.lanes import ROW, Dots, add_four_dots, add_one_dot, add_rows, transpose_square
from jointglasso.solvers.working_set import _aligned_rows


@njit
def run_add_rows(out, at, table, base, column, values, begin, end):
    add_rows(out, at, table, base, (column, values), begin, end)


@njit
def run_four_dots(left, at, right, base, step, column, n, out, unknown):
    add_four_dots(Dots(left, right, step, column, unknown, out), at, base, n)


@njit
def run_one_dot(left, at, right, base, step, column, n, out, unknown):
    add_one_dot(Dots(left, right, step, column, unknown, out), at, base, n)


@njit
def run_transpose(square, out, at):
    transpose_square(square, out, at)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 31])
@pytest.mark.parametrize("shift", [0, 3])
def test_add_rows_is_a_product_with_rows_of_the_table(rng, n, shift):
    table = rng.standard_normal(40 * ROW + shift).astype(np.float32)
    column = rng.integers(0, 40, n + 2).astype(np.int32)
    values = rng.standard_normal(n + 2).astype(np.float32)
    out = np.full(3 * ROW, 7.0, dtype=np.float32)
    run_add_rows(out, ROW, table, shift, column, values, 1, 1 + n)
    rows = table[shift:].reshape(40, ROW)
    assert np.allclose(out[ROW : 2 * ROW], values[1 : 1 + n] @ rows[column[1 : 1 + n]], atol=1e-5)
    assert (out[:ROW] == 7.0).all() and (out[2 * ROW :] == 7.0).all()


def test_dots_go_over_two_tiles_and_are_added_up(rng):
    size = 20
    left, right = (rng.standard_normal(2 * size * ROW).astype(np.float32) for _ in range(2))
    column = rng.integers(0, size, 6).astype(np.int32)
    unknown = rng.permutation(6)
    tiles = [a.reshape(2, size, ROW).astype(float) for a in (left, right)]
    expected = np.full(6, 1.0)
    for m in range(1, 5):
        expected[unknown[m]] += sum(tiles[0][t, 3] @ tiles[1][t, column[m]] for t in range(2))
    four, ones = np.full(6, 1.0), np.full(6, 1.0)
    run_four_dots(left, 3 * ROW, right, 0, size * ROW, column, 1, four, unknown)
    for m in range(1, 5):
        run_one_dot(left, 3 * ROW, right, 0, size * ROW, column, m, ones, unknown)
    assert np.allclose(four, expected, atol=1e-4)
    assert np.allclose(ones, expected, atol=1e-4)


def test_transpose_square(rng):
    square = rng.standard_normal((ROW, ROW)).astype(np.float32)
    out = np.zeros(ROW * ROW + 10, dtype=np.float32)
    run_transpose(square.ravel(), out, 5)
    assert np.array_equal(out[5:-5].reshape(ROW, ROW), square.T)
    assert not out[:5].any() and not out[-5:].any()


@pytest.mark.parametrize("n", [1, 2, 100])
def test_aligned_rows_are_zeros_at_a_multiple_of_64_bytes(n):
    rows = _aligned_rows(n)
    assert len(rows) == n and not rows.any() and rows.ctypes.data % 64 == 0


@pytest.mark.parametrize("by_address", [True, False])
@pytest.mark.parametrize("n", [1, 2, 33, 150])
def test_factor_and_inverse_in_place(rng, n, by_address, monkeypatch):
    if by_address:
        assert _lapack._routine("dpotrf") is not None
    else:  # builds with 64-bit integers
        monkeypatch.setattr(_lapack, "_routine", lambda name: None)
    A = rng.standard_normal((n, n + 5))
    A = A @ A.T
    work = np.triu(A) + np.tril(np.full((n, n), np.nan), -1)  # the lower triangle is not looked at
    assert factor_in_place(work)
    assert np.isclose(log_determinant(work), np.linalg.slogdet(A)[1])
    assert np.allclose(np.triu(work).T @ np.triu(work), A)
    assert invert_factor_in_place(work)
    assert np.allclose(np.triu(work), np.triu(np.linalg.inv(A)))


@pytest.mark.parametrize("integer, suits", [("int", True), ("int64_t", False), ("long", False)])
def test_only_routines_of_the_expected_signature_are_called_by_address(integer, suits):
    signature = f"void (char *, {integer} *, __pyx_t_5scipy_6linalg_13cython_lapack_d *, {integer} *, {integer} *)"
    assert _lapack._takes_int(f'<capsule object "{signature}" at 0x7f>', "d") == suits
    assert not _lapack._takes_int(f'<capsule object "{signature}" at 0x7f>', "s")


def test_indefinite_matrices_are_told(monkeypatch):
    assert not factor_in_place(np.array([[1.0, 2.0], [2.0, 1.0]]))
    monkeypatch.setattr(_lapack, "_routine", lambda name: None)
    assert not factor_in_place(np.array([[1.0, 2.0], [2.0, 1.0]]))


@pytest.mark.parametrize("matrix", [np.eye(3)[:, :2], np.eye(4)[::2, ::2], np.eye(3, dtype=np.int64)])
def test_matrices_that_lapack_would_misread_are_refused(matrix):
    with pytest.raises(ValueError, match="contiguous square matrix of float64 numbers"):
        factor_in_place(matrix)


def test_other_threads_run_during_a_factorisation():
    matrix = np.eye(2500)
    during, done = [], threading.Event()

    def watch():
        while not done.is_set():
            during.append(None)
            done.wait(1e-4)

    watcher = threading.Thread(target=watch)
    watcher.start()
    before = len(during)
    factor_in_place(matrix)
    seen = len(during) - before
    done.set()
    watcher.join()
    assert seen > 3


def test_single_precision_is_factored_but_not_inverted():
    A = np.array([[4.0, 2.0], [2.0, 5.0]], dtype=np.float32)
    assert factor_in_place(A)
    np.testing.assert_array_equal(np.triu(A), [[2.0, 1.0], [0.0, 2.0]])
    assert not factor_in_place(np.array([[1.0, 2.0], [2.0, 1.0]], dtype=np.float32))
    with pytest.raises(ValueError, match="float64"):
        invert_factor_in_place(A)
