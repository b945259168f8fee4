"""Independent answers to compare the package with: nothing here imports jointglasso.

Everything is dense, literal and slow, written from the paper's equations. Three sources of truth:

* `clarabel_optimum`: cvxpy + Clarabel, an interior-point method; objective good to about 1e-8, entries to about 1e-4;
* `accurate_optimum`: dense proximal gradient run until the optimality conditions hold to 1e-10; it has exact zeros;
* closed forms (in `bank`).
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components


@dataclass(frozen=True)
class Optimum:
    objective: float
    precision: np.ndarray
    """(K, p, p)"""


# --- the problem itself, Eq. (1)-(4) -------------------------------------------------------------------------------


def dense(precision) -> np.ndarray:
    """K matrices, sparse or not, as one array (K, p, p)."""
    return np.stack([Theta.toarray() if hasattr(Theta, "toarray") else np.asarray(Theta) for Theta in precision])


def class_weights(weights, n_classes: int) -> np.ndarray:
    return np.ones(n_classes) if weights is None else np.asarray(weights, dtype=float)


def objective(Theta, S, lambda1, lambda2, weights=None, penalize_diagonal=True) -> float:
    """Eq. (1)-(4), term by term; infinite outside the positive definite cone."""
    Theta, S = dense(Theta), dense(S)
    n_classes, p, _ = S.shape
    w = class_weights(weights, n_classes)
    total = 0.0
    for k in range(n_classes):
        if np.linalg.eigvalsh(Theta[k])[0] <= 0:
            return np.inf
        total += w[k] * (np.trace(S[k] @ Theta[k]) - np.linalg.slogdet(Theta[k])[1])
        total += lambda1 * np.abs(Theta[k]).sum()
        if not penalize_diagonal:
            total -= lambda1 * np.abs(np.diagonal(Theta[k])).sum()
    for i in range(p):
        for j in range(i + 1, p):
            total += lambda2 * 2.0 * np.linalg.norm(Theta[:, i, j])
    return float(total)


def kkt_residual(Theta, S, lambda1, lambda2, weights=None, penalize_diagonal=True) -> float:
    """Largest distance from the negative gradient to the subdifferential of the penalty, over all pairs."""
    Theta, S = dense(Theta), dense(S)
    w = class_weights(weights, len(S))[:, None, None]
    wanted = w * (np.linalg.inv(Theta) - S)
    diagonal_penalty = lambda1 if penalize_diagonal else 0.0
    norm = np.linalg.norm(Theta, axis=0)
    on_support = wanted - lambda1 * np.sign(Theta) - lambda2 * Theta / np.where(norm > 0, norm, 1.0)
    excess = np.maximum(np.abs(wanted) - lambda1, 0.0)
    beside_support = np.where(Theta != 0, np.abs(on_support), excess)
    off_support = np.maximum(np.linalg.norm(excess, axis=0) - lambda2, 0.0)
    distance = np.where(norm > 0, beside_support.max(axis=0), off_support)
    np.fill_diagonal(distance, 0.0)
    diagonal = np.abs(np.einsum("kii->ki", wanted) - diagonal_penalty)
    return float(max(distance.max(), diagonal.max()))


def dual_violation(W, S, lambda1, lambda2, weights=None, penalize_diagonal=True) -> float:
    """How far a dual point is from the constraints of the dual problem: ball of every pair, and diagonal."""
    W, S = dense(W), dense(S)
    w = class_weights(weights, len(S))[:, None, None]
    excess = np.linalg.norm(np.maximum(np.abs(w * (W - S)) - lambda1, 0.0), axis=0) - lambda2
    np.fill_diagonal(excess, 0.0)
    diagonal_penalty = lambda1 if penalize_diagonal else 0.0
    diagonal = np.abs(np.einsum("kii->ki", W - S - diagonal_penalty / w)).max()
    return float(max(excess.max(), 0.0, diagonal))


def dual_objective(W, weights=None) -> float:
    """Sum over classes of w (log det W + p), minus infinity if some W is not positive definite."""
    W = dense(W)
    w = class_weights(weights, len(W))
    if any(np.linalg.eigvalsh(matrix)[0] <= 0 for matrix in W):
        return -np.inf
    return float(sum(w[k] * (np.linalg.slogdet(W[k])[1] + W.shape[1]) for k in range(len(W))))


# --- optima -----------------------------------------------------------------------------------------------------


_remembered: dict[tuple, Optimum] = {}


def _remember(solver):
    """Cache on the values of the arguments: the same problem is asked for by many tests."""

    def ask(S, lambda1, lambda2, weights=None, penalize_diagonal=True) -> Optimum:
        S = np.ascontiguousarray(dense(S))
        w = class_weights(weights, len(S))
        key = (solver.__name__, S.shape, S.tobytes(), lambda1, lambda2, w.tobytes(), bool(penalize_diagonal))
        if key not in _remembered:
            _remembered[key] = solver(S, lambda1, lambda2, w, bool(penalize_diagonal))
        return _remembered[key]

    ask.__doc__ = solver.__doc__
    return ask


@_remember
def clarabel_optimum(S, lambda1, lambda2, weights, penalize_diagonal) -> Optimum:
    """Minimise Eq. (1)-(4) with cvxpy and Clarabel at tight tolerances."""
    import cvxpy as cp

    n_classes, p, _ = S.shape
    Theta = [cp.Variable((p, p), symmetric=True) for _ in range(n_classes)]
    upper = np.triu_indices(p, 1)
    pairs = [matrix[upper] for matrix in Theta]
    cost = 0
    for k in range(n_classes):
        cost += weights[k] * (cp.trace(S[k] @ Theta[k]) - cp.log_det(Theta[k]))
        if penalize_diagonal:
            cost += lambda1 * cp.sum(cp.abs(cp.diag(Theta[k])))
        if p > 1:
            cost += 2.0 * lambda1 * cp.norm1(pairs[k])
    if lambda2 > 0 and p > 1:
        cost += 2.0 * lambda2 * cp.sum(cp.norm2(cp.vstack(pairs), axis=0))
    problem = cp.Problem(cp.Minimize(cost))
    tolerance = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10, "max_iter": 200}
    with warnings.catch_warnings():
        # "Solution may be inaccurate": 1e-10 was not reached. What was reached is checked in `test_exactness`.
        warnings.filterwarnings("ignore", message="Solution may be inaccurate", category=UserWarning)
        problem.solve(solver=cp.CLARABEL, **tolerance)
    return Optimum(float(problem.value), np.stack([matrix.value for matrix in Theta]))


@_remember
def accurate_optimum(S, lambda1, lambda2, weights, penalize_diagonal) -> Optimum:
    """Dense proximal gradient to find the support, Newton on it, until the KKT residual is 1e-10 of the variances."""
    arguments = (S, lambda1, lambda2, weights, penalize_diagonal)
    enough = 1e-10 * float(np.einsum("kii->ki", S).max() * weights.max())
    diagonal_penalty = lambda1 if penalize_diagonal else 0.0
    variance = np.einsum("kii->ki", S) + diagonal_penalty / weights[:, None]
    Theta = np.stack([np.diag(1.0 / v) for v in variance])
    for attempt in range(100):
        Theta = _proximal_gradient(Theta, *arguments, enough, steps=100)
        candidates = [Theta, _newton_on_support(Theta, *arguments)]
        if attempt == 2 and S.shape[1] <= 12:  # ill-conditioned: let Clarabel point at the support
            candidates += [_newton_on_support(guess, *arguments) for guess in _sparsified(clarabel_optimum(*arguments))]
        for candidate in candidates:
            if kkt_residual(candidate, *arguments) <= enough:
                return Optimum(objective(candidate, *arguments), candidate)
    raise RuntimeError(f"The oracle stopped at a KKT residual of {kkt_residual(Theta, *arguments):.1e}.")


def _sparsified(optimum: Optimum) -> Iterator[np.ndarray]:
    """An interior-point solution with its small entries, at several ideas of small, set to zero."""
    deviation = np.sqrt(np.einsum("kii->ki", optimum.precision))
    relative = np.abs(optimum.precision) / (deviation[:, :, None] * deviation[:, None, :])
    for small in (1e-3, 1e-4, 1e-5, 1e-6):
        guess = np.where(relative > small, optimum.precision, 0.0)
        if all(np.linalg.eigvalsh(matrix)[0] > 0 for matrix in guess):
            yield (guess + guess.transpose(0, 2, 1)) / 2.0


def _proximal_gradient(Theta, S, lambda1, lambda2, weights, penalize_diagonal, enough, steps) -> np.ndarray:
    w = weights[:, None, None]
    inverse = np.linalg.inv(Theta)
    smooth = float(np.sum(w * S * Theta) - weights @ np.linalg.slogdet(Theta)[1])
    step = float(min(np.linalg.eigvalsh(matrix)[0] for matrix in Theta) ** 2 / weights.max())
    for _ in range(steps):
        gradient = w * (S - inverse)
        while True:
            trial = _prox(Theta - step * gradient, step, lambda1, lambda2, lambda1 if penalize_diagonal else 0.0)
            change = trial - Theta
            if all(np.linalg.eigvalsh(matrix)[0] > 0 for matrix in trial):
                value = float(np.sum(w * S * trial) - weights @ np.linalg.slogdet(trial)[1])
                model = smooth + np.sum(gradient * change) + np.sum(change**2) / (2.0 * step)
                if value <= model + 1e-13 * max(1.0, abs(smooth)):
                    break
            step *= 0.5
        before, inverse = inverse, np.linalg.inv(trial)
        curvature = float(np.sum(change * w * (before - inverse)))
        Theta, smooth = trial, value
        if kkt_residual(Theta, S, lambda1, lambda2, weights, penalize_diagonal) <= enough:
            break
        step = float(np.sum(change**2) / curvature) if curvature > 0 else 2.0 * step
    return Theta


def _newton_on_support(Theta, S, lambda1, lambda2, weights, penalize_diagonal) -> np.ndarray:
    """Newton's method in the non-zero entries, where the penalty is smooth; stops when one would change sign."""
    k, i, j = np.nonzero(np.triu(Theta))
    double = np.where(i == j, 1.0, 2.0)
    same_class = k[:, None] == k[None, :]
    same_pair = (i[:, None] == i[None, :]) & (j[:, None] == j[None, :]) & (i != j)[:, None]
    for _ in range(30):
        W, norm = np.linalg.inv(Theta), np.linalg.norm(Theta, axis=0)[i, j]
        theta = Theta[k, i, j]
        penalty = np.where(i == j, lambda1 * penalize_diagonal, lambda1 * np.sign(theta) + lambda2 * theta / norm)
        gradient = double * (weights[k] * (S - W)[k, i, j] + penalty)
        Wk = W[k]  # (m, p, p): the inverse of each entry's class
        m = np.arange(len(k))[:, None]
        cross = Wk[m, i[:, None], i[None, :]] * Wk[m, j[:, None], j[None, :]]
        cross = cross + Wk[m, i[:, None], j[None, :]] * Wk[m, j[:, None], i[None, :]]
        hessian = same_class * weights[k][:, None] * cross * double[:, None] * double[None, :] / 2.0
        curvature = np.where(same_pair, -np.outer(theta, theta) / norm[:, None] ** 3, 0.0)
        curvature += np.diag(np.where(i == j, 0.0, 1.0 / norm))
        direction = -np.linalg.solve(hessian + 2.0 * lambda2 * curvature, gradient)
        size = 1.0
        while size > 1e-6:
            trial = Theta.copy()
            trial[k, i, j] = trial[k, j, i] = theta + size * direction
            if all(np.linalg.eigvalsh(matrix)[0] > 0 for matrix in trial):
                break
            size *= 0.5
        if (np.sign(trial[k, i, j]) != np.sign(theta)).any():
            return Theta
        Theta = trial
        if np.abs(direction).max() <= 1e-15 * np.abs(theta).max():
            break
    return Theta


