"""Genome scale from samples: time against the bare tile products, memory, and real data at the paper's size.

    python benchmarks/genome_scale.py modules --p 20000 --repeats 5
    python benchmarks/genome_scale.py tcga FILE.npz [--fraction 0.1] [--tol 1e-6]
    python benchmarks/genome_scale.py paper FILE.npz --genes gpl96_probe_symbol.csv.gz --setting 5 [--checkpoint FOLDER]
    python benchmarks/genome_scale.py path [FILE.npz] --p 2000 --points 20

modules: K=3 classes of n=200 samples, modules of correlated variables in noise, lambda1 + lambda2 above the percolation
threshold of noise. The yardstick is the product of the same float32 tiles on the same threads, and nothing else.
tcga: TCGA Agilent expression, tumours, all genes without missing values, correlations by class, the smallest lambdas
(at lambda2 = 0.1 lambda1) whose largest block is at most a fraction of the genes.
paper: the genes that are also on GPL96, raw covariances, the five settings of the paper's Table 2.
path: a path of warm-started solves against as many separate ones, on the genes of largest variance, or without a file
on modules in noise.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import threading
import time

import numpy as np

import jointglasso as jgl
from common import describe_machine, memory_of, peak_mebibytes, print_header, print_row
from jointglasso._threads import map_on_threads
from jointglasso.config import TILE
from jointglasso.screening.curve import critical_correlation
from jointglasso.screening.pairs import tiles

SETTINGS = {1: (0.1, 0.5), 2: (0.2, 0.2), 3: (0.3, 0.1), 4: (0.4, 0.05), 5: (0.5, 0.01)}

#: Hours of the first ten iterations of HADMM, LADMM and GADMM: the paper's Table 2 (10,726 genes of other data, three
#: classes, another machine).
PAPER_HOURS = {
    1: ("3.46", "> 20", "4.2"),
    2: ("8.23", "> 20", "> 20"),
    3: ("3.9", "13.6", "> 20"),
    4: ("1.71", "3.72", "11.04"),
    5: ("1.11", "1.98", "6.93"),
}


def module_samples(p: int, n: int, n_classes: int, seed: int = 0) -> list[np.ndarray]:
    """A quarter of the variables in modules of 3 to 15, one factor each, loadings 0.5 to 0.9; the rest noise."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(3, 16, p)
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), p // 4)]
    module = np.repeat(np.arange(len(sizes)), sizes)
    loading = draw.uniform(0.5, 0.9, len(module))
    samples = []
    for _ in range(n_classes):
        X = draw.standard_normal((n, p))
        factors = draw.standard_normal((n, len(sizes)))
        X[:, : len(module)] *= np.sqrt(1.0 - loading**2)
        X[:, : len(module)] += factors[:, module] * loading
        samples.append(X)
    return samples


def bare_products(source: jgl.SampleCovariance) -> float:
    """Seconds of the products of all float32 tiles, on the threads that the screen uses."""
    own = threading.local()

    def multiply(tile: tuple[slice, slice]) -> None:
        if not hasattr(own, "scratch"):
            own.scratch = np.empty(TILE * TILE, dtype=np.float32)
        shape = tuple(side.stop - side.start for side in tile)
        out = own.scratch[: shape[0] * shape[1]].reshape(shape)
        for k in range(source.n_classes):
            source.rough_correlations(k, *tile, out=out)

    began = time.perf_counter()
    map_on_threads(multiply, list(tiles(source.n_variables)))
    return time.perf_counter() - began


def modules(arguments: argparse.Namespace) -> None:
    jgl.warm_kernels()
    print_header("p", "bare s", "solve s", "ratio", "peak MiB", "largest", "edges", "gap")
    for p in arguments.p:
        lambda2 = 0.1
        lambda1 = 1.05 * critical_correlation(200, p) - lambda2 + 0.08
        samples = module_samples(p, 200, 3)
        bare = seconds = np.inf
        for _ in range(arguments.repeats):  # in turns, the best of each: the machine is shared, noise only adds
            began = time.perf_counter()
            source = jgl.SampleCovariance(samples, scale="correlation")
            solution = jgl.solve(source, lambda1, lambda2)
            seconds = min(seconds, time.perf_counter() - began)
            bare = min(bare, bare_products(source))
        print_row(
            p, f"{bare:.1f}", f"{seconds:.1f}", f"{seconds / bare:.2f}", f"{peak_mebibytes():.0f}",
            solution.partition.largest, sum(solution.n_edges), f"{solution.certificate.relative_gap:.0e}",
        )  # fmt: skip
        print(f"  lambda1={lambda1:.3f} lambda2={lambda2:.3f} timings={_short(solution.timings)}")
        del samples, source, solution


