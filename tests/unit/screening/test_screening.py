"""Screening: every rule against the paper's words, and the order among the partitions."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jointglasso as jgl
import reference
from bank import BANK, Problem, cascade, from_entries, from_samples
from jointglasso import config
from jointglasso.inference import support
from jointglasso.kernels import components as compiled
from jointglasso.penalties import GroupPenalty, make_penalty
from jointglasso.penalties.base import Coupling
from jointglasso.screening import RULES, Partition
from jointglasso.screening.groups import class_blocks
from jointglasso.screening.pairs import TileScan, known_pairs, scan_pairs
from jointglasso.screening.partition import class_components
from jointglasso.selection import budget
from oracles import (
    accurate_optimum,
    all_set_partitions,
    canonical,
    condition_7_holds,
    condition_8_holds,
    dense,
    graph_components,
    is_strong,
    literal_algorithm_1,
    literal_class_thresholding,
    literal_global_thresholding,
    literal_strong_thresholding,
    lower_bound_partition,
    refines,
    support_partition,
    weighted_absolute,
)

LITERAL = {
    "class": lambda S, lambda1, lambda2, weights: literal_class_thresholding(S, lambda1, weights),
    "global": literal_global_thresholding,
    "dynamic": literal_strong_thresholding,
    "hybrid": lambda *arguments: literal_algorithm_1(*arguments)[0],
    "none": lambda S, *_: np.zeros(S.shape[:2], dtype=int),
}


@dataclass(frozen=True)
class Screen:
    """What a screening rule is given."""

    S: np.ndarray
    lambda1: float
    lambda2: float
    weights: tuple[float, ...] | None

    @property
    def arguments(self) -> tuple:
        return self.S, self.lambda1, self.lambda2, self.weights

    def by(self, rule: str) -> Partition:
        return jgl.screen(self.S, self.lambda1, self.lambda2, rule=rule, weights=self.weights)

    def feasible(self, partition: Partition) -> bool:
        return partition.satisfies_sufficient(self.S, self.lambda1, self.lambda2, weights=self.weights)


@st.composite
def continuous(draw, max_classes: int = 4, max_variables: int = 8, min_samples: int = 2) -> Screen:
    """Covariances of samples; penalties at the scale of their entries. No ties."""
    n_classes, p = draw(st.integers(1, max_classes)), draw(st.integers(2, max_variables))
    n, seed = draw(st.integers(min_samples, 30)), draw(st.integers(0, 10**6))
    S = from_samples(n_classes, p, n, seed, common=draw(st.sampled_from([0.0, 0.5])))
    scale = np.abs(S[:, *np.triu_indices(p, 1)]).max()
    lambda1, lambda2 = (scale * draw(st.floats(0.02, 0.9)) for _ in range(2))
    weights = tuple(draw(st.floats(0.2, 2.0)) for _ in range(n_classes)) if draw(st.booleans()) else None
    return Screen(S, lambda1, lambda2, weights)


@st.composite
def rounded(draw, max_classes: int = 3, max_variables: int = 7) -> Screen:
    """Entries and penalties on a grid of sixteenths: ties and duplicates abound, and all arithmetic is exact."""
    n_classes, p = draw(st.integers(1, max_classes)), draw(st.integers(1, max_variables))
    rows, columns = np.triu_indices(p, 1)
    n_entries = n_classes * len(rows)
    entries = draw(st.lists(st.sampled_from([0, 0, 1, 2, -2, 3, 4, -5, 6]), min_size=n_entries, max_size=n_entries))
    S = np.tile(4.0 * np.eye(p), (n_classes, 1, 1))
    S[:, rows, columns] = np.array(entries).reshape(n_classes, -1) / 16.0
    S[:, columns, rows] = S[:, rows, columns]
    lambda1, lambda2 = draw(st.integers(0, 4)) / 16.0, draw(st.integers(0, 5)) / 16.0
    weights = draw(st.none() | st.tuples(*[st.sampled_from([0.5, 1.0, 2.0])] * n_classes))
    return Screen(S, lambda1, lambda2, weights)


any_screen = st.one_of(continuous(), rounded())


def examples(n: int):
    return settings(max_examples=n)


@st.composite
def label_arrays(draw, max_classes: int = 4, max_variables: int = 9) -> np.ndarray:
    n_classes, p = draw(st.integers(1, max_classes)), draw(st.integers(1, max_variables))
    labels = draw(st.lists(st.integers(0, p), min_size=n_classes * p, max_size=n_classes * p))
    return np.array(labels).reshape(n_classes, p)


# --- the rules are what the paper says ------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@given(screen=any_screen)
@examples(150)
def test_rule_equals_its_literal_form(rule, screen):
    np.testing.assert_array_equal(screen.by(rule).labels, LITERAL[rule](*screen.arguments))


def pair_arrays(screen: Screen) -> tuple:
    """Rows, columns, above and strong of every pair, straight from S."""
    size = weighted_absolute(screen.S, screen.weights)
    rows, columns = np.triu_indices(size.shape[1], 1)
    strong = is_strong(size, screen.lambda1, screen.lambda2)
    return rows, columns, np.ascontiguousarray((size > screen.lambda1)[:, rows, columns].T), strong[rows, columns]


def closure(kernel, p, rows, columns, above, strong):
    """Labels of the partition given by the pairs that Algorithm 1 activates."""
    return class_components(p, rows, columns, above & kernel(p, rows, columns, above, strong)[:, None])


@given(screen=any_screen, seed=st.integers(0, 1000))
@examples(150)
def test_both_closures_equal_algorithm_1_in_any_order_of_the_pairs(screen, seed):
    rows, columns, above, strong = pair_arrays(screen)
    p = screen.S.shape[1]
    rng = np.random.default_rng(seed)
    order, swap = rng.permutation(len(rows)), rng.random(len(rows)) < 0.5
    first, second = np.where(swap, columns, rows)[order], np.where(swap, rows, columns)[order]
    expected = LITERAL["hybrid"](*screen.arguments)
    for kernel in (reference.hybrid_closure, compiled.hybrid_closure):
        labels = closure(kernel, p, rows, columns, above, strong)
        np.testing.assert_array_equal(labels, expected)
        labels = closure(kernel, p, first, second, above[order], strong[order])
        np.testing.assert_array_equal(canonical(labels), expected)


@pytest.mark.parametrize("m", [4, 5, 12, 48, 300])
def test_cascade_merges_one_by_one_to_the_end(m):
    problem = cascade(m)
    partition = jgl.screen(problem.S, problem.lambda1, problem.lambda2, rule="hybrid")
    np.testing.assert_array_equal(partition.labels, problem.hybrid)
    strong = jgl.screen(problem.S, problem.lambda1, problem.lambda2, rule="dynamic")
    np.testing.assert_array_equal(strong.labels, support_partition(problem.precision))
    if m <= 48:
        labels, merges = literal_algorithm_1(problem.S, problem.lambda1, problem.lambda2)
        np.testing.assert_array_equal(labels, problem.hybrid)
        assert merges == m - 2


@pytest.mark.parametrize("problem", [problem for problem in BANK if problem.hybrid is not None], ids=repr)
def test_hybrid_partition_worked_out_by_hand(problem):
    partition = jgl.screen(problem.S, problem.lambda1, problem.lambda2, rule="hybrid", weights=problem.weights)
    np.testing.assert_array_equal(partition.labels, problem.hybrid)


def test_toy_splits_by_hybrid_only():
    toy = next(problem for problem in BANK if problem.name.startswith("toy"))
    largest = {rule: jgl.screen(toy.S, toy.lambda1, toy.lambda2, rule=rule).largest for rule in RULES}
    assert largest == {"class": 3, "global": 3, "hybrid": 2, "dynamic": 2, "none": 3}


def test_threshold_uses_the_weight_of_each_class():
    # R's JGL compares every class with the last class's weight and declares this pair unconnected.
    S = from_entries(2, {(0, 1): 0.5}, {(0, 1): 0.0})
    for rule in ("class", "hybrid", "dynamic"):
        labels = jgl.screen(S, 0.1, 0.1, rule=rule, weights=(0.9, 0.1)).labels
        np.testing.assert_array_equal(labels, [[0, 0], [0, 1]])
    assert jgl.screen(S, 0.1, 0.1, rule="global", weights=(0.9, 0.1)).largest == 2
    assert jgl.screen(S, 0.1, 0.1, rule="hybrid", weights=(0.1, 0.9)).largest == 1


@given(screen=continuous(max_classes=1))
@examples(60)
def test_one_class_is_cut_at_the_sum_of_the_penalties(screen):
    threshold = screen.lambda1 + screen.lambda2
    weight = 1.0 if screen.weights is None else screen.weights[0]
    expected = graph_components(weight * np.abs(screen.S[0]) > threshold)
    for rule in ("hybrid", "global", "dynamic"):
        np.testing.assert_array_equal(screen.by(rule).labels[0], expected)


@given(screen=any_screen)
@examples(60)
def test_without_lambda2_hybrid_is_the_class_rule(screen):
    apart = Screen(screen.S, screen.lambda1, 0.0, screen.weights)
    assert apart.by("hybrid") == apart.by("class") == apart.by("dynamic")


@given(screen=continuous())
@examples(60)
def test_without_lambda1_hybrid_is_the_global_rule(screen):
    grouped = Screen(screen.S, 0.0, screen.lambda2, screen.weights)
    assert grouped.by("hybrid") == grouped.by("global") == grouped.by("dynamic")


@given(screen=rounded())
@examples(60)
def test_sign_of_a_covariance_does_not_matter(screen):
    flipped = Screen(np.where(np.eye(screen.S.shape[1]), screen.S, -screen.S), *screen.arguments[1:])
    for rule in RULES:
        assert screen.by(rule) == flipped.by(rule)


# --- the order among the partitions -----------------------------------------------------------------------------------


@given(screen=any_screen)
@examples(200)
def test_order_of_the_rules(screen):
    by = {rule: screen.by(rule) for rule in RULES}
    assert by["dynamic"].refines(by["hybrid"])
    assert by["hybrid"].refines(by["class"])
    assert by["hybrid"].refines(by["global"])
    assert by["class"].refines(by["none"]) and by["global"].refines(by["none"])
    assert by["hybrid"].join() == by["global"]
    assert refines(lower_bound_partition(*screen.arguments), by["dynamic"].labels)


@given(screen=continuous(max_variables=7, min_samples=4))
@examples(60)
def test_truth_lies_between_the_lower_bound_and_the_hybrid_partition(screen):
    optimum = accurate_optimum(screen.S, screen.lambda1, screen.lambda2, screen.weights, True)
    truth = support_partition(optimum.precision)
    assert refines(lower_bound_partition(*screen.arguments), truth)
    assert refines(truth, screen.by("hybrid").labels)
    # The uniform rule is exact: necessary and sufficient.
    assert Partition(truth).join() == screen.by("global")
    # Theorem 2, by the package and by the formula.
    necessary = (screen.S, screen.lambda1, screen.lambda2, optimum.precision)
    assert condition_7_holds(truth, *necessary, screen.weights)
    assert Partition(truth).satisfies_necessary(*necessary, weights=screen.weights)


@given(screen=any_screen)
@examples(150)
def test_every_rule_but_strong_is_feasible(screen):
    for rule in ("hybrid", "class", "global", "none"):
        assert screen.feasible(screen.by(rule))


def test_strong_partition_of_the_counterexample_is_true_but_not_feasible():
    problem = BANK[0]
    strong = jgl.screen(problem.S, problem.lambda1, problem.lambda2, rule="dynamic")
    np.testing.assert_array_equal(strong.labels, problem.truth)
    assert not strong.satisfies_sufficient(problem.S, problem.lambda1, problem.lambda2)
    assert strong.satisfies_necessary(problem.S, problem.lambda1, problem.lambda2, problem.precision)


@given(screen=any_screen)
@examples(150)
def test_cutting_a_strong_pair_is_not_feasible(screen):
    p = screen.S.shape[1]
    strong = np.argwhere(is_strong(weighted_absolute(screen.S, screen.weights), screen.lambda1, screen.lambda2))
    for i, _ in strong[:3]:
        labels = np.zeros(screen.S.shape[:2], dtype=int)
        labels[:, i] = 1
        assert not screen.feasible(Partition(labels))
    every_variable_alone = Partition(np.tile(np.arange(p), (len(screen.S), 1)))
    assert screen.feasible(every_variable_alone) == (len(strong) == 0)


@given(screen=rounded(max_variables=5), data=st.data())
@examples(200)
def test_feasibility_is_condition_8_for_any_labels(screen, data):
    n_classes, p, _ = screen.S.shape
    labels = data.draw(st.lists(st.integers(0, 2), min_size=n_classes * p, max_size=n_classes * p))
    labels = np.array(labels).reshape(n_classes, p)
    assert screen.feasible(Partition(labels)) == condition_8_holds(labels, *screen.arguments)


@given(screen=st.one_of(rounded(max_classes=2, max_variables=4), continuous(max_classes=2, max_variables=4)))
@examples(60)
def test_hybrid_is_the_least_feasible_partition_of_all(screen):
    n_classes, p, _ = screen.S.shape
    hybrid = screen.by("hybrid").labels
    assert condition_8_holds(hybrid, *screen.arguments)
    for labels in itertools.product(all_set_partitions(p), repeat=n_classes):
        if condition_8_holds(labels, *screen.arguments):
            assert refines(hybrid, labels), f"{labels} is feasible and does not contain {hybrid}"


@given(screen=rounded(max_variables=6), data=st.data())
@examples(100)
def test_splitting_a_block_of_the_hybrid_partition_is_not_feasible(screen, data):
    labels = screen.by("hybrid").labels
    blocks = [(k, b) for k, row in enumerate(labels) for b in np.unique(row) if (row == b).sum() > 1]
    if not blocks:
        return
    k, b = data.draw(st.sampled_from(blocks))
    members = np.flatnonzero(labels[k] == b)
    part = data.draw(st.lists(st.sampled_from(list(members)), min_size=1, max_size=len(members) - 1, unique=True))
    split = labels.copy()
    split[k, part] = labels.max() + 1
    assert not screen.feasible(Partition(split))


@given(screen=any_screen, factor=st.floats(1.0, 4.0))
@examples(100)
def test_partitions_are_nested_along_the_penalties(screen, factor):
    higher = Screen(screen.S, factor * screen.lambda1, factor * screen.lambda2, screen.weights)
    for rule in RULES:
        assert higher.by(rule).refines(screen.by(rule))


def test_necessary_condition_notices_what_cannot_be_cut():
    S, lambda1, lambda2 = from_entries(3, {(0, 1): 0.5}, {(0, 1): 0.3, (1, 2): 0.05}), 0.1, 0.1
    optimum = accurate_optimum(S, lambda1, lambda2)
    ok = Partition([[0, 0, 1], [0, 0, 1]])
    assert ok.satisfies_necessary(S, lambda1, lambda2, optimum.precision)
    assert not Partition([[0, 1, 2], [0, 1, 2]]).satisfies_necessary(S, lambda1, lambda2, optimum.precision)
    assert not Partition([[0, 0, 1], [0, 1, 2]]).satisfies_necessary(S, lambda1, lambda2, optimum.precision)


# --- independent groups ---------------------------------------------------------------------------------------------


def pairs_of(group) -> set[tuple[int, int]]:
    return {pair for _, members in group.blocks for pair in itertools.combinations(members.tolist(), 2)}


@given(labels=label_arrays())
@examples(200)
def test_groups_are_the_blocks_tied_by_a_shared_pair(labels):
    partition = Partition(labels)
    groups = partition.groups()
    listed = [(k, tuple(members.tolist())) for group in groups for k, members in group.blocks]
    blocks = [
        (k, tuple(np.flatnonzero(row == b).tolist()))
        for k, row in enumerate(labels)
        for b in np.unique(row)
        if (row == b).sum() > 1
    ]
    assert sorted(listed) == sorted(blocks)
    expected = coupled_blocks(blocks, np.ones((len(labels), len(labels)), dtype=bool))
    found = {block: g for g, group in enumerate(groups) for block in [(k, tuple(m.tolist())) for k, m in group.blocks]}
    together = canonical([found[block] for block in blocks])[0] if blocks else np.zeros(0)
    np.testing.assert_array_equal(together, expected)


def coupled_blocks(blocks, class_graph, n_common=2):
    """Group of each block (class, variables): those of neighbouring classes are tied by two common variables."""
    adjacency = [[class_graph[k, x] and len({*a} & {*b}) >= n_common for x, b in blocks] for k, a in blocks]
    return graph_components(np.array(adjacency)) if blocks else np.zeros(0)


@given(labels=label_arrays(), diagonal=st.booleans())
@examples(100)
def test_groups_of_a_chain_are_tied_by_neighbouring_classes(labels, diagonal):
    classes = np.arange(len(labels))
    chain, everywhere = abs(np.subtract.outer(classes, classes)) == 1, np.ones([len(labels)] * 2, dtype=bool)
    blocks = class_blocks(labels, coupled=Coupling(chain, everywhere, diagonal))
    listed = [
        (k, blocks.members[a:b]) for k, (a, b) in zip(blocks.block_class, itertools.pairwise(blocks.start), strict=True)
    ]
    np.testing.assert_array_equal(blocks.group, coupled_blocks(listed, chain, 1 if diagonal else 2))
    if not diagonal:
        rechecked = blocks.group if blocks.recheck_group is None else blocks.recheck_group[blocks.group]
        np.testing.assert_array_equal(rechecked, coupled_blocks(listed, everywhere))


@given(labels=label_arrays())
@examples(100)
def test_groups_share_no_pair_and_hang_together(labels):
    groups = Partition(labels).groups()
    for one, other in itertools.combinations(groups, 2):
        assert not pairs_of(one) & pairs_of(other)
    for group in groups:
        members = [set(block.tolist()) for _, block in group.blocks]
        overlaps = np.array([[len(a & b) >= 2 for b in members] for a in members])
        assert graph_components(overlaps).max() == 0
        assert group.variables.tolist() == sorted(set().union(*members))
        assert group.classes == tuple(sorted({k for k, _ in group.blocks}))


@given(labels=label_arrays())
@examples(60)
def test_groups_come_with_the_most_expensive_first(labels):
    cost = [sum(len(members) ** 3 for _, members in group.blocks) for group in Partition(labels).groups()]
    assert cost == sorted(cost, reverse=True)


def solve_group(group, S, lambda1, lambda2, weights) -> list[np.ndarray]:
    """Optimum of one group alone: everything outside its blocks is set to zero covariance."""
    variables = group.variables
    inside = np.zeros((len(S), len(variables), len(variables)), dtype=bool)
    for k, members in group.blocks:
        at = np.searchsorted(variables, members)
        inside[k][np.ix_(at, at)] = True
    inside |= np.eye(len(variables), dtype=bool)
    alone = np.where(inside, S[:, variables][:, :, variables], 0.0)
    Theta = accurate_optimum(alone, lambda1, lambda2, weights, True).precision
    return [Theta[k][np.ix_(at, at)] for k, at in ((k, np.searchsorted(variables, m)) for k, m in group.blocks)]


def assert_groups_assemble_to_the_optimum(screen: Screen) -> None:
    w = np.ones(len(screen.S)) if screen.weights is None else np.asarray(screen.weights)
    variance = np.einsum("kii->ki", screen.S) + screen.lambda1 / w[:, None]
    assembled = np.stack([np.diag(1.0 / v) for v in variance])
    for group in screen.by("hybrid").groups():
        for (k, members), Theta in zip(group.blocks, solve_group(group, *screen.arguments), strict=True):
            assembled[k][np.ix_(members, members)] = Theta
    full = accurate_optimum(screen.S, screen.lambda1, screen.lambda2, screen.weights, True)
    # Both are exact to a KKT residual of 1e-10 of the variances.
    np.testing.assert_allclose(assembled, full.precision, rtol=0, atol=1e-6 * np.abs(full.precision).max())


@pytest.mark.parametrize("name", ["toy, diagonal penalised", "forest", "modules", "just below lambda_max"])
def test_groups_of_a_bank_problem_solved_apart_give_the_optimum(name):
    problem = next(problem for problem in BANK if problem.name == name)
    screen = Screen(problem.S, problem.lambda1, problem.lambda2, problem.weights)
    assert len(screen.by("hybrid").groups()) >= (1 if name == "just below lambda_max" else 2)
    assert_groups_assemble_to_the_optimum(screen)


@given(screen=continuous(max_classes=3, max_variables=8, min_samples=8))
@examples(30)
def test_groups_solved_apart_give_the_optimum(screen):
    higher = Screen(screen.S, screen.lambda1 + 0.1, screen.lambda2 + 0.1, screen.weights)
    assert_groups_assemble_to_the_optimum(higher)


# --- Partition itself -----------------------------------------------------------------------------------------------


@given(labels=label_arrays())
@examples(100)
def test_sizes_cost_and_counts(labels):
    partition = Partition(labels)
    sizes = [[int((row == b).sum()) for b in dict.fromkeys(row.tolist())] for row in labels]
    assert [partition.block_sizes(k).tolist() for k in range(len(labels))] == sizes
    assert partition.largest == max(max(row) for row in sizes)
    assert partition.n_blocks == sum(len(row) for row in sizes)
    assert partition.cost == sum(size**3 for row in sizes for size in row)
    assert (partition.n_classes, partition.n_variables) == labels.shape


def test_cost_does_not_overflow():
    assert Partition(np.zeros((3, 3_000_000), dtype=int)).cost == 3 * 3_000_000**3


@given(labels=label_arrays(), seed=st.integers(0, 1000))
@examples(100)
def test_equality_ignores_the_numbering(labels, seed):
    renamed = np.random.default_rng(seed).permutation(labels.max() + 1)[labels] * 7 - 3
    assert Partition(labels) == Partition(renamed)
    np.testing.assert_array_equal(Partition(labels).labels, canonical(labels))


@given(data=st.data())
@examples(200)
def test_refinement_and_equality_follow_the_definition(data):
    n_classes, p = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 5))
    one, other = (
        np.array(data.draw(st.lists(st.integers(0, 2), min_size=n_classes * p, max_size=n_classes * p)))
        for _ in range(2)
    )
    one, other = one.reshape(n_classes, p), other.reshape(n_classes, p)
    finer, coarser = Partition(one).refines(Partition(other)), Partition(other).refines(Partition(one))
    assert (finer, coarser) == (refines(one, other), refines(other, one))
    assert (Partition(one) == Partition(other)) == (finer and coarser)


@given(labels=label_arrays())
@examples(100)
def test_join_is_the_finest_uniform_partition_above_all_classes(labels):
    joined = Partition(labels).join()
    together = (labels[:, :, None] == labels[:, None, :]).any(axis=0)
    np.testing.assert_array_equal(joined.labels, np.tile(graph_components(together), (len(labels), 1)))


def test_labels_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        Partition([[0, 1]]).labels[0, 0] = 1


# --- tiles and sources ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", [1, 2, 3, 7])
@pytest.mark.parametrize("p", [6, 7, 8, 22])
def test_small_tiles_give_the_same_partitions(monkeypatch, tile, p):
    X = np.random.default_rng(p).standard_normal((3, 12, p))
    X -= X.mean(axis=1, keepdims=True)
    screen = Screen(np.einsum("kni,knj->kij", X, X) / 12, 0.25, 0.2, (0.5, 1.0, 1.5))
    whole = {rule: screen.by(rule) for rule in RULES}
    assert whole["hybrid"].largest > 1
    monkeypatch.setattr(config, "TILE", tile)
    monkeypatch.setattr("jointglasso.screening.partition._SIDE", tile)
    for rule in RULES:
        assert screen.by(rule) == whole[rule]
        assert jgl.screen(jgl.SampleCovariance(list(X)), 0.25, 0.2, rule=rule, weights=screen.weights) == whole[rule]
        assert screen.feasible(whole[rule]) == condition_8_holds(whole[rule].labels, *screen.arguments)


@pytest.mark.parametrize("p", [512, 513, 700])
def test_partitions_across_real_tiles(p):
    rng = np.random.default_rng(p)
    X = rng.standard_normal((2, 60, p))
    # Tie variables of different tiles together.
    for i, j in [(0, p - 1), (1, p // 2), (p // 2, p - 2), (510, 511), (511, p - 1)]:
        X[:, :, j] = X[:, :, i] + 0.3 * rng.standard_normal((2, 60))
    X -= X.mean(axis=1, keepdims=True)
    S = np.einsum("kni,knj->kij", X, X) / 60
    screen = Screen(S, 0.42, 0.08, (1.0, 0.9))
    rows, columns, above, strong = pair_arrays(screen)
    kept = above.any(axis=1)
    hybrid = closure(reference.hybrid_closure, p, rows[kept], columns[kept], above[kept], strong[kept])
    np.testing.assert_array_equal(screen.by("hybrid").labels, hybrid)
    for rule in ("class", "global", "dynamic"):
        np.testing.assert_array_equal(screen.by(rule).labels, LITERAL[rule](*screen.arguments))
    assert screen.feasible(screen.by("hybrid"))
    assert 1 < screen.by("hybrid").largest < p
    source = jgl.SampleCovariance(list(X))
    for rule in ("class", "global", "hybrid", "dynamic"):
        assert jgl.screen(source, 0.42, 0.08, rule=rule, weights=(1.0, 0.9)) == screen.by(rule)


@given(seed=st.integers(0, 10**6), n_classes=st.integers(1, 3), p=st.integers(2, 10), correlation=st.booleans())
@examples(60)
def test_samples_and_matrices_give_the_same_partitions(seed, n_classes, p, correlation):
    rng = np.random.default_rng(seed)
    samples = [rng.standard_normal((rng.integers(3, 12), p)) for _ in range(n_classes)]
    matrix = np.corrcoef if correlation else lambda X, rowvar: np.cov(X, rowvar=rowvar, bias=True)
    matrices = [np.atleast_2d(matrix(X, rowvar=False)) for X in samples]
    for rule in RULES:
        from_samples_ = jgl.screen(
            jgl.SampleCovariance(samples, scale="correlation" if correlation else "covariance"), 0.3, 0.2, rule=rule
        )
        assert from_samples_ == jgl.screen(jgl.DenseCovariance(matrices), 0.3, 0.2, rule=rule)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("rule", RULES)
def test_duplicated_variables_are_accepted_and_kept_together(rule, scale):
    X = scale * np.random.default_rng(0).standard_normal((9, 4))
    source = jgl.SampleCovariance([X[:, [0, 1, 0, 2, 3, 1, 0]]])
    labels = jgl.screen(source, 0.3 * scale**2, 0.1 * scale**2, rule=rule).labels[0]
    assert labels[0] == labels[2] == labels[6] and labels[1] == labels[5]


@pytest.mark.parametrize("problem", BANK, ids=repr)
def test_bank_truth_lies_below_every_feasible_partition(problem: Problem):
    truth = support_partition(problem.optimum.precision)
    arguments = (problem.S, problem.lambda1, problem.lambda2)
    assert refines(lower_bound_partition(*arguments, problem.weights), truth)
    for rule in ("hybrid", "class", "global", "none"):
        assert refines(truth, jgl.screen(*arguments, rule=rule, weights=problem.weights).labels)
    assert dense(problem.optimum.precision).shape == problem.S.shape


@pytest.mark.parametrize("ratio", [0.0, 0.5, 2.0])
def test_nothing_is_strong_above_lambda_max_and_something_below(ratio):
    S = np.stack([np.cov(np.random.default_rng(k).normal(size=(8, 30)), bias=True) for k in range(3)])
    i, j = np.triu_indices(8, 1)
    largest = GroupPenalty(1.0, ratio).lambda_max(S[:, i, j].T)
    assert jgl.screen(S, 1.0001 * largest, 1.0001 * ratio * largest, rule="global").largest == 1
    assert jgl.screen(S, 0.995 * largest, 0.995 * ratio * largest, rule="global").largest > 1


# One scan for many


def number_of_scans(monkeypatch):
    """A list that grows with every scan of the covariances."""
    seen, begin = [], TileScan.__init__
    monkeypatch.setattr(TileScan, "__init__", lambda self, *given: (seen.append(given[1]), begin(self, *given))[1])
    return seen


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("family", ["group", "fused", "laplacian"])
def test_known_pairs_are_those_of_a_scan_of_their_own(stored, family, monkeypatch):
    penalty = lambda *given: make_penalty(family, *given, None, ["a", "b", "c"])  # noqa: E731
    rng = np.random.default_rng(0)
    source = jgl.SampleCovariance([rng.normal(size=(20, 40)) for _ in range(3)], scale="correlation")
    if stored:
        source = jgl.DenseCovariance([source.tile(k, slice(None), slice(None)) for k in range(3)])
    weights = np.array([1.0, 0.8, 1.2])
    scans = number_of_scans(monkeypatch)
    for lambda1, lambda2, strong_only, known in [
        (0.2, 0.0, False, True), (0.2, 0.1, True, True), (0.3, 0.2, False, True), (0.4, 0.0, True, True),
        (0.19, 0.1, False, False),
    ]:  # fmt: skip
        wanted = penalty(lambda1, lambda2)
        alone = scan_pairs(source, wanted, weights, strong_only=strong_only)
        with known_pairs(source, penalty(0.2, 0.0), weights):
            scans.clear()
            found = scan_pairs(source, wanted, weights, strong_only=strong_only)
            assert len(scans) == (not known)
            scan_pairs(source, wanted, np.ones(3))
            assert len(scans) == 1 + (not known)  # other weights are other pairs
        scans.clear()
        scan_pairs(source, wanted, weights)
        assert len(scans) == 1
        for name in ("rows", "columns", "weighted", "exceeds_lambda1", "violates_global_condition"):
            np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))
        assert len(alone.rows) > 3


def test_selection_and_inference_scan_once(monkeypatch):
    """Plans, solves and the component curve have one scan; the residuals of inference are another thing to scan."""
    rng = np.random.default_rng(0)
    samples = {name: rng.normal(size=(40, 60)) for name in "ab"}
    scans = number_of_scans(monkeypatch)
    monkeypatch.setattr(support, "LARGEST", 30)
    jgl.infer(samples, keep=0.01)
    assert len(scans) == 2
    scans.clear()
    apart = jgl.select(samples)
    assert len(scans) == len(apart.grid)
    monkeypatch.setattr(budget, "SCANNED_ONCE", 30)
    scans.clear()
    together = jgl.select(samples)
    assert len(scans) == 1
    assert (together.lambda1, together.score) == (apart.lambda1, apart.score)
    monkeypatch.setattr(budget, "_MAX_LISTED", 4)
    scans.clear()
    beyond = jgl.select(samples)
    assert 1 < len(scans) <= len(beyond.grid) + 1, "a plan and the solve after it have one scan"
    assert (beyond.lambda1, beyond.score) == (apart.lambda1, apart.score)


def test_a_forbidden_pair_satisfies_the_conditions_whatever_its_covariance():

    S, apart = [np.array([[1.0, 0.9], [0.9, 1.0]])], Partition(np.array([[0, 1]]))
    forbidden = np.array([[1.0, np.inf], [np.inf, 1.0]])
    assert not apart.satisfies_sufficient(S, 0.1, 0.1)
    assert apart.satisfies_sufficient(S, 0.1, 0.1, pair_weights=forbidden)
    assert not apart.satisfies_necessary(S, 0.1, 0.1, [np.eye(2)])
    assert apart.satisfies_necessary(S, 0.1, 0.1, [np.eye(2)], pair_weights=forbidden)
