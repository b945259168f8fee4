"""Column sweeps over a large group: the dual objective increases, and they end at its solution."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import jointglasso as jgl
from jointglasso import config
from jointglasso.blocks import build_system
from jointglasso.blocks.linalg import factorize
from jointglasso.data import as_source
from jointglasso.kernels import column_batches
from jointglasso.kernels.columns import ColumnUpdates
from jointglasso.kernels.small_columns import GroupIndex, SweepLimits, SweepWorkspace, ascend_small_groups
from jointglasso.penalties import GroupPenalty, as_pair_weights
from jointglasso.screening.groups import class_blocks
from jointglasso.solvers.base import SolverTask, diagonal_start
from jointglasso.solvers.column_ascent import ColumnAscent, point_near_covariance, point_near_inverse, suits_columns

LAMBDAS = [(0.2, 0.1), (0.3, 0.0), (0.0, 0.4)]


def correlated(n_classes=3, p=60, n=40, seed=0, strength=0.9):
    """Fewer samples than variables, a factor through all of them: singular and badly conditioned."""
    rng = np.random.default_rng(seed)
    loading = rng.uniform(0.2, strength, p)
    samples = [rng.standard_normal((n, p)) + rng.standard_normal((n, 1)) * loading for _ in range(n_classes)]
    return np.stack([np.corrcoef(X.T) for X in samples])


def make_task(S, lambda1, lambda2, diagonal_penalty=0.0, weights=None, labels=None, pair_weights=None, **options):
    source = as_source(S)
    labels = np.zeros((len(S), S.shape[1]), dtype=np.int64) if labels is None else labels
    weights = np.ones(len(S)) if weights is None else weights
    system = build_system(source, class_blocks(labels, smallest=2), weights, pair_weights)
    start = diagonal_start(system, GroupPenalty(lambda1, lambda2), diagonal_penalty)
    given = {"gap_budget": np.ones(system.n_groups), "tol": 1e-6, "rest": 0.0, "max_iter": 100} | options
    return SolverTask(system, GroupPenalty(lambda1, lambda2), diagonal_penalty, start=start, **given)


@pytest.mark.parametrize(("lambda1", "lambda2"), LAMBDAS)
@pytest.mark.parametrize("on_diagonal", [False, True])
def test_sweeps_end_at_the_solution(lambda1, lambda2, on_diagonal):
    diagonal_penalty = lambda1 if on_diagonal else 0.0
    task = make_task(correlated(), lambda1, lambda2, diagonal_penalty, weights=np.array([1.0, 0.5, 2.0]))
    ascent = ColumnAscent.begin(task, task.start)
    for _ in range(60):
        ascent.sweep()
    bounds = task.bounds(ascent.theta())
    assert bounds.total_gap <= 1e-5 * abs(bounds.total_objective)


@pytest.mark.parametrize("on_diagonal", [False, True])
def test_w_stays_definite_and_climbs(on_diagonal):
    task = make_task(correlated(), 0.2, 0.1, 0.2 if on_diagonal else 0.0)
    ascent = ColumnAscent.begin(task, task.start)
    found = []
    for _ in range(9):
        factor = factorize(task.system, ascent.W.astype(float))
        assert factor.definite.all()
        found.append(factor.logdet.sum())
        ascent.sweep()
    # Columns are solved roughly at first, so that single sweeps may overshoot a little.
    assert found[1] > found[0] + 1.0 and found[-1] > found[1] - 0.1


def test_w_is_dual_feasible_at_the_end():
    lambda1, lambda2 = 0.2, 0.1
    task = make_task(correlated(), lambda1, lambda2)
    ascent = ColumnAscent.begin(task, task.start)
    for _ in range(40):
        ascent.sweep()
    system = task.system
    excess = np.maximum(np.abs(system.gather(ascent.W.astype(float) - system.S)) - lambda1, 0.0).reshape(-1, 3)
    assert (np.sqrt((excess**2).sum(axis=1)) <= lambda2 + 1e-4).all()
    assert np.allclose(ascent.W[system.diagonal], system.S[system.diagonal])


def test_blocks_that_differ_from_class_to_class():
    alone = np.arange(20)
    labels = np.array([[0] * 60, [0] * 30 + [1] * 30, [*alone, *[20] * 40]])
    task = make_task(correlated(), 0.25, 0.1, 0.25, labels=labels)
    ascent = ColumnAscent.begin(task, task.start)
    for _ in range(60):
        ascent.sweep()
    bounds = task.bounds(ascent.theta())
    assert bounds.total_gap <= 1e-5 * abs(bounds.total_objective)


def test_default_uses_them_from_scratch_and_agrees_with_newton():
    S = correlated(p=120, strength=0.4)
    default = jgl.solve(S, 0.25, 0.1, tol=1e-8)
    newton = jgl.solve(S, 0.25, 0.1, tol=1e-8, solver="newton")
    assert "columns, newton" in default.methods and default.status
    assert default.objective == pytest.approx(newton.objective, rel=2e-8)


def test_newton_takes_over_where_w_is_lost(monkeypatch):
    S = correlated(p=120, strength=0.4)
    exact = jgl.solve(S, 0.25, 0.1, tol=1e-8)
    monkeypatch.setattr(ColumnAscent, "sweep", lambda self: setattr(self, "change", np.inf) or np.inf)
    other = jgl.solve(S, 0.25, 0.1, tol=1e-8)
    assert other.status and other.objective == pytest.approx(exact.objective, rel=2e-8)


def test_where_they_are_of_use():
    assert suits_columns(make_task(correlated(), 0.2, 0.1))
    assert not suits_columns(make_task(correlated(), 0.0, 0.0))


def is_feasible(system, W, lambda1, lambda2):
    weighted = system.block_weight[system.entry_block] * system.gather(W.astype(float) - system.S)
    used = system.sum_per_pair(np.maximum(np.abs(weighted) - lambda1, 0.0) ** 2)
    return (used <= lambda2**2 + 1e-6).all()


@pytest.mark.parametrize("on_diagonal", [False, True])
@pytest.mark.parametrize("shrink", [0.95, 0.3])
def test_a_warm_start_is_definite_and_feasible(on_diagonal, shrink):
    """Also where moving each pair into its ball alone would lose definiteness (the smaller of the penalties)."""
    S, (lambda1, lambda2) = correlated(), (0.2, 0.1)
    before = jgl.solve(S, lambda1, lambda2, penalize_diagonal=on_diagonal, tol=1e-7)
    task = make_task(S, shrink * lambda1, shrink * lambda2, shrink * lambda1 if on_diagonal else 0.0)
    theta = np.concatenate([Theta.toarray().ravel() for Theta in before.precision])
    inverse = np.concatenate([np.linalg.inv(Theta.toarray()).ravel() for Theta in before.precision])
    ascent = ColumnAscent.begin(task, theta, inverse)
    assert factorize(task.system, ascent.W.astype(float)).definite.all()
    assert is_feasible(task.system, ascent.W, shrink * lambda1, shrink * lambda2)
    assert np.allclose(ascent.W[task.system.diagonal], task.system.optimal_variance(task.diagonal_penalty))
    cold = ColumnAscent.begin(task, task.start)
    if shrink > 0.9:
        assert ascent.sweep() < 0.5 * cold.sweep()


def test_a_warm_start_at_the_solution_takes_no_sweep():
    S = correlated(p=120, strength=0.4)
    solution = jgl.solve(S, 0.25, 0.1, tol=1e-8)
    again = jgl.solve(S, 0.25, 0.1, tol=1e-6, warm_start=solution)
    assert again.n_iter == 0 and again.status
    nearby = jgl.solve(S, 0.24, 0.1, tol=1e-8, warm_start=solution)
    assert nearby.objective == pytest.approx(jgl.solve(S, 0.24, 0.1, tol=1e-8).objective, rel=2e-8)


@pytest.mark.parametrize("strength", [0.4, 0.9])
def test_the_rough_gap_tells_when_to_look(strength):
    """The true gap is never far above it; below it, where a sweep brings much."""
    task = make_task(correlated(p=100, strength=strength), 0.3, 0.1, 0.3)
    ascent = ColumnAscent.begin(task, task.start)
    while ascent.gap_estimate > 1e-4:
        ascent.sweep()
    gap = task.bounds(ascent.theta()).total_gap
    assert gap <= 100.0 * ascent.gap_estimate


def test_a_callback_stops_them():
    S = correlated(p=120, strength=0.4)
    with pytest.warns(jgl.ConvergenceWarning, match="callback"):
        solution = jgl.solve(S, 0.25, 0.1, tol=1e-14, callback=lambda step: True)
    assert np.isfinite(solution.objective) and np.isfinite(solution.certificate.gap)


def test_w_is_symmetric_after_a_sweep():
    labels = np.array([[0] * 60, [0] * 30 + [1] * 30, [*range(20), *[20] * 40]])
    task = make_task(correlated(), 0.25, 0.1, 0.25, labels=labels)
    ascent = ColumnAscent.begin(task, task.start)
    ascent.sweep()
    for _, (stack,) in task.system.stacks(ascent.W):
        assert np.array_equal(stack, stack.transpose(0, 2, 1))


def several_groups(n_groups=7, seed=3):
    """Groups of different sizes, with a variable here and there that only some of the classes hold."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 16, n_groups)
    p = int(sizes.sum())
    S = correlated(p=p, n=60, seed=seed, strength=0.6)
    labels = np.tile(np.repeat(np.arange(n_groups), sizes), (3, 1))
    lonely = rng.choice(p, 4, replace=False)
    labels[rng.integers(0, 3, 4), lonely] = n_groups + np.arange(4)
    return S, labels


