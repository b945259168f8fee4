"""The statistics of `select`, `infer` and `network_test`, on data with a known truth and beside other ways.

    python benchmarks/simulations.py [selection | inference | tails | ordinal | missing | permutation | scale | real |
        all] [--repetitions 40] [--seed 0] [--jobs 1] [--data FOLDER]

`selection`: Matthews correlation with the true edges, false edges on noise and seconds, of `select` (default, and as in
version 0.1), of each class by itself, of all as one, and of scikit-learn and GGLasso by their own choice.
`inference`: 95 % intervals of edges and non-edges, level of tests at 0.05 and 0.001, false discovery rate at 0.1 and
power, by design; edges within classes, differences between the first two, heterogeneity of all.
`tails`: the same for data that are not Gaussian, by standard error and association.
`ordinal`: the same for answers in categories, `association="mixed"` beside normal scores of the codes.
`missing`: the same with values missing at random, `missing="em"`.
`permutation`: level of `jointglasso.network_test` where the graphs are equal, and its time.
`scale`: processor seconds of `infer` on 20,000 variables against those of the screening scan of its support step.
`real`: one class of real data is halved at random; a difference that is found is false.
Beside it in every table: the textbook test of partial correlations (inverse of S, Fisher's z), where p < n.

(Not called `statistics.py`: a script of that name hides the module of Python's own library.)
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy import stats

import jointglasso as jgl
import recovery
from common import best_of, describe_machine, print_header, print_row
from jointglasso.inference.fdr import q_values
from jointglasso.inference.permutation import STATISTICS

Matrices = list[np.ndarray]


# Truths


def scale_free(p: int, rng: np.random.Generator) -> set[tuple[int, int]]:
    """Every new variable joins one that is there already, those with many neighbours more likely."""
    edges, ends = {(0, 1)}, [0, 1]
    for new in range(2, p):
        old = int(rng.choice(ends))
        edges.add((old, new))
        ends += [old, new]
    return edges


def band(p: int, rng: np.random.Generator) -> set[tuple[int, int]]:
    return {(i, i + d) for d in (1, 2) for i in range(p - d)}


def hub(p: int, rng: np.random.Generator) -> set[tuple[int, int]]:
    return {(i - i % 10, i) for i in range(p) if i % 10}


def random_graph(p: int, rng: np.random.Generator) -> set[tuple[int, int]]:
    pairs = np.column_stack(np.triu_indices(p, 1))
    return {(int(i), int(j)) for i, j in pairs[rng.choice(len(pairs), 3 * p // 2, replace=False)]}


def empty(p: int, rng: np.random.Generator) -> set[tuple[int, int]]:
    return set()


GRAPHS: dict[str, Callable[[int, np.random.Generator], set[tuple[int, int]]]] = {
    "scale-free": scale_free, "band": band, "hub": hub, "random": random_graph, "noise": empty,
}  # fmt: skip


def truths(graph: str, p: int, n_classes: int, rng: np.random.Generator, moved: float = 0.2) -> Matrices:
    """Precision matrices of variables of variance 1: one graph, of which every class has moved some edges."""
    base = sorted(GRAPHS[graph](p, rng))
    pairs = np.column_stack(np.triu_indices(p, 1))
    values = {edge: rng.uniform(0.25, 0.6) * rng.choice([-1, 1]) for edge in base}
    out = []
    for _ in range(n_classes):
        own = dict(values)
        for edge in base:
            if rng.random() < moved:
                del own[edge]
                i, j = pairs[rng.integers(len(pairs))]
                own.setdefault((int(i), int(j)), rng.uniform(0.25, 0.6) * rng.choice([-1, 1]))
        Theta = np.zeros((p, p))
        for (i, j), value in own.items():
            Theta[i, j] = Theta[j, i] = value
        smallest = np.linalg.eigvalsh(Theta)[0]
        Theta += (max(-smallest, 0.0) + 0.3) * np.eye(p)
        deviation = np.sqrt(np.diagonal(np.linalg.inv(Theta)))
        out.append(Theta * np.outer(deviation, deviation))
    return out


def partial(Theta: np.ndarray) -> np.ndarray:
    scale = 1.0 / np.sqrt(np.diagonal(Theta))
    return (-Theta * np.outer(scale, scale))[np.triu_indices(len(Theta), 1)]


# Samples


def normal(Theta: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((n, len(Theta))) @ np.linalg.cholesky(np.linalg.inv(Theta)).T


def student(Theta: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Multivariate t with 5 degrees of freedom: the same graph of correlations, heavy tails."""
    return normal(Theta, n, rng) / np.sqrt(rng.chisquare(5, (n, 1)) / 5)


