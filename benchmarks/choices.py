"""Ways to choose the networks, on data with known graphs: penalties, concave shapes, and the choice between them.

    python benchmarks/choices.py run [--repetitions 10] [--first-seed 0] [--processes 2] [--out choices.jsonl]
    python benchmarks/choices.py table choices.jsonl
    python benchmarks/choices.py certified [--repetitions 10]
    python benchmarks/choices.py weak [--repetitions 10] [--first-seed 300]
    python benchmarks/choices.py ordered [--repetitions 10]

`table` also has the rule of `penalty="auto"` applied to the losses of "group" and "fused", against the better of both.

`weak`: designs of many weak edges. The default beside the best of all points that its search tried (for which one needs
the truth) and beside two stages: the choice at gamma = 0.2, of which pairs remain that `infer` finds in any class
(`omnibus`) or in all (`pooled_effect`) at a false discovery rate of 0.1, or edges of three quarters of 50 half-samples.

`certified`: a questionnaire of 25 items that depend on five factors (one class, 2,800 people, so that nearly all pairs
are edges), the 100 penalties of qgraph and the extended BIC of the penalised matrices: points whose number of edges is
not that of the exact solution, among those that `select` certifies and among the others.

`ordered`: six ordered classes of 50 samples with the same tree, of which a fifth is moved from the fourth class on, and
with values of their own. Group, fused, chain and "auto".

For each design and way: Matthews correlation with the true edges, false edges on noise, root mean squared error of the
partial correlations, and the loss per held-out sample of `selection.held_out`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

#: Kind of graph, variables, samples of each class, share of edges that differ, whether classes share values.
DESIGNS = {
    "trees K6 n80": ("tree", 60, (80,) * 6, 0.2, True),
    "blocks K3 n100": ("blocks", 60, (100,) * 3, 0.2, True),
    "preferential attachment K3 n120": ("attachment", 60, (120,) * 3, 0.2, True),
    "neighbours K3 n50/150/450": ("neighbours", 60, (50, 150, 450), 0.2, True),
    "identical trees K4 n80": ("tree", 60, (80,) * 4, 0.0, True),
    "same graph, other values K3 n150": ("tree", 60, (150,) * 3, 0.0, False),
    "hubs, other values K4 n150": ("hub", 60, (150,) * 4, 0.2, False),
    "blocks, other values K2 n150": ("blocks", 60, (150,) * 2, 0.2, False),
    "attachment, half moved K3 n150": ("attachment", 60, (150,) * 3, 0.5, True),
    "tree K2 n40": ("tree", 40, (40, 40), 0.2, True),
    "noise K3 n60": ("noise", 60, (60,) * 3, 0.0, True),
    "noise K2 n20": ("noise", 60, (20,) * 2, 0.0, True),
    "noise K2 n10": ("noise", 50, (10,) * 2, 0.0, True),
    "noise K2 n33/95": ("noise", 150, (33, 95), 0.0, True),
    "random K3 n80/160/160": ("random", 80, (80, 160, 160), 0.2, True),
    "band K4 n100": ("band", 60, (100,) * 4, 0.2, True),
    "random K2 n250 p25": ("random", 25, (250, 250), 0.2, True),
    "tree K2 n20": ("tree", 50, (20, 20), 0.2, True),
}

#: Designs of 20 samples a class, for which `run` has to be asked.
SMALL = {
    "same graph, other values K2 n20": ("tree", 50, (20, 20), 0.0, False),
    "hubs, other values K2 n20": ("hub", 45, (20, 20), 0.2, False),
    "tree, other values K2 n20": ("tree", 50, (20, 20), 0.2, False),
    "random K3 n20": ("random", 50, (20,) * 3, 0.2, True),
    "tree, half moved K2 n20": ("tree", 50, (20, 20), 0.5, True),
}
ALL_DESIGNS = DESIGNS | SMALL

WAYS = {
    "group": {},
    "fused": {"penalty": "fused"},
    "adaptive": {"penalty_shape": "adaptive"},
    "fused adaptive": {"penalty": "fused", "penalty_shape": "adaptive"},
    "log": {"penalty_shape": "log"},
    "mcp": {"penalty_shape": "mcp"},
    "auto": {"penalty": "auto"},
    "auto adaptive": {"penalty": "auto", "penalty_shape": "adaptive"},
}


def graph(kind: str, p: int, rng: np.random.Generator) -> np.ndarray:
    """Upper triangle of a graph."""
    edges = np.zeros((p, p), dtype=bool)
    if kind == "tree":
        for new in range(1, p):
            edges[rng.integers(max(0, new - 6), new), new] = True
    elif kind == "blocks":
        for first in range(0, p, 10):
            edges[first : first + 5, first : first + 5] = True
    elif kind == "attachment":
        degree = np.ones(p)
        for new in range(2, p):
            old = rng.choice(new, 2, replace=False, p=degree[:new] / degree[:new].sum())
            edges[old, new] = True
            degree[old] += 1
    elif kind == "neighbours":
        place = rng.random((p, 2))
        distance = np.linalg.norm(place[:, None] - place, axis=2)
        nearest = np.argsort(distance, axis=1)[:, 1:3]
        edges[np.repeat(np.arange(p), 2), nearest.ravel()] = True
        edges |= edges.T
    elif kind == "band":
        edges = np.isin(np.arange(p) - np.arange(p)[:, None], (1, 2))
    elif kind == "random":
        edges = rng.random((p, p)) < 3 / p
    elif kind == "hub":
        for hub in range(0, p, 15):
            edges[hub, hub + 1 : hub + 15] = True
    return np.triu(edges, 1)


def draw(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """Samples, labels, true graphs and precision matrices of a design."""
    from recovery import moved

    kind, p, sizes, share, shared = ALL_DESIGNS[name]
    rng = np.random.default_rng([20261118, seed, [*sorted(DESIGNS), *SMALL].index(name)])
    low, high = (0.15, 0.25) if kind == "hub" else (0.2, 0.4)
    edges = graph(kind, p, rng)

    def values() -> np.ndarray:
        return edges * rng.uniform(low, high, (p, p)) * rng.choice([-1, 1], (p, p))

    common, X, truth, precision = values(), [], [], []
    for n in sizes:
        own = moved(common if shared else values(), share, rng)
        own = own + own.T
        smallest = np.linalg.eigvalsh(own)[0]
        Theta = np.eye(p) + own * min(1.0, -0.9 / smallest if smallest < 0 else 1.0)
        X.append(rng.multivariate_normal(np.zeros(p), np.linalg.inv(Theta), size=n, method="cholesky"))
        truth.append(np.triu(own != 0, 1))
        precision.append(Theta)
    return np.vstack(X), np.repeat(np.arange(len(sizes)), sizes), truth, precision


def one(job: tuple[str, str, int]) -> dict:
    warnings.simplefilter("ignore")
    import jointglasso as jgl
    import recovery
    from jointglasso.data.prepare import Preparation
    from jointglasso.engine import SolveOptions
    from jointglasso.selection.evaluation import held_out_losses
    from jointglasso.selection.relaxed import default_relaxation
    from jointglasso.selection.resampling import read_data
    from small_samples import partial

    name, way, seed = job
    X, y, truth, precision = draw(name, seed)
    start = time.process_time()
    chosen = jgl.select(X, y, **WAYS[way])
    seconds = time.process_time() - start
    data = read_data(X, y, Preparation().checked())
    solve = WAYS[way] | {"penalty": chosen.solution.parameters["penalty"]}
    options = SolveOptions(weights="sqrt_sample_size", penalize_diagonal=False, **solve)
    loss = held_out_losses(data, chosen.solution, options, [default_relaxation(data.source)])[:, 0]
    error = np.mean(
        [(partial(a.toarray()) - partial(b)) ** 2 for a, b in zip(chosen.precision, precision, strict=True)]
    )
    found = recovery.edges(chosen.penalized_precision)
    return {
        "design": name, "way": way, "seed": seed, "seconds": seconds, "score": float(chosen.score),
        "mcc": recovery.matthews(found, truth), "rmse": float(np.sqrt(error)), "loss": loss.tolist(),
        "false": float(np.mean([(f & ~t).sum() for f, t in zip(found, truth, strict=True)])),
        "lambda1": chosen.lambda1, "lambda2": chosen.lambda2, "penalty": solve["penalty"], "on_edge": chosen.on_edge,
    }  # fmt: skip


def run(options: argparse.Namespace) -> None:
    jobs = [
        (name, way, seed)
        for seed in range(options.first_seed, options.first_seed + options.repetitions)
        for name in (SMALL if options.small else DESIGNS)
        for way in options.ways
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, context) as pool, Path(options.out).open("w") as file:
        for done in as_completed([pool.submit(one, job) for job in jobs]):
            file.write(json.dumps(done.result()) + "\n")
            file.flush()


def table(path: str) -> None:
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    ways = [way for way in WAYS if any(row["way"] == way for row in rows)]
    for quantity in ("mcc", "false", "rmse", "seconds"):
        print(f"\n{quantity}: mean (standard error of the paired difference to group)\n")
        print("| design | data sets | " + " | ".join(ways) + " |\n|" + "---|" * (2 + len(ways)))
        for name in ALL_DESIGNS:
            by_way = {
                way: {r["seed"]: r[quantity] for r in rows if (r["design"], r["way"]) == (name, way)} for way in ways
            }
            seeds = sorted(set.intersection(*(set(values) for values in by_way.values())))
            if len(seeds) < 2:
                continue
            values = {way: np.array([by_way[way][seed] for seed in seeds]) for way in ways}
            error = {way: (v - values["group"]).std(ddof=1) / np.sqrt(len(seeds)) for way, v in values.items()}
            cells = [
                f"{v.mean():.3f} ({error[way]:.3f})" if way != "group" else f"{v.mean():.3f}"
                for way, v in values.items()
            ]
            print(f"| {name} | {len(seeds)} | " + " | ".join(cells) + " |")

    gate(rows)


def gate(rows: list[dict]) -> None:
    """Matthews correlation of the smaller held-out loss of "group" and "fused", and of the better of them."""
    print("\n| design | data sets | group | fused | by loss | by loss - better of both |\n|" + "---|" * 6)
    for name in ALL_DESIGNS:
        pairs = [
            {r["way"]: r for r in rows if (r["design"], r["seed"]) == (name, seed) and r["way"] in ("group", "fused")}
            for seed in sorted({r["seed"] for r in rows})
        ]
        pairs = [pair for pair in pairs if len(pair) == 2 and not np.isnan(pair["group"]["mcc"])]
        if len(pairs) < 2 or name.startswith("noise"):
            continue
        group, fused = (np.array([pair[way]["mcc"] for pair in pairs]) for way in ("group", "fused"))
        is_fused = [np.mean(pair["fused"]["loss"]) < np.mean(pair["group"]["loss"]) for pair in pairs]
        by_loss = np.where(is_fused, fused, group)
        better = group if group.mean() > fused.mean() else fused
        change, error = (by_loss - better).mean(), (by_loss - better).std(ddof=1) / np.sqrt(len(pairs))
        means = " | ".join(f"{values.mean():.3f}" for values in (group, fused, by_loss))
        print(f"| {name} | {len(pairs)} | {means} | {change:.3f} ({error:.3f}) |")


WEAK = ("preferential attachment K3 n120", "blocks K3 n100", "attachment, half moved K3 n150", "noise K3 n60")


def two_stages(name: str, seed: int) -> dict[str, list[np.ndarray]]:
    """Edges of each class by rule."""
    import jointglasso as jgl
    import recovery

    X, y, truth, _ = draw(name, seed)
    chosen, weaker = jgl.select(X, y), jgl.select(X, y, gamma=0.2)
    first, tested, p = recovery.edges(weaker.penalized_precision), jgl.infer(X, y), X.shape[1]
    source = jgl.SampleCovariance.from_labels(X, y, scale="correlation")
    options = {"weights": "sqrt_sample_size", "penalize_diagonal": False}
    points = [recovery.edges(jgl.solve(source, *point, tol=1e-4, **options).precision) for point in chosen.grid]
    halves = {"lambda1": weaker.lambda1, "lambda2": weaker.lambda2, "n_subsamples": 50, "random_state": 0}
    stable = jgl.edge_stability(X, y, **halves).frequencies
    return {
        "default": recovery.edges(chosen.penalized_precision),
        "best of its points": max(points, key=lambda found: np.nan_to_num(recovery.matthews(found, truth))),
        "gamma 0.2": first,
        "and found in any class": [part & pairs_of(tested.omnibus(fdr=0.1), p) for part in first],
        "and found in all classes": [part & pairs_of(tested.pooled_effect(fdr=0.1), p) for part in first],
        "and stable": [part & np.triu(at.toarray() >= 0.75, 1) for part, at in zip(first, stable, strict=True)],
    }


def pairs_of(table, p: int) -> np.ndarray:
    """Upper triangle of the pairs in a table of `infer`, of variables x0, x1, ..."""
    found = np.zeros((p, p), dtype=bool)
    found[table["variable1"].str[1:].astype(int), table["variable2"].str[1:].astype(int)] = True
    return np.triu(found | found.T, 1)


def weak(repetitions: int, first_seed: int) -> None:
    import recovery

    warnings.simplefilter("ignore")
    for name in WEAK:
        values: dict[str, list[float]] = {}
        for seed in range(first_seed, first_seed + repetitions):
            truth = draw(name, seed)[2]
            for rule, found in two_stages(name, seed).items():
                false = np.mean([(f & ~t).sum() for f, t in zip(found, truth, strict=True)])
                values.setdefault(rule, []).append(
                    float(false) if name.startswith("noise") else recovery.matthews(found, truth)
                )
        print(f"\n{name}: {'false edges a class' if name.startswith('noise') else 'Matthews correlation'}")
        for rule, numbers in values.items():
            change = np.array(numbers) - np.array(values["default"])
            error = change.std(ddof=1) / np.sqrt(len(change))
            print(f"| {rule} | {np.mean(numbers):.3f} | {change.mean():+.3f} ({error:.3f}) |", flush=True)


def questionnaire(seed: int) -> np.ndarray:
    """Answers 1 to 6 of 2,800 people to 25 items, five for each of five correlated factors."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((25, 5))
    for item in range(25):
        loadings[item, item // 5] = rng.uniform(0.4, 0.8) * rng.choice([-1, 1])
        loadings[item] += rng.normal(0, 0.12, 5)
    covariance = loadings @ (0.2 + 0.8 * np.eye(5)) @ loadings.T
    covariance += np.diag(np.maximum(1.0 - np.diag(covariance), 0.2))
    answers = rng.multivariate_normal(np.zeros(25), covariance, size=2800)
    return np.clip(np.round(1.2 * answers + 3.5), 1, 6)


def certified(repetitions: int) -> None:
    import jointglasso as jgl

    warnings.simplefilter("ignore")
    print("| data set | points | other edges | certified | of these other edges | chosen | exact | processor seconds |")
    for seed in range(repetitions):
        source = jgl.SampleCovariance({"all": questionnaire(seed)}, scale="correlation")
        S = source.block(0, np.arange(25))
        top = float(np.abs(S - np.eye(25)).max())
        grid = [(value, 0.0) for value in np.geomspace(top, 0.01 * top, 100)]
        start = time.process_time()
        found = jgl.select(source, criterion="ebic", relaxed=False, patience=None, grid=grid)
        seconds = time.process_time() - start
        options = {"penalize_diagonal": False, "tol": 1e-12, "prove": True}
        exact = np.array([jgl.solve(source, *point, **options).n_edges[0] for point in found.grid])
        other = found.records["edges"] != exact
        proved = found.records.get("undecided", np.ones(len(exact))) == 0  # older versions do not say
        chosen = found.records["edges"][found.best], exact[found.best]
        counts = len(exact), other.sum(), proved.sum(), (other & proved).sum(), *chosen
        print(f"| {seed} | " + " | ".join(map(str, counts)) + f" | {seconds:.2f} |", flush=True)


def ordered(repetitions: int) -> None:
    import pandas as pd

    import jointglasso as jgl
    import recovery

    warnings.simplefilter("ignore")
    ways, p, n = ("group", "fused", "chain", "auto"), 20, 50
    print("| values | data sets | " + " | ".join(ways) + " | auto took chain |\n|" + "---|" * (3 + len(ways)))
    for shared in (True, False):
        rows = []
        for seed in range(repetitions):
            rng = np.random.default_rng([20261119, seed])
            edges = graph("tree", p, rng)
            values = [edges * rng.uniform(0.2, 0.4, (p, p)) * rng.choice([-1, 1], (p, p)) for _ in range(6)]
            entries = [values[0]] * 3 + [recovery.moved(values[0], 0.2, rng)] * 3 if shared else values
            samples = {}
            for k, own in enumerate(entries):
                Theta = np.eye(p) * (1.1 + max(0.0, -np.linalg.eigvalsh(own + own.T)[0] - 1.0)) + own + own.T
                samples[k] = rng.multivariate_normal(np.zeros(p), np.linalg.inv(Theta), size=n)
            y = pd.Categorical(np.repeat(list(samples), n), ordered=True)
            found = [jgl.select(np.vstack(list(samples.values())), y, penalty=way) for way in ways]
            truth = [own != 0 for own in entries]
            row = [recovery.matthews(recovery.edges(chosen.penalized_precision), truth) for chosen in found]
            rows.append([*row, found[-1].solution.parameters["penalty"] == "chain"])
        cells = " | ".join(
            f"{value.mean():.3f} ({value.std(ddof=1) / len(rows) ** 0.5:.3f})" for value in np.array(rows).T
        )
        print(f"| {'shared' if shared else 'own'} | {repetitions} | {cells} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--repetitions", type=int, default=10)
    running.add_argument("--first-seed", type=int, default=0)
    running.add_argument("--small", action="store_true", help="designs of 20 samples a class")
    running.add_argument("--ways", nargs="*", default=list(WAYS))
    running.add_argument("--processes", type=int, default=2)
    running.add_argument("--out", default="choices.jsonl")
    commands.add_parser("table").add_argument("file")
    commands.add_parser("certified").add_argument("--repetitions", type=int, default=10)
    of_weak = commands.add_parser("weak")
    of_weak.add_argument("--repetitions", type=int, default=10)
    of_weak.add_argument("--first-seed", type=int, default=300)
    commands.add_parser("ordered").add_argument("--repetitions", type=int, default=10)
    options = parser.parse_args()
    if options.command == "ordered":
        ordered(options.repetitions)
    elif options.command == "certified":
        certified(options.repetitions)
    elif options.command == "weak":
        weak(options.repetitions, options.first_seed)
    else:
        run(options) if options.command == "run" else table(options.file)


if __name__ == "__main__":
    main()
