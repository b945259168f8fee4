"""Every compiled kernel against its meaning in plain NumPy, and both against brute force."""

import ast
import importlib
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numba.core.extending import _Intrinsic
from scipy import optimize, sparse

import reference
from jointglasso.data import SampleCovariance
from jointglasso.data.source import first_asymmetry
from jointglasso.kernels import components, dense, forest, group_pair, pair_index, scan
from jointglasso.kernels.jit import njit
from jointglasso.kernels.pair_types import Entries, GroupPair, PairClasses, PenaltyWorkspace
from jointglasso.penalties import ANY_CLASS, UNIFORM, GroupPenalty
from jointglasso.screening.pairs import TileScan
from jointglasso.screening.partition import class_components

EXAMPLES = settings(max_examples=100)

#: Compiled kernels that take more than ten lines of NumPy, or that compute nothing, and how they are tested.
NO_REFERENCE = {
    "columns.update_column": "sweeps end at the solution, by the certificate: test_columns.py",
    "column_batches.sweep_columns": "the same bits on any number of threads, W definite and symmetric: test_columns.py",
    "dual_rows.count_certified_zeros": "compared with every pair by itself: test_big_groups.py",
    "team.post": "the same bits on any number of threads: test_columns.py",
    "team.take": "the same bits on any number of threads: test_columns.py",
    "team.add": "the same bits on any number of threads: test_columns.py",
    "team.wait_until": "the same bits on any number of threads: test_columns.py",
    "column_parts.allocate_workspace": "arrays of the right length",
    "column_parts.descend_once": "sweeps end at the solution, by the certificate: test_columns.py",
    "column_parts.update_diagonal": "sweeps end at the solution, by the certificate: test_columns.py",
    "small_columns.ascend_small_groups": "ends at the solution, by the certificate: test_columns.py",
    "column_parts.read_weights": "sweeps with weights by class end at the solution: test_class_weights.py",
    "entries.apply": "the methods of a penalty are its operations: test_references.py",
    "entries.apply_on_face": "the methods of a penalty are its operations: test_references.py",
    "group_pair.number_clusters": "the clusters of each penalty are tested",
    "column_face.step_on_face": "reaches the minimum on the face: test_column_face.py",
}


@njit
def soft(value, threshold):
    return group_pair.soft(value, threshold)


@njit
def times(threshold, weight):
    return group_pair.times(threshold, weight)


@njit
def update(penalty, a, b, pair, out):
    group_pair.update(penalty, a, b, pair, out)


@njit
def pair_covariance(S, weight, product, l1, lambda2):
    return forest.pair_covariance(S, weight, product, l1, lambda2)


# Small numbers on a grid: ties and zeros are the rule, not the exception.
grid_numbers = st.integers(-6, 6).map(lambda n: 0.5 * n)
penalties = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.7])
seeds = st.integers(0, 2**32 - 1)


@st.composite
def pairs_of_entries(draw, values=grid_numbers):
    """Entries of up to six pairs of 1 to 4 copies each, and their CSR start."""
    pairs = draw(st.lists(st.lists(values, min_size=1, max_size=4), max_size=6))
    start = np.concatenate([[0], np.cumsum([len(pair) for pair in pairs])]).astype(np.int64)
    return np.array([x for pair in pairs for x in pair], dtype=np.float64), start


def draw_factor(rng, start):
    """Weights of the pairs, zeros among them, or none at all."""
    return UNIFORM if rng.random() < 0.3 else rng.choice([0.0, 0.5, 1.0, 3.0], size=len(start) - 1)


def each(factor, start):
    """Weight of each pair."""
    return factor if len(factor) else np.ones(len(start) - 1)


@st.composite
def graphs(draw):
    """A number of variables and pairs i < j among them, repeated and in any order."""
    n = draw(st.integers(2, 9))
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=20))
    edges = [(min(e), max(e)) for e in edges if e[0] != e[1]]
    rows, columns = np.array(edges, dtype=np.int64).reshape(-1, 2).T.copy()
    return n, rows, columns


@st.composite
def class_graphs(draw):
    """Distinct pairs, many of them, with their above and strong marks in 1 to 4 classes."""
    n, n_classes = draw(st.integers(2, 9)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(seeds))
    rows, columns = np.triu_indices(n, 1)
    kept = rng.permutation(np.flatnonzero(rng.random(len(rows)) < draw(st.sampled_from([0.1, 0.4, 0.9]))))
    above = rng.random((len(kept), n_classes)) < draw(st.sampled_from([0.2, 0.5, 0.9]))
    strong = above.any(axis=1) & (rng.random(len(kept)) < draw(st.sampled_from([0.1, 0.2, 0.5])))
    return n, rows[kept], columns[kept], above, strong


def phi(x, lambda1, lambda2):
    return lambda1 * np.abs(x).sum() + lambda2 * np.sqrt((x * x).sum())


def excess(u, lambda1):
    return (np.maximum(np.abs(u) - lambda1, 0.0) ** 2).sum()


def slices(start):
    return [slice(a, b) for a, b in itertools.pairwise(start)]


