"""Networks of the groups of an AnnData object, and their way through a file."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import jointglasso as jgl
from jointglasso.selection.relaxed import with_refit

anndata = pytest.importorskip("anndata")

LABELS = ["CD4+/CD25 T", "naïve B"]


def table(n=60, p=12, seed=0, names=None):
    """Chains of dependence, two classes in mixed order."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X[:, 1:6] += 0.9 * X[:, :5]
    mixed = rng.permutation(np.arange(n - 1) % 2)
    labels = np.array(LABELS, dtype=object)[np.concatenate([[0], mixed])]
    names = [f"gene {i}/x" for i in range(p)] if names is None else names
    return anndata.AnnData(X, obs=pd.DataFrame({"condition": labels}, index=[f"c{i}" for i in range(n)]),
                           var=pd.DataFrame(index=names))  # fmt: skip


def fitted(adata=None, **options):
    adata = table() if adata is None else adata
    return adata, jgl.anndata.fit(adata, **{"lambda1": 0.2, "lambda2": 0.1, **options})


def test_the_module_is_ours_and_the_package_the_real_one():
    assert jgl.anndata.__name__ == "jointglasso.anndata"
    assert not anndata.__name__.startswith("jointglasso")


def test_fit_solves_the_problem_of_from_labels():
    adata, solution = fitted()
    source = jgl.SampleCovariance.from_labels(adata.X, adata.obs["condition"], scale="correlation")
    direct = jgl.solve(source, 0.2, 0.1, weights="sqrt_sample_size")  # as `select` does
    assert solution.class_names == direct.class_names == tuple(adata.obs["condition"].unique())
    assert solution.objective == pytest.approx(direct.objective)
    assert sum(solution.n_edges) > 4
    stored = jgl.anndata.networks(adata)
    assert stored.variable_names == tuple(adata.var_names)
    for k, (mine, theirs) in enumerate(zip(stored.precision, with_refit(source, direct).estimate, strict=True)):
        np.testing.assert_allclose(mine.toarray(), theirs.toarray(), atol=1e-7)
        penalized = adata.varp[f"jgl_{k}_penalized_precision"].toarray()
        np.testing.assert_allclose(penalized, direct.precision[k].toarray(), atol=1e-9)


def test_partial_correlations_are_those_of_the_edge_table():
    adata, _ = fitted()
    networks = jgl.anndata.networks(adata)
    edges = networks.edge_list
    for k in range(2):
        stored = adata.varp[f"jgl_{k}_partial_correlation"].toarray()
        mine = edges.class_index == k
        expected = np.zeros_like(stored)
        expected[edges.first[mine], edges.second[mine]] = edges.partial_correlation[mine]
        np.testing.assert_allclose(stored, expected + expected.T)


def test_everything_survives_a_file(tmp_path):
    adata, solution = fitted(weights="sample_size", callback=lambda step: None)
    before = jgl.anndata.networks(adata)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    back = anndata.read_h5ad(tmp_path / "cells.h5ad")
    after = jgl.anndata.networks(back)
    assert after.class_names == before.class_names == tuple(adata.obs["condition"].unique())
    pd.testing.assert_frame_equal(after.edges(), before.edges())
    about = back.uns["jgl"]
    assert about["certificate"]["gap"] == solution.certificate.gap
    assert bool(about["status"]["converged"]) is True
    assert dict(about["params"]) == {
        "groupby": "condition",
        "lambda1": 0.2,
        "lambda2": 0.1,
        "scale": "correlation",
        "association": "pearson",
        "constant": "refuse",
        "weights": "sample_size",
    }
    assert not any("/" in key for key in back.varp)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array])
def test_sparse_layers_give_the_same_networks(kind):
    adata, solution = fitted()
    adata.layers["counts"] = kind(np.asarray(adata.X))
    again = jgl.anndata.fit(adata, layer="counts", key_added="sparse", lambda1=0.2, lambda2=0.1)
    assert again.objective == pytest.approx(solution.objective)
    assert {"jgl", "sparse"} <= set(adata.uns)
    pd.testing.assert_frame_equal(jgl.anndata.networks(adata, "sparse").edges(), jgl.anndata.networks(adata).edges())


def test_constant_genes_are_counted_and_named():
    adata = table()
    adata.X[(adata.obs["condition"] == LABELS[0]).to_numpy(), 3] = 7.0
    adata.X[:, 8] = 0.0
    with pytest.raises(ValueError, match=r"2 variables are constant in class 'CD4.* \('gene 3/x', .*isolate"):
        fitted(adata)
    assert "jgl" not in adata.uns and len(adata.varp) == 0


def test_constant_genes_can_be_left_isolated(tmp_path):
    adata = table()
    adata.X[(adata.obs["condition"] == LABELS[0]).to_numpy(), 3] = 7.0
    _, solution = fitted(adata, constant="drop")
    assert len(solution.variable_names) == 11
    assert list(np.flatnonzero(~adata.var["jgl_used"])) == [3]
    networks = jgl.anndata.networks(adata)
    assert networks.n_variables == 12 and networks.n_edges == solution.n_edges
    assert networks.degree_table[3].tolist() == [0, 0]
    others = networks.subnetwork([i for i in range(12) if i != 3])
    for mine, theirs in zip(others.precision, solution.estimate, strict=True):
        assert (mine != theirs).nnz == 0
    adata.write_h5ad(tmp_path / "cells.h5ad")


