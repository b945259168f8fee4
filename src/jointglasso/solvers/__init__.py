"""Solvers: each sees a system of class blocks and its allowed pairs, nothing else."""

from jointglasso.solvers.admm import ADMM
from jointglasso.solvers.auto import Auto
from jointglasso.solvers.base import GroupSolver, SolverResult, SolverTask
from jointglasso.solvers.newton import Newton
from jointglasso.solvers.proximal_gradient import ProximalGradient

__all__ = ["ADMM", "Auto", "GroupSolver", "Newton", "ProximalGradient", "SolverResult", "SolverTask"]
