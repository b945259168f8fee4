"""Solvers: methods that minimise the objective over a `BlockSystem`; they know nothing of screening and tasks."""

from jointglasso.solvers.admm import ADMM
from jointglasso.solvers.auto import Auto
from jointglasso.solvers.base import GroupSolver, SolverResult, SolverTask
from jointglasso.solvers.newton import Newton
from jointglasso.solvers.proximal_gradient import ProximalGradient

__all__ = ["ADMM", "Auto", "GroupSolver", "Newton", "ProximalGradient", "SolverResult", "SolverTask"]
