"""Every result prints itself as a short table and shows itself in a notebook, with nothing from outside."""

from __future__ import annotations

import numpy as np
import pytest

import jointglasso as jgl


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6))
    X[:, 1] += 0.8 * X[:, 0]
    X[:40, 3] += 0.9 * X[:40, 2]
    return X, np.repeat(["ill", "<well>"], 40)


@pytest.fixture(scope="module")
def results(data):
    X, y = data
    source = jgl.SampleCovariance.from_labels(X, y, scale="correlation")
    penalties = {"lambda1": 0.2, "lambda2": 0.05}
    solution = jgl.solve(source, 0.2, 0.05)
    return {
        "Solution": solution,
        "JointNetworks": jgl.JointNetworks.from_solution(solution),
        "SelectionResult": jgl.select(X, y),
        "Inference": jgl.infer(X, y),
        "NetworkTest": jgl.network_test(X, y, n_permutations=19, random_state=0),
        "NetworkBootstrap": jgl.bootstrap_network(X, y, n_resamples=20, random_state=0),
        "CentralityStability": jgl.centrality_stability(X, y, n_resamples=4, random_state=0),
        "Predictability": jgl.predictability(X, y),
        "EdgeStability": jgl.edge_stability(X, y, n_subsamples=4, random_state=0, **penalties),
        "ComponentCurve": jgl.component_curve(source, 0.3),
        "Plan": jgl.plan(source, 0.2, 0.05),
        "Certificate": solution.certificate,
        "Partition": solution.partition,
        "LambdaGrid": jgl.lambda_grid(source),
        "Refit": jgl.refit(source, solution),
        "LowRank": jgl.solve(source, 0.2, 0.0, penalize_diagonal=False, latent=0.4).low_rank,
    }


#: A word that only the table of each result has.
WORDS = {
    "Solution": "objective", "JointNetworks": "only here", "SelectionResult": "Chosen", "Inference": "q_value",
    "NetworkTest": "p_familywise", "NetworkBootstrap": "found", "CentralityStability": "expected influence",
    "EdgeStability": "mean edges", "Predictability": "the others explain",
    "ComponentCurve": "largest", "Plan": "independent",
    "Certificate": "optimum", "Partition": "isolated", "LambdaGrid": "similarity",
    "Refit": "residual", "LowRank": "latent variables",
}  # fmt: skip


#: Public classes that are given to functions, or that say one sentence by themselves.
OTHERS = {
    "ADMM", "CovarianceSource", "DenseCovariance", "GraphicalLasso", "GraphicalLassoCV", "GraphicalLassoIC",
    "Iteration", "JointGraphicalLasso", "JointGraphicalLassoCV",
    "JointProblem", "Newton", "PairWeights", "ProximalGradient", "RichProgress", "SampleCovariance",
    "SelectionProgress", "Status", "TimeVaryingGraphicalLasso",
}  # fmt: skip


def test_no_result_is_forgotten():
    public = {name: getattr(jgl, name) for name in jgl.__all__}
    classes = {name for name, found in public.items() if isinstance(found, type) and not issubclass(found, Exception)}
    assert classes - OTHERS == set(WORDS)


@pytest.mark.parametrize("name", WORDS)
def test_results_print_short_tables(results, name):
    text = str(results[name])
    assert WORDS[name] in text and 1 <= len(text.splitlines()) <= 30
    assert max(map(len, text.splitlines())) <= 220
    shown = repr(results[name])
    assert shown.lstrip("<").startswith(name) and "array(" not in shown and "\n" not in shown


@pytest.mark.parametrize("name", WORDS)
def test_results_show_themselves_in_a_notebook(results, name):
    shown = results[name]._repr_html_()
    assert shown.startswith("<div>") and "<table" in shown
    assert "<well>" not in shown  # names are text, never markup
    assert 'src="http' not in shown and "@import" not in shown
    drawn = {"Solution", "JointNetworks", "SelectionResult", "Inference"}
    assert ("<iframe srcdoc=" in shown) == (name in drawn)


def test_long_tables_are_cut_and_say_so(data):
    X, y = data
    found = jgl.infer(X, y)
    assert len(found.edges()) == 30
    assert "... 20 more" in str(found) and "... 20 more" in found._repr_html_()


def test_a_partition_keeps_the_names_of_the_classes(data, results):
    X, y = data
    source = jgl.SampleCovariance.from_labels(X, y)
    for partition in (results["Partition"], results["Solution"].components(), jgl.screen(source, 0.2, 0.1)):
        assert partition.class_names == ("ill", "<well>") and "<well>" in str(partition)
