"""Pictures of inference: what they show is what the tables say."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import PathCollection

import jointglasso as jgl
from jointglasso import plots


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X = {name: rng.normal(size=(80, 6)) for name in ("a", "b", "c")}
    X["a"][:, 1] += X["a"][:, 0]
    X["b"][:, 1] -= X["b"][:, 0]
    return X


@pytest.fixture(scope="module")
def found(samples):
    return jgl.infer(samples)


def test_intervals_of_the_edges_found(found, tmp_path):
    figure = plots.plot_intervals(found, path=tmp_path / "forest.png")
    (ax,) = figure.axes
    pairs = found.edges(fdr=0.1)[["variable1", "variable2"]].drop_duplicates()
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"{a} – {b}" for a, b in pairs.to_numpy()]
    assert (tmp_path / "forest.png").stat().st_size > 5000
    edges = found.edges()
    shown = edges[(edges.variable1 + edges.variable2).isin(pairs.variable1 + pairs.variable2)]
    marks = [points.get_offsets() for points in ax.collections if isinstance(points, PathCollection)]
    drawn = np.sort(np.concatenate([offsets[:, 0] for offsets in marks if len(offsets)]))
    np.testing.assert_allclose(drawn, np.sort(shown.partial_correlation))


def test_nothing_found_is_said():
    noise = jgl.infer(np.random.default_rng(1).normal(size=(40, 4)))
    figure = plots.plot_intervals(noise, fdr=1e-6)
    assert "no edge" in figure.axes[0].texts[0].get_text()


def test_volcano_has_a_panel_for_each_comparison(found):
    figure = plots.plot_volcano(found)
    assert len([ax for ax in figure.axes if ax.get_visible()]) == 3
    grey, coloured = figure.axes[0].collections[:2]
    mine = found.differences()
    mine = mine[(mine.class1 == "a") & (mine.class2 == "b")]
    assert len(coloured.get_offsets()) == (mine.q_value <= 0.1).sum() >= 1
    assert len(grey.get_offsets()) + len(coloured.get_offsets()) == len(mine)
    assert "x0 – x1" in [text.get_text() for text in figure.axes[0].texts]


def test_centrality_with_bootstrap_intervals(samples, tmp_path):
    drawn = jgl.bootstrap_network(samples, n_resamples=10, random_state=0)
    for measure in ("strength", "expected_influence"):
        figure = plots.plot_bootstrap(drawn, measure=measure, n_variables=3, path=tmp_path / f"{measure}.svg")
        labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert len(labels) == 3
        assert {"x0", "x1"} <= set(labels)