def one_pair(*values):
    return np.array(values, dtype=np.float64), np.array([0, len(values)], dtype=np.int64)


class group_penalty:
    """The group penalty over many pairs, with its arguments in a row."""

    @staticmethod
    def value(values, start, factor, lambda1, lambda2):
        return GroupPenalty(lambda1, lambda2).value(values, Entries(start, ANY_CLASS, factor, 4))

    @staticmethod
    def prox(values, start, factor, step, lambda1, lambda2):
        return GroupPenalty(lambda1, lambda2).prox(values, step, Entries(start, ANY_CLASS, factor, 4))

    @staticmethod
    def nearest_subgradient(theta, wanted, start, factor, lambda1, lambda2):
        entries = Entries(start, ANY_CLASS, factor, 5)
        return GroupPenalty(lambda1, lambda2).nearest_subgradient(theta, wanted, entries)

    @staticmethod
    def gauge(values, start, factor, lambda1, lambda2):
        return GroupPenalty(lambda1, lambda2).gauge(values, Entries(start, ANY_CLASS, factor, 4))


# Is everything compared?

#: Not compiled: where kernels are kept, how they are chosen, and the room they need.
PLAIN = ("jit", "pair", "pair_types")

#: Compared in files of their own: test_fused_pairs.py, test_maximum.py, test_common.py, test_rounding.py,
#: test_inference.py, test_sparse_factor.py.
ELSEWHERE = (
    "submodular", "fused_face", "fused_pair", "fused_rows", "laplacian_pair", "maximum_pair", "common_pair",
    "support_newton", "sparse_order", "sparse_factor", "sparse_columns",
)  # fmt: skip


def compiled_functions():
    folder = Path(components.__file__).parent
    for path in sorted(folder.glob("[a-z]*.py")):
        if path.stem in PLAIN:
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and node.name != "workspace_size":
                yield path.stem, node.name


def test_every_public_kernel_has_a_reference_or_a_reason():
    missing = [
        f"{module}.{name}"
        for module, name in compiled_functions()
        if not hasattr(reference, name)
        and not hasattr(reference, f"penalty_{name}")
        and f"{module}.{name}" not in NO_REFERENCE
        and module not in ELSEWHERE
    ]
    assert missing == [], "write them in tests/helpers/reference.py, or say in NO_REFERENCE how they are tested"


def test_reasons_are_for_kernels_that_exist():
    existing = {f"{module}.{name}" for module, name in compiled_functions()}
    assert set(NO_REFERENCE) <= existing


def test_every_reference_is_of_a_compiled_kernel():
    methods = {"prox", "nearest_subgradient", "face", "hessian_diagonal"}  # of a penalty, made of compiled functions
    compiled = {name for _, name in compiled_functions()} | methods
    names = [name for name, value in vars(reference).items() if getattr(value, "__module__", "") == reference.__name__]
    assert {name.removeprefix("penalty_") for name in names if not name.startswith("_")} <= compiled


def test_compiled_kernels_are_compiled():
    for module, name in compiled_functions():
        kernel = getattr(importlib.import_module(f"jointglasso.kernels.{module}"), name)
        assert hasattr(kernel, "py_func") or isinstance(kernel, _Intrinsic), f"{module}.{name} is plain Python"


@given(st.lists(st.integers(1, 200), min_size=1, max_size=4), st.booleans())
@EXAMPLES
def test_members_of_entries(sizes, huge):
    size = np.array([*sizes, 70_000] if huge else sizes)
    offset, start = (np.concatenate([[0], np.cumsum(n)]) for n in (size * size, size))
    rng = np.random.default_rng(sum(sizes))
    block = rng.integers(0, len(size), 50)
    within = (rng.random(50) * size[block] ** 2).astype(np.int64)
    row, column = np.empty((2, len(within)), dtype=np.int64)
    pair_index.members_of_entries(offset[block] + within, block, offset, size, start, row, column)
    expected = np.divmod(within, size[block])
    assert np.array_equal(row, start[block] + expected[0])
    assert np.array_equal(column, start[block] + expected[1])


# scan


def marked(tiles, limits, slack, upper_only):
    seen, hits = np.zeros(tiles[0].size, dtype=bool), np.empty(tiles[0].size, dtype=np.int64)
    n_hits = 0
    for tile, (row_limit, column_limit) in zip(tiles, limits, strict=True):
        n_hits = scan.mark_above(tile, row_limit, column_limit, slack, upper_only, seen, hits, n_hits)
    return hits[:n_hits], seen


