"""Bad input: the exact kind of error, the words it must contain, and nothing else; borderline input: accepted.

The rows of the table "Bad input" and the list of defects in the survey of peers each have a test here or in
`test_admm.py`: we must not behave so.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import jointglasso as jgl
from jointglasso.data.source import is_semidefinite, semidefinite
from jointglasso.engine.options import SOLVERS
from jointglasso.engine.screening import SCREENING
from jointglasso.penalties import PENALTIES
from jointglasso.screening import RULES

P = 5
RNG = np.random.default_rng(7)
MIX = np.eye(P) + 0.2 * RNG.normal(size=(P, P))
X1 = RNG.normal(size=(60, P)) @ MIX
X2 = RNG.normal(size=(80, P)) @ MIX
S1 = np.cov(X1.T, bias=True)
S2 = np.cov(X2.T, bias=True)
GENES = ["gA", "gB", "gC", "gD", "gE"]
SHUFFLED = [3, 0, 4, 1, 2]


def solve(S: Any, lambda1: Any = 0.1, lambda2: Any = 0.05, **options: Any) -> jgl.Solution:
    return jgl.solve(S, lambda1, lambda2, **{"screening": "hybrid", "solver": "admm", **options})


def with_entry(matrix: np.ndarray, row: int, column: int, value: float, *, symmetric: bool = False) -> np.ndarray:
    changed = matrix.copy()
    changed[row, column] = value
    if symmetric:
        changed[column, row] = value
    return changed


def constant_column(X: np.ndarray, column: int) -> np.ndarray:
    changed = X.copy()
    changed[:, column] = 0.1
    return changed


def frame(X: np.ndarray, names: list[str] = GENES) -> pd.DataFrame:
    return pd.DataFrame(X, columns=names)


def square_frame(S: np.ndarray, names: list[str] = GENES) -> pd.DataFrame:
    return pd.DataFrame(S, index=names, columns=names)


def indefinite_triple(p: int) -> np.ndarray:
    """Every pair is possible, but no three variables are all correlated by -0.9."""
    S = np.eye(p)
    S[:3, :3] = -0.9
    np.fill_diagonal(S, 1.0)
    return S


def two(first: Any, second: Any) -> dict[str, Any]:
    return {"well": first, "ill": second}


@dataclass(frozen=True)
class Case:
    name: str
    call: Callable[[], Any]
    error: type[Exception]
    words: tuple[str, ...]


def samples(X: Any, **options: Any) -> Callable[[], Any]:
    return lambda: jgl.SampleCovariance(two(X1, X), **options)


def covariances(S: Any, lambda1: Any = 0.1, lambda2: Any = 0.05, **options: Any) -> Callable[[], Any]:
    return lambda: solve(two(S1, S), lambda1, lambda2, **options)


def good(lambda1: Any = 0.1, lambda2: Any = 0.05, **options: Any) -> Callable[[], Any]:
    return lambda: solve(two(S1, S2), lambda1, lambda2, **options)


def labelled(y: Any, X: Any = X1) -> Callable[[], Any]:
    return lambda: jgl.SampleCovariance.from_labels(X, y)


AB = ["a", "b"] * 29
VALUES = [
    Case("NaN in samples", samples(with_entry(X2, 3, 1, np.nan)), ValueError, ("'ill'", "nan", "'x1'", "remove")),
    Case("inf in samples", samples(with_entry(X2, 0, 4, np.inf)), ValueError, ("'ill'", "inf", "'x4'", "remove")),
    Case(
        "inf and -inf in samples",
        samples(with_entry(with_entry(X2, 0, 0, np.inf), 1, 0, -np.inf)),
        ValueError,
        ("'ill'", "inf", "'x0'", "remove"),
    ),
    Case(
        "NaN in a data frame",
        samples(frame(with_entry(X2, 3, 1, np.nan))),
        ValueError,
        ("'ill'", "nan", "'gB'", "remove"),
    ),
    Case(
        "pandas' NA in samples",
        samples(frame(X2).astype("Float64").mask(frame(X2) > 2.0)),
        ValueError,
        ("'ill'", "'g", "remove"),
    ),
    Case("None in samples", samples(with_entry(X2.astype(object), 2, 1, None)), ValueError, ("'ill'", "'x1'")),
    Case("samples overflow", samples(X2 * 1e200), ValueError, ("'ill'", "scale")),
    Case("words in samples", samples(np.full((4, P), "word")), TypeError, ("'ill'", "numeric", "numbers")),
    Case(
        "column of words",
        samples(frame(X2).assign(gC="word")),
        TypeError,
        ("'ill'", "'gC'", "numeric"),
    ),
    Case("complex samples", samples(X2 + 1j), TypeError, ("'ill'", "complex", "real")),
    Case("NaN covariance", covariances(with_entry(S2, 1, 3, np.nan)), ValueError, ("'ill'", "nan", "'x1'", "'x3'")),
    Case("NaN variance", covariances(with_entry(S2, 2, 2, np.nan)), ValueError, ("'ill'", "nan", "'x2'")),
    Case("inf variance", covariances(with_entry(S2, 2, 2, np.inf)), ValueError, ("'ill'", "inf", "'x2'")),
    Case(
        "inf covariance",
        covariances(with_entry(S2, 0, 4, -np.inf, symmetric=True)),
        ValueError,
        ("'ill'", "inf", "'x0'", "'x4'", "missing values"),
    ),
    Case("complex covariance", covariances(S2 + 0j), TypeError, ("'ill'", "complex", "real")),
    Case("words as covariance", covariances("word"), TypeError, ("'ill'", "numbers")),
]

SHAPES = [
    Case("class with one sample", samples(X2[:1]), ValueError, ("'ill'", "1 sample;", "at least 2", "leave the class")),
    Case("class without samples", samples(X2[:0]), ValueError, ("'ill'", "0 samples", "at least 2", "add samples")),
    Case("label with one sample", labelled(["a"] * 59 + ["b"]), ValueError, ("'b'", "1 sample;", "at least 2")),
    Case("covariance not square", covariances(S2[:, :4]), ValueError, ("'ill'", "(5, 4)", "square")),
    Case("samples given as covariance", lambda: solve([X1, X2]), ValueError, ("'1'", "SampleCovariance")),
    Case("other size", covariances(S2[:4, :4]), ValueError, ("'ill'", "'well'", "4", "5", "same variables")),
    Case("other number of columns", samples(X2[:, :4]), ValueError, ("'ill'", "'well'", "4", "5", "same variables")),
    Case("no classes, list", lambda: solve([]), ValueError, ("K=0", "at least one")),
    Case("no classes, dict", lambda: solve({}), ValueError, ("K=0", "at least one")),
    Case("no classes, array", lambda: solve(np.empty((0, 3, 3))), ValueError, ("K=0", "at least one")),
    Case("no sample classes", lambda: jgl.SampleCovariance([]), ValueError, ("K=0", "at least one")),
    Case("1-D array", lambda: solve(np.ones(3)), ValueError, ("(3,)", "covariance matrix per class")),
    Case("4-D array", lambda: solve(np.ones((1, 1, 3, 3))), ValueError, ("(1, 1, 3, 3)", "per class")),
    Case("1-D class", covariances(np.ones(5)), ValueError, ("'ill'", "(5,)", "two-dimensional")),
    Case("3-D class", covariances(np.ones((1, 5, 5))), ValueError, ("'ill'", "(1, 5, 5)", "two-dimensional")),
    Case("1-D samples", lambda: jgl.SampleCovariance(np.ones(3)), ValueError, ("(3,)", "sample matrix per class")),
    Case("4-D samples", lambda: jgl.SampleCovariance(np.ones((1, 2, 3, 4))), ValueError, ("(1, 2, 3, 4)",)),
    Case("no variables", lambda: solve(np.empty((2, 0, 0))), ValueError, ("'1'", "at least one variable")),
    Case("samples without variables", samples(np.empty((9, 0))), ValueError, ("'ill'", "at least one variable")),
    Case("a scalar", lambda: solve(3.0), TypeError, ("float", "sequence", "per class")),
    Case("nothing", lambda: solve(None), TypeError, ("NoneType", "sequence", "per class")),
    Case("labels too short", labelled(["a", "b"]), ValueError, ("y", "(2,)", "60 samples", "one label per sample")),
    Case("labels two-dimensional", labelled(np.ones((60, 1))), ValueError, ("y", "(60, 1)", "one label per sample")),
    Case("no labels", labelled(None), ValueError, ("y", "one label per sample")),
    Case("label None", labelled([*AB, "a", None]), ValueError, ("label", "59", "missing", "leave the sample out")),
    Case("label NaN", labelled(np.r_[np.ones(59), np.nan]), ValueError, ("label", "59", "missing")),
    Case("label NaN among words", labelled([*AB, np.nan, np.nan]), ValueError, ("label", "58", "missing")),
    Case(
        "label NA of pandas",
        labelled(pd.Series([*AB, "a", pd.NA], dtype="string")),
        ValueError,
        ("label", "59", "missing"),
    ),
    Case(
        "label NaN of a categorical",
        labelled(pd.Categorical([*AB, "a", None])),
        ValueError,
        ("label", "59", "missing"),
    ),
    Case("labels of two types", labelled(np.array(["a", 1] * 30, dtype=object)), TypeError, ("label", "str", "int")),
]

DEFINITENESS = [
    Case("not symmetric", covariances(with_entry(S2, 0, 3, 9.0)), ValueError, ("'ill'", "'x0'", "'x3'", "symmetric")),
    Case(
        "negative variance",
        covariances(with_entry(S2, 2, 2, -1.0)),
        ValueError,
        ("'ill'", "'x2'", "negative", "recompute"),
    ),
    Case(
        "not semidefinite",
        covariances(indefinite_triple(P)),
        ValueError,
        ("'ill'", "not positive semidefinite", "eigenvalue -0.8", "recompute"),
    ),
    Case(
        "constant column, correlation",
        samples(constant_column(X2, 3), scale="correlation"),
        ValueError,
        ("'x3'", "'ill'", "constant", "drop"),
    ),
    Case(
        "constant column, diagonal not penalised",
        lambda: solve(jgl.SampleCovariance(two(X1, constant_column(X2, 3))), penalize_diagonal=False),
        ValueError,
        ("'x3'", "'ill'", "zero variance", "drop", "penalise the diagonal"),
    ),
    Case(
        "constant column, lambda1 = 0",
        lambda: solve(jgl.SampleCovariance(two(X1, constant_column(X2, 3))), 0.0, 0.1),
        ValueError,
        ("'x3'", "'ill'", "zero variance", "lambda1 > 0"),
    ),
    Case(
        "nothing penalised, singular",
        covariances(np.cov(X2[:4].T, bias=True), 0.0, 0.0),
        ValueError,
        ("'ill'", "singular", "lambda1", "lambda2", "set"),
    ),
]

NUMBERS = [
    Case(f"{name}={value!r}", good(**{name: value}), error, (name, *words))
    for name in ("lambda1", "lambda2")
    for value, error, words in [
        (-0.1, ValueError, ("-0.1", ">= 0")),
        (np.nan, ValueError, ("nan", "finite", ">= 0")),
        (np.inf, ValueError, ("inf", "finite", ">= 0")),
        ("0.1", TypeError, ("str", "'0.1'", "number")),
        (True, TypeError, ("bool", "number")),
        (np.bool_(False), TypeError, ("bool", "number")),
        (None, TypeError, ("None", "number")),
        ([0.1, 0.1], TypeError, ("list", "number")),
        (0.1 + 0j, TypeError, ("complex", "number")),
    ]
] + [
    Case("max_iter=0", good(max_iter=0), ValueError, ("max_iter", "0", "at least 1")),
    Case("max_iter=-3", good(max_iter=-3), ValueError, ("max_iter", "-3", "at least 1")),
    Case("max_iter=2.5", good(max_iter=2.5), TypeError, ("max_iter", "float", "whole number")),
    Case("max_iter='ten'", good(max_iter="ten"), TypeError, ("max_iter", "'ten'", "whole number")),
    Case("max_iter=True", good(max_iter=True), TypeError, ("max_iter", "bool", "whole number")),
    Case("tol=0", good(tol=0), ValueError, ("tol", "0", "> 0")),
    Case("tol=-1e-6", good(tol=-1e-6), ValueError, ("tol", "-1e-06", "> 0")),
    Case("tol=nan", good(tol=np.nan), ValueError, ("tol", "nan", "> 0")),
    Case("tol='fine'", good(tol="fine"), TypeError, ("tol", "'fine'", "number > 0")),
    Case("tol=None", good(tol=None), TypeError, ("tol", "None", "number")),
    Case("penalize_diagonal='no'", good(penalize_diagonal="no"), TypeError, ("penalize_diagonal", "'no'", "True")),
    Case("scale='no'", samples(X2, scale="no"), ValueError, ("scale", "'no'", "correlation")),
    Case("callback=5", good(callback=5), TypeError, ("callback", "int", "callable")),
]


def choice(name: str, value: Any, valid: Any) -> Case:
    call = (lambda: jgl.screen(two(S1, S2), 0.1, 0.05, rule=value)) if name == "rule" else good(**{name: value})
    return Case(f"{name}={value!r}", call, ValueError, (name, repr(value), "choose", *map(repr, valid)))


CHOICES = [
    choice("screening", "magic", SCREENING),
    choice("screening", None, SCREENING),
    choice("screening", ["hybrid"], SCREENING),
    choice("solver", "magic", SOLVERS),
    choice("solver", None, SOLVERS),
    choice("solver", jgl.ADMM, SOLVERS),
    choice("rule", "magic", RULES),
    choice("rule", 1, RULES),
    choice("penalty", "magic", PENALTIES),
    choice("penalty", None, PENALTIES),
    choice("weights", "magic", ("equal", "sample_size")),
]

WEIGHTS = [
    Case("too few weights", good(weights=[1.0]), ValueError, ("weights", "(1,)", "2 classes", "one weight each")),
    Case("too many weights", good(weights=np.ones(3)), ValueError, ("weights", "(3,)", "2 classes")),
    Case("one number", good(weights=2.0), ValueError, ("weights", "2 classes", "one weight each")),
    Case("table of weights", good(weights=np.ones((2, 2))), ValueError, ("weights", "(2, 2)", "2 classes")),
    Case("zero weight", good(weights=[1, 0]), ValueError, ("weight", "'ill'", "0", "> 0")),
    Case("negative weight", good(weights=[1, -2]), ValueError, ("weight", "'ill'", "-2", "> 0")),
    Case("NaN weight", good(weights=[np.nan, 1]), ValueError, ("weight", "'well'", "nan", "finite")),
    Case("infinite weight", good(weights={"well": 1, "ill": np.inf}), ValueError, ("weight", "'ill'", "inf")),
    Case("words", good(weights=["a", "b"]), TypeError, ("weights", "2 numbers", "one per class")),
    Case("wrong names", good(weights={"well": 1, "sick": 1}), ValueError, ("weights", "'sick'", "'ill'")),
    Case("missing name", good(weights={"well": 1}), ValueError, ("weights", "'ill'")),
    Case(
        "sample sizes unknown",
        good(weights="sample_size"),
        ValueError,
        ("sample_size", "SampleCovariance", "sample_sizes="),
    ),
]

NAMES = [
    Case(
        "other columns",
        lambda: jgl.SampleCovariance(two(frame(X1), frame(X2, ["gA", "gB", "gC", "gD", "gZ"]))),
        ValueError,
        ("'gE'", "'ill'", "every class"),
    ),
    Case(
        "other covariance columns",
        lambda: solve(two(square_frame(S1), square_frame(S2, ["gA", "gB", "gC", "gD", "gZ"]))),
        ValueError,
        ("'gE'", "'ill'", "every class"),
    ),
    Case(
        "rows and columns disagree",
        lambda: solve(two(S1, pd.DataFrame(S2, index=["gA", "gB", "gC", "gD", "gZ"], columns=GENES))),
        ValueError,
        ("'ill'", "rows and columns", "same names"),
    ),
    Case(
        "duplicate column",
        lambda: jgl.SampleCovariance(two(frame(X1, ["gA", "gB", "gC", "gD", "gA"]), X2)),
        ValueError,
        ("'gA'", "twice", "'well'", "unique"),
    ),
    Case(
        "duplicate column in a later class",
        lambda: jgl.SampleCovariance(two(frame(X1), frame(X2, ["gA", "gB", "gC", "gD", "gA"]))),
        ValueError,
        ("'gA'", "twice", "'ill'", "unique"),
    ),
    Case(
        "duplicate variable name",
        lambda: jgl.DenseCovariance([S1], variable_names=["a", "b", "c", "d", "b"]),
        ValueError,
        ("'b'", "twice", "variable_names", "unique"),
    ),
    Case(
        "duplicate class name",
        lambda: jgl.DenseCovariance([S1, S2], class_names=["u", "u"]),
        ValueError,
        ("'u'", "twice", "class_names", "differently"),
    ),
    Case("equal keys 1 and '1'", lambda: solve({1: S1, "1": S2}), ValueError, ("'1'", "twice", "differently")),
    Case(
        "too few class names",
        lambda: jgl.DenseCovariance([S1, S2], class_names=["u"]),
        ValueError,
        ("class_names", "1", "2 classes"),
    ),
    Case(
        "too few variable names",
        lambda: jgl.SampleCovariance([X1], variable_names=["a"]),
        ValueError,
        ("variable_names", "1", "5 variables"),
    ),
    Case(
        "class names twice",
        lambda: jgl.DenseCovariance({"a": S1}, class_names=["b"]),
        ValueError,
        ("class_names", "twice", "dict"),
    ),
    Case(
        "names against columns",
        lambda: jgl.SampleCovariance([frame(X1)], variable_names=list("abcde")),
        ValueError,
        ("variable_names", "column names", "rename"),
    ),
    Case("class_names=5", lambda: jgl.DenseCovariance([S1], class_names=5), TypeError, ("class_names", "int", "5")),
    Case("class_names='ab'", lambda: jgl.DenseCovariance([S1, S2], class_names="ab"), TypeError, ("class_names",)),
    Case("variable_names=5", lambda: jgl.DenseCovariance([S1], variable_names=5), TypeError, ("variable_names", "int")),
    Case("sample_sizes=60", lambda: jgl.DenseCovariance([S1], sample_sizes=60), TypeError, ("sample_sizes", "int")),
    Case(
        "sample size of 1",
        lambda: jgl.DenseCovariance([S1], sample_sizes=[1]),
        ValueError,
        ("sample_sizes", "1", "at least 2"),
    ),
    Case(
        "too many sample sizes",
        lambda: jgl.DenseCovariance([S1], sample_sizes=[60, 80]),
        ValueError,
        ("sample_sizes", "2", "1 class"),
    ),
]

WARM_STARTS = [
    Case("wrong size", good(warm_start=[np.eye(4)] * 2), ValueError, ("warm_start", "2 matrices", "(5, 5)")),
    Case("wrong number", good(warm_start=[np.eye(5)]), ValueError, ("warm_start", "2 matrices", "(5, 5)")),
    Case("one array", good(warm_start=np.eye(5)), ValueError, ("warm_start", "2 matrices", "(5, 5)")),
    Case("a number", good(warm_start=5), TypeError, ("warm_start", "2 matrices", "(5, 5)")),
    Case("NaN", good(warm_start=[np.eye(5), np.full((5, 5), np.nan)]), ValueError, ("warm_start", "'ill'", "finite")),
]

TABLE = [*VALUES, *SHAPES, *DEFINITENESS, *NUMBERS, *CHOICES, *WEIGHTS, *NAMES, *WARM_STARTS]

#: What makes a message say what to do: an instruction, or what would have been right.
REMEDY = re.compile(
    r"\b(add|choose|compare|drop|expected|fill|give|keep|leave|must|name|needs?|penalise|project|recompute|remove|"
    r"rename|rescale|scale|set|use)\b",
    re.IGNORECASE,
)


def assert_clear(error: BaseException) -> None:
    """One sentence or two, with a remedy, and no other exception shown above it."""
    message = str(error)
    assert message, f"an empty {type(error).__name__}"
    assert "\n" not in message
    assert message.endswith(".") and len(re.split(r"[.!?]\s+(?=[A-Z])", message)) <= 2, message
    assert 20 <= len(message) <= 320, message
    assert REMEDY.search(message), f"no remedy in: {message}"
    assert error.__suppress_context__ or error.__context__ is None, "another exception shows above the message"


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.name)
def test_bad_input_is_refused_in_a_clear_sentence(case):
    with pytest.raises(Exception) as caught:
        case.call()
    message = str(caught.value)
    assert issubclass(caught.type, case.error), f"{caught.type.__name__}: {message}"
    assert [word for word in case.words if word not in message] == [], message
    assert_clear(caught.value)


def test_the_table_names_every_case_once():
    names = [(case.name, case.words) for case in TABLE]
    assert len(set(names)) == len(names) > 100


# Beyond 512 variables the full check of definiteness is left to the screening pass and the blocks


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("screening", SCREENING)
def test_large_matrix_with_an_impossible_pair_is_refused(screening, solver):
    S = with_entry(np.eye(600), 5, 590, 1.5, symmetric=True)
    with pytest.raises(ValueError, match="not positive semidefinite") as caught:
        solve({"big": S}, 0.1, 0.1, screening=screening, solver=solver)
    assert "'big'" in str(caught.value)
    assert_clear(caught.value)


def test_impossible_pair_is_named_by_the_screening_pass():
    S = with_entry(np.eye(600), 5, 590, -1.5, symmetric=True)
    with pytest.raises(ValueError, match="'x5' and 'x590'") as caught:
        jgl.screen({"well": np.eye(600), "big": S}, 0.1, 0.1, rule="hybrid")
    assert "'big'" in str(caught.value)
    assert_clear(caught.value)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("screening", SCREENING)
def test_large_matrix_with_an_indefinite_block_is_refused(screening, solver):
    with pytest.raises(ValueError, match="not positive semidefinite") as caught:
        solve({"well": np.eye(600), "big": indefinite_triple(600)}, 0.1, 0.1, screening=screening, solver=solver)
    assert "'big'" in str(caught.value)
    assert_clear(caught.value)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("screening", SCREENING)
def test_indefinite_variables_in_small_units_are_refused_by_every_screening(screening, solver):
    units = np.array([1e-3, 1e-3, 1e-3, 1e3])
    with pytest.raises(ValueError, match="not positive semidefinite"):
        solve(indefinite_triple(4) * np.outer(units, units), 1e-8, 1e-9, screening=screening, solver=solver)


# Borderline input that is good


@pytest.mark.parametrize("p", [40, 600])
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_singular_covariance_slightly_indefinite_by_rounding_is_accepted(p, precision):
    X = np.random.default_rng(p).normal(size=(12, p)).astype(precision)
    rounded = np.asarray(np.cov(X.T, bias=True, dtype=precision), dtype=np.float64)
    assert np.linalg.eigvalsh(rounded)[0] < 0
    assert solve(rounded, 0.8, 0.2).status


def test_asymmetry_by_rounding_is_accepted():
    assert solve(with_entry(S1, 0, 1, S1[0, 1] * (1 + 1e-13))).status


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8, object])
def test_other_number_types_give_the_solution_of_their_values(dtype):
    given = [np.rint(8 * S + 4 * np.eye(P)).astype(dtype) for S in (S1, S2)]
    expected = solve([S.astype(np.float64) for S in given], 1.0, 0.5)
    found = solve(given, 1.0, 0.5)
    assert all(
        np.array_equal(a.toarray(), b.toarray()) for a, b in zip(found.precision, expected.precision, strict=True)
    )
    assert {Theta.dtype for Theta in found.precision} == {np.dtype(np.float64)}


def test_integer_samples_are_centred_in_floating_point():
    counts = np.array([[1, 2], [2, 5], [4, 4]])
    found = jgl.SampleCovariance([counts]).block(0, np.arange(2))
    np.testing.assert_allclose(found, np.cov(counts.T, bias=True), rtol=1e-14)


def test_fortran_order_and_read_only_arrays_are_accepted_and_untouched():
    given = np.asfortranarray(S1)
    given.setflags(write=False)
    assert solve(given).objective == pytest.approx(solve(S1).objective, rel=1e-12)


def test_input_is_not_changed():
    stack, table = np.stack([S1, S2]), X1.copy()
    solve(stack)
    solve(jgl.SampleCovariance([table], scale="correlation"))
    assert np.array_equal(stack, [S1, S2]) and np.array_equal(table, X1)


def test_constant_column_with_penalised_diagonal_is_alone_with_precision_one_over_lambda1():
    solution = solve(jgl.SampleCovariance(two(X1, constant_column(X2, 3))), 0.2, 0.1)
    Theta = solution.precision[1].toarray()
    assert Theta[3, 3] == pytest.approx(1 / 0.2)
    assert np.count_nonzero(Theta[3]) == 1
    assert solution.status


@pytest.mark.parametrize("sequence", [list, tuple, np.stack, lambda pair: dict(enumerate(pair))])
def test_covariances_come_as_array_sequence_or_dict(sequence):
    assert solve(sequence([S1, S2])).objective == solve([S1, S2]).objective


def test_a_single_matrix_is_one_class():
    assert solve(S1).objective == solve([S1]).objective


@pytest.mark.parametrize("number", [1, np.float32(1), np.int64(1)])
def test_penalties_may_be_any_real_number(number):
    assert solve(S1, number, number).objective == solve(S1, 1.0, 1.0).objective


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("screening", SCREENING)
def test_nothing_penalised_and_definite_gives_the_inverse(screening, solver):
    solution = solve([S1, S2], 0.0, 0.0, tol=1e-10, screening=screening, solver=solver)
    for Theta, S in zip(solution.precision, (S1, S2), strict=True):
        np.testing.assert_allclose(Theta.toarray(), np.linalg.inv(S), rtol=0, atol=1e-3)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize(("lambda1", "lambda2"), [(0.2, 0.0), (0.0, 0.2), (0.1, 0.1)])
def test_rank_deficient_covariance_is_solved_when_anything_is_penalised(lambda1, lambda2, diagonal):
    few = [np.cov(X1[:4].T, bias=True), np.cov(X2[:4].T, bias=True)]
    assert solve(few, lambda1, lambda2, penalize_diagonal=diagonal, max_iter=20000).status


# Names: variables in another order are aligned, not mixed (two peers mix them silently)


def assert_same_solution(found: jgl.Solution, expected: jgl.Solution) -> None:
    assert found.variable_names == expected.variable_names
    for a, b in zip(found.precision, expected.precision, strict=True):
        # Tables may come in another memory order, which sums in another order.
        np.testing.assert_allclose(a.toarray(), b.toarray(), rtol=0, atol=1e-12)


def test_sample_frames_with_permuted_columns_are_aligned_by_name():
    expected = solve(jgl.SampleCovariance([frame(X1), frame(X2)]))
    found = solve(jgl.SampleCovariance([frame(X1), frame(X2).iloc[:, SHUFFLED]]))
    assert found.variable_names == tuple(GENES)
    assert_same_solution(found, expected)


@pytest.mark.parametrize("permute", ["both", "index", "columns"])
@pytest.mark.parametrize("names", [GENES, list("cabed"), [4, 2, 0, 1, 3], [0, 1, 2, 3, 4]], ids=str)
def test_covariance_frames_with_permuted_rows_or_columns_are_aligned_by_name(permute, names):
    expected = solve([square_frame(S1, names), square_frame(S2, names)])
    rows = SHUFFLED if permute in ("both", "index") else range(P)
    columns = SHUFFLED if permute in ("both", "columns") else range(P)
    found = solve([square_frame(S1, names), square_frame(S2, names).iloc[rows, columns]])
    assert_same_solution(found, expected)


def test_alignment_shows_in_the_result():
    """Without the alignment the answer would be another one, so the tests above can fail."""
    mixed = solve([S1, S2[np.ix_(SHUFFLED, SHUFFLED)]])
    assert abs(mixed.objective - solve([S1, S2]).objective) > 1e-3


def test_covariance_frame_with_default_index_is_taken_as_it_stands():
    assert_same_solution(solve(pd.DataFrame(S1, columns=GENES)), solve(square_frame(S1)))


def test_frames_and_arrays_may_be_mixed_and_the_names_are_kept():
    solution = solve({"array": S1, "frame": square_frame(S2)})
    assert solution.variable_names == tuple(GENES) and solution.class_names == ("array", "frame")


# Weights


def test_sample_sizes_as_weights_are_honoured_in_every_form():
    source = jgl.SampleCovariance(two(X1, X2))
    share = np.array([60, 80]) / 140
    expected = solve(source, weights=share, tol=1e-9).objective
    assert solve(source, weights="sample_size", tol=1e-9).objective == expected
    assert solve(source, weights={"ill": share[1], "well": share[0]}, tol=1e-9).objective == expected
    dense = jgl.DenseCovariance([S1, S2], sample_sizes=[60, 80])
    assert solve(dense, weights="sample_size", tol=1e-9).objective == pytest.approx(expected, rel=1e-8)
    assert abs(solve(source, weights=None).objective - expected) > 0.1


# Warm starts


@pytest.mark.parametrize(
    "start", [-np.eye(P), np.zeros((P, P)), np.ones((P, P)), np.triu(np.ones((P, P)))], ids=["neg", "0", "1", "triu"]
)
def test_warm_start_that_is_not_definite_is_refused_or_harmless(start):
    expected = solve(S1, tol=1e-8)
    try:
        solution = solve(S1, warm_start=[start], tol=1e-8)
    except ValueError as error:
        assert "warm_start" in str(error)
        assert_clear(error)
    else:
        assert solution.status and solution.objective == pytest.approx(expected.objective, rel=1e-7)
        np.testing.assert_allclose(solution.precision[0].toarray(), expected.precision[0].toarray(), atol=1e-3)


@pytest.mark.parametrize("form", [list, np.stack, lambda Ts: [sparse.csc_array(T) for T in Ts]])
def test_warm_start_may_be_dense_or_sparse(form):
    start = form([np.linalg.inv(S1 + 0.1 * np.eye(P)), np.linalg.inv(S2 + 0.1 * np.eye(P))])
    assert solve([S1, S2], warm_start=start).status


# What peers do and we must not


def test_lambda2_zero_gives_separate_graphical_lassos():
    joint = solve([S1, S2], 0.15, 0.0, tol=1e-9)
    for Theta, S in zip(joint.precision, (S1, S2), strict=True):
        np.testing.assert_allclose(Theta.toarray(), solve(S, 0.15, 0.0, tol=1e-9).precision[0].toarray(), atol=1e-3)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("screening", SCREENING)
def test_screened_blocks_land_on_their_own_variables(screening, solver):
    """A peer returns blocks at the wrong place when most variables are screened out."""
    p, pairs = 30, [(0, 17), (3, 4), (9, 28), (11, 25), (12, 29)]
    S = np.eye(p)
    for i, j in pairs:
        S[i, j] = S[j, i] = 0.6
    Theta = solve([S, S], 0.2, 0.1, screening=screening, solver=solver).precision[0]
    rows, columns = sparse.triu(Theta, 1).tocoo().coords
    assert sorted(zip(rows.tolist(), columns.tolist(), strict=True)) == pairs


def test_converged_means_close_to_the_optimum_whatever_the_number_of_variables():
    """A peer's tolerance grows with p: it calls 39% error optimal."""
    for p in (20, 80):
        S = np.stack([np.cov(np.random.default_rng(k).normal(size=(2 * p, p)).T, bias=True) for k in range(2)])
        optimum = solve(S, 0.1, 0.05, tol=1e-7).objective
        loose = solve(S, 0.1, 0.05, tol=1e-3)
        assert loose.status
        assert -1e-7 <= (loose.objective - optimum) / abs(optimum) <= 1e-3


