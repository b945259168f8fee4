"""Groups in sparse storage: the solutions, gaps and proofs of dense blocks, for every penalty of pairs."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jointglasso as jgl
from jointglasso import config, solvers
from jointglasso.blocks import sparse_factor
from jointglasso.engine import solve_sparse_task, solve_task
from tests.helpers.sparse_designs import EVERYTHING_SPARSE, chain, grid_edges, markov_field, random_edges, tree_edges


@pytest.fixture
def everything_is_sparse(monkeypatch):
    """Every group is solved in sparse storage."""
    for constant in EVERYTHING_SPARSE:
        monkeypatch.setattr(*constant)


def both(*arguments, **options):
    """Solved with dense blocks, and in sparse storage."""
    dense = jgl.solve(*arguments, **options)
    with pytest.MonkeyPatch.context() as patch:
        for constant in EVERYTHING_SPARSE:
            patch.setattr(*constant)
        sparse = jgl.solve(*arguments, **options)
    assert set(sparse.methods) <= {"sparse", "warm start"}
    assert "sparse" not in dense.methods
    return dense, sparse


def require_agreement(dense, sparse):
    """Bounds that hold for one another, and edges certified in sparse storage that dense blocks have as well."""
    assert dense.status and sparse.status
    assert sparse.objective - sparse.certificate.gap <= dense.objective
    assert dense.objective - dense.certificate.gap <= sparse.objective
    c = sparse.certificate
    assert c.edges_present + c.edges_absent + c.edges_undetermined == sum(
        getattr(dense.certificate, name) for name in ("edges_present", "edges_absent", "edges_undetermined")
    )
    for one, two in ((dense.certificate, c), (c, dense.certificate)):
        assert one.edges_present + two.edges_absent <= c.edges_present + c.edges_absent + c.edges_undetermined
    for k, (one, two) in enumerate(zip(dense.precision, sparse.precision, strict=True)):
        assert np.abs((one - two).toarray()).max() < 1e-2
        assert not (sparse.certified[k].toarray() & (one.toarray() == 0.0)).any()


def samples(p=60, n=60, n_classes=2, seed=0, n_edges=80):
    rng = np.random.default_rng(seed)
    edges = random_edges(p, n_edges, rng)
    return [markov_field(p, edges, n, 0.8, rng) for _ in range(n_classes)]


def weights_of_pairs(seed, *extreme, p=60):
    """(p, p): weights below and above 1, free pairs, and `extreme` weights."""
    V = np.triu(np.random.default_rng(seed).choice([1.0, 1.0, 0.0, 0.5, 2.0, *extreme], (p, p)))
    return V + np.triu(V, 1).T


@pytest.mark.parametrize(
    ("penalty", "options"),
    [
        ("group", {}),
        ("group", {"penalize_diagonal": False, "weights": [1.0, 0.5, 2.0]}),
        ("group", {"screening": "hybrid"}),
        ("maximum", {}),
        ("fused", {}),
        ("chain", {"penalize_diagonal": False}),
        ("laplacian", {}),
        ("group", {"pair_weights": weights_of_pairs(0, np.inf)}),
        ("maximum", {"pair_weights": {(0, 1): np.inf}}),
        (
            "fused",
            {"pair_weights": [weights_of_pairs(k, np.inf) for k in range(3)], "coupling_weights": weights_of_pairs(3)},
        ),
    ],
)
@pytest.mark.parametrize("lambdas", [(0.25, 0.05), (0.32, 0.0), (0.2, 0.2)])
def test_the_solution_is_that_of_dense_blocks(penalty, lambdas, options):
    source = jgl.SampleCovariance(samples(n_classes=3))
    dense, sparse = both(source, *lambdas, penalty=penalty, tol=1e-8, **options)
    require_agreement(dense, sparse)
    if dense.edge_clusters is not None:
        assert sparse.edge_clusters is not None


def test_a_hub_does_not_make_steps_short(everything_is_sparse):
    """Curvatures of a common factor exceed the diagonal of the Hessian: 92 steps, and 531 with lengths above 0.05."""
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(60, 1))
    X = rng.normal(size=(60, 150)) + factor * rng.uniform(0.0, 1.0, 150)
    solution = jgl.solve(jgl.SampleCovariance([X]), 0.3, 0.0, tol=1e-6, screening="hybrid")
    assert set(solution.methods) == {"sparse"} and solution.n_iter < 200


def test_concave_penalties():
    dense, sparse = both(jgl.SampleCovariance(samples()), 0.25, 0.05, penalty_shape="scad", tol=1e-8)
    first, last = (solution.parameters["concave_objectives"] for solution in (dense, sparse))
    assert last[-1] < last[0] and last == pytest.approx(first, rel=1e-5)


@settings(max_examples=12)
@given(
    seed=st.integers(0, 10_000),
    p=st.integers(5, 60),
    degree=st.floats(0.5, 5.0),
    n_classes=st.integers(1, 3),
    fraction=st.floats(0.0, 1.0),
    penalty=st.sampled_from(["group", "fused"]),
)
def test_random_sparse_graphs(seed, p, degree, n_classes, fraction, penalty):
    data = samples(p, 40, n_classes, seed, int(degree * p / 2) + 1)
    total = 0.45
    lambdas = total * (1.0 - 0.7 * fraction), 0.7 * total * fraction
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_factor, "_TAIL_FRACTION", 0.25 + 0.75 * fraction)
        dense, sparse = both(jgl.SampleCovariance(data), *lambdas, penalty=penalty, tol=1e-8)
    require_agreement(dense, sparse)


def test_covariance_matrices_and_warm_starts(everything_is_sparse):
    source = jgl.SampleCovariance(samples())
    S = np.stack([source.block(k, np.arange(60)) for k in range(2)])
    first = jgl.solve(S, 0.3, 0.05, tol=1e-6)
    again = jgl.solve(S, 0.3, 0.05, tol=1e-6, warm_start=first)
    assert again.status and again.n_iter <= first.n_iter
    indefinite = [np.eye(60), np.eye(60)]
    indefinite[1][:6, :6] = -0.9
    np.fill_diagonal(indefinite[1], 1.0)
    with pytest.raises(ValueError, match="positive definite"):
        jgl.solve(S, 0.2, 0.05, warm_start=indefinite)


def test_pairs_below_the_thresholds_of_the_scan_become_edges():
    """S_ac = -0.16 is no candidate at lambda1 = 0.2, but W_ac = 0.3^2 / 1.2 = 0.075 without the edge: it is needed."""
    part, n_parts = np.array([[1.0, 0.5, -0.16], [0.5, 1.0, 0.5], [-0.16, 0.5, 1.0]]), 7
    S = np.kron(np.eye(n_parts), part)
    first = 3 * np.arange(1, n_parts)
    S[first - 1, first] = S[first, first - 1] = 0.22
    dense, sparse = both(S[None], 0.2, 0.0, tol=1e-9)
    require_agreement(dense, sparse)
    Theta = sparse.precision[0].toarray()
    assert dense.n_edges == sparse.n_edges and (Theta[3 * np.arange(n_parts), 3 * np.arange(n_parts) + 2] != 0.0).all()


def test_a_path_scans_once_and_agrees(everything_is_sparse):
    source = jgl.SampleCovariance(samples())
    points = [(0.4, 0.05), (0.3, 0.05), (0.25, 0.0)]
    for solution, point in zip(jgl.solve_path(source, points, tol=1e-8), points, strict=True):
        alone = jgl.solve(source, *point, tol=1e-8)
        assert solution.objective == pytest.approx(alone.objective, rel=3e-8)
        assert set(solution.methods) <= {"sparse", "warm start"}


def test_select_chooses_the_same_penalties():
    chosen = []
    for constants in ([], EVERYTHING_SPARSE):
        with pytest.MonkeyPatch.context() as patch:
            for constant in constants:
                patch.setattr(*constant)
            chosen.append(jgl.select(samples(), grid=[(0.4, 0.05), (0.3, 0.05), (0.25, 0.05)]))
    dense, sparse = (result.solution for result in chosen)
    assert dense.n_edges == sparse.n_edges and sum(dense.n_edges) > 0
    assert "sparse" in sparse.methods and "sparse" not in dense.methods


def test_executor_and_checkpoint(everything_is_sparse, tmp_path):
    source = jgl.SampleCovariance(samples())
    alone = jgl.solve(source, 0.3, 0.05, tol=1e-8)
    with ThreadPoolExecutor(2) as pool:
        in_processes = jgl.solve(source, 0.3, 0.05, tol=1e-8, executor=pool, checkpoint=tmp_path)
    assert in_processes.objective == pytest.approx(alone.objective, rel=1e-12)
    resumed = jgl.solve(source, 0.3, 0.05, tol=1e-8, checkpoint=tmp_path)
    assert resumed.n_iter <= 1 and resumed.status


def test_many_steps_lead_to_dense_blocks(everything_is_sparse, monkeypatch):
    """The blocks stay in memory for the certificate, which needs more than Theta where Theta is badly conditioned."""
    attempts = []

    def attempt(item, *arguments):
        attempts.append((item, solve_sparse_task.solve_sparse_task(item, *arguments)))
        return attempts[-1][1]

    monkeypatch.setattr(solve_task, "solve_sparse_task", attempt)
    monkeypatch.setattr(solvers.sparse, "_MAX_STEPS", 1)
    solution = jgl.solve(jgl.SampleCovariance(samples()), 0.25, 0.05, tol=1e-8)
    assert solution.status and not set(solution.methods) <= {"sparse", "warm start"}
    for item, rest in attempts:
        assert item.keep_blocks and rest.keep_blocks and not rest.is_sparse


def test_a_callback_stops_with_a_gap(everything_is_sparse):
    with pytest.warns(jgl.ConvergenceWarning):
        solution = jgl.solve(jgl.SampleCovariance(samples()), 0.25, 0.05, tol=1e-10, callback=lambda news: True)
    assert solution.status.code == "callback"


def test_prove_goes_on_until_the_weakest_edge_is_certified(everything_is_sparse):
    source = jgl.SampleCovariance(samples(n_classes=3))
    rough = jgl.solve(source, 0.25, 0.05, tol=1e-3, screening="hybrid")
    assert rough.certificate.edges_present < sum(rough.n_edges) and rough.certificate.edge_gap < rough.certificate.gap
    proved = jgl.solve(source, 0.25, 0.05, tol=1e-3, screening="hybrid", prove=True)
    assert set(proved.methods) == {"sparse"}
    assert proved.status and proved.certificate.edges_present == sum(proved.n_edges)
    assert proved.certificate.gap <= proved.certificate.edge_gap


def test_sparse_storage_fits_where_dense_blocks_do_not(monkeypatch):
    source = jgl.SampleCovariance([chain(1600, 300, 0.8, np.random.default_rng(0))])
    with pytest.raises(jgl.NotEnoughMemory), monkeypatch.context() as patch:
        patch.setattr(config, "SPARSE_BLOCK", 10**9)
        jgl.solve(source, 0.4, 0.0, max_memory=2e7)
    assert jgl.plan(source, 0.4, 0.0).memory < 2e7
    solution = jgl.solve(source, 0.4, 0.0, max_memory=2e7)
    assert solution.status and "sparse" in solution.methods


def stationary_chain(phi, seed, p=2500, n=300):
    """(n, p): autoregressive process with innovations of variance 1."""
    X = np.random.default_rng(seed).standard_normal((p, n))
    X[0] /= np.sqrt(1.0 - phi * phi)
    for t in range(1, p):
        X[t] += phi * X[t - 1]
    return X.T


@pytest.mark.parametrize(
    ("correlations", "lambdas", "objective", "n_edges"),
    [([0.5], (0.35, 0.0), 3697.14953, 2790), ([0.5, 0.6], (0.3, 0.08), 7402.24629, 7196)],
)
def test_objectives_of_an_independent_implementation(correlations, lambdas, objective, n_edges):
    """Objectives, and edges up to those whose values are tiny, of the prototype of the method and of dense blocks."""
    data = [stationary_chain(phi, seed) for seed, phi in enumerate(correlations)]
    solution = jgl.solve(jgl.SampleCovariance(data), *lambdas, tol=1e-9)
    assert set(solution.methods) == {"sparse"} and solution.status
    assert solution.objective == pytest.approx(objective, abs=2e-5)
    assert abs(sum(solution.n_edges) - n_edges) <= 5


@pytest.mark.slow
def test_a_hundred_thousand_connected_variables_in_little_memory():
    script = Path(__file__).parents[2] / "benchmarks" / "sparse_storage.py"
    case = [sys.executable, script, "--one", "--graphs", "chain", "--sizes", "100000", "--classes", "1"]
    result = json.loads(subprocess.run(case, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    assert result["largest"] == 100_000 and result["methods"] == {"sparse": 1}
    assert result["gap"] <= 1e-8 and result["peak"] < 1536


def designs():
    rng = np.random.default_rng(0)
    p = 2500
    yield "chain", [chain(p, 300, 0.6, rng)], (0.35, 0.0), {}
    yield "two chains", [chain(p, 300, phi, rng) for phi in (0.55, 0.65)], (0.3, 0.08), {}
    yield "grid", [markov_field(p, grid_edges(50), 300, 0.95, rng)], (0.3, 0.0), {"penalize_diagonal": False}
    tree = tree_edges(p, 250, rng)
    yield "trees", [markov_field(p, tree, 300, 0.95, rng) for _ in range(3)], (0.28, 0.05), {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "data", "lambdas", "options"), list(designs()), ids=lambda x: x if type(x) is str else ""
)
def test_large_designs(name, data, lambdas, options, monkeypatch):
    source = jgl.SampleCovariance(data)
    sparse = jgl.solve(source, *lambdas, tol=1e-8, **options)
    assert "sparse" in sparse.methods
    monkeypatch.setattr(config, "SPARSE_BLOCK", 10**9)
    dense = jgl.solve(source, *lambdas, tol=1e-9, **options)
    require_agreement(dense, sparse)
    excess = sparse.objective - dense.objective
    assert excess <= sparse.certificate.gap
    assert sparse.certificate.gap <= 2.0 * excess + dense.certificate.gap + 1e-9 * abs(dense.objective)
