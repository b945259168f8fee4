"""Interrupt and resume: nothing is lost but work in flight, and nothing is believed that is not proved."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import time
import zipfile

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso import config
from jointglasso.data import fingerprint
from jointglasso.engine import checkpoint as checkpoint_module
from synthetic import make_joint_ggm

LAMBDAS = 0.45, 0.1


def module_samples(p=120, n=50, K=2, seed=0, size=12):
    draw = np.random.default_rng(seed)
    factor = draw.standard_normal((K, n, p // size)).repeat(size, axis=2)
    return [1.5 * factor[k] + draw.standard_normal((n, p)) for k in range(K)]


@pytest.fixture
def many_pieces(monkeypatch):
    """Small pieces of work, so that a small problem has many."""
    monkeypatch.setattr(config, "BATCH_COST", 3000.0)


def source_of(**options):
    return jgl.SampleCovariance(module_samples(**options), scale="correlation")


def assert_same(first, second):
    assert first.objective == pytest.approx(second.objective, rel=1e-12)
    assert second.status.converged
    for a, b in zip(first.precision, second.precision, strict=True):
        assert (a != b).nnz == 0
    assert first.partition == second.partition


def pieces(folder):
    return sorted(entry for entry in folder.iterdir() if entry.suffix == ".npz")


def test_a_second_call_reads_what_the_first_wrote(tmp_path, many_pieces, monkeypatch):
    source = source_of()
    plain = jgl.solve(source, *LAMBDAS)
    first = jgl.solve(source, *LAMBDAS, checkpoint=tmp_path / "new" / "folder")
    assert_same(plain, first)
    assert len(pieces(tmp_path / "new" / "folder")) > 5

    def refuse(self, task):
        raise AssertionError("solved again")

    monkeypatch.setattr("jointglasso.solvers.Auto.solve", refuse)
    assert_same(first, jgl.solve(source, *LAMBDAS, checkpoint=tmp_path / "new" / "folder"))


def test_results_do_not_depend_on_jobs(tmp_path, many_pieces):
    source = source_of()
    first = jgl.solve(source, *LAMBDAS, checkpoint=tmp_path, n_jobs=2)
    n_files = len(pieces(tmp_path))
    assert_same(first, jgl.solve(source, *LAMBDAS, checkpoint=tmp_path))
    assert len(pieces(tmp_path)) == n_files


def test_interrupted_solve_goes_on(tmp_path, many_pieces):
    source = source_of()
    whole = jgl.solve(source, *LAMBDAS)
    seen = []

    def stop(iteration):
        seen.append(iteration)
        if iteration.groups_done > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jgl.solve(source, *LAMBDAS, checkpoint=tmp_path, callback=stop)
    assert 0 < len(pieces(tmp_path)) < whole.partition.class_blocks.n_groups
    assert_same(whole, jgl.solve(source, *LAMBDAS, checkpoint=tmp_path))


def test_damaged_files_are_computed_again(tmp_path, many_pieces):
    source = source_of()
    whole = jgl.solve(source, *LAMBDAS, checkpoint=tmp_path)
    files = pieces(tmp_path)
    content = [path.read_bytes() for path in files]
    files[0].write_bytes(b"")
    files[1].write_bytes(content[1][: len(content[1]) // 2])
    files[2].write_bytes(bytes(byte ^ 0xFF for byte in content[2]))
    files[3].unlink()
    spoiled = bytearray(content[5])
    spoiled[len(spoiled) // 3] ^= 1
    files[5].write_bytes(bytes(spoiled))
    assert_same(whole, jgl.solve(source, *LAMBDAS, checkpoint=tmp_path))
    assert [path.read_bytes() for path in pieces(tmp_path)] == content


def test_a_sound_file_of_another_piece_is_at_most_a_start(tmp_path, many_pieces):
    source = source_of()
    whole = jgl.solve(source, *LAMBDAS, checkpoint=tmp_path)
    files = pieces(tmp_path)
    for path, other in zip(files, [path.read_bytes() for path in (*files[1:], files[0])], strict=True):
        path.write_bytes(other)
    again = jgl.solve(source, *LAMBDAS, checkpoint=tmp_path)
    assert again.status.converged
    assert again.objective == pytest.approx(whole.objective, rel=2e-6)


@pytest.mark.parametrize("spoil", [0.0, -1.0, 5.0, np.nan])
def test_wrong_numbers_in_a_sound_file_cannot_be_passed_off_as_solved(tmp_path, spoil):
    source = source_of(p=24)
    whole = jgl.solve(source, *LAMBDAS, checkpoint=tmp_path)
    for path in pieces(tmp_path):
        with np.load(path) as archive:
            arrays = dict(archive)
        arrays["value"] = arrays["value"] * spoil
        np.savez(path, **arrays)
    again = jgl.solve(source, *LAMBDAS, checkpoint=tmp_path)
    assert again.status.converged
    assert again.objective == pytest.approx(whole.objective, rel=2e-6)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"lambda1": 0.46}, "lambda1 is 0.45 there and 0.46 here"),
        ({"lambda2": 0.2}, "lambda2 is 0.1 there and 0.2 here"),
        ({"weights": [1, 2]}, "weights is"),
        ({"penalize_diagonal": False}, "penalize_diagonal is True there"),
        ({"seed": 1}, "the data differ"),
        ({"p": 36}, "n_variables is 24 there and 36 here"),
        ({"pair_weights": {(0, 1): 2.0}}, "pair_weights is None there"),
    ],
)
def test_a_folder_of_another_problem_is_refused(tmp_path, change, sentence):
    jgl.solve(source_of(p=24), *LAMBDAS, checkpoint=tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    data = {"p": 24, **{name: change.pop(name) for name in ("seed", "p") if name in change}}
    lambdas = [change.pop("lambda1", LAMBDAS[0]), change.pop("lambda2", LAMBDAS[1])]
    with pytest.raises(ValueError, match=sentence) as caught:
        jgl.solve(source_of(**data), *lambdas, checkpoint=tmp_path, **change)
    assert "belongs to another problem" in str(caught.value)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_other_pair_weights_are_another_problem(tmp_path):
    source = source_of(p=24)
    jgl.solve(source, *LAMBDAS, checkpoint=tmp_path, pair_weights={(0, 1): 2.0, (2, 3): np.inf})
    jgl.solve(source, *LAMBDAS, checkpoint=tmp_path, pair_weights={(2, 3): np.inf, (0, 1): 2.0})
    for other in ({(0, 1): 2.5, (2, 3): np.inf}, {(0, 2): 2.0, (2, 3): np.inf}, {(0, 1): 2.0}, None):
        with pytest.raises(ValueError, match="pair_weights is"):
            jgl.solve(source, *LAMBDAS, checkpoint=tmp_path, pair_weights=other)


def test_another_penalty_is_another_problem(tmp_path):
    from dataclasses import dataclass, replace

    from jointglasso.penalties import GroupPenalty
    from jointglasso.problem import make_problem

    @dataclass(frozen=True)
    class Tied(GroupPenalty):
        class_graph: object = None

    problem = make_problem(source_of(p=24), *LAMBDAS)
    graph = np.ones((2, 2))
    checkpoint_module.Checkpoint(tmp_path, replace(problem, penalty=Tied(*LAMBDAS, graph)))
    checkpoint_module.Checkpoint(tmp_path, replace(problem, penalty=Tied(*LAMBDAS, graph.copy())))
    with pytest.raises(ValueError, match="class_graph is"):
        checkpoint_module.Checkpoint(tmp_path, replace(problem, penalty=Tied(*LAMBDAS, 2 * graph)))
    with pytest.raises(ValueError, match="penalty is 'Tied' there and 'GroupPenalty' here"):
        checkpoint_module.Checkpoint(tmp_path, problem)


def crafted(arrays, compression=zipfile.ZIP_STORED):
    """An archive of members given as bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, member in arrays.items():
            archive.writestr(f"{name}.npy", member)
    return content.getvalue()


