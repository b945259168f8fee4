"""Independent answers for problems with weights of pairs; like `oracles`, nothing here imports jointglasso.

`V` (p, p) holds the weights: 0 leaves a pair unpenalised, infinity forbids it.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np

from oracles import Optimum, class_weights, dense, graph_components


def allowed_weights(V) -> np.ndarray:
    """The weights with zeros where a pair is forbidden and on the diagonal, so that they can be multiplied."""
    allowed = np.where(np.isinf(V), 0.0, V)
    np.fill_diagonal(allowed, 0.0)
    return allowed


def objective(Theta, S, lambda1, lambda2, V, weights=None, penalize_diagonal=True) -> float:
    """The objective, term by term; infinite where a matrix is not definite or a forbidden entry is not zero."""
    Theta, S = dense(Theta), dense(S)
    w = class_weights(weights, len(S))
    total = 0.0
    for k in range(len(S)):
        if np.linalg.eigvalsh(Theta[k])[0] <= 0:
            return np.inf
        total += w[k] * (np.trace(S[k] @ Theta[k]) - np.linalg.slogdet(Theta[k])[1])
        total += lambda1 * np.abs(np.diagonal(Theta[k])).sum() if penalize_diagonal else 0.0
    for i, j in itertools.combinations(range(S.shape[1]), 2):
        theta = Theta[:, i, j]
        if np.isinf(V[i, j]):
            total += np.inf if theta.any() else 0.0
        else:
            total += 2.0 * V[i, j] * (lambda1 * np.abs(theta).sum() + lambda2 * np.linalg.norm(theta))
    return float(total)


def clarabel_optimum(S, lambda1, lambda2, V, weights=None, penalize_diagonal=True) -> Optimum:
    """Minimise with cvxpy and Clarabel at tight tolerances."""
    import cvxpy as cp

    S = dense(S)
    n_classes, p, _ = S.shape
    w = class_weights(weights, n_classes)
    Theta = [cp.Variable((p, p), symmetric=True) for _ in range(n_classes)]
    i, j = np.triu_indices(p, 1)
    free = np.isfinite(V[i, j])
    v = V[i, j][free]
    pairs = [matrix[i[free], j[free]] for matrix in Theta]
    cost = sum(w[k] * (cp.trace(S[k] @ Theta[k]) - cp.log_det(Theta[k])) for k in range(n_classes))
    if penalize_diagonal:
        cost += lambda1 * sum(cp.sum(cp.diag(matrix)) for matrix in Theta)
    if len(v):
        cost += sum(2.0 * lambda1 * cp.sum(cp.multiply(v, cp.abs(pair))) for pair in pairs)
        cost += 2.0 * lambda2 * cp.sum(cp.multiply(v, cp.norm2(cp.vstack(pairs), axis=0)))
    none = [matrix[i[~free], j[~free]] == 0 for matrix in Theta] if not free.all() else []
    problem = cp.Problem(cp.Minimize(cost), none)
    tolerance = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10, "max_iter": 200}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate", category=UserWarning)
        problem.solve(solver=cp.CLARABEL, **tolerance)
    return Optimum(float(problem.value), np.stack([matrix.value for matrix in Theta]))


def kkt_residual(Theta, S, lambda1, lambda2, V, weights=None, penalize_diagonal=True) -> float:
    """Largest distance from the negative gradient to the subdifferential; nothing is asked of forbidden pairs."""
    Theta, S = dense(Theta), dense(S)
    w = class_weights(weights, len(S))
    wanted = w[:, None, None] * (np.linalg.inv(Theta) - S)
    worst = np.abs(np.einsum("kii->ki", wanted) - lambda1 * penalize_diagonal).max()
    for i, j in itertools.combinations(range(S.shape[1]), 2):
        theta, u, v = Theta[:, i, j], wanted[:, i, j], V[i, j]
        if np.isinf(v):
            continue
        excess = np.maximum(np.abs(u) - v * lambda1, 0.0)
        if theta.any():
            gradient = v * (lambda1 * np.sign(theta) + lambda2 * theta / np.linalg.norm(theta))
            worst = max(worst, np.where(theta != 0, np.abs(u - gradient), excess).max())
        else:
            worst = max(worst, np.linalg.norm(excess) - v * lambda2)
    return float(worst)


def literal_partitions(S, lambda1, lambda2, V, weights=None) -> dict[str, np.ndarray]:
    """Labels of the class, global, strong and hybrid rules from their definitions, pair by pair."""
    S = dense(S)
    n_classes, p, _ = S.shape
    w = class_weights(weights, n_classes)
    above = np.zeros((n_classes, p, p), dtype=bool)
    strong = np.zeros((p, p), dtype=bool)
    for i, j in itertools.permutations(range(p), 2):
        if np.isinf(V[i, j]):
            continue
        used = 0.0
        for k in range(n_classes):
            size = w[k] * abs(S[k, i, j])
            above[k, i, j] = size > V[i, j] * lambda1
            used += max(size - V[i, j] * lambda1, 0.0) ** 2
        strong[i, j] = used > (V[i, j] * lambda2) * (V[i, j] * lambda2)
    hybrid = np.stack([graph_components(strong & edges) for edges in above])
    while True:
        joined = hybrid[:, :, None] == hybrid[:, None, :]
        activated = (strong | joined.any(axis=0)) & above
        coarser = np.stack([graph_components(edges) for edges in activated])
        if np.array_equal(coarser, hybrid):
            break
        hybrid = coarser
    return {
        "class": np.stack([graph_components(edges) for edges in above]),
        "global": np.tile(graph_components(strong), (n_classes, 1)),
        "dynamic": np.stack([graph_components(strong & edges) for edges in above]),
        "hybrid": hybrid,
    }
