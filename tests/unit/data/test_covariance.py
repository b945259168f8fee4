"""Covariance sources: pieces agree with numpy, whatever the piece and whatever the source."""

import tracemalloc

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

import jointglasso as jgl
from jointglasso.data import as_source, table_checks
from jointglasso.data.table_checks import SampleRows
from jointglasso.engine.screening import SCREENING

RNG = np.random.default_rng(11)
SAMPLES = [
    RNG.normal(size=(n, 9)) @ (np.eye(9) + 0.3 * RNG.normal(size=(9, 9))) + 10 * RNG.normal(size=9) for n in (25, 6, 40)
]
EXPECTED = {
    False: [np.cov(X.T, bias=True) for X in SAMPLES],
    True: [np.corrcoef(X.T) for X in SAMPLES],
}


def source_of(kind: str) -> tuple[jgl.CovarianceSource, list[np.ndarray]]:
    if kind == "dense":
        return jgl.DenseCovariance(EXPECTED[False]), EXPECTED[False]
    correlation = kind == "correlation"
    return jgl.SampleCovariance(SAMPLES, scale="correlation" if correlation else "covariance"), EXPECTED[correlation]


KINDS = ["dense", "samples", "correlation"]


@pytest.fixture(params=KINDS)
def source_and_matrices(request):
    return source_of(request.param)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


# Pieces


def test_source_states_its_size_and_names(source_and_matrices):
    source, _ = source_and_matrices
    assert (source.n_classes, source.n_variables) == (3, 9)
    assert source.class_names == ("1", "2", "3")
    assert source.variable_names == tuple(f"x{i}" for i in range(9))


@pytest.mark.parametrize(
    ("rows", "columns"), [(slice(0, 9), slice(0, 9)), (slice(2, 5), slice(4, 9)), (slice(8, 9), slice(0, 1))]
)
def test_tiles(source_and_matrices, rows, columns):
    source, matrices = source_and_matrices
    for k, S in enumerate(matrices):
        close(source.tile(k, rows, columns), S[rows, columns])


@pytest.mark.parametrize("variables", [[0], [3, 1], [7, 2, 8, 0], list(range(9))])
def test_blocks_are_symmetric_and_in_the_order_asked_for(source_and_matrices, variables):
    source, matrices = source_and_matrices
    index = np.array(variables)
    for k, S in enumerate(matrices):
        block = source.block(k, index)
        close(block, S[np.ix_(index, index)])
        np.testing.assert_allclose(block, block.T, rtol=1e-14)


def test_blocks_are_fresh_arrays(source_and_matrices):
    source, matrices = source_and_matrices
    source.block(0, np.arange(9))[:] = 99.0
    close(source.block(0, np.arange(9)), matrices[0])


def test_entries(source_and_matrices):
    source, matrices = source_and_matrices
    rows, columns = np.random.default_rng(0).integers(9, size=(2, 60))
    for k, S in enumerate(matrices):
        close(source.entries(k, rows, columns), S[rows, columns])
    assert source.entries(0, rows[:0], columns[:0]).shape == (0,)


def test_entries_in_pieces_are_those_in_one_go():
    """Many samples: the gathered columns do not fit into one piece."""
    X = np.random.default_rng(3).normal(size=(1_500_000, 3))
    source = jgl.SampleCovariance([X])
    rows, columns = np.divmod(np.arange(9), 3)
    close(source.entries(0, rows, columns), np.cov(X.T, bias=True).ravel())


def test_diagonal_is_the_same_in_every_piece(source_and_matrices):
    source, matrices = source_and_matrices
    everything = np.arange(9)
    for k, S in enumerate(matrices):
        diagonal = source.diagonal(k)
        close(diagonal, np.diagonal(S))
        np.testing.assert_array_equal(np.diagonal(source.block(k, everything)), diagonal)
        np.testing.assert_array_equal(source.entries(k, everything, everything), diagonal)


# Samples