def tumours(path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with np.load(path) as stored:
        X, y, samples, genes = stored["X"], stored["y"], stored["samples"], stored["features"]
    tumour = np.array([name[13:15] == "01" for name in samples])
    complete = np.isfinite(X).all(axis=0)
    return X[tumour][:, complete], y[tumour], genes[complete]


def tcga(arguments: argparse.Namespace) -> None:
    jgl.warm_kernels()
    X, y, _ = tumours(arguments.file)
    source = jgl.SampleCovariance.from_labels(X, y, scale="correlation")
    p = source.n_variables
    began = time.perf_counter()
    curve = jgl.component_curve(source, 0.1)
    lambda1, lambda2 = curve.smallest_lambda(int(arguments.fraction * p))
    print(f"p={p}, curve and choice of lambda {time.perf_counter() - began:.1f} s: {curve}")
    print(f"lambda1={lambda1:.4f}, lambda2={lambda2:.4f}: {jgl.plan(source, lambda1, lambda2)}")
    run(source, lambda1, lambda2, arguments.tol, None)


def paper(arguments: argparse.Namespace) -> None:
    jgl.warm_kernels()
    X, y, genes = tumours(arguments.file)
    with gzip.open(arguments.genes, "rt") as stream:
        known = {row["symbol"] for row in csv.DictReader(stream)}
    kept = np.array([gene in known for gene in genes])
    source = jgl.SampleCovariance.from_labels(X[:, kept], y)
    lambda1, lambda2 = SETTINGS[arguments.setting]
    print(f"p={source.n_variables}, setting {arguments.setting}: {jgl.plan(source, lambda1, lambda2)}")
    run(source, lambda1, lambda2, arguments.tol, arguments.checkpoint)
    hours = ", ".join(
        f"{name} {h}" for name, h in zip(("HADMM", "LADMM", "GADMM"), PAPER_HOURS[arguments.setting], strict=True)
    )
    print(f"paper, other data and machine, first ten iterations, hours: {hours}")


def run(source: jgl.SampleCovariance, lambda1: float, lambda2: float, tol: float, checkpoint: str | None) -> None:
    def print_iteration(iteration: jgl.Iteration) -> None:
        gap = "-" if iteration.gap is None else f"{iteration.gap:.3g}"
        print(f"  {iteration.seconds:8.1f} s  objective {iteration.objective:.8g}  gap {gap}  "
              f"groups {iteration.groups_done}/{iteration.n_groups}", flush=True)  # fmt: skip

    seconds, peak, solution = memory_of(
        lambda: jgl.solve(source, lambda1, lambda2, tol=tol, callback=print_iteration, checkpoint=checkpoint)
    )
    print(
        f"{seconds:.1f} s, {peak:.0f} MiB beyond the data, {peak_mebibytes():.0f} MiB in all, {solution.status}\n"
        f"  largest block {solution.partition.largest}, edges {solution.n_edges}, proved present "
        f"{solution.certificate.edges_present}, timings {_short(solution.timings)}, methods {solution.methods}"
    )


def path(arguments: argparse.Namespace) -> None:
    jgl.warm_kernels()
    if arguments.file is None:
        source = jgl.SampleCovariance(module_samples(arguments.p, 200, 3), scale="correlation")
    else:
        X, y, _ = tumours(arguments.file)
        chosen = np.sort(np.argsort(-X.var(axis=0))[: arguments.p])
        source = jgl.SampleCovariance.from_labels(X[:, chosen], y, scale="correlation")
    top = jgl.component_curve(source, 0.2).lambda_max
    lambdas = [(lam, 0.2 * lam) for lam in np.geomspace(0.99 * top, arguments.lowest * top, arguments.points)]
    began = time.perf_counter()
    on_path = [solution.objective for solution in jgl.solve_path(source, lambdas)]
    together = time.perf_counter() - began
    began = time.perf_counter()
    separate = [jgl.solve(source, *point).objective for point in lambdas]
    apart = time.perf_counter() - began
    worst = max(abs(a - b) / abs(b) for a, b in zip(on_path, separate, strict=True))
    print(
        f"p={arguments.p}, {arguments.points} points from {lambdas[0][0]:.3f} to {lambdas[-1][0]:.3f}: path "
        f"{together:.1f} s, separate {apart:.1f} s, ratio {apart / together:.2f}; objectives agree to {worst:.1e}"
    )


def _short(timings: dict[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.1f}" for name, seconds in timings.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("modules")
    one.add_argument("--p", type=int, nargs="+", default=[20_000])
    one.add_argument("--repeats", type=int, default=1)
    two = kinds.add_parser("tcga")
    two.add_argument("file")
    two.add_argument("--fraction", type=float, default=0.1)
    two.add_argument("--tol", type=float, default=1e-6)
    three = kinds.add_parser("paper")
    three.add_argument("file")
    three.add_argument("--genes", required=True)
    three.add_argument("--setting", type=int, choices=sorted(SETTINGS), default=5)
    three.add_argument("--tol", type=float, default=1e-4)
    three.add_argument("--checkpoint")
    four = kinds.add_parser("path")
    four.add_argument("file", nargs="?")
    four.add_argument("--p", type=int, default=2000)
    four.add_argument("--points", type=int, default=20)
    four.add_argument("--lowest", type=float, default=0.6)
    arguments = parser.parse_args()
    describe_machine()
    {"modules": modules, "tcga": tcga, "paper": paper, "path": path}[arguments.kind](arguments)


if __name__ == "__main__":
    main()