def test_no_message_is_printed(capfd):
    with pytest.warns(jgl.ConvergenceWarning):
        solve([S1, S2], 0.01, 0.01, max_iter=1, tol=1e-12)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("b", [6, 60])
@pytest.mark.parametrize("scale", [1e-60, 1e-3, 1.0, 1e25, 1e60])
def test_definiteness_does_not_depend_on_units(b, scale):
    X = np.random.default_rng(b).standard_normal((b // 2, b))  # singular
    S = X.T @ X / len(X) * scale
    units = np.logspace(0, 3, b)
    S *= units[:, None] * units
    direction = np.linalg.svd(X)[2][-1] / units
    bad = S - 0.01 * scale * np.outer(direction, direction) * np.outer(units, units) ** 2
    constant = S.copy()
    constant[0] = constant[:, 0] = 0.0
    wrong = constant.copy()
    wrong[0, 1] = wrong[1, 0] = 0.5 * np.sqrt(constant[1, 1])
    flat = np.concatenate([matrix.ravel() for matrix in (S, bad, constant, wrong)])
    offset, size = np.arange(5) * b * b, np.full(4, b)
    assert semidefinite(flat, offset, size).tolist() == [True, False, True, False]


@pytest.mark.parametrize("p", [5, 40])
def test_covariances_may_come_in_any_order_of_memory(p):
    X = np.random.default_rng(0).standard_normal((3 * p, p))
    S = X.T @ X / len(X)
    plain = jgl.solve([S, S], 0.1, 0.1)
    turned = jgl.solve([np.asfortranarray(S), S.T], 0.1, 0.1)
    assert turned.objective == pytest.approx(plain.objective, rel=1e-9)


def test_tiny_covariances_raise_nothing_where_numpy_is_strict():
    S = 0.1 ** np.abs(np.subtract.outer(np.arange(60.0), np.arange(60.0)))
    with np.errstate(all="raise"):
        assert is_semidefinite(S)