def npy(header, numbers=b""):
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + numbers


def array_bytes(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def promise(shape, dtype="<f8"):
    return npy(f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}")


CRAFTED = {
    "a thousand gigabytes": promise("(125000000000,)"),
    "more than can be counted": promise("(9223372036854775808,)"),
    "a number that overflows": promise("(" + "9" * 60 + ",)"),
    "words of a gigabyte": promise("(1,)", "<U268435456"),
    "nested beyond measure": npy("(" * 110),
    "deep": npy("-" * 110 + "1"),
    "no numbers": array_bytes(np.array([None])),
    "infinite": array_bytes(np.array(np.inf)),
    "two-dimensional": array_bytes(np.ones((3, 3))),
    "negative shape": promise("(-5,)"),
}


@pytest.mark.parametrize("member", checkpoint_module._MEMBERS)
@pytest.mark.parametrize("craft", CRAFTED)
def test_crafted_files_count_as_not_there(tmp_path, craft, member):
    source = source_of(p=24)
    whole = jgl.solve(source, *LAMBDAS, checkpoint=tmp_path)
    with np.load(pieces(tmp_path)[0]) as archive:
        sound = {name: array_bytes(archive[name]) for name in archive.files}
    for path in pieces(tmp_path):
        path.write_bytes(crafted({**sound, member: CRAFTED[craft]}))
    assert_same(whole, jgl.solve(source, *LAMBDAS, checkpoint=tmp_path))


def test_a_bomb_is_not_unpacked(tmp_path):
    source = source_of(p=24)
    whole = jgl.solve(source, *LAMBDAS, checkpoint=tmp_path)
    huge = array_bytes(np.zeros(10**6))
    for path in pieces(tmp_path):
        path.write_bytes(crafted(dict.fromkeys(checkpoint_module._MEMBERS, huge), zipfile.ZIP_DEFLATED))
    assert checkpoint_module._read(pieces(tmp_path)[0]) is None
    assert_same(whole, jgl.solve(source, *LAMBDAS, checkpoint=tmp_path))


@pytest.mark.parametrize("text", ["[" * 100_000, "{" + '"a":' * 5, "1" * 10_000, '"' + "x" * 2**21 + '"', "\xff"])
def test_crafted_manifests_are_one_sentence(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match="is no manifest of a checkpoint: give checkpoint= an empty or new folder"):
        jgl.solve(source_of(p=24), *LAMBDAS, checkpoint=tmp_path)


def test_a_manifest_with_endless_fields_gives_a_short_sentence(tmp_path):
    jgl.solve(source_of(p=24), *LAMBDAS, checkpoint=tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "weights": [1] * 10_000}))
    with pytest.raises(ValueError, match="weights is") as caught:
        jgl.solve(source_of(p=24), *LAMBDAS, checkpoint=tmp_path)
    assert len(str(caught.value)) < 500


