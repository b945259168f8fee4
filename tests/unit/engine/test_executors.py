"""Work as a value: the same bits wherever it is done, and everything a user holds in hand still there."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
import tracemalloc
import warnings
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from threading import Condition
from types import SimpleNamespace

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso import config
from jointglasso._memory import MemoryShareExceeded, memory_share
from jointglasso.engine.executors import TaskBatch, run_tasks
from jointglasso.engine.options import RunnerOptions, choose_method
from jointglasso.engine.progress import Control
from jointglasso.engine.runner import GroupRunner
from jointglasso.engine.screening import Screen
from jointglasso.engine.solve_task import solve_task
from jointglasso.engine.tasks import BlockCovariance, WarmStart, subset_for
from jointglasso.problem import make_problem
from synthetic import make_joint_ggm

LAMBDAS = 0.4, 0.1


@pytest.fixture(scope="module")
def S():
    return make_joint_ggm("modules", 120, 3, n_samples=60, n_blocks=6, random_state=1).covariances


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture(autouse=True)
def many_pieces(monkeypatch, request):
    """Small pieces of work, so that a small problem has many; not where whole solves are done elsewhere."""
    if "X" in request.fixturenames:
        return
    monkeypatch.setattr(config, "BATCH_COST", 1000.0)


class ByHand:
    """An executor that pickles what it gets and what it gives, and does the work at once."""

    def __init__(self):
        self.sizes = []

    def submit(self, function, *arguments):
        sent = pickle.dumps((function, arguments))
        self.sizes.append(len(sent))
        future = Future()
        try:
            function, arguments = pickle.loads(sent)
            future.set_result(pickle.loads(pickle.dumps(function(*arguments))))
        except Exception as error:
            future.set_exception(error)
        return future


class OneByOne(ThreadPoolExecutor):
    """An executor that takes its time, so that there is something left to stop."""

    def __init__(self):
        super().__init__(1)

    def submit(self, function, *arguments):
        return super().submit(self._later, function, *arguments)

    @staticmethod
    def _later(function, *arguments):
        time.sleep(0.05)
        return function(*arguments)


def assert_same_bits(first, second):
    assert first.objective == second.objective
    assert first.certificate.gap == second.certificate.gap
    assert first.certificate.edges_present == second.certificate.edges_present
    assert first.partition == second.partition
    for a, b in zip((*first.precision, *first.certified), (*second.precision, *second.certified), strict=True):
        assert np.array_equal(a.data, b.data) and np.array_equal(a.indices, b.indices)


def runner_of(S, lambdas=LAMBDAS, start=None, **problem):
    joint = make_problem(S, *lambdas, **problem)
    screen = Screen(joint, "dynamic")
    options = RunnerOptions(choose_method("auto"), "dynamic", 1e-6, 100, None, Control(None, return_on_interrupt=False))
    return GroupRunner(joint, screen.partition.class_blocks, 0.0, options, screen, start)


@pytest.mark.parametrize("extra", ["plain", "pair weights", "warm start"])
def test_a_piece_of_work_is_the_same_narrowed_and_pickled_both_ways(S, extra):
    weights, start = None, None
    if extra == "pair weights":
        weights = jgl.PairWeights([0, 3, 7], [1, 5, 100], [0.5, np.inf, 2.0], S.shape[1])
    if extra == "warm start":
        start = WarmStart(jgl.solve(S, 0.32, 0.1).precision, trusted=True)
    runner = runner_of(S, start=start, pair_weights=weights)
    assert len(runner.items) > 3
    for item in runner.items:
        here = solve_task(item, runner.shared)
        sent = pickle.dumps((replace(item, keep_blocks=False), subset_for(item, runner.shared)))
        there = pickle.loads(pickle.dumps(solve_task(*pickle.loads(sent))))
        assert np.array_equal(here.objective, there.objective) and np.array_equal(here.gap, there.gap)
        assert np.array_equal(here.nonzeros.value, there.nonzeros.value)
        assert np.array_equal(here.nonzeros.row, there.nonzeros.row)
        assert there.cached_blocks is None and there.seconds >= there.build_seconds > 0.0


def test_no_more_than_the_blocks_travels(S):
    executor = ByHand()
    jgl.solve(S, *LAMBDAS, executor=executor)
    assert len(executor.sizes) > 3
    assert max(executor.sizes) < S.nbytes / 10


def test_of_what_is_cut_out_only_the_blocks_are_known(S):
    source = jgl.DenseCovariance(S, variable_names=[f"g{i}" for i in range(S.shape[1])])
    blocks = runner_of(source).items[0].blocks
    cut = BlockCovariance(source, blocks)
    k, members = blocks.block_class[0], blocks.members[blocks.start[0] : blocks.start[1]]
    assert np.array_equal(cut.block(k, members), S[k][np.ix_(members, members)])
    assert np.array_equal(cut.diagonal(k)[members], np.diagonal(S[k])[members])
    assert cut.variable_names[members[0]] == f"g{members[0]}"
    outside = np.setdiff1d(np.arange(S.shape[1]), blocks.members)[:1]
    with pytest.raises(IndexError, match="between blocks"):
        cut.entries(k, members[:1], outside)
    i, j = np.minimum(members[:1], outside), np.maximum(members[:1], outside)
    more = BlockCovariance(source, blocks, i, j)
    for first, second in ((i, j), (j, i)):
        assert more.entries(k, first, second) == S[k][first, second]
    with pytest.raises(IndexError, match="between blocks"):
        more.entries(k, members[1:2], outside)


def test_a_batch_with_waiting_pairs_stays_small():
    """What the check of the cuts needs are pairs, not everything between all the variables of a batch."""
    S = make_joint_ggm("C", p=400, n_classes=3, n_blocks=40, random_state=3, output="covariances").covariances
    executor = ByHand()
    here, there = jgl.solve(S, 0.02, 0.002), jgl.solve(S, 0.02, 0.002, executor=executor)
    assert_same_bits(here, there)
    assert max(executor.sizes) < S.nbytes / 4


@pytest.mark.parametrize("screening", ["dynamic", "hybrid"])
@pytest.mark.parametrize("solver", ["auto", "newton", "proximal_gradient", "admm"])
def test_the_same_bits_by_hand(S, screening, solver):
    options = {"screening": screening, "solver": solver}
    assert_same_bits(jgl.solve(S, *LAMBDAS, **options), jgl.solve(S, *LAMBDAS, executor=ByHand(), **options))


def test_the_same_bits_from_processes_and_any_number_of_threads(S, pool):
    here = jgl.solve(S, *LAMBDAS, executor="threads")
    assert_same_bits(here, jgl.solve(S, *LAMBDAS, executor=pool))
    assert_same_bits(here, jgl.solve(S, *LAMBDAS, n_jobs=2))
    assert_same_bits(here, jgl.solve(S, *LAMBDAS, n_jobs=1000))


def test_several_rounds_of_a_dynamic_screen(pool):
    S = make_joint_ggm("C", p=80, n_classes=3, random_state=3, output="covariances").covariances
    assert_same_bits(jgl.solve(S, 0.005, 0.002), jgl.solve(S, 0.005, 0.002, executor=pool))


def test_a_path_in_processes(S, pool):
    points = [(0.4, 0.1), (0.3, 0.1), (0.25, 0.05)]
    for here, there in zip(jgl.solve_path(S, points), jgl.solve_path(S, points, executor=pool), strict=True):
        assert_same_bits(here, there)


def test_history_and_callback_hear_of_every_iteration(S, pool):
    heard = []
    there = jgl.solve(S, *LAMBDAS, executor=pool, solver="proximal_gradient", callback=lambda step: heard.append(step))
    assert [step.number for step in there.history] == list(range(1, len(there.history) + 1))
    assert len(there.history) >= there.n_iter > 1
    assert heard[-1].groups_done == heard[-1].n_groups == there.partition.class_blocks.n_groups


@pytest.mark.parametrize("where", [{}, {"n_jobs": 2}, {"executor": OneByOne()}], ids=["here", "threads", "elsewhere"])
def test_a_callback_can_stop_it(S, where):
    best = jgl.solve(S, *LAMBDAS, tol=1e-9).objective
    with pytest.warns(jgl.ConvergenceWarning, match="Stopped by callback"):
        stopped = jgl.solve(S, *LAMBDAS, callback=lambda step: True, tol=1e-12, **where)
    assert stopped.certificate.gap >= stopped.objective - best
    assert np.isfinite(stopped.certificate.gap)
    assert stopped.methods["unsolved"] >= 1


def test_interrupt_and_checkpoint(S, pool, tmp_path):
    def stop(step):
        if step.groups_done > 3:
            raise KeyboardInterrupt

    whole = jgl.solve(S, *LAMBDAS)
    with pytest.raises(KeyboardInterrupt):
        jgl.solve(S, *LAMBDAS, executor=pool, callback=stop, checkpoint=tmp_path)
    assert len(list(tmp_path.glob("*.npz"))) >= 1
    executor = ByHand()
    assert_same_bits(whole, jgl.solve(S, *LAMBDAS, executor=executor, checkpoint=tmp_path))
    assert_same_bits(whole, jgl.solve(S, *LAMBDAS, executor=pool, checkpoint=tmp_path))


def test_ctrl_c_returns_what_there_is(S):
    pressed = []

    def press_ctrl_c(step):
        if not pressed:
            pressed.append(step)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)  # this is a worker; the main thread handles the signal

    options = {"executor": OneByOne(), "callback": press_ctrl_c, "tol": 1e-12}
    with pytest.warns(jgl.ConvergenceWarning, match="interrupt"):
        partial = jgl.solve(S, *LAMBDAS, on_interrupt="return", **options)
    assert np.isfinite(partial.certificate.gap) and partial.methods["unsolved"] >= 1
    pressed.clear()
    with pytest.raises(KeyboardInterrupt):
        jgl.solve(S, *LAMBDAS, **options)


def warn_and_double(item, shared, progress):
    warnings.warn(f"item {item} is odd", UserWarning, stacklevel=2)
    progress("heard", item)
    return shared * item


def fail(item, shared, progress):
    raise ValueError(f"item {item} cannot be done")


@pytest.mark.parametrize("executor", [None, "processes"])
def test_values_news_and_warnings_come_back(pool, executor):
    heard, finished = [], []
    work = TaskBatch(
        warn_and_double,
        [1, 2, 3],
        2,
        progress=lambda number, *news: bool(news and heard.append((number, *news))),
        finish=lambda number, result: finished.append((number, result)) or result + 1,
    )
    with pytest.warns(UserWarning, match="is odd") as caught:
        assert run_tasks(work, pool if executor else None) == [3, 5, 7]
    assert len(caught) == 3
    assert sorted(heard) == [(0, "heard", 1), (1, "heard", 2), (2, "heard", 3)]
    assert sorted(finished) == [(0, 2), (1, 4), (2, 6)]


def multiply(item, shared, progress):
    if item == shared:
        raise ValueError(f"item {item} cannot be done")
    return 10 * item


@pytest.mark.parametrize("where", ["here", "threads", "processes"])
def test_work_that_leads_to_more_work(pool, where):
    """Each item is followed by the one below it; a thread without work waits for what others may add."""
    items = [3, 6]
    how = {"executor": pool} if where == "processes" else {"n_jobs": 4 if where == "threads" else 1}

    def follow(number, result):
        if items[number] > 1:
            items.append(items[number] - 1)
        return result

    assert run_tasks(TaskBatch(multiply, items, None, finish=follow), **how) == [10 * item for item in items]
    assert sorted(items) == [1, 1, 2, 2, 3, 3, 4, 5, 6]
    items[:] = [3, 6]
    with pytest.raises(ValueError, match="item 2 cannot be done"):
        run_tasks(TaskBatch(multiply, items, 2, finish=follow), **how)


def test_lower_ranks_are_done_first():
    order = []
    work = TaskBatch(multiply, [5, 1, 3, 1], None, rank=float, finish=lambda number, _: order.append(number))
    run_tasks(work)
    assert order == [1, 3, 2, 0]


def test_errors_come_back_and_give_up_is_called(pool):
    gave_up = []
    with pytest.raises(ValueError, match="item 1 cannot be done"):
        run_tasks(TaskBatch(fail, [1], None, give_up=lambda: gave_up.append(True)), pool)
    assert gave_up


def die_elsewhere(item, shared, progress):
    """Kills its process, unless it is the calling one."""
    if item == 2 and os.getpid() != shared:
        os._exit(1)
    return 10 * item


def test_a_dead_worker_changes_nothing():
    items, finished = [1, 2, 3, 4, 5], []
    with (
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as doomed,
        pytest.warns(RuntimeWarning, match="A worker process died.*run in the calling process"),
    ):
        batch = TaskBatch(die_elsewhere, items, os.getpid(), finish=lambda n, r: finished.append(n) or r)
        assert run_tasks(batch, doomed) == [10, 20, 30, 40, 50]
    assert sorted(finished) == [0, 1, 2, 3, 4]


def fail_to_begin():
    raise OSError("no")


def test_threads_that_cannot_begin_change_nothing():
    with (
        ThreadPoolExecutor(1, initializer=fail_to_begin) as broken,
        pytest.warns(RuntimeWarning, match="A worker process died"),
    ):
        assert run_tasks(TaskBatch(die_elsewhere, [1, 2], os.getpid()), broken) == [10, 20]


def kill_worker(item, shared, progress):
    if item.number == 1 and multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return solve_task(item, shared, progress)


def test_a_solve_survives_the_death_of_a_worker(S, monkeypatch):
    here = jgl.solve(S, *LAMBDAS)
    monkeypatch.setattr("jointglasso.engine.runner.solve_task", kill_worker)
    with (
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as doomed,
        pytest.warns(RuntimeWarning, match="A worker process died"),
    ):
        assert_same_bits(here, jgl.solve(S, *LAMBDAS, executor=doomed))


@pytest.mark.parametrize("when", ["before", "in the middle"])
def test_an_executor_that_was_shut_down_is_one_sentence(when):
    executor = ThreadPoolExecutor(1)
    if when == "before":
        executor.shutdown()
    work = TaskBatch(
        wait_a_while, [0.05] * 9, None,
        finish=lambda number, result: executor.shutdown(wait=False, cancel_futures=True),
    )  # fmt: skip
    with pytest.raises(RuntimeError, match=r"The executor was shut down: make another one"):
        run_tasks(work, executor)


def test_bad_input_is_found_by_a_worker(pool):
    S = np.tile(np.eye(4), (2, 1, 1))
    S[1, :3, :3] = [[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]]
    with pytest.raises(ValueError, match="not positive semidefinite"):
        jgl.solve(S, 0.01, 0.01, executor=pool)


def test_what_is_no_executor_or_cannot_travel_is_refused(S):
    for wrong in ("processes", 3, ProcessPoolExecutor):
        with pytest.raises(TypeError, match="has no submit"):
            jgl.solve(S, *LAMBDAS, executor=wrong)

    class Local(jgl.ADMM):
        pass

    with pytest.raises(TypeError, match="cannot be sent to a worker"):
        jgl.solve(S, *LAMBDAS, executor=ByHand(), solver=Local())


@pytest.fixture(scope="module")
def X():
    data = make_joint_ggm("modules", 20, 2, n_samples=40, n_blocks=4, random_state=1)
    return {f"class {k}": samples for k, samples in enumerate(data.samples)}


@pytest.mark.filterwarnings("ignore::jointglasso.selection.select_penalty.SelectionWarning")
@pytest.mark.parametrize("criterion", ["ebic", "cv", "stars"])
def test_selection_elsewhere(X, pool, criterion):
    options = {"criterion": criterion, "cv": 3, "n_subsamples": 3, "random_state": 0, "patience": 1}
    points = [(a, ratio * a) for ratio in (0.1, 1.0) for a in (0.5, 0.35, 0.25)]
    heard = []
    here = jgl.select(X, grid=points, **options)
    there = jgl.select(X, grid=points, executor=pool, callback=heard.append, **options)
    threads = jgl.select(X, grid=points, n_jobs=2, **options)
    for other in (there, threads):
        assert other.best == here.best
        for name, values in here.records.items():
            assert np.array_equal(values, other.records[name], equal_nan=True), name
        assert_same_bits(here.solution, other.solution)
    counted = [step for step in heard if step.total]  # other stages have no count of solves
    assert counted[-1].done == counted[-1].total == here.n_solves
    assert [step.done for step in counted] == sorted({step.done for step in counted})


def test_columns_are_cut_into_folds_where_there_are_many_workers(X):
    """Nobody knows how many `ByHand` has: every fold of every point is a piece of its own, with its own samples."""
    grid = [(0.5, 0.1), (0.4, 0.1), (0.3, 0.1), (0.5, 0.3), (0.3, 0.2)]
    by_hand = ByHand()
    options = {"criterion": "cv", "cv": 3, "grid": grid, "random_state": 0, "patience": None}
    there, here = (jgl.select(X, **options, executor=executor) for executor in (by_hand, None))
    assert len(by_hand.sizes) == 3 * len(grid)
    assert max(by_hand.sizes) < 0.6 * len(pickle.dumps(X)) + 20_000
    np.testing.assert_array_equal(there.records["score"], here.records["score"])


def test_stability_elsewhere(X, pool):
    penalties = {"lambda1": 0.3, "lambda2": 0.1, "random_state": 0}
    here, there = (jgl.edge_stability(X, n_subsamples=4, executor=e, **penalties) for e in (None, pool))
    for a, b in zip(here.frequencies, there.frequencies, strict=True):
        assert (a != b).nnz == 0


@pytest.mark.parametrize("groups", [None, dict.fromkeys("ab", list(range(15)) * 2)])
def test_resampled_and_permuted_networks_elsewhere(pool, groups, monkeypatch):
    """The same numbers, and every draw is counted."""
    monkeypatch.setattr("jointglasso.inference.batch._PIECE", 200)  # several pieces
    X = {name: np.random.default_rng(seed).normal(size=(30, 5)) for seed, name in enumerate("ab")}
    X["a"][:, 1] += X["a"][:, 0]
    told, both = [], {"n_resamples": 6, "random_state": 0, "groups": groups}
    here, there = (jgl.bootstrap_network(X, executor=e, callback=told.append, **both) for e in (None, pool))
    assert np.array_equal(here.rho, there.rho) and np.array_equal(here.detection_rate, there.detection_rate)
    assert told[-1].done == told[-1].total == 6 and told[-1].stage == "resamples"
    both = {"n_permutations": 6, "random_state": 0, "paired": groups and dict.fromkeys("ab", range(30))}
    here, there = (jgl.network_test(X, executor=e, **both) for e in (None, pool))
    assert here.statistics == there.statistics and here.p_values == there.p_values
    assert np.array_equal(here.node_p_values, there.node_p_values)
    with pytest.raises(TypeError, match="has no submit"):
        jgl.network_test(X, executor="processes")


def test_an_error_of_the_callback_ends_a_selection_elsewhere(X, pool):
    def refuse(progress):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        jgl.select(X, executor=pool, callback=refuse)


def hungry(item, shared, progress):
    """Takes so many bytes for a while, if it may."""
    if item > memory_share():
        raise MemoryShareExceeded(item)
    began = time.monotonic()
    time.sleep(0.03)
    return began, time.monotonic(), item


def most_at_once(spans):
    """The most bytes that were taken at one time."""
    return max(sum(taken for first, last, taken in spans if first <= began < last) for began, _, _ in spans)


NEEDS = [1, 1, 4, 1, 7, 1, 1, 10, 2, 5, 6]


def assert_takes_more(run):
    """Without the limit more than 10 bytes are taken at once; a busy machine may run the items one by one."""
    spans = [run()]
    while most_at_once(spans[-1]) <= 10.0:
        assert len(spans) < 20
        spans.append(run())
    assert all([taken for _, _, taken in once] == NEEDS for once in spans)


@pytest.fixture
def three_cores(monkeypatch):
    """So many tasks at a time, whatever this machine has."""
    for module in ("jointglasso.engine.executors", "jointglasso._threads"):
        monkeypatch.setattr(f"{module}.available_cores", lambda: 3)


@pytest.mark.parametrize("where", ["threads", "processes", "many", "unknown"])
def test_what_is_done_at_the_same_time_fits_into_memory_together(pool, where, three_cores):
    """Items that need more than their share are done when others have ended, and all of them are done once."""
    work = TaskBatch(hungry, NEEDS, None)
    with ThreadPoolExecutor(6) as many:
        unknown = SimpleNamespace(submit=many.submit)
        how = {"threads": {"n_jobs": 3}, "processes": {"executor": pool}, "many": {"executor": many}}
        options = how.get(where, {"executor": unknown})
        limited = run_tasks(work, **options, memory=10.0)
        assert [taken for _, _, taken in limited] == NEEDS
        assert most_at_once(limited) <= 10.0
        assert_takes_more(lambda: run_tasks(work, **options, memory=1000.0))


class AtOnce:
    """Counts what is done at the same time. The first to come wait for others, so that slow threads count as well."""

    def __init__(self, function, expected):
        self.function, self.expected = function, expected
        self.now, self.most, self.changed = 0, 0, Condition()

    def __call__(self, *arguments):
        with self.changed:
            self.now += 1
            self.most = max(self.most, self.now)
            self.changed.notify_all()
            others = max(self.expected, 2)
            self.changed.wait_for(lambda: self.most >= others, timeout=0.05 if self.expected == 1 else 120.0)
        try:
            return self.function(*arguments)
        finally:
            with self.changed:
                self.now -= 1


@pytest.mark.parametrize("how", ["threads", "executor"])
@pytest.mark.parametrize("name", ["select", "edge_stability"])
def test_solves_at_the_same_time_fit_into_max_memory(name, how, monkeypatch, three_cores):
    """Each of them alone fits; of two at a time there is no talk, and the numbers are the same."""
    draw = np.random.default_rng(0)
    X = {k: draw.normal(size=(40, 30)) + 2.0 * draw.normal(size=(40, 1)) for k in "ab"}
    penalties = {"lambda1": 0.2, "lambda2": 0.05}
    functions = {
        "select": lambda **how: jgl.select(X, criterion="cv", cv=4, grid=[tuple(penalties.values())], **how).records,
        "edge_stability": lambda **how: vars(jgl.edge_stability(X, **penalties, n_subsamples=4, **how)),
    }
    S = jgl.SampleCovariance(list(X.values()), scale="correlation")
    needed = jgl.plan(S, *penalties.values(), penalize_diagonal=False).memory
    run, found = GroupRunner.run, {}
    with ThreadPoolExecutor(3) as three, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        who = {"executor": three} if how == "executor" else {"n_jobs": 3}
        for n_concurrent, max_memory in ((3, 40.0 * needed), (1, 1.3 * needed)):
            counted = AtOnce(run, n_concurrent)
            monkeypatch.setattr(GroupRunner, "run", lambda self, counted=counted: counted(self))
            found[n_concurrent] = functions[name](**who, random_state=0, max_memory=max_memory)
            assert counted.most == n_concurrent
    for key in ("score", "mean_edges", "p_value"):
        assert np.array_equal(found[1].get(key, 0), found[3].get(key, 0))


def test_groups_at_the_same_time_fit_into_max_memory(S, monkeypatch, three_cores):
    whole = jgl.solve(S, *LAMBDAS)
    largest = jgl.plan(S, *LAMBDAS).memory
    with ThreadPoolExecutor(3) as three:
        for n_concurrent, max_memory in ((3, 100 * largest), (1, 1.2 * largest)):
            counted = AtOnce(solve_task, n_concurrent)
            monkeypatch.setattr("jointglasso.engine.runner.solve_task", counted)
            assert_same_bits(whole, jgl.solve(S, *LAMBDAS, executor=three, max_memory=max_memory))
            assert counted.most == n_concurrent


def test_memory_at_the_peak_of_a_stability_selection(monkeypatch, three_cores):
    """Three solves at a time take more than `max_memory`, and with it they do not."""
    draw = np.random.default_rng(0)
    X = {k: draw.normal(size=(50, 260)) + 1.5 * draw.normal(size=(50, 1)) for k in "ab"}
    penalties = {"lambda1": 0.4, "lambda2": 0.1}
    S = jgl.SampleCovariance(list(X.values()), scale="correlation")
    allowed = 1.1 * jgl.plan(S, *penalties.values(), penalize_diagonal=False).memory
    jgl.edge_stability(X, **penalties, n_subsamples=2, tol=0.1)  # kernels are loaded, which takes long while traced
    run, peaks = GroupRunner.run, {}
    with ThreadPoolExecutor(3) as three:
        for max_memory in (None, allowed):
            counted = AtOnce(run, 3 if max_memory is None else 1)
            monkeypatch.setattr(GroupRunner, "run", lambda self, counted=counted: counted(self))
            how = {"executor": three, "max_memory": max_memory}
            tracemalloc.start()
            jgl.edge_stability(X, **penalties, n_subsamples=4, tol=0.1, random_state=0, **how)
            peaks[max_memory] = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert peaks[allowed] <= allowed < 0.9 * peaks[None], peaks


def wait_a_while(item, shared, progress):
    time.sleep(item)
    return item


def test_threads_of_an_executor_leave_the_filters_of_warnings_alone():
    """They belong to the whole process: threads that set them would undo one another's."""
    before = list(warnings.filters)
    with ThreadPoolExecutor(3) as three:
        assert run_tasks(TaskBatch(_filters_here, list(range(6)), None), three) == [len(before)] * 6
    assert warnings.filters == before


def _filters_here(item, shared, progress):
    time.sleep(0.01 * (6 - item))
    return len(warnings.filters)
