"""Covariates regressed out before networks are estimated: an oracle by least squares, sizes, and who takes them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import jointglasso as jgl
from jointglasso.data.effects import without_covariates
from jointglasso.data.samples import Samples

pytestmark = pytest.mark.filterwarnings("ignore::jointglasso.selection.SelectionWarning")


@pytest.fixture(scope="module")
def study():
    """Two classes of six variables with two true edges, age and batch that move all of them, rows of classes mixed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 6))
    X[:, 1] += 0.8 * X[:, 0]
    X[:, 3] -= 0.8 * X[:, 2]
    frame = pd.DataFrame({"age": rng.normal(50, 10, 240), "batch": rng.choice(["a", "b", "c"], 240)})
    shift = 0.15 * (frame.age - 50).to_numpy()[:, None] + 2.0 * (frame.batch == "b").to_numpy()[:, None]
    return X + shift, rng.permutation(np.repeat(["ill", "well"], [140, 100])), frame


def least_squares_residuals(X, y, frame):
    design = np.column_stack([np.ones(len(X)), frame.age, frame.batch == "b", frame.batch == "c"]).astype(float)
    out = np.empty_like(X)
    for name in np.unique(y):
        rows = y == name
        out[rows] = X[rows] - design[rows] @ np.linalg.lstsq(design[rows], X[rows], rcond=None)[0]
    return out


def dense(source):
    return np.stack([source.block(k, np.arange(source.n_variables)) for k in range(source.n_classes)])


def test_covariances_are_those_of_least_squares_residuals(study):
    X, y, frame = study
    source = jgl.SampleCovariance.from_labels(X, y, covariates=frame)
    oracle = jgl.SampleCovariance.from_labels(least_squares_residuals(*study), y)
    np.testing.assert_allclose(dense(source), dense(oracle), atol=1e-12)
    sizes = [np.sum(y == name) - 3 for name in source.class_names]
    assert source.sample_sizes.tolist() == sizes
    assert np.abs(dense(source) - dense(jgl.SampleCovariance.from_labels(X, y))).max() > 0.5


def test_selection_finds_the_edges_that_confounders_hide(study):
    X, y, frame = study
    confounded, adjusted = jgl.select(X, y), jgl.select(X, y, covariates=frame)
    assert adjusted.solution.n_edges == [2, 2]
    assert min(confounded.solution.n_edges) > 4
    oracle = jgl.DenseCovariance(
        dense(jgl.SampleCovariance.from_labels(least_squares_residuals(*study), y, scale="correlation")),
        class_names=adjusted.solution.class_names,
        sample_sizes=[np.sum(y == name) - 3 for name in adjusted.solution.class_names],
    )
    assert jgl.select(oracle).score == pytest.approx(adjusted.score, rel=1e-6)


@pytest.mark.parametrize("criterion", ["cv", "stars"])
def test_resampling_criteria_take_covariates(study, criterion):
    X, y, frame = study
    options = {"criterion": criterion, "random_state": 0, "n_subsamples": 4, "grid": [(0.2, 0.1), (0.15, 0.1)]}
    adjusted = jgl.select(X, y, covariates=frame, **options)
    assert max(adjusted.solution.n_edges) < min(jgl.select(X, y, **options).solution.n_edges)


def test_tables_by_class_and_folds_by_row_agree(study):
    X, y, frame = study
    by_class = {name: X[y == name] for name in ("ill", "well")}
    frames = {name: frame[y == name] for name in ("ill", "well")}
    one, two = jgl.select(by_class, covariates=frames), jgl.select(X, y, covariates=frame)
    assert one.score == pytest.approx(two.score)
    halves = np.arange(240) % 2
    splits = [(np.flatnonzero(halves == h), np.flatnonzero(halves != h)) for h in (0, 1)]
    jgl.select(X, y, covariates=frame, criterion="cv", cv=splits, grid=[(0.2, 0.1)])
    samples = without_covariates(Samples.from_labels(X, y).loaded(), frame)
    np.testing.assert_array_equal(np.sort(np.concatenate(samples.rows)), np.arange(240))
    for name, rows in zip(samples.class_names, samples.rows, strict=True):
        assert (y[rows] == name).all()


