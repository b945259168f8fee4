"""One giant sparse component: seconds of scan, solve and check, peak memory, gap and growth, by graph and size.

python benchmarks/sparse_storage.py [--graphs chain grid ...] [--sizes 10000 30000] [--classes 1 2] [--tol 1e-8]

Each case runs in a process of its own. The data are samples of Gaussian Markov fields on the graph, K classes with the
same graph; lambda1 is above most chance covariances, so that the support stays sparse and is one component.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import numpy as np
from scipy import sparse

import jointglasso as jgl
from common import describe_machine, peak_mebibytes, print_header, print_row
from jointglasso._threads import map_on_cores
from jointglasso.engine import screening
from jointglasso.screening import pairs

#: Samples of each class; lambda1 by graph; lambda2 is 0.1 for two classes and more.
SAMPLES = 400
LAMBDAS = {"chain": 0.36, "grid": 0.33, "random2": 0.36, "random3": 0.36, "tree": 0.36}

#: Largest p at which the products of the scan are timed as well.
PRODUCTS_UP_TO = 30_000

Edges = tuple[np.ndarray, np.ndarray]


def chain(p: int, rng: np.random.Generator) -> np.ndarray:
    """(n, p): autoregressive process with correlation 0.7: no link of the chain is below the penalties."""
    X = rng.standard_normal((p, SAMPLES))
    for t in range(1, p):
        X[t] *= np.sqrt(1.0 - 0.7**2)
        X[t] += 0.7 * X[t - 1]
    return X.T


def random_edges(p: int, n_edges: int, rng: np.random.Generator) -> Edges:
    i, j = rng.integers(0, p, (2, n_edges))
    i, j = np.divmod(np.unique(np.minimum(i, j) * p + np.maximum(i, j)), p)
    return i[i != j], j[i != j]


def edges_of(graph: str, p: int, rng: np.random.Generator) -> Edges:
    if graph == "grid":
        side = int(np.sqrt(p))
        index = np.arange(side * side).reshape(side, side)
        first = np.concatenate([index[:, :-1].ravel(), index[:-1].ravel()])
        return first, np.concatenate([index[:, 1:].ravel(), index[1:].ravel()])
    if graph.startswith("random"):
        return random_edges(p, p * int(graph[-1]) // 2, rng)
    child = np.arange(1, p)  # a random recursive tree, and one extra edge for a hundred variables
    i, j = random_edges(p, p // 100, rng)
    i, j = np.divmod(np.unique(np.concatenate([(rng.random(p - 1) * child).astype(int) * p + child, i * p + j])), p)
    return i, j


def markov_field(p: int, edges: Edges, rng: np.random.Generator) -> np.ndarray:
    """(n, p): samples with unit variances and the normalised adjacency matrix N of a graph in the precision matrix.

    ``P = I - 0.97 N = 0.03 I + 0.97 G G'``, G being the scaled incidence matrix: ``P^{-1} z`` has the covariance
    P^{-1} if z has the covariance P. It is solved for by conjugate gradients, which no fill limits.
    """
    (i, j), degree = edges, np.bincount(np.concatenate(edges), minlength=p)
    scale, edge = 1.0 / np.sqrt(np.maximum(degree, 1)), np.arange(len(edges[0]))
    ends = np.concatenate([i, j]), np.tile(edge, 2)
    G = sparse.csr_array((np.concatenate([scale[i], -scale[j]]), ends), shape=(p, len(edge)))
    P = sparse.csr_array(0.97 * (G @ G.T) + sparse.diags_array(np.where(degree == 0, 1.0, 0.03)))
    X = np.empty((SAMPLES, p))
    for rows in range(0, SAMPLES, 50):
        z = np.sqrt(0.97) * (G @ rng.standard_normal((len(edge), 50)))
        z += np.sqrt(np.where(degree == 0, 1.0, 0.03))[:, None] * rng.standard_normal((p, 50))
        x, r, d, square = np.zeros_like(z), z, z, (z * z).sum(axis=0)
        while square.max() > 1e-12 * p:
            q = P @ d
            step = square / (d * q).sum(axis=0)
            x, r = x + step * d, r - step * q
            square, before = (r * r).sum(axis=0), square
            d = r + square / before * d
        X[rows : rows + 50] = x.T
    return X / X.std(axis=0)


def samples(graph: str, p: int, n_classes: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Samples of each class, with the same graph."""
    edges = None if graph == "chain" else edges_of(graph, p, rng)
    return [chain(p, rng) if edges is None else markov_field(p, edges, rng) for _ in range(n_classes)]


class Stopwatch:
    """A function, with the processor time and the elapsed seconds of its calls."""

    def __init__(self, function):
        self.function, self.seconds, self.elapsed = function, 0.0, 0.0

    def __call__(self, *arguments, **options):
        processor, began = time.process_time(), time.perf_counter()
        result = self.function(*arguments, **options)
        self.seconds += time.process_time() - processor
        self.elapsed += time.perf_counter() - began
        return result


