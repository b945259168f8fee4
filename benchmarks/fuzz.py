"""Random hard problems, solved in many ways, against bounds of our own.

Every problem is solved by several solvers under several screening rules. What the certificates say must agree with a
lower bound from a dual point and an upper bound from the best solution seen, both computed here in plain NumPy, and
with each other: no entry may be proved present by one and absent by another, and no two values equal by one and
different by another, or different by the tightest solution. The default solver must converge in families that are not
marked ill-conditioned, unless the status names the class weights as the reason, and no warning of NumPy may occur.
Covariances are given as arrays, as samples in memory or in a mapped file; groups are also solved out of core. One
problem in eight is also solved with a concave penalty. The exit code is 1 if anything does not agree.

    python benchmarks/fuzz.py --seconds 50
    python benchmarks/fuzz.py --problems 10000 --seed 3 --processes 16
    python benchmarks/fuzz.py --seed 3 --only 1234        one problem again, in full
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import jointglasso as jgl
from jointglasso import config
from jointglasso.engine import solve_sparse_task
from jointglasso.penalties.shapes import SHAPES

SOLVERS = ("auto", "newton", "admm", "proximal_gradient")
SCREENING = ("dynamic", "hybrid", "global", "class", "none")
TOLERANCES = (1e-3, 1e-6, 1e-9)

#: Faces are tried one by one where classes have so few ties.
MOST_TIES = 5

#: A proof of equality is wrong if the tightest solution differs by more than this share of the size of its entries.
UNEQUAL = 1e-4

#: Proximal gradient may need thousands of steps; what is claimed after so many is as good a test.
MOST_STEPS = 400

#: A process takes so many problems at a time.
HAND = 25

#: A problem that takes longer than so many seconds is named at once.
SLOW = 20.0

#: Families in which the default solver may end at the limit of the arithmetic.
ILL_CONDITIONED = frozenset({"near singular", "wild scales"})

#: How the covariances are given.
STORAGES = ("dense", "samples", "mapped")

#: Beyond this condition of a solution, our own bounds in double precision say nothing.
WORST_CONDITION = 1e9


@dataclass(frozen=True)
class Problem:
    S: np.ndarray
    lambda1: float
    lambda2: float
    penalty: str
    weights: np.ndarray
    factor: np.ndarray
    """(p, p): weights of the pairs; infinite where a pair is forbidden."""
    penalize_diagonal: bool
    graph: np.ndarray | None = None
    """(K, K): the graph of classes of the penalty "graph"."""
    fuse_diagonal: bool = False
    latent: float | None = None
    """Penalty of latent variables."""
    storage: str = "dense"
    present: np.ndarray | None = None
    """(K, p): the variables that each class has; None for all."""
    ill_conditioned: bool = False
    by_class: np.ndarray | None = None
    """(K, p, p): weights of the L1 part by class; `factor` is then that of the coupling term."""

    @property
    def has_pair(self) -> np.ndarray:
        """(K, p, p): 1 where a class has both variables."""
        if self.present is None:
            return np.ones(self.S.shape)
        return (self.present[:, :, None] & self.present[:, None, :]).astype(float)

    @contextmanager
    def source(self) -> Iterator[Any]:
        """The covariances as they are given to the package."""
        if self.present is not None:
            names = np.array([f"v{i}" for i in range(self.S.shape[1])])
            frames = {
                f"class {k}": pd.DataFrame(S[np.ix_(have, have)], index=names[have], columns=names[have])
                for k, (S, have) in enumerate(zip(self.S, self.present, strict=True))
            }
            yield jgl.DenseCovariance(frames, variables="union")
        elif self.storage == "dense":
            yield self.S
        else:
            samples = [_samples_of(S) for S in self.S]
            with tempfile.TemporaryDirectory() as folder:
                for k, X in enumerate(samples if self.storage == "mapped" else []):
                    np.save(Path(folder, f"{k}.npy"), X)
                    samples[k] = np.load(Path(folder, f"{k}.npy"), mmap_mode="r")
                yield jgl.SampleCovariance(samples, assume_centered=True)

    @property
    def keywords(self) -> dict[str, Any]:
        plain = (self.factor == 1.0).all()
        options = {"weights": self.weights, "penalize_diagonal": self.penalize_diagonal, "penalty": self.penalty}
        options |= {} if self.graph is None else {"class_graph": self.graph}
        options |= {"fuse_diagonal": True} if self.fuse_diagonal else {}
        options |= {} if self.latent is None else {"latent": self.latent}
        if self.by_class is not None:
            return options | {"pair_weights": list(self.by_class), "coupling_weights": self.factor}
        return options | ({} if plain else {"pair_weights": self.factor})

    @property
    def diagonal_penalty(self) -> float:
        return self.lambda1 if self.penalize_diagonal else 0.0

    @property
    def charged(self) -> tuple[np.ndarray, np.ndarray]:
        """(p, p) or (K, p, p): what lambda1 and lambda2 are at each entry; the diagonal's own penalty is apart."""
        finite = np.where(np.isfinite(self.factor), self.factor, 0.0)
        np.fill_diagonal(finite, 0.0)
        lambda1 = finite * self.lambda1
        if self.by_class is not None:
            allowed = np.isfinite(self.by_class)
            lambda1 = np.where(allowed, np.where(allowed, self.by_class, 0.0) * self.lambda1, 1e300)
            np.einsum("kii->ki", lambda1)[:] = 0.0
        return lambda1, (finite + self.fuse_diagonal * np.eye(len(finite))) * self.lambda2

    @property
    def forbidden(self) -> np.ndarray:
        """(K, p, p): entries that must be zero."""
        return np.broadcast_to(np.isinf(self.factor if self.by_class is None else self.by_class), self.S.shape)


