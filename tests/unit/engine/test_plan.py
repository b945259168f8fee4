"""Plans: what a solve will take, and the refusal of what cannot fit."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso import _memory
from jointglasso.engine import planning
from jointglasso.engine.planning import (
    dense_groups,
    group_memory,
    kept_in_memory,
    n_concurrent,
    plan_of,
    work_memory,
)
from jointglasso.engine.tasks import task_groups
from jointglasso.screening import Partition
from synthetic import make_joint_ggm


def correlated(p=120, n=60, K=2, seed=0):
    draw = np.random.default_rng(seed)
    return jgl.SampleCovariance(
        [draw.standard_normal((n, p)) + draw.standard_normal((n, 1)) * np.linspace(0, 1, p) for _ in range(K)],
        scale="correlation",
    )


def test_plan_follows_the_groups():
    source = correlated()
    plan = jgl.plan(source, 0.5, 0.1)
    groups = plan.partition.groups()
    assert plan.partition == jgl.screen(source, 0.5, 0.1, rule="dynamic")
    assert plan.n_groups == len(groups)
    entries = [sum(len(members) ** 2 for _, members in group.blocks) for group in groups]
    assert plan.group_memory == pytest.approx(jgl.Newton.bytes_per_entry * np.array(entries))
    assert np.all(np.diff(plan.group_seconds) <= 0)
    assert plan.seconds == pytest.approx(plan.group_seconds.sum())
    assert "independent groups" in str(plan)


def test_memory_counts_big_groups_one_at_a_time():
    one = plan_of(Partition(np.repeat([0], 500)[None]), None, jgl.Newton())
    two = plan_of(Partition(np.repeat([0, 1], 500)[None]), None, jgl.Newton())
    assert two.memory == pytest.approx(one.memory, rel=0.01)


def test_what_cannot_fit_is_refused_with_the_penalties_that_would():
    source = correlated()
    with pytest.raises(jgl.NotEnoughMemory, match="raise the penalties to lambda1=") as caught:
        jgl.solve(source, 0.05, 0.01, max_memory=300_000)
    lambda1, lambda2 = map(float, re.findall(r"lambda[12]=([\d.]+)", str(caught.value)))
    assert lambda1 / lambda2 == pytest.approx(5, rel=1e-3)
    fits = jgl.solve(source, 1.001 * lambda1, 1.001 * lambda2, max_memory=300_000)
    assert fits.status.converged
    with pytest.raises(jgl.NotEnoughMemory):
        jgl.solve(source, 0.9 * lambda1, 0.9 * lambda2, max_memory=300_000)


def test_refusal_without_screening_names_the_memory_only():
    with pytest.raises(jgl.NotEnoughMemory, match="are available: use a machine with more memory"):
        jgl.solve(correlated(), 0.5, 0.1, screening="none", max_memory=1000)
    with pytest.raises(jgl.NotEnoughMemory, match=r"raise the penalties|use a machine"):
        jgl.solve(correlated(), 0.05, 0.01, solver="admm", max_memory=1000)


def test_it_is_a_memory_error_and_the_limit_is_checked():
    assert issubclass(jgl.NotEnoughMemory, MemoryError)
    with pytest.raises(ValueError, match="max_memory=0"):
        jgl.solve(correlated(), 0.5, 0.1, max_memory=0)


def test_available_memory_is_plausible():
    amount = _memory.available_memory()
    assert amount is None or 2**20 < amount < 2**50


def write_files(folder, **content):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in content.items():
        Path(folder, name.replace("_in_bytes", "@").replace("_", ".", 1).replace("@", "_in_bytes")).write_text(text)


def test_container_limit(tmp_path):
    nobody = str(tmp_path / "nowhere")
    write_files(tmp_path, memory_max="1000\n", memory_current="300\n")
    assert _memory._free_of_container(str(tmp_path), nobody) == 700
    write_files(tmp_path, memory_stat="anon 5\ninactive_file 100\n")
    assert _memory._free_of_container(str(tmp_path), nobody) == 800
    write_files(tmp_path, memory_max="max\n")
    assert _memory._free_of_container(str(tmp_path), nobody) is None
    assert _memory._free_of_container(nobody, nobody) is None


def test_container_limit_of_the_first_version(tmp_path):
    nobody = str(tmp_path / "nowhere")
    write_files(tmp_path / "memory", memory_limit_in_bytes="5000", memory_usage_in_bytes="1000")
    assert _memory._free_of_container(str(tmp_path), nobody) == 4000
    write_files(tmp_path / "memory", memory_limit_in_bytes=str(2**63 - 4096))
    assert _memory._free_of_container(str(tmp_path), nobody) is None


@pytest.mark.parametrize(("line", "place"), [("0::/a/b\n", "a"), ("4:cpu,memory:/a/b\n", "memory/a")])
def test_limits_of_groups_further_in_count(tmp_path, line, place):
    (tmp_path / "membership").write_text("7:pids:/x\n" + line + "broken\n")
    write_files(tmp_path / place, memory_max="900", memory_current="100")
    write_files(tmp_path / place / "b", memory_max="600", memory_current="100")
    assert _memory._free_of_container(str(tmp_path), str(tmp_path / "membership")) == 500


def run_limited(code, **limits):
    resource = pytest.importorskip("resource")

    def limit():
        for name, amount in limits.items():
            resource.setrlimit(getattr(resource, name), (amount, amount))

    prelude = "import numpy as np, jointglasso as jgl\n"
    return subprocess.run(
        [sys.executable, "-c", prelude + code],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        timeout=300,
        check=False,
    )


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.parametrize("limit", ["RLIMIT_AS", pytest.param("RLIMIT_DATA", marks=pytest.mark.slow)])
def test_limits_of_the_process_count(limit):
    """As with ``ulimit -v``: a solve that cannot fit is refused in a sentence before it begins."""
    code = (
        "from jointglasso._memory import available_memory\n"
        "print(available_memory())\n"
        "S = np.eye(9000, dtype=np.float32) * 0.5 + 0.5\n"
        "class Alike(jgl.DenseCovariance):\n"
        "    def __init__(self, S): self._matrices, self._diagonals = [S], [np.ones(len(S))]\n"
        "    class_names, variable_names = ('a',), tuple(map(str, range(9000)))\n"
        "    n_classes, n_variables = 1, 9000\n"
        "    sample_sizes = None\n"
        "try:\n"
        "    jgl.solve(Alike(S), 0.1, 0.0, screening='none', solver='newton')\n"
        "except jgl.NotEnoughMemory as error:\n"
        "    print(error)\n"
    )
    found = run_limited(code, **{limit: 6 * 2**30})
    assert found.returncode == 0, found.stderr[-2000:]
    amount, sentence = found.stdout.splitlines()
    assert 0 < float(amount) < 6 * 2**30
    assert sentence.startswith("Solving blocks of up to 9000 variables needs about")


MEASURE = """
import sys
def bytes_of(field):
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(field))
draw = np.random.default_rng(0)
def source(p):
    common = 1.0 if {dense} else 0.0
    X = [draw.standard_normal((150, p)) + common * draw.standard_normal((150, 1)) for _ in range(2)]
    return jgl.SampleCovariance(X, scale="correlation")
