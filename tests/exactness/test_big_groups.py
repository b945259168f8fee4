"""Big groups without their blocks in double precision: the same solutions, proofs and manners as with them."""

import warnings

import numpy as np
import pytest
from scipy.linalg import block_diag

import jointglasso as jgl
from jointglasso import config
from jointglasso.blocks.big_group import entries_in_classes
from jointglasso.duality import gap_radii
from jointglasso.engine import execute, solve_big_task, solve_task
from jointglasso.penalties import SafeRegion
from jointglasso.solvers import big_sweeps, column_sweeps
from jointglasso.solvers.auto import Auto


def correlated(n_classes=3, p=60, n=40, seed=0, strength=0.6):
    rng = np.random.default_rng(seed)
    loading = rng.uniform(0.2, strength, p)
    return [rng.standard_normal((n, p)) + rng.standard_normal((n, 1)) * loading for _ in range(n_classes)]


@pytest.fixture
def small_is_big(monkeypatch):
    """Every group, however small, is one of those."""
    monkeypatch.setattr(config, "HUGE", 2)
    monkeypatch.setattr(config, "BATCHED_BLOCK", 1)


def both(monkeypatch, *arguments, **options):
    """Solved with blocks, and then without."""
    with_blocks = jgl.solve(*arguments, **options)
    with monkeypatch.context() as patch:
        patch.setattr(config, "HUGE", 2)
        patch.setattr(config, "BATCHED_BLOCK", 1)
        without = jgl.solve(*arguments, **options)
    assert set(without.methods) <= {"columns", "warm start"}
    return with_blocks, without


@pytest.mark.parametrize("from_samples", [True, False])
@pytest.mark.parametrize(
    ("lambdas", "options"),
    [
        ((0.3, 0.1), {}),
        ((0.3, 0.1), {"penalize_diagonal": False, "weights": [1.0, 0.5, 2.0]}),
        ((0.45, 0.0), {"screening": "none"}),
        ((0.1, 0.4), {"screening": "hybrid"}),
    ],
)
def test_the_solution_is_that_of_the_blocks(monkeypatch, from_samples, lambdas, options):
    S = jgl.SampleCovariance(correlated(), scale="correlation")
    if not from_samples:
        S = np.stack([S.block(k, np.arange(60)) for k in range(3)])
    exact, found = both(monkeypatch, S, *lambdas, tol=1e-6, **options)
    assert found.status and exact.status
    assert found.objective - found.certificate.gap <= exact.objective
    assert exact.objective - exact.certificate.gap <= found.objective
    c = found.certificate
    total = 3 * 60 * 59 // 2
    assert c.edges_present + c.edges_absent + c.edges_undetermined == total
    assert c.edges_undetermined < 0.2 * total
    for Theta, proved, other in zip(found.precision, found.certified, exact.precision, strict=True):
        assert np.abs(Theta - other).max() < 1e-2
        assert ((proved != 0).toarray() <= (other != 0).toarray()).all()


