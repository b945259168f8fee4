"""Samples whose covariances give one large sparse component: chains, grids, random graphs, trees with extra edges."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from jointglasso import config
from jointglasso.engine import solve_sparse_task

#: Tuning constants with which every group is solved in sparse storage.
EVERYTHING_SPARSE = [
    (config, "SPARSE_BLOCK", 2),
    (config, "SPARSE_PAIRS", 1e9),
    (config, "BATCHED_BLOCK", 1),
    (solve_sparse_task, "_SECONDS", 0.0),
    (solve_sparse_task, "_FACTORIZATIONS", 0.0),
]


def chain(p, n, phi, rng):
    """(n, p): samples of an autoregressive process with correlation phi between neighbours."""
    X = rng.normal(size=(n, p))
    for t in range(1, p):
        X[:, t] = phi * X[:, t - 1] + np.sqrt(1.0 - phi * phi) * X[:, t]
    return X


def grid_edges(side):
    index = np.arange(side * side).reshape(side, side)
    i = np.concatenate([index[:, :-1].ravel(), index[:-1].ravel()])
    return i, np.concatenate([index[:, 1:].ravel(), index[1:].ravel()])


def random_edges(p, n_edges, rng):
    i, j = rng.integers(0, p, (2, n_edges))
    key = np.unique(np.minimum(i, j) * p + np.maximum(i, j))
    i, j = np.divmod(key, p)
    return i[i != j], j[i != j]


def tree_edges(p, n_extra, rng):
    """A random recursive tree with extra edges."""
    child = np.arange(1, p)
    i, j = random_edges(p, n_extra, rng)
    key = np.unique(np.concatenate([(rng.random(p - 1) * child).astype(np.int64) * p + child, i * p + j]))
    return np.divmod(key, p)


def markov_field(p, edges, n, strength, rng):
    """(n, p): samples with unit variances and precision matrix I - strength A / (largest degree), A the adjacency."""
    i, j = edges
    A = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(p, p))
    A = sparse.csc_array(A + A.T)
    degree = np.asarray(A.sum(axis=0)).ravel()
    scale = sparse.diags_array(1.0 / np.sqrt(np.maximum(degree, 1.0)))
    precision = sparse.csc_array(sparse.eye_array(p) - strength * (scale @ A @ scale))
    factor = splu(precision, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    # L D L' = P precision P': x with L' x = D^{-1/2} z has the precision matrix, in permuted order.
    z = rng.normal(size=(p, n)) / np.sqrt(factor.U.diagonal())[:, None]
    solved = sparse.linalg.spsolve_triangular(sparse.csr_array(factor.L.T), z, lower=False)
    X = solved[factor.perm_c].T
    return X / X.std(axis=0)
