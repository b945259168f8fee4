"""Selection frequencies of the edges over subsamples (stability selection)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from jointglasso.data.checks import InputError, check_count
from jointglasso.networks import JointNetworks
from jointglasso.plots.canvas import INK, class_style, finish, new_figure, pair_names, plain, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Conventional threshold on the selection frequency of a stable edge.
STABLE = 0.75


def plot_stability(networks: JointNetworks, *, top: int = 25, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw the selection frequencies of the edges.

    Parameters
    ----------
    networks : JointNetworks
        Networks with selection frequencies, such as
        ``JointNetworks.from_solution(solution, stability=edge_stability(...).frequencies)``.
    top : int, default 25
        Number of pairs to list, the strongest.
    path : str or path, optional
        File to save the figure to; the suffix determines the format.

    Returns
    -------
    matplotlib.figure.Figure
        Left selection frequency against absolute partial correlation of every edge, right the strongest pairs; the
        dotted line is at 75 %.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> penalties = {"lambda1": 0.3, "lambda2": 0.1}
    >>> stability = jgl.edge_stability(X, y, n_subsamples=4, random_state=0, **penalties)
    >>> solution = jgl.solve(jgl.SampleCovariance.from_labels(X, y, scale="correlation"), **penalties)
    >>> networks = jgl.JointNetworks.from_solution(solution, stability=stability.frequencies)
    >>> figure = jgl.plots.plot_stability(networks)
    >>> len(figure.axes) > 0
    True
    """
    if not networks.has_stability:
        raise InputError(
            "The networks have no stability: give stability= to JointNetworks, see edge_stability.", "networks"
        )
    edges = networks.edge_list
    chosen = np.argsort(-edges.strength_of_pair, kind="stable")[: check_count("top", top)]
    figure = new_figure(9.5, 1.6 + 0.2 * max(10, len(chosen)))
    left_ax, right_ax = figure.subplots(1, 2, width_ratios=(1, 1.1))
    for k, name in enumerate(networks.class_names):
        colour, marker = class_style(k, networks.n_classes)
        in_class = edges.class_index == k
        style: dict[str, Any] = {"color": colour, "marker": marker, "linewidths": 0}
        strength = np.abs(edges.partial_correlation[in_class])
        left_ax.scatter(strength, networks.edge_stability[in_class], s=14, alpha=0.6, label=plain(name), **style)
        rows = np.flatnonzero(in_class & np.isin(edges.pair, chosen))
        rank = np.empty(max(1, edges.n_pairs))
        rank[chosen] = np.arange(len(chosen))[::-1]
        right_ax.scatter(networks.edge_stability[rows], rank[edges.pair[rows]], s=20, alpha=0.85, **style)
    left_ax.set(xlabel="|partial correlation|", ylabel="selection frequency", ylim=(-0.03, 1.03))
    left_ax.axhline(STABLE, color=INK, linestyle=":", linewidth=1)
    right_ax.axvline(STABLE, color=INK, linestyle=":", linewidth=1)
    right_ax.set_yticks(np.arange(len(chosen))[::-1], pair_names(networks, chosen), fontsize=7)
    right_ax.set(xlabel="selection frequency", xlim=(-0.03, 1.03))
    right_ax.set_title(f"the {len(chosen)} strongest pairs", fontsize=9, color=INK)
    right_ax.grid(axis="y", color="#EEEEEE", linewidth=0.6)
    for ax in (left_ax, right_ax):
        tidy(ax)
    right_ax.tick_params(axis="y", labelsize=7, length=0)
    columns = min(6, networks.n_classes)
    figure.legend(
        *left_ax.get_legend_handles_labels(), loc="outside lower center", ncols=columns, frameon=False, fontsize=8
    )
    return finish(figure, path)
