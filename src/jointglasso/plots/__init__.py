"""Figures of networks, solutions, model selection and inference; each function returns a matplotlib Figure.

Examples
--------
Those of the functions continue these lines:

>>> import numpy as np
>>> import jointglasso as jgl
>>> rng = np.random.default_rng(0)
>>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
>>> X[:, 1] += X[:, 0]
>>> chosen = jgl.select(X, y)
>>> stability = jgl.edge_stability(X, y, lambda1=0.3, lambda2=0.1, n_subsamples=4, random_state=0)
>>> networks = jgl.JointNetworks.from_solution(chosen.solution, stability=stability.frequencies)
"""

from jointglasso._optional import require

require("matplotlib", "plots")

from jointglasso.plots.adjacency import plot_adjacency
from jointglasso.plots.curves import plot_component_curve, plot_path, plot_selection
from jointglasso.plots.differences import plot_differences
from jointglasso.plots.inference import plot_bootstrap, plot_intervals, plot_volcano
from jointglasso.plots.measures import plot_centrality, plot_degrees, plot_over_time, plot_stability
from jointglasso.plots.network import plot_networks

__all__ = [
    "plot_adjacency",
    "plot_bootstrap",
    "plot_centrality",
    "plot_component_curve",
    "plot_degrees",
    "plot_differences",
    "plot_intervals",
    "plot_networks",
    "plot_over_time",
    "plot_path",
    "plot_selection",
    "plot_stability",
    "plot_volcano",
]