def _prox(point, step, lambda1, lambda2, diagonal_penalty) -> np.ndarray:
    diagonal = np.einsum("kii->ki", point) - step * diagonal_penalty
    shrunk = np.sign(point) * np.maximum(np.abs(point) - step * lambda1, 0.0)
    norm = np.linalg.norm(shrunk, axis=0)
    shrunk = shrunk * np.where(norm > step * lambda2, 1.0 - step * lambda2 / np.where(norm > 0, norm, 1.0), 0.0)
    np.einsum("kii->ki", shrunk)[:] = diagonal
    return (shrunk + shrunk.transpose(0, 2, 1)) / 2.0


# --- screening, word for word -------------------------------------------------------------------------------------


def canonical(labels) -> np.ndarray:
    """Number the blocks of every class 0, 1, ... in the order of their smallest member."""
    rows = []
    for row in np.atleast_2d(labels):
        seen: dict[int, int] = {}
        rows.append([seen.setdefault(int(label), len(seen)) for label in row])
    return np.array(rows)


def graph_components(adjacency) -> np.ndarray:
    return canonical(connected_components(csr_array(adjacency), directed=False)[1])[0]


def weighted_absolute(S, weights=None) -> np.ndarray:
    S = dense(S)
    return class_weights(weights, len(S))[:, None, None] * np.abs(S)