def test_proofs_hold_at_a_wide_gap(monkeypatch, small_is_big):
    """What is said to be present or absent at a rough point is so in a far sharper solution."""
    S = jgl.SampleCovariance(correlated(seed=3), scale="correlation")
    rough = jgl.solve(S, 0.25, 0.1, tol=1e-3)
    monkeypatch.undo()
    sharp = jgl.solve(S, 0.25, 0.1, tol=1e-10)
    zero = [Theta.toarray() == 0.0 for Theta in sharp.precision]
    assert rough.certificate.edges_present > 0
    for proved, absent in zip(rough.certified, zero, strict=True):
        assert not (proved.toarray().astype(bool) & absent).any()
    n_zero = sum(int(absent[np.triu_indices(60, 1)].sum()) for absent in zero)
    assert 0 < rough.certificate.edges_absent <= n_zero
    assert rough.objective - rough.certificate.gap <= sharp.objective <= rough.objective


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (1.0, 0.5, 2.0)])
@pytest.mark.parametrize("diagonal", [True, False])
def test_gap_and_objective_are_those_of_the_matrices(monkeypatch, diagonal, weights):
    """Recomputed by hand from Theta and the dense dual point, which is feasible."""
    kept = []
    original = big_sweeps.solve_big
    monkeypatch.setattr(solve_big_task, "solve_big", lambda task: kept.append(original(task)) or kept[-1])
    monkeypatch.setattr(config, "HUGE", 2)
    monkeypatch.setattr(config, "BATCHED_BLOCK", 1)
    S = jgl.SampleCovariance(correlated(), scale="correlation")
    solution = jgl.solve(S, 0.3, 0.1, screening="none", penalize_diagonal=diagonal, weights=weights)
    (point, _, _), lambda1, lambda2 = kept[0], 0.3, 0.1
    order, objective, dual = point.order, 0.0, 0.0
    excess = []
    for k, weight in enumerate(weights):
        Theta = solution.precision[k].toarray()
        W = point.dense_dual(k)
        W = np.triu(W) + np.triu(W, 1).T
        C = S.block(k, np.arange(60))[np.ix_(order, order)]
        assert np.allclose(np.diagonal(W), np.diagonal(C) + lambda1 * diagonal / weight)
        excess.append(np.maximum(weight * np.abs(W - C) - lambda1, 0.0)[np.triu_indices(60, 1)])
        off = np.abs(Theta).sum() - np.trace(Theta)
        objective += weight * ((S.block(k, np.arange(60)) * Theta).sum() - np.linalg.slogdet(Theta)[1])
        objective += lambda1 * (off + np.trace(Theta) * diagonal)
        dual += weight * (np.linalg.slogdet(W)[1] + 60)
    assert (np.sqrt((np.array(excess) ** 2).sum(axis=0)) <= lambda2 * (1 + 1e-12)).all()
    stacked = np.array([Theta.toarray() for Theta in solution.precision])
    norms = np.sqrt((stacked**2).sum(axis=0))
    objective += lambda2 * (norms.sum() - np.trace(norms))
    assert point.objective == pytest.approx(objective, rel=1e-12)
    assert point.gap == pytest.approx(objective - dual, abs=1e-9)
    assert point.gap <= solution.certificate.gap <= point.gap + 1e-8


def test_subgradients_override_those_of_their_entries_only(monkeypatch, small_is_big):
    """At entries of every class, given by members in either order; the dual point elsewhere is as before."""
    kept = []
    original = big_sweeps.solve_big
    monkeypatch.setattr(solve_big_task, "solve_big", lambda task: kept.append(original(task)) or kept[-1])
    weights = np.array([1.0, 0.5, 2.0])
    jgl.solve(jgl.SampleCovariance(correlated(), scale="correlation"), 0.3, 0.1, screening="none", weights=weights)
    point, group = kept[0][0], kept[0][0].group
    rng = np.random.default_rng(0)
    row, column = (group.member_start[:-1].repeat(8) + rng.integers(0, 60, 24) for _ in range(2))
    row, column = (ends[row != column] for ends in (row, column))
    k = group.block_class[group.member_block[row]]
    u = rng.uniform(-0.3, 0.3, len(row))
    moved = point.with_subgradients(row, column, u)
    S = np.array(
        [group.source.entries(c, *group.members[[[a], [b]]])[0] for c, a, b in zip(k, row, column, strict=True)]
    )
    np.testing.assert_allclose(moved.entries_at(row, column)[1], S + u / weights[k], rtol=1e-12)
    others, beside = (ends.ravel() for ends in np.meshgrid(np.arange(60), np.arange(60)))
    unmoved = set(zip(np.minimum(row, column), np.maximum(row, column), strict=True))
    for first in group.member_start[:-1]:
        pairs = [(first + a, first + b) for a, b in zip(others, beside, strict=True) if a < b]
        a, b = np.array([pair for pair in pairs if pair not in unmoved]).T
        np.testing.assert_array_equal(moved.entries_at(a, b)[1], point.entries_at(a, b)[1])


