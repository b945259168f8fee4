"""Options of a solve as one object, which `solve`, `solve_path`, selection, inference and estimators forward.

Also the solvers by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from jointglasso._wording import nearest
from jointglasso.data.checks import (
    InputError,
    InputTypeError,
    check_callback,
    check_choice,
    check_count,
    check_jobs,
    check_positive,
    check_switch,
)
from jointglasso.engine.checkpoint import Checkpoint
from jointglasso.engine.executors import Executor, check_executor
from jointglasso.engine.progress import Control
from jointglasso.engine.screening import SCREENING
from jointglasso.penalties import PairPenalty
from jointglasso.problem import ProblemOptions
from jointglasso.solution import Callback, Solution
from jointglasso.solvers import ADMM, Auto, GroupSolver, Newton, ProximalGradient
from jointglasso.solvers.base import remaining_iterations

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


def require_suited(method: GroupSolver, penalty: PairPenalty) -> None:
    """Refuse a method that requires what the penalty does not support; the error lists suitable methods."""
    if getattr(method, "requires", frozenset()) <= penalty.supports:
        return
    suited = [f'"{name}"' for name, make in SOLVERS.items() if make().requires <= penalty.supports]
    alternatives = f"{', '.join(suited[:-1])} or {suited[-1]}"
    penalty_name = penalty.parameters()["penalty"]
    raise InputError(f'solver="{method.name}" does not go with penalty="{penalty_name}": use {alternatives}.', "solver")


@dataclass(frozen=True)
class RunnerOptions:
    """Options of a solve that do not change the problem."""

    method: GroupSolver
    screening: str
    tol: float
    max_iter: int
    n_jobs: int | None
    control: Control
    prove: bool = False
    max_memory: float | None = None
    checkpoint: Checkpoint | None = None
    executor: Executor | None = None
    """Executor of the tasks; None for threads."""

    def remaining(self, n_iter: int) -> int:
        """Iterations that the next round may take after `n_iter` of them."""
        return remaining_iterations(self.method, self.max_iter, n_iter)


@dataclass(frozen=True)
class SolveOptions(ProblemOptions):
    """Keyword arguments of `jointglasso.solve`, in their order and with their defaults."""

    penalty_shape: str | None = None
    shape_parameter: float | None = None
    latent: Any = None
    latent_rank: Any = None
    screening: str = "dynamic"
    solver: str | GroupSolver = "auto"
    tol: float = 1e-6
    prove: bool = False
    max_iter: int | None = None
    n_jobs: int | None = None
    warm_start: Solution | Sequence[Any] | None = None
    callback: Callback | None = None
    on_interrupt: str = "raise"
    checkpoint: Any = None
    max_memory: float | None = None
    executor: Any = None

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> SolveOptions:
        """Options from keyword arguments, defaults where they are None; unknown names raise InputTypeError."""
        known = [field.name for field in fields(cls)]
        for name in arguments:
            if name not in known:
                raise InputTypeError(
                    f"{name}= is no argument here, nor an option of solve ({nearest(name, known)}): correct it.", name
                )
        return cls(**{name: value for name, value in arguments.items() if value is not None})

    def runner(self) -> RunnerOptions:
        """Validate the options that do not define the problem; the checkpoint is opened with the problem."""
        method = choose_method(self.solver)
        check_choice("on_interrupt", self.on_interrupt, ("raise", "return"))
        return RunnerOptions(
            method=method,
            screening=check_choice("screening", self.screening, SCREENING),
            tol=check_positive("tol", self.tol),
            prove=check_switch("prove", self.prove),
            max_iter=method.default_max_iter if self.max_iter is None else check_count("max_iter", self.max_iter),
            n_jobs=check_jobs(self.n_jobs),
            control=self.control(),
            max_memory=None if self.max_memory is None else check_positive("max_memory", self.max_memory),
            executor=check_executor(self.executor),
        )

    def control(self) -> Control:
        """State of callback and interrupts of one solve."""
        return Control(check_callback(self.callback), return_on_interrupt=self.on_interrupt == "return")