import warnings
warnings.simplefilter("ignore")
jgl.solve(source(60), *{lambdas}, solver={solver!r}, max_iter=12)  # what is loaded and compiled once is no part of it
big = source({p})
plan = jgl.plan(big, *{lambdas}, solver={solver!r})
import ctypes
ctypes.CDLL(None).malloc_trim(0)  # what was freed and kept is no part of it either
before = bytes_of("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
solution = jgl.solve(big, *{lambdas}, solver={solver!r}, max_iter={max_iter})
print(plan.memory, bytes_of("VmHWM") - before, *solution.methods)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    ("solver", "dense", "max_iter", "method"),
    [
        ("auto", False, None, "columns, newton"),
        pytest.param("newton", False, 4, "newton", marks=pytest.mark.slow),
        pytest.param("auto", True, 6, "columns, newton", marks=pytest.mark.slow),
        pytest.param("admm", False, 6, "admm", marks=pytest.mark.slow),
        pytest.param("proximal_gradient", False, 6, "proximal_gradient", marks=pytest.mark.slow),
    ],
)
def test_the_plan_holds_for_every_solver(solver, dense, max_iter, method):
    lambdas = (0.1, 0.05) if dense else (0.15, 0.05)
    code = MEASURE.format(solver=solver, dense=dense, lambdas=lambdas, max_iter=max_iter, p=600)
    run_limited(code)  # so that no kernel is left to compile, which takes memory of its own
    found = run_limited(code)
    assert found.returncode == 0, found.stderr[-2000:]
    planned, peak, methods = found.stdout.split(maxsplit=2)
    assert methods.strip() == method
    assert 0.5 < float(peak) / float(planned) < 1.1


def test_memory_that_runs_out_in_spite_of_the_plan_is_the_same_sentence(monkeypatch):
    def solve(self, task):
        raise MemoryError("Unable to allocate 3 GiB")

    monkeypatch.setattr("jointglasso.solvers.Auto.solve", solve)
    with pytest.raises(jgl.NotEnoughMemory, match=r"Solving blocks of up to .* needs about .* are available: "):
        jgl.solve(correlated(), 0.3, 0.1)
    monkeypatch.setattr("jointglasso.engine.screening.scan_pairs", lambda *args, **options: solve(None, None))
    with pytest.raises(jgl.NotEnoughMemory, match="The scan of the covariances found more pairs"):
        jgl.solve(correlated(), 0.3, 0.1)


def test_fewer_pieces_at_a_time_where_memory_is_short():
    tasks = np.array([50.0, 40.0, 30.0, 5.0])
    assert n_concurrent(tasks, 4, 1000.0) == (4, 875.0)
    assert n_concurrent(tasks, 2, 1000.0) == (2, 910.0)
    assert n_concurrent(tasks, 4, 100.0) == (2, 10.0)
    assert n_concurrent(tasks, 4, 20.0) == (1, -30.0)


