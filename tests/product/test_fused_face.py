"""What a user of the fused family sees: estimators, selection, command line."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from jointglasso import JointGraphicalLasso, lambda_grid, select, solve
from jointglasso.cli import main
from jointglasso.selection import lambda_max


def samples(seed=0, n=60, p=5):
    """Three time points: one edge that stays, one that goes away, one that comes."""
    rng = np.random.default_rng(seed)
    tables = []
    for early, late in ((0.7, 0.0), (0.7, 0.0), (0.0, 0.7)):
        X = rng.normal(size=(n, p))
        X[:, 1] += 0.8 * X[:, 0]
        X[:, 2] += early * X[:, 3]
        X[:, 4] += late * X[:, 3]
        tables.append(X)
    return np.vstack(tables), np.repeat(["t0", "t1", "t2"], n)


def test_the_estimator_ties_classes_along_a_chain():
    X, y = samples()
    model = JointGraphicalLasso(0.15, 0.1, penalty="chain").fit(X, y)
    table = model.networks_.edges()
    stays = table[(table["variable1"] == "x0") & (table["variable2"] == "x1")]
    assert stays["same_in"].tolist() == ["t0, t1, t2"] * 3
    assert stays["same_certified"].all()
    # Where they are compared they are the same, after the refit, too; on the scale of the data variances differ.
    assert len({Theta[0, 1] for Theta in model.precision_correlation_}) == 1
    assert len({Theta[0, 1] for Theta in model.precision_}) == 3
    assert model.get_params()["penalty"] == "chain"


def test_order_matters_for_a_chain_and_not_for_fused():
    X, y = samples()
    chain, backwards, other = (
        JointGraphicalLasso(0.1, 0.1, penalty="chain", class_graph=order, tol=1e-9).fit(X, y).solution_.objective
        for order in (None, ["t2", "t1", "t0"], ["t1", "t0", "t2"])
    )
    assert chain == pytest.approx(backwards, abs=1e-7)
    assert abs(chain - other) > 1e-5


@pytest.mark.parametrize("penalty", ["fused", "chain", "laplacian"])
def test_selection_knows_the_penalty(penalty):
    X, y = samples()
    found = select(X, y, penalty=penalty, n_jobs=1)
    assert found.solution.parameters["penalty"] == penalty
    assert found.solution.refit is not None
    assert 3 <= sum(found.solution.n_edges) <= 12


@pytest.mark.parametrize("penalty", ["fused", "chain", "laplacian"])
def test_the_largest_penalty_is_exact(penalty):
    rng = np.random.default_rng(4)
    S = np.array([np.corrcoef(rng.normal(size=(20, 6)).T) for _ in range(4)])
    S[1] = np.where(np.eye(6, dtype=bool), S[1], -0.9 * S[0])  # opposite signs: classes that pull at one another
    for direction in ((1.0, 0.0), (0.7, 0.3)):
        top = float(lambda_max(S, [direction], penalty=penalty)[0])
        above, below = (np.array(direction) * top * factor for factor in (1.0 + 1e-6, 1.0 - 1e-3))
        assert sum(solve(S, *above, penalty=penalty).n_edges) == 0
        assert sum(solve(S, *below, penalty=penalty, tol=1e-9).n_edges) > 0


def test_grids_leave_out_what_has_no_end():
    rng = np.random.default_rng(4)
    S = np.array([np.corrcoef(rng.normal(size=(20, 4)).T) for _ in range(3)])
    grid = lambda_grid(S, penalty="chain")
    assert (grid.lambda1 > 0).all() and grid.n_columns == 5
    with pytest.raises(ValueError, match="give finite ratios"):
        lambda_grid(S, penalty="chain", ratios=[np.inf])


def run(tmp_path, *options):
    X, y = samples()
    file = tmp_path / "samples.csv"
    pd.DataFrame(X, columns=list("abcde")).assign(time=y).to_csv(file, index=False)
    arguments = ["fit", str(file), "--label", "time", "--lambda1", "0.15", "--lambda2", "0.1"]
    return CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / "result"), *options])


def test_the_command_line_ties_classes(tmp_path):
    done = run(tmp_path, "--penalty", "chain", "--classes", "t0,t1,t2")
    assert done.exit_code == 0, done.output
    edges = pd.read_csv(tmp_path / "result" / "edges.csv")
    assert "t0, t1, t2" in set(edges["same_in"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--penalty", "graph"), "class"),
        (("--penalty", "graph", "--class-graph", "t0-t9"), "not an edge between two of the classes"),
    ],
)
def test_wrong_words_on_the_command_line(tmp_path, options, sentence):
    done = run(tmp_path, *options)
    assert done.exit_code != 0
    assert sentence in done.output
    assert "Traceback" not in done.output


def test_a_star_on_the_command_line(tmp_path):
    done = run(tmp_path, "--penalty", "graph", "--class-graph", "t0-t1,t0-t2=0.5")
    assert done.exit_code == 0, done.output
    found = [json.loads(path.read_text()) for path in (tmp_path / "result").glob("*.json")]
    assert '"graph"' in json.dumps(found)
