"""Component curves of penalties that compare values."""

import numpy as np
import pytest

import jointglasso as jgl
from jointglasso.selection import lambda_max

GRAPHS = {"chain": None, "fused": None, "graph": [(0, 1), (1, 2, 0.5), (0, 2), (2, 3)], "laplacian": None}


def correlations(p=14, n_classes=4, n=25):
    rng = np.random.default_rng(3)
    return np.array([np.corrcoef(rng.normal(size=(n, p)).T) for _ in range(n_classes)])


@pytest.mark.parametrize("penalty", GRAPHS)
@pytest.mark.parametrize("rule", ["global", "dynamic"])
def test_the_curve_is_the_rule_at_each_lambda(penalty, rule):
    S, how = correlations(), {"penalty": penalty, "class_graph": GRAPHS[penalty]}
    curve = jgl.component_curve(S, 0.4, rule=rule, n_lambdas=12, **how)
    assert curve.lambda_max == pytest.approx(float(lambda_max(S, [(1.0, 0.4)], **how)[0]), rel=1e-12)
    assert curve.largest[-1] > 5
    for lambda1, largest, n_blocks in zip(curve.lambda1, curve.largest, curve.n_blocks, strict=True):
        expected = jgl.screen(S, lambda1, 0.4 * lambda1, rule=rule, **how)
        assert (largest, n_blocks) == (expected.largest, expected.n_blocks)
        assert curve.partition(lambda1) == expected
    assert sum(jgl.solve(S, 1.01 * curve.lambda_max, 0.404 * curve.lambda_max, **how).n_edges) == 0


@pytest.mark.parametrize("penalty", GRAPHS)
def test_the_smallest_lambda_is_the_smallest(penalty):
    S, how = correlations(), {"penalty": penalty, "class_graph": GRAPHS[penalty]}
    curve = jgl.component_curve(S, 0.4, rule="global", n_lambdas=12, **how)
    lambda1, lambda2 = curve.smallest_lambda(5)
    assert jgl.screen(S, lambda1, lambda2, rule="global", **how).largest <= 5
    assert jgl.screen(S, 0.9999 * lambda1, 0.9999 * lambda2, rule="global", **how).largest > 5


def test_what_is_not_nested_is_not_searched():
    S = correlations()
    with pytest.raises(ValueError, match='rule="global"'):
        jgl.component_curve(S, 0.4, penalty="chain").smallest_lambda(5)
    with pytest.raises(ValueError, match='"dynamic" or "global"'):
        jgl.component_curve(S, 0.4, penalty="chain", rule="hybrid")


@pytest.mark.filterwarnings("error")
def test_reaches_without_a_bound_prove_nothing_and_say_nothing():
    from jointglasso.penalties import SafeRegion, make_penalty

    penalty = make_penalty("laplacian", 0.5, 0.3, None, ["a", "b", "c", "d"])
    zero, entries = penalty.as_entries(np.zeros((2, 4)))
    radius = np.array([[np.inf, 0.0, 0.0, 0.0], [0.1, 0.1, 0.1, 0.1]]).ravel()
    found = penalty.certified_zeros(SafeRegion(zero, zero, zero, radius), entries).reshape(2, 4)
    # No bound on the first class is none on its neighbour; the others are as far from it as ever.
    assert found.tolist() == [[True, False, True, True], [True, True, True, True]]


def test_ties_in_other_units_join_and_do_not_warn():
    from jointglasso.penalties import make_penalty

    penalty = make_penalty("laplacian", 3e20, 8e20, None, ["a", "b", "c"])
    rows = np.array([[1e21, -4e20, 5e20], [3e21, 2e21, 1e20]])
    assert (np.abs(penalty.signs(rows)) <= 1).all() and penalty.signs(rows).any()
