"""The rows of docs/coming_from.md: what other packages compute is what the calls named beside them compute."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.penalties.shapes import as_shape

ROOT = Path(__file__).resolve().parents[2]
JGL = json.loads((Path(__file__).parents[1] / "data" / "jgl_runs.json").read_text("utf-8"))
SAMPLES = [np.array(X) for X in JGL["samples"]]


def symmetric(upper):
    Theta = np.zeros((5, 5))
    Theta[np.triu_indices(5)] = upper
    return Theta + np.triu(Theta, 1).T


def answer_of_jgl(run):
    return np.stack([symmetric(upper) for upper in run["theta"]])


def our_answer(run, **changed):
    n_classes = len(run["theta"])
    S = jgl.SampleCovariance(
        {str(k): SAMPLES[k] for k in range(n_classes)}, scale="correlation" if run["standardized"] else "covariance"
    )
    options = {
        "penalty": run["penalty"], "penalize_diagonal": run["penalize_diagonal"], "tol": 1e-12,
        "fuse_diagonal": run["penalty"] == "fused",
        "weights": "sample_size" if run["weights"] == "sample.size" else "equal",
    } | changed  # fmt: skip
    solution = jgl.solve(S, run["lambda1"], run["lambda2"], **options)
    return np.stack([Theta.toarray() for Theta in solution.precision])


def name_of(run):
    return "-".join(str(run[key]) for key in ("penalty", "weights", "penalize_diagonal", "standardized"))


def without_counterpart(run):
    """JGL puts lambda2 on the diagonal, too, where the group penalty penalises it."""
    return run["penalty"] == "group" and run["penalize_diagonal"]


@pytest.mark.parametrize("run", [run for run in JGL["runs"] if not without_counterpart(run)], ids=name_of)
def test_jgl_has_our_answer(run):
    theirs, ours = answer_of_jgl(run), our_answer(run)
    assert np.abs(theirs - ours).max() < 1e-6
    assert np.array_equal(theirs != 0, ours != 0)


@pytest.mark.parametrize("run", [run for run in JGL["runs"] if run["weights"] == "sample.size"], ids=name_of)
def test_weights_of_jgl_are_shares_of_the_samples(run):
    """Penalties in units of n_k, as Danaher's paper writes them, would be another problem."""
    n_classes = len(run["theta"])
    n = np.array([len(X) for X in SAMPLES[:n_classes]])
    if without_counterpart(run):
        pytest.skip("no counterpart here")
    assert np.abs(our_answer(run, weights=(n / n.sum()).tolist()) - answer_of_jgl(run)).max() < 1e-6
    assert np.abs(our_answer(run, weights=(n / n.mean()).tolist()) - answer_of_jgl(run)).max() > 1e-2


NILEARN = json.loads((Path(__file__).parents[1] / "data" / "nilearn_runs.json").read_text("utf-8"))


@pytest.mark.parametrize("run", NILEARN["runs"], ids=lambda run: f"alpha={run['alpha']}")
def test_nilearn_has_our_answer(run):
    """`GroupSparseCovariance`, which sets no entry to an exact zero unless all classes have none."""
    samples = {str(k): np.array(X) for k, X in enumerate(NILEARN["samples"])}
    S = jgl.SampleCovariance(samples, scale="covariance")
    solution = jgl.solve(S, 0.0, run["alpha"], weights="sample_size", penalize_diagonal=False, tol=1e-12)
    for Theta, upper in zip(solution.precision, run["precisions"], strict=True):
        theirs, ours = np.array(upper), Theta.toarray()[np.triu_indices(6)]
        assert np.abs(theirs - ours).max() < 2e-6
        assert np.array_equal(theirs != 0, ours != 0)
    equal = jgl.solve(S, 0.0, run["alpha"], weights="equal", penalize_diagonal=False)
    assert np.abs(equal.precision[0].toarray()[np.triu_indices(6)] - run["precisions"][0]).max() > 1e-2


PSYCHOLOGY = json.loads((Path(__file__).parents[1] / "data" / "psychology_runs.json").read_text("utf-8"))
PEOPLE = [np.array(X) for X in PSYCHOLOGY["samples"]]


def by_columns(upper):
    """Matrix of 8 variables from its upper triangle by columns."""
    Theta = np.zeros((8, 8))
    Theta.T[np.tril_indices(8)] = upper
    return Theta + np.triu(Theta, 1).T