def test_constant_genes_do_no_harm_without_scaling():
    adata = table()
    adata.X[:, 8] = 0.0
    _, solution = fitted(adata, scale="covariance")
    assert len(solution.variable_names) == 12
    assert not solution.refit.failures and all(np.isfinite(Theta.data).all() for Theta in solution.refit.precision)


def test_chosen_classes_and_a_second_fit_with_fewer():
    adata = table()
    fitted(adata)
    assert {"jgl_0_precision", "jgl_1_precision"} <= set(adata.varp)
    fitted(adata, classes=[LABELS[1]])
    assert jgl.anndata.networks(adata).class_names == (LABELS[1],)
    assert not any(key.startswith("jgl_1") for key in adata.varp), "what the first fit left would be misread"


def test_networks_follow_a_selection_of_genes():
    adata, _ = fitted()
    part = adata[:, 2:7].copy()
    expected = jgl.anndata.networks(adata).subnetwork(range(2, 7))
    pd.testing.assert_frame_equal(jgl.anndata.networks(part).edges(), expected.edges())


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_gene_names_may_repeat():
    names = ["g"] * 2 + [f"g{i}" for i in range(10)]
    adata, solution = fitted(table(names=names))
    assert solution.variable_names[:2] == ("g (variable 0)", "g (variable 1)")
    assert jgl.anndata.networks(adata).variable_names == tuple(names)


def test_categories_numbers_and_missing_labels():
    adata = table()
    codes = (adata.obs["condition"] == LABELS[0]).astype(int)
    adata.obs["number"] = codes
    adata.obs["category"] = pd.Categorical(codes.map({0: "b", 1: "a"}), categories=["b", "unused", "a"])
    for column in ("number", "category"):
        assert fitted(adata, groupby=column)[1].class_names == tuple(map(str, adata.obs[column].unique()))
    adata.obs.loc[adata.obs_names[:3], "condition"] = np.nan
    with pytest.raises(ValueError, match=r"3 cells have no label in obs\['condition'\]"):
        fitted(adata)
    assert fitted(adata, classes=LABELS)[1].class_names == tuple(adata.obs["condition"].dropna().unique())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groupby": "batch"}, r"obs has no column 'batch'; its columns are 'condition'"),
        ({"layer": "raw"}, "no layer 'raw'; the layers are none"),
        ({"classes": ["T"]}, r"obs\['condition'\] has no class 'T'"),
        ({"key_added": "a/b"}, "must be a word without '/'"),
        ({"constant": "keep"}, "constant='keep' is not known"),
    ],
)
def test_wrong_input_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        fitted(**options)


def test_other_objects_and_missing_results_are_refused():
    with pytest.raises(TypeError, match="must be an AnnData object, not ndarray"):
        jgl.anndata.fit(np.eye(3), lambda1=0.1, lambda2=0.1)
    with pytest.raises(ValueError, match=r"no networks under uns\['jgl'\]"):
        jgl.anndata.networks(table())
    adata, _ = fitted()
    del adata.varp["jgl_1_precision"]
    with pytest.raises(ValueError, match=r"varp\['jgl_1_precision'\] is missing"):
        jgl.anndata.networks(adata)


def test_a_missing_package_is_named(monkeypatch):
    adata = table()
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(ImportError, match=r"jointglasso\[anndata\]"):
        jgl.anndata.networks(adata)


def test_tools_and_figures_of_scanpy_users(tmp_path):
    adata = table(n=120)
    adata.var["highly_variable"] = np.arange(12) < 8
    adata.obs["donor"] = [f"d{i % 20}" for i in range(120)]
    solution = jgl.tl.networks(adata, "condition", mask_var="highly_variable")
    assert solution.n_edges == jgl.select(adata.X[:, :8], adata.obs["condition"].to_numpy()).solution.n_edges
    assert adata.var["jgl_used"].sum() == 8 and adata.uns["jgl"]["params"]["lambda1"] > 0
    tested = jgl.tl.differences(adata, "condition", donor="donor")
    assert len(tested) == 28 and set(tested.variable1) <= set(adata.var_names[:8])
    by_cell = jgl.tl.differences(adata, "condition")
    assert not np.allclose(tested.p_value, by_cell.p_value)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert len(again.uns["jgl_differences"]) == 28
    pytest.importorskip("matplotlib")
    assert jgl.pl.networks(again).axes
    titles = [axes.get_title(loc) for axes in jgl.pl.differences(again, *LABELS).axes for loc in ("left", "center")]
    assert any("significant at FDR" in title for title in titles)
    for wrong in ({"mask_var": "variable"}, {"mask_var": np.ones(3, dtype=bool)}, {"lambda1": 0.1}):
        with pytest.raises(ValueError, match=r"mask_var|column|lambda"):
            jgl.tl.networks(adata, "condition", **wrong)
