"""The methods that `solve` knows by name."""

from __future__ import annotations

from collections.abc import Callable

from jointglasso.penalties import PairPenalty
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


def suited_method(method: GroupSolver, penalty: PairPenalty) -> GroupSolver:
    """The method itself where the penalty offers what it needs; instead of "auto", ADMM."""
    if not isinstance(method, Newton) or "newton" in penalty.offers:
        return method
    if not method.closed_form:
        word, instead = penalty.parameters()["penalty"], '"auto", "admm" or "proximal_gradient"'
        raise ValueError(f'solver="newton" needs penalty="group"; with "{word}" use {instead}.')
    return ADMM()
