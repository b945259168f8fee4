"""Tables that carry their labels, sparse matrices and AnnData objects, wherever samples are given."""

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from scipy import sparse

import jointglasso as jgl
from jointglasso.data.table_checks import label_rows, labelled


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((60, 4)), columns=list("abcd"))
    table["b"] += table["a"]
    table.insert(2, "gender", np.repeat(["men", "women"], 30))
    return table


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_y_may_name_a_column(frame, kind):
    table = {"pandas": frame, "polars": polars.from_pandas(frame), "pyarrow": pyarrow.Table.from_pandas(frame)}[kind]
    X, y = labelled(table, "gender")
    assert list(getattr(X, "column_names", None) or X.columns) == list("abcd")
    assert list(y) == frame["gender"].tolist()


def test_estimator_and_selection_take_a_column_name(frame):
    X, y = frame.drop(columns="gender"), frame["gender"]
    by_name = jgl.JointGraphicalLasso(0.2, 0.1).fit(frame, "gender")
    apart = jgl.JointGraphicalLasso(0.2, 0.1).fit(X, y)
    np.testing.assert_array_equal(by_name.precision_[1].toarray(), apart.precision_[1].toarray())
    assert by_name.score(frame, "gender") == apart.score(X, y)
    grid = [(0.2, 0.1)]
    assert jgl.select(frame, "gender", grid=grid).solution.class_names == ("men", "women")


def test_sparse_and_annotated_tables(frame):
    anndata = pytest.importorskip("anndata")
    X, y = frame.drop(columns="gender").to_numpy(), frame["gender"].to_numpy()
    dense = jgl.JointGraphicalLasso(0.2, 0.1).fit(X, y)
    thin = jgl.JointGraphicalLasso(0.2, 0.1).fit(sparse.csr_array(X), y)
    np.testing.assert_array_equal(thin.precision_[0].toarray(), dense.precision_[0].toarray())
    cells = anndata.AnnData(
        sparse.csr_matrix(X), obs=frame[["gender"]].rename(index=str), var=pd.DataFrame(index=list("abcd"))
    )
    found = jgl.select(cells, "gender", grid=[(0.2, 0.1)]).solution
    assert found.variable_names == tuple("abcd") and found.class_names == ("men", "women")


def test_a_name_that_is_no_column(frame):
    with pytest.raises(ValueError, match=r"y='gendre' is no column of X \(similar: 'gender'"):
        labelled(frame, "gendre")
    with pytest.raises(TypeError, match="no columns with names"):
        labelled(np.eye(3), "gender")


def test_ordered_categories_are_the_order_of_the_classes(frame):
    stages = pd.Categorical(
        ["late", "early", "middle"] * 20, categories=["early", "middle", "late", "never"], ordered=True
    )
    assert list(label_rows(60, stages)) == ["early", "middle", "late"]
    assert list(label_rows(60, pd.Series(stages))) == ["early", "middle", "late"]
    assert list(label_rows(60, np.asarray(stages))) == ["late", "early", "middle"], "as they appear"
    model = jgl.JointGraphicalLasso(0.3, 0.1).fit(frame.drop(columns="gender"), stages)
    assert list(model.classes_) == list(model.solution_.class_names) == ["early", "middle", "late"]


# Lists of tables, misspelt arguments, text


def test_a_list_of_tables_has_a_class_for_each(frame):
    women, men = (part.drop(columns="gender") for _, part in frame.groupby("gender", sort=False))
    tables = [women, men[["d", "c", "b", "a"]]]  # columns are matched by name
    labels = np.repeat([1, 2], 30)
    X = frame.drop(columns="gender")
    assert jgl.SampleCovariance(tables).class_names == ("1", "2")
    by_labels, by_list = jgl.select(X, labels), jgl.select(tables)
    assert by_list.score == by_labels.score and by_list.solution.class_names == ("1", "2")
    pd.testing.assert_frame_equal(jgl.infer(tables).edges(), jgl.infer(X, labels).edges())
    model = jgl.JointGraphicalLasso(0.1, 0.1).fit(tables)
    assert model.classes_.tolist() == [1, 2] and model.feature_names_in_.tolist() == list("abcd")
    assert model.score(tables) == model.score(X, labels)
    for estimate in (jgl.select, jgl.JointGraphicalLasso().fit):
        with pytest.raises(ValueError, match="already by class"):
            estimate(tables, labels)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda X: jgl.select(X, lambda1=0.1),
            r"lambda1= is not an argument of select: .* grid=\[\(lambda1, lambda2\)\]",
        ),
        (lambda X: jgl.select(X, critreion="bic"), r"of select \(similar: 'criterion'"),
        (lambda X: jgl.select(X, tolerances=1), "tolerances= is not an argument of select"),
        (lambda X: jgl.solve(X, "state", lambda1=0.1), "lambda1= is given twice: solve takes S, lambda1 in this order"),
        (lambda X: jgl.solve(np.eye(2)[None], 0.1, 0.1, max_iters=3), "similar: 'max_iter'"),
        (lambda X: jgl.infer(X, asociation="pearson"), "similar: 'association'"),
        (lambda X: jgl.edge_stability(X, lambda1=1, lambda2=1, n_subsample=4), "similar: 'n_subsamples'"),
        (lambda X: jgl.network_test(X, n_permutation=4), "similar: 'n_permutations'"),
        (lambda X: jgl.SampleCovariance([X], scal="correlation"), "of SampleCovariance .similar: 'scale'"),
        (lambda X: jgl.JointGraphicalLasso(lamda1=1), "of JointGraphicalLasso .similar: 'lambda1'"),
        (lambda X: jgl.infer(X, fdr=0.1), r"fdr= is not an argument of infer: .*differences\(fdr=0.1\)"),
        (lambda X: jgl.solve(X, "group", 0.1, 0.1), "solve takes S, lambda1, lambda2 in this order; other"),
        (lambda X: jgl.write_report("never.html", None, titel="X"), "of write_report .similar: 'title'"),
        (lambda X: jgl.plots.plot_centrality(None, tops=3), "of plot_centrality .similar: 'top'"),
        (lambda X: jgl.select("table.csv"), "X is not numeric: it must be a table of numbers; read a file with pandas"),
    ],
)
def test_misspelt_arguments_get_a_suggestion(call, message):
    with pytest.raises(TypeError, match=message):
        call(np.random.default_rng(0).standard_normal((40, 3)))


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_text_column_is_named(frame, kind):
    table = {"pandas": frame, "polars": polars.from_pandas(frame), "pyarrow": pyarrow.Table.from_pandas(frame)}[kind]
    labels = np.repeat([1, 2], 30)
    for estimate in (jgl.select, jgl.JointGraphicalLasso(0.1, 0.1).fit):
        with pytest.raises(TypeError, match="Variable 'gender' of X is not numeric"):
            estimate(table, labels)


def test_a_text_column_of_an_array_is_numbered():
    X = np.random.default_rng(0).standard_normal((60, 3)).astype(object)
    X[59, 1] = "f"
    labels = np.repeat([1, 2], 30)
    for estimate in (jgl.select, jgl.JointGraphicalLasso(0.1, 0.1).fit, jgl.GraphicalLasso(0.1).fit):
        with pytest.raises(TypeError, match=r"Variable 'x1' of .* is not numeric"):
            estimate(X, labels)
