"""The bank of problems, whatever is paid for a pair, however a group is stored and whoever does the work."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from itertools import combinations, pairwise

import numpy as np
import pytest

import jointglasso as jgl
from bank import BANK
from jointglasso import config
from jointglasso.engine.executors import check_executor
from oracles import class_weights, dense

#: What decides how a group is stored: batches of small groups in flat storage; every group alone; without its blocks.
STORAGE = {
    "flat": {},
    "alone": {"BATCHED_BLOCK": 1},
    "big": {"BATCHED_BLOCK": 1, "HUGE": 2},
}
PENALTIES = ("group", "fused", "chain", "graph", "laplacian")
EXECUTORS = ("threads", "processes", *(["dask"] if find_spec("distributed") else []))
TOL = 1e-7

#: Differences alone bound nothing, and a graph needs two classes.
PROBLEMS = {
    penalty: [problem for problem in BANK if penalty == "group" or (problem.lambda1 > 0 and len(problem.S) > 1)]
    for penalty in PENALTIES
}

#: Groups without blocks know the group penalty only.
CASES = [(penalty, storage) for penalty in PENALTIES for storage in STORAGE if storage != "big" or penalty == "group"]


def in_storage(settings, function, *arguments):
    """Do a piece of work where groups are stored in a certain way, in whatever process this is."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setattr(config, name, value)
        return function(*arguments)


class Storing:
    """An executor whose workers store groups in a certain way."""

    def __init__(self, inner, settings):
        self.inner, self.settings = inner, settings

    def submit(self, function, *arguments):
        return self.inner.submit(in_storage, self.settings, function, *arguments)


@pytest.fixture(scope="module")
def workers():
    """Executors by name, each started when it is asked for first, and used by all tests."""
    started = {"threads": (None, lambda: None)}

    def get(name):
        if name == "processes":
            pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
            started[name] = pool, pool.shutdown
        elif name == "dask":
            import distributed

            options = {"processes": True, "threads_per_worker": 1, "dashboard_address": ":0"}
            client = distributed.Client(distributed.LocalCluster(n_workers=1, **options))
            started[name] = check_executor(client), lambda: (client.cluster.close(), client.close())
        return started[name][0]

    yield lambda name: started[name][0] if name in started else get(name)
    for _, end in started.values():
        end()


def graph_of(penalty, n_classes):
    """Classes tied to their neighbours and the first one to all; for "graph" only, the others know their own."""
    if penalty != "graph":
        return {}
    names = [str(k + 1) for k in range(n_classes)]
    edges = [(names[0], name, 0.5) for name in names[2:]]
    return {"class_graph": edges + [(a, b, 1.0) for a, b in pairwise(names)]}


def value_of(penalty, problem, precision):
    """The objective in NumPy, pair by pair of classes."""
    Theta, w = dense(precision), class_weights(problem.weights, len(problem.S))
    n_classes, p, _ = Theta.shape
    total = sum(w[k] * (np.sum(problem.S[k] * Theta[k]) - np.linalg.slogdet(Theta[k])[1]) for k in range(n_classes))
    diagonal = problem.lambda1 * np.abs(np.einsum("kii->ki", Theta)).sum() if problem.penalize_diagonal else 0.0
    x = Theta[:, ~np.eye(p, dtype=bool)]
    neighbours = {"fused": list(combinations(range(n_classes), 2))}.get(
        penalty, [(k, k + 1) for k in range(n_classes - 1)]
    )
    weighed = [(a, b, 1.0) for a, b in neighbours]
    if penalty == "graph":
        weighed += [(0, k, 0.5) for k in range(2, n_classes)]
    if penalty == "group":
        similar = np.sqrt((x**2).sum(axis=0)).sum()
    else:
        power = 2 if penalty == "laplacian" else 1
        similar = sum(v * (np.abs(x[a] - x[b]) ** power).sum() for a, b, v in weighed)
    return float(total + diagonal + problem.lambda1 * np.abs(x).sum() + problem.lambda2 * similar)


REFERENCE: dict = {}


def reference(penalty, problem):
    """Bounds of the optimum: of an oracle for the group penalty, of a solution in flat storage for the others."""
    if (penalty, problem.name) not in REFERENCE:
        if penalty == "group":
            bounds = problem.optimum.objective, problem.optimum.objective
        else:
            found = solved(penalty, problem, None)
            bounds = found.objective - found.certificate.gap, found.objective
        REFERENCE[penalty, problem.name] = bounds
    return REFERENCE[penalty, problem.name]


def solved(penalty, problem, executor):
    options = problem.keywords | graph_of(penalty, len(problem.S))
    lambdas = problem.lambda1, problem.lambda2
    return jgl.solve(problem.S, *lambdas, penalty=penalty, tol=TOL, executor=executor, **options)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("penalty", "storage"), CASES)
def test_one_optimum(penalty, storage, executor, workers):
    inner, settings = workers(executor), STORAGE[storage]
    storing = None if inner is None else Storing(inner, settings)
    stride = 1 if inner is None else 3  # of what is sent elsewhere a third is enough
    for problem in PROBLEMS[penalty][::stride]:
        found = in_storage(settings, solved, penalty, problem, storing)
        low, high = reference(penalty, problem)
        slack = 1e-9 * (1.0 + abs(high))
        assert found.status, problem
        value = value_of(penalty, problem, found.precision)
        assert found.objective == pytest.approx(value, rel=1e-9, abs=1e-9), problem
        assert found.objective - found.certificate.gap <= high + slack, problem
        assert found.objective >= low - slack, problem
        assert found.certificate.relative_gap <= TOL, problem