def test_divisor_is_the_number_of_samples_and_each_class_has_its_own_mean():
    first, second = np.array([[0.0], [2.0]]), np.array([[10.0], [10.0], [16.0]])
    source = jgl.SampleCovariance([first, second])
    assert source.diagonal(0)[0] == pytest.approx(1.0)
    assert source.diagonal(1)[0] == pytest.approx((4 + 4 + 16) / 3)
    assert source.sample_sizes.tolist() == [2, 3]


def test_correlations_have_unit_diagonal_exactly():
    source = jgl.SampleCovariance(SAMPLES, scale="correlation")
    assert (source.diagonal(1) == 1.0).all()


@pytest.mark.parametrize("offset", [1e4, 1e8, -1e10])
def test_a_large_mean_costs_no_accuracy(offset):
    """The one-pass formula E[x^2] - E[x]^2 would lose every digit."""
    X = np.random.default_rng(5).integers(-50, 50, size=(40, 6)).astype(float)  # exact at any of these offsets
    source = jgl.SampleCovariance([X + offset])
    np.testing.assert_allclose(source.block(0, np.arange(6)), np.cov(X.T, bias=True), rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("constant", [0.1, 1e8 + 0.1, -3.0, 1e-300, 0.0])
def test_a_constant_column_has_exactly_zero_variance(constant):
    X = SAMPLES[0].copy()
    X[:, 4] = constant
    source = jgl.SampleCovariance([X])
    assert source.diagonal(0)[4] == 0.0
    assert not source.tile(0, slice(4, 5), slice(0, 9)).any()
    assert not source.block(0, np.arange(9))[4].any()


def test_a_column_with_one_other_value_is_not_constant():
    X = np.full((30, 2), 0.1)
    X[29, 1] = 0.2
    diagonal = jgl.SampleCovariance([X]).diagonal(0)
    assert diagonal[0] == 0.0 and diagonal[1] == pytest.approx(np.var(X[:, 1]))


def test_tiny_variance_is_kept_in_correlations():
    X = SAMPLES[0].copy()
    X[:, 2] *= 1e-120
    close(jgl.SampleCovariance([X], scale="correlation").block(0, np.arange(9)), EXPECTED[True][0])


# Labels


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["b", "a", "b", "c", "a", "c"], ("b", "a", "c")),
        ([10, 2, 10, 7, 2, 7], ("10", "2", "7")),
        (np.array([True, False, True, False, True, False]), ("True", "False")),
        (pd.Series(list("bababa"), index=[9, 8, 7, 6, 5, 4]), ("b", "a")),
        (pd.Categorical(list("bababa"), categories=["a", "b"]), ("b", "a")),
        (np.array(list("bababa"), dtype=object), ("b", "a")),
    ],
    ids=["str", "int", "bool", "Series", "Categorical", "object"],
)
def test_labels_split_the_table_into_classes_in_order_of_appearance(labels, names):
    X = SAMPLES[0][:6, :4]
    source = jgl.SampleCovariance.from_labels(X, labels)
    assert source.class_names == names
    plain = np.array([str(label) for label in labels])
    for k, name in enumerate(names):
        close(source.block(k, np.arange(4)), np.cov(X[plain == name].T, bias=True))
        assert source.sample_sizes[k] == (plain == name).sum()


def test_labels_with_a_data_frame_keep_the_column_names():
    table = pd.DataFrame(SAMPLES[0][:8, :3], columns=["g1", "g2", "g3"], index=[5] * 8)
    source = jgl.SampleCovariance.from_labels(table, ["b", "a"] * 4)
    assert source.class_names == ("b", "a") and source.variable_names == ("g1", "g2", "g3")
    close(source.block(1, np.arange(3)), np.cov(SAMPLES[0][1:8:2, :3].T, bias=True))


def test_labels_pass_on_correlation_and_names():
    source = jgl.SampleCovariance.from_labels(
        SAMPLES[0][:, :2], ["a"] * 10 + ["b"] * 15, scale="correlation", variable_names=["u", "v"]
    )
    assert source.variable_names == ("u", "v")
    close(source.block(0, np.arange(2)), np.corrcoef(SAMPLES[0][:10, :2].T))


