"""Pictures: what is in them, that they are quick, and that drawing one changes nothing else."""

import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from scipy import sparse

import jointglasso as jgl
from jointglasso.plots.adjacency import block_order
from jointglasso.plots.canvas import BLUE, PURPLE, VERMILION


def random_networks(p, m, K, seed=0, keep=0.7):
    """Networks of m pairs, each in a class with probability `keep`, a quarter of them negative."""
    rng = np.random.default_rng(seed)
    pairs = np.unique(np.sort(rng.integers(0, p, (m, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    sign = np.where(rng.random(len(pairs)) < 0.25, 1.0, -1.0)
    matrices = []
    for _ in range(K):
        mine = rng.random(len(pairs)) < keep
        values = sign[mine] * (0.1 + rng.random(mine.sum()))
        upper = sparse.coo_array((values, tuple(pairs[mine].T)), shape=(p, p))
        matrices.append(sparse.csc_array(upper + upper.T + 3 * sparse.eye_array(p)))
    return jgl.JointNetworks(matrices, [f"class {k}" for k in range(K)], [f"G{i}" for i in range(p)])


@pytest.fixture(scope="module")
def small():
    return random_networks(20, 25, 3)


def line_groups(ax):
    """Number of lines by colour and whether they are dashed."""
    found = {}
    for collection in ax.collections:
        if isinstance(collection, LineCollection):
            dashed = collection.get_linestyles()[0][1] is not None
            colour = matplotlib.colors.to_hex(collection.get_colors()[0]).upper()
            found[colour, dashed] = found.get((colour, dashed), 0) + len(collection.get_segments())
    return found


def texts(ax):
    return {text.get_text() for text in ax.texts}


# Networks


def test_lines_are_coloured_by_kind_and_dashed_by_sign():
    def matrix(**entries):
        Theta = 2.0 * np.eye(4)
        for name, value in entries.items():
            i, j = "abcd".index(name[0]), "abcd".index(name[1])
            Theta[i, j] = Theta[j, i] = value
        return Theta

    networks = jgl.JointNetworks(
        [matrix(ab=-0.5, bc=0.5, cd=0.3), matrix(ab=-0.4, bc=0.2, cd=-0.3, ad=-0.1), matrix(ab=-0.1, cd=-0.3)],
        ["x", "y", "z"],
        list("abcd"),
    )
    figure = jgl.plots.plot_networks(networks, colour="kind")
    grey = "#7F7F7F"  # in all classes; a negative precision is a positive partial correlation
    assert line_groups(figure.axes[0]) == {(grey, False): 1, (BLUE, True): 1, (PURPLE, True): 1}
    assert line_groups(figure.axes[1]) == {
        (grey, False): 1,
        (BLUE, True): 1,
        (PURPLE, False): 1,
        (VERMILION, False): 1,
    }
    assert [ax.get_title() for ax in figure.axes] == ["x (3 edges)", "y (4 edges)", "z (2 edges)"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend[:4] == ["in all classes", "in several classes", "in one class only", "in all classes, sign differs"]
    by_sign = jgl.plots.plot_networks(networks)
    assert line_groups(by_sign.axes[1]) == {(BLUE, False): 3, (VERMILION, True): 1}
    assert [text.get_text() for text in by_sign.legends[0].get_texts()][:2] == [
        "positive partial correlation",
        "negative",
    ]
    lines = [c for c in by_sign.axes[1].collections if isinstance(c, LineCollection)]
    opacity = np.concatenate([np.atleast_1d(c.get_alpha()) for c in lines])
    assert opacity.max() > 1.4 * opacity.min(), "weak edges are faint"


def test_groups_have_colours_and_a_legend(small):
    groups = {name: "first" if i % 2 else "second" for i, name in enumerate(small.variable_names)}
    figure = jgl.plots.plot_networks(small, groups=groups)
    assert [text.get_text() for text in figure.legends[1].get_texts()] == ["Group: second", "first"]
    nodes = [c for c in figure.axes[0].collections if isinstance(c, PathCollection)][-1]
    assert len({tuple(colour) for colour in nodes.get_facecolors()}) == 2
    assert len(jgl.plots.plot_networks(small, groups="none").legends) == 1


def test_on_a_circle_groups_stand_together(small):
    groups = ["a", "b"] * (small.n_variables // 2) + ["a"] * (small.n_variables % 2)
    figure = jgl.plots.plot_networks(small, layout="circle", groups=groups, isolated=True, labels="all")
    nodes = np.concatenate([c.get_offsets() for c in figure.axes[0].collections if isinstance(c, PathCollection)])
    radius = np.hypot(nodes[:, 0] / 1.2, nodes[:, 1])
    np.testing.assert_allclose(radius, radius[0])
    by_angle = sorted((np.arctan2(*text.xy) % (2 * np.pi), text.get_text()) for text in figure.axes[0].texts)
    group_of = dict(zip(small.variable_names, groups, strict=True))
    around = [group_of[name] for _, name in by_angle]
    assert sum(a != b for a, b in zip(around, around[1:] + around[:1], strict=True)) == 2


def test_only_the_strongest_pairs_are_drawn_and_the_title_says_so():
    networks = random_networks(300, 500, 2)
    figure = jgl.plots.plot_networks(networks)
    strong = networks.strongest(150)
    assert [ax.get_title().split("(")[1] for ax in figure.axes] == [
        f"{drawn} of {there} edges)" for drawn, there in zip(strong.n_edges, networks.n_edges, strict=True)
    ]
    assert strong.edge_list.n_pairs == 150
    least = strong.edge_list.strength_of_pair.min()
    assert (networks.edge_list.strength_of_pair >= least).sum() == 150
    assert "of" not in jgl.plots.plot_networks(networks, pairs="all").axes[0].get_title()


@pytest.mark.parametrize("given", [{"colour": "hue"}, {"layout": "grid"}, {"pairs": "many"}])
def test_words_that_are_not_known_are_named(small, given):
    with pytest.raises(ValueError, match="is not known; choose"):
        jgl.plots.plot_networks(small, **given)


def test_all_panels_share_one_layout_and_sizes_follow_degrees(small):
    figure = jgl.plots.plot_networks(small)
    limits = {(*ax.get_xlim(), *ax.get_ylim()) for ax in figure.axes}
    assert len(limits) == 1 and len(figure.axes) == 3
    for k, ax in enumerate(figure.axes):
        nodes = [c for c in ax.collections if isinstance(c, PathCollection)]
        areas = np.concatenate([np.broadcast_to(c.get_sizes(), len(c.get_offsets())) for c in nodes])
        degree = small.degree_table[small.degree_table.any(axis=1), k]
        assert len(areas) == len(degree), "isolated variables are hidden"
        np.testing.assert_allclose(np.diff(np.sort(areas)) > 1e-9, np.diff(np.sort(degree)) > 0)


def test_isolated_variables_can_be_shown():
    networks = jgl.JointNetworks([np.array([[2, 1, 0], [1, 2, 0], [0, 0, 2.0]])], ["x"], list("abc"))
    assert texts(jgl.plots.plot_networks(networks).axes[0]) == {"a", "b"}
    assert texts(jgl.plots.plot_networks(networks, isolated=True).axes[0]) == {"a", "b", "c"}


def test_few_variables_are_all_named_and_of_many_only_hubs(small):
    joined = {name for name, any_ in zip(small.variable_names, small.degree_table.any(axis=1), strict=True) if any_}
    assert texts(jgl.plots.plot_networks(small).axes[0]) == joined
    big = random_networks(300, 500, 2)
    named = texts(jgl.plots.plot_networks(big, pairs="all").axes[1])
    assert 5 <= len(named) <= 80
    degree = big.degree_table.sum(axis=1)
    cut = np.sort(degree)[-80]
    assert all(degree[int(name[1:])] >= cut for name in named)


def test_names_can_be_chosen(small):
    assert texts(jgl.plots.plot_networks(small, labels="none").axes[0]) == set()
    hub, other = (small.variable_names[i] for i in small.hub_positions(2))
    assert texts(jgl.plots.plot_networks(small, labels=[other]).axes[0]) == {other}
    assert texts(jgl.plots.plot_networks(small, labels=1).axes[0]) == {hub}
    with pytest.raises(ValueError, match="labels='some' is not known"):
        jgl.plots.plot_networks(small, labels="some")


def test_names_do_not_cover_one_another():
    figure = jgl.plots.plot_networks(random_networks(300, 500, 2))
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    frame = figure.axes[0].get_window_extent()
    overlapping = [
        (i, j) for i, a in enumerate(boxes) for j, b in enumerate(boxes[:i]) if a.overlaps(b)
    ]  # fmt: skip
    assert overlapping == []
    assert all(box.x0 >= frame.x0 - 2 and box.x1 <= frame.x1 + 2 for box in boxes)


def test_restriction_to_variables_or_hubs(small):
    names = [small.variable_names[i] for i in small.hub_positions(6)]
    assert texts(jgl.plots.plot_networks(small, variables=names).axes[0]) <= set(names)
    assert texts(jgl.plots.plot_networks(small, top=6).axes[0]) == texts(
        jgl.plots.plot_networks(small, variables=names).axes[0]
    )


def test_given_positions_are_used(small):
    places = np.random.default_rng(0).random((20, 2))
    figure = jgl.plots.plot_networks(small, positions=places, isolated=True)
    shown = np.concatenate([c.get_offsets() for c in figure.axes[0].collections if isinstance(c, PathCollection)])
    np.testing.assert_allclose(np.sort(shown, axis=0), np.sort(places, axis=0))
    with pytest.raises(ValueError, match=r"positions has shape \(3, 2\)"):
        jgl.plots.plot_networks(small, positions=places[:3])


def test_rings_are_dark_for_the_share_of_their_variable(small):
    shares = pd.DataFrame(0.25, index=small.variable_names, columns=small.class_names)
    shares.loc["G3", "class 1"] = np.nan
    figure = jgl.plots.plot_networks(small, rings=shares, isolated=True)
    lines = line_groups(figure.axes[1])
    assert lines["#BBBBBB", False] == lines["#333333", False] == 19
    rings = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)][-1]
    first, *_, last = rings.get_segments()[0]
    assert last[0] > first[0] and last[1] < first[1]  # from the top to the right
    assert "ring: variance explained by the others" in [text.get_text() for text in figure.legends[0].get_texts()]
    assert "ring" not in str([text.get_text() for text in jgl.plots.plot_networks(small).legends[0].get_texts()])
    for wrong in (5 * shares, shares.iloc[:3], "predictability"):
        with pytest.raises(jgl.InputError, match="rings must be a data frame"):
            jgl.plots.plot_networks(small, rings=wrong)


def test_odd_names_are_shown_as_they_are(tmp_path):
    networks = jgl.JointNetworks([np.array([[2, 1], [1, 2.0]])] * 2, ["_x $1$", "a_b^c"], ["$\\frac", "__init__"])
    for draw in (jgl.plots.plot_networks, jgl.plots.plot_degrees, jgl.plots.plot_adjacency):
        draw(networks, path=tmp_path / "odd.png")
    shown = [text.get_text() for text in jgl.plots.plot_degrees(networks).axes[0].get_legend().get_texts()]
    assert len(shown) == 2, "a leading underscore hides no class"


def test_two_thousand_nodes_take_a_few_seconds():
    networks = random_networks(2000, 5000, 2)
    start = time.process_time()
    jgl.plots.plot_networks(networks)
    assert time.process_time() - start < 10.0  # about two seconds of one core


# Other pictures


def test_degree_picture_counts_right(small):
    (ax,) = jgl.plots.plot_degrees(small).axes
    for k, line in enumerate(ax.lines):
        x, y = line.get_data()
        np.testing.assert_allclose(y, [(small.degree_table[:, k] >= value).mean() for value in x])


def test_adjacency_is_ordered_by_block_and_symmetric(small):
    figure = jgl.plots.plot_adjacency(small)
    for k, ax in enumerate(figure.axes[:3]):
        cells = np.ma.filled(ax.images[0].get_array(), 0.0)
        np.testing.assert_array_equal(cells, cells.T)
        assert (cells != 0).sum() == 2 * small.n_edges[k]


def test_block_order_keeps_components_together():
    networks = jgl.JointNetworks(
        [sparse.csc_array(sparse.block_diag([sparse.coo_array([[3, 1, 1], [1, 3, 1], [1, 1, 3.0]])] * 4))],
        ["x"],
        range(12),
    )
    mixed = networks.subnetwork(np.random.default_rng(0).permutation(12))
    blocks = [int(mixed.variable_names[i]) // 3 for i in block_order(mixed)]
    assert sum(a != b for a, b in pairwise(blocks)) == 3
    assert sorted(block_order(mixed)) == list(range(12))


def test_adjacency_shades_a_partition(small):
    labels = np.arange(20)[None].repeat(3, axis=0) // 10
    figure = jgl.plots.plot_adjacency(small, jgl.Partition(labels), isolated=True)
    shaded = figure.axes[0].images[1].get_array()
    assert shaded.sum() == 2 * 10 * 10 and shaded.mask.sum() == 2 * 10 * 10
    with pytest.raises(ValueError, match="partition is of 1 classes"):
        jgl.plots.plot_adjacency(small, jgl.Partition(labels[:1]))


def test_many_variables_share_cells():
    networks = random_networks(700, 900, 1)
    image = jgl.plots.plot_adjacency(networks).axes[0].images[0]
    strongest = np.abs(networks.edge_list.partial_correlation).max()
    assert image.get_array().shape == (250, 250)
    assert np.abs(image.get_array()).max() == pytest.approx(strongest)


@pytest.fixture(scope="module")
def solution():
    rng = np.random.default_rng(2)
    mix = np.eye(12) + 0.4 * np.diag(np.ones(11), 1)
    samples = [rng.normal(size=(50, 12)) @ mix for _ in range(2)]
    return jgl.solve(jgl.SampleCovariance(samples), 0.1, 0.05, solver="admm", screening="hybrid")


@pytest.mark.parametrize("percolation", [None, 0.4])
def test_component_curve_marks_its_thresholds(percolation):
    lambda1 = np.linspace(0.9, 0.1, 9)  # order does not matter
    curve = SimpleNamespace(
        lambda1=lambda1,
        largest=np.arange(1, 10),
        n_edges=np.arange(9),
        cost=np.arange(1, 10) ** 3,
        lambda_max=0.85,
        percolation=percolation,
    )
    figure = jgl.plots.plot_component_curve(curve)
    np.testing.assert_allclose(figure.axes[0].lines[0].get_xdata(), lambda1[::-1])
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), np.arange(9, 0, -1))
    marks = [line.get_xdata()[0] for line in figure.axes[2].lines[1:]]
    assert marks == [0.85] + ([] if percolation is None else [0.4])


def test_component_curve_of_real_data():
    curve = jgl.component_curve(jgl.datasets.load_rppa().to_source(scale="correlation"), 0.2)
    figure = jgl.plots.plot_component_curve(curve)
    assert figure.axes[0].lines[0].get_ydata()[0] == curve.largest[-1]
    assert f"no edge above: {curve.lambda_max:.3g}" in [text.get_text() for text in figure.legends[0].get_texts()]


def chosen_point(ax):
    star = next(line for line in ax.lines if line.get_marker() == "*")
    return float(star.get_xdata()[0]), float(star.get_ydata()[0])


def test_selection_on_a_grid_is_a_line_for_each_lambda2():
    rows = [(a, b, (a - 0.4) ** 2 + b) for b in (0.3, 0.1, 0.2) for a in (0.2, 0.4, 0.6, 0.8)]
    table = pd.DataFrame(rows, columns=["lambda1", "lambda2", "score"], index=list("abcdefghijkl"))
    table.loc["a", "score"] = np.nan
    best = table["score"].idxmin()
    figure = jgl.plots.plot_selection(SimpleNamespace(table=table, best=best, criterion="eBIC"))
    *lines, _ = figure.axes[0].lines
    assert [(line.get_label(), len(line.get_xdata())) for line in lines] == [
        ("lambda2 = 0.1", 4), ("lambda2 = 0.2", 4), ("lambda2 = 0.3", 3)
    ]  # fmt: skip
    assert chosen_point(figure.axes[0]) == (0.4, pytest.approx(0.1))
    assert "lambda1 = 0.4, lambda2 = 0.1" in figure.axes[0].get_title()


def test_selection_along_ratios_is_a_line_for_each():
    rows = [(a, r * a, (a - 0.4) ** 2 + r) for a in (0.2, 0.4, 0.6) for r in (0.1, 0.5)]
    table = pd.DataFrame(rows, columns=["lambda1", "lambda2", "score"])
    best = int(table["score"].idxmin())
    ax = jgl.plots.plot_selection(SimpleNamespace(table=table, best=best, criterion="BIC")).axes[0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "lambda2 / lambda1 = 0.1",
        "lambda2 / lambda1 = 0.5",
    ]
    assert chosen_point(ax) == (0.4, pytest.approx(0.1))
    assert ax.get_ylabel() == "BIC"


def test_selection_of_a_search_is_a_map():
    rows = [
        (a * (1 - w), a * w, 100 * abs(np.log(a)) + 40 * abs(w - 0.3))
        for w in np.linspace(0, 1, 7)
        for a in (0.5, 1, 2)
    ]
    table = pd.DataFrame(rows, columns=["lambda1", "lambda2", "score"])
    table.loc[2, "score"] = np.inf
    best = int(table["score"].idxmin())
    figure = jgl.plots.plot_selection(SimpleNamespace(table=table, best=best, criterion="jbic"))
    ax = figure.axes[0]
    points = ax.collections[0]
    assert len(points.get_offsets()) == len(table) - 1 and points.get_array().min() == 0
    assert chosen_point(ax) == (pytest.approx(1.0), pytest.approx(table.lambda2[best]))
    assert ax.get_legend() is None and figure.axes[1].get_ylabel() == "jbic above the smallest"


def test_figures_display_in_a_notebook_without_pyplot():
    import matplotlib.pyplot as plt

    result = SimpleNamespace(
        table=pd.DataFrame({"lambda1": [1.0], "lambda2": [0.5], "score": [1.0]}), best=0, criterion="BIC"
    )
    figure = jgl.plots.plot_selection(result)
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert not plt.get_fignums()


def test_selection_without_scores_is_refused():
    result = SimpleNamespace(table=pd.DataFrame({"lambda1": [1.0]}), best=0, criterion="BIC")
    with pytest.raises(ValueError, match="no column 'lambda2'"):
        jgl.plots.plot_selection(result)


# Nothing else changes


@pytest.mark.parametrize("draw", [jgl.plots.plot_networks, jgl.plots.plot_degrees, jgl.plots.plot_adjacency])
@pytest.mark.parametrize("K", [1, 2])
def test_networks_without_edges_and_single_classes_can_be_drawn(draw, K, tmp_path):
    empty = jgl.JointNetworks([sparse.eye_array(3)] * K, [str(k) for k in range(K)], list("abc"))
    assert isinstance(draw(empty, path=tmp_path / "empty.png"), Figure)
    assert isinstance(draw(random_networks(9, 12, K), path=tmp_path / "some.png"), Figure)


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_pictures_are_saved_by_ending(small, tmp_path, ending, magic):
    path = tmp_path / f"picture.{ending}"
    jgl.plots.plot_degrees(small, path=path)
    assert path.read_bytes().startswith(magic)
    assert list(tmp_path.iterdir()) == [path]


def test_unknown_endings_and_folders_are_named(small, tmp_path):
    with pytest.raises(ValueError, match=r"has the ending '.doc', which is not a figure format: use .png"):
        jgl.plots.plot_degrees(small, path=tmp_path / "picture.doc")
    with pytest.raises(OSError, match="no folder"):
        jgl.plots.plot_degrees(small, path=tmp_path / "missing" / "picture.png")


def test_no_window_system_is_loaded_and_no_setting_changed(tmp_path):
    code = (
        "import sys, numpy as np, matplotlib, jointglasso as jgl\n"
        # asking for the backend would load pyplot to choose one
        "settings = lambda: {k: matplotlib.rcParams[k] for k in matplotlib.rcParams if k != 'backend'}\n"
        "before = settings()\n"
        "N = jgl.JointNetworks([np.array([[2, 1], [1, 2.]])] * 2, ['x', 'y'], ['a', 'b'])\n"
        f"[f(N, path={str(tmp_path / 'p.pdf')!r}) for f in (jgl.plots.plot_networks, jgl.plots.plot_degrees)]\n"
        "print('matplotlib.pyplot' in sys.modules, before == settings())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert result.stdout.split() == ["False", "True"]


def test_a_missing_matplotlib_is_named():
    code = "import sys; sys.modules['matplotlib'] = None; import jointglasso as jgl; jgl.plots.plot_networks"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert "This needs the package matplotlib: install it with pip install 'jointglasso[plots]'" in result.stderr


# Centrality, stability, paths


def test_centrality_is_that_of_the_definitions(monkeypatch):
    networks = random_networks(12, 20, 2)
    table = networks.centrality().set_index(["variable", "class"])
    partial = [-Theta.toarray() / np.sqrt(np.outer(Theta.diagonal(), Theta.diagonal())) for Theta in networks.precision]
    for k, name in enumerate(networks.class_names):
        np.fill_diagonal(partial[k], 0.0)
        mine = table.xs(name, level="class")
        np.testing.assert_allclose(mine["strength"], np.abs(partial[k]).sum(axis=0))
        np.testing.assert_allclose(mine["expected_influence"], partial[k].sum(axis=0), atol=1e-14)
    monkeypatch.setattr("jointglasso.networks.tables.find_spec", lambda name: None)  # without igraph
    with pytest.warns(UserWarning, match=r"NaN.*pip install 'jointglasso\[networks\]'") as warned:
        assert networks.centrality()["betweenness"].isna().all()
    assert [warning.filename for warning in warned] == [__file__]
    with pytest.warns(UserWarning, match="igraph"):
        axes = jgl.plots.plot_centrality(networks).axes
    assert [ax.get_xlabel() for ax in axes] == ["strength", "expected influence"]


def test_centrality_picture_shows_the_strongest_first(small):
    figure = jgl.plots.plot_centrality(small, top=5)
    assert len(figure.axes) == 3
    strength = small.centrality().groupby("variable", sort=False)["strength"].mean()
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert shown == list(strength.sort_values(ascending=False, kind="stable").index[:5])


def test_centrality_picture_leaves_out_the_variables_that_a_class_lacks(small):
    absent = np.zeros((3, 20), dtype=bool)
    absent[1, ::2] = True
    networks = jgl.JointNetworks(
        [Theta.multiply(~np.logical_or.outer(lacks, lacks) | np.eye(20, dtype=bool))
         for Theta, lacks in zip(small.precision, absent, strict=True)],
        small.class_names, small.variable_names, absent=absent,
    )  # fmt: skip
    table = networks.centrality().pivot(index="variable", columns="class", values="strength")
    mean = table.mean(axis=1).loc[list(small.variable_names)].sort_values(ascending=False, kind="stable")
    ax = jgl.plots.plot_centrality(networks, top=8).axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == list(mean.index[:8])
    for line, name in zip(ax.lines, networks.class_names, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), table[name].loc[mean.index[:8]])


def test_stability_picture_needs_stabilities(small):
    with pytest.raises(ValueError, match="have no stability"):
        jgl.plots.plot_stability(small)
    stable = jgl.JointNetworks(
        small.precision,
        small.class_names,
        small.variable_names,
        stability=[abs(Theta) > 0 for Theta in small.precision],
    )
    figure = jgl.plots.plot_stability(stable, top=4)
    assert len(figure.axes[1].get_yticklabels()) == 4
    points = np.concatenate([c.get_offsets() for c in figure.axes[0].collections])
    assert len(points) == sum(small.n_edges) and set(points[:, 1]) == {1.0}


def test_path_picture_counts_edges(solution):
    halved = [replace(solution, parameters={**solution.parameters, "lambda1": value}) for value in (0.2, 0.4)]
    figure = jgl.plots.plot_path(halved, top=3)
    assert figure.axes[0].lines[0].get_xdata().tolist() == [0.4, 0.2]
    assert figure.axes[0].lines[0].get_ydata().tolist() == [solution.n_edges[0]] * 2
    assert len(figure.axes[1].get_legend().get_texts()) == min(3, solution.n_edges[0])
    with pytest.raises(ValueError, match="at least two"):
        jgl.plots.plot_path(halved[:1])


def test_the_strongest_pairs_are_chosen_among_the_variables_named():
    """A weak edge between two variables is drawn when these are asked for, however many stronger ones there are."""
    p = 30
    Theta = np.eye(p) * 40.0 - 1.0 + np.eye(p)
    Theta[0, 1] = Theta[1, 0] = -0.01
    networks = jgl.JointNetworks([Theta], ["one"], [f"v{i}" for i in range(p)])
    figure = jgl.plots.plot_networks(networks, variables=["v0", "v1"])
    assert "1 of 435 edges" in figure.axes[0].get_title()
