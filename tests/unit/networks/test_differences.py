"""Differences between classes are differences of values, not of presence alone."""

import numpy as np
import pandas as pd
import pytest

import jointglasso as jgl


def precision(**edges):
    """Unit precision matrix of a, b, c, d with these partial correlations."""
    Theta = np.eye(4)
    for (one, two), value in edges.items():
        i, j = "abcd".index(one), "abcd".index(two)
        Theta[i, j] = Theta[j, i] = -value
    return Theta


@pytest.fixture
def networks():
    one = precision(ab=0.5, bc=0.2, cd=0.1)
    two = precision(ab=0.1, bc=-0.1, ad=0.2)
    return jgl.JointNetworks([one, two, one], ["one", "two", "three"], list("abcd"))


def test_the_largest_difference_may_be_an_edge_of_both_classes(networks):
    table = networks.differences("one", "two")
    assert (table["variable1"] + table["variable2"]).tolist() == ["ab", "bc", "ad", "cd"]
    np.testing.assert_allclose(table["difference"], [0.4, 0.3, -0.2, 0.1])
    assert table["change"].tolist() == ["size", "opposite signs", "only second", "only first"]
    assert not table["tested"].any()


def test_every_two_classes_without_names_and_nothing_where_equal(networks):
    table = networks.differences()
    assert table.groupby(["class1", "class2"]).size().to_dict() == {("one", "two"): 4, ("two", "three"): 4}
    assert networks.differences("one", "three").empty


def test_the_order_of_the_classes_turns_the_sign(networks):
    forth, back = networks.differences("one", "two"), networks.differences("two", "one")
    np.testing.assert_array_equal(forth["difference"], -back["difference"])


def test_tests_stand_beside_the_differences(networks):
    tests = pd.DataFrame(
        {"class1": ["two", "two"], "class2": ["one", "one"], "variable1": ["b", "c"], "variable2": ["a", "b"],
         "p_value": [0.01, 0.2], "q_value": [0.02, 0.2]}
    )  # fmt: skip
    table = networks.differences("one", "two", tested=tests)
    assert table["p_value"].tolist()[:2] == [0.01, 0.2] and table["q_value"].isna().tolist()[2:] == [True, True]
    assert table["tested"].tolist() == [True, True, False, False]


def test_intervals_turn_with_the_order_of_the_classes(networks):
    tests = pd.DataFrame(
        {"class1": ["two"], "class2": ["one"], "variable1": ["b"], "variable2": ["a"], "difference": [-0.4],
         "low": [-0.7], "high": [-0.1], "p_value": [0.01], "q_value": [0.02]}
    )  # fmt: skip
    row = networks.differences("one", "two", tested=tests).iloc[0]
    assert (row["estimated_difference"], row["low"], row["high"]) == (0.4, 0.1, 0.7)
    assert networks.differences("two", "one", tested=tests).iloc[0]["low"] == -0.7


@pytest.mark.parametrize(
    "classes, words",
    [(("one", None), "name both"), (("one", "one"), "both 'one'"), (("one", "four"), "no class 'four'")],
)
def test_two_different_classes_are_needed(networks, classes, words):
    with pytest.raises(ValueError, match=words):
        networks.differences(*classes)


def test_tests_name_their_classes(networks):
    with pytest.raises(ValueError, match="no column 'class1'"):
        networks.differences(tested=pd.DataFrame({"variable1": [], "variable2": [], "p_value": [], "q_value": []}))


def test_the_figure_shows_both_values_of_each_difference(networks, tmp_path):
    figure = jgl.plots.plot_differences(networks, "one", "two", path=tmp_path / "differences.svg")
    text = (tmp_path / "differences.svg").read_text()
    for words in ("one minus two", "a – b", "higher in two", "no edge", "not tested"):
        assert words in text
    with pytest.raises(ValueError, match="name the two"):
        jgl.plots.plot_differences(networks)
    assert len(figure.axes) == 2
    assert jgl.plots.plot_differences(networks, "one", "three").axes[0].texts[0].get_text() == "no difference"


def test_the_figure_names_significant_differences_where_tests_are_given(networks, tmp_path):
    tests = pd.DataFrame(
        {"class1": ["one"] * 4, "class2": ["two"] * 4, "variable1": list("abac"), "variable2": list("bcdd"),
         "p_value": [0.5, 0.001, 0.6, 0.7], "q_value": [0.7, 0.004, 0.7, 0.7]}
    )  # fmt: skip
    figure = jgl.plots.plot_differences(networks, "one", "two", tested=tests, path=tmp_path / "differences.svg")
    text = (tmp_path / "differences.svg").read_text()
    assert "1 significant at FDR 0.1" in text and "not significant" in text and "not tested" not in text
    assert figure.axes[1].get_yticklabels()[0].get_text() == "b – c  (q = 0.004)"