def test_a_nested_list_is_a_table():
    source = jgl.SampleCovariance.from_labels([[0, 1], [2, 1], [4, 0], [0, 0]], [0, 0, 1, 1])
    close(source.diagonal(0), [1.0, 0.0])


# Names


@pytest.mark.parametrize("source_type", [jgl.DenseCovariance, jgl.SampleCovariance])
def test_given_names_are_kept_as_text(source_type):
    data = EXPECTED[False] if source_type is jgl.DenseCovariance else SAMPLES
    source = source_type(data, class_names=["u", 2, "w"], variable_names=range(9))
    assert source.class_names == ("u", "2", "w") and source.variable_names == tuple("012345678")


@pytest.mark.parametrize("source_type", [jgl.DenseCovariance, jgl.SampleCovariance])
def test_dict_keys_name_the_classes_in_their_order(source_type):
    data = EXPECTED[False] if source_type is jgl.DenseCovariance else SAMPLES
    source = source_type(dict(zip(["z", "a", "m"], data, strict=True)))
    assert source.class_names == ("z", "a", "m")
    close(source.block(1, np.arange(9)), EXPECTED[False][1])


def test_dense_sample_sizes_are_kept_and_unknown_ones_are_none():
    assert jgl.DenseCovariance(EXPECTED[False]).sample_sizes is None
    assert jgl.DenseCovariance(EXPECTED[False], sample_sizes=[25, 6, 40]).sample_sizes.tolist() == [25, 6, 40]


# Memory


def test_float64_matrices_are_not_copied():
    matrices = [S.copy() for S in EXPECTED[False]]
    source = jgl.DenseCovariance(matrices)
    for k, S in enumerate(matrices):
        assert np.shares_memory(source.tile(k, slice(0, 9), slice(0, 9)), S)
    stack = np.stack(matrices)
    assert np.shares_memory(jgl.DenseCovariance(stack).tile(2, slice(0, 9), slice(0, 9)), stack)


def test_samples_are_copied_before_they_are_centred():
    X = SAMPLES[0].copy()
    jgl.SampleCovariance([X], scale="correlation")
    np.testing.assert_array_equal(X, SAMPLES[0])


# Samples that are sparse or on disk

COUNTS = np.random.default_rng(5).poisson(0.4, size=(60, 9)).astype(float) * 0.1
LABELS = np.random.default_rng(6).permutation(np.repeat(["c", "a", "b"], [30, 18, 12]))


def stored(kind, X, folder):
    """The same table in another form; files stay open as long as somebody reads them."""
    if kind in ("mapped", "mapped float32"):
        np.save(folder / "table.npy", X if kind == "mapped" else X.astype(np.float32))
        return np.load(folder / "table.npy", mmap_mode="r")
    if kind in ("h5py", "h5py chunks"):
        options = {"chunks": (7, 4), "compression": "gzip"} if kind == "h5py chunks" else {}
        with h5py.File(folder / "table.h5", "w") as file:
            file.create_dataset("X", data=X, **options)
        return h5py.File(folder / "table.h5")["X"]
    if kind.startswith("backed"):
        values = {"backed": X, "backed csr": sparse.csr_matrix(X), "backed csc": sparse.csc_matrix(X)}[kind]
        anndata.AnnData(values).write_h5ad(folder / "table.h5ad")
        return anndata.read_h5ad(folder / "table.h5ad", backed="r").X
    return getattr(sparse, kind)(X)


SPARSE = ["csr_array", "csc_array", "coo_array", "csr_matrix", "csc_matrix", "lil_array", "dia_array"]
ON_DISK = ["mapped", "h5py", "h5py chunks", "backed", "backed csr", "backed csc"]


