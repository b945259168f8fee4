"""Problems with known answers, for every solver, screening rule and executor.

`objective`, `precision` and the partitions are given where a closed form exists; `optimum` falls back on an oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oracles import Optimum, accurate_optimum, critical_scale, objective
from synthetic import make_joint_ggm


@dataclass(frozen=True)
class Problem:
    name: str
    S: np.ndarray
    lambda1: float
    lambda2: float
    weights: tuple[float, ...] | None = None
    penalize_diagonal: bool = True
    precision: np.ndarray | None = None
    """The exact solution (K, p, p), where a formula gives it."""
    truth: tuple[tuple[int, ...], ...] | None = None
    """Components of the solution's support in each class."""
    hybrid: tuple[tuple[int, ...], ...] | None = None
    """What Algorithm 1 returns, worked out by hand."""

    @property
    def arguments(self) -> tuple:
        """In the order of the oracles."""
        return self.S, self.lambda1, self.lambda2, self.weights, self.penalize_diagonal

    @property
    def keywords(self) -> dict:
        """Keyword arguments of `jointglasso.solve`."""
        return {"weights": self.weights, "penalize_diagonal": self.penalize_diagonal}

    @cached_property
    def optimum(self) -> Optimum:
        if self.precision is None:
            return accurate_optimum(*self.arguments)
        return Optimum(objective(self.precision, *self.arguments), self.precision)

    def __repr__(self) -> str:
        return self.name


# --- closed forms -------------------------------------------------------------------------------------------------


def tree_precision(variance, edges: dict[tuple[int, int], float]) -> np.ndarray:
    """Inverse of the W whose diagonal is `variance` and whose entries on the edges of a forest are given.

    Off the forest W is the product along the path; its inverse is zero there.
    """
    Theta = np.diag(1.0 / np.asarray(variance, dtype=float))
    for (i, j), w in edges.items():
        determinant = variance[i] * variance[j] - w * w
        Theta[i, j] = Theta[j, i] = -w / determinant
        Theta[i, i] += w * w / determinant / variance[i]
        Theta[j, j] += w * w / determinant / variance[j]
    return Theta


def from_entries(p: int, *classes: dict[tuple[int, int], float], variance: float = 1.0) -> np.ndarray:
    """Covariances with equal variances and the given off-diagonal entries, zero elsewhere."""
    S = np.tile(variance * np.eye(p), (len(classes), 1, 1))
    for k, entries in enumerate(classes):
        for (i, j), value in entries.items():
            S[k, i, j] = S[k, j, i] = value
    return S