@EXAMPLES
@given(
    seeds, st.integers(1, 7), st.integers(1, 150), st.integers(1, 3), st.sampled_from([np.float64, np.float32]),
    st.booleans(),
)  # fmt: skip
def test_mark_above_finds_the_entries_above_in_any_class_once(seed, n_rows, n_columns, n_classes, dtype, upper):
    """Numbers on a grid, so that ties occur, which are not above."""
    rng = np.random.default_rng(seed)
    shape = (n_rows, n_rows) if upper else (n_rows, n_columns)
    tiles = [(0.25 * rng.integers(-8, 9, size=shape)).astype(dtype) for _ in range(n_classes)]
    limits = [[rng.choice([0.5, 1.0, 2.0, np.inf], size=n).astype(dtype) for n in shape] for _ in range(n_classes)]
    slack = dtype(rng.choice([0.0, 0.25]))
    hits, seen = marked(tiles, limits, slack, upper)
    expected = [reference.mark_above(t, *limit, slack, upper) for t, limit in zip(tiles, limits, strict=True)]
    assert len(set(hits.tolist())) == len(hits)
    np.testing.assert_array_equal(np.sort(hits), np.unique(np.concatenate(expected)))
    np.testing.assert_array_equal(np.flatnonzero(seen), np.sort(hits))
    brute = {
        i * shape[1] + j
        for t, (row_limit, column_limit) in zip(tiles, limits, strict=True)
        for i, j in itertools.product(range(shape[0]), range(shape[1]))
        if abs(t[i, j]) + slack > row_limit[i] * column_limit[j] and (j > i or not upper)
    }
    assert brute == set(hits.tolist())


def test_mark_above_leaves_out_ties_and_the_diagonal():
    tile = np.array([[9.0, 0.5, -0.5], [9.0, 9.0, -0.500001], [9.0, 9.0, 9.0]])
    assert marked([tile], [(np.full(3, 0.5), np.ones(3))], 0.0, True)[0].tolist() == [5]


def test_mark_above_of_an_empty_tile_finds_nothing():
    assert marked([np.empty((0, 4))], [(np.empty(0), np.ones(4))], 0.0, False)[0].tolist() == []


@EXAMPLES
@given(seeds, st.integers(2, 7), st.integers(1, 3), penalties, st.sampled_from([1e-9, 1.0, 1e9]))
def test_scan_in_single_precision_misses_no_pair(seed, p, n_classes, threshold, unit):
    """Rough correlations and limits are rounded: every pair that is above in some class must be a candidate."""
    rng = np.random.default_rng(seed)
    samples = [unit * rng.uniform(0.1, 9.0, p) * rng.standard_normal((12, p)) for _ in range(n_classes)]
    source = SampleCovariance([x * (rng.random(p) < 0.9) for x in samples])
    weights, lambda1 = rng.choice([0.5, 1.0, 2.0], size=n_classes), threshold * unit**2
    tiles = TileScan(source, GroupPenalty(lambda1, 0.0), weights, None, False)
    found = set(zip(*tiles.possible(source, slice(0, p), slice(0, p)), strict=True))
    size = np.max([w * np.abs(source.tile(k, slice(0, p), slice(0, p))) for k, w in enumerate(weights)], axis=0)
    above, nearly_above = (
        np.argwhere(np.triu(values, 1)).tolist() for values in (size > lambda1, size > 0.999 * lambda1)
    )
    assert {*map(tuple, above)} <= found <= {*map(tuple, nearly_above)}


def first_bad(matrix, tolerance):
    """First place of the upper triangle with a fault, tile by tile of 64 as the kernel promises no order beyond it."""
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(matrix - matrix.T) <= tolerance)
    return set(zip(*np.nonzero(wrong), strict=True))


@EXAMPLES
@given(seeds, st.sampled_from([1, 2, 5, 63, 64, 65, 130]), st.sampled_from([0.0, 1e-3]))
def test_first_asymmetry_finds_a_planted_fault(seed, p, tolerance):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(p, p))
    matrix = matrix + matrix.T
    assert first_asymmetry(matrix, np.full(len(matrix), np.sqrt(tolerance))) is None
    i, j = rng.integers(p, size=2)
    kind = rng.choice(["nan", "inf", "-inf", "large", "small"])
    matrix[i, j] += {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "large": 2e-3, "small": 5e-4}[kind]
    harmless = i == j if kind in ("large", "small") else False
    if harmless or (kind == "small" and tolerance):
        assert first_asymmetry(matrix, np.full(len(matrix), np.sqrt(tolerance))) is None
    else:
        row, column = first_asymmetry(matrix, np.full(len(matrix), np.sqrt(tolerance)))
        assert (row, column) in first_bad(matrix, tolerance)
        assert {row, column} == {i, j}
        assert kind in ("large", "small") or not np.isfinite(matrix[row, column])


def test_first_asymmetry_forgives_nothing_not_finite_on_both_sides():
    matrix = np.eye(3)
    matrix[0, 2] = matrix[2, 0] = np.inf
    assert first_asymmetry(matrix, np.full(len(matrix), 1e150)) == (0, 2)


def test_first_asymmetry_of_an_empty_matrix_is_none():
    assert first_asymmetry(np.empty((0, 0)), np.empty(0)) is None


# components


@EXAMPLES
@given(graphs())
def test_components_agree_with_reference_and_scipy(graph):
    n, rows, columns = graph
    labels, joins = components.components(n, rows, columns)
    expected_labels, expected_joins = reference.components(n, rows, columns)
    np.testing.assert_array_equal(labels, expected_labels)
    np.testing.assert_array_equal(joins, expected_joins)
    adjacency = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    _, expected = sparse.csgraph.connected_components(adjacency, directed=False)
    assert len(set(zip(labels, expected, strict=True))) == len(set(expected)) == len(set(labels))


