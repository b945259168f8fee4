"""Statements of the theory pages (docs/theory) that a small computation can contradict."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import linalg

import jointglasso as jgl
from jointglasso.duality import gap_radii, gap_to_certify, precision_radius
from jointglasso.inference.permutation import STATISTICS
from jointglasso.selection.criteria import GAMMA

# --- certificate: radii (Theorem C3) ---------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [1e-8, 1e-4, 0.01, 0.3, 2.0])
@pytest.mark.parametrize("weight", [0.2, 1.0, 5.0])
def test_radius_of_the_precision_matrix_is_the_extreme_of_its_interval(gap, weight):
    r, s = (float(radius[0]) for radius in gap_radii(np.array([gap]), np.array([weight])))
    radius = float(precision_radius(np.array([gap]), np.array([weight]))[0])
    assert radius == pytest.approx(max(r / (1 + r), s / (1 - s)), rel=1e-12)
    assert radius < max(r, s) / (1 - s)


def divergence(Theta, other):
    """Sum of ``nu - 1 - log nu`` over the eigenvalues nu of other^-1 Theta."""
    nu = linalg.eigvalsh(Theta, other)
    return float((nu - 1.0 - np.log(nu)).sum())


def test_radius_holds_and_is_attained():
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(300):
        p = int(rng.integers(2, 6))
        Theta = np.cov(rng.normal(size=(p, 3 * p)))
        optimal = np.cov(rng.normal(size=(p, 3 * p))) if rng.random() < 0.5 else Theta * rng.uniform(0.2, 5.0)
        gap = divergence(Theta, optimal)
        scale = np.sqrt(np.outer(np.diag(Theta), np.diag(Theta)))
        ratio = float((np.abs(Theta - optimal) / scale).max() / precision_radius(np.array([gap]), np.ones(1))[0])
        largest = max(largest, ratio)
    # One eigenvalue away from 1 attains the radius on the diagonal.
    Theta, optimal = np.eye(2), np.diag([3.0, 1.0])
    gap = divergence(Theta, optimal)
    assert float(precision_radius(np.array([gap]), np.ones(1))[0]) == pytest.approx(2.0, rel=1e-5)
    assert largest <= 1.0


@pytest.mark.parametrize("weight", [0.3, 1.0, 4.0])
def test_gap_of_an_edge_is_where_its_radius_excludes_zero(weight):
    """Corollary C12."""
    c = np.array([1e-6, 1e-3, 0.1, 0.7, 5.0])
    gap, weights = weight * (np.log1p(c) - c / (1.0 + c)), np.full(5, weight)
    assert gap_to_certify(-2.0 * c, np.full(5, 2.0), weights) == pytest.approx(gap, rel=1e-6)
    assert (precision_radius(0.99 * gap, weights) < c).all() and (precision_radius(1.01 * gap, weights) > c).all()


# --- certificate: rounding (Theorem C8) ------------------------------------------------------------------------------


def test_a_tenth_covers_the_higher_orders_of_rounding():
    from jointglasso.rounding import _FIRST_ORDER, _HIGHER_ORDERS

    t = _FIRST_ORDER / _HIGHER_ORDERS / np.sqrt(2.0)  # blocks of two variables
    share = np.linspace(0.0, 1.0, 10001)
    x, z = t * share**2, t * (1.0 - share) ** 2
    y = np.sqrt(x * z)
    a_inexact = (1.0 + z) / (1.0 - y) ** 2  # a of (Theta + D)^-1 over a of X
    a_exact = a_inexact / (1.0 - x * a_inexact)
    kappa, Z = a_exact * x, y * np.sqrt(a_inexact * (1.0 + y))
    error = (kappa + 2.0 * Z + Z**2) / (1.0 - kappa) + z
    assert (error <= 1.07 * t).all()
    assert (a_exact * error <= _HIGHER_ORDERS**2 * t).all()


# --- screening: the paper's partitions -------------------------------------------------------------------------------


def pairs_matrix(p, **values):
    """Unit diagonal, entries given as s12=..."""
    S = np.eye(p)
    for name, value in values.items():
        i, j = (int(number) - 1 for number in name[1:].split("_")) if "_" in name else (int(c) - 1 for c in name[1:])
        S[i, j] = S[j, i] = value
    return S


def random_problem(seed, n_classes=3, p=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_classes, 25, p)) + 0.7 * rng.normal(size=(n_classes, 25, 1))
    return np.stack([np.corrcoef(x.T) for x in X]), *rng.uniform(0.1, 0.35, 2)


def satisfies_sufficient(partition, S, lambda1, lambda2):
    """Condition (8), written out."""
    S = np.abs(S)
    for i, j in itertools.combinations(range(S.shape[1]), 2):
        joined = partition.labels[:, i] == partition.labels[:, j]
        s = S[:, i, j]
        if not joined.any() and (np.maximum(s - lambda1, 0.0) ** 2).sum() > lambda2**2:
            return False
        if joined.any() and (s[~joined] > lambda1).any():
            return False
    return True


def test_components_are_those_of_the_estimated_graphs():
    S = [pairs_matrix(4, s12=0.5, s34=0.5), pairs_matrix(4, s23=0.5)]
    found = jgl.solve(S, 0.1, 0.1).components()
    assert found.labels.tolist() == [[0, 0, 1, 1], [0, 1, 1, 2]]
    for seed in range(10):
        S, lambda1, lambda2 = random_problem(seed)
        for screening in ("none", "hybrid", "dynamic"):
            solution = jgl.solve(S, lambda1, lambda2, screening=screening, tol=1e-9)
            assert solution.components().refines(solution.partition)


def test_condition_8_is_not_necessary():
    """Proposition S5: the partition of the solution itself violates (8)."""
    S = np.stack([pairs_matrix(3, s12=0.07, s23=0.07), pairs_matrix(3, s13=0.05)])
    solution = jgl.solve(S, 0.04, 0.02, penalize_diagonal=False, screening="none", tol=1e-10)
    assert solution.components().labels.tolist() == [[0, 0, 0], [0, 1, 2]]
    W = np.linalg.inv(solution.precision[0].toarray())
    assert W[[0, 1, 0], [1, 2, 2]] == pytest.approx([0.01, 0.01, 1e-4], abs=1e-7)
    assert not satisfies_sufficient(solution.components(), S, 0.04, 0.02)
    assert jgl.screen(S, 0.04, 0.02).labels.tolist() == [[0, 0, 0], [0, 1, 0]]
    assert jgl.solve(S, 0.04, 0.02, penalize_diagonal=False).partition == solution.components()


def test_order_of_the_rules_and_what_the_global_rule_finds():
    """Theorems S6, S8, D4 and Corollary S7."""
    violated = 0
    for seed in range(40):
        S, lambda1, lambda2 = random_problem(seed)
        rules = {rule: jgl.screen(S, lambda1, lambda2, rule=rule) for rule in ("class", "global", "hybrid", "dynamic")}
        solution = jgl.solve(S, lambda1, lambda2, tol=1e-10)
        own, hybrid = solution.components(), rules["hybrid"]
        forced = jgl.screen(S, lambda1 + lambda2, 0.0, rule="class")
        assert forced.refines(own) and own.refines(hybrid)
        assert hybrid.refines(rules["class"]) and hybrid.refines(rules["global"])
        assert forced.refines(rules["dynamic"]) and rules["dynamic"].refines(hybrid)
        assert own.refines(solution.partition) and solution.partition.refines(hybrid)
        assert own.join() == rules["global"] == hybrid.join()
        assert satisfies_sufficient(hybrid, S, lambda1, lambda2)
        violated += not satisfies_sufficient(own, S, lambda1, lambda2)
    assert violated > 0  # (8) is not necessary, and not rarely so


@pytest.mark.parametrize("p", [8, 13])
def test_one_entry_sets_off_an_avalanche(p):
    """Proposition S9."""
    lambda1, lambda2 = 0.04, 0.02
    strong, weak = lambda1 + 1.5 * lambda2, lambda1 + 0.5 * lambda2
    S = np.stack([np.eye(p)] * 2)

    def put(k, i, j, value):
        S[k, i - 1, j - 1] = S[k, j - 1, i - 1] = value

    put(0, 1, 2, strong)
    for j in range(2, p):
        put(0 if j == 2 or j % 2 == 0 else 1, j, j + 1, strong)
    for j in range(4, p + 1):
        put(j % 2, 1, j, weak)
    assert np.linalg.eigvalsh(S).min() > 0
    assert jgl.screen(S, lambda1, lambda2).largest == 3
    put(1, 1, 3, weak)
    assert jgl.screen(S, lambda1, lambda2).block_sizes(0).tolist() == [p]


def test_partitions_are_nested_for_the_group_penalty():
    """Proposition S11."""
    for seed in range(20):
        S, lambda1, lambda2 = random_problem(seed)
        for rule in ("class", "global", "hybrid"):
            finer = jgl.screen(S, 1.2 * lambda1, 1.1 * lambda2, rule=rule)
            assert finer.refines(jgl.screen(S, lambda1, lambda2, rule=rule))


# --- penalties: sets of classes --------------------------------------------------------------------------------------


def sets(classes):
    return [list(Q) for n in range(1, len(classes) + 1) for Q in itertools.combinations(classes, n)]


class Fused:
    """``sum alpha |t| + sum beta |t_k - t_l|``, all questions answered by enumeration."""

    def __init__(self, lambda1, beta):
        self.lambda1, self.beta, self.K = lambda1, beta, len(beta)

    def cut(self, Q, Y):
        return float(self.beta[np.ix_(Q, Y)].sum())

    def rest(self, Q, of=None):
        return [k for k in (range(self.K) if of is None else of) if k not in Q]

    def value(self, t):
        return self.lambda1 * np.abs(t).sum() + 0.5 * (self.beta * np.abs(t[:, None] - t)).sum()

    def ball_excess(self, u):
        """Largest |u(Q)| - c(Q): positive outside the dual ball."""
        return max(abs(u[Q].sum()) - self.lambda1 * len(Q) - self.cut(Q, self.rest(Q)) for Q in sets(range(self.K)))

    def may_be_screened_out(self, v, X):
        """Condition (8F)."""
        A = self.rest(X)
        return all(
            abs(v[Q].sum()) <= self.lambda1 * len(Q) + self.cut(Q, self.rest(Q, X)) - self.cut(Q, A) for Q in sets(X)
        )


def fused_case(seed):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 6))
    beta = np.triu(rng.uniform(0.0, 0.3, (K, K)) * (rng.random((K, K)) < 0.7), 1)
    return rng, Fused(float(rng.uniform(0.2, 0.6)), beta + beta.T)


def our_fused(fused):
    from jointglasso.penalties.fused import FusedPenalty

    return FusedPenalty(fused.lambda1, 1.0, fused.beta)


def test_dual_ball_of_the_fused_penalty():
    """Theorem F2: u(Q) <= c(Q) for all sets is <u, t> <= phi(t) for all t."""
    outside = 0
    for seed in range(60):
        rng, fused = fused_case(seed)
        u = rng.normal(size=fused.K) * 0.6
        excess = fused.ball_excess(u)
        directions = rng.normal(size=(200, fused.K)) * (rng.random((200, fused.K)) < 0.7)
        indicators = np.array([np.isin(np.arange(fused.K), Q) for Q in sets(range(fused.K))], dtype=float)
        worst = max(u @ t - fused.value(t) for t in [*directions, *indicators, *-indicators])
        assert (worst > 1e-12) == (excess > 1e-12)
        assert bool(our_fused(fused).violates_global_condition(-u[None])[0]) == (excess > 0)
        outside += excess > 0
    assert 5 < outside < 55


def test_unions_of_admissible_sets_are_admissible():
    """Lemma F6, and Proposition F8: the closure is the complement of the largest admissible set."""
    closed = 0
    for seed in range(60):
        rng, fused = fused_case(seed)
        v = rng.normal(size=fused.K) * 0.4
        admissible = [set(X) for X in sets(range(fused.K)) if fused.may_be_screened_out(v, X)]
        for one, two in itertools.combinations(admissible, 2):
            assert one | two in admissible
        J = set(np.flatnonzero(rng.random(fused.K) < 0.3).tolist())
        fitting = [X for X in admissible if not X & J]
        expected = set(range(fused.K)) - (max(fitting, key=len) if fitting else set())
        joined = np.isin(np.arange(fused.K), list(J))[None]
        assert set(np.flatnonzero(our_fused(fused).closure(-v[None], joined)[0]).tolist()) == expected
        closed += J < expected < set(range(fused.K))
    assert closed > 3


def test_condition_8f_is_what_the_data_of_other_classes_cannot_break():
    """Theorem F5: with (8F) the subgradient of the joined classes can be completed; without, 1_A cannot."""
    for seed in range(80):
        rng, fused = fused_case(seed)
        v = rng.normal(size=fused.K) * 0.3
        X = np.flatnonzero(rng.random(fused.K) < 0.5).tolist()
        A = fused.rest(X)
        if not X or not A:
            continue
        base = np.array([fused.lambda1 + fused.beta[k, X].sum() for k in A])
        broken = False
        for sign in (1.0, -1.0):
            u = v.copy()
            u[A] = sign * base  # the subgradient at sign * 1_A
            broken |= fused.ball_excess(u) > 1e-12
        assert broken == (not fused.may_be_screened_out(v, X))


def test_signs_of_a_fused_pair_do_not_depend_on_the_curvatures():
    """Corollary F4."""
    for seed in range(40):
        rng, fused = fused_case(seed)
        penalty, b = our_fused(fused), rng.normal(size=(1, fused.K))
        linear, entries = penalty.as_entries(b)
        signs = [np.sign(penalty.update(a, linear, entries)) for a in rng.uniform(0.1, 10.0, (5, fused.K))]
        assert all(np.array_equal(sign, signs[0]) for sign in signs)
        assert np.array_equal(signs[0], penalty.signs(-b)[0])


# --- methods ---------------------------------------------------------------------------------------------------------


def test_forests_have_the_closed_form():
    """Lemma M1."""
    rng = np.random.default_rng(0)
    p = 7
    parent = [None] + [int(rng.integers(0, i)) for i in range(1, p)]
    variance = rng.uniform(0.5, 2.0, p)
    Theta, edge = np.diag(1.0 / variance), {}
    for i in range(1, p):
        j = parent[i]
        w = edge[i, j] = rng.uniform(-0.8, 0.8) * np.sqrt(variance[i] * variance[j])
        rest = variance[i] * variance[j] - w**2
        Theta[i, j] = Theta[j, i] = -w / rest
        Theta[i, i] += w**2 / rest / variance[i]
        Theta[j, j] += w**2 / rest / variance[j]
    W = np.linalg.inv(Theta)
    assert np.diag(W) == pytest.approx(variance)
    assert [W[pair] for pair in edge] == pytest.approx(list(edge.values()))


def test_a_column_with_its_own_diagonal_keeps_the_dual_point_definite():
    """Theorem M3: whatever the column is."""
    rng = np.random.default_rng(1)
    for scale in (1e-3, 1.0, 1e3):
        rest = np.cov(rng.normal(size=(5, 20)))
        x, c = scale * rng.normal(size=5), rng.uniform(0.1, 3.0)
        h = x @ rest @ x
        tau = (1.0 + np.sqrt(1.0 + 4.0 * c * h)) / (2.0 * c)
        w = -rest @ x / tau
        assert c - w @ np.linalg.solve(rest, w) == pytest.approx(1.0 / tau, rel=1e-6)


def test_dimension_of_the_face_is_the_rank_of_the_solution_in_the_data():
    """Theorem M5 for a fused penalty: shared values count once."""
    S = np.stack([pairs_matrix(3, s12=0.5, s23=0.3), pairs_matrix(3, s12=0.48, s23=-0.25)])
    options = {"penalty": "fused", "penalize_diagonal": False, "tol": 1e-12}

    def entries(S):
        return np.concatenate(
            [Theta.toarray()[np.triu_indices(3, 1)] for Theta in jgl.solve(S, 0.1, 0.1, **options).precision]
        )

    base, step, columns = entries(S), 1e-5, []
    for k, (i, j) in itertools.product(range(2), itertools.combinations(range(3), 2)):
        moved = S.copy()
        moved[k, i, j] += step
        moved[k, j, i] += step
        columns.append((entries(moved) - base) / step)
    rank = int((np.linalg.svd(np.array(columns), compute_uv=False) > 1e-3).sum())
    values = base.reshape(2, 3)
    clusters = sum(len({value for value in pair if value != 0.0}) for pair in values.T)
    assert clusters == rank < np.count_nonzero(values)


def test_accelerated_admm_converges_whatever_the_extrapolation_is(monkeypatch):
    """Theorem M7: points of random size and direction in place of Anderson's are left again."""
    from jointglasso.solvers.anderson import Anderson

    S, lambda1, lambda2 = random_problem(3)
    rng = np.random.default_rng(0)
    n_points = 0

    def anywhere(self, norm):
        nonlocal n_points
        n_points += 1
        self.norm = norm
        return self.image + rng.choice([0.01, 1.0, 100.0]) * rng.normal(size=self.image.shape)

    monkeypatch.setattr(Anderson, "_extrapolate", anywhere)
    solver = jgl.ADMM(adapt_rho=False, check_every=7)
    solution = jgl.solve(S, 0.2 * lambda1, 0.2 * lambda2, solver=solver, tol=1e-9)
    assert solution.status and n_points > 5


