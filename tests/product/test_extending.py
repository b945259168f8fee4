"""Whoever adds a penalty, a criterion or a backend and forgets a part hears of it here; CONTRIBUTING says what to add.

Nothing below knows a penalty, a criterion or a backend by name: what is listed in the package is tested.
"""

import inspect
import pkgutil

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso import backends, selection
from jointglasso.cli.fit import fit
from jointglasso.cli.options import CRITERIA as OFFERED
from jointglasso.kernels import pair
from jointglasso.penalties import PENALTIES
from jointglasso.penalties.base import UNIFORM
from jointglasso.problem import make_problem
from jointglasso.selection.criteria import CRITERIA, GraphSize, model_complexity

K = 3


def given_to(name):
    """What `solve` asks for with a penalty of this name."""
    return {"class_graph": [(0, 1), (1, 2, 2.0)]} if name == "graph" else {}


def penalty_of(name):
    return make_problem(np.stack([np.eye(2)] * K), 0.3, 0.2, penalty=name, **given_to(name)).penalty


def as_asked_for(penalty):
    """Options of `solve` that give this penalty."""
    word = penalty.parameters()["penalty"]
    return {"penalty": word, **given_to(word)}


@pytest.fixture(params=PENALTIES)
def penalty(request):
    return penalty_of(request.param)


def rows_of(penalty, seed=0, m=40):
    draw = np.random.default_rng(seed)
    return penalty.as_entries(draw.standard_normal((m, K)) * draw.choice([0.2, 1.0, 3.0], (m, 1)), UNIFORM)


def test_every_penalty_gives_compiled_code_the_same_functions(penalty):
    module = pair.module_of(penalty.pair)
    asked = {name.removeprefix("pair_") for name in vars(pair) if name.startswith("pair_")} - {
        "homogeneous",
        "weakly_coupled",
    }
    assert {"value", "update", "gradient"} < asked
    for function in (*asked, "workspace_size"):
        assert callable(getattr(module, function)), function
    assert isinstance(module.HOMOGENEOUS, bool)


def test_the_prox_is_the_minimum(penalty):
    values, entries = rows_of(penalty)
    draw = np.random.default_rng(1)
    best = penalty.prox(values, np.ones(40), entries)

    def objective(x):
        return 0.5 * ((x - values) ** 2).reshape(40, K).sum(axis=1) + penalty.value(x, entries)

    for size in (1e-3, 0.1, 1.0):
        for _ in range(20):
            assert (objective(best + size * draw.standard_normal(len(best))) >= objective(best) - 1e-12).all()
    assert (objective(np.zeros_like(best)) >= objective(best) - 1e-12).all()


def test_subgradients_support_the_penalty_from_below(penalty):
    theta, entries = rows_of(penalty, seed=2)
    theta = penalty.prox(theta, np.ones(40), entries)  # with zeros and equalities
    wanted, _ = rows_of(penalty, seed=3)
    u = penalty.nearest_subgradient(theta, wanted, entries)
    draw = np.random.default_rng(4)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(20):
            other = theta + size * draw.standard_normal(len(theta))
            gained = (u * (other - theta)).reshape(40, K).sum(axis=1)
            assert (penalty.value(other, entries) >= penalty.value(theta, entries) + gained - 1e-10).all()
    again = penalty.prox(theta + u, np.ones(40), entries)
    np.testing.assert_allclose(again, theta, atol=1e-9)


def test_the_gauge_ends_at_the_dual_ball(penalty):
    u, entries = rows_of(penalty, seed=5)
    gauge = np.repeat(penalty.gauge(u, entries), K)
    assert penalty.is_dual_feasible(u / gauge * (1.0 - 1e-9), entries).all()
    assert not penalty.is_dual_feasible(u / gauge * (1.0 + 1e-6), entries).any()


def test_every_penalty_solves_alike_with_and_without_screening(penalty):
    draw = np.random.default_rng(6)
    S = np.stack([np.corrcoef(draw.standard_normal((12, 6)), rowvar=False) for _ in range(K)])
    options = as_asked_for(penalty)
    found = [jgl.solve(S, 0.25, 0.1, screening=screening, tol=1e-9, **options) for screening in ("dynamic", "none")]
    assert all(solution.status for solution in found)
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-8)
    problem = make_problem(S, 0.25, 0.1, **options)
    Theta = [matrix.toarray() for matrix in found[0].precision]
    for _ in range(30):
        step = draw.standard_normal((K, 6, 6)) * (draw.random((K, 6, 6)) < 0.2) * 1e-3
        moved = [T + s + s.T for T, s in zip(Theta, step, strict=True)]
        assert problem.objective(moved) >= found[0].objective * (1 - 1e-8)


def test_every_penalty_solves_groups_correlated_throughout(penalty):
    draw = np.random.default_rng(7)
    common = draw.standard_normal((60, 1))
    S = np.stack([np.corrcoef(common + 0.7 * draw.standard_normal((60, 30)), rowvar=False) for _ in range(K)])
    options = {"tol": 1e-7, **as_asked_for(penalty)}
    found, by_admm = jgl.solve(S, 0.1, 0.03, **options), jgl.solve(S, 0.1, 0.03, solver="admm", **options)
    assert found.status and by_admm.status
    assert found.objective == pytest.approx(by_admm.objective, rel=1e-6)


def test_every_penalty_is_offered_and_told_of(penalty):
    word = as_asked_for(penalty)["penalty"]
    assert word in next(option for option in fit.params if option.name == "penalty").type.choices
    for explained in (jgl.solve, jgl.JointGraphicalLasso):
        assert f'"{word}"' in explained.__doc__


@pytest.mark.parametrize("criterion", CRITERIA)
def test_every_criterion_has_a_function_a_charge_and_an_option(criterion):
    public = getattr(selection, criterion)
    assert inspect.getdoc(public)
    few, many = (
        model_complexity(criterion, GraphSize(np.repeat(50.0, n), np.repeat(47.5, n), n, True), K, 30) for n in (5, 9)
    )
    assert np.isfinite(many) and 0 < few < many
    assert criterion in OFFERED.choices
    for explained in (jgl.select, jgl.JointGraphicalLassoCV, jgl.TimeVaryingGraphicalLasso):
        assert f'"{criterion}"' in explained.__doc__


def test_every_backend_says_whether_it_is_there_and_finds_pairs():
    modules = {module.name for module in pkgutil.iter_modules(backends.__path__)}
    assert modules == set(backends.SCANNERS.values()), "a backend needs a word for device="
    for device in backends.SCANNERS:
        assert f'"{device}"' in jgl.SampleCovariance.__doc__
        for function in ("available", "require_device", "possible_pairs"):
            assert callable(getattr(backends.scanner(device), function)), function


@pytest.mark.parametrize("device", backends.SCANNERS)
def test_every_backend_is_asked_by_its_word(device, monkeypatch):
    asked = []

    def possible_pairs(units, *least):
        asked.append(device)
        return np.triu_indices(len(units[0]), 1)

    monkeypatch.setattr(backends.scanner(device), "require_device", lambda: None)
    monkeypatch.setattr(backends.scanner(device), "possible_pairs", possible_pairs)
    X = np.random.default_rng(8).standard_normal((30, 12))
    found = [jgl.screen(jgl.SampleCovariance([X], device=where), 0.2, 0.1) for where in ("cpu", device)]
    assert asked == [device] and np.array_equal(found[0].labels, found[1].labels)