@pytest.mark.parametrize(("lambda1", "lambda2"), LAMBDAS)
@pytest.mark.parametrize("on_diagonal", [False, True])
def test_sweeps_over_small_groups_end_at_the_solution(lambda1, lambda2, on_diagonal):
    S, labels = several_groups()
    weights = np.array([1.0, 0.5, 2.0])
    diagonal_penalty = lambda1 if on_diagonal else 0.0
    task = make_task(S, lambda1, lambda2, diagonal_penalty, weights=weights, labels=labels)
    theta, todo = task.start.copy(), np.ones(task.system.n_groups, dtype=bool)
    todo[1] = False
    limits = np.full(task.system.n_groups, 1e-9)
    sweeps = ascend(task, theta, todo, limits, 200)
    bounds = task.bounds(theta)
    assert (bounds.gap[todo] <= 100.0 * limits[todo]).all() and sweeps[todo].min() > 0
    untouched = np.repeat(task.system.block_group == 1, task.system.size**2)
    assert np.array_equal(theta[untouched], task.start[untouched]) and sweeps[1] == 0


def ascend(task, theta, todo, limits, max_sweeps, inverse=None):
    system, penalty = task.system, task.penalty
    order = np.argsort(system.block_group, kind="stable")
    start = np.searchsorted(system.block_group[order], np.arange(system.n_groups + 1))
    groups = GroupIndex(
        start, order, system.block_class, system.members, int(system.members.max()) + 1, system.n_classes
    )
    if inverse is None:
        W = point_near_covariance(system, penalty, task.diagonal_penalty, system.S.copy(), system.diagonal)
    else:
        W = point_near_inverse(task, inverse)
    stop = SweepLimits(limits, max_sweeps, penalty.scale, *config.COLUMN_TOLERANCE)
    workspace = SweepWorkspace.allocate(groups, system.compiled, theta.size, penalty.workspace_size(system.n_classes))
    return ascend_small_groups(penalty.pair, groups, system.compiled, stop, theta, W, todo, workspace)