@settings(EXAMPLES, max_examples=60)
@given(graphs(), seeds)
def test_edges_in_the_order_of_their_weights_join_to_a_spanning_tree_of_least_weight(graph, seed):
    n, rows, columns = graph
    rows, columns = (np.ascontiguousarray(x) for x in np.unique(np.stack([rows, columns]), axis=1))
    weight = np.sort(np.random.default_rng(seed).uniform(1.0, 2.0, size=len(rows)))
    _, joins = components.components(n, rows, columns)
    places = rows.astype(np.int32), columns.astype(np.int32)  # SciPy 1.15 takes no others
    tree = sparse.csgraph.minimum_spanning_tree(sparse.coo_array((weight, places), shape=(n, n)).tocsr())
    assert weight[joins].sum() == pytest.approx(tree.sum())
    assert joins.sum() == tree.nnz


def test_components_are_numbered_by_their_smallest_member():
    rows, columns = np.array([4, 3]), np.array([0, 1])
    assert components.components(5, rows, columns)[0].tolist() == [0, 1, 2, 1, 0]


def test_components_of_a_graph_without_edges_or_nodes():
    none = np.empty(0, dtype=np.int64)
    assert components.components(3, none, none)[0].tolist() == [0, 1, 2]
    assert components.components(0, none, none)[0].tolist() == []


@EXAMPLES
@given(class_graphs())
def test_components_of_each_class(problem):
    n, rows, columns, above, _ = problem
    found = class_components(n, rows, columns, above)
    for k in range(above.shape[1]):
        alone = components.components(n, rows[above[:, k]], columns[above[:, k]])[0]
        np.testing.assert_array_equal(found[k], alone)


def literal_algorithm_1(n, rows, columns, above, strong):
    """The paper's text: merge one triple (x, i, j) at a time until there is none."""
    n_classes = above.shape[1]
    labels = np.stack([reference.components(n, rows[e], columns[e])[0] for e in (above & strong[:, None]).T])
    while True:
        triple = next(
            (
                (x, i, j)
                for e, (i, j) in enumerate(zip(rows, columns, strict=True))
                for x in range(n_classes)
                if above[e, x] and labels[x, i] != labels[x, j] and (labels[:, i] == labels[:, j]).any()
            ),
            None,
        )
        if triple is None:
            return np.stack([np.unique(first_member(row), return_inverse=True)[1] for row in labels])
        x, i, j = triple
        labels[x][labels[x] == labels[x, i]] = labels[x, j]


def first_member(labels):
    return np.array([np.flatnonzero(labels == label)[0] for label in labels])


@settings(EXAMPLES, max_examples=300)
@given(class_graphs())
def test_hybrid_closure_agrees_with_reference_and_with_the_literal_algorithm(problem):
    found = components.hybrid_closure(*problem)
    np.testing.assert_array_equal(found, reference.hybrid_closure(*problem))
    labels = class_components(*problem[:3], problem[3] & found[:, None])
    np.testing.assert_array_equal(labels, literal_algorithm_1(*problem))


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_hybrid_closure_cascades_through_the_classes(order):
    """Each merge in one class wakes the next pair in the other: a chain as long as the variables."""
    n = 24
    rows, columns = np.arange(n - 1), np.arange(1, n)
    far_rows, far_columns = np.zeros(n - 2, dtype=np.int64), np.arange(2, n)
    rows, columns = np.concatenate([rows, far_rows]), np.concatenate([columns, far_columns])
    above = np.ones((len(rows), 2), dtype=bool)
    above[: n - 1, 1] = False  # the chain is above in class 0, the star of far pairs in class 1
    above[n - 1 :, 0] = False
    strong = np.arange(len(rows)) < n - 1
    above = np.ascontiguousarray(above[:, order])
    activated = components.hybrid_closure(n, rows, columns, above, strong)
    labels = class_components(n, rows, columns, above & activated[:, None])[order]
    assert labels[0].tolist() == [0] * n
    assert labels[1].tolist() == [0, 1] + [0] * (n - 2)


def test_hybrid_closure_without_pairs_leaves_every_variable_alone():
    none, above = np.empty(0, dtype=np.int64), np.empty((0, 2), dtype=bool)
    activated = components.hybrid_closure(3, none, none, above, np.empty(0, dtype=bool))
    labels = class_components(3, none, none, above & activated[:, None])
    assert labels.tolist() == [[0, 1, 2]] * 2


# group_penalty


@EXAMPLES
@given(st.floats(-5, 5), st.floats(0, 3))
def test_soft_agrees_with_reference(value, threshold):
    assert soft(value, threshold) == reference.soft(np.float64(value), threshold)


@pytest.mark.parametrize("threshold", [0.0, 0.25])
@pytest.mark.parametrize("weight", [0.0, 0.5, 3.0, np.inf])
def test_times_agrees_with_reference(threshold, weight):
    assert times(threshold, weight) == reference.times(threshold, weight)


