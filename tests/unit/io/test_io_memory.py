"""Small files that would take more memory than there is: little is read, and sizes are checked before."""

import bz2
import gzip
import io
import lzma
import tracemalloc
import zipfile

import numpy as np
import pytest

import jointglasso as jgl

MEGABYTE = 2**20


@pytest.fixture(autouse=True)
def warm(tmp_path):
    (tmp_path / "warm.csv").write_text("a,b\n1,2\n3,5\n")


@pytest.fixture
def free(monkeypatch):
    """Say how many bytes of memory are free."""

    def set_free(n_bytes):
        monkeypatch.setattr("jointglasso.io.opening.available_memory", lambda: n_bytes)

    return set_free


def test_arrays_that_nobody_asks_for_are_not_read(tmp_path):
    path = tmp_path / "bomb.npz"
    unused = {"big": np.zeros((12, MEGABYTE)), "long": np.full(6, "x" * MEGABYTE), "objects": np.array([None])}
    np.savez_compressed(path, X=np.ones((6, 2)), y=["u", "v"] * 3, **unused)
    assert path.stat().st_size < MEGABYTE
    jgl.io.read_table(tmp_path / "warm.csv")  # what is imported does not count
    tracemalloc.start()
    try:
        table = jgl.io.read_table(path)
        assert tracemalloc.get_traced_memory()[1] < 5 * MEGABYTE
    finally:
        tracemalloc.stop()
    assert table.classes == {"u": 3, "v": 3}


def test_a_label_among_several_arrays_is_found(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(4), y=list("uuvv"), other=list("stst"), third=[1, 2, 1, 2])
    assert jgl.io.read_table(tmp_path / "a.npz", label="other").classes == {"s": 2, "t": 2}
    assert jgl.io.read_table(tmp_path / "a.npz", subset={"third": ["1", "2"]}).classes == {"u": 2, "v": 2}
    with pytest.raises(ValueError, match=r"has no annotation 'thrid' .*similar: .third.*: correct `label`"):
        jgl.io.read_table(tmp_path / "a.npz", label="thrid")


def test_an_array_too_big_for_the_memory(tmp_path, free):
    path = tmp_path / "big.npz"
    np.savez_compressed(path, X=np.zeros((1000, 1000)))
    free(MEGABYTE)
    with pytest.raises(MemoryError, match=r"big\.npz: the array 'X' takes .* and .* GiB are free: check"):
        jgl.io.read_table(path)


def test_a_header_longer_than_the_memory_is_not_read(tmp_path, free):
    member = b"\x93NUMPY\x02\x00" + (2**31).to_bytes(4, "little") + b" " * (64 * MEGABYTE)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", member)
    path = tmp_path / "header.npz"
    path.write_bytes(out.getvalue())
    jgl.io.read_table(tmp_path / "warm.csv")  # what is imported does not count
    free(32 * MEGABYTE)
    tracemalloc.start()
    try:
        with pytest.raises(MemoryError, match=r"header\.npz: the array 'X' takes"):
            jgl.io.read_table(path)
        assert tracemalloc.get_traced_memory()[1] < 5 * MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("end, compress", [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_decompressing_ends_where_memory_does(tmp_path, free, end, compress):
    path = tmp_path / f"bomb.csv.{end}"
    path.write_bytes(compress(b"a,b\n") + 200 * compress(b"1,2\n" * (MEGABYTE // 16)))  # parts may follow one another
    assert path.stat().st_size < MEGABYTE
    free(6 * MEGABYTE)
    jgl.io.read_table(tmp_path / "warm.csv")
    tracemalloc.start()
    try:
        with pytest.raises(MemoryError, match=r"bomb\.csv\..* holds more than .* GiB once decompressed, too much"):
            jgl.io.read_table(path)
        assert tracemalloc.get_traced_memory()[1] < 40 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_a_text_bigger_than_the_memory(tmp_path, free):
    path = tmp_path / "big.csv"
    path.write_text("a,b\n" + "1,2\n" * 1000)
    free(1000)
    with pytest.raises(MemoryError, match=r"big\.csv takes"):
        jgl.io.read_table(path)


@pytest.mark.parametrize("end", ["xlsx", "parquet", "h5ad"])
def test_tables_bigger_than_the_memory(tmp_path, free, end):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / f"big.{end}"
    frame = pandas.DataFrame(np.zeros((300, 100)), columns=[f"g{i}" for i in range(100)])
    if end == "xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(path, index=False)
    elif end == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        pytest.importorskip("anndata").AnnData(frame.to_numpy()).write_h5ad(path, compression="gzip")
    free(10 * MEGABYTE)
    assert jgl.io.read_table(path, **{} if end == "h5ad" else {"samples_in": "rows"}).X.shape == (300, 100)
    free(200_000)
    with pytest.raises(MemoryError, match="GiB of memory"):
        jgl.io.read_table(path, **{} if end == "h5ad" else {"samples_in": "rows"})
