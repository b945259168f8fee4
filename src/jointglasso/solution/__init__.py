"""The solution object and its parts."""

from jointglasso.solution.certificate import Callback, Certificate, ConvergenceWarning, History, Iteration, Status
from jointglasso.solution.edge_clusters import EdgeClusters
from jointglasso.solution.file import load
from jointglasso.solution.result import LowRank, Refit, RefitFailure, RefitWarning, Solution

__all__ = [
    "Callback",
    "Certificate",
    "ConvergenceWarning",
    "History",
    "Iteration",
    "LowRank",
    "Refit",
    "RefitFailure",
    "RefitWarning",
    "EdgeClusters",
    "Solution",
    "Status",
    "load",
]
