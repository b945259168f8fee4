"""Tables that look like numbers and are none: every door says so in one sentence, or reads them as they are meant."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import jointglasso as jgl
from jointglasso.data import fingerprint

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 4))
X[:, 1] += X[:, 0]
Y = np.repeat(["a", "b"], 20)
S = np.stack([np.corrcoef(X[:20].T), np.corrcoef(X[20:].T)])

#: Ways in for samples with labels.
DOORS = {
    "by class": lambda X, y=Y: jgl.SampleCovariance({str(name): X[y == name] for name in np.unique(y)}),
    "from_labels": lambda X, y=Y: jgl.SampleCovariance.from_labels(X, y),
    "select": lambda X, y=Y: jgl.select(X, y, grid=[(0.2, 0.1)]),
    "fit": lambda X, y=Y: jgl.JointGraphicalLasso(lambda1=0.2, lambda2=0.1).fit(X, y),
    "edge_stability": lambda X, y=Y: jgl.edge_stability(X, y, lambda1=0.2, lambda2=0.1, n_subsamples=2),
}
every_door = pytest.mark.parametrize("door", DOORS)
LABELLED = [door for door in DOORS if door != "by class"]  # frames are not cut by a mask of labels in all libraries


def frame(library, columns=tuple("cdef"), **replaced):
    """The samples as a data frame of one of the libraries."""
    pandas = pytest.importorskip("pandas")
    # As objects: pandas 3 with pyarrow makes no index of strings with half a character.
    table = pandas.DataFrame(X, columns=pandas.Index(list(columns), dtype=object)).assign(**replaced)
    if library == "pandas":
        return table
    if library == "polars":
        return pytest.importorskip("polars").from_pandas(table)
    return pytest.importorskip("pyarrow").Table.from_pandas(table)


@every_door
def test_masked_values_are_missing(door):
    masked = np.ma.MaskedArray(X.copy(), np.zeros(X.shape, dtype=bool))
    masked[3, 2] = np.ma.masked
    masked.data[3, 2] = 1e6  # what must not be used
    with pytest.raises(ValueError, match=r"nan in variable 'x2'|missing value \(NaN\) in 1 of 40 samples .*'x2': 1"):
        DOORS[door](masked)


def test_numbers_that_pandas_wrote_beside_a_table_name_its_rows(tmp_path):
    (tmp_path / "again.csv").write_text("Unnamed: 0,g1,g2\n0,1.5,2\n1,2,5\n2,4,4\n")
    table = jgl.io.read_table(tmp_path / "again.csv", samples_in="rows")
    assert table.variable_names == ("g1", "g2") and table.sample_names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([",g1,g2,state", "a,1,2,ill", "b,2,5,ill", "c,4,4,well", "d,3,1,well"], "column 'state'"),
        (["id,a,b,c,d", "g1,1,2,4,3", "g2,2,5,4,1", "state,ill,ill,well,well"], "row 'state'"),
    ],
)
def test_a_label_that_is_missing_is_asked_for_before_the_side_of_the_samples(tmp_path, lines, words):
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=f"{words} holds words .here 'ill'.: say label='state'"):
        jgl.io.read_table(path)
    assert list(jgl.io.read_table(path, label="state").y) == ["ill", "ill", "well", "well"]
    with pytest.raises(ValueError, match="say samples_in='rows'"):  # what is left could be either
        jgl.io.read_table(path, drop=["state"])


def test_samples_that_come_twice_are_told(tmp_path):
    (tmp_path / "twice.csv").write_text("id,g1,g2\na,1.5,2\na,2,5\nb,4,4\n")
    with pytest.warns(jgl.io.TableWarning, match=r"1 sample name came more than once \('a'\)"):
        assert jgl.io.read_table(tmp_path / "twice.csv", samples_in="rows").sample_names == ("a", "a", "b")


def test_what_is_proposed_for_variables_that_a_class_lacks_works():
    X = np.random.default_rng(0).normal(size=(40, 5))
    y = np.repeat(["ill", "well"], 20)
    X[:20, 3] = np.nan
    with pytest.raises(jgl.InputError, match=r"\('x3' in class 'ill'\), or, .* set variables='union'\.$"):
        jgl.select(X, y)
    with pytest.raises(jgl.InputError, match="set variables='union' if the class did not measure it"):
        jgl.select(X, y, missing="pairwise")
    assert jgl.select(X, y, variables="union").solution.absent[0, 3]
    X[30, 0] = np.nan
    with pytest.raises(jgl.InputError, match="variables='union', and missing='pairwise' or missing='em' for the rest"):
        jgl.select(X, y)


def test_masked_samples_are_left_out_where_that_is_asked_for():
    masked = np.ma.MaskedArray(X.copy(), np.zeros(X.shape, dtype=bool))
    masked[3, 2] = np.ma.masked
    masked.data[3, 2] = 1e6
    model = jgl.JointGraphicalLasso(lambda1=0.2, lambda2=0.1, missing="complete")
    expected = jgl.JointGraphicalLasso(lambda1=0.2, lambda2=0.1).fit(np.delete(X, 3, 0), np.delete(Y, 3))
    np.testing.assert_array_equal(model.fit(masked, Y).precision_[0].toarray(), expected.precision_[0].toarray())
    assert model.score(masked, Y) == pytest.approx(expected.score(np.delete(X, 3, 0), np.delete(Y, 3)))


def test_a_mask_that_hides_nothing_changes_nothing():
    masked = np.ma.MaskedArray(X, False)
    assert fingerprint(DOORS["from_labels"](masked)) == fingerprint(DOORS["from_labels"](X))


def test_masked_covariances_are_missing_too():
    with pytest.raises(ValueError, match="class '1' holds nan at variables 'x0', 'x1'"):
        jgl.solve(np.ma.MaskedArray(S, S[0, 0, 1] == S), 0.2, 0.1)


def test_sparse_covariances_are_read():
    dense = jgl.solve(S, 0.2, 0.1)
    for given in ([sparse.csr_array(part) for part in S], {"1": sparse.coo_array(S[0]), "2": sparse.csc_matrix(S[1])}):
        assert (jgl.solve(given, 0.2, 0.1).precision[1] != dense.precision[1]).nnz == 0
    assert jgl.solve(sparse.csr_array(S[0]), 0.2, 0.1).class_names == ("1",)


@every_door
@pytest.mark.parametrize("kind", ["datetime64[ns]", "timedelta64[s]"])
def test_dates_are_no_numbers(door, kind):
    with pytest.raises(TypeError, match=r"holds dates or times: it must be a table of real numbers"):
        DOORS[door]((1e9 * X).astype(kind))


@pytest.mark.parametrize("door", LABELLED)
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_column_of_dates_is_named(door, library):
    dates = np.arange(40).astype("datetime64[s]")
    with pytest.raises(TypeError, match=r"^Variable 'e' of (X|the sample matrix of class 'a') holds dates or times: "):
        DOORS[door](frame(library, e=dates))


def test_a_covariance_matrix_of_dates():
    with pytest.raises(TypeError, match="The covariance matrix of class '1' holds dates or times"):
        jgl.solve(S.astype("datetime64[s]"), 0.2, 0.1)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_every_library_are_read_by_class(library):
    table = frame(library)
    halves = {"a": table[:20], "b": table[20:]}
    assert jgl.SampleCovariance(halves).variable_names == tuple("cdef")
    np.testing.assert_array_equal(jgl.SampleCovariance(halves).tile(0, slice(4), slice(4)), tile_of(X[:20]))


def tile_of(X):
    return jgl.SampleCovariance([X]).tile(0, slice(4), slice(4))


@every_door
def test_a_column_that_comes_twice_is_named(door):
    with pytest.raises(ValueError, match=r"Variable 'c' occurs twice in .*: variable names must be unique"):
        DOORS[door](frame("pandas", columns="cdcf"))


@every_door
def test_half_characters_in_names_of_variables(door):
    with pytest.raises(ValueError, match=r"The variable name 'f\\ud800' holds half a character .*: rename it\."):
        DOORS[door](frame("pandas", columns=["c", "d", "e", "f\ud800"]))


@every_door
def test_half_characters_in_names_of_classes(door):
    with pytest.raises(ValueError, match=r"The class name 'a\\udfff' holds half a character .*: rename it\."):
        DOORS[door](X, np.where(Y == "a", "a\udfff", "b"))


def test_half_characters_in_given_names():
    with pytest.raises(ValueError, match=r"The variable name '.ud800' holds half a character"):
        jgl.DenseCovariance(S, variable_names=["c", "d", "e", "\ud800"])


def test_half_characters_in_a_file(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("c,+2AA-\n1,2\n2,4\n3,1\n")  # UTF-7 can write them
    with pytest.raises(ValueError, match="holds half a character"):
        jgl.io.read_table(file, encoding="utf-7")


@every_door
@pytest.mark.parametrize("size", [1e-170, 1e-155])
def test_samples_too_small_to_be_squared(door, size):
    with pytest.raises(ValueError, match=r"The variance of variable 'x0' in class 'a' is too small to be .*: rescale"):
        DOORS[door](size * X)


@pytest.mark.parametrize("size", [1e-140, 1e140])
def test_samples_just_big_or_small_enough(size):
    with warnings.catch_warnings(action="error"):
        source = jgl.SampleCovariance.from_labels(size * X, Y, scale="correlation")
    plain = jgl.SampleCovariance.from_labels(X, Y, scale="correlation")
    np.testing.assert_allclose(source.tile(0, slice(4), slice(4)), plain.tile(0, slice(4), slice(4)), rtol=1e-13)


def test_a_constant_is_constant_however_small():
    flat = X.copy()
    flat[:, 2] = 1e-200
    assert jgl.SampleCovariance([flat]).diagonal(0)[2] == 0
    with pytest.raises(ValueError, match="constant in class 'a'"):
        DOORS["fit"](flat)


@pytest.mark.parametrize("folder", [5, 2.5, ["a"]])
def test_a_checkpoint_is_a_path(folder):
    sentence = r"checkpoint must be the path of a folder, not (int|float|list) "
    with pytest.raises(TypeError, match=sentence):
        jgl.solve(S, 0.2, 0.1, checkpoint=folder)
    with pytest.raises(TypeError, match=sentence):
        list(jgl.solve_path(S, [(0.2, 0.1)], checkpoint=folder))
