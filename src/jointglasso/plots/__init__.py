"""Pictures of networks, solutions and choices of penalties; each function returns a matplotlib Figure."""

from jointglasso.plots.adjacency import plot_adjacency
from jointglasso.plots.curves import plot_component_curve, plot_convergence
from jointglasso.plots.degrees import plot_degrees
from jointglasso.plots.differences import plot_differences
from jointglasso.plots.network import plot_networks
from jointglasso.plots.selection import plot_selection

__all__ = [
    "plot_adjacency",
    "plot_component_curve",
    "plot_convergence",
    "plot_degrees",
    "plot_differences",
    "plot_networks",
    "plot_selection",
]