def test_small_groups_stop_as_soon_as_the_gap_seems_small():
    S, labels = several_groups()
    task = make_task(S, 0.25, 0.1, 0.25, labels=labels)
    todo = np.ones(task.system.n_groups, dtype=bool)
    few, many = (ascend(task, task.start.copy(), todo, np.full(len(todo), limit), 50) for limit in (1e-2, 1e-10))
    assert (few <= many).all() and few.sum() < many.sum()
    assert ascend(task, task.start.copy(), todo, np.full(len(todo), 1e-10), 2).max() == 2


@pytest.mark.parametrize("on_diagonal", [False, True])
def test_near_the_solution_small_groups_go_on_from_the_inverse(on_diagonal):
    S, labels = several_groups()
    task = make_task(S, 0.25, 0.1, 0.25 if on_diagonal else 0.0, labels=labels)
    theta, todo = task.start.copy(), np.ones(task.system.n_groups, dtype=bool)
    rough, fine = np.full(len(todo), 1e-5), np.full(len(todo), 1e-11)
    ascend(task, theta, todo, rough, 100)
    bounds = task.bounds(theta)
    anew, further = theta.copy(), theta.copy()
    from_start = ascend(task, anew, todo, fine, 100)
    from_there = ascend(task, further, todo, fine, 100, bounds.inverse)
    assert from_there.sum() < 0.7 * from_start.sum()
    assert (task.bounds(further).gap <= 1e-9).all()


