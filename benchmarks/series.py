"""Series as samples: false edges of `select`, levels of `infer` and `network_test`, with and without `prewhiten`.

    python benchmarks/series.py [--repetitions 20]

Two classes with the same chain graph over 10 variables, 200 consecutive samples each, autocorrelation rho. Blocks have
the length that the warning names.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import jointglasso as jgl
from common import print_header, print_row
from jointglasso.data.windows import block_length, lag_one

P = 10
THETA = np.eye(P) + sum(np.diag(0.35 * (-1.0) ** np.arange(P - 1), side) for side in (-1, 1))


def series(rho: float, rng: np.random.Generator, n: int = 200) -> np.ndarray:
    X = rng.multivariate_normal(np.zeros(P), np.linalg.inv(THETA), size=n + 50, method="cholesky")
    for t in range(1, len(X)):
        X[t] += rho * X[t - 1]
    return X[50:]


TRUE = np.round(-THETA / np.sqrt(np.outer(np.diag(THETA), np.diag(THETA))), 12)[np.triu_indices(P, 1)]


def measure(data: dict, blocks: bool = False) -> list[float]:
    """False edges of `select`, coverage and level of `infer`, a false difference, a rejection by `network_test`."""
    arrays = {name: np.asarray(X) for name, X in data.items()}
    groups = None
    if blocks:
        length = max(block_length(lag_one(X)[0], len(X)) for X in arrays.values())
        groups = {name: np.arange(len(X)) // length for name, X in arrays.items()}
    tested = jgl.infer(arrays, groups=groups)
    edges = tested.edges()
    place = {name: number for number, name in enumerate(tested.variable_names)}
    rho = np.zeros((P, P))
    rho[np.triu_indices(P, 1)] = TRUE
    truth = (rho + rho.T)[edges["variable1"].map(place), edges["variable2"].map(place)]
    covered, rejected = edges["low"].le(truth) & edges["high"].ge(truth), edges["p_value"].le(0.05)[truth == 0]
    inferred = [covered.mean(), rejected.mean(), float((tested.differences().q_value < 0.1).any())]
    if blocks:
        return [np.nan, *inferred, np.nan]
    false = np.mean([((Theta.toarray() != 0) & (THETA == 0)).sum() / 2 for Theta in jgl.select(arrays).precision])
    test = jgl.network_test(arrays, n_permutations=99, random_state=0)
    return [false, *inferred, float(test.p_values["adaptive"] <= 0.05)]


def cell(values: np.ndarray) -> str:
    if np.isnan(values).any():
        return "-"
    return f"{values.mean():.3f} ({values.std(ddof=1) / np.sqrt(len(values)):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20)
    repetitions = parser.parse_args().repetitions
    warnings.simplefilter("ignore")
    columns = ["false edges a class", "coverage .95", "level .05", "any false difference", "`network_test` p <= .05"]
    print_header("rho", "samples", *columns)
    for rho in (0.0, 0.5, 0.8):
        rows: dict[str, list[list[float]]] = {}
        for seed in range(repetitions):
            rng = np.random.default_rng([seed, int(10 * rho)])
            data = {name: series(rho, rng) for name in "ab"}
            for way, samples, blocks in (
                ("as they are", data, False),
                ("blocks (`groups=`)", data, True),
                ('`prewhiten`, "ar"', jgl.prewhiten(data), False),
                ('`prewhiten`, "var"', jgl.prewhiten(data, model="var"), False),
            ):
                rows.setdefault(way, []).append(measure(samples, blocks))
        for way, values in rows.items():
            print_row(rho, way, *(cell(column) for column in np.array(values).T))


if __name__ == "__main__":
    main()
