"""How well networks are found: designs with known edges, and ways to find them. `simulations.py selection` prints them.

Ways: the default of `select`; the default of version 0.1 (extended BIC on a fixed grid, equal weights, penalised
diagonal); every class by itself; all classes as one; GraphicalLassoCV of scikit-learn, class by class; GGLasso's own
selection by its extended BIC, where it is installed.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.covariance import GraphicalLassoCV

import jointglasso as jgl

Graphs = list[np.ndarray]

#: Kind of graph, variables, samples of each class, share of edges that differ between classes.
DESIGNS = {
    "scale-free p50 K2 n100": ("scale-free", 50, (100, 100), 0.2),
    "band p100 K3 n60/120/240": ("band", 100, (60, 120, 240), 0.2),
    "hub p100 K4 n150": ("hub", 100, (150,) * 4, 0.2),
    "identical scale-free p100 K3 n150": ("scale-free", 100, (150,) * 3, 0.0),
    "half moved scale-free p100 K3 n150": ("scale-free", 100, (150,) * 3, 0.5),
    "random p80 K3 n80/160/160": ("random", 80, (80, 160, 160), 0.2),
    "band p60 K4 n100": ("band", 60, (100,) * 4, 0.2),
    "noise p100 K3 n100": ("noise", 100, (100,) * 3, 0.0),
    "noise p60 K4 n60": ("noise", 60, (60,) * 4, 0.0),
}


def graph(kind: str, p: int, rng: np.random.Generator) -> np.ndarray:
    """Upper triangle of a graph."""
    edges = np.zeros((p, p), dtype=bool)
    if kind == "scale-free":
        degree = np.ones(p)
        for new in range(1, p):
            old = rng.choice(new, p=degree[:new] / degree[:new].sum())
            edges[old, new] = True
            degree[[old, new]] += 1
    elif kind == "band":
        place = np.arange(p)
        edges = np.isin(place - place[:, None], (1, 2))
    elif kind == "hub":
        for hub in range(0, p, 20):
            edges[hub, hub + 1 : hub + 20] = True
    elif kind == "random":
        edges = np.triu(rng.random((p, p)) < 3 / p, 1)
    return edges


def moved(values: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """The same edges, a share of them at other places."""
    values = values.copy()
    rows, columns = np.nonzero(values)
    for edge in rng.choice(len(rows), int(share * len(rows)), replace=False):
        while True:
            i, j = np.sort(rng.integers(0, len(values), 2))
            if i != j and values[i, j] == 0:
                break
        values[i, j], values[rows[edge], columns[edge]] = values[rows[edge], columns[edge]], 0.0
    return values


def draw(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, Graphs, list[np.ndarray]]:
    """Samples, labels, true graphs and covariances of a design."""
    kind, p, sizes, share = DESIGNS[name]
    rng = np.random.default_rng(seed)
    low, high = (0.15, 0.25) if kind == "hub" else (0.25, 0.45)
    values = graph(kind, p, rng) * rng.uniform(low, high, (p, p)) * rng.choice([-1, 1], (p, p))
    X, truth, covariances = [], [], []
    for n in sizes:
        mine = moved(values, share, rng)
        mine = mine + mine.T
        smallest = np.linalg.eigvalsh(mine)[0]
        Theta = np.eye(p) + mine * min(1.0, -0.9 / smallest if smallest < 0 else 1.0)
        covariances.append(np.linalg.inv(Theta))
        X.append(rng.normal(size=(n, p)) @ np.linalg.cholesky(covariances[-1]).T)
        truth.append(np.triu(mine != 0, 1))
    return np.vstack(X), np.repeat(np.arange(len(sizes)), sizes), truth, covariances


def matthews(found: Graphs, truth: Graphs) -> float:
    """Matthews correlation over the pairs of all classes."""
    upper = np.triu_indices(len(truth[0]), 1)
    a, b = (np.concatenate([graph[upper] for graph in graphs]).astype(float) for graphs in (found, truth))
    return float(np.corrcoef(a, b)[0, 1]) if a.any() and not a.all() else 0.0


def edges(matrices: list) -> Graphs:
    """Upper triangles of the graphs of precision matrices."""
    dense = [Theta.toarray() if hasattr(Theta, "toarray") else Theta for Theta in matrices]
    return [np.triu(np.abs(Theta) > 1e-8, 1) for Theta in dense]


def default(X: np.ndarray, y: np.ndarray) -> Graphs:
    return edges(jgl.select(X, y).precision)


def earlier_choice(X: np.ndarray, y: np.ndarray) -> jgl.SelectionResult:
    """The default of version 0.1, gamma = 0.5."""
    source = jgl.SampleCovariance.from_labels(X, y, scale="correlation")
    grid = jgl.lambda_grid(source, ratios=(0.1, 0.3, 0.6, 1.0, 2.0), min_ratio=0.05)
    return jgl.select(X, y, criterion="ebic", grid=grid, weights="equal", penalize_diagonal=True)


def earlier(X: np.ndarray, y: np.ndarray) -> Graphs:
    return edges(earlier_choice(X, y).precision)


def separate(X: np.ndarray, y: np.ndarray) -> Graphs:
    return [edges(jgl.select(X[y == k]).precision)[0] for k in np.unique(y)]


def pooled(X: np.ndarray, y: np.ndarray) -> Graphs:
    centred = np.vstack([X[y == k] - X[y == k].mean(axis=0) for k in np.unique(y)])
    return edges(jgl.select(centred).precision) * len(np.unique(y))


def scikit_learn(X: np.ndarray, y: np.ndarray) -> Graphs:
    parts = [X[y == k] for k in np.unique(y)]
    return edges([GraphicalLassoCV().fit((part - part.mean(0)) / part.std(0)).precision_ for part in parts])


def gglasso(X: np.ndarray, y: np.ndarray) -> Graphs:
    from gglasso.problem import glasso_problem

    parts = [X[y == k] for k in np.unique(y)]
    problem = glasso_problem(
        np.stack([np.corrcoef(part.T) for part in parts]),
        np.array([len(part) for part in parts]),
        reg="GGL",
        latent=False,
        do_scaling=False,
    )
    ranges = {"lambda1_range": np.geomspace(0.5, 0.05, 8), "lambda2_range": np.geomspace(0.3, 0.01, 4)}
    with contextlib.redirect_stdout(io.StringIO()):
        problem.model_selection(modelselect_params=ranges, method="eBIC")  # gamma as it comes
    return edges(list(problem.solution.precision_))


WAYS: dict[str, Callable[[np.ndarray, np.ndarray], Graphs]] = {
    "default": default,
    "0.1": earlier,
    "separate": separate,
    "pooled": pooled,
    "scikit-learn": scikit_learn,
    "GGLasso": gglasso,
}


def measure(job: tuple[str, int]) -> dict[str, tuple[float, float]]:
    """One data set of a design: Matthews correlation (on noise: false edges a class) and seconds, by way."""
    warnings.simplefilter("ignore")
    name, seed = job
    X, y, truth, _ = draw(name, seed)
    noise = not any(graph.any() for graph in truth)
    out = {}
    for way, find in WAYS.items():
        began = time.perf_counter()
        try:
            found = find(X, y)
        except ImportError:  # GGLasso is not installed
            continue
        seconds = time.perf_counter() - began
        out[way] = (float(np.mean([g.sum() for g in found])) if noise else matthews(found, truth), seconds)
    return out
