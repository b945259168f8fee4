"""Groups are tied only where classes that are compared share a pair: against brute force and unscreened solutions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.engine.tasks import task_groups
from jointglasso.penalties import make_penalty
from jointglasso.screening import Partition


def star(K):
    return [(0, k) for k in range(1, K)]


def reachable(n, coupled):
    """Number of the connected component of each of n things, by repeated merging."""
    label = list(range(n))
    for _ in range(n):
        for a, b in coupled:
            label[a] = label[b] = min(label[a], label[b])
    return label


@pytest.mark.parametrize("seed", range(20))
def test_groups_and_bundles_are_those_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    K, p = int(rng.integers(2, 7)), int(rng.integers(2, 9))
    labels = rng.integers(0, 4, (K, p))
    graph = np.triu(rng.random((K, K)) < 0.4, 1)
    penalty = make_penalty("graph", 0.1, 0.1, (graph | graph.T).astype(float), [str(k) for k in range(K)])
    blocks = Partition(labels, penalty.coupling).class_blocks
    members = np.split(blocks.members, blocks.start[1:-1])
    part = reachable(K, [tuple(edge) for edge in np.argwhere(graph)])
    found = blocks.group if blocks.recheck_group is None else blocks.recheck_group[blocks.group]
    for apart, group in ((graph | graph.T, blocks.group), (np.equal.outer(part, part), found)):
        coupled = [
            (a, b)
            for a, b in combinations(range(blocks.n_blocks), 2)
            if blocks.block_class[a] != blocks.block_class[b]
            and apart[blocks.block_class[a], blocks.block_class[b]]
            and len(np.intersect1d(members[a], members[b])) >= 2
        ]
        expected = reachable(blocks.n_blocks, coupled)
        assert np.array_equal(np.equal.outer(group, group), np.equal.outer(expected, expected))


def test_a_pair_that_the_class_between_has_cut_is_two_problems():
    """Seven time points, a block of forty variables in the first three and the last three: two groups, not one."""
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((2000, 1))
    S = []
    for k in range(7):
        X = rng.standard_normal((2000, 40)) + (0.0 if k == 3 else 1.2) * factor
        S.append(np.corrcoef(X.T))
    solution = jgl.solve(S, 0.25, 0.05, penalty="chain")
    groups = solution.partition.groups()
    assert [group.classes for group in groups[:2]] == [(0, 1, 2), (4, 5, 6)]
    # As for a group penalty, in which all classes are neighbours, it would be one of all six.
    assert Partition(solution.partition.labels).groups()[0].classes == (0, 1, 2, 4, 5, 6)
    blocks = solution.partition.class_blocks
    assert len(task_groups(blocks, together=False)) == 1  # the check of the cuts looks at both


@pytest.mark.parametrize("seed", range(24))
def test_solved_apart_they_are_the_solution_of_the_whole(seed):
    """Dynamic cuts between two groups of a pair are checked with what both say of it; claims hold."""
    rng = np.random.default_rng(1000 + seed)
    K, p = int(rng.integers(3, 7)), int(rng.integers(3, 8))

    def mixing(size):
        return np.eye(p) + (rng.random((p, p)) < 0.3) * size

    common = rng.standard_normal((40, p)) @ mixing(0.8)
    samples = [common * (rng.random() < 0.6) + rng.standard_normal((40, p)) @ mixing(0.6) for _ in range(K)]
    S = np.stack([np.corrcoef(X.T) for X in samples])
    lambdas = rng.uniform(0.1, 0.35), rng.uniform(0.02, 0.12)
    options = {"penalty": "chain"} if seed % 2 else {"penalty": "graph", "class_graph": star(K)}
    found = jgl.solve(S, *lambdas, tol=1e-7, **options)
    exact = jgl.solve(S, *lambdas, tol=1e-10, screening="none", **options)
    assert -1e-9 <= found.objective - exact.objective <= found.certificate.gap
    claims, matrices = found.edge_clusters, [Theta.toarray() for Theta in exact.precision]
    for t, (one, two) in enumerate(claims.neighbours):
        proved = claims.proved[:, t]
        i, j, same = claims.rows[proved], claims.columns[proved], claims.equal[proved, t]
        distance = np.abs(matrices[one][i, j] - matrices[two][i, j])
        assert not (same & (distance > 1e-4)).any() and not (~same & (distance < 1e-9)).any()
