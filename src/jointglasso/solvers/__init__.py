"""Solvers: methods that minimise the objective of given groups, which `screening` finds and `engine` schedules."""

from jointglasso.solvers.admm import ADMM
from jointglasso.solvers.auto import Auto
from jointglasso.solvers.base import GroupSolver, SolverResult, SolverTask
from jointglasso.solvers.newton import Newton
from jointglasso.solvers.proximal_gradient import ProximalGradient

__all__ = ["ADMM", "Auto", "GroupSolver", "Newton", "ProximalGradient", "SolverResult", "SolverTask"]
