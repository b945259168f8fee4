"""The scan on a CUDA device: on a stand-in made of NumPy everywhere, and on the device itself where there is one."""

import types

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.backends import gpu
from jointglasso.penalties import GroupPenalty
from jointglasso.problem import make_problem
from jointglasso.screening.pairs import PairTable, scan_pairs


class OutOfMemory(Exception):
    pass


def mark(grid, block, arguments):
    """What the device's kernel does, in NumPy; `grid` and `block` must cover the tile."""
    tile, row, column, slack, n_rows, n_columns, rows_a_thread, top, left, found, n_found = arguments
    assert grid[0] * block[0] >= n_columns and grid[1] * rows_a_thread >= n_rows
    i, j = np.nonzero(np.abs(tile) + slack > row[:, None] * column[None, :])
    keep = left + j > top + i
    keys = ((top + i[keep]).astype(np.uint64) << np.uint64(32)) + (left + j[keep]).astype(np.uint64)
    found[n_found[0] : n_found[0] + len(keys)] = keys[::-1]  # threads finish in any order
    n_found[0] += len(keys)


def stand_in(**changes):
    memory = types.SimpleNamespace(OutOfMemoryError=OutOfMemory)
    fake = types.SimpleNamespace(
        asarray=np.asarray,
        asnumpy=np.array,
        empty=np.empty,
        zeros=np.zeros,
        matmul=np.matmul,
        RawKernel=lambda code, name: mark,
        cuda=types.SimpleNamespace(memory=memory, runtime=types.SimpleNamespace(getDeviceCount=lambda: 1)),
        get_default_memory_pool=lambda: types.SimpleNamespace(free_all_blocks=lambda: None),
    )
    vars(fake).update(changes)
    return fake


@pytest.fixture
def device(monkeypatch):
    """Put a stand-in, changed at will, in the place of CuPy."""

    def install(**changes):
        fake = stand_in(**changes)
        monkeypatch.setattr(gpu, "require", lambda module, extra: fake)
        monkeypatch.setattr(gpu, "SIDE", 100)
        gpu.available.cache_clear()

    yield install
    gpu.available.cache_clear()


def samples(p=530, seed=0):
    draw = np.random.default_rng(seed)
    X = [draw.standard_normal((40 + 10 * k, p)) * draw.uniform(0.1, 10.0, p) for k in range(3)]
    X[1][:, 7] = 3.0  # a variable without variance
    return X


def assert_same_table(X, penalty, pair_weights=None, scale="covariance"):
    tables = []
    for where in ("cpu", "cuda"):
        source = jgl.SampleCovariance(X, scale=scale, constant="isolate", device=where)
        problem = make_problem(source, 1.0, 1.0, penalty="group", weights=[1.0, 2.0, 0.5], pair_weights=pair_weights)
        tables.append(scan_pairs(source, penalty, problem.weights, problem.pair_weights))
    for name in PairTable.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(tables[0], name), getattr(tables[1], name), err_msg=name)
    assert len(tables[0].rows) > 20


def weights_of_some_pairs():
    return {(0, 1): 0.0, (3, 500): 0.25, (10, 11): np.inf, (20, 21): 4.0}


def test_the_device_finds_the_pairs_of_the_processor(device):
    device()
    assert_same_table(samples(), GroupPenalty(0.5, 0.2), scale="correlation")
    assert_same_table(samples(), GroupPenalty(8.0, 0.2))
    assert_same_table(samples(), GroupPenalty(0.5, 0.2), weights_of_some_pairs(), scale="correlation")


def test_a_device_without_memory_is_left_for_the_processor(device):
    def refuse(*args, **kwargs):
        raise OutOfMemory

    device(empty=refuse)
    with pytest.warns(RuntimeWarning, match="Screening runs on the processor: the device has too little memory"):
        assert_same_table(samples(), GroupPenalty(0.5, 0.2), scale="correlation")


def test_products_of_fewer_bits_are_refused(device):
    def short(a, b, out=None):
        product = np.matmul(a, b).astype(np.float16).astype(np.float32)
        return product if out is None else np.copyto(out, product)

    device(matmul=short)
    with pytest.warns(RuntimeWarning, match="less exact than single precision"):
        assert_same_table(samples(), GroupPenalty(0.5, 0.2), scale="correlation")


def test_auto_takes_the_device_for_long_scans_only(device, monkeypatch):
    device()
    assert jgl.SampleCovariance(samples(50)).device == "cpu"
    monkeypatch.setattr("jointglasso.data.streamed._WORTH_A_DEVICE", 1.0)
    assert jgl.SampleCovariance(samples(50)).device == "cuda"
    device(cuda=types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=lambda: 0)))
    assert jgl.SampleCovariance(samples(50)).device == "cpu"


def test_what_is_missing_is_named(device):
    with pytest.raises(ValueError, match="device"):
        jgl.SampleCovariance(samples(50), device="tpu")
    device(cuda=types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=lambda: 0)))
    with pytest.raises(gpu.DeviceFailed, match='use device="cpu"'):
        jgl.SampleCovariance(samples(50), device="cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not gpu.available(), reason="no CUDA device")
def test_on_the_device_itself():
    X = samples(20_000)
    assert_same_table(X, GroupPenalty(0.6, 0.2), scale="correlation")
    assert_same_table(X, GroupPenalty(40.0, 0.2))
    assert_same_table(X, GroupPenalty(0.6, 0.2), weights_of_some_pairs(), scale="correlation")