@EXAMPLES
@given(pairs_of_entries(), penalties, penalties, seeds)
def test_value_agrees_with_reference_and_formula(entries, lambda1, lambda2, seed):
    values, start = entries
    factor = draw_factor(np.random.default_rng(seed), start)
    found = group_penalty.value(values, start, factor, lambda1, lambda2)
    np.testing.assert_allclose(found, reference.penalty_value(values, start, factor, lambda1, lambda2), rtol=1e-14)
    expected = [v * phi(values[s], lambda1, lambda2) for v, s in zip(each(factor, start), slices(start), strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@EXAMPLES
@given(pairs_of_entries(), penalties, penalties, seeds)
def test_prox_agrees_with_reference(entries, lambda1, lambda2, seed):
    values, start = entries
    rng = np.random.default_rng(seed)
    step, factor = rng.choice([0.25, 1.0, 2.0], size=len(start) - 1), draw_factor(rng, start)
    found = group_penalty.prox(values, start, factor, step, lambda1, lambda2)
    expected = reference.penalty_prox(values, start, factor, step, lambda1, lambda2)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)
    scaled_step = np.maximum(step * each(factor, start), 1e-16)  # steps are positive
    np.testing.assert_allclose(
        found, group_penalty.prox(values, start, UNIFORM, scaled_step, lambda1, lambda2), atol=1e-14
    )


@settings(EXAMPLES, max_examples=60)
@given(pairs_of_entries(), penalties, penalties, st.sampled_from([0.3, 1.0, 2.0]), seeds)
def test_prox_is_better_than_any_point_around(entries, lambda1, lambda2, step, seed):
    values, start = entries
    found = group_penalty.prox(values, start, UNIFORM, np.full(len(start) - 1, step), lambda1, lambda2)
    rng = np.random.default_rng(seed)
    for s in slices(start):

        def loss(x, v=values[s]):
            return 0.5 * ((x - v) ** 2).sum() + step * phi(x, lambda1, lambda2)

        others = found[s] + rng.normal(size=(40, found[s].size)) * rng.choice([1e-3, 0.1, 1.0], size=(40, 1))
        masks = rng.random(others.shape) < 0.5
        best = min(min(map(loss, others)), min(map(loss, others * masks)), loss(values[s]), loss(0 * values[s]))
        assert loss(found[s]) <= best + 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_prox_agrees_with_numerical_minimisation(seed):
    rng = np.random.default_rng(seed)
    values, start = one_pair(*rng.normal(scale=2.0, size=1 + seed % 4))
    step, lambda1, lambda2 = 0.7, 0.4, 0.6
    found = group_penalty.prox(values, start, UNIFORM, np.array([step]), lambda1, lambda2)
    result = optimize.minimize(
        lambda x: 0.5 * ((x - values) ** 2).sum() + step * phi(x, lambda1, lambda2),
        values,
        method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-14, "maxiter": 20000, "maxfev": 20000},
    )
    np.testing.assert_allclose(found, result.x, atol=1e-5)


@EXAMPLES
@given(pairs_of_entries(), penalties, penalties)
def test_prox_and_projection_on_the_dual_ball_add_up(entries, lambda1, lambda2):
    """Moreau: at theta = 0 the nearest subgradient is the projection on the dual ball."""
    values, start = entries
    ones = np.ones(len(start) - 1)
    prox = group_penalty.prox(values, start, UNIFORM, ones, lambda1, lambda2)
    nothing = np.zeros_like(values)
    projection = group_penalty.nearest_subgradient(nothing, values, start, UNIFORM, lambda1, lambda2)
    np.testing.assert_allclose(prox + projection, values, atol=1e-14)
    for s in slices(start):
        assert excess(projection[s], lambda1) <= lambda2**2 + 1e-12


@st.composite
def subgradient_problems(draw):
    """Theta with zero pairs, half zero pairs and full pairs; a wanted subgradient."""
    theta, start = draw(pairs_of_entries(st.sampled_from([0.0, 0.0, -1.5, 0.5, 2.0])))
    rng = np.random.default_rng(draw(seeds))
    wanted = 0.25 * rng.integers(-10, 11, size=theta.shape)
    lambda1, lambda2 = draw(penalties), draw(penalties)
    factor = draw_factor(rng, start)
    return theta, wanted, start, factor, lambda1, lambda2


def pairs_with_penalties(problem):
    """Each pair of such a problem: its slice, and its own two penalties."""
    _, _, start, factor, lambda1, lambda2 = problem
    return zip(slices(start), each(factor, start) * lambda1, each(factor, start) * lambda2, strict=True)


@EXAMPLES
@given(subgradient_problems())
def test_nearest_subgradient_agrees_with_reference(problem):
    found = group_penalty.nearest_subgradient(*problem)
    np.testing.assert_allclose(found, reference.nearest_subgradient(*problem), rtol=1e-13, atol=1e-14)