def _samples_of(S: np.ndarray) -> np.ndarray:
    """Samples (p, p) whose covariance about zero is S, up to rounding."""
    values, vectors = np.linalg.eigh(S)
    return np.sqrt(len(S) * np.maximum(values, 0.0))[:, None] * vectors.T


# --- families --------------------------------------------------------------------------------------------------------


def plain(rng: np.random.Generator, n_classes: int, p: int) -> np.ndarray:
    X = rng.standard_normal((n_classes, int(rng.integers(2, 4 * p)), p))
    return np.einsum("kni,knj->kij", X, X) / X.shape[1]


def class_edges(rng: np.random.Generator, n_classes: int, p: int) -> np.ndarray:
    """Covariances in sixteenths: comparisons with the penalties, which are, too, are often exact."""
    S = np.round(16.0 * plain(rng, n_classes, p) / p) / 16.0
    for matrix in S:
        np.fill_diagonal(matrix, np.ceil(np.abs(matrix).sum(axis=1)) + 1.0)
    return S


def trees(rng: np.random.Generator, n_classes: int, p: int) -> np.ndarray:
    S = np.tile(np.eye(p), (n_classes, 1, 1))
    for k, j in itertools.product(range(n_classes), range(1, p)):
        parent = int(rng.integers(0, j))
        S[k, j, :j] = S[k, :j, j] = S[k, parent, :j] * rng.uniform(-0.9, 0.9)
    return S


def common_factor(rng: np.random.Generator, n_classes: int, p: int) -> np.ndarray:
    X = rng.standard_normal((n_classes, p + 2, p)) + 10.0 ** rng.uniform(-0.5, 1.0) * rng.standard_normal(
        (n_classes, p + 2, 1)
    )
    return np.einsum("kni,knj->kij", X, X) / X.shape[1]


def near_singular(rng: np.random.Generator, n_classes: int, p: int) -> np.ndarray:
    """One variable is nearly the sum of two others."""
    S = plain(rng, n_classes, p)
    mix = np.eye(p)
    mix[0] = mix[1] + mix[-1]
    mix[0, 0] += 10.0 ** rng.uniform(-4, -1)
    return mix @ S @ mix.T


def wild_scales(rng: np.random.Generator, n_classes: int, p: int) -> np.ndarray:
    units = 10.0 ** rng.uniform(-2, 2, p)
    S = plain(rng, n_classes, p) * units * units[:, None]
    return S * 10.0 ** rng.uniform(-20, 20)


def long_chains(rng: np.random.Generator, n_classes: int, p: int) -> np.ndarray:
    """Neighbours are correlated: sparse solutions with one large component."""
    X = rng.standard_normal((n_classes, int(rng.integers(10, 60)), p))
    phi = rng.uniform(0.2, 0.9)
    for j in range(1, p):
        X[:, :, j] = phi * X[:, :, j - 1] + np.sqrt(1.0 - phi * phi) * X[:, :, j]
    return np.einsum("kni,knj->kij", X, X) / X.shape[1]


#: Tuning constants with which every group is solved in sparse storage.
SPARSE = [
    (config, "SPARSE_BLOCK", 2),
    (config, "SPARSE_PAIRS", 1e9),
    (config, "BATCHED_BLOCK", 1),
    (solve_sparse_task, "_SECONDS", 0.0),
    (solve_sparse_task, "_FACTORIZATIONS", 0.0),
]

#: Tuning constants with which every group is solved without stored blocks, where the penalty permits that.
OUT_OF_CORE = [(config, "HUGE", 2), (config, "BATCHED_BLOCK", 1)]

STORAGES_OF_GROUPS = {"blocks": [], "out of core": OUT_OF_CORE, "sparse": SPARSE}