def assert_same_numbers(found, expected):
    assert found.class_names == expected.class_names and found.variable_names == expected.variable_names
    np.testing.assert_array_equal(found.sample_sizes, expected.sample_sizes)
    for k in range(expected.n_classes):
        np.testing.assert_array_equal(found.content(k)[0], expected.content(k)[0])


@pytest.mark.parametrize("correlation", [False, True])
@pytest.mark.parametrize("kind", SPARSE + ON_DISK)
def test_tables_of_any_kind_give_the_same_bits(kind, correlation, tmp_path):
    scale = "correlation" if correlation else "covariance"
    expected = jgl.SampleCovariance.from_labels(COUNTS, LABELS, scale=scale)
    table = stored(kind, COUNTS, tmp_path)
    assert_same_numbers(
        jgl.SampleCovariance.from_labels(table, LABELS, scale="correlation" if correlation else "covariance"), expected
    )


@pytest.mark.parametrize("kind", SPARSE + ON_DISK)
def test_each_class_may_be_of_any_kind_and_a_single_one_needs_no_list(kind, tmp_path):
    table = stored(kind, COUNTS, tmp_path)
    assert_same_numbers(jgl.SampleCovariance([table, COUNTS]), jgl.SampleCovariance([COUNTS, COUNTS]))
    assert_same_numbers(jgl.SampleCovariance(table), jgl.SampleCovariance(COUNTS))


def test_single_precision_on_disk_is_computed_with_in_double(tmp_path):
    table = stored("mapped float32", COUNTS, tmp_path)
    expected = jgl.SampleCovariance.from_labels(COUNTS.astype(np.float32).astype(float), LABELS)
    assert_same_numbers(jgl.SampleCovariance.from_labels(table, LABELS), expected)


@settings(max_examples=25)
@given(st.data())
def test_rows_of_a_file_are_read_in_pieces(data):
    """Whatever the size of a piece, the rows wanted come out, and no slice is longer than a piece."""
    n, p = data.draw(st.integers(2, 40)), data.draw(st.integers(1, 5))
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1))))
    limit = data.draw(st.integers(1, 60))
    table = SlicesOnly(np.arange(n * p, dtype=float).reshape(n, p))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_checks, "_NUMBERS_AT_ONCE", limit)
        found = SampleRows(table, rows).read()
        np.testing.assert_array_equal(found, table.values[rows])
        some = np.arange(0, p, 2)
        np.testing.assert_array_equal(SampleRows(table, rows).restricted(some).read(), table.values[rows][:, some])
    assert max(table.lengths) <= max(1, limit // p)


class SlicesOnly:
    """A dataset that gives stretches of rows and remembers how long they were."""

    def __init__(self, values):
        self.values, self.shape, self.dtype, self.lengths = values, values.shape, values.dtype, []

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        self.lengths.append(rows.stop - rows.start)
        return self.values[rows]


def test_a_form_without_rows_is_converted_once(monkeypatch):
    calls = []
    convert = sparse.coo_array.tocsr
    monkeypatch.setattr(sparse.coo_array, "tocsr", lambda self, **options: calls.append(1) or convert(self, **options))
    jgl.SampleCovariance.from_labels(sparse.coo_array(COUNTS), LABELS)
    assert len(calls) == 1


@pytest.mark.parametrize("kind", ["sparse", "mapped"])
def test_one_class_is_dense_at_a_time(kind, tmp_path):
    """Kept are 12 bytes a number; on top of them comes a small multiple of one class, not the whole table."""
    n_classes, n, p = 8, 400, 500
    X = sparse.random_array((n_classes * n, p), density=0.05, rng=np.random.default_rng(0), format="csr")
    table = X if kind == "sparse" else stored("mapped", X.toarray(), tmp_path)
    labels = np.arange(n_classes * n) % n_classes
    tracemalloc.start()
    jgl.SampleCovariance.from_labels(table, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    numbers = n_classes * n * p
    assert peak < 12 * numbers + 4 * 8 * numbers / n_classes


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (sparse.csr_array(COUNTS * 1j), TypeError, "X holds complex numbers"),
        (np.full((60, 2), "word"), TypeError, "Variable 'x0' of the sample matrix of class 'c' is not numeric"),
        (sparse.csr_array((60, 0)), ValueError, r"X has shape \(60, 0\)"),
        (sparse.csr_array(np.where(COUNTS > 0.25, np.nan, COUNTS)), ValueError, "has nan in variable 'x"),
        (sparse.csr_array(COUNTS[:59]), ValueError, r"y has shape \(60,\), but X has 59 samples"),
    ],
    ids=["complex", "words", "no variables", "missing", "lengths"],
)
def test_wrong_tables_that_are_read_later_are_named(table, error, message):
    with pytest.raises(error, match=message):
        jgl.SampleCovariance.from_labels(table, LABELS)