def test_checkpoints_and_warm_starts_are_taken_up(monkeypatch, small_is_big, tmp_path):
    S = jgl.SampleCovariance(correlated(), scale="correlation")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.ConvergenceWarning)
        short = jgl.solve(S, 0.3, 0.1, max_iter=1, tol=1e-9, checkpoint=tmp_path / "run")
    assert not short.status and np.isfinite(short.certificate.gap)
    whole = jgl.solve(S, 0.3, 0.1, tol=1e-6, checkpoint=tmp_path / "run")
    assert whole.status
    again = jgl.solve(S, 0.3, 0.1, tol=1e-6, checkpoint=tmp_path / "run")
    assert again.n_iter == 0 and again.methods == {"warm start": len(again.certificate.group_gaps)}
    assert again.objective == pytest.approx(whole.objective, rel=1e-9)
    monkeypatch.undo()
    blocks = jgl.solve(S, 0.3, 0.1, tol=1e-6, checkpoint=tmp_path / "run")  # the files are the same
    assert blocks.n_iter == 0
    with pytest.raises(ValueError, match="definite"):
        monkeypatch.setattr(config, "HUGE", 2)
        monkeypatch.setattr(config, "BATCHED_BLOCK", 1)
        jgl.solve(S, 0.3, 0.1, warm_start=[np.eye(60) - 0.5 * np.eye(60)[::-1] * 3] * 3)


def test_dynamic_cuts_are_checked_and_merged(monkeypatch):
    """Classes with blocks of their own, waiting pairs among them."""
    rng = np.random.default_rng(5)
    shared = rng.standard_normal((50, 6))
    X = [shared @ rng.standard_normal((6, 80)) * scale + rng.standard_normal((50, 80)) for scale in (0.9, 0.5, 0.2)]
    S = jgl.SampleCovariance(X, scale="correlation")
    for lambdas in ((0.4, 0.15), (0.5, 0.05)):
        exact, found = both(monkeypatch, S, *lambdas)
        assert found.status and len(found.partition.groups()) == len(exact.partition.groups())
        assert found.objective == pytest.approx(exact.objective, abs=found.certificate.gap + exact.certificate.gap)


def merged_in_a_second_round():
    """Samples and penalties whose dynamic partition is merged once."""
    rng = np.random.default_rng(14)
    p, n, f = rng.integers(12, 50), rng.integers(15, 60), rng.integers(2, 6)
    shared, scales = rng.standard_normal((n, f)), rng.uniform(0.1, 2, 3) * rng.uniform(0.3, 1)
    X = [shared @ rng.standard_normal((f, p)) * scale + rng.standard_normal((n, p)) for scale in scales]
    lambdas = np.array([rng.uniform(0.1, 0.5), rng.uniform(0.01, 0.5)]) * np.mean([x.var(axis=0).mean() for x in X])
    return jgl.SampleCovariance(X), lambdas


def test_a_pair_that_fails_the_check_is_merged_only_where_the_gap_asks_for_it(monkeypatch, small_is_big):
    """One more round would double the time of a big group; the pair counts in the gap until then."""
    S, lambdas = merged_in_a_second_round()
    rounds, run = [], execute.GroupRunner.run
    monkeypatch.setattr(execute.GroupRunner, "run", lambda runner: rounds.append(runner) or run(runner))
    exact = jgl.solve(S, *lambdas, screening="none", tol=1e-10)
    for tol, expected in ((1e-3, 1), (1e-6, 2)):
        rounds.clear()
        found = jgl.solve(S, *lambdas, tol=tol)
        assert found.status and len(rounds) == expected
        assert exact.objective - exact.certificate.gap <= found.objective <= exact.objective + found.certificate.gap
        for Theta, other in zip(found.certified, exact.precision, strict=True):
            assert ((Theta != 0).toarray() <= (other != 0).toarray()).all()


def test_another_round_does_not_start_over(monkeypatch, small_is_big):
    """W of the largest group is kept even where no block is, so that the second round neither inverts nor restarts."""
    monkeypatch.setattr(config, "CACHED_BYTES", 0.0)
    S, lambdas = merged_in_a_second_round()
    tasks, inverted, steps, solve = [], [], [], solve_big_task.solve_big

    def recorded(task):
        first = len(steps)
        result = solve(task)
        tasks.append((result, first))
        return result

    monkeypatch.setattr(solve_big_task, "solve_big", recorded)
    monkeypatch.setattr(solve_big_task, "at_inverse", lambda *given: inverted.append(given))
    monkeypatch.setattr(big_sweeps, "at_inverse", lambda *given: inverted.append(given))
    solution = jgl.solve(S, *lambdas, tol=1e-6, callback=steps.append)
    (_, before, _), _ = tasks[0]
    (_, after, _), first = tasks[-1]
    assert solution.status and len(tasks) > 1 and not inverted
    assert 0 < after < before
    assert steps[first].objective <= steps[first - 1].objective * (1.0 + 1e-6)
    exact = jgl.solve(S, *lambdas, screening="none", tol=1e-10)
    assert exact.objective - exact.certificate.gap <= solution.objective <= exact.objective + solution.certificate.gap


