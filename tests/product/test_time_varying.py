"""Networks over time: windows, the estimator on them, what changes and what of it is proved, pictures, command line."""

import re
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st
from sklearn.base import clone

import jointglasso as jgl
from jointglasso.cli import main
from jointglasso.data.windows import DependentSamplesWarning, time_windows
from jointglasso.report.write import make_payload

# Windows


def test_windows_of_equal_counts_and_of_equal_length():
    time = np.arange(100.0)
    assert [len(rows) for rows in time_windows(time, windows=4).rows] == [25] * 4
    half = time_windows(time, windows=4, overlap=0.5)
    assert half.names == ("0 – 39", "20 – 59", "40 – 79", "60 – 99") and half.sample_fraction == pytest.approx(
        100 / 160
    )
    assert time_windows(time, width=30).names == ("0 – 29", "30 – 59", "60 – 89", "90 – 99")
    assert time_windows(time, width=33).names == ("0 – 32", "33 – 65", "66 – 99")  # the last holds its end
    assert time_windows(time, width=50, overlap=0.5).names == ("0 – 49", "25 – 74", "50 – 99")


def test_every_time_stamp_is_a_window_unless_said_otherwise():
    found = time_windows([3, 1, 2, 1, 3, 2, 2])
    assert found.names == ("1", "2", "3") and found.sample_fraction == 1.0
    assert [rows.tolist() for rows in found.rows] == [[1, 3], [2, 5, 6], [0, 4]]


def test_dates_are_times():
    days = pd.date_range("2003-01-01", periods=300, freq="D")
    found = time_windows(days, width="90D")
    assert found.names[0] == "2003-01-01 – 2003-03-31" and len(found.names) == 4
    assert time_windows([str(day.date()) for day in days], width="90D").names == found.names


def test_samples_of_one_time_stay_together_and_windows_may_have_gaps():
    time = np.repeat([0, 1, 2, 10], [5, 20, 5, 10])
    found = time_windows(time, windows=3)
    assert sorted(np.concatenate(found.rows).tolist()) == list(range(40))
    assert all(np.unique(time[rows]).size == len(set(time[rows])) for rows in found.rows)
    assert time_windows(time, width=2).names == ("0 – 1", "2", "10")


@settings(max_examples=60)
@given(st.integers(20, 60), st.integers(1, 6), st.floats(0, 0.7), st.integers(0, 1000))
def test_windows_hold_every_sample_in_order(n, windows, overlap, seed):
    time = np.random.default_rng(seed).permutation(n).astype(float)
    found = time_windows(time, windows=windows, overlap=overlap)
    assert len(found.rows) == windows and set(np.concatenate(found.rows)) == set(range(n))
    assert (np.diff(found.first) > 0).all() and (np.diff(found.last) > 0).all()
    for rows, first, last in zip(found.rows, found.first, found.last, strict=True):
        assert ((time[rows] >= first) & (time[rows] <= last)).all() and len(rows) == last - first + 1
    assert sum(map(len, found.rows)) * found.sample_fraction == pytest.approx(n)


@pytest.mark.parametrize(
    ("time", "options", "words"),
    [
        (np.arange(9.0), {"windows": 2, "width": 3}, "give one of them"),
        (np.arange(9.0), {"windows": 2, "overlap": 1.0}, "below 1"),
        (np.arange(9.0), {"overlap": 0.5}, "needs windows= or width="),
        (np.arange(9.0), {"windows": 20}, "9 different time stamps"),
        (np.arange(9.0), {"width": 1}, "'0' has 1 sample"),
        (np.arange(9.0), {"width": 0}, "more than 0"),
        (np.arange(9.0), {}, "'0' has 1 sample"),
        ([0.0, np.nan, 1.0], {}, "sample 1 is missing"),
        (["a", "b"], {}, "neither numbers nor dates"),
        (pd.date_range("2003-01-01", periods=9), {"width": "a while"}, "no length of time"),
    ],
)
def test_bad_windows_are_refused_in_a_clear_sentence(time, options, words):
    with pytest.raises(ValueError, match=words):
        time_windows(time, **options)


# The estimator


