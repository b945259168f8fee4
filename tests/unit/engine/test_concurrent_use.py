"""The same bits whatever runs beside a computation: threads, forks, executors of all kinds, other work."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso import _threads, config
from jointglasso._cached_property import cached_property
from synthetic import make_joint_ggm

pytestmark = pytest.mark.filterwarnings("ignore::jointglasso.SelectionWarning", "ignore::jointglasso.InferenceWarning")


@cache
def samples():
    data = make_joint_ggm("modules", 24, 2, n_samples=60, n_blocks=4, random_state=3)
    return {"a": data.samples[0], "b": data.samples[1]}


@cache
def covariances():
    return make_joint_ggm("modules", 90, 2, n_samples=50, n_blocks=9, random_state=1).covariances


def bits(*arrays):
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


def of_solution(solution):
    return bits(*(part for Theta in solution.precision for part in (Theta.data, Theta.indices, Theta.indptr)))


def solve(**options):
    return of_solution(jgl.solve(covariances(), 0.35, 0.1, **options))


def solve_fused(**options):
    return of_solution(jgl.solve(covariances(), 0.35, 0.1, penalty="fused", **options))


def select(**options):
    chosen = jgl.select(samples(), grid=[(0.5, 0.1), (0.3, 0.1)], random_state=0, **options)
    return bits(np.asarray(chosen.records["score"])) + of_solution(chosen.solution)


def infer(**options):
    table = jgl.infer(samples(), **options).differences()
    return bits(table.select_dtypes("number").to_numpy())


WORK = {"solve": solve, "solve_fused": solve_fused, "select": select, "infer": infer}


@cache
def alone(name):
    """The result of the calling thread, nothing else running."""
    return WORK[name]()


def call(name):
    return WORK[name]()


class Immediate:
    """An executor that is only what the protocol asks for."""

    def submit(self, function, /, *arguments):
        future = Future()
        future.set_result(function(*arguments))
        return future


def in_forked_process(name):
    """Result of a child that is forked after threads and kernels have been used."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(300)  # a child that waits for a lock ends, and has no result
            os.write(writing, np.frombuffer(call(name), dtype=np.uint8).tobytes()[-4096:])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return found


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture
def many_tasks(monkeypatch):
    monkeypatch.setattr(config, "BATCH_COST", 1000.0)


@pytest.mark.usefixtures("many_tasks")
@pytest.mark.parametrize("n_jobs", [1, 2, 7, -1])
@pytest.mark.parametrize("name", ["solve", "solve_fused", "select"])
def test_any_number_of_jobs(name, n_jobs):
    assert WORK[name](n_jobs=n_jobs) == alone(name)


@pytest.mark.usefixtures("many_tasks")
@pytest.mark.parametrize(
    "kind", ["threads", "thread pool", "immediate", pytest.param("processes", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", ["solve", "solve_fused", "select"])
def test_any_executor(name, kind, request):
    with ThreadPoolExecutor(3) as threads:
        executor = {"threads": "threads", "thread pool": threads, "immediate": Immediate()}.get(kind)
        assert WORK[name](executor=executor or request.getfixturevalue("processes")) == alone(name)


@pytest.mark.parametrize("name", WORK)
def test_many_at_once_from_several_threads(name):
    expected = alone(name)
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(call, [name] * 8)) == [expected] * 8


def test_everything_at_once():
    names = [*WORK, *WORK, *WORK]
    expected = [alone(name) for name in names]
    with ThreadPoolExecutor(len(names)) as pool:
        assert list(pool.map(call, names)) == expected


@pytest.mark.parametrize("name", WORK)
def test_in_the_background_of_other_work(name):
    expected, results, multiplied = alone(name), [], threading.Event()
    matrix = np.random.default_rng(0).standard_normal((120, 120))

    def background():
        while len(results) < 3 or not multiplied.is_set():
            results.append(call(name))

    thread = threading.Thread(target=background)
    thread.start()
    while thread.is_alive():  # BLAS in this thread, whose number of threads solves change
        matrix = np.linalg.qr(matrix @ matrix)[0]
        multiplied.set()
    thread.join()
    assert all(result == expected for result in results)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("name", WORK)
def test_a_process_forked_after_use(name):
    assert in_forked_process(name) == alone(name)[-4096:]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_forked_while_another_thread_solves():
    expected, stop = alone("solve"), threading.Event()

    def background():
        while not stop.is_set():
            call("solve")

    thread = threading.Thread(target=background)
    thread.start()
    try:
        found = [in_forked_process("solve") for _ in range(3)]
    finally:
        stop.set()
        thread.join()
    assert found == [expected[-4096:]] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_forked_while_another_thread_limits_blas(monkeypatch):
    expected = alone("solve")
    monkeypatch.setattr(_threads, "_SINGLE_THREADED_ANYWAY", 0)
    with _threads._limit_lock:
        assert in_forked_process("solve") == expected[-4096:]


def test_threads_do_not_wait_for_a_property_of_another_object():
    """Nor does a forked process, in which the lock would never be released."""
    started, finish = threading.Event(), threading.Event()

    class Slow:
        @cached_property
        def value(self):
            started.set()
            assert finish.wait(300)
            return 1

    one, other = Slow(), Slow()
    threads = [threading.Thread(target=lambda part=part: part.value) for part in (one, other)]
    threads[0].start()
    assert started.wait(300)
    started.clear()
    threads[1].start()
    entered = started.wait(120)
    finish.set()
    for thread in threads:
        thread.join()
    assert entered and one.value == other.value == 1
