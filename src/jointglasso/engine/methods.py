"""The solvers by name."""

from __future__ import annotations

from collections.abc import Callable

from jointglasso.data.checks import InputError, check_choice
from jointglasso.penalties import PairPenalty
from jointglasso.solvers import ADMM, Auto, GroupSolver, Newton, ProximalGradient

SOLVERS: dict[str, Callable[[], GroupSolver]] = {
    "auto": Auto,
    "newton": Newton,
    "proximal_gradient": ProximalGradient,
    "admm": ADMM,
}


def choose_method(solver: str | GroupSolver) -> GroupSolver:
    """The solver with a given name; solver objects are returned unchanged."""
    if isinstance(solver, str):
        return SOLVERS[check_choice("solver", solver, SOLVERS)]()
    if not hasattr(solver, "solve") or isinstance(solver, type):
        check_choice("solver", solver, SOLVERS)
    return solver


def suited_method(method: GroupSolver, penalty: PairPenalty) -> GroupSolver:
    """The method, if the penalty supports what it requires; otherwise an error that lists suitable methods."""
    if getattr(method, "requires", frozenset()) <= penalty.supports:
        return method
    suited = [f'"{name}"' for name, make in SOLVERS.items() if make().requires <= penalty.supports]
    alternatives = f"{', '.join(suited[:-1])} or {suited[-1]}"
    penalty_name = penalty.parameters()["penalty"]
    raise InputError(f'solver="{method.name}" does not go with penalty="{penalty_name}": use {alternatives}.', "solver")
