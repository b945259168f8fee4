"""`select` with few samples: false edges on noise, recovery of known graphs, and the values that are shown.

    python benchmarks/small_samples.py [noise] [recovery] [values] [--repetitions 50] [--processes 2] [--old FOLDER]

`noise`: false edges a class on independent normal data, the fraction of data sets with any, and seconds, by sample
sizes, number of variables, and way of choosing.
`recovery`: Matthews correlation with the true edges of the designs of `recovery.py`, and of some with few samples.
`values`: expected loss ``<Sigma, Theta> - log det Theta`` against the empty network (negative is better) and root mean
squared error of the partial correlations, of the penalised values, the values shown, and the maximum likelihood.

``--old`` names the `src` folder of an older version to run instead, for a comparison on the same data.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np

NOISE = [((6, 6), 40), ((10, 10), 50), ((9, 8), 300), ((20, 20), 100), ((33, 95), 200), ((60,) * 4, 100),
         ((100,) * 3, 100), ((200, 200), 100)]  # fmt: skip

WAYS = {
    "select": {},
    "fused": {"penalty": "fused"},
    "chain": {"penalty": "chain"},
    "cv": {"criterion": "cv", "random_state": 0},
    "ebic": {"criterion": "ebic"},
}

FEW = {
    "band p50 K2 n20": ("band", 50, (20, 20), 0.2),
    "scale-free p50 K2 n20": ("scale-free", 50, (20, 20), 0.2),
    "hub p100 K2 n30": ("hub", 100, (30, 30), 0.2),
    "scale-free p50 K2 n40": ("scale-free", 50, (40, 40), 0.2),
    "random p200 K2 n60": ("random", 200, (60, 60), 0.2),
    "scale-free p300 K2 n100": ("scale-free", 300, (100, 100), 0.2),
    "random p25 K2 n250": ("random", 25, (250, 250), 0.2),
    "random p10 K2 n100": ("random", 10, (100, 100), 0.2),
    "random p300 K2 n20": ("random", 300, (20, 20), 0.2),
}


def noise_job(job: tuple[int, str, int]) -> tuple[float, bool, float]:
    import jointglasso as jgl

    number, way, seed = job
    sizes, p = NOISE[number]
    X = np.random.default_rng([1000 + seed, p, *sizes]).normal(size=(sum(sizes), p))
    start = time.perf_counter()
    edges = jgl.select(X, np.repeat(np.arange(len(sizes)), sizes), **WAYS[way]).solution.n_edges
    return float(np.mean(edges)), sum(edges) > 0, time.perf_counter() - start


def draw(name: str, seed: int):
    """Samples, labels, true graphs and covariances of a design."""
    import recovery

    recovery.DESIGNS |= FEW
    return recovery.draw(name, 9000 + seed)


def recovery_job(job: tuple[str, int]) -> float:
    import jointglasso as jgl
    import recovery

    X, y, truth, _ = draw(*job)
    return recovery.matthews(recovery.edges(jgl.select(X, y).penalized_precision), truth)


def partial(Theta: np.ndarray) -> np.ndarray:
    scale = 1.0 / np.sqrt(np.diagonal(Theta))
    return (-Theta * np.outer(scale, scale))[np.triu_indices(len(Theta), 1)]


def values_job(job: tuple[str, int]) -> list[float]:
    import jointglasso as jgl

    X, y, _, Sigma = draw(*job)
    chosen = jgl.select(X, y)
    source = jgl.SampleCovariance.from_labels(X, y, scale="correlation")
    likeliest = jgl.refit(source, chosen.solution, on_failure="ridge").precision
    row = []
    for matrices in (chosen.penalized_precision, chosen.precision, likeliest):
        loss, error = 0.0, 0.0
        for k, Theta in enumerate(matrices):
            deviation = X[y == k].std(axis=0)
            R = Sigma[k] / np.outer(deviation, deviation)
            dense = Theta.toarray()
            loss += (R * dense).sum() - np.linalg.slogdet(dense)[1] - np.trace(R)
            error += ((partial(dense) - partial(np.linalg.inv(Sigma[k]))) ** 2).mean()
        row += [loss / len(Sigma), np.sqrt(error / len(Sigma))]
    return row


def mean_and_error(rows: list) -> tuple[np.ndarray, np.ndarray]:
    values = np.array(rows, dtype=float)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def start(old: str | None) -> None:
    warnings.simplefilter("ignore")
    if old:
        sys.path.insert(0, old)


def rows_of(pool: ProcessPoolExecutor, function, keys: list[tuple], repetitions: int):
    """Results of all repetitions of each key, as they are done."""
    jobs = [(*key, seed) for key in keys for seed in range(repetitions)]
    results = pool.map(function, jobs)
    for key in keys:
        yield key, [next(results) for _ in range(repetitions)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=["noise", "recovery", "values"])
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--old")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, context, start, (options.old,)) as pool:
        if "noise" in options.tables:
            keys = [(n, way) for n, (_, p) in enumerate(NOISE) for way in WAYS if way == "select" or p <= 50]
            if options.old:  # at 9 + 8 samples of 300 variables a selection took minutes
                keys = [(n, way) for n, way in keys if way == "select" and NOISE[n][1] < 300]
            print("| samples | variables | way | false edges a class | s.e. | data sets with any | seconds |")
            for (n, way), rows in rows_of(pool, noise_job, keys, options.repetitions):
                (edges, share, seconds), (error, *_) = mean_and_error(rows)
                sizes = " + ".join(map(str, NOISE[n][0]))
                print(f"| {sizes} | {NOISE[n][1]} | {way} | {edges:.2f} | {error:.2f} | {share:.2f} | {seconds:.1f} |")
        import recovery

        if "recovery" in options.tables:
            names = [*(name for name in recovery.DESIGNS if not name.startswith("noise")), *FEW]
            print("| design | Matthews correlation | s.e. |")
            for (name,), rows in rows_of(pool, recovery_job, [(name,) for name in names], options.repetitions):
                mean, error = mean_and_error(rows)
                print(f"| {name} | {mean:.3f} | {error:.3f} |")
        if "values" in options.tables and not options.old:
            names = ["scale-free p50 K2 n100", "hub p100 K4 n150", *FEW]
            print("| design | loss: penalised | shown | maximum likelihood | RMSE: penalised | shown | likelihood |")
            for (name,), rows in rows_of(pool, values_job, [(name,) for name in names], options.repetitions):
                mean, error = mean_and_error(rows)
                cells = [f"{mean[i]:.3f} ({error[i]:.3f})" for i in (0, 2, 4)] + [f"{mean[i]:.4f}" for i in (1, 3, 5)]
                print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