def jumping(n=400, seed=0):
    """Four variables; from the middle on, x1 follows x0; x2 and x3 go together all the time."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[n // 2 :, 1] += X[n // 2 :, 0]
    X[:, 3] += X[:, 2]
    return X, np.arange(n)


@pytest.mark.parametrize("penalty", ["chain", "laplacian"])
def test_the_fit_is_the_optimum_of_the_time_varying_graphical_lasso(penalty):
    X, time = jumping(120)
    lambda1, lambda2 = 0.1, 0.15
    model = jgl.TimeVaryingGraphicalLasso(
        lambda1, lambda2, penalty=penalty, windows=4, overlap=0.3, weights="equal", tol=1e-9
    ).fit(X, time)
    rows = time_windows(time, windows=4, overlap=0.3).rows
    Theta = [cp.Variable((4, 4), PSD=True) for _ in rows]
    total = sum(cp.trace(np.corrcoef(X[mine].T) @ T) - cp.log_det(T) for mine, T in zip(rows, Theta, strict=True))
    off = 1.0 - np.eye(4)
    total += lambda1 * sum(cp.sum(cp.multiply(off, cp.abs(T))) for T in Theta)
    for one, two in pairwise(Theta):
        apart = cp.abs(two - one) if penalty == "chain" else cp.square(two - one)
        total += lambda2 * cp.sum(cp.multiply(off, apart))
    problem = cp.Problem(cp.Minimize(total))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10)
    assert model.solution_.objective == pytest.approx(problem.value, abs=1e-6)
    for mine, T in zip(model.solution_.precision, Theta, strict=True):
        assert np.abs(mine.toarray() - T.value).max() < 2e-3


def test_a_jump_is_found_where_it_is_and_proved():
    X, time = jumping()
    order = np.random.default_rng(1).permutation(len(X))
    model = jgl.TimeVaryingGraphicalLasso(0.15, 0.2, windows=8).fit(X[order], time[order])
    steps = model.steps_
    assert steps["changed"].tolist() == [0, 0, 0, 1, 0, 0, 0] == steps["certified"].tolist()
    assert steps.loc[3, ["before", "after"]].tolist() == ["150 – 199", "200 – 249"]
    assert steps["appeared"].sum() == 1 and steps["vanished"].sum() == 0
    assert model.windows_["samples"].tolist() == [50] * 8
    # Values that stay are one value in the refit too.
    values = [Theta.toarray()[2, 3] for Theta in model.precision_correlation_]
    assert len(set(values)) == 1
    assert model.score(X, time) > model.score(np.roll(X, len(X) // 2, axis=0), time)
    assert clone(model).get_params() == model.get_params()


def test_penalties_are_chosen_with_every_sample_counted_once():
    X, time = jumping(200)
    model = jgl.TimeVaryingGraphicalLasso(windows=5, overlap=0.5, criterion="ebic").fit(X, time)
    counted = model.solution_.parameters["sample_sizes"]
    assert sum(counted) == pytest.approx(200, abs=3) and model.windows_["samples"].sum() > 300
    assert model.lambda1_ == model.selection_.lambda1 and sum(model.solution_.n_edges) > 0
    for criterion in ("cv", "stars"):
        with pytest.raises(ValueError, match="windows that overlap share theirs"):
            jgl.TimeVaryingGraphicalLasso(windows=5, overlap=0.5, criterion=criterion).fit(X, time)


def test_time_may_be_a_column_or_the_order_of_the_rows():
    X, _ = jumping(80)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(day=pd.date_range("2003-01-01", periods=80))
    by_column = jgl.TimeVaryingGraphicalLasso(0.2, 0.1, width="20D").fit(frame, "day")
    by_order = jgl.TimeVaryingGraphicalLasso(0.2, 0.1, width=20).fit(X)
    assert by_column.networks_.variable_names == ("a", "b", "c", "d")
    assert by_column.solution_.objective == pytest.approx(by_order.solution_.objective, rel=1e-12)
    assert by_column.classes_[0] == "2003-01-01 – 2003-01-20" and by_order.classes_[0] == "0 – 19"
    assert np.isfinite(by_column.score(frame, "day"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lambda1": 0.1}, "go together"),
        ({"penalty": "group"}, "penalty"),
        ({"windows": 3, "width": 2}, "give one of them"),
    ],
)
def test_bad_parameters_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        jgl.TimeVaryingGraphicalLasso(**options).fit(*jumping(40))


def test_covariates_are_regressed_out_of_each_window():
    X, time = jumping(80)
    age, backwards = np.random.default_rng(1).normal(size=(80, 1)), np.arange(80)[::-1]
    model = jgl.TimeVaryingGraphicalLasso(0.2, 0.1, width=20)
    found = model.fit((X + age)[backwards], time[backwards], covariates=age[backwards]).solution_
    source = jgl.SampleCovariance.from_labels(X, np.arange(80) // 20, covariates=age, scale="correlation")
    options = {"penalty": "chain", "weights": "sqrt_sample_size", "penalize_diagonal": False}
    assert found.objective == pytest.approx(jgl.solve(source, 0.2, 0.1, **options).objective, rel=1e-9)
    with pytest.raises(ValueError, match="does not go with windows that overlap"):
        jgl.TimeVaryingGraphicalLasso(0.2, 0.1, width=20, overlap=0.5).fit(X, time, covariates=age)


def test_consecutive_samples_that_are_alike_cause_a_warning():
    rng, model = np.random.default_rng(0), jgl.TimeVaryingGraphicalLasso(0.3, 0.1, windows=2)
    Z, order = rng.normal(size=(121, 4)), rng.permutation(120)
    X = Z[1:] + 0.9 * Z[:-1]
    with pytest.warns(DependentSamplesWarning, match="lag-1 autocorrelation"):
        model.fit(X[order], order)  # alike in time, not in the order of the rows
    model.fit(X, order)


def test_time_stamps_are_one_for_each_sample():
    with pytest.raises(ValueError, match="5 time stamps for 40 samples"):
        jgl.TimeVaryingGraphicalLasso(0.1, 0.1).fit(jumping(40)[0], np.arange(5))


# Shown


def test_steps_without_comparison_count_edges_that_come_and_go():
    values = [0.0, 0.4, 0.4, -0.2]
    precision = [np.array([[2.0, v], [v, 2.0]]) for v in values]
    steps = jgl.JointNetworks(precision, list("abcd"), ["x", "y"]).steps()
    assert "changed" not in steps
    assert steps["appeared"].tolist() == [1, 0, 0] and steps["vanished"].tolist() == [0, 0, 0]
    assert steps["size"].tolist() == pytest.approx([0.2, 0.0, 0.3])
    with pytest.raises(ValueError, match="there is one"):
        jgl.JointNetworks(precision[:1], ["a"], ["x", "y"]).steps()


def test_the_picture_has_a_bar_for_each_step_and_a_line_for_each_pair_that_moves(tmp_path):
    model = jgl.TimeVaryingGraphicalLasso(0.15, 0.2, windows=8).fit(*jumping())
    figure = jgl.plots.plot_over_time(model.networks_, path=tmp_path / "time.svg")
    above, below = figure.axes[:2]
    assert [bar.get_height() for bar in above.patches[7:]] == [0, 0, 0, 1, 0, 0, 0]
    assert [text.get_text() for text in below.get_legend().get_texts()] == ["x0 – x1"]
    dated = jgl.plots.plot_over_time(model.networks_, time=pd.date_range("2003-01-01", periods=8))
    assert len(dated.axes[0].patches) == 14
    with pytest.raises(ValueError, match="one number or datetime"):
        jgl.plots.plot_over_time(model.networks_, time=[1, 2])
    payload = make_payload(model.solution_, model.networks_)
    card = next(card for card in payload["facts"] if card["id"] == "steps")
    assert card["table"]["rows"][3][:4] == ["150 – 199", "200 – 249", "1", "1"]
    assert payload["start_mode"] == "side"


def test_the_command_line_tells_where_the_networks_change(tmp_path):
    X, time = jumping()
    file = tmp_path / "samples.csv"
    pd.DataFrame(X, columns=list("abcd")).assign(t=time).to_csv(file, index=False)
    arguments = ["fit", str(file), "--time", "t", "--windows", "8", "--lambda1", "0.15", "--lambda2", "0.2"]
    found = CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / "out"), "--no-figures"])
    assert found.exit_code == 0, found.output
    assert re.search(r"150 – 199 +200 – 249 +1 +1 ", found.output), "the step that changes, certified"
    steps = pd.read_csv(tmp_path / "out" / "steps.csv")
    assert steps["changed"].tolist() == [0, 0, 0, 1, 0, 0, 0]
    assert jgl.load(tmp_path / "out" / "solution.jgl").parameters["penalty"] == "chain"
    for wrong, words in ((["--label", "a"], "leave --label out"), (["--width", "3"], "give one of them")):
        refused = CliRunner().invoke(main, [*arguments, *wrong, "--out", str(tmp_path / "no")])
        assert refused.exit_code == 2 and words in refused.output
    refused = CliRunner().invoke(main, ["fit", str(file), "--windows", "3", "--out", str(tmp_path / "no")])
    assert refused.exit_code == 2 and "need --time" in refused.output


# Levels instead of changes


@pytest.mark.filterwarnings("ignore::jointglasso.data.windows.DependentSamplesWarning")
@pytest.mark.filterwarnings("error")
def test_levels_are_warned_about_and_their_changes_are_not(tmp_path):
    changes = np.random.default_rng(0).normal(size=(200, 4))
    day = np.arange(200)
    model = jgl.TimeVaryingGraphicalLasso(0.3, 0.3, windows=2)
    model.fit(changes, day)
    with pytest.warns(UserWarning, match=r"of 4 variables have trends .*log returns"):
        model.fit(np.cumsum(changes, axis=0), day)
    model.fit(np.cumsum(changes, axis=0), np.random.default_rng(1).permutation(200))  # not in this order
    table = pd.DataFrame(np.exp(0.01 * np.cumsum(changes, axis=0)), columns=list("abcd")).assign(day=day)
    table.to_csv(tmp_path / "prices.csv", index=False)
    options = ["--time", "day", "--windows", "2", "--lambda1", "0.3", "--lambda2", "0.3", "--no-figures"]
    result = CliRunner().invoke(main, ["fit", str(tmp_path / "prices.csv"), *options, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0 and "have trends" in result.stderr
    assert "Differences between the classes are not tested: consecutive samples are alike" in result.stdout


def test_the_grid_that_warnings_speak_of_can_be_given():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = jgl.TimeVaryingGraphicalLasso(windows=2, ratios=[0.5, 2.0], n_lambdas=3, min_ratio=0.4)
    model.fit(X)
    assert sorted(set(model.selection_.table.lambda2 / model.selection_.table.lambda1)) == pytest.approx([0.5, 2.0])