def is_strong(size, lambda1, lambda2) -> np.ndarray:
    """Pairs with sum_k (|S_k| - lambda1)_+^2 > lambda2^2, summed in class order; the diagonal is no pair."""
    used = np.zeros(size.shape[1:])
    for k in range(len(size)):
        used = used + np.maximum(size[k] - lambda1, 0.0) ** 2
    strong = used > lambda2 * lambda2
    np.fill_diagonal(strong, False)
    return strong


def literal_algorithm_1(S, lambda1, lambda2, weights=None) -> tuple[np.ndarray, int]:
    """Algorithm 1 of the paper with its indicator matrices I^(k); returns the labels and the number of merges."""
    size = weighted_absolute(S, weights)
    n_classes, p, _ = size.shape
    strong = is_strong(size, lambda1, lambda2)
    indicator = np.ones((n_classes, p, p), dtype=bool)
    for k in range(n_classes):
        for i, j in itertools.permutations(range(p), 2):
            if size[k, i, j] <= lambda1:
                indicator[k, i, j] = False
            if not strong[i, j]:
                indicator[k, i, j] = False
    labels = np.zeros((n_classes, p), dtype=int)
    for k in range(n_classes):
        labels[k] = graph_components(indicator[k])
        indicator[k] = labels[k][:, None] == labels[k][None, :]
    merges = 0
    while True:
        triple = _search_triple(indicator, size, lambda1)
        if triple is None:
            return canonical(labels), merges
        x, i, j = triple
        labels[x][labels[x] == labels[x][j]] = labels[x][i]
        component = np.flatnonzero(labels[x] == labels[x][i])
        indicator[x][np.ix_(component, component)] = True
        merges += 1