@EXAMPLES
@given(subgradient_problems(), seeds)
def test_nearest_subgradient_is_a_subgradient(problem, seed):
    theta = problem[0]
    found = group_penalty.nearest_subgradient(*problem)
    rng = np.random.default_rng(seed)
    for s, lambda1, lambda2 in pairs_with_penalties(problem):
        at_theta, u = phi(theta[s], lambda1, lambda2), found[s]
        for x in rng.normal(size=(30, u.size)) * rng.choice([1e-3, 1.0, 100.0], size=(30, 1)):
            assert phi(x, lambda1, lambda2) >= at_theta + u @ (x - theta[s]) - 1e-9
            y = theta[s] + 1e-3 * x
            assert phi(y, lambda1, lambda2) >= at_theta + u @ (y - theta[s]) - 1e-9
        if not theta[s].any():
            assert excess(u, lambda1) <= lambda2**2 + 1e-12


@settings(EXAMPLES, max_examples=60)
@given(subgradient_problems(), seeds)
def test_no_subgradient_is_nearer(problem, seed):
    """Random members of the subdifferential: signs and direction fixed where theta is not zero, free in the rest."""
    theta, wanted = problem[:2]
    found = group_penalty.nearest_subgradient(*problem)
    rng = np.random.default_rng(seed)
    for s, lambda1, lambda2 in pairs_with_penalties(problem):
        t, distance = theta[s], np.linalg.norm(found[s] - wanted[s])
        for _ in range(30):
            near = wanted[s] + rng.normal(size=t.size) * rng.choice([0.01, 0.3, 2.0])
            if t.any():
                other = np.where(
                    t != 0,
                    lambda1 * np.sign(t) + lambda2 * t / np.linalg.norm(t),
                    np.clip(near, -lambda1, lambda1),
                )
            else:
                inner = np.clip(near, -lambda1, lambda1)
                outer = near - inner
                radius = lambda2
                other = inner + outer * min(1.0, radius / max(np.linalg.norm(outer), 1e-300))
            assert distance <= np.linalg.norm(other - wanted[s]) + 1e-12


@EXAMPLES
@given(pairs_of_entries(), penalties, penalties.filter(bool), seeds)
def test_gauge_agrees_with_reference(entries, lambda1, lambda2, seed):
    values, start = entries
    factor = draw_factor(np.random.default_rng(seed), start)
    for first, second in ((lambda1, lambda2), (lambda2, lambda1)):
        found = group_penalty.gauge(values, start, factor, first, second)
        np.testing.assert_allclose(found, reference.gauge(values, start, factor, first, second), rtol=1e-9, atol=1e-12)


@EXAMPLES
@given(pairs_of_entries(st.floats(-3, 3).map(lambda x: round(x, 6))), penalties.filter(bool), penalties.filter(bool))
def test_gauge_puts_the_values_on_the_boundary_of_the_dual_ball(entries, lambda1, lambda2):
    values, start = entries
    for g, s in zip(group_penalty.gauge(values, start, UNIFORM, lambda1, lambda2), slices(start), strict=True):
        if values[s].any():
            assert excess(values[s] / g, lambda1) == pytest.approx(lambda2**2, rel=1e-7)
        else:
            assert g == 0.0


@pytest.mark.parametrize("ratio", [0.0, 1e-12, 1e-6])
def test_gauge_has_all_digits_without_a_coupling_term(ratio):
    """The discriminant of its quadratic is zero there; half of the digits were lost, towards the inside of the ball."""
    rng = np.random.default_rng(0)
    values, lambda1 = rng.normal(size=300), 0.37e-3
    found = group_penalty.gauge(values, np.arange(0, 301, 3), UNIFORM, lambda1, ratio * lambda1)
    largest = np.abs(values).reshape(-1, 3).max(axis=1) / lambda1
    np.testing.assert_allclose(found, largest, rtol=1e-15 + 1.01 * ratio)
    assert (found >= largest * (1.0 - 1.01 * ratio - 1e-15)).all()


def test_gauge_where_nothing_is_penalised_is_infinite():
    values, start = np.array([0.0, 0.0, 1e-9]), np.array([0, 2, 3])
    assert group_penalty.gauge(values, start, UNIFORM, 0.0, 0.0).tolist() == [0.0, np.inf]


def test_gauge_of_one_class_is_the_ratio_to_the_sum_of_the_penalties():
    """K = 1: the threshold is lambda1 + lambda2."""
    assert group_penalty.gauge(*one_pair(-3.0), UNIFORM, 0.5, 1.0)[0] == pytest.approx(2.0)


def test_penalty_kernels_accept_no_pairs_and_pairs_without_entries():
    none, start = np.empty(0), np.zeros(1, dtype=np.int64)
    for at in (start, np.zeros(3, dtype=np.int64)):
        n = len(at) - 1
        assert group_penalty.value(none, at, UNIFORM, 1.0, 1.0).tolist() == [0.0] * n
        assert group_penalty.gauge(none, at, UNIFORM, 1.0, 1.0).tolist() == [0.0] * n
        assert group_penalty.prox(none, at, UNIFORM, np.ones(n), 1.0, 1.0).shape == (0,)
        assert group_penalty.nearest_subgradient(none, none, at, UNIFORM, 1.0, 1.0).shape == (0,)