@pytest.mark.parametrize("run", PSYCHOLOGY["several"], ids=lambda run: run["penalty"])
def test_estimate_group_network_has_our_answer_at_its_choice(run):
    """With 12 decimals in its rule for stopping; the partial correlations are those that it reports."""
    samples = {str(k): X for k, X in enumerate(PEOPLE)}
    options = {"penalty": "fused", "fuse_diagonal": True} if run["penalty"] == "fused" else {}
    source = jgl.SampleCovariance(samples, scale="correlation")
    solution = jgl.solve(source, run["lambda1"], run["lambda2"], penalize_diagonal=False, tol=1e-12, **options)
    networks = jgl.JointNetworks.from_solution(solution)
    for k, (theta, network) in enumerate(zip(run["theta"], run["network"], strict=True)):
        assert np.abs(solution.precision[k].toarray() - by_columns(theta)).max() < 1e-5
        ours = networks.partial_correlations(str(k)).to_numpy()
        assert np.abs(ours - np.eye(8) - by_columns(network)).max() < 1e-5


def slopes_of_ggmncv(run):
    """Penalties of the pairs (8, 8) that make the last convex problem of its local linear approximation."""
    size, level = np.abs(by_columns(run["theta"])), run["lambda"]
    if run["penalty"] == "scad":
        return np.where(size <= level, level, np.maximum(3.7 * level - size, 0.0) / 2.7)
    return np.maximum(level - size / 2.0, 0.0) if run["penalty"] == "mcp" else np.full_like(size, level)


@pytest.mark.parametrize("run", PSYCHOLOGY["one"], ids=lambda run: run["penalty"])
def test_ggmncv_minimises_our_problem_with_these_weights(run):
    """Its solver stops at a change of 1e-4: our objective is at most its own."""
    S, theirs = np.corrcoef(PEOPLE[0].T), by_columns(run["theta"])
    penalty = slopes_of_ggmncv(run) * (1.0 - np.eye(8))

    def objective(Theta):
        return (S * Theta).sum() - np.linalg.slogdet(Theta)[1] + (penalty * np.abs(Theta)).sum()

    weights = np.where(np.eye(8) > 0, 1.0, penalty / run["lambda"])
    ours = jgl.solve([S], run["lambda"], 0.0, pair_weights=weights, penalize_diagonal=False, tol=1e-12).precision[0]
    assert objective(ours.toarray()) <= objective(theirs) + 1e-10
    assert np.abs(ours.toarray() - theirs).max() < 5e-3
    if run["penalty"] != "lasso":  # after six convex solves, slopes of 0.01 and more
        a = {"scad": 3.7, "mcp": 2.0}[run["penalty"]]
        call = {"penalty_shape": run["penalty"], "shape_parameter": a, "penalize_diagonal": False}
        whole = jgl.solve([S], run["lambda"], 0.0, **call).precision[0].toarray()

        def concave(Theta):
            sizes = np.abs(Theta[~np.eye(8, dtype=bool)]) / run["lambda"]
            value = run["lambda"] ** 2 * as_shape(run["penalty"], a).value(sizes).sum()
            return (S * Theta).sum() - np.linalg.slogdet(Theta)[1] + value

        assert concave(whole) <= concave(theirs) + 1e-3


def jgl_objective(Theta, run):
    """JGL's `gcrit` with minus: lambda1 and lambda2 on all entries, or on those off the diagonal."""
    n_classes = len(Theta)
    n = np.array([len(X) for X in SAMPLES[:n_classes]])
    w = n / n.sum() if run["weights"] == "sample.size" else np.ones(n_classes)
    S = [np.cov(X.T, bias=True) for X in SAMPLES[:n_classes]]
    counted = np.ones((5, 5)) if run["penalize_diagonal"] else 1.0 - np.eye(5)
    fit = sum(w[k] * ((S[k] * Theta[k]).sum() - np.linalg.slogdet(Theta[k])[1]) for k in range(n_classes))
    size, norm = np.abs(Theta).sum(axis=0), np.sqrt((Theta**2).sum(axis=0))
    return fit + (counted * (run["lambda1"] * size + run["lambda2"] * norm)).sum()