# --- pages -----------------------------------------------------------------------------------------------------------

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_what_is_cited_is_in_both_lists_of_references():
    page = set(re.findall(r"^\((\w+)\)=$", (DOCS / "references.md").read_text("utf-8"), flags=re.M))
    entries = set(re.findall(r"^@\w+\{(\w+),$", (DOCS / "references.bib").read_text("utf-8"), flags=re.M))
    assert page == entries
    cited = {key for path in DOCS.rglob("*.md") for key in re.findall(r"references\.md#(\w+)", path.read_text("utf-8"))}
    assert len(cited) > 30 and cited == page


def test_results_that_pages_refer_to_are_stated():
    stated = {
        name
        for path in (DOCS / "theory").glob("*.md")
        for name in re.findall(
            r"^\*\*(?:Theorem|Lemma|Corollary|Proposition|Definition|Remark) (\w+)", path.read_text("utf-8"), flags=re.M
        )
    }
    assert {"1", "2", "3", "4"} <= stated
    for path in (*(DOCS / "theory").glob("*.md"), DOCS / "paper.md"):
        named = re.findall(
            r"\b(?:Theorems?|Lemma|Corollary|Proposition|Definition|Remark) ([PSDFCM]\d+a?)\b", path.read_text("utf-8")
        )
        assert set(named) <= stated, path


