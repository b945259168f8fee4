"""The solution object and its parts."""

from jointglasso.solution.certificate import Callback, Certificate, ConvergenceWarning, History, Iteration, Status
from jointglasso.solution.file import load
from jointglasso.solution.low_rank import LowRank
from jointglasso.solution.refit import Refit, RefitFailure, RefitWarning
from jointglasso.solution.result import Solution
from jointglasso.solution.sameness import Sameness

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
    "Sameness",
    "Solution",
    "Status",
    "load",
]