def _search_triple(indicator, size, lambda1) -> tuple[int, int, int] | None:
    """(x, i, j) with I^(x)_ij = 0, |S^(x)_ij| > lambda1, and I^(s)_ij = 1 for some s."""
    some_class_joins = indicator.any(axis=0)
    found = np.argwhere(~indicator & (size > lambda1) & some_class_joins)
    return tuple(int(index) for index in found[0]) if len(found) else None


def literal_class_thresholding(S, lambda1, weights=None) -> np.ndarray:
    """L: components of |S_k,ij| > lambda1, class by class."""
    return np.stack([graph_components(size > lambda1) for size in weighted_absolute(S, weights)])


def literal_global_thresholding(S, lambda1, lambda2, weights=None) -> np.ndarray:
    """G: components of the strong pairs, the same in every class."""
    size = weighted_absolute(S, weights)
    return np.tile(graph_components(is_strong(size, lambda1, lambda2)), (len(size), 1))


def literal_strong_thresholding(S, lambda1, lambda2, weights=None) -> np.ndarray:
    """O: Algorithm 1 up to, and without, its repeat loop."""
    size = weighted_absolute(S, weights)
    strong = is_strong(size, lambda1, lambda2)
    return np.stack([graph_components(strong & (one > lambda1)) for one in size])