def test_another_tolerance_or_solver_is_the_same_problem(tmp_path):
    source = source_of(p=24)
    jgl.solve(source, *LAMBDAS, checkpoint=tmp_path, tol=1e-3)
    sharp = jgl.solve(source, *LAMBDAS, checkpoint=tmp_path, tol=1e-10)
    assert sharp.certificate.relative_gap <= 1e-10
    assert jgl.solve(source, *LAMBDAS, checkpoint=tmp_path, solver="admm").status.converged


def test_folders_that_are_no_checkpoint(tmp_path):
    source = source_of(p=24)
    Path = type(tmp_path)
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds other files"):
        jgl.solve(source, *LAMBDAS, checkpoint=tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(OSError, match="cannot be used as a folder"):
        jgl.solve(source, *LAMBDAS, checkpoint=Path(tmp_path / "thesis.txt"))
    other = tmp_path / "other"
    other.mkdir()
    for text in ("[1, 2]", "{", json.dumps({"format": "x"})):
        (other / "manifest.json").write_text(text)
        with pytest.raises(ValueError, match="no manifest of a checkpoint"):
            jgl.solve(source, *LAMBDAS, checkpoint=other)


def test_full_disk_is_a_warning_and_keeps_what_is_there(tmp_path, many_pieces, monkeypatch):
    source = source_of()
    written = []
    real = os.fsync

    def fsync(descriptor):
        written.append(descriptor)
        if len(written) > 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.warns(RuntimeWarning, match="the disk is full.*The solve goes on") as caught:
        solved = jgl.solve(source, *LAMBDAS, checkpoint=tmp_path)
    assert len(caught) == 1 and str(tmp_path) in str(caught[0].message)
    monkeypatch.setattr(os, "fsync", real)
    assert_same(jgl.solve(source, *LAMBDAS), solved)
    kept = {path: path.read_bytes() for path in pieces(tmp_path)}
    assert kept
    assert not [entry for entry in tmp_path.iterdir() if entry.suffix == ".tmp"]
    assert_same(solved, jgl.solve(source, *LAMBDAS, checkpoint=tmp_path))
    assert all(path.read_bytes() == content for path, content in kept.items())


def test_a_checkpoint_that_cannot_be_begun_is_an_error_at_once(tmp_path, monkeypatch):
    def fsync(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="the disk is full"):
        jgl.solve(source_of(p=24), *LAMBDAS, checkpoint=tmp_path)


def common_factor(p=60, n=80):
    draw = np.random.default_rng(0)
    X = [draw.standard_normal((n, p)) + 1.2 * draw.standard_normal((n, 1)) for _ in range(2)]
    return jgl.SampleCovariance(X, scale="correlation")


class Killed(Exception):
    """As good as a kill: nothing is written after it."""


@pytest.mark.parametrize(
    ("solver", "method"),
    [
        ("auto", "columns, newton"),
        ("admm", "admm"),
        (jgl.ADMM(stopping="paper"), "admm"),
        ("proximal_gradient", "proximal_gradient"),
        ("newton", "newton"),
    ],
    ids=["auto", "admm", "paper's rule", "proximal gradient", "newton"],
)
def test_every_iterative_method_leaves_snapshots_to_go_on_from(tmp_path, monkeypatch, solver, method):
    monkeypatch.setattr(checkpoint_module, "SNAPSHOT_SECONDS", 0.0)
    source, lambdas = common_factor(), (0.2, 0.1) if solver == "proximal_gradient" else (0.05, 0.02)
    whole = jgl.solve(source, *lambdas, solver=solver)
    assert set(whole.methods) == {method}, whole.methods
    written = []
    real = checkpoint_module._write

    def write(path, *content):
        real(path, *content)
        written.append(path)
        if len(written) > whole.n_iter // 2:
            raise Killed

    monkeypatch.setattr(checkpoint_module, "_write", write)
    with pytest.raises(Killed):
        jgl.solve(source, *lambdas, solver=solver, checkpoint=tmp_path)
    assert [path.name.endswith(".unfinished.npz") for path in pieces(tmp_path)] == [True]
    monkeypatch.setattr(checkpoint_module, "_write", real)
    resumed = jgl.solve(source, *lambdas, solver=solver, checkpoint=tmp_path)
    assert resumed.status.converged == whole.status.converged
    # ADMM computes another step parameter from a warm start, so that its number of iterations may be the same.
    assert resumed.n_iter < whole.n_iter + (solver == "admm")
    assert resumed.objective == pytest.approx(whole.objective, rel=2e-6)


def test_batches_of_groups_leave_snapshots_as_well(tmp_path, monkeypatch):
    """Several groups are solved by ADMM, all together, in one piece of work."""
    monkeypatch.setattr(checkpoint_module, "SNAPSHOT_SECONDS", 0.0)
    draw = np.random.default_rng(0)
    X = [np.hstack([draw.standard_normal((400, 40)) + 1.5 * draw.standard_normal((400, 1)) for _ in range(3)])]
    source, lambdas = jgl.SampleCovariance(X, scale="correlation"), (0.3, 0.0)
    whole = jgl.solve(source, *lambdas, solver="admm")
    assert whole.methods == {"admm": 3}
    written = []
    real = checkpoint_module._write

    def write(path, *content):
        real(path, *content)
        written.append(path)
        if len(written) >= whole.n_iter - 3:  # after a gap check that improves on the start
            raise Killed

    monkeypatch.setattr(checkpoint_module, "_write", write)
    with pytest.raises(Killed):
        jgl.solve(source, *lambdas, solver="admm", checkpoint=tmp_path, n_jobs=1)
    monkeypatch.setattr(checkpoint_module, "_write", real)
    saved = checkpoint_module._read(pieces(tmp_path)[0])
    assert len(saved.nonzeros.value) > 100
    resumed = jgl.solve(source, *lambdas, solver="admm", checkpoint=tmp_path)
    assert resumed.status.converged
    assert resumed.objective == pytest.approx(whole.objective, rel=2e-6)


def test_big_groups_leave_snapshots_to_go_on_from(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_module, "SNAPSHOT_SECONDS", 0.0)
    draw = np.random.default_rng(0)
    X = [draw.standard_normal((80, 100)) + 0.7 * draw.standard_normal((80, 1)) for _ in range(2)]
    source = jgl.SampleCovariance(X, scale="correlation")
    whole = jgl.solve(source, 0.2, 0.05, tol=1e-8, solver="newton")

    def stop(iteration):
        if iteration.number > 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jgl.solve(source, 0.2, 0.05, tol=1e-8, solver="newton", checkpoint=tmp_path, callback=stop)
    assert [path.name.endswith(".unfinished.npz") for path in pieces(tmp_path)] == [True]
    resumed = jgl.solve(source, 0.2, 0.05, tol=1e-8, solver="newton", checkpoint=tmp_path)
    assert resumed.status.converged
    assert resumed.objective == pytest.approx(whole.objective, rel=2e-8)
    assert resumed.n_iter < whole.n_iter
    assert [path.name.endswith(".unfinished.npz") for path in pieces(tmp_path)] == [False]


def test_dynamic_screening_in_several_rounds(tmp_path):
    """Merged groups are pieces of their own; the rounds are gone through again from the files."""
    S = make_joint_ggm("C", p=80, n_classes=3, random_state=3, output="covariances").covariances
    for lambdas in ((0.02, 0.002), (0.005, 0.002)):
        folder = tmp_path / str(lambdas[0])
        whole = jgl.solve(S, *lambdas, checkpoint=folder)
        assert_same(whole, jgl.solve(S, *lambdas, checkpoint=folder))


def test_fingerprints():
    samples = module_samples(p=24)
    S = jgl.DenseCovariance([np.cov(X.T) for X in samples])
    nearly = [np.cov(X.T) for X in samples]
    nearly[1][3, 4] = nearly[1][4, 3] = np.nextafter(nearly[1][3, 4], 1)
    renamed = jgl.DenseCovariance([np.cov(X.T) for X in samples], variable_names=[f"g{i}" for i in range(24)])
    assert fingerprint(S) == fingerprint(jgl.DenseCovariance([np.cov(X.T) for X in samples]))
    others = [jgl.DenseCovariance(nearly), renamed, source_of(p=24), jgl.SampleCovariance(samples)]
    assert len({fingerprint(source) for source in (S, *others)}) == 5


class OnlyTheContract(jgl.CovarianceSource):
    """A source of a user, with nothing but what the base class requires."""

    def __init__(self, source):
        super().__init__(source.class_names, source.variable_names, source.sample_sizes)
        self._source = source

    def entries(self, k, rows, columns):
        return self._source.entries(k, rows, columns)


def test_any_source_has_a_fingerprint(tmp_path):
    source = OnlyTheContract(source_of(p=24))
    first = jgl.solve(source, *LAMBDAS, checkpoint=tmp_path)
    assert_same(first, jgl.solve(source, *LAMBDAS, checkpoint=tmp_path))
    with pytest.raises(ValueError, match="the data differ"):
        jgl.solve(OnlyTheContract(source_of(p=24, seed=5)), *LAMBDAS, checkpoint=tmp_path)


def solve_and_be_killed(source, folder, seconds):
    """Run a solve in a child process and kill -9 it after a while; whether it had finished before."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            jgl.solve(source, *LAMBDAS, checkpoint=folder)
            code = 0
        finally:
            os._exit(code)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_kill_at_random_moments(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "BATCH_COST", 1.0)  # every group a piece of its own
    source = source_of(p=600)
    began = time.perf_counter()
    whole = jgl.solve(source, *LAMBDAS, checkpoint=tmp_path / "whole")
    usual = time.perf_counter() - began
    draw = np.random.default_rng(0)
    folder, counts, finished = tmp_path / "killed", [], False
    for _ in range(12):
        finished = solve_and_be_killed(source, folder, draw.uniform(0.0, 0.5 * usual)) or finished
        counts.append(len(pieces(folder)) if folder.exists() else 0)
    assert counts == sorted(counts), "a finished piece was lost"
    resumed = jgl.solve(source, *LAMBDAS, checkpoint=folder)
    assert_same(whole, resumed)
    assert {path.name: path.read_bytes() for path in pieces(folder)} == {
        path.name: path.read_bytes() for path in pieces(tmp_path / "whole")
    }


def test_groups_sharpened_one_by_one_beside_a_checkpoint(tmp_path, monkeypatch):
    """What is kept of the sharpening of one group must not be taken for a snapshot of its whole batch."""
    monkeypatch.setattr(checkpoint_module, "SNAPSHOT_SECONDS", 0.0)
    data = make_joint_ggm("C", 600, 6, n_blocks=6, output="covariances", random_state=0)
    lambdas = 0.0082 * np.sqrt(1000 / 600), 0.0015 * np.sqrt(1000 / 600)
    plain = jgl.solve(data.covariances, *lambdas, tol=1e-8)
    kept = jgl.solve(data.covariances, *lambdas, tol=1e-8, checkpoint=tmp_path / "folder")
    assert kept.status and kept.objective == pytest.approx(plain.objective, rel=1e-8)