def test_small_groups_agree_with_newton():
    S, labels = several_groups(n_groups=12)
    apart = S * (labels[0][:, None] == labels[0])
    default = jgl.solve(apart, 0.25, 0.1, tol=1e-9)
    newton = jgl.solve(apart, 0.25, 0.1, tol=1e-9, solver="newton")
    assert "columns, newton" in default.methods and default.status
    assert default.objective == pytest.approx(newton.objective, rel=2e-9)


@pytest.mark.parametrize("stop", ["max_iter", "callback"])
def test_sweeps_that_are_cut_short_are_not_lost(stop):
    """The objective of the solution that comes back is far below that of the start."""
    S = correlated(p=300, n=100, strength=0.6)
    start = jgl.solve(S, 0.3, 0.1, max_iter=1, tol=1.0, screening="none")
    limit = {"max_iter": 3} if stop == "max_iter" else {"callback": lambda step: step.number >= 3}
    with pytest.warns(jgl.ConvergenceWarning, match=stop):
        short = jgl.solve(S, 0.3, 0.1, tol=1e-12, screening="none", **limit)
    exact = jgl.solve(S, 0.3, 0.1, tol=1e-9, screening="none")
    assert exact.objective < short.objective < start.objective - 0.5 * (start.objective - exact.objective)


@pytest.mark.parametrize("p", [40, 120, 300])
def test_a_good_start_is_never_made_worse(p):
    S = correlated(p=p, n=100, strength=0.6)
    good = jgl.solve(S, 0.3, 0.1, tol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.ConvergenceWarning)
        again = jgl.solve(S, 0.3, 0.1, tol=1e-14, max_iter=2, warm_start=good)
    assert again.objective <= good.objective + 1e-12 * abs(good.objective)


def test_groups_of_all_sizes_in_one_batch():
    """Those solved by compiled code, those swept over at once, and those that have sweeps of their own."""
    rng = np.random.default_rng(5)
    sizes = [300, 120, 60, 30, 12, 5]
    S = np.zeros((2, sum(sizes), sum(sizes)))
    for k in range(2):
        first = 0
        for size in sizes:
            factor = rng.standard_normal((80, 1)) * rng.uniform(0.3, 0.9, size)
            here = slice(first, first + size)
            S[k, here, here] = np.corrcoef((rng.standard_normal((80, size)) + factor).T)
            first += size
    default = jgl.solve(S, 0.35, 0.1, tol=1e-8)
    newton = jgl.solve(S, 0.35, 0.1, tol=1e-8, solver="newton")
    assert default.status and default.objective == pytest.approx(newton.objective, rel=2e-8)


def test_a_theta_that_is_not_definite_is_not_taken_over():
    """From a W far outside the dual ball: the kernel gives up and leaves theta alone."""
    S, labels = several_groups()
    task = make_task(S, 0.25, 0.1, 0.25, labels=labels)
    theta, todo = task.start.copy(), np.ones(task.system.n_groups, dtype=bool)
    wild = task.system.scatter(np.full(len(task.system.upper), 5.0), np.ones(len(task.system.members)))
    ascend(task, theta, todo, np.full(len(todo), 1e-10), 1, wild)
    factor = factorize(task.system, theta)
    assert factor.definite.all()


def test_weighted_and_forbidden_pairs_and_one_class():
    S = correlated(n_classes=1, p=80, strength=0.5)
    assert jgl.solve(S, 0.3, 0.0).methods == {"columns, newton": 1}
    for weight in (0.5, np.inf):
        solution = jgl.solve(S, 0.3, 0.0, pair_weights={(0, 1): weight})
        assert solution.status and solution.methods == {"columns, newton": 1}


def test_a_start_near_the_inverse_keeps_forbidden_pairs_and_moves_others_into_their_balls():
    S = correlated(p=30, n=60, strength=0.4)
    weights = {(0, 1): np.inf, (2, 7): np.inf, (2, 5): 0.5, (3, 9): 2.0}
    exact = jgl.solve(S, 0.1, 0.05, pair_weights=weights, tol=1e-10, screening="none", penalize_diagonal=False)
    names = tuple(str(i) for i in range(30))
    pair_weights = as_pair_weights({(str(i), str(j)): v for (i, j), v in weights.items()}, names)
    task = make_task(S, 0.1, 0.05, pair_weights=pair_weights)
    inverse = np.concatenate([np.linalg.inv(Theta.toarray()).ravel() for Theta in exact.precision])
    W = ColumnAscent.begin(task, task.start, inverse).W
    # The inverse of the solution is the dual solution, also where the pair is forbidden.
    np.testing.assert_allclose(W, inverse, atol=1e-4)
    assert np.abs(inverse[task.system.forbidden]).max() > 0.01
    perturbed = ColumnAscent.begin(task, task.start, inverse * 1.2).W.astype(float)
    shift = task.system.gather(perturbed - task.system.S)
    assert (task.penalty.gauge(shift, task.system.entries(task.penalty)) <= 1.0 + 1e-5).all()
    assert factorize(task.system, perturbed).definite.all()


