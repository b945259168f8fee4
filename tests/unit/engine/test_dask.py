"""A real Dask cluster of processes: the same bits, whatever happens to its workers."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso import config
from jointglasso.engine import screening
from jointglasso.engine.executors import TaskBatch, check_executor, run_tasks
from jointglasso.screening import pairs
from synthetic import make_joint_ggm
from test_executors import NEEDS, assert_takes_more, hungry, most_at_once

distributed = pytest.importorskip("distributed")

LAMBDAS = 0.4, 0.1


@pytest.fixture(scope="module")
def client():
    options = {"processes": True, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(n_workers=2, **options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def S():
    return make_joint_ggm("modules", 120, 3, n_samples=60, n_blocks=6, random_state=1).covariances


@pytest.fixture(autouse=True)
def many_pieces(monkeypatch, request):
    """Small pieces of work, so that a small problem has many; not where whole solves are done elsewhere."""
    if "X" in request.fixturenames:
        return
    monkeypatch.setattr(config, "BATCH_COST", 1000.0)


@pytest.fixture(scope="module")
def X():
    data = make_joint_ggm("modules", 20, 2, n_samples=40, n_blocks=4, random_state=1)
    return {f"class {k}": samples for k, samples in enumerate(data.samples)}


def assert_same_bits(first, second):
    assert first.objective == second.objective
    for a, b in zip(first.precision, second.precision, strict=True):
        assert np.array_equal(a.data, b.data) and np.array_equal(a.indices, b.indices)


def test_the_same_bits_from_a_cluster_and_named_tasks(client, S, monkeypatch):
    names = []
    submit = client.submit

    def interruptible(*arguments, key, **options):
        names.append(key)
        return submit(*arguments, key=key, **options)

    monkeypatch.setattr(client, "submit", interruptible)
    seen = []
    there = jgl.solve(S, *LAMBDAS, executor=client, callback=seen.append)
    assert_same_bits(jgl.solve(S, *LAMBDAS), there)
    assert seen[-1].groups_done == seen[-1].n_groups
    assert len(names) == len(set(names)) > 3
    assert {distributed.utils.key_split(name) for name in names} == {"solve_task"}


@pytest.mark.filterwarnings("ignore::jointglasso.selection.select_penalty.SelectionWarning")
def test_selection_on_a_cluster(client, X):
    options = {"criterion": "cv", "cv": 3, "random_state": 0, "grid": [(0.5, 0.1), (0.3, 0.1)]}
    here, there = (jgl.select(X, executor=executor, **options) for executor in (None, client))
    assert here.best == there.best
    assert np.array_equal(here.records["score"], there.records["score"])
    assert_same_bits(here.solution, there.solution)
    penalties = {"lambda1": 0.3, "lambda2": 0.1, "random_state": 0}
    here, there = (jgl.edge_stability(X, n_subsamples=4, executor=e, **penalties) for e in (None, client))
    assert all((a != b).nnz == 0 for a, b in zip(here.frequencies, there.frequencies, strict=True))


def files_of(samples, folder, kind):
    """The same samples as mapped arrays, datasets of h5py or zarr, or arrays of Dask."""
    kept = []
    for k, X in enumerate(samples):
        if kind == "mapped":
            np.save(folder / f"{k}.npy", X)
            kept.append(np.load(folder / f"{k}.npy", mmap_mode="r"))
        elif kind == "h5py":
            with pytest.importorskip("h5py").File(folder / f"{k}.h5", "w") as file:
                file["X"] = X
            kept.append(__import__("h5py").File(folder / f"{k}.h5", "r")["X"])
        elif kind == "zarr":
            kept.append(pytest.importorskip("zarr").create_array(str(folder / f"{k}.zarr"), data=X))
        elif kind == "dask":
            kept.append(pytest.importorskip("dask.array").from_array(X, chunks=(7, 100)))
        else:
            kept.append(X)
    return kept


@pytest.mark.parametrize("kind", ["memory", "mapped", "h5py", "zarr", "dask"])
def test_the_scan_of_samples_is_shared_out(client, kind, tmp_path, monkeypatch):
    """Wherever the samples lie the workers find the same pairs; files travel as the place where they lie."""
    samples = make_joint_ggm("modules", 1100, 2, n_samples=30, n_blocks=110, random_state=1).samples
    here = jgl.solve(jgl.SampleCovariance(samples, scale="correlation"), 0.62, 0.05)
    source = jgl.SampleCovariance(files_of(samples, tmp_path, kind), scale="correlation")
    assert (len(pickle.dumps(source)) < 100_000) == (kind in ("mapped", "h5py", "zarr"))
    monkeypatch.setattr(config, "REMOTE_SCAN_COST", 1e6)
    done = []
    monkeypatch.setattr(
        screening, "run_tasks", lambda work, executor: done.extend(work.items) or run_tasks(work, executor)
    )
    assert_same_bits(here, jgl.solve(source, 0.62, 0.05, executor=client))
    assert len(done) == 6 and sum(here.n_edges) > 100
    path = list(jgl.solve_path(source, [(0.7, 0.05), (0.62, 0.05)], executor=client))
    assert len(done) == 12 and path[1].n_edges == here.n_edges


@pytest.mark.parametrize("p", [1, 511, 512, 513, 2000])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
def test_stretches_of_tiles_are_all_tiles(p, step):
    whole = list(pairs.tiles(p))
    assert [tile for first in range(0, len(whole), step) for tile in pairs.tiles(p, first, first + step)] == whole


def test_samples_that_a_worker_cannot_find_or_finds_changed(tmp_path):
    (X,) = files_of([np.random.default_rng(0).normal(size=(9, 4))], tmp_path, "mapped")
    sent = pickle.dumps(jgl.SampleCovariance([X]))
    np.save(tmp_path / "0.npy", np.ones((9, 5)))
    with pytest.raises(ValueError, match="finds another file of samples"):
        pickle.loads(sent)
    (tmp_path / "0.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"cannot read the samples at .*: put them on storage"):
        pickle.loads(sent)


def test_a_part_of_a_mapped_array_travels_with_its_numbers(tmp_path):
    (X,) = files_of([np.random.default_rng(0).normal(size=(9, 4))], tmp_path, "mapped")
    whole, part = (pickle.loads(pickle.dumps(jgl.SampleCovariance([rows]))) for rows in (X, X[3:]))
    assert whole.sample_sizes == [9] and part.sample_sizes == [6]
    assert np.array_equal(part.tile(0, slice(4), slice(4)), jgl.SampleCovariance([X[3:]]).tile(0, slice(4), slice(4)))


def test_what_is_done_at_the_same_time_on_a_machine_fits_into_its_memory(client):
    work = TaskBatch(hungry, NEEDS, None)
    limited = run_tasks(work, check_executor(client), memory=10.0)
    assert [taken for _, _, taken in limited] == NEEDS
    assert most_at_once(limited) <= 10.0
    assert_takes_more(lambda: run_tasks(work, check_executor(client), memory=1000.0))


def wait_for_successor(client, killed):
    """Wait until the scheduler has noticed the loss of the process `killed` and its nanny has started another one."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):  # the scheduler has not noticed yet
            processes = set(client.run(os.getpid).values())
            if killed not in processes and len(processes) == 2:
                return
        time.sleep(0.1)
    pytest.fail("the killed worker was not replaced")