# Samples in AnnData objects


def cells(values, **options):
    names = [f"gene{i}" for i in range(9)]
    return anndata.AnnData(
        values,
        obs=pd.DataFrame({"tissue": LABELS}, index=[f"cell{i}" for i in range(60)]),
        var=pd.DataFrame(index=names),
        **options,
    )


@pytest.mark.parametrize("backed", [None, "r"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
def test_anndata_in_memory_or_on_disk(form, backed, tmp_path):
    cells(form(COUNTS), layers={"twice": form(2 * COUNTS)}).write_h5ad(tmp_path / "cells.h5ad")
    adata = anndata.read_h5ad(tmp_path / "cells.h5ad", backed=backed)
    for layer, factor in ((None, 1), ("twice", 2)):
        found = jgl.SampleCovariance(jgl.anndata.samples_of_cells(adata, "tissue", layer), scale="correlation")
        expected = jgl.SampleCovariance.from_labels(
            factor * COUNTS, LABELS, scale="correlation", variable_names=adata.var_names
        )
        assert_same_numbers(found, expected)
    some = jgl.SampleCovariance(jgl.anndata.samples_of_cells(adata, "tissue", classes=["c", "a"]))
    kept = LABELS != "b"
    assert_same_numbers(
        some, jgl.SampleCovariance.from_labels(COUNTS[kept], LABELS[kept], variable_names=adata.var_names)
    )


def test_networks_of_cells_on_disk_are_those_of_cells_in_memory(tmp_path):
    adata = cells(sparse.csr_matrix(COUNTS))
    adata.write_h5ad(tmp_path / "cells.h5ad")
    options = {"groupby": "tissue", "lambda1": 0.1, "lambda2": 0.05, "constant": "drop"}
    there = jgl.anndata.fit(anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r"), **options)
    here = jgl.anndata.fit(adata, **options)
    assert sum(here.n_edges) > 0
    for one, two in zip(there.precision, here.precision, strict=True):
        np.testing.assert_array_equal(one.toarray(), two.toarray())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groupby": "organ"}, "obs has no column 'organ'; its columns are 'tissue'"),
        ({"groupby": "tissue", "layer": "raw"}, "no layer 'raw'; the layers are none"),
        ({"groupby": "tissue", "classes": ["d"]}, r"obs\['tissue'\] has no class 'd'"),
    ],
)
def test_what_an_anndata_object_lacks_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        jgl.anndata.samples_of_cells(cells(COUNTS), **options)


# The protocol


class Scaled(jgl.CovarianceSource):
    """A source of a user: the identity plus a constant correlation within the first four variables."""

    def __init__(self):
        super().__init__(("one", "two"), tuple("abcdefg"))
        S = np.eye(7)
        S[:4, :4] += 0.5 * (1 - np.eye(4))
        self._S = [S, 2.0 * S]

    def entries(self, k, rows, columns):
        return self._S[k][rows, columns]


def test_sources_derive_from_one_class(source_and_matrices):
    assert isinstance(source_and_matrices[0], jgl.CovarianceSource)
    assert isinstance(Scaled(), jgl.CovarianceSource)
    assert not isinstance(EXPECTED[False], jgl.CovarianceSource)
    assert not isinstance(np.stack(EXPECTED[False]), jgl.CovarianceSource)


def test_parts_of_a_source_come_from_its_entries():
    source, some = Scaled(), np.array([5, 0, 3])
    np.testing.assert_array_equal(source.tile(1, slice(1, 5), slice(0, 7)), source._S[1][1:5])
    np.testing.assert_array_equal(source.block(1, some), source._S[1][np.ix_(some, some)])
    np.testing.assert_array_equal(source.rows(1, some, np.arange(7)), source._S[1][some])
    np.testing.assert_array_equal(source.diagonal(1), np.full(7, 2.0))


def test_a_source_is_taken_as_it_is():
    source = Scaled()
    assert as_source(source) is source
    assert isinstance(as_source(EXPECTED[False]), jgl.DenseCovariance)


@pytest.mark.parametrize("screening", SCREENING)
def test_a_source_of_somebody_else_is_solved(screening):
    source = Scaled()
    found = jgl.solve(source, 0.1, 0.05, screening=screening, solver="admm")
    expected = jgl.solve(np.stack(source._S), 0.1, 0.05, screening=screening, solver="admm")
    assert found.objective == pytest.approx(expected.objective, rel=1e-9)
    assert found.class_names == ("one", "two") and found.variable_names == tuple("abcdefg")
    for a, b in zip(found.precision, expected.precision, strict=True):
        np.testing.assert_allclose(a.toarray(), b.toarray(), atol=1e-6)


def test_a_source_of_somebody_else_is_screened():
    partition = jgl.screen(Scaled(), 0.1, 0.05, rule="hybrid")
    assert partition.labels.tolist() == [[0, 0, 0, 0, 1, 2, 3]] * 2
    assert partition == jgl.screen(np.stack(Scaled()._S), 0.1, 0.05, rule="hybrid")


@pytest.mark.parametrize("screening", SCREENING)
@pytest.mark.parametrize("correlation", [False, True])
def test_samples_and_their_matrices_have_the_same_solution(screening, correlation):
    source = jgl.SampleCovariance(SAMPLES, scale="correlation" if correlation else "covariance")
    found = jgl.solve(source, 0.3, 0.1, screening=screening, solver="admm", tol=1e-8)
    expected = jgl.solve(EXPECTED[correlation], 0.3, 0.1, screening=screening, solver="admm", tol=1e-8)
    assert found.objective == pytest.approx(expected.objective, rel=1e-7)
    assert found.partition == expected.partition


def test_rows_of_a_dense_matrix_are_those_of_its_upper_triangle():
    rng = np.random.default_rng(0)
    S = np.corrcoef(rng.standard_normal((9, 30)))
    S += np.tril(np.full_like(S, 1e-15), -1)
    rows, columns = rng.permutation(9)[:5], rng.permutation(9)
    upper = np.triu(S) + np.triu(S, 1).T
    np.testing.assert_array_equal(jgl.DenseCovariance([S]).rows(0, rows, columns), upper[np.ix_(rows, columns)])


def test_from_labels_takes_what_the_constructor_takes():
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.repeat(["a", "b"], 20)
    X[:20, 2] = 1.0
    options = {"scale": "correlation", "assume_centered": True, "device": "cpu"}
    made = jgl.SampleCovariance.from_labels(X, y, **options)
    np.testing.assert_array_equal(
        made.block(1, np.arange(3)), jgl.SampleCovariance([X[:20], X[20:]], **options).block(1, np.arange(3))
    )
    assert jgl.SampleCovariance.from_labels(X, y, scale="correlation", constant="isolate").diagonal(0)[2] == 1.0
    assert repr(made) == "<SampleCovariance: correlations of 3 variables in 2 classes: a (20), b (20)>"
    assert repr(jgl.DenseCovariance([np.eye(3)])) == "<DenseCovariance: covariances of 3 variables in 1 class: 1>"