def test_a_group_that_no_merge_touches_is_not_solved_again(monkeypatch, small_is_big):
    source, lambdas = merged_in_a_second_round()
    separate = jgl.SampleCovariance(correlated(p=20), scale="correlation")
    blocks = [[s.block(k, np.arange(s.n_variables)) for s in (source, separate)] for k in range(3)]
    S = np.stack([block_diag(first, 3.0 * second) for first, second in blocks])
    sweeps, solve = [], solve_big_task.solve_big

    def recorded(task):
        result = solve(task)
        sweeps.append((int(task.group.members.min()) >= source.n_variables, result[1]))
        return result

    monkeypatch.setattr(solve_big_task, "solve_big", recorded)
    assert jgl.solve(S, *lambdas, tol=1e-6).status
    of_separate = [n for is_separate, n in sweeps if is_separate]
    first, second = np.split(np.array(of_separate), 2)
    assert (first > 0).all() and not second.any()


def test_another_round_goes_on_where_the_sweeps_left_w(monkeypatch, small_is_big):
    S, lambdas = merged_in_a_second_round()
    tasks, solve = [], solve_big_task.solve_big
    monkeypatch.setattr(solve_big_task, "solve_big", lambda task: tasks.append((task, solve(task))) or tasks[-1][1])
    given, carry = [], solve_big_task._carried

    def carried(group, points, *of):
        given.append((list(points), *carry(group, points, *of)))
        return given[-1][1].copy(), given[-1][2]

    monkeypatch.setattr(solve_big_task, "_carried", carried)
    assert jgl.solve(S, *lambdas, tol=1e-6).status
    (_, (_, before, _)), *_, (task, (_, sweeps, _)) = tasks
    assert 0 < sweeps < before and task.W is not None
    points, W, _ = given[-1]
    class_mask = np.zeros(len(W), dtype=bool)
    for point in points:
        row, column = (end.ravel() for end in np.indices((len(point.group.members),) * 2))
        inside = point.group.member_block[row] == point.group.member_block[column]
        row, column = row[inside], column[inside]
        old, _ = point.entries_at(row, column)
        k = point.group.block_class[point.group.member_block[row]]
        now = (
            task.group.member_of[k, np.searchsorted(task.group.variables, point.group.members[end])]
            for end in (row, column)
        )
        place = task.group.positions(*now)
        class_mask[place] = True
        np.testing.assert_array_equal(W[place], old.astype(np.float32))
    assert class_mask.mean() > 0.3
    own = np.arange(len(task.group.members))
    class_mask[task.group.positions(own, own)] = True
    assert not W[~class_mask].any()


@pytest.mark.parametrize("out_of_core", [True, False])
def test_prove_goes_on_until_the_weakest_edge_is_certified(monkeypatch, out_of_core):
    if out_of_core:
        monkeypatch.setattr(config, "HUGE", 2)
        monkeypatch.setattr(config, "BATCHED_BLOCK", 1)
    S = jgl.SampleCovariance(correlated(seed=3), scale="correlation")
    rough = jgl.solve(S, 0.3, 0.1, tol=1e-3, screening="none")
    n_edges, c = sum(rough.n_edges), rough.certificate
    assert c.edges_present < n_edges and 0.0 < c.edge_gap < c.gap
    proved = jgl.solve(S, 0.3, 0.1, tol=1e-3, screening="none", prove=True)
    assert proved.status and proved.certificate.edges_present == sum(proved.n_edges)
    assert proved.certificate.gap <= proved.certificate.edge_gap
    exact = jgl.solve(S, 0.3, 0.1, tol=1e-11, screening="none")
    assert proved.n_edges == exact.n_edges