def test_penalties_of_four_classes_reach_beyond_one():
    """docs/concepts.md: four classes with a correlation of 0.9 have the edge at lambda1 = 0, lambda2 = 1.7."""
    S = [pairs_matrix(2, s12=0.9)] * 4
    assert jgl.solve(S, 0.0, 1.7).n_edges == [1] * 4
    assert jgl.solve(S, 0.0, 1.81).n_edges == [0] * 4


def test_gamma_of_the_joint_criterion_in_units_of_the_other():
    """docs/selection.md: the default's price of an edge at p edges, in units of Foygel and Drton's gamma."""
    from scipy.special import gammaln

    def log_binomial(n, k):
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    for p, expected in ((50, 0.24), (100, 0.24), (300, 0.24), (1000, 0.23)):
        places = GAMMA["jbic"] * log_binomial(p * (p - 1) / 2, p) / (2 * p * np.log(p))
        assert round(places, 2) == expected
        assert round(places / 3, 2) == 0.08  # the same p edges in three classes
    single = GAMMA["jbic"] * log_binomial(300, 100) / (200 * np.log(100))  # which of three classes has the edge
    assert round(GAMMA["jbic"] * log_binomial(4950, 100) / (200 * np.log(100)) + single, 2) == 0.33


def test_statistics_of_the_network_test_are_explained():
    page = (DOCS / "inference.md").read_text("utf-8")
    for name in STATISTICS:
        assert f"\n| `{name}` |" in page
        assert page.count(f"`{name}` is") == 1  # its formula
