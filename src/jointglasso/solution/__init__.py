"""The solution object and its parts."""

from jointglasso.solution.certificate import Callback, Certificate, ConvergenceWarning, History, Iteration, Status
from jointglasso.solution.edge_clusters import EdgeClusters
from jointglasso.solution.file import load
from jointglasso.solution.low_rank import LowRank
from jointglasso.solution.refit import Refit, RefitFailure, RefitWarning
from jointglasso.solution.result import Solution

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
