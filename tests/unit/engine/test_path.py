"""Paths: every point as good as a solve of its own, one pass over the covariances, results as they come."""

from __future__ import annotations

import numpy as np
import pytest

import jointglasso as jgl

LAMBDAS = [(scale, 0.3 * scale) for scale in (0.6, 0.45, 0.3, 0.2)]


def module_samples(p=40, n=30, K=3, seed=0):
    draw = np.random.default_rng(seed)
    factor = draw.standard_normal((K, n, p // 5)).repeat(5, axis=2)
    return jgl.SampleCovariance(list(factor + draw.standard_normal((K, n, p))), scale="correlation")


@pytest.mark.parametrize("screening", ["dynamic", "hybrid", "global", "class", "none"])
def test_every_point_equals_a_solve_of_its_own(screening):
    source = module_samples()
    path = list(jgl.solve_path(source, LAMBDAS, screening=screening, tol=1e-9))
    assert len(path) == len(LAMBDAS)
    for (lambda1, lambda2), solution in zip(LAMBDAS, path, strict=True):
        own = jgl.solve(source, lambda1, lambda2, screening=screening, tol=1e-9)
        assert solution.status.converged
        assert solution.objective == pytest.approx(own.objective, rel=2e-9)
        assert solution.parameters["lambda1"] == lambda1
        assert solution.partition == own.partition
        for mine, theirs in zip(solution.precision, own.precision, strict=True):
            assert abs(mine - theirs).max() < 1e-3


@pytest.mark.parametrize("solver", ["newton", "admm", "proximal_gradient"])
def test_other_solvers(solver):
    source = module_samples(p=20)
    for point, solution in zip(LAMBDAS, jgl.solve_path(source, LAMBDAS, solver=solver), strict=True):
        assert solution.status.converged
        assert solution.objective == pytest.approx(jgl.solve(source, *point).objective, rel=2e-6)


def test_any_order_and_a_grid():
    source = module_samples(p=20)
    grid = [(lambda1, ratio * lambda1) for ratio in (0.0, 0.3, 1.0) for lambda1 in (0.5, 0.3, 0.2)]
    for point, solution in zip(grid[::-1], jgl.solve_path(source, grid[::-1]), strict=True):
        assert solution.status.converged
        assert solution.objective == pytest.approx(jgl.solve(source, *point).objective, rel=2e-6)


class Counting(jgl.CovarianceSource):
    """A source that counts how often tiles are read."""

    def __init__(self, source):
        super().__init__(source.class_names, source.variable_names, source.sample_sizes)
        self._source, self.tiles = source, 0

    def tile(self, *arguments):
        self.tiles += 1
        return self._source.tile(*arguments)

    def entries(self, k, rows, columns):
        return self._source.entries(k, rows, columns)


def test_the_covariances_are_read_once_and_results_are_streamed():
    source = Counting(module_samples(p=20))
    path = jgl.solve_path(source, LAMBDAS)
    assert source.tiles == 0
    next(path)
    assert source.tiles == 3
    list(path)
    assert source.tiles == 3


def test_bad_points_are_refused_before_anything_is_solved():
    source = module_samples(p=10)
    with pytest.raises(ValueError, match="at least one pair"):
        jgl.solve_path(source, [])
    with pytest.raises(ValueError, match="at least one pair"):
        jgl.solve_path(source, [(0.1, 0.2, 0.3)])
    with pytest.raises(ValueError, match="lambda2=-1"):
        jgl.solve_path(source, [(0.1, 0.2), (0.1, -1.0)])
    with pytest.raises(ValueError, match="solver='x'"):
        jgl.solve_path(source, LAMBDAS, solver="x")


def test_a_point_that_does_not_converge_warns_and_the_path_goes_on():
    source = module_samples()
    with pytest.warns(jgl.ConvergenceWarning, match="max_iter"):
        path = list(jgl.solve_path(source, LAMBDAS, solver="admm", max_iter=2))
    assert len(path) == len(LAMBDAS)
    assert not path[-1].status.converged


def test_checkpoint_of_every_point(tmp_path):
    source = module_samples()
    first = [s.objective for s in jgl.solve_path(source, LAMBDAS, checkpoint=tmp_path / "c")]
    assert sorted(entry.name for entry in (tmp_path / "c").iterdir()) == [f"point-{n:04d}" for n in range(4)]
    again = list(jgl.solve_path(source, LAMBDAS, checkpoint=tmp_path / "c"))
    assert [s.objective for s in again] == pytest.approx(first, rel=1e-12)


def test_interrupt_ends_the_path():
    source = module_samples()

    def press(iteration):
        raise KeyboardInterrupt

    path = list(jgl.solve_path(source, LAMBDAS[2:], callback=press, on_interrupt="return"))
    assert len(path) == 1
    with pytest.raises(KeyboardInterrupt):
        list(jgl.solve_path(source, LAMBDAS[2:], callback=press))
