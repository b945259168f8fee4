"""The fused family on one pair, against enumeration of all sets of classes, a linear program and known numbers."""

import sys

import numba
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import linprog

from fused_oracles import PairPenaltyReference, smallest_joined
from jointglasso.kernels import fused_pair, laplacian_pair
from jointglasso.kernels.pair_types import (
    COMPLETE,
    FOREST,
    GENERAL,
    N_INTEGER_ROWS,
    Entries,
    PairClasses,
    PenaltyWorkspace,
)
from jointglasso.penalties import UNIFORM, SafeRegion
from jointglasso.penalties.fused import FusedPenalty
from jointglasso.penalties.laplacian import LaplacianPenalty

KINDS = ("complete", "chain", "tree", "product", "general", "none")


def class_graph(kind, n_classes, rng=None):
    """Weights between classes of a graph of some kind."""
    rng = np.random.default_rng(0) if rng is None else rng
    b = np.zeros((n_classes, n_classes))
    if kind == "complete":
        b[:] = 1.0
    elif kind == "chain":
        for k in range(n_classes - 1):
            b[k, k + 1] = 1.0
    elif kind == "tree":
        order = rng.permutation(n_classes)
        for k in range(1, n_classes):
            b[order[k], order[rng.integers(k)]] = rng.choice([0.5, 1.0, 2.0])
    elif kind == "product":
        mass = rng.uniform(0.5, 2.0, n_classes)
        b = np.outer(mass, mass)
    elif kind == "general":
        b = rng.choice([0.0, 0.0, 0.5, 1.0, 2.0], size=(n_classes, n_classes))
    b = np.maximum(b, b.T)
    np.fill_diagonal(b, 0.0)
    return b


def doors(module):
    """The functions of a penalty, which only kernels call, for Python."""

    def door(function):
        return numba.njit(error_model="numpy")(lambda *arguments: function(*arguments))

    names = ("update", "value", "is_dual_feasible", "gauge", "subgradient", "gradient", "clusters")
    return {name: door(getattr(module, name)) for name in names}


DOORS = {module: doors(module) for module in (fused_pair, laplacian_pair)}


class Pair:
    """One pair of some classes: the compiled functions with their work arrays."""

    def __init__(self, penalty, classes=None, v=1.0):
        self.penalty = penalty
        self.module = laplacian_pair if isinstance(penalty, LaplacianPenalty) else fused_pair
        self.call = DOORS[self.module]
        self.classes = np.arange(penalty.n_classes) if classes is None else np.asarray(classes)
        self.n, self.v = len(self.classes), v
        size = self.module.workspace_size(penalty.n_classes)
        # Work arrays hold anything when a kernel gets them.
        n = penalty.n_classes
        work = PenaltyWorkspace(np.full((size, n), np.nan), np.full((N_INTEGER_ROWS, n), -7, dtype=np.int64))
        self.pair = PairClasses(self.classes, self.n, v, v * penalty.l1[self.classes], work)

    @property
    def reference(self):
        pair = self.penalty.pair
        return PairPenaltyReference(pair.l1, pair.class_graph, self.classes, self.v, self.module is laplacian_pair)

    def update(self, a, b, guess=None):
        out = np.zeros(self.n) if guess is None else guess.copy()
        a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
        self.call["update"](self.penalty.pair, a, b, self.pair, out)
        return out

    def value(self, t):
        return self.call["value"](self.penalty.pair, t, self.pair)

    def is_dual_feasible(self, u):
        return self.call["is_dual_feasible"](self.penalty.pair, np.asarray(u, float), self.pair)

    def gauge(self, u):
        return self.call["gauge"](self.penalty.pair, np.asarray(u, float), self.pair)

    def subgradient(self, theta, wanted):
        out = np.empty(self.n)
        self.call["subgradient"](self.penalty.pair, theta, wanted, self.pair, out)
        return out

    def gradient(self, theta):
        out = np.empty(self.n)
        self.call["gradient"](self.penalty.pair, theta, self.pair, out)
        return out

    def clusters(self, theta):
        out = np.empty(self.n, dtype=np.int64)
        count = self.call["clusters"](self.penalty.pair, theta, self.pair, out)
        return count, out