def test_a_rebuilt_group_keeps_its_gap_where_the_inverse_is_badly_conditioned(monkeypatch, small_is_big):
    """The inverse of Theta in single precision is not definite in the first problem, and far off in the others."""
    gaps = []

    def solved_and_rebuilt(item, shared, progress):
        outcome = solve_big_task.solve_big_task(item, shared, progress)
        gaps.append((outcome.gap[0], solve_big_task.rebuild_big(outcome, item, shared).bounds.gap[0]))
        return outcome

    monkeypatch.setattr(solve_task, "solve_big_task", solved_and_rebuilt)
    for seed, noise in ((0, 0.1), (1, 0.3), (2, 0.1)):
        rng = np.random.default_rng(seed)
        X = [5.0 * rng.standard_normal((60, 1)) + noise * rng.standard_normal((60, 20))]
        solution = jgl.solve(jgl.SampleCovariance(X), 0.1 * noise, 0.0, tol=1e-3, screening="none")
        assert solution.status and set(solution.methods) == {"columns"}
    before, after = np.transpose(gaps)
    assert (after < 1.5 * before).all(), gaps


def test_what_does_not_fit_as_blocks_fits_so(monkeypatch):
    monkeypatch.setattr(config, "BATCHED_BLOCK", 40)
    S = jgl.SampleCovariance(correlated(p=150, strength=0.5), scale="correlation")
    entries = 3 * 150**2
    found = jgl.solve(S, 0.3, 0.1, screening="none", max_memory=40.0 * entries)
    assert found.status and found.methods == {"columns": 1}
    with pytest.raises(jgl.NotEnoughMemory, match="raise"):
        jgl.solve(S, 0.3, 0.1, screening="none", max_memory=10.0 * entries)


def test_newton_takes_over_where_sweeps_stall(monkeypatch, small_is_big):
    monkeypatch.setattr(column_sweeps, "_ROUNDING_CHANGE", 0.5)
    S = jgl.SampleCovariance(correlated(p=300, n=100), scale="correlation")
    solution = jgl.solve(S, 0.3, 0.1, tol=1e-9, screening="none")
    assert solution.status and "columns" not in solution.methods


@pytest.mark.parametrize("max_iter", [None, 1])
def test_newton_takes_over_where_sweeps_reach_their_limit(monkeypatch, small_is_big, max_iter):
    """Unless it is a limit that the caller lowered."""
    monkeypatch.setattr(Auto, "default_max_iter", 3)
    S = jgl.SampleCovariance(correlated(p=300, n=100), scale="correlation")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jgl.ConvergenceWarning)
        solution = jgl.solve(S, 0.1, 0.1, tol=1e-9, screening="none", max_iter=max_iter)
    assert bool(solution.status) == (max_iter is None)
    assert (set(solution.methods) == {"columns"}) == (max_iter == 1)


def test_a_hub_far_from_where_it_starts_is_reached_at_once(small_is_big):
    """Theta of the hub times its variance becomes 56; a few percent a sweep would leave Theta indefinite for thirty."""
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((200, 40)) for _ in range(2)]
    for x in X:
        x[:, 0] = 6.0 * x[:, 1:9].sum(axis=1) + 0.1 * rng.standard_normal(200)
    solution = jgl.solve(jgl.SampleCovariance(X), 0.002, 0.0002, tol=1e-6)
    assert solution.status and solution.n_iter <= 6
    assert solution.precision[0][0, 0] * X[0][:, 0].var() > 50.0


def test_variables_that_are_nearly_equal_are_solved_by_sweeps(small_is_big):
    """Columns that grow more than twentyfold in the first sweep must not leave the dual ball: then they diverge."""
    rng = np.random.default_rng(2)
    X = [5.0 * rng.standard_normal((9, 1)) + rng.standard_normal((9, 9))]
    S = jgl.SampleCovariance(X)
    solution = jgl.solve(S, 0.1, 0.0, screening="none", penalize_diagonal=True, tol=1e-3)
    assert solution.status and set(solution.methods) == {"columns"} and solution.n_iter <= 5