@pytest.mark.parametrize("labels", [[[0] * 7, [0] * 7], [[0, 0, 0, 1, 1, 1, 1], [0, 1, 0, 1, 0, 1, 0]]])
def test_theta_of_its_own_columns_is_theta(labels):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2, 30, 7))
    S = X.transpose(0, 2, 1) @ X / 30
    system = build_system(as_source(S), class_blocks(np.array(labels), smallest=2), np.ones(2))
    theta = np.where(np.abs(system.S) > 0.1, system.S, 0.0)
    theta[system.diagonal] = 1.0 + rng.random(len(system.members))
    task = SolverTask(system, GroupPenalty(0.1, 0.1), 0.1, np.ones(1), 1e-6, 0.0, 10, theta)
    ascent = ColumnAscent.begin(task, theta)
    np.testing.assert_array_equal(ascent.theta_diagonal, theta[system.diagonal])
    np.testing.assert_allclose(ascent.theta(), theta, rtol=1e-14)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("labels", [None, [[0] * 90, [0] * 40 + [1] * 50, [*range(30), *[30] * 60]]])
def test_w_is_definite_after_every_batch(monkeypatch, n_threads, labels):
    """Big batches, and pairs inside them that are far outside their dual ball."""
    monkeypatch.setattr(config, "MIN_BATCH_COLUMNS", 45)
    S = correlated(p=90, strength=0.95)
    task = make_task(S, 0.05, 0.02, 0.05, labels=None if labels is None else np.array(labels), n_threads=n_threads)
    nobody = np.zeros(task.system.n_pairs, dtype=bool)
    ascent = ColumnAscent.begin(task, task.start, violates_global=nobody)  # as if no pair were strong
    assert len(ascent.batch_bounds) == 3
    for _ in range(15):
        ascent.sweep()
        assert factorize(task.system, ascent.W.astype(float)).definite.all()


@pytest.mark.parametrize("strength", [0.4, 0.9])
def test_the_number_of_threads_makes_no_difference(strength):
    def swept(n_threads):
        task = make_task(correlated(p=150, strength=strength), 0.2, 0.1, 0.2, n_threads=n_threads)
        ascent = ColumnAscent.begin(task, task.start)
        return [(ascent.sweep(), ascent.gap_estimate) for _ in range(6)], ascent.theta(), ascent.W

    alone, together = swept(1), swept(2)
    assert alone[0] == together[0]
    np.testing.assert_array_equal(alone[1], together[1])
    np.testing.assert_array_equal(alone[2], together[2])


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 30), share=st.floats(0.0, 0.6), most=st.integers(1, 9))
def test_no_two_columns_of_a_batch_are_tied(seed, n, share, most):
    rng = np.random.default_rng(seed)
    half = np.triu(rng.random((n, n)) < share, 1)
    adjacent = half | half.T
    start, other = np.concatenate([[0], np.cumsum(adjacent.sum(axis=1))]), np.nonzero(adjacent)[1]
    colour = column_batches.colours(start, other, np.argsort(-np.diff(start), kind="stable"), most)
    assert np.bincount(colour).max() <= most and not adjacent[colour[:, None] == colour].any()
    directed = half if seed % 2 else half.T  # one of the two columns of a pair may have it alone
    start, other = np.concatenate([[0], np.cumsum(directed.sum(axis=1))]), np.nonzero(directed)[1]
    batch_bounds = column_batches.cut_batches(start, other, most)
    assert (
        batch_bounds[0] == 0
        and batch_bounds[-1] == n
        and np.diff(batch_bounds).min() >= 1
        and np.diff(batch_bounds).max() <= most
    )
    for a, b in pairwise(batch_bounds):
        assert not adjacent[a:b, a:b].any()
        assert b == n or b - a == most or adjacent[a : b + 1, b].any()