def test_estimators_and_stability_take_covariates(study):
    X, y, frame = study
    model = jgl.JointGraphicalLasso(0.2, 0.1).fit(X, y, covariates=frame)
    assert model.solution_.n_edges == [2, 2]
    means = np.stack([X[y == name].mean(axis=0) for name in model.classes_])
    np.testing.assert_allclose(model.location_, means)
    with pytest.raises(jgl.InputError, match="fitted with covariates"):
        model.score(X, y)
    model.fit(X, y).score(X, y)  # without them again
    assert jgl.JointGraphicalLassoCV(criterion="jbic").fit(X, y, covariates=frame).solution_.n_edges == [2, 2]
    stability = jgl.edge_stability(X, y, covariates=frame, lambda1=0.2, lambda2=0.1, n_subsamples=4, random_state=0)
    assert stability.mean_edges.max() < 5
    assert stability.frequencies[0][0, 1] == 1.0


def test_rank_associations_adjust_normal_scores(study):
    """A batch that shifts scores is found whatever the margins are, which values themselves are not."""
    X, y, frame = study
    plain = jgl.select(X, y, covariates=frame, association="nonparanormal")
    skewed = jgl.select(np.exp(X / 2.0), y, covariates=frame, association="nonparanormal")
    assert skewed.score == pytest.approx(plain.score, rel=1e-9)
    with pytest.raises(jgl.InputError, match="categories"):
        jgl.select(np.round(X), y, covariates=frame, association="mixed")


def test_incomplete_samples(study):
    X, y, frame = study
    holes = X.copy()
    holes[::17, 2] = np.nan
    complete = jgl.select(holes, y, covariates=frame, missing="complete")
    full = ~np.isnan(holes).any(axis=1)
    cut = jgl.select(X[full], y[full], covariates=frame[full])
    assert complete.score == pytest.approx(cut.score)
    for missing in ("pairwise", "em"):
        assert jgl.select(holes, y, covariates=frame, missing=missing).solution.n_edges == [2, 2]
    with pytest.raises(jgl.InputError, match="missing value"):
        jgl.select(holes, y, covariates=frame)


def test_bad_covariates_are_refused(study):
    X, y, frame = study
    with pytest.raises(jgl.InputError, match="10 rows"):
        jgl.select(X, y, covariates=frame[:10])
    with pytest.raises(jgl.InputError, match="too few for covariates"):
        jgl.select(X, y, covariates=np.random.default_rng(0).normal(size=(240, 110)))
    with pytest.raises(jgl.InputError, match="needs the samples"):
        jgl.select(jgl.SampleCovariance.from_labels(X, y), covariates=frame)
    with pytest.raises(jgl.InputError, match="constant"):  # a variable that the covariates determine
        jgl.select(np.column_stack([X, 2.0 * frame.age]), y, covariates=frame)


def test_columns_of_cells_are_covariates(study):
    anndata = pytest.importorskip("anndata")
    X, y, frame = study
    cells = frame.assign(condition=y).set_index(pd.Index([f"cell{i}" for i in range(240)]))
    adata = anndata.AnnData(X, obs=cells)
    solution = jgl.anndata.fit(adata, lambda1=0.2, lambda2=0.1, covariates=["age", "batch"])
    oracle = jgl.SampleCovariance.from_labels(X, y, scale="correlation", covariates=frame)
    assert solution.objective == pytest.approx(jgl.solve(oracle, 0.2, 0.1, weights="sqrt_sample_size").objective)
    assert adata.uns["jgl"]["params"]["covariates"] == '["age", "batch"]'
    with pytest.raises(jgl.InputError, match="no column 'depth'"):
        jgl.anndata.fit(adata, lambda1=0.2, lambda2=0.1, covariates=["depth"])


def test_command_line_counts_what_covariates_cost(study, tmp_path):
    from click.testing import CliRunner

    from jointglasso.cli import main

    X, y, frame = study
    table = pd.DataFrame(X, columns=[f"g{i}" for i in range(6)]).assign(condition=y, age=frame.age, batch=frame.batch)
    table.to_csv(tmp_path / "cells.csv", index=False, float_format="%.17g")
    arguments = ["select", str(tmp_path / "cells.csv"), "--label", "condition", "--covariates", "age,batch"]
    said = CliRunner().invoke(main, arguments)
    assert said.exit_code == 0, said.output
    chosen = jgl.select(X, y, covariates=frame)
    assert f"{chosen.score:.7g}" in said.output