def exponentials(Theta: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    return np.exp(normal(Theta, n, rng))


def cubes(Theta: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    return normal(Theta, n, rng) ** 3


Sampler = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Design:
    graph: str
    p: int
    sizes: tuple[int, ...]
    sampler: Sampler = normal

    def __str__(self) -> str:
        sizes = "/".join(map(str, dict.fromkeys(self.sizes)))
        kind = "" if self.sampler is normal else f", {self.sampler.__name__}"
        return f"{self.graph} p{self.p} K{len(self.sizes)} n{sizes}{kind}"

    def draw(self, rng: np.random.Generator) -> tuple[Matrices, dict[str, np.ndarray]]:
        found = truths(self.graph, self.p, len(self.sizes), rng)
        samples = {
            f"c{k}": self.sampler(Theta, n, rng) for k, (Theta, n) in enumerate(zip(found, self.sizes, strict=True))
        }
        return found, samples


DESIGNS = [
    Design("scale-free", 50, (100, 100)),
    Design("scale-free", 100, (400, 400)),
    Design("band", 100, (100, 300)),
    Design("random", 100, (200, 200, 200)),
    Design("hub", 100, (200, 200)),
    Design("noise", 100, (100, 100)),
]

TAILS = [
    Design("scale-free", 50, (150, 150)),
    Design("scale-free", 50, (150, 150), student),
    Design("scale-free", 60, (120, 240), student),
    Design("scale-free", 50, (150, 150), exponentials),
    Design("hub", 80, (200, 100), cubes),
    Design("noise", 100, (50, 200)),
]


# What is counted


@dataclass
class Count:
    """Shares over repetitions: of intervals that cover, of tests that reject, of discoveries that are false."""

    edges: list[float] = field(default_factory=list)
    non_edges: list[float] = field(default_factory=list)
    level: list[float] = field(default_factory=list)
    strict: list[float] = field(default_factory=list)
    false: list[float] = field(default_factory=list)
    power: list[float] = field(default_factory=list)

    def add(self, truth: np.ndarray, p: np.ndarray, covered: np.ndarray | None = None) -> None:
        """One class or comparison: the truth is 0 where the hypothesis holds."""
        null = truth == 0
        if covered is not None:
            self.edges += [covered[~null].mean()] if (~null).any() else []
            self.non_edges.append(covered[null].mean())
        self.level.append((p[null] <= 0.05).mean())
        self.strict.append((p[null] <= 0.001).mean())
        found = q_values(p, len(p)) <= 0.1
        self.false.append(found[null].sum() / max(1, found.sum()))
        self.power += [found[~null].mean()] if (~null).any() else []

    def row(self) -> list[str]:
        lists = (self.edges, self.non_edges, self.level, self.strict, self.false, self.power)
        digits = (3, 3, 3, 4, 3, 2)
        return [f"{np.mean(part):.{d}f}" if part else "-" for part, d in zip(lists, digits, strict=True)]


COLUMNS = ["edges", "non-edges", "level .05", "level .001", "FDR .1", "power"]


def in_order(table, names: list[str]):
    """A table of `Inference` in the order of the upper triangle."""
    place = {name: i for i, name in enumerate(names)}
    return table.assign(i=table.variable1.map(place), j=table.variable2.map(place)).sort_values(["i", "j"])


def score(truth: Matrices, found: jgl.Inference, edges: Count, differences: Count, Q: Count) -> None:
    """Add one repetition to the counts."""
    names, rho = list(found.variable_names), [partial(Theta) for Theta in truth]
    table = found.edges()
    for k, name in enumerate(found.class_names):
        mine = in_order(table[table["class"] == name], names)
        edges.add(rho[k], mine.p_value.to_numpy(), ((mine.low <= rho[k]) & (rho[k] <= mine.high)).to_numpy())
    if len(truth) < 2:
        return
    table = found.differences()
    mine = in_order(table[(table.class1 == "c0") & (table.class2 == "c1")], names)
    gap = np.where(np.isclose(rho[0], rho[1], atol=1e-9), 0.0, rho[0] - rho[1])
    differences.add(gap, mine.p_value.to_numpy(), ((mine.low <= gap) & (gap <= mine.high)).to_numpy())
    spread = np.ptp(rho, axis=0)
    Q.add(np.where(spread < 1e-9, 0.0, spread), in_order(found.heterogeneity(), names).p_value.to_numpy())


def textbook(truth: Matrices, samples: dict[str, np.ndarray], count: Count) -> None:
    """Partial correlations from the inverse of S, Fisher's z, the number of variables taken off."""
    for Theta, X in zip(truth, samples.values(), strict=True):
        n, p = X.shape
        if n < p + 10:
            return
        rho, error = partial(np.linalg.inv(np.corrcoef(X.T))), 1.0 / np.sqrt(n - p - 1.0)
        z, true = np.arctanh(rho), partial(Theta)
        covered = np.abs(z - np.arctanh(true)) <= stats.norm.ppf(0.975) * error
        count.add(true, 2.0 * stats.norm.sf(np.abs(z) / error), covered)


def repeat(design: Design, repetitions: int, seed: int) -> Iterator[tuple[Matrices, dict[str, np.ndarray]]]:
    for number in range(repetitions):
        yield design.draw(np.random.default_rng([seed, number, design.p, *design.sizes]))


def selection_table(repetitions: int, seed: int, jobs: int) -> None:
    """Choices of networks, a tenth of the repetitions."""
    repetitions = max(1, repetitions // 10)
    work = [(name, seed + number) for name in recovery.DESIGNS for number in range(repetitions)]
    if jobs == 1:
        found = [recovery.measure(job) for job in work]
    else:
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            found = list(pool.map(recovery.measure, work))
    ways = [way for way in recovery.WAYS if way in found[0]]
    print_header("design", *ways)
    for name in recovery.DESIGNS:
        mine = [result for (design, _), result in zip(work, found, strict=True) if design == name]
        means = [np.mean([result[way] for result in mine], axis=0) for way in ways]
        print_row(name, *(f"{score:.2f} ({seconds:.1f} s)" for score, seconds in means))


def inference_table(repetitions: int, seed: int) -> None:
    """Intervals, levels and false discoveries on Gaussian data."""
    print_header("design", "what", *COLUMNS)
    for design in DESIGNS:
        counts = {what: Count() for what in ("edges", "differences", "Q", "gaussian se", "textbook")}
        for truth, samples in repeat(design, repetitions, seed):
            score(truth, jgl.infer(samples), *(counts[what] for what in ("edges", "differences", "Q")))
            plain = jgl.infer(samples, se="gaussian", association="pearson")
            score(truth, plain, counts["gaussian se"], Count(), Count())
            textbook(truth, samples, counts["textbook"])
        for what, count in counts.items():
            print_row(str(design), what, *(count.row() if count.level else ["-"] * len(COLUMNS)))


def tails_table(repetitions: int, seed: int) -> None:
    """False discoveries of edges and of differences on data that are not Gaussian."""
    print_header("design", "standard errors", "association", *COLUMNS, "FDR .1 of differences")
    for design in TAILS:
        ways = [("gaussian", "pearson"), ("moderated", "pearson"), ("moderated", "nonparanormal")]
        counts = {way: (Count(), Count(), Count()) for way in ways}
        for truth, samples in repeat(design, repetitions, seed):
            for se, association in ways:
                score(truth, jgl.infer(samples, se=se, association=association), *counts[se, association])
        for (se, association), (edges, differences, _) in counts.items():
            print_row(str(design), se, association, *edges.row(), f"{np.mean(differences.false):.3f}")


def ordinal_table(repetitions: int, seed: int) -> None:
    """Intervals, levels and false discoveries of answers in categories, all alike or beside numbers."""
    print_header("design", "categories", "association", *COLUMNS, "FDR .1 of differences")
    design = Design("scale-free", 12, (250, 250))
    for words, kinds in (("5", [5]), ("3", [3]), ("2", [2]), ("numbers, 5, 3, 2", [0, 5, 3, 2])):
        counts = {association: (Count(), Count(), Count()) for association in ("nonparanormal", "mixed")}
        for number, (truth, samples) in enumerate(repeat(design, repetitions, seed)):
            rng = np.random.default_rng([seed, number])
            cuts = [np.sort(rng.normal(scale=0.8, size=max(kinds[j % len(kinds)] - 1, 0))) for j in range(design.p)]
            given = {}
            for name, X in samples.items():
                answers = [np.searchsorted(cut, x) if len(cut) else x for cut, x in zip(cuts, X.T, strict=True)]
                given[name] = np.column_stack(answers)
            for association, count in counts.items():
                score(truth, jgl.infer(given, association=association), *count)
        for association, (edges, differences, _) in counts.items():
            print_row(str(design), words, association, *edges.row(), f"{np.mean(differences.false):.3f}")


def missing_table(repetitions: int, seed: int) -> None:
    """Intervals, levels and false discoveries where values are missing at random."""
    print_header("design", "missing", "what", *COLUMNS)
    for design, share in ((Design("scale-free", 30, (150, 150)), 0.1), (Design("band", 30, (150, 300)), 0.2)):
        counts = {what: Count() for what in ("edges", "differences", "Q")}
        for number, (truth, samples) in enumerate(repeat(design, repetitions, seed)):
            rng = np.random.default_rng([seed, number])
            holes = {name: np.where(rng.random(X.shape) < share, np.nan, X) for name, X in samples.items()}
            score(truth, jgl.infer(holes, missing="em"), *counts.values())
        for what, count in counts.items():
            print_row(str(design), f"{share:.0%}", what, *count.row())


# Real data


def real_classes(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Large classes of real data, a few dozen variables of each."""
    import pandas as pd

    cells = pd.read_csv(folder / "sachs2005_14conditions.csv.gz")
    for name in ("cd3cd28", "pma", "cd3cd28_u0126"):
        yield f"Sachs {name}", np.log(cells[cells.condition == name].drop(columns="condition").to_numpy(float))
    arrays = np.load(folder / "tcga_rppa_6cancers.npz")
    complete = ~np.isnan(arrays["X"]).any(axis=0)
    for name in ("KIRC", "OV"):
        yield f"RPPA {name}", arrays["X"][arrays["y"] == name][:, complete][:, ::4]
    prices = pd.read_csv(folder / "sp500_2003_2008_prices.csv.gz").select_dtypes("number").to_numpy()
    yield "S&P 500 returns", np.diff(np.log(prices), axis=0)[:, ::10]
    arrays = np.load(folder / "immgen_gse15907_top623.npz")
    yield "ImmGen T", arrays["X"][arrays["y"] == "T"][:, ::15]
    arrays = np.load(folder / "gravier2010_breast.npz")
    yield "Gravier good", arrays["X"][arrays["y"] == "good"][:, ::60]


def permutation_table(repetitions: int, seed: int) -> None:
    """Share of tests that reject equal graphs at 0.05, and time of 1,000 permutations."""
    print_header("null hypothesis", "p", "n", *STATISTICS, "smallest of the variables, family-wise")
    for words, p, sizes, samplers in (
        ("same distribution", 20, (40, 160), (normal, normal)),
        ("unlike tails", 20, (60, 240), (student, normal)),
        ("unlike tails, three classes", 15, (60, 120, 120), (student, normal, normal)),
    ):
        rejected = []
        for number in range(repetitions):
            rng = np.random.default_rng([seed, number, p])
            Theta = truths("scale-free", p, 1, rng)[0]
            samples = {f"c{k}": draw(Theta, n, rng) for k, (n, draw) in enumerate(zip(sizes, samplers, strict=True))}
            found = jgl.network_test(samples, n_permutations=199, random_state=number)
            least = [*found.p_values.values(), found.node_p_familywise.min()]
            rejected.append(np.array(least) <= 0.05)
        print_row(words, p, "/".join(map(str, sizes)), *(f"{share:.3f}" for share in np.mean(rejected, axis=0)))
    rng = np.random.default_rng(seed)
    Theta = truths("scale-free", 50, 1, rng)[0]
    samples = {name: normal(Theta, 100, rng) for name in "ab"}
    seconds, _ = best_of(2, lambda: jgl.network_test(samples, n_permutations=1000, random_state=0))
    print(f"\n1,000 permutations, p = 50, 2 x 100 samples: {seconds:.1f} s")


def scale_table(seed: int) -> None:
    """Inference on modules of variables in noise, beside one scan of the same covariances, in turns."""
    from genome_scale import module_samples
    from jointglasso.inference.data import read_inference_data
    from jointglasso.inference.support import penalty_of
    from jointglasso.penalties import GroupPenalty
    from jointglasso.screening.pairs import scan_pairs

    print_header("p", "n", "K", "scan s", "infer s", "ratio", "pairs kept")
    how = {"association": "nonparanormal", "missing": "refuse", "groups": None, "covariates": None}
    small = module_samples(1_100, 100, 2)
    jgl.infer({"a": small[0], "b": small[1]}, keep=0.01)  # compiles
    for p, n, n_classes in ((20_000, 200, 2), (20_000, 500, 2)):
        samples = {f"c{k}": X for k, X in enumerate(module_samples(p, n, n_classes, seed))}
        source = read_inference_data(samples, None, **how).source
        penalty = GroupPenalty(*penalty_of(p, np.full(n_classes, float(n)), 1.0))
        scan = whole = np.inf
        for _ in range(2):
            began = time.process_time()
            scan_pairs(source, penalty, np.ones(n_classes))
            scan, began = min(scan, time.process_time() - began), time.process_time()
            found = jgl.infer(samples)
            whole = min(whole, time.process_time() - began)
        row = (f"{scan:.1f}", f"{whole:.1f}", f"{whole / scan:.2f}", len(found.estimates.rows))
        print_row(str(p), str(n), str(n_classes), *map(str, row))


def real_table(splits: int, seed: int, folder: Path) -> None:
    """Share of random halvings of one class that find a difference at FDR 0.1."""
    ways = [("gaussian", "pearson"), ("moderated", "pearson"), ("moderated", "nonparanormal")]
    print_header("class", "n", "p", *(f"{se}, {association}" for se, association in ways))
    for name, X in real_classes(folder):
        rng = np.random.default_rng(seed)
        halves = [rng.permutation(len(X)) < len(X) // 2 for _ in range(splits)]
        shares = []
        for se, association in ways:
            found = [
                len(jgl.infer({"c0": X[half], "c1": X[~half]}, se=se, association=association).differences(fdr=0.1)) > 0
                for half in halves
            ]
            shares.append(f"{np.mean(found):.2f}")
        print_row(name, str(len(X)), str(X.shape[1]), *shares)


def main() -> None:
    tables = {
        "selection": lambda o: selection_table(o.repetitions, o.seed, o.jobs),
        "inference": lambda o: inference_table(o.repetitions, o.seed),
        "tails": lambda o: tails_table(o.repetitions, o.seed),
        "ordinal": lambda o: ordinal_table(o.repetitions, o.seed),
        "missing": lambda o: missing_table(o.repetitions, o.seed),
        "permutation": lambda o: permutation_table(o.repetitions, o.seed),
        "scale": lambda o: scale_table(o.seed),
        "real": lambda o: real_table(o.repetitions, o.seed, o.data),
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?", default="all", choices=[*tables, "all"])
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="Processes of the table `selection`.")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    describe_machine()
    for name, table in tables.items():
        if options.table in (name, "all"):
            print(f"\n## {name}\n", flush=True)
            table(options)


if __name__ == "__main__":
    main()
