"""Solutions on disk: round trips, and files that are not to be believed."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from dataclasses import astuple, replace

import numpy as np
import pytest

import jointglasso as jgl


def some_solution(names=None, **options):
    draw = np.random.default_rng(0)
    samples = {
        "a/b": draw.standard_normal((30, 12)),
        "λ": draw.standard_normal((40, 12)) + draw.standard_normal((40, 1)),
    }
    source = jgl.SampleCovariance(samples, scale="correlation", variable_names=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.ConvergenceWarning)
        return jgl.solve(source, 0.2, 0.1, **options)


@pytest.mark.parametrize("options", [{}, {"solver": "admm", "max_iter": 3}, {"weights": "sample_size", "tol": 1e-9}])
def test_round_trip(tmp_path, options):
    names = [f'g{i} "x" \u2603/<&>' for i in range(12)]
    solution = some_solution(names, **options)
    path = solution.save(tmp_path / "a.jgl")
    loaded = jgl.load(path)
    for k in range(2):
        assert (solution.precision[k] != loaded.precision[k]).nnz == 0
        assert loaded.precision[k].dtype == np.float64
        assert (solution.certified[k] != loaded.certified[k]).nnz == 0
        assert loaded.certified[k].dtype == np.bool_
    assert loaded.partition == solution.partition
    assert loaded.variable_names == tuple(names)
    assert loaded.class_names == ("a/b", "λ")
    for name in ("objective", "status", "n_iter", "timings", "solver", "screening", "methods", "parameters"):
        assert getattr(loaded, name) == getattr(solution, name), name
    assert [astuple(step) for step in loaded.history] == [astuple(step) for step in solution.history]
    assert np.array_equal(loaded.certificate.group_gaps, solution.certificate.group_gaps)
    assert loaded.certificate.relative_gap == solution.certificate.relative_gap
    assert loaded.certificate.unit == solution.certificate.unit
    assert loaded.certificate.edges_present == solution.certificate.edges_present


def test_the_same_solution_gives_the_same_bytes(tmp_path):
    solution = some_solution()
    first, second = solution.save(tmp_path / "1"), solution.save(tmp_path / "2")
    assert first.read_bytes() == second.read_bytes()


def test_a_loaded_solution_serves_as_a_warm_start(tmp_path):
    solution = some_solution()
    loaded = jgl.load(solution.save(tmp_path / "a"))
    S = np.stack([np.eye(12)] * 2)
    assert jgl.solve(S, 0.2, 0.1, warm_start=loaded).status


def test_numpy_reads_the_arrays(tmp_path):
    solution = some_solution()
    with np.load(solution.save(tmp_path / "a.npz"), allow_pickle=False) as archive:
        assert archive["labels"].shape == (2, 12)
        assert np.all(archive["0/value"][archive["0/column_start"][1:] - 1] > 0)


def test_a_sparse_solution_is_a_small_file(tmp_path):
    solution = jgl.solve(np.stack([np.eye(2000)] * 3), 0.2, 0.1)
    assert solution.save(tmp_path / "a").stat().st_size < 200_000


def rewritten(path, change):
    """The file again, with its members changed by `change(name, bytes) -> bytes | None`."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(name, content)
    path.write_bytes(out.getvalue())
    return path


def with_text(path, **values):
    with np.load(path) as archive:
        text = json.dumps({**json.loads(archive["metadata"].tobytes()), **values})
    return with_array(path, "metadata", np.frombuffer(text.encode(), dtype=np.uint8))


