"""How often the steps of a time-varying network are right, on data whose changes are known.

    python benchmarks/over_time.py --repetitions 5
    python benchmarks/over_time.py noise --repetitions 50

A chain of 16 variables with partial correlation 0.4 keeps its edges all the time; with a jump, a part of them changes
place in the middle. Told are, for penalties chosen by the joint extended BIC and a run on average: false changes, at
steps where nothing happens; changes at the steps that lead across the jump, and how many there are. "noise": edges in
windows of independent variables, where each is false.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import jointglasso as jgl


def precision(order: np.ndarray) -> np.ndarray:
    """Chain along an order of the variables."""
    p = len(order)
    Theta = np.eye(p)
    Theta[order[:-1], order[1:]] = Theta[order[1:], order[:-1]] = -0.4
    return Theta


def draw(n: int, p: int, jump: bool, rng: np.random.Generator) -> tuple[np.ndarray, list[np.ndarray]]:
    """Samples, and the networks of both halves."""
    order = np.arange(p)
    other = order.copy()
    if jump:
        other[-(p // 4) :] = other[-(p // 4) :][::-1]
        other[: p // 8 + 1] = np.roll(other[: p // 8 + 1], 1)
    halves = [precision(order), precision(other)]
    X = [rng.multivariate_normal(np.zeros(p), np.linalg.inv(Theta), size=n // 2) for Theta in halves]
    return np.concatenate(X), halves


def one_run(jump: bool, overlap: float, windows: int, seed: int) -> tuple[int, int, int, float, float]:
    """False changes, true ones found, true ones there are, and how well edges are found (MCC), with seconds."""
    rng = np.random.default_rng(seed)
    X, halves = draw(640, 16, jump, rng)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = jgl.TimeVaryingGraphicalLasso(windows=windows, overlap=overlap).fit(X)
    seconds = time.perf_counter() - began
    steps, middle = model.steps_, len(X) / 2
    table = model.windows_
    across = (table["first"].to_numpy()[:-1] < middle) & (table["last"].to_numpy()[1:] >= middle)
    there = int(np.triu((halves[0] != 0) != (halves[1] != 0), 1).sum())
    false = int(steps["changed"][~across].sum()) if jump else int(steps["changed"].sum())
    found = int(steps["changed"][across].sum()) if jump else 0
    truth, guess = [], []
    upper = np.triu_indices(16, 1)
    for k, Theta in enumerate(model.precision_):
        if table["first"][k] < middle <= table["last"][k]:
            continue
        truth.append(halves[int(table["first"][k] >= middle)][upper] != 0)
        guess.append(Theta.toarray()[upper] != 0)
    t, g = np.concatenate(truth), np.concatenate(guess)
    return false, found, there, float(np.corrcoef(t, g)[0, 1]) if g.any() else 0.0, seconds


def noise(repetitions: int) -> None:
    """Print false edges of independent variables: Gaussian, with t3 tails, and of variance that changes over time."""
    print("| data | association | data sets | with an edge (s.e.) | edges a window (s.e.) |")
    for margins in ("Gaussian", "t3 tails", "changing variance"):
        for association in ("pearson", "nonparanormal"):
            counts = []
            for seed in range(repetitions):
                rng = np.random.default_rng(seed)
                X = rng.standard_t(3, size=(360, 15)) if margins == "t3 tails" else rng.normal(size=(360, 15))
                if margins == "changing variance":
                    X *= np.exp(np.sin(np.arange(len(X)) / 40))[:, None]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = jgl.TimeVaryingGraphicalLasso(windows=6, association=association).fit(X)
                counts.append(np.mean(model.networks_.n_edges))
            columns = [np.array(counts) > 0, np.array(counts)]
            cells = [f"{x.mean():.2f} ({x.std(ddof=1) / len(x) ** 0.5:.2f})" for x in columns]
            print(f"| {margins} | {association} | {len(counts)} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print a line for each design."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="?", choices=["changes", "noise"], default="changes")
    parser.add_argument("--repetitions", type=int, default=5)
    given = parser.parse_args()
    if given.what == "noise":
        return noise(given.repetitions)
    print("jump  overlap  windows  false changes  changes found  there are  MCC of the edges  seconds")
    for jump in (False, True):
        for overlap, windows in ((0.0, 8), (0.5, 8)):
            runs = np.array([one_run(jump, overlap, windows, seed) for seed in range(given.repetitions)])
            false, found, there, mcc, seconds = runs.mean(axis=0)
            counts = f"{false:14.1f} {found:14.1f} {there:10.1f}"
            print(f"{jump!s:5} {overlap:7.1f} {windows:8} {counts} {mcc:17.2f} {seconds:8.1f}")
    return None


if __name__ == "__main__":
    main()