def test_pairs_inside_a_batch_that_must_join_do_not_hold_the_sweeps_up():
    """Batches of columns that do not see each other: a pair between two of them joins when the sweeps stall."""
    draw = np.random.default_rng(0)
    loadings = draw.uniform(0.5, 0.9, 150)
    S = []
    for _ in range(2):
        own = draw.standard_normal((300, 150)) * np.sqrt(1.0 - loadings**2)
        S.append(np.corrcoef((own + loadings * draw.standard_normal((300, 1))).T))
    solution = jgl.solve(np.array(S), 0.1, 0.03, tol=1e-7)
    assert solution.status.converged
    assert solution.methods == {"columns, newton": 1}
    assert solution.n_iter <= 15


def test_a_pair_inside_a_batch_can_join(monkeypatch):
    """Columns of a strong pair begin in one batch; they end at the solution, where the pair is not zero."""
    monkeypatch.setattr(config, "MIN_BATCH_COLUMNS", 60)
    task = make_task(correlated(p=60, strength=0.6), 0.2, 0.1, 0.2)
    ascent = ColumnAscent.begin(task, task.start, violates_global=np.zeros(task.system.n_pairs, dtype=bool))
    assert len(ascent.batch_bounds) == 2
    for _ in range(30):
        ascent.sweep()
    bounds = task.bounds(ascent.theta())
    assert bounds.total_gap <= 1e-5 * abs(bounds.total_objective)


def test_what_a_batch_leaves_behind_does_not_reach_the_next(monkeypatch):
    """Pairs that lie in two blocks of a class are nobody's there, whatever the room says of earlier pairs."""
    monkeypatch.setattr(config, "MIN_BATCH_COLUMNS", 45)
    labels = np.array([[0] * 90, [0] * 40 + [1] * 50, [0] * 50 + [1] * 40])

    def swept(left_behind):
        allocate = ColumnUpdates.allocate

        def used(*sizes):
            updates = allocate(*sizes)
            updates.shift[:] = left_behind
            return updates

        task = make_task(correlated(p=90, strength=0.95), 0.05, 0.02, 0.05, labels=labels)
        ascent = ColumnAscent.begin(task, task.start, violates_global=np.zeros(task.system.n_pairs, dtype=bool))
        with monkeypatch.context() as patch:
            patch.setattr(ColumnUpdates, "allocate", used)
            for _ in range(3):
                ascent.sweep()
        return ascent.W

    np.testing.assert_array_equal(swept(0.0), swept(50.0))


def hub(seed):
    """A variable that is the sum of many others, in any units: most pairs are strong, in blocks of 24 to 48."""
    draw = np.random.default_rng(seed)
    p, K = int(draw.integers(24, 49)), int(draw.integers(2, 4))
    n = int(draw.integers(p + 10, 300))
    X = [draw.standard_normal((n, p)) for _ in range(K)]
    m, strength, noise = int(draw.integers(4, p)), 10 ** draw.uniform(-0.5, 1), 10 ** draw.uniform(-2, 0)
    units = 10 ** draw.uniform(-1, 1, p) if seed % 2 else np.ones(p)
    for x in X:
        x[:, 0] = strength * x[:, 1 : m + 1].sum(axis=1) + noise * draw.standard_normal(n)
        x *= units
    lambda1 = 10 ** draw.uniform(-3.5, -1)
    return jgl.SampleCovariance(X), lambda1, lambda1 * 10 ** draw.uniform(-2, 0)


@pytest.mark.parametrize("seed", [7, 13, 15])
def test_hubs_of_dense_groups_are_reached_in_few_sweeps(seed):
    """ADMM, to which groups of this size were left, ended at 2,000 iterations or short of the gap."""
    solution = jgl.solve(*hub(seed))
    assert solution.status and solution.n_iter <= 5 and set(solution.methods) == {"columns, newton"}


def test_iterations_of_admm_do_not_count_against_those_of_other_methods(monkeypatch):
    """Two groups, so that the limits on their gaps fall with the objective on the way."""
    monkeypatch.setattr("jointglasso.solvers.auto.Auto.default_max_iter", 20)
    S, lambda1, lambda2 = hub(8)
    p = S.n_variables
    blocks = np.stack([S.block(k, np.arange(p)) for k in range(S.n_classes)])
    both = np.zeros((S.n_classes, 2 * p, 2 * p))
    both[:, :p, :p], both[:, p:, p:] = blocks, blocks
    solution = jgl.solve(both, lambda1, lambda2, pair_weights={(0, 1): 0.0, (p, p + 1): 0.0})
    assert solution.status and solution.n_iter > 20 and "admm" in solution.methods