@contextmanager
def tuned(constants: list[tuple[Any, str, float]]) -> Iterator[None]:
    """Set tuning constants, given by their module and name."""
    before = [(module, name, getattr(module, name)) for module, name, _ in constants]
    try:
        for module, name, value in constants:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


FAMILIES: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "plain": plain,
    "ties": class_edges,
    "trees": trees,
    "common factor": common_factor,
    "near singular": near_singular,
    "wild scales": wild_scales,
    "weights": plain,
    "pair weights": common_factor,
    "forbidden pairs": plain,
    "weights by class": common_factor,
    "big groups": common_factor,
    "absent variables": plain,
    "class weights": common_factor,
    "sparse": long_chains,
}


def draw(family: str, penalty: str, rng: np.random.Generator) -> Problem:
    """One problem of a family."""
    n_classes, p = int(rng.integers(1, 4)), int(rng.integers(2, 10))
    if penalty != "group" and rng.random() < 0.5:
        n_classes = int(rng.integers(4, 7))
    if family == "big groups":  # beyond what the kernels for small groups take
        p = int(rng.integers(50, 60))
    if family == "sparse":
        p = int(rng.integers(5, 40))
    S = FAMILIES[family](rng, n_classes, p)
    S = np.tril(S) + np.tril(S, -1).transpose(0, 2, 1)
    scale = float(np.abs(S[:, ~np.eye(p, dtype=bool)]).max()) if p > 1 else 1.0
    lambdas = scale * rng.uniform(0.02, 0.8, 2) * rng.choice([0.0, 1.0, 1.0, 1.0, 1.0], 2)
    if penalty == "laplacian" and family == "wild scales":
        lambdas[1] *= scale  # its unit is that of a square
    if family == "ties":
        lambdas = np.round(16.0 * lambdas) / 16.0
    decades = {"weights": 3.0, "class weights": 5.0}.get(family, 0.0)
    weights = 10.0 ** rng.uniform(-decades, decades, n_classes)
    factor = np.ones((p, p))
    if family in ("pair weights", "forbidden pairs"):
        choices = [0.0, 0.3, 1.0, 4.0] if family == "pair weights" else [1.0, 1.0, np.inf]
        factor = np.tril(rng.choice(choices, (p, p)), -1)
        factor = factor + factor.T
        np.fill_diagonal(factor, 1.0)
    by_class = None
    if family == "weights by class":
        by_class = np.tril(rng.choice([0.0, 0.3, 1.0, 4.0, np.inf], (n_classes, p, p)), -1)
        by_class = by_class + by_class.transpose(0, 2, 1)
        factor = np.tril(rng.choice([0.0, 0.3, 1.0, 4.0], (p, p)), -1)
        factor = factor + factor.T
        if penalty == "common":  # has one weight for a pair
            by_class = None
    # Where something is not penalised a minimum need not exist; a penalised diagonal is always safe.
    free = lambdas.min() == 0.0 or family in ("pair weights", "weights by class")
    penalize_diagonal = bool(free or rng.random() < 0.5)
    if penalize_diagonal and lambdas[0] == 0.0:
        lambdas[0] = 0.05 * scale
    graph = None
    if penalty == "graph":
        graph = np.triu(rng.choice([0.0, 0.5, 1.0, 2.0], (n_classes, n_classes)), 1)
        graph = graph + graph.T
    # One in four with diagonals that are compared, one in eight with latent variables, which takes longer.
    fused = penalty in ("fused", "chain", "graph") and rng.random() < 0.25
    hidden = family != "big groups" and not fused and rng.random() < 0.125
    latent = scale * p * float(rng.uniform(0.1, 1.0)) if hidden else None
    l1, l2 = (float(value) for value in lambdas)
    storage, present = str(rng.choice(STORAGES)), None
    if family == "absent variables":
        present, latent = rng.random((n_classes, p)) < 0.8, None
        present[0] = present[:, 0] = True  # the union of variables is then in their order
        S = np.where(present[:, :, None] & present[:, None, :], S, np.eye(p))
    elif storage != "dense" and family != "wild scales":  # samples have the covariances up to rounding
        S = np.stack([_covariance(_samples_of(matrix)) for matrix in S])
    else:
        storage = "dense"
    ill = family in ILL_CONDITIONED
    return Problem(
        S, l1, l2, penalty, weights, factor, penalize_diagonal, graph, fused, latent, storage, present, ill, by_class
    )


def _covariance(X: np.ndarray) -> np.ndarray:
    S = X.T @ X / len(X)
    return 0.5 * (S + S.T)


# --- penalties in plain NumPy ----------------------------------------------------------------------------------------


def soft(x: np.ndarray, threshold: np.ndarray | float) -> np.ndarray:
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0.0)