def slowly(item, shared, progress):
    time.sleep(0.3)
    return item + shared.sum()


def test_a_worker_killed_in_the_middle_changes_nothing(client):
    """What was shared lay on the worker, and its work was half done."""
    victims = list(client.run(os.getpid).values())
    killed = []

    def kill(number, result):
        if not killed:
            killed.append(victims[0])
            os.kill(victims[0], signal.SIGKILL)
        return result

    work = TaskBatch(slowly, list(range(8)), np.ones(1000), finish=kill)
    assert run_tasks(work, check_executor(client)) == [1000.0 + n for n in range(8)]
    assert killed
    wait_for_successor(client, killed[0])


def test_a_solve_survives_the_loss_of_a_worker(client, S):
    killed = []

    def kill(step):
        if not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    assert_same_bits(jgl.solve(S, *LAMBDAS), jgl.solve(S, *LAMBDAS, executor=client, callback=kill))
    assert killed
    wait_for_successor(client, killed[0])


def deadly(item, shared, progress):
    if os.getpid() != shared:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


@pytest.mark.slow
def test_work_that_kills_every_worker_is_done_by_the_calling_process(client):
    with distributed.Client(client.scheduler.address) as mine:
        mine.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
        try:
            with pytest.warns(RuntimeWarning, match=r"A worker process died.*KilledWorker"):
                assert run_tasks(TaskBatch(deadly, [1, 2, 3], os.getpid()), check_executor(mine)) == [1, 2, 3]
        finally:
            mine.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 3))
    client.wait_for_workers(2, timeout=300)