def test_hubs_settle_where_classes_are_tied_strongly(small_is_big):
    """Rescaled class by class, which is for weak ties, the columns of hubs are overshot, and a sweep takes seconds."""
    rng = np.random.default_rng(1)
    factors = [rng.standard_normal((60, 3)) for _ in range(3)]
    loadings = [np.abs(rng.standard_normal((3, 100))) * rng.uniform(0.05, 1.0, 100) for _ in factors]
    X = [z @ L * np.where(np.arange(100) < 5, 3.0, 1.0) for z, L in zip(factors, loadings, strict=True)]
    X = [(1.0 + 0.5 * k) * x + 0.3 * rng.standard_normal(x.shape) for k, x in enumerate(X)]
    solution = jgl.solve(jgl.SampleCovariance(X), 0.05, 0.25, max_iter=20)
    assert solution.status and solution.n_iter <= 16, (solution.n_iter, solution.methods)


def test_a_callback_stops_them(small_is_big):
    S = jgl.SampleCovariance(correlated(), scale="correlation")
    with pytest.warns(jgl.ConvergenceWarning, match="callback"):
        solution = jgl.solve(S, 0.3, 0.1, tol=1e-12, callback=lambda step: step.number >= 2)
    assert np.isfinite(solution.certificate.gap)


@pytest.mark.parametrize("screening", ["none", "dynamic"])
def test_zeros_are_proved_as_pair_by_pair(monkeypatch, small_is_big, screening):
    kept, solve_task = [], solve_big_task.solve_big_task
    monkeypatch.setattr(
        "jointglasso.engine.solve_task.solve_big_task", lambda *given: kept.append(solve_task(*given)) or kept[-1]
    )
    S = jgl.SampleCovariance(correlated(p=120), scale="correlation")
    jgl.solve(S, 0.2, 0.3, screening=screening, tol=1e-4)
    point = kept[0].cached_blocks.point
    group, penalty = point.group, point.penalty
    i, j = np.triu_indices(len(group.variables), 1)
    class_mask = group.class_mask(i, j)
    assert class_mask.all() == (screening == "none")
    pair, k = np.nonzero(class_mask)
    row, column = group.member_of[k, i[pair]], group.member_of[k, j[pair]]
    _, dual = point.entries_at(row, column)
    covariance = np.empty(len(k))
    for c in range(3):
        covariance[k == c] = S.entries(c, group.members[row[k == c]], group.members[column[k == c]])
    theta = point.theta_support.at(group.local[row], group.local[column], k)
    root = np.sqrt(group.optimal_variance(point.diagonal_penalty))
    for gap in (1e-9, 1e-4, 1e-2):
        radius, _ = gap_radii(np.full(len(group.size), gap), group.block_weight)
        limit = radius[group.member_block[row]] * root[row] * root[column] + 1e-14
        zeros = penalty.certified_zeros(
            SafeRegion(theta, dual - covariance, limit, limit), entries_in_classes(penalty, class_mask)
        )
        zeros &= theta == 0.0
        assert 0 < point.n_absent(gap) == zeros.sum() <= len(theta)
        assert point.n_absent(gap, screening_proved=False) == (zeros & class_mask.all(axis=1)[pair]).sum()
    assert point.n_absent(np.inf) == 0


def test_a_wider_gap_proves_less_and_rounding_is_counted(monkeypatch, small_is_big):
    kept = []
    monkeypatch.setattr(
        "jointglasso.engine.solve_task.solve_big_task", lambda *given: kept.append(solve_task(*given)) or kept[-1]
    )
    solve_task = solve_big_task.solve_big_task
    jgl.solve(jgl.SampleCovariance(correlated(), scale="correlation"), 0.3, 0.1)
    outcome = kept[0]
    cached_blocks = outcome.cached_blocks
    subset_for, wide, hopeless = (cached_blocks.with_radius(outcome, np.array([gap]), gap) for gap in (1e-9, 1e-3, 1e9))
    assert subset_for.n_present > wide.n_present > hopeless.n_present == 0
    assert subset_for.n_absent > wide.n_absent > hopeless.n_absent == 0
    for some in (subset_for, wide, hopeless):
        assert some.nonzeros.proved.sum() == some.n_present
    objective, error, gap = cached_blocks.point.with_rounding()
    # The errors of two log-determinants of blocks of 60 variables, each no less than p^2 units of rounding.
    least = 18 * 60 * 60 * np.finfo(float).eps / 2
    assert objective == cached_blocks.point.objective and error > least / 18 and gap - cached_blocks.point.gap > least
