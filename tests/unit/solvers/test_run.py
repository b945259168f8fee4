"""The loop over the iterations of a method: `solvers.base.run`."""

from __future__ import annotations

import pytest

from jointglasso.solvers import ADMM, Auto
from jointglasso.solvers.base import IterativeMethod, State, remaining_iterations, run


class Best:
    """A best point whose gap halves at every update."""

    objective, limit, n_updates, stop = 1.0, 1e-3, 0, False

    @property
    def gap(self):
        return 0.5**self.n_updates

    @property
    def solved(self):
        return self.gap <= self.limit

    def update(self, candidate):
        self.n_updates += 1

    def report(self, objective, gap):
        return self.stop

    def keep(self, candidate):
        pass


class Count(IterativeMethod):
    """Counts its steps and ends by itself after `last` of them."""

    def __init__(self, last=None, reason=""):
        self.last, self.reason = last, reason

    def init(self, best):
        return State()

    def step(self, state):
        state.n_iter += 1
        state.ended = self.reason if state.n_iter == self.last else ""
        return state

    def theta(self, state):
        return None


def test_runs_to_the_tolerance():
    assert run(Count(), Best(), 100) == (9, "tolerance")  # the start is evaluated too


@pytest.mark.parametrize("reason", ["rounding", "work", "max_iter", "callback"])
def test_a_method_ends_by_its_own_reason(reason):
    assert run(Count(3, reason), Best(), 100) == (3, reason)


def test_runs_to_the_iteration_limit():
    assert run(Count(), Best(), 4) == (4, "max_iter")


def test_stops_at_the_callback():
    best = Best()
    best.stop = True
    assert run(Count(), best, 4) == (0, "callback")


def test_tolerance_comes_before_all_other_reasons():
    best = Best()
    best.stop, best.n_updates = True, 20
    assert run(Count(0, "rounding"), best, 0) == (0, "tolerance")


def test_a_lower_limit_is_for_the_entire_solve_and_the_default_for_each_round():
    assert remaining_iterations(Auto(), 10, 4) == 6
    assert remaining_iterations(Auto(), 10, 2000) == 0
    assert remaining_iterations(Auto(), Auto.default_max_iter, 2000) == Auto.default_max_iter
    assert remaining_iterations(ADMM(), ADMM.default_max_iter - 1, ADMM.default_max_iter) == 0