def replace_replication(dask_scheduler, endless):
    """Replication in which a worker has died does not end; the class has the method itself."""
    import asyncio

    if endless:
        dask_scheduler.replicate = lambda *arguments, **options: asyncio.sleep(3600)
    else:
        del dask_scheduler.replicate


def test_data_are_sent_to_every_worker_though_replication_by_the_scheduler_never_ends(client, monkeypatch):
    sent = []
    submit = client.submit
    monkeypatch.setattr(
        client,
        "submit",
        lambda *arguments, workers, **options: sent.extend(workers) or submit(*arguments, workers=workers, **options),
    )
    client.run_on_scheduler(replace_replication, endless=True)
    try:
        executor, shared, found = check_executor(client), np.ones(10), []
        thread = threading.Thread(target=lambda: found.append(executor.scatter(shared)), daemon=True)
        thread.start()
        thread.join(300)
    finally:
        client.run_on_scheduler(replace_replication, endless=False)
    assert len(found) == 1
    # Which workers hold a copy is not asserted: an idle worker may steal the task of a busy one.
    assert set(sent) == set(client.nthreads()) and client.who_has(found)[found[0].key]
    assert executor.scatter(shared) is found[0]
    client.cancel(found)
    assert executor.scatter(shared) is not found[0]  # data that were lost are sent again


def test_workers_that_die_whenever_data_are_sent_are_one_sentence(client, monkeypatch):
    executor, attempts = check_executor(client), []

    def scatter(*arguments, **options):
        attempts.append(arguments)
        raise OSError("connection refused")

    monkeypatch.setattr(client, "scatter", scatter)
    with pytest.raises(RuntimeError, match="died each time that data was sent"):
        executor.scatter(np.ones(3))
    assert len(attempts) == 3


def test_a_client_that_is_closed_is_one_sentence(client, X):
    with distributed.Client(client.scheduler.address) as closed:
        pass
    with pytest.raises(ConnectionError, match=r"distributed\.Client is closed"):
        jgl.edge_stability(X, lambda1=0.3, lambda2=0.1, executor=closed)
    mine = distributed.Client(client.scheduler.address)
    work = TaskBatch(slowly, list(range(20)), np.ones(3), finish=lambda number, result: mine.close())
    with pytest.raises(ConnectionError, match="connection to the Dask scheduler was lost"):
        run_tasks(work, check_executor(mine))


