"""Plans: what a solve will take, and the refusal of what cannot fit."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso import _memory
from jointglasso.engine.items import work_items
from jointglasso.engine.planning import BYTES_PER_ENTRY, plan_of
from jointglasso.screening import Partition


def correlated(p=120, n=60, K=2, seed=0):
    draw = np.random.default_rng(seed)
    return jgl.SampleCovariance(
        [draw.standard_normal((n, p)) + draw.standard_normal((n, 1)) * np.linspace(0, 1, p) for _ in range(K)],
        correlation=True,
    )


def test_plan_follows_the_groups():
    source = correlated()
    plan = jgl.plan(source, 0.5, 0.1)
    groups = plan.partition.groups()
    assert plan.partition == jgl.screen(source, 0.5, 0.1, rule="strong")
    assert plan.n_groups == len(groups)
    entries = [sum(len(members) ** 2 for _, members in group.blocks) for group in groups]
    assert plan.group_memory == pytest.approx(BYTES_PER_ENTRY * np.array(entries))
    assert np.all(np.diff(plan.group_seconds) <= 0)
    assert plan.seconds == pytest.approx(plan.group_seconds.sum())
    assert "independent groups" in str(plan)


def test_memory_counts_big_groups_one_at_a_time():
    one = plan_of(Partition(np.repeat([0], 500)[None]))
    two = plan_of(Partition(np.repeat([0, 1], 500)[None]))
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


def test_container_limit(tmp_path):
    Path(tmp_path, "memory.max").write_text("1000\n")
    Path(tmp_path, "memory.current").write_text("300\n")
    assert _memory._free_of_container(str(tmp_path)) == 700
    Path(tmp_path, "memory.max").write_text("max\n")
    assert _memory._free_of_container(str(tmp_path)) is None
    assert _memory._free_of_container(str(tmp_path / "nowhere")) is None


def test_work_items_hold_every_group_once():
    draw = np.random.default_rng(0)
    labels = np.repeat(np.arange(300), draw.integers(1, 12, 300))
    blocks = Partition(np.stack([labels, draw.permutation(labels)])).class_blocks
    assert np.array_equal(np.sort(np.concatenate(work_items(blocks, together=False))), np.arange(blocks.n_groups))


@pytest.mark.parametrize(("name", "limit"), [("BATCH_ENTRIES", 500), ("_BATCH_COST", 5000)])
def test_batches_are_limited(monkeypatch, name, limit):
    from jointglasso.engine import items

    monkeypatch.setattr(items, name, limit)
    labels = np.repeat(np.arange(50), 10)[None]
    blocks = Partition(labels).class_blocks
    found = items.work_items(blocks, together=False)
    assert len(found) == 10
    assert max(len(item) for item in found) == 5