@pytest.mark.parametrize("run", [run for run in JGL["runs"] if without_counterpart(run)], ids=name_of)
def test_penalised_diagonals_of_jgl_pay_lambda2_too(run):
    theirs, ours = answer_of_jgl(run), our_answer(run)
    assert np.abs(theirs - ours).max() > 1e-2
    assert jgl_objective(theirs, run) < jgl_objective(ours, run)
    # Its diagonal has lambda1 + lambda2 theta_kii / |theta_ii| where ours has lambda1.
    n = np.array([len(X) for X in SAMPLES[: len(theirs)]])
    w = n / n.sum() if run["weights"] == "sample.size" else np.ones(len(theirs))
    diagonal = np.einsum("kii->ki", theirs)
    for k, Theta in enumerate(theirs):
        expected = run["lambda1"] + run["lambda2"] * diagonal[k] / np.sqrt((diagonal**2).sum(axis=0))
        excess = w[k] * (np.diag(np.linalg.inv(Theta)) - SAMPLES[k].var(axis=0))
        assert excess == pytest.approx(expected, abs=1e-5)


def correlations(n_classes=3):
    return np.stack([np.corrcoef(X.T) for X in SAMPLES[:n_classes]])


@pytest.mark.parametrize(("regularizer", "penalty"), [("GGL", "group"), ("FGL", "chain")])
def test_gglasso_has_our_answer(regularizer, penalty):
    solver = pytest.importorskip("gglasso.solver.admm_solver")
    S = correlations()
    start = np.stack([np.eye(5)] * 3)
    found, _ = solver.ADMM_MGL(S, 0.15, 0.1, regularizer, start, tol=1e-12, rtol=1e-12, max_iter=5000, verbose=False)
    ours = jgl.solve(S, 0.15, 0.1, penalty=penalty, penalize_diagonal=False, tol=1e-12)
    assert np.abs(found["Theta"] - np.stack([Theta.toarray() for Theta in ours.precision])).max() < 1e-5


def test_scikit_learn_has_our_answer():
    covariance = pytest.importorskip("sklearn.covariance")
    S = correlations(1)[0]
    _, theirs = covariance.graphical_lasso(S, 0.15, tol=1e-10, enet_tol=1e-10, max_iter=1000)
    ours = jgl.solve([S], 0.15, 0.0, penalize_diagonal=False, tol=1e-12).precision[0].toarray()
    assert np.abs(theirs - ours).max() < 1e-5


def test_time_graphical_lasso_is_a_chain_with_compared_diagonals():
    """The objective of TVGL with psi = l1, written out: n_t in front of the likelihood, all differences compared."""
    cp = pytest.importorskip("cvxpy")
    S, n, alpha, beta = correlations(), np.array([60.0, 30.0, 40.0]), 9.0, 4.0
    Theta = [cp.Variable((5, 5), PSD=True) for _ in range(3)]
    off = 1.0 - np.eye(5)
    value = sum(n[t] * (cp.trace(S[t] @ Theta[t]) - cp.log_det(Theta[t])) for t in range(3))
    value += alpha * sum(cp.sum(cp.abs(cp.multiply(off, Theta[t]))) for t in range(3))
    value += beta * sum(cp.sum(cp.abs(Theta[t + 1] - Theta[t])) for t in range(2))
    problem = cp.Problem(cp.Minimize(value))
    problem.solve(solver=cp.CLARABEL)
    source = jgl.DenseCovariance(S, sample_sizes=n.astype(int).tolist())
    # Everything divided by the number of samples: weights="sample_size" are n_t / sum n.
    total = n.sum()
    ours = jgl.solve(
        source, alpha / total, beta / total, penalty="chain", weights="sample_size", penalize_diagonal=False,
        fuse_diagonal=True, tol=1e-11,
    )  # fmt: skip
    assert ours.objective * total == pytest.approx(problem.value, rel=1e-6)
    for t in range(3):
        assert np.abs(ours.precision[t].toarray() - Theta[t].value).max() < 1e-3


def test_calls_that_the_page_names_exist():
    text = (ROOT / "docs" / "coming_from.md").read_text("utf-8")
    here = [line.split("|")[3] for line in text.splitlines() if line.startswith("| ") and line.count("|") == 4]
    names = set(re.findall(r"`(?:jgl\.)?([a-zA-Z_]+(?:\.[a-zA-Z_]+)?)\(", " ".join(here)))
    assert {"solve", "select", "SampleCovariance"} <= names
    for name in names:
        found = jgl
        for part in name.split("."):
            found = getattr(found, part)
        assert callable(found)