def test_two_solves_at_once_on_one_client(client, S):
    found = {}

    def solve_at(lambda1):
        found[lambda1] = jgl.solve(S, lambda1, 0.1, executor=client)

    both = [threading.Thread(target=solve_at, args=(lambda1,)) for lambda1 in (0.4, 0.35)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    for lambda1, there in found.items():
        assert_same_bits(jgl.solve(S, lambda1, 0.1), there)
    assert len(found) == 2


def other_versions(monkeypatch, client, **packages):
    """Let the workers of `client` report other versions of packages."""
    versions = client.get_versions(packages=["jointglasso", "scipy", "numba"])
    for answer in versions["workers"].values():
        answer["packages"].update(packages)
    monkeypatch.setattr(client, "get_versions", lambda packages: versions)


@pytest.mark.parametrize("installed", ["99.0", None])
def test_another_version_on_the_workers_is_refused(client, S, monkeypatch, installed):
    other_versions(monkeypatch, client, jointglasso=installed)
    with pytest.raises(RuntimeError, match=rf"has version {installed} of jointglasso, .*: install the same"):
        jgl.solve(S, *LAMBDAS, executor=client)


def test_another_numba_on_the_workers_is_a_warning(client, monkeypatch):
    other_versions(monkeypatch, client, numba="0.1")
    with pytest.warns(RuntimeWarning, match=r"has numba 0\.1 \(here .*\): last digits may differ; install the same"):
        check_executor(client)


def test_clusters_without_workers_are_refused(monkeypatch, client):
    versions = client.get_versions() | {"workers": {}}
    monkeypatch.setattr(client, "get_versions", lambda packages: versions)
    with pytest.raises(RuntimeError, match="has no worker"):
        check_executor(client)


def test_an_error_there_is_the_error_here(client):
    S = np.tile(np.eye(4), (2, 1, 1))
    S[1, :3, :3] = [[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]]
    with pytest.raises(ValueError, match="not positive semidefinite"):
        jgl.solve(S, 0.01, 0.01, executor=client)


@pytest.mark.slow
def test_a_lost_scheduler_is_one_sentence_and_the_checkpoint_holds(S, tmp_path, monkeypatch):
    """The scheduler in a process of its own, killed when two pieces of work are finished; the rest is done here."""
    file = tmp_path / "scheduler.json"
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    scheduler = subprocess.Popen([*command, "--scheduler-file", str(file)], stderr=subprocess.DEVNULL, env=here)
    worker = None

    def kill(step):
        if step.groups_done >= 2:
            scheduler.kill()

    try:
        deadline = time.monotonic() + 300
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        with distributed.Client(scheduler_file=str(file)) as client:
            worker = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--nthreads", "1"],
                stderr=subprocess.DEVNULL,
                env=here,
            )
            client.wait_for_workers(1, timeout=300)
            with pytest.raises(ConnectionError, match="connection to the Dask scheduler was lost"):
                jgl.solve(S, *LAMBDAS, executor=client, checkpoint=tmp_path / "kept", callback=kill)
    finally:
        scheduler.kill()
        scheduler.wait(300)
        if worker is not None:
            worker.kill()
            worker.wait(300)
    saved = len(list((tmp_path / "kept").glob("*.npz")))
    assert_same_bits(jgl.solve(S, *LAMBDAS), jgl.solve(S, *LAMBDAS, checkpoint=tmp_path / "kept"))
    assert 2 <= saved < len(list((tmp_path / "kept").glob("*.npz")))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    draw = np.random.default_rng(0)
    rows = ["class,a,b,c,d"]
    for n in range(60):
        common = draw.normal()
        rows.append(f"{'xy'[n % 2]}," + ",".join(f"{common + draw.normal():.6f}" for _ in range(4)))
    file = tmp_path_factory.mktemp("data") / "table.csv"
    file.write_text("\n".join(rows))
    return file


def run(*arguments):
    from click.testing import CliRunner

    from jointglasso.cli import main

    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def fit_both_ways(table, folder, *options):
    fit = "fit", table, "--label", "class", "--lambda1", 0.2, "--lambda2", 0.1, "--no-figures"
    for name, given in {"here": (), "there": options}.items():
        done = run(*fit, *given, "--out", folder / name)
        assert done.exit_code == 0, done.output
    assert_same_bits(*(jgl.load(folder / name / "solution.jgl") for name in ("here", "there")))


def test_fit_on_a_scheduler(client, table, tmp_path):
    fit_both_ways(table, tmp_path, "--scheduler", client.scheduler.address)


def test_a_scheduler_that_does_not_answer(table, tmp_path):
    nobody = run(
        "fit", table, "--label", "class", "--lambda1", 0.2, "--lambda2", 0.1, "--out", tmp_path / "out",
        "--scheduler", "nowhere://x",
    )  # fmt: skip
    assert nobody.exit_code == 2 and "No Dask scheduler answers" in nobody.output
    assert not (tmp_path / "out").exists()
