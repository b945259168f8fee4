"""Every combination of function, association, missing values, groups and covariates works or is refused at once.

The table of the page on inference is the one made here.
"""

import itertools
import warnings
from pathlib import Path

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.inference.data import ASSOCIATIONS

FUNCTIONS = {"infer": {}, "bootstrap_network": {"n_resamples": 3}, "network_test": {"n_permutations": 3}}
MISSING = ("complete", "pairwise", "em")
PAGE = Path(__file__).parents[2] / "docs" / "inference.md"


def data_set():
    """Two classes with missing values, an ordinal variable, subjects of two samples and a covariate."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 4)), np.repeat(["a", "b"], [44, 56])
    X[:, 1] += X[:, 0]
    X[:, 2] = np.digitize(X[:, 2], [-0.5, 0.5])
    X[rng.random(X.shape) < 0.03] = np.nan
    return X, y, np.repeat(np.arange(50), 2), rng.normal(size=(100, 1))


def try_combination(function, association, missing, groups, covariates):
    """Whether a combination works; a refusal names one that does."""
    X, y, subjects, table = data_set()
    options = {"association": association, "missing": missing, **FUNCTIONS[function]}
    if covariates:
        options["covariates"] = table
    if groups and function != "network_test":
        options["groups"] = subjects
    if groups and function == "network_test":  # pairs: every subject once in each class
        X, y, options["covariates"] = X[:88], np.repeat(["a", "b"], 44), options.pop("covariates", None)
        options["covariates"] = None if options["covariates"] is None else table[:88]
        X = np.where(
            np.isnan(X) & (missing == "complete"), 0.0, X
        )  # dropped samples would leave subjects without a pair
        options["paired"] = np.tile(np.arange(44), 2)
    try:
        getattr(jgl, function)(X, y, **options)
    except jgl.InputError as error:
        assert "take" in str(error)
        return False
    return True


def table_of(works):
    """Rows of the table on the page: what each function takes."""
    rows = ["| association | missing | infer | bootstrap_network | network_test |", "|---|---|---|---|---|"]
    for association, missing in itertools.product(ASSOCIATIONS, MISSING):
        cells = []
        for function in FUNCTIONS:
            plain, with_groups, with_covariates = (
                works[function, association, missing, *beside] for beside in ((0, 0), (1, 0), (0, 1))
            )
            beside = [word for word, yes in (("groups", with_groups), ("covariates", with_covariates)) if yes]
            words = f"with {', '.join(beside)}" if beside else "alone"
            cells.append(
                words.replace("groups", "paired" if function == "network_test" else "groups") if plain else "no"
            )
        rows.append(f"| {association} | {missing} | {' | '.join(cells)} |")
    return "\n".join(rows)


@pytest.mark.filterwarnings("ignore::jointglasso.InferenceWarning")
def test_every_combination_works_or_is_refused_and_the_page_says_which():
    works = {key: try_combination(*key) for key in itertools.product(FUNCTIONS, ASSOCIATIONS, MISSING, (0, 1), (0, 1))}
    assert works["infer", "mixed", "pairwise", 1, 0] and works["bootstrap_network", "mixed", "complete", 0, 0]
    assert works["bootstrap_network", "nonparanormal", "em", 0, 0] and works["network_test", "mixed", "complete", 0, 0]
    assert sum(works.values()) > 0.6 * len(works)
    assert table_of(works) in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("function", list(FUNCTIONS))
def test_refusals_come_before_the_data_are_read(function):
    with pytest.raises(jgl.InputError, match="take missing='pairwise'"):
        getattr(jgl, function)(object(), association="mixed", missing="em", **FUNCTIONS[function])
    with pytest.raises(jgl.InputError, match="take association='nonparanormal'"):
        getattr(jgl, function)(object(), association="mixed", covariates=[[1.0]], **FUNCTIONS[function])


def test_pairwise_standard_errors_count_the_samples_of_a_pair():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    X[:150, 0] = np.nan
    found = jgl.infer(X, missing="pairwise")
    halved = found.estimates.rows == 0
    ratio = found.estimates.error[halved].mean() / found.estimates.error[~halved].mean()
    assert ratio == pytest.approx(np.sqrt(2.0), rel=0.2)
    assert found.se == "resampled" and "both values" in found.method()


def test_spearman_agrees_with_normal_scores():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 5))
    X[:, 1] += X[:, 0]
    one, two = (jgl.infer(np.exp(X), association=word) for word in ("spearman", "nonparanormal"))
    np.testing.assert_allclose(one.estimates.z, two.estimates.z, atol=0.06)
    np.testing.assert_allclose(one.estimates.error, two.estimates.error, rtol=0.35)


@pytest.mark.filterwarnings("ignore::jointglasso.InferenceWarning")
@pytest.mark.parametrize("se", ["moderated", "gaussian"])
def test_estimates_that_left_their_range_are_significant_nowhere(se):
    """Differences of such estimates were: 17 samples of 1,000 independent variables gave hundreds."""
    X = np.random.default_rng(0).normal(size=(17, 1000))
    found = jgl.infer(X, np.repeat(["a", "b"], (9, 8)), se=se)
    edges = found.edges()
    outside = edges[edges.partial_correlation.abs() > 1.0 - 1e-9]
    assert len(outside) and (outside.p_value > 0.999).all() and (outside.low == -1).all() and (outside.high == 1).all()
    tables = found.differences(), found.heterogeneity(), found.pooled_effect(), found.omnibus()
    assert not any(table.p_value.isna().any() for table in tables)
    if se == "moderated":
        assert all(table.q_value.min() > 0.1 for table in tables)
    else:
        assert "take `se='moderated'`" in found.notes[0].replace("se='moderated'", "`se='moderated'`")


def test_few_samples_for_many_variables_are_named():
    rng = np.random.default_rng(3)
    X = {"small": rng.normal(size=(15, 60)), "large": rng.normal(size=(400, 60))}
    with pytest.warns(jgl.InferenceWarning, match="'small' has 15 samples for 60 variables") as said:
        found = jgl.infer(X)
    assert len(said) == 1 and str(said[0].message) in found.notes
    # One estimate outside (-1, 1) no longer makes every interval of its class [-1, 1].
    low, high = found.intervals()[1:]
    assert np.median(high - low, axis=0).max() < 1.5 and found.p_values.min(axis=0).max() < 0.05


def test_one_wild_estimate_leaves_the_others_their_intervals():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(40, 20))
    X = rng.normal(size=(40, 200)) + 0.8 * np.repeat(factor, 10, axis=1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = jgl.infer(X, np.repeat(["a", "b"], 20))
    assert any("leave (-1, 1)" in str(warning.message) for warning in said)
    low, high = found.intervals()[1:]
    assert np.median(high - low, axis=0).max() < 1.2