def multiply_tiles(source: jgl.SampleCovariance) -> None:
    """The products of all tiles of the scan, without comparisons."""
    scratch, n_classes = pairs._Scratch(), source.n_classes

    def multiply(tile: tuple[slice, slice]) -> None:
        shape = tuple(part.stop - part.start for part in tile)
        for k in range(n_classes):
            source.rough_correlations(k, *tile, out=scratch.tile[: shape[0] * shape[1]].reshape(shape))

    map_on_cores(multiply, list(pairs.tiles(source.n_variables)))


def one_case(graph: str, p: int, n_classes: int, tol: float) -> None:
    """Solve one case; a line of JSON on the standard output."""
    from jointglasso.solvers import sparse as sparse_solver

    rng = np.random.default_rng(0)
    for warm_up in ("chain", "random2"):  # compiles, and loads compiled code
        X = samples(warm_up, 2000, n_classes, rng)
        jgl.solve(jgl.SampleCovariance(X), LAMBDAS[warm_up], 0.0 if n_classes == 1 else 0.1)
    source = jgl.SampleCovariance(samples(graph, p, n_classes, rng))
    of = sparse_solver.SparseDual.of
    check = sparse_solver.SparseDual.of = Stopwatch(lambda *arguments: (dual := of(*arguments), dual.gap)[0])
    scan = screening.scan_on = Stopwatch(screening.scan_on)
    solve = Stopwatch(jgl.solve)
    solution = solve(source, LAMBDAS[graph], 0.0 if n_classes == 1 else 0.1, tol=tol)
    products = Stopwatch(multiply_tiles)
    if p <= PRODUCTS_UP_TO:
        products(source)
    print(json.dumps({
        "graph": graph, "p": p, "K": n_classes, "edges": solution.n_edges, "largest": solution.partition.largest,
        "steps": solution.n_iter, "scan": scan.seconds, "check": check.seconds,
        "rest": solve.seconds - scan.seconds - check.seconds, "elapsed": solve.elapsed, "products": products.seconds,
        "peak": peak_mebibytes(), "gap": solution.certificate.relative_gap, "methods": solution.methods,
    }))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", nargs="+", default=list(LAMBDAS), choices=list(LAMBDAS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 30_000, 100_000])
    parser.add_argument("--classes", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--timeout", type=float, help="seconds of a case, data included")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one_case(options.graphs[0], options.sizes[0], options.classes[0], options.tol)
        return
    describe_machine()
    print(f"# n = {SAMPLES} samples a class, tol {options.tol:g}; processor seconds of both cores,")
    print("# 'elapsed' by the clock; 'peak' is the memory of the whole process in MiB")
    print_header(
        "graph",
        "p",
        "K",
        "largest",
        "edges",
        "steps",
        "scan",
        "products",
        "solve",
        "check",
        "elapsed",
        "peak",
        "gap",
        "by",
    )
    seconds: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for p in options.sizes:  # smallest first: a run that is interrupted has whole sizes
        for graph in options.graphs:
            for n_classes in options.classes:
                arguments = ["--one", "--graphs", graph, "--sizes", str(p), "--classes", str(n_classes)]
                command = [sys.executable, __file__, *arguments, "--tol", str(options.tol)]
                try:
                    done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
                except subprocess.TimeoutExpired:
                    print(f"# {graph}, p={p}, K={n_classes}: stopped after {options.timeout:g} s", flush=True)
                    continue
                if done.returncode:
                    error = [f"exit status {done.returncode}", *done.stderr.strip().splitlines()][-1]
                    print(f"# {graph}, p={p}, K={n_classes}: {error}", flush=True)
                    continue
                r = json.loads(done.stdout.splitlines()[-1])
                seconds.setdefault((graph, n_classes), []).append((p, r["rest"] + r["check"]))
                print_row(
                    graph, p, n_classes, r["largest"], "; ".join(map(str, r["edges"])), r["steps"], f"{r['scan']:.1f}",
                    f"{r['products']:.1f}", f"{r['rest']:.2f}",
                    f"{r['check']:.2f}", f"{r['elapsed']:.0f}", f"{r['peak']:.0f}", f"{r['gap']:.0e}",
                    " ".join(f"{name} {count}" for name, count in r["methods"].items()),
                )  # fmt: skip
    for (graph, n_classes), measured in seconds.items():
        if len(measured) > 1:
            sizes, times = np.log(np.array(measured)).T
            slopes = ", ".join(f"{slope:.2f}" for slope in np.diff(times) / np.diff(sizes))
            print(f"# {graph}, K={n_classes}: time beside the scan grows as p to the power {slopes}", flush=True)


if __name__ == "__main__":
    main()
