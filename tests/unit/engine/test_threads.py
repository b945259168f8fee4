"""Work shared out between threads: every item once, the first error, no waiting for threads that are busy."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import jointglasso as jgl
from jointglasso._threads import (
    Workers,
    _helpers,
    available_cores,
    blas_threads_for,
    map_on_cores,
    map_on_threads,
    single_threaded_blas,
)


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr("jointglasso._threads.available_cores", lambda: 2)


def test_every_item_is_done_once_and_in_its_place():
    done = []
    assert map_on_threads(lambda n: done.append(n) or n * n, range(200)) == [n * n for n in range(200)]
    assert sorted(done) == list(range(200))


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_ranges_are_run_between_their_bounds(n_threads):
    seen = []
    Workers(n_threads).run(lambda first, last, scale: seen.append((first * scale, last * scale)), [0, 3, 4, 9], 10)
    assert sorted(seen) == [(0, 30), (30, 40), (40, 90)]


def test_of_several_errors_that_of_the_first_item_is_raised():
    def fail(n):
        if n == 3:
            time.sleep(0.05)  # the later error happens first
        if n in (3, 4):
            raise ValueError(f"item {n}")
        return n

    for _ in range(5):
        with pytest.raises(ValueError, match="item 3"):
            map_on_threads(fail, range(5))


@pytest.mark.usefixtures("two_cores")
def test_no_error_of_a_helper_is_lost():
    started = threading.Event()

    def leave(n):
        if threading.current_thread() is not threading.main_thread():
            started.set()
            raise SystemExit(3)
        started.wait(300)
        return n

    with pytest.raises(SystemExit):
        Workers(2).map(leave, range(50))


def test_busy_helpers_keep_nothing_alive():
    free = threading.Event()
    for _ in range(available_cores()):
        _helpers().submit(free.wait, 10.0)
    array = np.zeros(10)
    gone = weakref.ref(array)
    assert Workers(2).map(lambda n, array=array: array[n], range(5)) == [0.0] * 5
    del array
    gc.collect()
    try:
        assert gone() is None
    finally:
        free.set()


def test_nothing_new_is_begun_after_an_error():
    begun = []

    def fail(n):
        begun.append(n)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        map_on_threads(fail, range(1000))
    assert len(begun) < 100


def test_shared_work_inside_shared_work_ends():
    inner = lambda n: sum(Workers(3).map(lambda m: m, range(n)))  # noqa: E731
    outer = [threading.Thread(target=map_on_threads, args=(inner, range(20))) for _ in range(6)]
    for thread in outer:
        thread.start()
    for thread in outer:
        thread.join(timeout=300)
    assert not any(thread.is_alive() for thread in outer)


def test_inside_shared_work_a_thread_keeps_to_itself():
    where = lambda _: threading.get_ident()  # noqa: E731
    for mine, inside in map_on_threads(lambda n: (where(n), map_on_cores(where, range(50))), range(10)):
        assert set(inside) == {mine}


@pytest.mark.usefixtures("two_cores")
def test_an_interrupt_waits_for_the_helpers():
    running = threading.Event()

    def work(n):
        if threading.current_thread() is threading.main_thread():
            running.wait(300)
            raise KeyboardInterrupt
        running.set()
        time.sleep(0.1)
        finished.append(n)

    finished = []
    with pytest.raises(KeyboardInterrupt):
        Workers(2).map(work, range(10))
    count = len(finished)
    time.sleep(0.2)
    assert len(finished) == count <= 1


def test_blas_is_held_to_one_thread_by_any_thread():
    """One that is not the first to ask is a worker of Dask: the samples are unpacked in another."""

    def threads_of_blas():
        return max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")

    seen = []

    def work():
        with single_threaded_blas():
            seen.append(threads_of_blas())
        seen.append(threads_of_blas())

    with threadpool_limits(limits=2, user_api="blas"):
        for _ in range(2):
            other = threading.Thread(target=work)
            other.start()
            other.join()
            work()
    assert seen == [1, 2] * 4


@pytest.mark.parametrize("size", [24, 59, 64, 300])
def test_blocks_that_are_not_huge_are_factored_on_one_thread(size):
    """OpenBLAS inverts a triangle of 24 rows on all cores, which takes a hundred times as long on a busy machine."""
    with threadpool_limits(limits=2, user_api="blas"), blas_threads_for(size):
        assert {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"} == {1}


def test_refits_of_a_selection_hold_blas_to_one_thread(monkeypatch):
    """Threads that wait for each other around matrices of some variables take twenty times as long beside others."""
    from jointglasso.selection import relaxed

    seen = []

    def watched(*arguments):
        libraries = threadpool_info()
        seen.append(max(library["num_threads"] for library in libraries if library["user_api"] == "blas"))
        return fit_support(*arguments)

    fit_support = relaxed.fit_support
    monkeypatch.setattr(relaxed, "fit_support", watched)
    monkeypatch.setattr("jointglasso._threads._SINGLE_THREADED_ANYWAY", 0)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 12)) + rng.standard_normal((90, 3))[:, np.arange(12) % 3]
    with threadpool_limits(limits=2, user_api="blas"):
        chosen = jgl.select(X, np.repeat(["a", "b"], 45))
        assert chosen.solution.refit is not None
    assert len(seen) > 2 and set(seen) == {1}