def test_prox_at_the_edge_of_the_dual_ball_is_exactly_zero():
    values, start = one_pair(1.0 + 0.6, -1.0 - 0.8, 0.3)
    assert group_penalty.prox(values, start, UNIFORM, np.ones(1), 1.0, 1.0).tolist() == [0.0, 0.0, 0.0]
    assert group_penalty.prox(values * (1 + 1e-9), start, UNIFORM, np.ones(1), 1.0, 1.0).any()


@EXAMPLES
@given(seeds, st.integers(1, 4), penalties, penalties.filter(bool))
def test_prox_is_zero_inside_the_dual_ball_and_only_there(seed, n_classes, lambda1, lambda2):
    values, start = one_pair(*np.random.default_rng(seed).normal(size=n_classes))
    on_the_edge = values / group_penalty.gauge(values, start, UNIFORM, lambda1, lambda2)[0]
    assert not group_penalty.prox(0.97 * on_the_edge, start, UNIFORM, np.ones(1), lambda1, lambda2).any()
    assert group_penalty.prox(1.03 * on_the_edge, start, UNIFORM, np.ones(1), lambda1, lambda2).any()


def test_prox_sends_zero_and_unpenalised_values_to_themselves():
    values, start = one_pair(0.0, 2.0)
    assert group_penalty.prox(values, start, UNIFORM, np.ones(1), 0.0, 0.0).tolist() == [0.0, 2.0]
    assert group_penalty.prox(0 * values, start, UNIFORM, np.ones(1), 0.0, 1.0).tolist() == [0.0, 0.0]


# dense


@st.composite
def stacks(draw):
    """Definite and indefinite symmetric matrices of one size, mixed; eigenvalues kept away from zero."""
    b, m = draw(st.integers(1, 8)), draw(st.integers(0, 5))
    rng = np.random.default_rng(draw(seeds))
    definite = rng.random(m) < 0.6
    stack = np.empty((m, b, b))
    for matrix, good in zip(stack, definite, strict=True):
        Q = np.linalg.qr(rng.normal(size=(b, b)))[0]
        eigenvalues = rng.uniform(0.2, 3.0, size=b)
        if not good:
            eigenvalues[rng.integers(b)] *= -1
        matrix[:] = (Q * eigenvalues) @ Q.T
        matrix[:] = 0.5 * (matrix + matrix.T)
    return stack, definite


def invert_stack(stack):
    m, b, _ = stack.shape
    inverse, logdet, ok = np.full(stack.size, np.nan), np.zeros(m), np.zeros(m, dtype=bool)
    offset, size = np.arange(m + 1) * b * b, np.full(m, b)
    dense.factor_and_invert(stack.ravel(), offset, size, np.ones(m, dtype=bool), inverse, logdet, ok)
    return inverse.reshape(stack.shape), logdet, ok


@EXAMPLES
@given(stacks())
def test_factor_and_invert_agrees_with_reference_on_the_definite_ones(problem):
    stack, definite = problem
    given_stack = stack.copy()
    inverse, logdet, ok = invert_stack(stack)
    expected = reference.factor_and_invert(stack)
    np.testing.assert_array_equal(ok, definite)
    np.testing.assert_array_equal(ok, expected[2])
    np.testing.assert_array_equal(stack, given_stack)
    for found, wanted in zip((inverse, logdet), expected, strict=False):
        np.testing.assert_allclose(found[ok], wanted[ok], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(
        inverse[ok] @ stack[ok], np.broadcast_to(np.eye(stack.shape[1]), stack[ok].shape), atol=1e-10
    )
    np.testing.assert_array_equal(inverse[ok], np.swapaxes(inverse[ok], 1, 2))


@EXAMPLES
@given(seeds, st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_trace_and_squares_of_products(seed, sizes):
    rng, size = np.random.default_rng(seed), np.sort(sizes)
    offset = np.concatenate([[0], np.cumsum(size**2)])
    draws = [(rng.normal(size=(b, b)) * (rng.random((b, b)) < 0.5), rng.normal(size=(b, b))) for b in size]
    R, Theta = (np.concatenate([pair[side].ravel() for pair in draws]) for side in range(2))
    trace, squares = np.empty(len(size)), np.empty(len(size))
    dense.trace_and_squares(R, Theta, offset, size, trace, squares)
    products = [left @ right for left, right in draws]
    np.testing.assert_allclose(trace, [np.trace(P) for P in products], atol=1e-10)
    np.testing.assert_allclose(squares, [np.trace(P @ P) for P in products], atol=1e-9)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan])
def test_singular_negative_and_nan_matrices_are_not_definite(bad):
    stack = np.stack([np.eye(3), np.eye(3), np.eye(3)])
    stack[1, 2, 2] = bad
    assert invert_stack(stack)[-1].tolist() == [True, False, True]


def test_an_indefinite_matrix_does_not_spoil_the_next_one():
    rng = np.random.default_rng(0)
    A = np.cov(rng.normal(size=(4, 30)))
    alone = invert_stack(A[None])
    mixed = invert_stack(np.stack([-A, A, np.zeros((4, 4)), A]))
    for found, expected in zip(mixed, alone, strict=True):
        np.testing.assert_array_equal(found[1], expected[0])
        np.testing.assert_array_equal(found[3], expected[0])


# pair_index


