"""The solve: screening, tasks on executors, rechecks, and the certificate."""

from jointglasso.engine.execute import solve, solve_with
from jointglasso.engine.options import SolveOptions
from jointglasso.engine.path import solve_path
from jointglasso.engine.planning import NotEnoughMemory, Plan, plan

__all__ = ["NotEnoughMemory", "Plan", "SolveOptions", "plan", "solve", "solve_path", "solve_with"]
