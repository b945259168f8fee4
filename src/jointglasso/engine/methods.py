"""The methods that `solve` knows by name."""

from __future__ import annotations

from collections.abc import Callable

from jointglasso.solvers import ADMM, GroupSolver, Newton, ProximalGradient
from jointglasso.validation import check_choice

SOLVERS: dict[str, Callable[[], GroupSolver]] = {
    "auto": lambda: Newton(closed_form=True),
    "newton": Newton,
    "proximal_gradient": ProximalGradient,
    "admm": ADMM,
}


def choose_method(solver: str | GroupSolver) -> GroupSolver:
    """A method from its name, or as it is."""
    if isinstance(solver, str):
        return SOLVERS[check_choice("solver", solver, SOLVERS)]()
    if not hasattr(solver, "solve") or isinstance(solver, type):
        check_choice("solver", solver, SOLVERS)
    return solver