def test_dense_groups_are_planned_with_the_memory_of_admm():
    draw = np.random.default_rng(0)
    X = np.hstack(
        [draw.standard_normal((300, 40)) + 2 * draw.standard_normal((300, 1)), draw.standard_normal((300, 40))]
    )
    source = jgl.SampleCovariance([X, X], scale="correlation")
    plan = jgl.plan(source, 0.19, 0.05)
    assert plan.group_largest[0] == 40
    assert plan.group_memory[0] == jgl.ADMM.bytes_per_entry * 2 * 40**2
    assert plan.group_memory[1:].sum() < plan.group_memory[0]
    by_hand = jgl.plan(source, 0.19, 0.05, solver="newton")
    assert by_hand.group_memory[0] == jgl.Newton.bytes_per_entry * 2 * 40**2


def test_a_lockstep_method_needs_everything_at_once():
    blocks = Partition(np.repeat([0, 1], 500)[None]).class_blocks
    for method, tasks in ((jgl.Newton(), 2), (jgl.ADMM(), 1)):
        memory = group_memory(blocks, method, dense_groups(blocks, None))
        assert len(work_memory(blocks, method, memory)) == tasks


def test_a_million_jobs_take_no_longer_than_two():
    source, samples = correlated(), {"a": np.random.default_rng(0).normal(size=(20, 5))}

    def seconds(n_jobs):
        began = time.process_time()
        jgl.solve(source, 0.5, 0.1, n_jobs=n_jobs)
        jgl.edge_stability(samples, lambda1=0.3, lambda2=0, n_subsamples=4, n_jobs=n_jobs)
        return time.process_time() - began

    assert seconds(2) < 60.0  # compiles on a new machine
    assert seconds(10**6) < 5.0


def test_work_items_hold_every_group_once():
    draw = np.random.default_rng(0)
    labels = np.repeat(np.arange(300), draw.integers(1, 12, 300))
    blocks = Partition(np.stack([labels, draw.permutation(labels)])).class_blocks
    assert np.array_equal(np.sort(np.concatenate(task_groups(blocks, together=False))), np.arange(blocks.n_groups))


@pytest.mark.parametrize(("name", "limit"), [("BATCH_ENTRIES", 500), ("BATCH_COST", 5000)])
def test_batches_are_limited(monkeypatch, name, limit):
    from jointglasso.engine import tasks

    monkeypatch.setattr(f"jointglasso.config.{name}", limit)
    labels = np.repeat(np.arange(50), 10)[None]
    blocks = Partition(labels).class_blocks
    found = tasks.task_groups(blocks, together=False)
    assert len(found) == 10
    assert max(len(item) for item in found) == 5


def test_a_plan_for_workers_divides_core_seconds():
    S = make_joint_ggm("modules", 120, 3, n_samples=60, n_blocks=6, random_state=1).covariances
    one, two, many = (jgl.plan(S, 0.4, 0.1, workers=n) for n in (1, 2, 1000))
    assert one.seconds == pytest.approx(one.core_seconds) == pytest.approx(2.0 * two.seconds)
    assert many.seconds == pytest.approx(many.n_cores * many.group_seconds.max())
    assert many.seconds < two.seconds
    assert "on 2 workers" in str(two) and "workers" not in str(jgl.plan(S, 0.4, 0.1))
    with pytest.raises(ValueError, match="workers"):
        jgl.plan(S, 0.4, 0.1, workers=0)


def test_groups_correlated_throughout_are_planned_with_more_seconds():
    draw = np.random.default_rng(0)
    factor = [draw.standard_normal((200, 120)) + 1.5 * draw.standard_normal((200, 1)) for _ in range(2)]
    dense = jgl.plan(jgl.SampleCovariance(factor, scale="correlation"), 0.2, 0.05)
    place = np.arange(120)
    sparse = jgl.plan(np.stack([0.6 ** np.abs(place[:, None] - place)] * 2), 0.2, 0.05)
    assert dense.group_largest[0] == sparse.group_largest[0] == 120
    assert dense.seconds > 3.0 * sparse.seconds


def test_a_chain_is_planned_by_its_sweeps():
    """A sparse group takes a few factorizations for its gap, and sweeps that grow with the square of its size."""
    p = 400
    S = 0.45 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))[None]
    plan = jgl.plan(S, 0.3, 0.0)
    assert plan.n_groups == 1 and plan.partition.largest == p
    factorizations = plan.seconds * planning.factorization_rate() / p**3
    assert 1.0 < factorizations < 15.0


def test_w_of_the_largest_group_stays_in_memory():
    area, big = np.array([1e8, 1e4, 1e4]), np.array([True, False, False])
    np.testing.assert_array_equal(kept_in_memory(area, big, free_bytes=0.0), [True, False, False])
    np.testing.assert_array_equal(kept_in_memory(area, big, free_bytes=1e12), [True, True, True])
    two_large = np.array([1e8, 0.9e8]), np.array([True, True])
    # W of the first takes 4e8 bytes; its solve leaves 16 (1e8 - 0.9e8) beside that of the second.
    np.testing.assert_array_equal(kept_in_memory(*two_large, free_bytes=0.0), [False, True])
    np.testing.assert_array_equal(kept_in_memory(*two_large, free_bytes=1e9), [True, True])