@st.composite
def pairs(draw, kinds=KINDS, family=(FusedPenalty, LaplacianPenalty), whole=False):
    """A pair, and a generator of numbers that are round in half of the cases, so that ties and boundaries occur."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_classes = draw(st.integers(1, 5))
    graph = class_graph(draw(st.sampled_from(kinds)), n_classes, rng)
    lambda1, lambda2 = draw(st.sampled_from([0.0, 0.1, 0.2])), draw(st.sampled_from([0.0, 0.05, 0.1, 0.3]))
    penalty = draw(st.sampled_from(family))(lambda1, lambda2, graph)
    n = n_classes if whole else draw(st.integers(1, n_classes))
    classes = np.sort(rng.choice(n_classes, n, replace=False))
    return Pair(penalty, classes, draw(st.sampled_from([1.0, 0.5, 2.0]))), rng, draw(st.booleans())


def numbers(rng, n, is_round):
    return rng.integers(-10, 11, n) / 10.0 if is_round else rng.normal(size=n)


def metric(rng, n, is_round):
    return rng.choice([1.0, 2.0], n) if is_round else rng.uniform(0.1, 3.0, n)


@settings(max_examples=400)
@given(pairs())
def test_update_is_the_minimiser_in_any_metric(case):
    pair, rng, is_round = case
    a, b = metric(rng, pair.n, is_round), numbers(rng, pair.n, is_round)
    x = pair.update(a, b)
    assert pair.reference.outside_by(b - a * x, x) < 1e-12
    assert pair.value(x) == pytest.approx(pair.reference.value(x), abs=1e-13)


@settings(max_examples=400)
@given(pairs())
def test_a_guess_changes_nothing_whether_right_or_wrong(case):
    pair, rng, is_round = case
    a, b = metric(rng, pair.n, is_round), numbers(rng, pair.n, is_round)
    x = pair.update(a, b)
    near = pair.update(a, b + 0.05 * rng.normal(size=pair.n))
    for guess in (x, 1.5 * x, -x, near, numbers(rng, pair.n, True), np.full(pair.n, 0.3)):
        y = pair.update(a, b, guess)
        assert y == pytest.approx(x, abs=1e-12)
        assert pair.reference.outside_by(b - a * y, y) < 1e-12


@settings(max_examples=300)
@given(pairs())
def test_gauge_and_membership_are_those_of_all_sets(case):
    pair, rng, is_round = case
    u = numbers(rng, pair.n, is_round) * rng.choice([0.1, 0.3, 1.0])
    expected = pair.reference.gauge(u)
    assert pair.gauge(u) == pytest.approx(expected, rel=1e-11)
    if abs(expected - 1.0) > 1e-11:
        assert pair.is_dual_feasible(u) == (expected < 1.0)
    if 0.0 < expected < np.inf:
        assert pair.is_dual_feasible(u / expected * (1.0 - 1e-11))
        assert not pair.is_dual_feasible(u / expected * (1.0 + 1e-11))


@settings(max_examples=300)
@given(pairs())
def test_nearest_subgradient_is_one_and_no_other_is_nearer(case):
    pair, rng, is_round = case
    theta = pair.update(np.ones(pair.n), numbers(rng, pair.n, is_round))
    wanted = numbers(rng, pair.n, False) * 0.5
    u = pair.subgradient(theta, wanted)
    assert pair.reference.outside_by(u, theta) < 1e-12
    for _ in range(6):
        other = pair.subgradient(theta, rng.normal(size=pair.n))
        assert ((wanted - u) * (other - u)).sum() < 1e-12
    # What is a subgradient already stays as it is.
    assert pair.subgradient(theta, u) == pytest.approx(u, abs=1e-13)


@settings(max_examples=200)
@given(pairs())
def test_the_slope_is_the_derivative_on_the_face(case):
    pair, rng, is_round = case
    theta = pair.update(np.ones(pair.n), numbers(rng, pair.n, is_round))
    count, cluster = pair.clusters(theta)
    assert (cluster == -1).tolist() == (theta == 0).tolist()
    assert sorted(set(cluster[cluster >= 0])) == list(range(count))
    for number in range(count):
        members = cluster == number
        assert len(set(theta[members])) == 1
        values = [pair.value(theta + step * members) for step in (1e-6, -1e-6)]
        assert pair.gradient(theta)[members].sum() == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-6)


@settings(max_examples=150)
@given(pairs(family=(FusedPenalty,), whole=True))
def test_pattern_and_closure_are_those_of_all_sets(case):
    pair, rng, _ = case
    penalty, factor = pair.penalty, np.array([pair.v])
    wS = rng.normal(size=pair.n) * 0.5
    # The signs of the isolated pair do not depend on the metric.
    for a in (np.ones(pair.n), rng.uniform(0.05, 5.0, pair.n)):
        assert penalty.signs(wS[None, :], factor)[0].tolist() == np.sign(pair.update(a, -wS)).tolist()
    joined = rng.random(pair.n) < 0.3
    found = penalty.closure(wS[None, :], joined[None, :], factor)[0]
    v = pair.v
    assert found.tolist() == smallest_joined(v * penalty.pair.l1, v * penalty.pair.class_graph, wS, joined).tolist()
    # The a-priori rule is never finer than the start of dynamic screening, and certain joins are in both.
    assert (found >= (penalty.signs(wS[None, :], factor)[0] != 0)).all()
    certain = np.abs(wS) > v * (penalty.pair.l1 + penalty.pair.class_graph.sum(axis=1)) * (1.0 + 1e-12)
    assert (found >= certain).all()


def proofs(penalty, u, radius, factor=UNIFORM, classes=None):
    """Zeros and equalities of one pair."""
    cls = np.arange(len(u)) if classes is None else classes
    entries = Entries(np.array([0, len(u)]), cls, factor, penalty.n_classes)
    zero, equal = penalty.certified_zeros_and_equal(SafeRegion(np.zeros(len(u)), u, radius, np.zeros(len(u))), entries)
    return zero, equal[0]


@settings(max_examples=150)
@given(pairs(family=(FusedPenalty,), whole=True))
def test_on_a_boundary_screening_joins_and_proves_nothing(case):
    pair, rng, _ = case
    factor = np.array([pair.v])
    u = rng.integers(-10, 11, pair.n) / 10.0
    wS = u / pair.gauge(u) if 0.0 < pair.gauge(u) < np.inf else u
    if wS.any() and pair.penalty.lambda1 > 0:
        assert pair.penalty.signs(wS[None, :], factor)[0].any()
        zero, _ = proofs(pair.penalty, wS, np.zeros(pair.n), factor)
        assert not zero.all()


@settings(max_examples=200)
@given(pairs(family=(FusedPenalty,)))
def test_proofs_are_those_of_all_sets_that_may_be_tight(case):
    pair, rng, _ = case
    u, radius = rng.normal(size=pair.n) * 0.3, rng.uniform(0.0, 0.05, pair.n)
    zero, equal = proofs(pair.penalty, u, radius, np.array([pair.v]), pair.classes)
    sets = pair.reference.tight(u, radius)
    assert zero.tolist() == [not any(Q[k] for Q in sets) for k in range(pair.n)]
    # Classes that are cut are in no set.
    sets = [pair.reference.full(Q) > 0 for Q in sets]
    assert equal.tolist() == [not any(Q[one] != Q[two] for Q in sets) for one, two in pair.penalty.fused_class_pairs]


@settings(max_examples=300)
@given(pairs(family=(FusedPenalty,)))
def test_proofs_hold_at_every_optimum_within_reach(case):
    pair, rng, is_round = case
    b = numbers(rng, pair.n, is_round)
    theta = pair.update(np.ones(pair.n), b)
    radius = rng.choice([0.0, 0.02, 0.2, np.inf], pair.n)
    u = b - theta + rng.choice([-1.0, 0.0, 0.7, 1.0], pair.n) * np.minimum(radius, 0.5)
    zero, equal = proofs(pair.penalty, u, radius, np.array([pair.v]), pair.classes)
    assert not theta[zero].any()
    values = pair.reference.full(theta)
    one, two = pair.penalty.fused_class_pairs[equal].T
    np.testing.assert_allclose(values[one], values[two], atol=1e-13)


def test_a_set_proves_nothing_of_a_class_that_only_follows_another():
    """{0, 1} could be tight for 0 alone, but then {1} would exceed nothing: class 1 is far below its threshold."""
    penalty = FusedPenalty(0.1, 0.2, class_graph("none", 2))
    zero, _ = proofs(penalty, np.array([0.1, 0.02]), np.array([0.3, 0.01]))
    assert zero.tolist() == [False, True]


@pytest.mark.parametrize("kind", KINDS)
def test_the_enumerated_ball_is_that_of_a_linear_program(kind):
    """u = z + flows over the ties, with |z| <= l1: the definition of the subdifferential at zero."""
    rng = np.random.default_rng(3)
    for _ in range(12):
        n_classes = int(rng.integers(2, 6))
        pair = Pair(FusedPenalty(0.2, 0.1, class_graph(kind, n_classes, rng)))
        u = rng.normal(size=n_classes) * 0.3
        one, two = np.nonzero(np.triu(pair.penalty.pair.class_graph))
        flows = np.zeros((n_classes, len(one)))
        flows[one, np.arange(len(one))], flows[two, np.arange(len(one))] = 1.0, -1.0
        limits = [(-0.2, 0.2)] * n_classes + [(-t, t) for t in pair.penalty.pair.class_graph[one, two]]
        found = linprog(
            np.zeros(n_classes + len(one)), A_eq=np.hstack([np.eye(n_classes), flows]), b_eq=u, bounds=limits
        )
        assert pair.is_dual_feasible(u) == found.success


def test_the_laplacian_gradient_keeps_a_difference_in_the_last_digit():
    """Otherwise a gap would leave out the penalty of that difference, here 6e7 of it."""
    theta = np.array([6.52144525e13, 6.52144525e13, np.nextafter(6.52144525e13, np.inf)])
    penalty = LaplacianPenalty(0.0, 1e12, class_graph("complete", 3))
    entries = Entries(np.array([0, 3]), np.arange(3), UNIFORM, 3)
    difference = float(theta[2] - theta[0])
    found = penalty.nearest_subgradient(theta, np.zeros(3), entries)
    np.testing.assert_allclose(found, 2e12 * difference * np.array([-1.0, -1.0, 2.0]), rtol=1e-15)
    # phi is homogeneous of degree two: the gradient is consistent with the value.
    np.testing.assert_allclose(found @ (theta - theta[0]), 2.0 * penalty.value(theta, entries)[0], rtol=1e-15)


@pytest.mark.parametrize("family", [FusedPenalty, LaplacianPenalty])
def test_update_against_clarabel(family):
    import cvxpy as cp

    rng = np.random.default_rng(5)
    for kind in KINDS[:5]:
        penalty = family(0.15, 0.2, class_graph(kind, 5, rng))
        classes = np.array([0, 1, 3, 4])
        pair = Pair(penalty, classes, 1.5)
        a, b = rng.uniform(0.2, 3.0, 4), rng.normal(size=4)
        x = cp.Variable(5)
        differences = [
            penalty.pair.class_graph[i, j] * (cp.abs(x[i] - x[j]) if family is FusedPenalty else cp.square(x[i] - x[j]))
            for i in range(5)
            for j in range(i)
        ]
        phi = 0.15 * cp.norm1(x) + sum(differences)
        cost = cp.sum(cp.multiply(a, cp.square(x[classes])) / 2 - cp.multiply(b, x[classes])) + 1.5 * phi
        cp.Problem(cp.Minimize(cost), [x[2] == 0]).solve(solver=cp.CLARABEL)
        assert pair.update(a, b) == pytest.approx(x.value[classes], abs=1e-6)


def test_the_shape_of_the_graph_is_recognised():
    shapes = {kind: FusedPenalty(0.1, 0.1, class_graph(kind, 5)).pair.shape for kind in KINDS}
    assert shapes == {
        "complete": COMPLETE,
        "product": COMPLETE,
        "chain": FOREST,
        "tree": FOREST,
        "none": FOREST,
        "general": GENERAL,
    }
    assert FusedPenalty(0.1, 0.0, class_graph("complete", 5)).pair.shape == FOREST


@pytest.mark.parametrize("kind", ["complete", "chain", "tree"])
def test_shortcuts_agree_with_the_flow(kind):
    rng = np.random.default_rng(11)
    for _ in range(100):
        n_classes = int(rng.integers(3, 13))
        penalty = FusedPenalty(0.1, 0.2, class_graph(kind, n_classes, rng))
        classes = np.sort(rng.choice(n_classes, n_classes - 1, replace=False))
        pair = Pair(penalty, classes)
        a, b = rng.uniform(0.1, 3.0, pair.n), rng.normal(size=pair.n)
        fast = pair.update(a, b)
        general = FusedPenalty(0.1, 0.2, penalty.graph)
        vars(general)["pair"] = penalty.pair._replace(shape=GENERAL)
        assert Pair(general, classes).update(a, b) == pytest.approx(fast, abs=1e-13)


@pytest.mark.parametrize("kind", ["complete", "chain", "tree", "general"])
def test_a_hundred_classes(kind):
    """More classes than a word has bits; the conditions of the minimiser are checked by its own subgradients."""
    rng = np.random.default_rng(7)
    n_classes = 100
    penalty = FusedPenalty(0.1, 0.004 if kind in ("complete", "general") else 0.4, class_graph(kind, n_classes, rng))
    pair = Pair(penalty)
    a = rng.uniform(0.5, 2.0, n_classes)
    b = np.where(np.arange(n_classes) < 50, 1.0, 0.0) + 0.3 * rng.normal(size=n_classes)
    x = pair.update(a, b)
    assert 1 < pair.clusters(x)[0] < 60
    assert pair.subgradient(x, b - a * x) == pytest.approx(b - a * x, abs=1e-12)
    assert pair.is_dual_feasible(b / pair.gauge(b) * (1 - 1e-9))
    assert not pair.is_dual_feasible(b / pair.gauge(b) * (1 + 1e-9))
    zero, _ = proofs(penalty, b * 0.01, np.full(n_classes, 1e-3))
    assert zero.all()


def test_laplacian_with_strong_ties_is_exact():
    """Sweeps alone would creep here."""
    pair = Pair(LaplacianPenalty(0.1, 1e4, class_graph("chain", 50)))
    rng = np.random.default_rng(1)
    a, b = rng.uniform(0.5, 2.0, 50), rng.normal(size=50) + 0.5
    x = pair.update(a, b)
    assert pair.reference.outside_by(b - a * x, x) < 1e-9


@pytest.mark.parametrize("tie", [1e8, 1e16, 1e40, 1e70])
def test_laplacian_ties_in_units_far_from_the_data_make_one_class_of_all(tie):
    """Curvatures of size one beside such ties are lost in a sum: all classes have the value of all data together."""
    pair = Pair(LaplacianPenalty(0.1, tie, class_graph("chain", 7)))
    rng = np.random.default_rng(1)
    a, b = rng.uniform(0.5, 2.0, 7), rng.uniform(0.3, 2.0, 7)
    assert pair.update(a, b) == pytest.approx(np.full(7, (b.sum() - 0.7) / a.sum()), rel=1e-6)


# Numbers


@pytest.mark.parametrize(
    ("kind", "s", "lambda1", "lambda2", "w", "W"),
    [
        ("complete", (0.9, 0.0), 0.1, 0.3, (1, 1), (0.5, 0.2)),
        ("complete", (0.8, 0.5, -0.3), 0.2, 0.1, (1, 1, 1), (0.4, 0.3, 0.0)),
        ("chain", (0.8, 0.5, -0.3), 0.2, 0.1, (1, 1, 1), (0.5, 0.3, 0.0)),
        ("chain", (0.6, 0.5, 0.1, 0.55), 0.15, 0.1, (1, 1, 1, 1), (0.35, 0.35, 0.15, 0.3)),
        ("complete", (0.6, -0.5), 0.1, 0.1, (2, 0.5), (0.5, -0.1)),
    ],
)
def test_two_variables_of_equal_variance(kind, s, lambda1, lambda2, w, W):
    """W is the proximal point of S in the metric of the weights."""
    pair = Pair(FusedPenalty(lambda1, lambda2, class_graph(kind, len(s))))
    found = pair.update(w, np.multiply(w, s))
    assert found == pytest.approx(W, abs=1e-15)


def test_order_may_be_reversed_when_curvatures_differ():
    a, c = np.array([0.1, 1, 1, 1, 1]), np.array([3, 2.9, 0, 0, 0])
    pair = Pair(FusedPenalty(0.0, 0.05, class_graph("complete", 5)))
    assert pair.update(a, a * c) == pytest.approx([2, 2.7, 0.1, 0.1, 0.1], abs=1e-14)


def test_soft_thresholding_of_the_fused_signal_is_not_the_answer():
    a, c = np.array([1.0, 4.0]), np.array([2.0, 1.2])
    pair = Pair(FusedPenalty(0.5, 0.6, class_graph("complete", 2)))
    assert pair.update(a, a * c) == pytest.approx([1.16, 1.16], abs=1e-14)
    cut = Pair(FusedPenalty(0.2, 0.3, class_graph("chain", 3)), classes=[0, 1])
    assert cut.update([1, 1], [1, 0.8]) == pytest.approx([0.55, 0.55], abs=1e-14)


def test_classes_leave_zero_together():
    pair = Pair(FusedPenalty(0.2, 1.0, class_graph("complete", 2)))
    assert pair.update([1, 1], [1, 1]) == pytest.approx([0.8, 0.8])


def test_supports_are_not_nested_along_the_penalty():
    found = [
        Pair(FusedPenalty(scale, 6 * scale, class_graph("complete", 2))).update([1, 1], [0.9, -0.09])[1]
        for scale in (0.1, 0.02, 0.015, 0.01)
    ]
    assert found == pytest.approx([0.305, 0.01, 0.0, -0.02], abs=1e-14)


def test_a_cut_class_separates_its_neighbours_on_a_chain():
    penalty = FusedPenalty(0.2, 0.05, class_graph("chain", 3))
    wS = np.array([[0.6, -0.05, 0.6]])
    assert penalty.signs(wS).tolist() == [[-1, 0, -1]]
    assert Pair(penalty, classes=[0, 2]).update([1, 1], [0.6, 0.6]) == pytest.approx([0.35, 0.35])


def test_membership_is_joint():
    pair = Pair(FusedPenalty(0.3, 0.1, class_graph("complete", 2)))
    assert pair.is_dual_feasible([0.38, 0.0])
    assert not pair.is_dual_feasible([0.38, 0.25])
    assert Pair(pair.penalty, classes=[0]).is_dual_feasible([0.4])


def test_the_hybrid_rule_for_sets_is_sharper_than_class_by_class():
    penalty = FusedPenalty(0.3, 0.1, class_graph("complete", 4))
    wS, none = np.array([[2.0, 0.33, 0.0, 0.0]]), np.zeros((1, 4), dtype=bool)
    assert penalty.closure(wS, none).tolist() == [[True, False, False, False]]
    assert penalty.signs(wS).tolist() == [[-1, 0, 0, 0]]


def test_a_class_without_covariance_is_pulled_off_zero():
    penalty = FusedPenalty(0.1, 0.3, class_graph("complete", 2))
    assert penalty.signs(np.array([[0.9, 0.0]])).tolist() == [[-1, -1]]


def test_clusters_on_a_chain_are_neighbours():
    chain, complete = (Pair(FusedPenalty(0.1, 0.1, class_graph(kind, 4))) for kind in ("chain", "complete"))
    theta = np.array([0.3, 0.0, 0.3, 0.3])
    assert chain.clusters(theta)[0] == 2
    assert complete.clusters(theta)[0] == 1
    assert Pair(LaplacianPenalty(0.1, 0.1, class_graph("chain", 4))).clusters(theta)[0] == 3


def test_absent_is_not_cut():
    """A class without the pair takes its ties away; a class that is cut pulls towards zero."""
    graph = class_graph("chain", 3)
    cut = Pair(FusedPenalty(0.2, 0.3, graph), classes=[0, 1]).update([1, 1], [1, 0.8])
    absent = Pair(FusedPenalty(0.2, 0.3, graph[:2, :2])).update([1, 1], [1, 0.8])
    assert cut == pytest.approx([0.55, 0.55])
    assert absent == pytest.approx([0.7, 0.7])


def test_a_pair_without_a_penalty_is_never_proved_zero_by_no_bound():
    """Nothing times infinity: a free pair of a solve that was stopped early, without a gap."""
    penalty = LaplacianPenalty(0.1, 0.2, class_graph("chain", 2))
    entries = Entries(np.array([0, 2]), np.array([0, 1]), np.zeros(1), 2)
    radius = np.full(2, np.inf)
    with np.errstate(all="raise"):
        assert not penalty.certified_zeros(SafeRegion(np.zeros(2), np.zeros(2), radius, radius), entries).any()


@pytest.mark.parametrize("kind", ["complete", "chain", "general", "laplacian"])
def test_functions_that_count_no_references_leave_them_as_they_are(kind):
    rng = np.random.default_rng(1)
    graph = class_graph("general" if kind == "laplacian" else kind, 4)
    penalty = (LaplacianPenalty if kind == "laplacian" else FusedPenalty)(0.3, 0.2, graph)
    rows = rng.standard_normal((50, 4))
    theta = np.where(np.abs(rows) > 0.5, np.round(rows), 0.0)
    flat, entries = penalty.as_entries(rows)
    work, joined = penalty._work(4), rows > 1.0
    object.__setattr__(penalty, "_work", lambda n_classes: work)  # one room for all of them
    given_arrays = [rows, theta, flat, joined, *entries[:3], *work, *penalty.pair[:2], *penalty.pair[3:]]
    before = [sys.getrefcount(array) for array in given_arrays]
    for _ in range(3):
        penalty.signs(rows)
        penalty.closure(rows, joined)
        penalty.certified_zeros_and_equal(SafeRegion(theta.ravel(), flat, 0.1 + 0.0 * flat, 0.1 + 0.0 * flat), entries)
        penalty.update(np.ones(len(flat)), flat, entries)
        penalty.nearest_subgradient(theta.ravel(), flat, entries)
        penalty.gauge(flat, entries)
        penalty.is_dual_feasible(flat, entries)
        penalty.value(theta.ravel(), entries)
    assert [sys.getrefcount(array) for array in given_arrays] == before
