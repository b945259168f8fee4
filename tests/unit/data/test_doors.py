"""Whichever way samples come in, they are the same samples: classes in order of appearance, variables by name."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import sparse

import jointglasso as jgl
from jointglasso.cli import main
from jointglasso.data.samples import Samples, read_samples

ORDER = ("sick", "cured", "healthy")
Y = np.array(list(ORDER) * 12)
X = np.random.default_rng(0).standard_normal((36, 3)) + 2.0
NAMES = ("g1", "g2", "g3")
FRAME = pd.DataFrame(X, columns=NAMES)
PENALTIES = {"lambda1": 0.1, "lambda2": 0.1}


def cells():
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame({"state": Y}, index=[f"cell{i}" for i in range(len(Y))])
    return anndata.AnnData(X.copy(), obs=obs, var=pd.DataFrame(index=list(NAMES)))


def masked():
    return np.ma.masked_array(X, np.zeros_like(X, dtype=bool))


def polars():
    return pytest.importorskip("polars").DataFrame(dict(zip(NAMES, X.T, strict=True)))


def dask():
    return pytest.importorskip("dask.array").from_array(X, chunks=(10, 3))


#: Each door, by what it says of the classes; tables of single classes come in the order of the dict.
BY_CLASS = {name: FRAME[name == Y] for name in ORDER}
DOORS = {
    "dict": lambda: read_samples(BY_CLASS),
    "columns in another order": lambda: read_samples({**BY_CLASS, "cured": BY_CLASS["cured"][["g3", "g1", "g2"]]}),
    "list": lambda: Samples.by_class([X[name == Y] for name in ORDER], ORDER, NAMES),
    "array": lambda: Samples.from_labels(X, Y, NAMES),
    "frame": lambda: read_samples(FRAME, Y),
    "column": lambda: read_samples(FRAME.assign(state=Y), "state"),
    "categories": lambda: read_samples(FRAME, pd.Categorical(Y)),
    "sparse": lambda: Samples.from_labels(sparse.coo_array(X), Y, NAMES),
    "masked": lambda: Samples.from_labels(masked(), Y, NAMES),
    "polars": lambda: read_samples(polars(), Y),
    "dask": lambda: Samples.from_labels(dask(), Y, NAMES),
    "annotated": lambda: read_samples(cells(), "state"),
}


@pytest.fixture(autouse=True)
def no_cluster():
    """A client whose scheduler was lost, in another test, may have left Dask without one."""
    if importlib.util.find_spec("dask") is None:
        yield
        return
    import dask.config

    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize("door", DOORS)
def test_every_table_gives_the_same_samples(door):
    samples = DOORS[door]()
    assert samples.class_names == ORDER and samples.variable_names == NAMES
    for part, name in zip(samples.matrices, ORDER, strict=True):
        np.testing.assert_array_equal(part, X[name == Y])
    expected = [np.arange(12) + 12 * k for k in range(3)]
    if not door.startswith(("dict", "columns in", "list")):
        expected = [np.flatnonzero(name == Y) for name in ORDER]
    np.testing.assert_array_equal(samples.rows, expected)


def fitted(tmp_path):
    file, out = tmp_path / "samples.csv", tmp_path / "out"
    FRAME.assign(state=Y).to_csv(file, index=False)
    options = ["--label", "state", "--lambda1", "0.1", "--lambda2", "0.1", "--no-figures", "--out", str(out)]
    assert CliRunner().invoke(main, ["fit", str(file), *options]).exit_code == 0
    return tuple(json.loads((out / "parameters.json").read_text())["data"]["classes"])


def stored(tmp_path):
    FRAME.assign(state=Y).to_csv(tmp_path / "samples.csv", index=False)
    return jgl.io.read_table(tmp_path / "samples.csv", label="state").to_source().class_names


#: Functions of the package, by the classes that they tell of.
ASKED = {
    "SampleCovariance": lambda _: jgl.SampleCovariance(BY_CLASS).class_names,
    "from_labels": lambda _: jgl.SampleCovariance.from_labels(FRAME, Y).class_names,
    "anndata.fit": lambda _: jgl.anndata.fit(cells(), "state", **PENALTIES).class_names,
    "select": lambda _: jgl.select(X, Y, grid=[(0.2, 0.1)]).solution.class_names,
    "edge_stability": lambda _: jgl.edge_stability(X, Y, n_subsamples=2, **PENALTIES).class_names,
    "infer": lambda _: jgl.infer(X, Y).class_names,
    "network_test": lambda _: jgl.network_test(X, Y, n_permutations=2).class_names,
    "bootstrap_network": lambda _: jgl.bootstrap_network(X, Y, n_resamples=2).class_names,
    "estimator": lambda _: jgl.JointGraphicalLasso(0.1, 0.1).fit(X, Y).classes_,
    "cross-validated": lambda _: jgl.JointGraphicalLassoCV(grid=[(0.2, 0.1)]).fit(X, Y).classes_,
    "table": stored,
    "command line": fitted,
}


@pytest.mark.parametrize("door", ASKED)
@pytest.mark.filterwarnings("ignore::jointglasso.selection.select_penalty.SelectionWarning")
def test_classes_are_in_order_of_appearance_through_every_door(door, tmp_path):
    assert tuple(ASKED[door](tmp_path)) == ORDER


def test_classes_of_an_annotated_table_that_are_named_keep_their_order():
    chosen = jgl.anndata.samples_of_cells(cells(), "state", classes=["healthy", "sick"])
    assert chosen.class_names == ("sick", "healthy")


def test_a_covariance_that_is_asked_for_reads_one_class_at_a_time():
    class Table:
        """Rows of a file that counts what is read of it."""

        shape, dtype, read = X.shape, X.dtype, 0

        def __getitem__(self, rows):
            Table.read += 1
            return X[rows]

    samples = Samples.from_labels(Table(), Y)
    assert Table.read == 0 and samples.sizes.tolist() == [12, 12, 12]
    next(samples.one_by_one())
    assert Table.read == 1
    np.testing.assert_array_equal(samples.loaded().matrices[2], X[Y == "healthy"])