def from_samples(n_classes: int, p: int, n: int, seed: int, common: float = 0.0) -> np.ndarray:
    """Covariances (divisor n) of Gaussian samples with an optional factor common to all variables."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_classes, n, p)) + common * rng.standard_normal((n_classes, n, 1))
    X -= X.mean(axis=1, keepdims=True)
    return np.einsum("kni,knj->kij", X, X) / n


def counterexample(penalize_diagonal: bool) -> Problem:
    """Condition (8) is not necessary: Algorithm 1 merges {0, 2} in class 2, the solution does not (theory 1.3)."""
    S = from_entries(3, {(0, 1): 0.07, (1, 2): 0.07}, {(0, 2): 0.05})
    v = np.full(3, 1.04 if penalize_diagonal else 1.0)
    return Problem(
        f"counterexample, diagonal {'' if penalize_diagonal else 'not '}penalised",
        S,
        0.04,
        0.02,
        penalize_diagonal=penalize_diagonal,
        precision=np.stack([tree_precision(v, {(0, 1): 0.01, (1, 2): 0.01}), tree_precision(v, {})]),
        truth=((0, 0, 0), (0, 1, 2)),
        hybrid=((0, 0, 0), (0, 1, 0)),
    )


def toy(penalize_diagonal: bool) -> Problem:
    """Hybrid splits where neither the class rule nor the global rule does (theory 1.5, the paper's figure 3)."""
    S = from_entries(
        3, {(0, 1): 0.07, (0, 2): 0.05, (1, 2): 0.03}, {(0, 1): 0.03, (0, 2): 0.05, (1, 2): 0.07}, variance=1.0
    )
    v = np.full(3, 1.04 if penalize_diagonal else 1.0)
    return Problem(
        f"toy, diagonal {'' if penalize_diagonal else 'not '}penalised",
        S,
        0.04,
        0.02,
        penalize_diagonal=penalize_diagonal,
        precision=np.stack([tree_precision(v, {(0, 1): 0.01}), tree_precision(v, {(1, 2): 0.01})]),
        truth=((0, 0, 1), (0, 1, 1)),
        hybrid=((0, 0, 1), (0, 1, 1)),
    )


def cascade(m: int) -> Problem:
    """Algorithm 1's merges follow one from another, m - 2 of them, though the solution is a set of short paths.

    Strong edges form a path 0-1-2-...-(m-1) whose edges, after the first, belong to class 1 and class 2 in turn.
    The weak pair (0, i) wakes when i has joined 0 in one class and then joins them in the other, which brings i + 1.
    """
    strong: tuple[dict, dict] = ({(0, 1): 0.07}, {})
    weak: tuple[dict, dict] = ({}, {})
    for i in range(1, m - 1):
        strong[(i + 1) % 2][(i, i + 1)] = 0.07
    for i in range(2, m):
        weak[(i + 1) % 2][(0, i)] = 0.05
    S = from_entries(m, {**strong[0], **weak[0]}, {**strong[1], **weak[1]})
    one = np.ones(m)
    precision = np.stack([tree_precision(one, dict.fromkeys(edges, 0.01)) for edges in strong])
    return Problem(
        f"cascade of {m}",
        S,
        0.04,
        0.02,
        penalize_diagonal=False,
        precision=precision,
        hybrid=((0,) * m, (0, 1, *((0,) * (m - 2)))),
    )


def single_edge(name: str, S12: tuple[float, ...], lambda1, lambda2, W12: tuple[float, ...], weights=None) -> Problem:
    """Two variables of unit variance, diagonal not penalised, with the known W_12 of each class."""
    S = from_entries(2, *({(0, 1): s} for s in S12))
    precision = np.stack([tree_precision(np.ones(2), {(0, 1): w} if w else {}) for w in W12])
    truth = tuple((0, 0) if w else (0, 1) for w in W12)
    return Problem(name, S, lambda1, lambda2, weights, False, precision, truth)


def diagonal_answer(name: str, S, lambda1, lambda2, weights=None, penalize_diagonal=True) -> Problem:
    """All off-diagonal entries are zero: Theta_ii = 1 / (S_ii + lambda1 / w)."""
    n_classes, p, _ = S.shape
    w = np.ones(n_classes) if weights is None else np.asarray(weights)
    shift = lambda1 / w if penalize_diagonal else np.zeros(n_classes)
    precision = np.stack([np.diag(1.0 / (np.diagonal(S[k]) + shift[k])) for k in range(n_classes)])
    alone = (tuple(range(p)),) * n_classes
    return Problem(name, S, lambda1, lambda2, weights, penalize_diagonal, precision, alone, alone)


def forest() -> Problem:
    """A star and paths with edges of one class, and one edge both hold alike: W = S - lambda1 - lambda2 / sqrt(2)."""
    own = ({(0, 1): 0.3, (0, 2): -0.3, (3, 4): 0.3}, {(0, 3): -0.3, (4, 5): 0.3})
    shared = {(5, 6): 0.3}
    S = from_entries(7, {**own[0], **shared}, {**own[1], **shared})
    lambda1, lambda2 = 0.125, 0.0625
    both = {edge: 0.3 - lambda1 - lambda2 / np.sqrt(2.0) for edge in shared}
    alone = [{edge: np.sign(s) * (abs(s) - lambda1 - lambda2) for edge, s in edges.items()} for edges in own]
    precision = np.stack([tree_precision(np.ones(7), {**edges, **both}) for edges in alone])
    truth = ((0, 0, 0, 1, 1, 2, 2), (0, 1, 2, 0, 3, 3, 3))
    return Problem("forest", S, lambda1, lambda2, None, False, precision, truth, truth)


def identical_classes() -> Problem:
    """K equal classes with the edges of a path: the single-class answer at lambda1 + lambda2 / sqrt(K)."""
    S = from_entries(4, *({(0, 1): 0.5, (1, 2): -0.4, (2, 3): 0.3},) * 4)
    lambda1, lambda2 = 0.1, 0.2
    edges = {(0, 1): 0.5 - 0.2, (1, 2): -0.4 + 0.2, (2, 3): 0.3 - 0.2}
    precision = np.stack([tree_precision(np.ones(4), edges)] * 4)
    return Problem("four identical classes", S, lambda1, lambda2, None, False, precision, ((0,) * 4,) * 4)


def unpenalised() -> Problem:
    S = from_samples(2, 4, 30, seed=11)
    return Problem("unpenalised", S, 0.0, 0.0, precision=np.linalg.inv(S), truth=((0,) * 4,) * 2)


def at_lambda_max(factor: float) -> Problem:
    S = from_samples(3, 6, 12, seed=7)
    top = critical_scale(S, 0.3, 0.2) * factor
    if factor > 1:
        return diagonal_answer("just above lambda_max", S, 0.3 * top, 0.2 * top)
    return Problem("just below lambda_max", S, 0.3 * top, 0.2 * top)


def uneven_units() -> Problem:
    """Variances from 0.04 to 25: what one gets from data nobody standardised."""
    scale = np.array([0.2, 0.5, 1.0, 1.0, 2.0, 5.0])
    return Problem("uneven units", from_samples(2, 6, 40, seed=5, common=0.8) * np.outer(scale, scale), 0.1, 0.05)


def modules() -> Problem:
    """Expression-like data: correlated modules, fewer samples than variables."""
    data = make_joint_ggm("modules", p=24, n_classes=3, n_samples=16, n_blocks=6, random_state=0)
    return Problem("modules", data.covariances, 0.5, 0.1, (0.8, 1.0, 1.2))


def hidden_pair() -> Problem:
    """Class 2 wants the pair (0, 2) only because class 1 holds it, and class 1 holds it in the solution, not in S.

    A screen that cuts boldly has to come back to it: the strong edges alone give class 2 no block at all.
    """
    S = from_entries(3, {(0, 1): 0.65, (1, 2): 0.65}, {(0, 2): 0.05})
    truth = ((0, 0, 0), (0, 1, 0))
    return Problem("hidden pair", S, 0.04, 0.02, penalize_diagonal=False, truth=truth, hybrid=truth)


# Ties are planted in binary fractions, so that every comparison is exact and "<=" against "<" is all that matters.
_TIE_345 = from_entries(3, {(0, 1): (16 + 3) / 64, (1, 2): 5 / 16}, {(0, 1): -(16 + 4) / 64, (1, 2): 0.25})

BANK = (
    counterexample(True),
    counterexample(False),
    toy(True),
    toy(False),
    cascade(12),
    cascade(48),
    single_edge("two variables", (0.5,), 0.1, 0.05, (0.35,)),
    single_edge("two perfectly correlated variables", (1.0,), 0.1, 0.05, (0.85,)),
    single_edge("perfectly correlated, lambda1 = 0", (1.0, 1.0), 0.0, 0.1, (1.0 - 0.1 / np.sqrt(2.0),) * 2),
    single_edge("unequal weights", (0.5, 0.0), 0.1, 0.1, (0.5 - 0.2 / 0.9, 0.0), weights=(0.9, 0.1)),
    single_edge("unequal weights, heavy class empty", (0.0, 0.9), 0.1, 0.1, (0.0, 0.0), weights=(0.9, 0.1)),
    single_edge("tie with lambda1 in one class", (0.5, 0.25), 0.25, 0.125, (0.125, 0.0)),
    diagonal_answer("ties: lambda1 + lambda2, 3-4-5", _TIE_345, 0.25, 5 / 64),
    diagonal_answer("one variable", np.array([[[2.0]], [[0.5]]]), 0.1, 0.2, (1.0, 3.0)),
    diagonal_answer("a constant variable", np.array([np.diag([1.0, 0.0, 2.0])]), 0.5, 0.1, (2.0,)),
    hidden_pair(),
    forest(),
    identical_classes(),
    unpenalised(),
    at_lambda_max(1.0001),
    at_lambda_max(0.98),
    uneven_units(),
    Problem("single class", from_samples(1, 8, 20, seed=1, common=0.5), 0.1, 0.08),
    Problem("lambda2 = 0", from_samples(3, 7, 15, seed=2, common=0.3), 0.2, 0.0, (1.0, 0.5, 2.0)),
    Problem("lambda1 = 0", from_samples(3, 6, 20, seed=3), 0.0, 0.3),
    Problem("random weights", from_samples(4, 8, 10, seed=4), 0.15, 0.2, (0.1, 0.4, 1.0, 2.5), False),
    Problem("two samples", from_samples(3, 8, 2, seed=6), 0.4, 0.3),
    Problem("connected", from_samples(3, 30, 60, seed=8, common=0.5), 0.12, 0.06),
    modules(),
)

CLOSED_FORM = tuple(problem for problem in BANK if problem.precision is not None)