def group_value(x: np.ndarray, lambda1: np.ndarray, lambda2: np.ndarray) -> np.ndarray:
    return (lambda1 * np.abs(x)).sum(axis=0) + lambda2 * np.sqrt((x**2).sum(axis=0))


def group_prox(x: np.ndarray, lambda1: np.ndarray, lambda2: np.ndarray) -> np.ndarray:
    s = soft(x, lambda1)
    norm = np.sqrt((s**2).sum(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return s * np.where(norm > lambda2, 1.0 - lambda2 / norm, 0.0)


def maximum_value(x: np.ndarray, lambda1: np.ndarray, lambda2: np.ndarray) -> np.ndarray:
    return (lambda1 * np.abs(x)).sum(axis=0) + lambda2 * np.abs(x).max(axis=0)


def maximum_prox(x: np.ndarray, lambda1: np.ndarray, lambda2: np.ndarray) -> np.ndarray:
    """Sizes clipped at the largest of ``(sum of the m largest - lambda2) / m`` over m, zero if that is negative."""
    s = soft(x, lambda1)
    ordered = -np.sort(-np.abs(s), axis=0)
    counts = np.arange(1, len(x) + 1).reshape(-1, *[1] * (x.ndim - 1))
    top = np.maximum(((np.cumsum(ordered, axis=0) - lambda2) / counts).max(axis=0), 0.0)
    return np.clip(s, -top, top)


def common_value(x: np.ndarray, lambda1: np.ndarray, lambda2: np.ndarray, has: np.ndarray | None = None) -> np.ndarray:
    """``min_c rho |c| + gamma sum_k |x_k - c|``: c is one of the entries or zero."""
    has = np.ones_like(x) if has is None else has
    rho = has.sum(axis=0) * lambda1 + lambda2
    costs = [rho * np.abs(c) + (lambda1 + lambda2) * (has * np.abs(x - c)).sum(axis=0) for c in (*x, 0.0 * x[0])]
    return np.min(costs, axis=0)


def common_prox(x: np.ndarray, lambda1: np.ndarray, lambda2: np.ndarray) -> np.ndarray:
    """What is left of x after its projection onto ``|u_k| <= gamma, |sum_k u_k| <= rho``, by bisection."""
    gamma, rho = lambda1 + lambda2, len(x) * lambda1 + lambda2
    total = np.clip(x, -gamma, gamma).sum(axis=0)
    low, high = np.zeros_like(total), np.abs(x).max(axis=0) + gamma
    sign = np.sign(total)
    for _ in range(200):
        middle = 0.5 * (low + high)
        outside = np.abs(np.clip(x - sign * middle, -gamma, gamma).sum(axis=0)) > rho
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    shift = np.where(np.abs(total) > rho, sign * high, 0.0)
    return x - np.clip(x - shift, -gamma, gamma)


#: Classes k < l that are tied to one another, and how much their difference costs.
ClassEdges = list[tuple[int, int, float]]


def fusion_ties(problem: Problem) -> ClassEdges:
    """Neighbours, all classes, or those of the graph that is given."""
    n_classes = len(problem.S)
    if problem.graph is not None:
        return [(a, b, problem.graph[a, b]) for a, b in zip(*np.nonzero(np.triu(problem.graph)), strict=True)]
    if problem.penalty in ("chain", "laplacian"):
        return [(a, b, 1.0) for a, b in itertools.pairwise(range(n_classes))]
    return [(a, b, 1.0) for a, b in itertools.combinations(range(n_classes), 2)]


def fused_value(
    x: np.ndarray, lambda1: np.ndarray, lambda2: np.ndarray, class_edges: ClassEdges, has: np.ndarray | None = None
) -> np.ndarray:
    has = np.ones_like(x) if has is None else has
    differences = sum(tie * has[a] * has[b] * np.abs(x[a] - x[b]) for a, b, tie in class_edges)
    return (lambda1 * np.abs(x)).sum(axis=0) + lambda2 * differences


def laplacian_value(
    x: np.ndarray, lambda1: np.ndarray, lambda2: np.ndarray, class_edges: ClassEdges, has: np.ndarray | None = None
) -> np.ndarray:
    has = np.ones_like(x) if has is None else has
    differences = sum(tie * has[a] * has[b] * (x[a] - x[b]) ** 2 for a, b, tie in class_edges)
    return (lambda1 * np.abs(x)).sum(axis=0) + lambda2 * differences


def fused_prox(x: np.ndarray, lambda1: np.ndarray, lambda2: np.ndarray, class_edges: ClassEdges) -> np.ndarray:
    """Total variation by trying every face of its dual, a box in few dimensions; then soft-thresholding."""
    D = np.zeros((len(class_edges), len(x)))
    for e, (a, b, tie) in enumerate(class_edges):
        D[e, a], D[e, b] = tie, -tie
    flat, best = x.reshape(len(x), -1), np.full(x[0].size, np.inf)
    bound = np.broadcast_to(lambda2, x.shape[1:]).ravel()
    out = flat.copy()
    for pattern in itertools.product((-1.0, 0.0, 1.0), repeat=len(class_edges)):
        fixed = np.array(pattern)[:, None] * bound
        free = np.flatnonzero(np.array(pattern) == 0.0)
        z = fixed.copy()
        if len(free):
            z[free] = np.linalg.pinv(D[free] @ D[free].T) @ D[free] @ (flat - D.T @ fixed)
        y = flat - D.T @ z
        value = np.where((np.abs(z) <= bound * (1.0 + 1e-12)).all(axis=0), (y**2).sum(axis=0), np.inf)
        out[:, value < best] = y[:, value < best]
        best = np.minimum(best, value)
    return soft(out.reshape(x.shape), lambda1)


def penalty_functions(problem: Problem) -> tuple[Callable[..., np.ndarray], Callable[..., np.ndarray]]:
    if problem.penalty == "group":
        return group_value, group_prox
    if problem.penalty == "maximum":
        return maximum_value, maximum_prox
    class_edges, has = fusion_ties(problem), None if problem.present is None else problem.has_pair
    if problem.penalty == "common":
        return (lambda *a: common_value(*a, has)), common_prox
    if problem.penalty == "laplacian":
        return (lambda *a: laplacian_value(*a, class_edges, has)), (lambda x, *a: x)
    return (lambda *a: fused_value(*a, class_edges, has)), (lambda *a: fused_prox(*a, class_edges))


# --- bounds of our own -----------------------------------------------------------------------------------------------


def objective(problem: Problem, Theta: np.ndarray, low_rank: np.ndarray | float = 0.0) -> float:
    """Value at K dense matrices, less what latent variables explain; infinite if one is not positive definite."""
    try:
        L = np.linalg.cholesky(Theta - low_rank)
    except np.linalg.LinAlgError:
        return np.inf
    logdet = 2.0 * np.log(np.einsum("kii->ki", L)).sum(axis=1)
    # A variable that a class lacks has variance and precision 1 there, which cost its weight and nothing else.
    lacking = 0.0 if problem.present is None else (~problem.present).sum(axis=1)
    total = float(problem.weights @ ((problem.S * (Theta - low_rank)).sum(axis=(1, 2)) - logdet - lacking))
    total += problem.diagonal_penalty * (float(np.einsum("kii->", Theta)) - float(np.sum(lacking)))
    if problem.latent is not None:
        total += problem.latent * float(np.einsum("kii->", low_rank))
    return total + float(penalty_functions(problem)[0](Theta, *problem.charged).sum())


def lower_bound(problem: Problem, Theta: np.ndarray) -> float:
    """Value of a dual point: with x near Theta + w (W - S), x - prox(x) lies in the dual ball, whatever x is."""
    symmetric = problem.penalty in ("group", "maximum", "common")
    many = not symmetric and (problem.by_class is not None or len(fusion_ties(problem)) > MOST_TIES)
    if problem.penalty == "laplacian" or many:  # whose dual function is no ball, or takes too long to project upon
        return -np.inf
    if problem.latent is not None or problem.present is not None:  # further conditions on the dual point
        return -np.inf
    weights = problem.weights[:, None, None]
    wanted = weights * (np.linalg.inv(Theta) - problem.S)
    free, lambdas = problem.forbidden, problem.charged
    own = problem.diagonal_penalty * np.eye(len(problem.factor))  # what the diagonal pays in any case
    largest = np.abs(Theta).max(axis=0)
    # So far along Theta that the face is found, and not so far that rounding leaves the ball.
    l1 = np.where(free, 0.0, lambdas[0]).max(axis=0)
    stiff = np.divide(l1 + lambdas[1], largest, out=np.zeros_like(largest), where=largest > 0)
    best = -np.inf
    for share in (1000.0, 10.0, 0.0):
        x = share * stiff * Theta + wanted - own
        u = np.where(free, wanted, (1.0 - 1e-12) * (x - penalty_functions(problem)[1](x, *lambdas)))
        W = problem.S + (u + own) / weights
        if (np.linalg.eigvalsh(W)[:, 0] > 0).all():
            best = max(best, float(problem.weights @ (np.linalg.slogdet(W)[1] + W.shape[1])))
    return best


def slack(problem: Problem, Theta: np.ndarray) -> float:
    """What rounding may do to bounds of our own."""
    if not np.linalg.eigvalsh(Theta).min() > 0.0:
        return np.inf
    d = np.sqrt(np.einsum("kii->ki", Theta))
    condition = max(np.linalg.cond(T / np.outer(s, s)) for T, s in zip(Theta, d, strict=True))
    terms = np.abs(problem.S * Theta).sum(axis=(1, 2)) + (1.0 + np.abs(2.0 * np.log(d))).sum(axis=1)
    terms = float(problem.weights @ terms)
    penalised = np.abs(Theta).sum() if problem.fuse_diagonal else 0.0  # diagonals in wild units, compared
    terms += 2.0 * len(Theta) * problem.lambda2 * float(penalised)
    return 1e-14 * Theta.shape[1] * (1.0 + condition) * terms if condition < WORST_CONDITION else np.inf


# --- what is asked of the solutions ----------------------------------------------------------------------------------


@dataclass
class Tally:
    problems: int = 0
    solves: int = 0
    converged: int = 0
    not_converged: int = 0
    """Solves of the default solver, without a limit on its iterations, that did not converge."""
    unbounded: int = 0
    """Problems too badly conditioned for bounds of our own."""
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for name, amount in vars(other).items():
            setattr(self, name, getattr(self, name) + amount)


def ways(rng: np.random.Generator, n_ways: int) -> Iterator[dict[str, Any]]:
    """How to solve a problem: once plainly, else at random."""
    yield {"solver": "auto", "screening": "none", "tol": 1e-9}
    for _ in range(n_ways - 1):
        way = {
            "solver": str(rng.choice(SOLVERS)),
            "screening": str(rng.choice(SCREENING)),
            "tol": float(rng.choice(TOLERANCES)),
            "max_iter": None if rng.random() < 0.8 else int(rng.integers(1, 5)),
        }
        if way["max_iter"] is None and way["solver"] == "proximal_gradient":
            way["max_iter"] = MOST_STEPS
        if way["solver"] == "auto" and rng.random() < 0.7:
            way["storage"] = str(rng.choice(["out of core", "sparse"]))
        yield way


def check(problem: Problem, rng: np.random.Generator, n_ways: int, sparse: bool = False) -> Tally:
    """Solve one problem in several ways and compare; with `sparse`, all but the first in sparse storage if possible."""
    tally, found = Tally(problems=1), []
    for number, way in enumerate(ways(rng, n_ways)):
        way |= {"solver": "auto"} if sparse else {}  # others have no sparse storage
        if sparse and number:
            way["storage"] = "sparse"
        if (solution := _solve(problem, way, tally)) is not None:
            found.append((way, solution, np.stack([Theta.toarray() for Theta in solution.precision])))
    if found:
        tally.violations += _disagreements(problem, found, tally)
    if problem.latent is None and rng.random() < 0.125:
        way = {"solver": "auto", "tol": float(rng.choice(TOLERANCES)), "penalty_shape": str(rng.choice(SHAPES))}
        concave = _solve(problem, way, tally)  # of another objective: not compared
        if concave is not None and any(np.linalg.eigvalsh(Theta.toarray())[0] <= 0.0 for Theta in concave.precision):
            tally.violations.append(f"{way}: not positive definite")
    return tally


def _solve(problem: Problem, way: dict[str, Any], tally: Tally) -> jgl.Solution | None:
    """Solution in one way; None where it is refused in a sentence, or an error, which is a violation."""
    options = {name: value for name, value in way.items() if name != "storage"}
    constants = STORAGES_OF_GROUPS[way.get("storage", "blocks")]
    try:
        with warnings.catch_warnings(), problem.source() as S, tuned(constants):
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", jgl.ConvergenceWarning)
            solution = jgl.solve(S, problem.lambda1, problem.lambda2, **problem.keywords, **options)
    except ValueError as refusal:  # one clear sentence is an answer
        if not str(refusal).rstrip().endswith("."):
            tally.violations.append(f"{way}: {refusal!r}")
        return None
    except Exception as error:
        tally.violations.append(f"{way}: {error!r}")
        return None
    tally.solves += 1
    tally.converged += solution.status.converged
    if way["solver"] == "auto" and way.get("max_iter") is None and not solution.status.converged:
        tally.not_converged += 1
        named = "class weights differ" in str(solution.status)  # only where they differ by many decades
        if not (problem.ill_conditioned or named) and way["tol"] >= 1e-6:
            tally.violations.append(f"{way}: {solution.status}")
    return solution


def _disagreements(problem: Problem, found: list[tuple[dict, jgl.Solution, np.ndarray]], tally: Tally) -> Iterator[str]:
    explained = [0.0 if s.low_rank is None else s.low_rank.matrices for _, s, _ in found]
    values = [objective(problem, Theta, L) for (_, _, Theta), L in zip(found, explained, strict=True)]
    best = int(np.argmin(values))
    tolerance = max(slack(problem, Theta - L) for (_, _, Theta), L in zip(found, explained, strict=True))
    tally.unbounded += not np.isfinite(tolerance)
    upper, lower = values[best] + tolerance, lower_bound(problem, found[best][2]) - tolerance
    most_present = max(solution.certificate.edges_present for _, solution, _ in found)
    sizes = problem.has_pair.sum(axis=(1, 2))  # squares of the numbers of variables
    total = int((sizes - np.sqrt(sizes)).sum()) // 2
    for (way, solution, Theta), value in zip(found, values, strict=True):
        proof = solution.certificate
        if not np.isfinite(value):
            yield f"{way}: not positive definite"
        elif abs(value - solution.objective) > tolerance + proof.rounding and np.isfinite(solution.objective):
            yield f"{way}: objective {solution.objective!r} where {value!r} is right"
        if proof.objective < lower:
            yield f"{way}: objective {proof.objective!r} below the lower bound {lower!r}"
        if proof.dual_objective > upper:
            yield f"{way}: dual value {proof.dual_objective!r} above the upper bound {upper!r}"
        if solution.status.converged and proof.gap > way["tol"] * max(problem.weights.mean(), abs(proof.objective)):
            yield f"{way}: converged with a gap of {proof.gap!r}"
        if proof.edges_absent + most_present > total:
            yield f"{way}: {proof.edges_absent} entries absent, {most_present} present elsewhere, of {total}"
        if Theta[problem.forbidden].any():
            yield f"{way}: a forbidden entry is not zero"
        yield from _wrong_claims(problem, way, solution, found)


def _wrong_claims(
    problem: Problem, way: dict[str, Any], solution: jgl.Solution, found: list[tuple[dict, jgl.Solution, np.ndarray]]
) -> Iterator[str]:
    """What is proved about single entries, and about equal and different values, against all other solutions."""
    tight, near = min(((s, T) for _, s, T in found), key=lambda other: other[0].certificate.gap)
    gap = tight.certificate.gap / max(1e-300, abs(tight.objective))
    if gap < 1e-8 and list(_against(near, way, solution)):
        # Entries as small as the root of the gap may be zero there: a solution that is tight beyond doubt decides.
        with problem.source() as S:
            exact = jgl.solve(S, problem.lambda1, problem.lambda2, tol=1e-13, **problem.keywords)
        yield from _against(np.stack([Theta.toarray() for Theta in exact.precision]), way, solution)
    claims = solution.edge_clusters
    if claims is None:
        return
    for t, (one, two) in enumerate(claims.neighbours):
        i, j = claims.rows[claims.proved[:, t]], claims.columns[claims.proved[:, t]]
        same = claims.equal[claims.proved[:, t], t]
        for other_way, other, _ in found:
            theirs = other.edge_clusters.lookup(i, j)
            if (theirs.proved[:, t] & (theirs.equal[:, t] != same)).any():
                yield f"{way}: classes {one} and {two} are proved equal, or different, and the opposite by {other_way}"


def _against(near: np.ndarray, way: dict[str, Any], solution: jgl.Solution) -> Iterator[str]:
    """Claims of a solution that another one, close to the optimum, does not bear out."""
    scale = np.sqrt(np.einsum("kii->ki", near))
    scale = scale[:, :, None] * scale[:, None, :]
    present = np.stack([certified.toarray() for certified in solution.certified])
    ours = np.stack([Theta.toarray() for Theta in solution.precision])
    if (present & (near == 0.0) & (np.abs(ours) > UNEQUAL * scale)).any():
        yield f"{way}: an entry is proved present and zero in the tightest solution"
    claims = solution.edge_clusters
    for t, (one, two) in enumerate(() if claims is None else claims.neighbours):
        i, j = claims.rows[claims.proved[:, t]], claims.columns[claims.proved[:, t]]
        same = claims.equal[claims.proved[:, t], t]
        apart = np.abs(near[one, i, j] - near[two, i, j]) > UNEQUAL * np.maximum(scale[one, i, j], scale[two, i, j])
        if (same & apart).any():
            yield f"{way}: classes {one} and {two} are proved equal and differ in the tightest solution"


# --- running ---------------------------------------------------------------------------------------------------------


def run(
    seed: int,
    penalties: list[str],
    *,
    n_problems: int,
    seconds: float,
    n_ways: int = 4,
    first: int = 0,
) -> dict[tuple[str, str], Tally]:
    """Problems one after another, the families and penalties in turn, until their number or the time is reached."""
    tallies: dict[tuple[str, str], Tally] = {}
    began = time.perf_counter()
    kinds = list(itertools.product(FAMILIES, penalties))
    for number in range(first, first + n_problems):
        if time.perf_counter() - began > seconds:
            break
        family, penalty = kinds[number % len(kinds)]
        rng = np.random.default_rng([seed, number])
        before = time.perf_counter()
        one = check(draw(family, penalty, rng), rng, n_ways, sparse=family == "sparse")
        one.seconds = time.perf_counter() - before
        if one.seconds > SLOW:
            print(f"# seed {seed}, problem {number} ({family}, {penalty}) took {one.seconds:.0f} s", flush=True)
        one.violations = [f"problem {number}: {text}" for text in one.violations]
        for text in one.violations:
            print(f"# seed {seed}, {text}", flush=True)
        tallies.setdefault((family, penalty), Tally()).add(one)
    return tallies


def run_on_processes(
    n_processes: int, seed: int, penalties: list[str], *, n_problems: int, first: int, seconds: float, n_ways: int
) -> dict[tuple[str, str], Tally]:
    """The problems of `run`, in small hands to whoever is free."""
    tallies: dict[tuple[str, str], Tally] = {}
    ends = time.time() + seconds
    starts = range(first, first + n_problems, HAND)
    hand = partial(_run_until, ends, seed, penalties, n_ways=n_ways)
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        pending = {
            pool.submit(hand, start, min(HAND, first + n_problems - start)) for start in starts[: 2 * n_processes]
        }
        left = iter(starts[2 * n_processes :])
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for kind, tally in (item for future in done for item in future.result().items()):
                tallies.setdefault(kind, Tally()).add(tally)
            for start in itertools.islice(left, len(done) if time.time() < ends else 0):
                pending.add(pool.submit(hand, start, min(HAND, first + n_problems - start)))
    return tallies


def _run_until(
    ends: float, seed: int, penalties: list[str], first: int, n_problems: int, n_ways: int
) -> dict[tuple[str, str], Tally]:
    return run(seed, penalties, n_problems=n_problems, first=first, seconds=ends - time.time(), n_ways=n_ways)


def solvable_penalties() -> list[str]:
    """Those of ours that the package solves."""
    S = np.array([[[1.0, 0.5], [0.5, 1.0]]] * 2)
    known = []
    for name in ("group", "maximum", "common", "fused", "chain", "graph", "laplacian"):
        try:
            jgl.solve(S, 0.1, 0.1, penalty=name, class_graph=[(0, 1)] if name == "graph" else None)
        except (ValueError, TypeError):
            continue
        known.append(name)
    return known


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--problems", type=int, default=10**9)
    parser.add_argument("--seconds", type=float, default=np.inf)
    parser.add_argument("--ways", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="number of the first problem")
    parser.add_argument("--only", type=int, default=None, help="number of the only problem")
    parser.add_argument("--penalties", nargs="*", default=None)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args(arguments)
    seed = int(time.time()) if options.seed is None else options.seed
    if not np.isfinite(options.seconds) and options.problems == 10**9:
        options.seconds = 60.0
    penalties = options.penalties or solvable_penalties()
    print(f"# seed {seed}, penalties {' '.join(penalties)}, jointglasso {jgl.__version__}", flush=True)
    first, n_problems = (options.first, options.problems) if options.only is None else (options.only, 1)
    limits = {"n_problems": n_problems, "first": first, "seconds": options.seconds, "n_ways": options.ways}
    alone = options.processes == 1
    tallies = (
        run(seed, penalties, **limits) if alone else run_on_processes(options.processes, seed, penalties, **limits)
    )
    columns = ("problems", "solves", "converged", "default not", "no bound", "violations", "seconds")
    print(f"{'family':<18}{'penalty':<12}" + "".join(f"{name:>12}" for name in columns))
    families: dict[str, Tally] = {}
    for (family, penalty), t in sorted(tallies.items()):
        print(f"{family:<18}{penalty:<12}" + _counts(t))
        families.setdefault(family, Tally()).add(t)
    for family, t in families.items():
        name = f"{family} (ill-conditioned)" if family in ILL_CONDITIONED else family
        print(f"{name:<30}" + _counts(t))
    wrong = [text for tally in tallies.values() for text in tally.violations]
    total = sum(t.problems for t in tallies.values()), sum(t.solves for t in tallies.values())
    print(f"{total[0]} problems, {total[1]} solves, {len(wrong)} violations")
    print("\n".join(f"  seed {seed}, {text}" for text in wrong[:50]))
    return int(bool(wrong))


def _counts(t: Tally) -> str:
    counts = (t.problems, t.solves, t.converged, t.not_converged, t.unbounded, len(t.violations), round(t.seconds, 1))
    return "".join(f"{count:>12}" for count in counts)


if __name__ == "__main__":
    sys.exit(main())
