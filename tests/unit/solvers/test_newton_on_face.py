"""Newton's method on the face of a fused solution, and sweeps that must find pairs inside their batches."""

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.blocks import build_system
from jointglasso.datasets import make_joint_ggm
from jointglasso.engine.task_result import flat_from_precisions
from jointglasso.problem import make_problem
from jointglasso.screening import Partition
from jointglasso.solvers.base import SolverTask
from jointglasso.solvers.face import newton_on_face


def correlations(p, n_classes, n_samples=60):
    data = make_joint_ggm("modules", p, n_classes, n_samples=n_samples, random_state=1)
    return np.array([np.corrcoef(X.T) for X in data.samples])


@pytest.mark.parametrize("penalty", ["chain", "fused", "laplacian"])
def test_a_few_steps_square_the_gap_away(penalty):
    S = correlations(40, 3)
    problem = make_problem(S, 0.15, 0.05, penalty=penalty, penalize_diagonal=False)
    rough = jgl.solve(S, 0.15, 0.05, penalty=penalty, penalize_diagonal=False, tol=1e-1, max_iter=1, screening="none")
    system = build_system(problem.source, Partition.single_block(3, 40).class_blocks, problem.weights)
    theta = flat_from_precisions(system, rough.precision, 40)
    task = SolverTask(system, problem.penalty, 0.0, np.ones(1), 1e-13, 0.0, 100, theta)
    before = task.bounds(theta)
    found, after, taken = newton_on_face(task, theta, before, 8)
    assert before.gap[0] > 1e-5
    assert after.gap[0] < 1e-10
    assert taken <= 6
    tight = jgl.solve(S, 0.15, 0.05, penalty=penalty, penalize_diagonal=False, tol=1e-12)
    expected = flat_from_precisions(system, tight.precision, 40)
    assert found == pytest.approx(expected, abs=1e-5)
    assert ((found == 0.0) == (expected == 0.0)).all()


def test_big_groups_of_a_fused_penalty_need_no_other_method():
    S = correlations(270, 2, 100)
    solution = jgl.solve(S, 0.14, 0.05, penalty="fused", penalize_diagonal=False)
    assert solution.partition.largest > 256
    assert "admm" not in solution.methods
    assert solution.status.converged
