"""Series as samples: false edges of `select` and false differences of `infer`, with and without `prewhiten`.

    python benchmarks/series.py [--repetitions 20]

Two classes with the same chain graph over 10 variables, 200 consecutive samples each, autocorrelation rho.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import jointglasso as jgl

P = 10
THETA = np.eye(P) + sum(np.diag(0.35 * (-1.0) ** np.arange(P - 1), side) for side in (-1, 1))


def series(rho: float, rng: np.random.Generator, n: int = 200) -> np.ndarray:
    X = rng.multivariate_normal(np.zeros(P), np.linalg.inv(THETA), size=n + 50, method="cholesky")
    for t in range(1, len(X)):
        X[t] += rho * X[t - 1]
    return X[50:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20)
    repetitions = parser.parse_args().repetitions
    warnings.simplefilter("ignore")
    print("| rho | samples | false edges a class | s.e. | data sets with a false difference at q < .1 |")
    for rho in (0.0, 0.5, 0.8):
        rows: dict[str, list] = {}
        for seed in range(repetitions):
            rng = np.random.default_rng([seed, int(10 * rho)])
            data = {name: series(rho, rng) for name in "ab"}
            ways = {
                "as they are": data,
                'model="ar"': jgl.prewhiten(data),
                'model="var"': jgl.prewhiten(data, model="var"),
            }
            for way, X in ways.items():
                false = [((Theta.toarray() != 0) & (THETA == 0)).sum() / 2 for Theta in jgl.select(X).precision]
                differences = (jgl.infer(X).differences().q_value < 0.1).sum()
                rows.setdefault(way, []).append((np.mean(false), differences > 0))
        for way, values in rows.items():
            (edges, share), error = (
                np.mean(values, axis=0),
                np.std([v[0] for v in values], ddof=1) / np.sqrt(repetitions),
            )
            print(f"| {rho} | {way} | {edges:.2f} | {error:.2f} | {share:.2f} |")


if __name__ == "__main__":
    main()