def blocks_from(labels):
    """Blocks of two or more, class by class: numbers, start, members, class."""
    block_of = np.full(labels.shape, -1, dtype=np.int64)
    members, classes = [], []
    for k, row in enumerate(labels):
        for label in np.unique(row):
            inside = np.flatnonzero(row == label)
            if len(inside) > 1:
                block_of[k, inside] = len(members)
                members.append(inside)
                classes.append(k)
    start = np.concatenate([[0], np.cumsum([len(m) for m in members])]).astype(np.int64)
    flat = np.concatenate([*members, np.empty(0, dtype=np.int64)]).astype(np.int64)
    return block_of, start, flat, np.array(classes, dtype=np.int64), members


@EXAMPLES
@given(seeds, st.integers(1, 4), st.integers(1, 9), st.integers(1, 6))
def test_index_pairs_lists_every_shared_pair_in_order(seed, n_classes, p, n_labels):
    labels = np.random.default_rng(seed).integers(n_labels, size=(n_classes, p))
    block_of, start, flat, classes, members = blocks_from(labels)
    sizes = np.diff(start)
    offset = np.concatenate([[0], np.cumsum(sizes * sizes)]).astype(np.int64)
    slot_of = np.full(labels.shape, -1, dtype=np.int64)
    for block, inside in enumerate(members):
        slot_of[classes[block], inside] = np.arange(len(inside))
    n_entries = int((sizes * (sizes - 1) // 2).sum())
    pair_start, entries = np.full(n_entries + 1, -1), np.full((3, n_entries), -1)
    scratch = np.empty((3, n_classes), dtype=np.int64)
    n_pairs = pair_index.index_pairs(block_of, slot_of, start, flat, offset, scratch, pair_start, entries)
    pair_start, (upper, lower, entry_block) = pair_start[: n_pairs + 1], entries

    expected_start, expected_upper, expected_lower, expected_block = [0], [], [], []
    for i, j in itertools.combinations(range(p), 2):
        for k in range(n_classes):
            block = block_of[k, i]
            if block >= 0 and block == block_of[k, j]:
                a, b, size = slot_of[k, i], slot_of[k, j], sizes[block]
                expected_upper.append(offset[block] + a * size + b)
                expected_lower.append(offset[block] + b * size + a)
                expected_block.append(block)
        if len(expected_upper) > expected_start[-1]:
            expected_start.append(len(expected_upper))
    assert (pair_start.tolist(), upper.tolist(), lower.tolist()) == (expected_start, expected_upper, expected_lower)
    assert entry_block.tolist() == expected_block
    diagonal = [offset[b] + s * (size + 1) for b, size in enumerate(sizes) for s in range(size)]
    assert sorted([*upper, *lower, *diagonal]) == list(range(offset[-1]))


# forest


@settings(EXAMPLES, max_examples=200)
@given(seeds, st.integers(1, 5), penalties, penalties)
def test_pair_covariance_meets_the_optimality_conditions(seed, n_classes, lambda1, lambda2):
    """``w (W - S)`` is a subgradient of the penalty at ``theta = -W / (W_ii W_jj - W^2)``."""
    rng = np.random.default_rng(seed)
    weight = rng.choice([0.5, 1.0, 2.0], size=n_classes)
    S = (lambda1 + rng.uniform(0.01, 2.0, size=n_classes)) / weight * rng.choice([-1, 1], size=n_classes)
    product = S**2 * rng.choice([1.001, 1.5, 10.0], size=n_classes)
    W = pair_covariance(S, weight, product, np.full(len(S), lambda1), lambda2)
    assert (product > W**2).all()
    theta, u = -W / (product - W**2), weight * (W - S)
    if theta.any():
        expected = lambda1 * np.sign(theta) + lambda2 * theta / np.linalg.norm(theta)
        np.testing.assert_allclose(u, expected, rtol=1e-9, atol=1e-9)
    else:
        assert excess(u, lambda1) <= lambda2**2 * (1 + 1e-12)


# newton


@settings(EXAMPLES, max_examples=200)
@given(seeds, st.integers(1, 5), penalties, penalties)
def test_update_of_a_pair_meets_the_optimality_conditions(seed, n, lambda1, lambda2):
    """``a (c - x)`` is a subgradient of the penalty at x; coordinates beyond n are left alone."""
    rng = np.random.default_rng(seed)
    target = 0.5 * rng.integers(-6, 7, size=n + 1)
    curvature = rng.choice([0.01, 0.5, 1.0, 30.0], size=n + 1)
    x = np.full(n + 1, 7.0)
    none = np.empty(0, dtype=np.int64)
    work = PenaltyWorkspace(np.empty((1, n)), none[None])
    pair = PairClasses(none, n, 1.0, np.full(n, lambda1), work)
    update(GroupPair(lambda1, lambda2), curvature, curvature * target, pair, x)
    assert x[n] == 7.0
    u, start = (curvature * (target - x))[:n], np.array([0, n])
    nearest = group_penalty.nearest_subgradient(x[:n].copy(), u, start, UNIFORM, lambda1, lambda2)
    np.testing.assert_allclose(u, nearest, rtol=1e-9, atol=1e-9)