def with_array(path, member, array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return rewritten(path, lambda name, content: buffer.getvalue() if name == f"{member}.npy" else content)


BAD = {
    "another format": (lambda path: with_text(path, format="x"), "no solution of jointglasso"),
    "a later version": (lambda path: with_text(path, format_version=9), "format version 9"),
    "no names": (lambda path: with_text(path, variable_names=[]), "damaged"),
    "too many names": (lambda path: with_text(path, variable_names=["x"] * 13), "damaged"),
    "negative counts": (lambda path: with_text(path, n_iter=-1), "damaged"),
    "another number of entries": (lambda path: with_array(path, "0/value", np.ones(1)), "damaged"),
    "a list for a number": (lambda path: with_text(path, objective=[1]), "damaged"),
    "an unknown certificate": (lambda path: with_text(path, certificate={"x": 1}), "damaged"),
    "no text": (lambda path: rewritten(path, lambda n, c: None if n == "metadata.npy" else c), "damaged"),
    "a missing array": (lambda path: rewritten(path, lambda n, c: None if n == "labels.npy" else c), "damaged"),
    "a pickle": (
        lambda path: with_array(path, "labels", np.array([print], dtype=object), allow_pickle=True),
        "damaged",
    ),
    "another shape": (lambda path: with_array(path, "labels", np.zeros((2, 13), dtype=np.int32)), "damaged"),
    "another type": (lambda path: with_array(path, "labels", np.zeros((2, 12))), "damaged"),
    "wild columns": (lambda path: with_array(path, "0/column_start", np.zeros(13, dtype=np.int64)), "damaged"),
    "no archive": (lambda path: path.write_bytes(b"hello") and path, "damaged"),
    "nothing": (lambda path: path.write_bytes(b"") is None or path, "damaged"),
    "the first half": (
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]) and path,
        "damaged",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_in_a_sentence(tmp_path, case):
    path = some_solution().save(tmp_path / "a.jgl")
    spoil, sentence = BAD[case]
    spoil(path)
    with pytest.raises(ValueError, match=sentence):
        jgl.load(path)


def test_numbers_that_no_precision_matrix_has(tmp_path):
    solution = some_solution()
    for name, change in (
        ("0/value", lambda value: np.where(np.arange(len(value)) == 0, -1.0, value)),
        ("0/value", lambda value: np.where(np.arange(len(value)) == 1, np.nan, value)),
        ("1/row", lambda row: np.where(np.arange(len(row)) == 0, np.int32(-5), row).astype(np.int32)),
        ("1/row", lambda row: row[::-1].copy()),
    ):
        path = solution.save(tmp_path / "a.jgl")
        with np.load(path) as archive:
            array = archive[name]
        with pytest.raises(ValueError, match="damaged"):
            jgl.load(with_array(path, name, change(array)))


def half(text):
    return json.loads(f'"{text}\\ud800"')


COUNTS = {"edges_present": 0, "edges_absent": 0, "edges_undetermined": 0}
CERTIFICATE = {"objective": 1.0, "gap": 0.0, **COUNTS, "rounding": 0.0, "unit": 1.0}

#: Fields of the text with what they must not be.
TEXTS = {
    "class_names": ["a", ["a"], ["a", 1], ["a", half("b")], None],
    "variable_names": [["x"] * 11 + [half("x")], ["x"] * 11 + [None], {}],
    "objective": ["1", None, float("nan"), True],
    "certificate": [
        None,
        {},
        {**CERTIFICATE, "gap": "0"},
        {**CERTIFICATE, "gap": -1.0},
        {**CERTIFICATE, "gap": float("nan")},
        {**CERTIFICATE, "edges_present": -1},
        {**CERTIFICATE, "edges_present": 0.5},
        {**CERTIFICATE, "unit": "1"},
    ],
    "status": [
        None,
        {"converged": "yes", "reason": "", "remedy": "", "code": ""},
        {"converged": 1, "reason": "", "remedy": "", "code": ""},
        {"converged": True, "reason": 5, "remedy": "", "code": ""},
        {"converged": True, "reason": "", "remedy": "", "code": 1},
        {"converged": True, "reason": half(""), "remedy": "", "code": ""},
    ],
    "n_iter": [-1, "many"],
    "timings": [5, {"total": "long"}, {"total": -1.0}],
    "solver": [5, half("a")],
    "screening": [None],
    "methods": [{"forest": 0.5}, [1]],
    "parameters": [None, {"lambda1": "a", "lambda2": 1}, {"lambda1": -1, "lambda2": 1}, {half("a"): 1}],
}


@pytest.mark.parametrize("field, value", [(field, value) for field, values in TEXTS.items() for value in values])
def test_text_that_is_not_what_it_should_be(tmp_path, small, field, value):
    path = tmp_path / "a.jgl"
    path.write_bytes(small)
    with pytest.raises(ValueError, match="is damaged or no solution of jointglasso"):
        jgl.load(with_text(path, **{field: value}))


def test_blocks_that_cut_an_edge(tmp_path, small):
    path = tmp_path / "a.jgl"
    path.write_bytes(small)
    apart = np.arange(24, dtype=np.int32).reshape(2, 12)
    with pytest.raises(ValueError, match=r"the blocks of class . do not fit its edges"):
        jgl.load(with_array(path, "labels", apart))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The bytes of a file."""
    return some_solution().save(tmp_path_factory.mktemp("small") / "a.jgl").read_bytes()


def damaged(whole, draw):
    """One of the ways in which files go bad: bits, bytes, places where zip archives keep their numbers, lost parts."""
    spoiled = bytearray(whole)
    at = int(draw.integers(len(whole)))
    match draw.integers(6):
        case 0:
            spoiled[at] ^= 1 << int(draw.integers(8))
        case 1:
            spoiled[at] = int(draw.integers(256))
        case 2:  # the table of contents
            at = int(draw.integers(whole.index(b"PK\x01\x02"), len(whole)))
            spoiled[at] = int(draw.choice([0, 1, 127, 128, 255]))
        case 3:
            del spoiled[at : at + int(draw.integers(1, 64))]
        case 4:
            spoiled[at:at] = draw.bytes(int(draw.integers(1, 64)))
        case 5:
            length = int(draw.integers(1, 512))
            spoiled[at : at + length] = bytes(min(length, len(whole) - at))
    return bytes(spoiled)


def test_damage_is_told_in_one_sentence(tmp_path, small):
    """Every member of the archive carries a check sum: damage is told, or hits a byte without meaning."""
    path = tmp_path / "b.jgl"
    path.write_bytes(small)
    sound = jgl.load(path)
    draw = np.random.default_rng(1)
    told = 0
    for number in range(1500):
        path.write_bytes(damaged(small, draw))
        try:
            loaded = jgl.load(path)
        except ValueError as error:
            told += 1
            message = str(error)
            assert str(path) in message and message.endswith((".", "')")), (number, message)
            assert "Solution.save" in message or "format version" in message or "max_bytes" in message, message
        else:
            assert (loaded.precision[1] != sound.precision[1]).nnz == 0, number
    assert told > 1000


def test_a_folder_is_no_solution(tmp_path):
    with pytest.raises(OSError, match="cannot be read"):
        jgl.load(tmp_path)


def test_no_file_and_too_little_memory(tmp_path):
    with pytest.raises(FileNotFoundError, match="check the path"):
        jgl.load(tmp_path / "nothing.jgl")
    path = some_solution().save(tmp_path / "a.jgl")
    with pytest.raises(ValueError, match="raise max_bytes"):
        jgl.load(path, max_bytes=100)


def test_certified_entries_are_non_zero_and_symmetric():
    solution = some_solution(tol=1e-10)
    certificate = solution.certificate
    assert sum(proved.nnz for proved in solution.certified) == 2 * certificate.edges_present > 0
    for Theta, proved in zip(solution.precision, solution.certified, strict=True):
        assert (proved != proved.T).nnz == 0
        assert np.all(Theta.toarray()[proved.toarray()] != 0)
        assert not proved.diagonal().any()


def test_repr_of_a_saved_copy(tmp_path):
    solution = some_solution()
    assert repr(jgl.load(solution.save(tmp_path / "a"))) == repr(replace(solution))


def test_maximum_likelihood_values_come_back_with_the_solution(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 6)), np.repeat(["a", "b"], [77, 3])
    X[:, 1] += X[:, 0]
    source = jgl.SampleCovariance.from_labels(X, y, scale="correlation")
    solution = jgl.solve(source, 0.2, 0.02, penalize_diagonal=False)
    solution = replace(solution, refit=jgl.refit(source, solution, on_failure="ridge"))
    assert solution.refit.failures, "class b is too small for its edges"
    read = jgl.load(solution.save(tmp_path / "refitted.jgl"))
    for mine, theirs in zip(read.estimate, solution.refit.precision, strict=True):
        np.testing.assert_array_equal(mine.toarray(), theirs.toarray())
    assert read.refit.failures == solution.refit.failures
    assert read.refit.ridge == solution.refit.ridge == 0.01
    assert read.refit.relaxation == solution.refit.relaxation == (1.0, 1.0)
    np.testing.assert_array_equal(read.refit.residual, solution.refit.residual)
    np.testing.assert_array_equal(read.precision[0].toarray(), solution.precision[0].toarray())