def lower_bound_partition(S, lambda1, lambda2, weights=None) -> np.ndarray:
    """M: pairs above lambda1 + lambda2 are connected in every solution (Theorem 2)."""
    return np.stack([graph_components(size > lambda1 + lambda2) for size in weighted_absolute(S, weights)])


def support_partition(Theta) -> np.ndarray:
    """The true partition: components of the support of each class."""
    return np.stack([graph_components(matrix != 0) for matrix in dense(Theta)])


def condition_8_holds(labels, S, lambda1, lambda2, weights=None) -> bool:
    """Condition (8), pair by pair."""
    size = weighted_absolute(S, weights)
    n_classes, p, _ = size.shape
    strong = is_strong(size, lambda1, lambda2)
    for i, j in itertools.combinations(range(p), 2):
        joined = [labels[k][i] == labels[k][j] for k in range(n_classes)]
        if not any(joined) and strong[i, j]:
            return False
        if any(joined) and any(size[k, i, j] > lambda1 and not joined[k] for k in range(n_classes)):
            return False
    return True


def condition_7_holds(labels, S, lambda1, lambda2, Theta, weights=None) -> bool:
    """Condition (7), pair by pair, with Z of Eq. (6) from the solution."""
    size, Theta = weighted_absolute(S, weights), dense(Theta)
    n_classes, p, _ = size.shape
    strong = is_strong(size, lambda1, lambda2)
    for i, j in itertools.combinations(range(p), 2):
        joined = [labels[k][i] == labels[k][j] for k in range(n_classes)]
        if not any(joined) and strong[i, j]:
            return False
        for k in range(n_classes):
            others = sum(abs(Theta[t, i, j]) for t in range(n_classes) if t != k)
            Z = lambda1 + lambda2 * (others == 0)
            if any(joined) and not joined[k] and size[k, i, j] > Z:
                return False
    return True


def refines(fine, coarse) -> bool:
    """Whether every block of `fine` lies in one block of `coarse`, class by class, from the definition."""
    fine, coarse = np.atleast_2d(fine), np.atleast_2d(coarse)
    same_fine = fine[:, :, None] == fine[:, None, :]
    same_coarse = coarse[:, :, None] == coarse[:, None, :]
    return bool((~same_fine | same_coarse).all())


def all_set_partitions(p: int) -> Iterator[tuple[int, ...]]:
    """Every partition of p things as labels in canonical order."""

    def extend(prefix: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(prefix) == p:
            yield prefix
            return
        for label in range(max(prefix, default=-1) + 2):
            yield from extend((*prefix, label))

    return extend(())


def critical_scale(S, lambda1, lambda2, weights=None) -> float:
    """Smallest factor on both lambdas at which no pair is strong, by bisection."""
    size = weighted_absolute(S, weights)
    low, high = 0.0, 1.0
    while is_strong(size, high * lambda1, high * lambda2).any():
        high *= 2.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_strong(size, middle * lambda1, middle * lambda2).any() else (low, middle)
    return high
