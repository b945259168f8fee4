"""The statistics of `select`, `infer` and `network_test`, on data with a known truth and beside other ways.

    python benchmarks/simulations.py [TABLE ...] [--repetitions 40] [--seed 0] [--processes 1] [--data FOLDER]

prints all tables, or those that are named:

`selection`: Matthews correlation with the true edges, false edges on noise and seconds, of `select` (default, and as in
version 0.1), of each class by itself, of all as one, and of scikit-learn and GGLasso by their own choice; what the
default gains over version 0.1.
`inference`: 95 % intervals of edges and non-edges, level of tests at 0.05 and 0.001, false discovery rate at 0.1 and
power, by design; edges within classes, differences between the first two, heterogeneity of all. Beside it the textbook
test of partial correlations (inverse of S, Fisher's z), where p < n.
`tails`: the same for data that are not Gaussian, by standard error and association.
`few`: the same for far fewer samples than variables.
`ordinal`: the same for answers in categories, `association="mixed"` beside normal scores of the codes.
`zeros`: bias of the correlations, and the networks of `select`, of data with many zeros by association.
`missing`: the same with values missing at random, `missing="em"`.
`permutation`: level of `jointglasso.network_test` where the graphs are equal, and its time.
`power`: its power where they differ, and level and power of contrasts of four classes, also of the same people.
`sets`: its level and power for sets of variables.
`combinations`: level of `network_test` with Spearman's correlations, pairwise deletion and ordinal variables.
`listed`: differences between classes as `jointglasso fit` lists them: those of the estimates, and the significant ones.
`latent`: latent variables of a known number: the number that `select(latent="auto")` finds, and the edges that it,
`latent_rank` with the true number, and `select` without latent variables find.
`strength`: one class is cut into parts of unlike size; variables whose strengths are said to differ are false.
`predictability`: R^2 of each variable, its intervals, and differences between classes of equal and unlike networks;
beside it R^2 of the network that `select` chose, from the same samples.
`real`: one class of real data is halved at random; a difference that is found is false.
`held_out`: log-likelihood of tumours that had no part in the choice of the network.
`scale`: processor seconds of `infer` on 20,000 variables against those of the screening scan of its support step.

Selection takes a quarter of the repetitions, answers in categories too. Data sets are shared among the processes.

(Not called `statistics.py`: a script of that name hides the module of Python's own library.)
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import jointglasso as jgl
import recovery
from common import best_of, describe_machine, print_header, print_row
from jointglasso._threads import single_core
from jointglasso.data.prepare import Preparation
from jointglasso.data.samples import Samples
from jointglasso.inference.permutation import STATISTICS
from jointglasso.inference.tests import q_values

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


def truths(
    graph: str, p: int, n_classes: int, rng: np.random.Generator, moved: float = 0.2, equal_values: bool = False
) -> Matrices:
    """Precision matrices of variables of variance 1: one graph, of which every class has moved some edges.

    With `equal_values` the partial correlations of the other edges are the same in all classes, else almost.
    """
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
        out.append(Theta)
    diagonal = np.array([max(-np.linalg.eigvalsh(Theta)[0], 0.0) + 0.3 for Theta in out])
    if equal_values:
        diagonal[:] = diagonal.max()
    for k, Theta in enumerate(out):
        Theta += diagonal[k] * np.eye(p)
        deviation = np.sqrt(np.diagonal(np.linalg.inv(Theta)))
        out[k] = Theta * np.outer(deviation, deviation)
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


def wild(Theta: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Gaussian values, one in a hundred of them ten times as large."""
    return normal(Theta, n, rng) * np.where(rng.random((n, len(Theta))) < 0.01, 10.0, 1.0)


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
    Design("noise", 20, (100, 100, 100), student),
    Design("noise", 60, (120, 240), student),
    Design("scale-free", 20, (80, 160, 240), student),
]

FEW = [
    Design("noise", 100, (9, 8)),
    Design("noise", 400, (9, 8)),
    Design("scale-free", 200, (15, 12)),
    Design("noise", 100, (30, 30)),
    Design("noise", 100, (60, 60)),
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

    def join(self, other: Count) -> None:
        for name, part in vars(other).items():
            getattr(self, name).extend(part)

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


def data_set(design: Design, seed: int, number: int) -> tuple[Matrices, dict[str, np.ndarray]]:
    return design.draw(np.random.default_rng([seed, number, design.p, *design.sizes]))


# Tables: a function of one data set, and one that prints what many of them say

Counts = dict[Any, Count]
Work = Callable[[Callable[[Any], Any], list[Any]], list[Any]]


def joined(results: Iterable[Counts]) -> Counts:
    """Counts of all data sets, by what was counted."""
    out: Counts = {}
    for result in results:
        for what, count in result.items():
            out.setdefault(what, Count()).join(count)
    return out


def counted(function: Callable[[Any], Counts], work: Work, designs: list[Any], repetitions: int, seed: int) -> Iterator:
    """Every design with the counts over its data sets."""
    jobs = [(design, seed, number) for design in designs for number in range(repetitions)]
    results = work(function, jobs)
    for place, design in enumerate(designs):
        yield design, joined(results[place * repetitions : (place + 1) * repetitions])


def selection_table(repetitions: int, seed: int, work: Work) -> None:
    """Choices of networks beside other ways; what is gained over version 0.1."""
    jobs = [(name, seed + number) for name in recovery.DESIGNS for number in range(repetitions)]
    found = work(recovery.measure, jobs)
    ways = [way for way in recovery.WAYS if way in found[0]]
    print_header("design", *ways)
    gains, false = [], []
    for name in recovery.DESIGNS:
        scores = np.array([[r[way] for way in ways] for (mine, _), r in zip(jobs, found, strict=True) if mine == name])
        print_row(name, *(f"{score:.3f} ({seconds:.1f} s)" for score, seconds in scores.mean(axis=0)))
        if name.startswith("noise"):
            false.append(scores[:, 0, 0])
        else:
            gains.append(scores[:, 0, 0] - scores[:, 1, 0])
    gain = np.array(gains)
    worst = gain.mean(axis=1)
    print(
        f"\nGain of the default over version 0.1, Matthews correlation: {gain.mean():.3f} in the mean over "
        f"{len(gain)} designs with {repetitions} data sets each (standard error "
        f"{gain.mean(axis=0).std(ddof=1) / np.sqrt(repetitions) if repetitions > 1 else np.nan:.3f}), "
        f"{worst.min():.3f} to {worst.max():.3f} by design. False edges a class on noise: "
        f"{', '.join(f'{part.mean():.2f} (at most {part.max():.1f})' for part in false)}."
    )


def count_inference(job: tuple[Design, int, int]) -> Counts:
    truth, samples = data_set(*job)
    counts = {what: Count() for what in ("edges", "differences", "Q", "gaussian se", "textbook")}
    score(truth, jgl.infer(samples), *(counts[what] for what in ("edges", "differences", "Q")))
    plain = jgl.infer(samples, se="gaussian", association="pearson")
    score(truth, plain, counts["gaussian se"], Count(), Count())
    textbook(truth, samples, counts["textbook"])
    return counts


def inference_table(repetitions: int, seed: int, work: Work) -> None:
    """Intervals, levels and false discoveries on Gaussian data."""
    print_header("design", "what", *COLUMNS)
    for design, counts in counted(count_inference, work, DESIGNS, repetitions, seed):
        for what, count in counts.items():
            if count.level:
                print_row(str(design), what, *count.row())


#: Names of what a way is judged by, in the order of `score`.
PARTS = ("edges", "differences", "Q")


def rows_of_ways(words: list[str], counts: Counts) -> None:
    """A row for each way (its words are all of its key but the last)."""
    for way in dict.fromkeys(key[:-1] for key in counts):
        edges, differences, Q = (counts[(*way, part)] for part in PARTS)
        print_row(*words, *way, *edges.row(), *(f"{np.mean(count.false):.3f}" for count in (differences, Q)))


WAYS_OF_TAILS = [("gaussian", "pearson"), ("moderated", "pearson"), ("moderated", "nonparanormal")]


def count_tails(job: tuple[Design, int, int]) -> Counts:
    truth, samples = data_set(*job)
    counts = {(*way, part): Count() for way in WAYS_OF_TAILS for part in PARTS}
    for se, association in WAYS_OF_TAILS:
        found = jgl.infer(samples, se=se, association=association)
        score(truth, found, *(counts[se, association, part] for part in PARTS))
    return counts


def tails_table(repetitions: int, seed: int, work: Work, designs: list[Design]) -> None:
    """Designs by standard error and association."""
    print_header("design", "standard errors", "association", *COLUMNS, "FDR of differences", "FDR of Q")
    for design, counts in counted(count_tails, work, designs, repetitions, seed):
        rows_of_ways([str(design)], counts)


#: Categories of the variables, in turns (0: numbers), and the design that they are cut from.
ORDINAL = [((5,), 12, 250), ((3,), 12, 250), ((2,), 12, 250), ((2,), 10, 800), ((0, 5, 3, 2), 12, 250)]


def count_ordinal(job: tuple[tuple[tuple[int, ...], int, int], int, int]) -> Counts:
    (kinds, p, n), seed, number = job
    truth, samples = data_set(Design("scale-free", p, (n, n)), seed, number)
    rng = np.random.default_rng([seed, number])
    while True:  # every category occurs in every class
        thresholds = [np.sort(rng.normal(scale=0.8, size=max(kinds[j % len(kinds)] - 1, 0))) for j in range(p)]
        given = {}
        for name, X in samples.items():
            answers = [np.searchsorted(cut, x) if len(cut) else x for cut, x in zip(thresholds, X.T, strict=True)]
            given[name] = np.column_stack(answers)
        ordinal = [j for j in range(p) if len(thresholds[j])]
        if all(len(np.unique(X[:, j])) > len(thresholds[j]) for X in given.values() for j in ordinal):
            break
    counts = {(association, part): Count() for association in ("nonparanormal", "mixed") for part in PARTS}
    for association in ("nonparanormal", "mixed"):
        found = jgl.infer(given, association=association)
        score(truth, found, *(counts[association, part] for part in PARTS))
    return counts


def ordinal_table(repetitions: int, seed: int, work: Work) -> None:
    """Answers in categories, all alike or beside numbers."""
    print_header("design", "categories", "association", *COLUMNS, "FDR of differences", "FDR of Q")
    for (kinds, p, n), counts in counted(count_ordinal, work, ORDINAL, repetitions, seed):
        words = ", ".join("numbers" if kind == 0 else str(kind) for kind in kinds)
        rows_of_ways([f"scale-free p{p} K2 n{n}", words], counts)


#: Shares of zeros and samples of each of two classes of 20 variables, of which 5 have no zeros.
ZEROS = [(share, n) for share in (0.3, 0.6) for n in (100, 300)]


def with_zeros(share: float, truth: Matrices, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Samples whose values are zero up to a threshold and grow linearly from there, as logarithms of counts do."""
    low = stats.norm.ppf(np.clip(share + rng.uniform(-0.1, 0.1, len(truth[0])), 0.05, 0.9))
    low[::4] = -np.inf
    samples = {f"c{k}": normal(Theta, n, rng) for k, Theta in enumerate(truth)}
    return {name: np.where(low == -np.inf, X, np.maximum(X - low, 0.0)) for name, X in samples.items()}


def count_zeros(job: tuple[tuple[float, int], int, int]) -> np.ndarray:
    """For each association the bias of correlations at true edges, Matthews correlation, and false edges of a class."""
    (share, n), seed, number = job
    rng = np.random.default_rng([seed, number, n, int(100 * share)])
    truth = truths("scale-free", 20, 2, rng)
    samples, edges, out = with_zeros(share, truth, n, rng), recovery.edges(truth), []
    for association in ("pearson", "spearman", "mixed", "zero_inflated"):
        chosen = jgl.select(samples, association=association)
        found, every, bias = recovery.edges(chosen.precision), np.arange(20), []
        source = Preparation(association=association)(Samples.by_class(samples)).source
        for k, Theta in enumerate(truth):
            at = np.triu(Theta, 1) != 0
            R, S = np.linalg.inv(Theta), source.block(k, every)
            bias.append(np.mean(np.sign(R[at]) * (S - R)[at]))
        false = np.mean([(mine & ~real).sum() for mine, real in zip(found, edges, strict=True)])
        out.append([np.mean(bias), recovery.matthews(found, edges), false])
    return np.array(out)


def zeros_table(repetitions: int, seed: int, work: Work) -> None:
    """Data with many zeros."""
    print_header("zeros", "n", "association", "bias at edges", "Matthews correlation", "false edges a class")
    for share, n in ZEROS:
        results = np.array(work(count_zeros, [((share, n), seed, number) for number in range(repetitions)]))
        for way, association in enumerate(("pearson", "spearman", "mixed", "zero_inflated")):
            print_row(f"{share:.0%}", n, association, *(mean_and_error(column) for column in results[:, way].T))


MISSING = [(Design("scale-free", 30, (150, 150)), 0.1), (Design("band", 30, (150, 300)), 0.2)]


def count_missing(job: tuple[tuple[Design, float], int, int]) -> Counts:
    (design, share), seed, number = job
    truth, samples = data_set(design, seed, number)
    rng = np.random.default_rng([seed, number])
    holes = {name: np.where(rng.random(X.shape) < share, np.nan, X) for name, X in samples.items()}
    counts = {part: Count() for part in PARTS}
    score(truth, jgl.infer(holes, missing="em"), *counts.values())
    return counts


def missing_table(repetitions: int, seed: int, work: Work) -> None:
    """Values missing at random."""
    print_header("design", "missing", "what", *COLUMNS)
    for (design, share), counts in counted(count_missing, work, MISSING, repetitions, seed):
        for what, count in counts.items():
            print_row(str(design), f"{share:.0%}", what, *count.row())


# Real data


#: Classes of the arrays among the real data, and which of their variables: every so many, of those without gaps.
ARRAYS = {
    "RPPA": ("tcga_rppa_6cancers.npz", ("KIRC", "OV"), 4),
    "ImmGen": ("immgen_gse15907_top623.npz", ("T",), 15),
    "Gravier": ("gravier2010_breast.npz", ("good",), 60),
    "TCGA Agilent": ("tcga_agilent_kirc_read_ucec.npz", ("KIRC",), 400),
    "Chowdary": ("chowdary2006_breast_colon_gpl96.npz", ("breast",), 600),
    "Singh": ("singh2002_prostate.npz", ("Tumor",), 300),
}


def real_classes(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """A large class of each set of real data, a few dozen variables of it."""

    cells = pd.read_csv(folder / "sachs2005_14conditions.csv.gz")
    for name in ("cd3cd28", "pma", "cd3cd28_u0126"):
        yield f"Sachs {name}", np.log(cells[cells.condition == name].drop(columns="condition").to_numpy(float))
    prices = pd.read_csv(folder / "sp500_2003_2008_prices.csv.gz").select_dtypes("number").to_numpy()
    yield "S&P 500 returns", np.diff(np.log(prices), axis=0)[:, ::10]
    lungs = pd.read_csv(folder / "gse4115_23probes.csv.gz")
    yield "GSE4115 cancer", lungs[lungs.lung_cancer == 1].drop(columns="lung_cancer").select_dtypes("number").to_numpy()
    for title, (file, classes, step) in ARRAYS.items():
        arrays = np.load(folder / file)
        complete = ~np.isnan(arrays["X"]).any(axis=0)
        for name in classes:
            yield f"{title} {name}", arrays["X"][arrays["y"] == name][:, complete][:, ::step]


#: Null hypotheses of equal graphs: variables, samples of each class and what they are drawn from.
EQUAL = {
    "same distribution": (20, (40, 160), (normal, normal)),
    "unlike tails": (20, (60, 240), (student, normal)),
    "unlike tails, three classes": (15, (60, 120, 120), (student, normal, normal)),
    "wild values in one class": (10, (100, 200), (wild, normal)),
    "batches as covariates": (10, (80, 160), (normal, normal)),
}


def reject(job: tuple[str, int, int]) -> np.ndarray:
    """Which statistics reject, at 0.05; the last is the smallest of the variables, family-wise."""
    words, seed, number = job
    p, sizes, samplers = EQUAL[words]
    rng = np.random.default_rng([seed, number, p])
    Theta = truths("scale-free", p, 1, rng)[0]
    samples = {f"c{k}": draw(Theta, n, rng) for k, (n, draw) in enumerate(zip(sizes, samplers, strict=True))}
    options = {}
    if words.startswith("batches"):  # a shift of one standard deviation in half of one class and a fifth of the other
        batch = {name: (rng.random(len(samples[name])) < rate)[:, None] for name, rate in (("c0", 0.5), ("c1", 0.2))}
        samples = {name: X + batch[name] for name, X in samples.items()}
        options["covariates"] = batch
    found = jgl.network_test(samples, n_permutations=199, random_state=number, **options)
    return np.array([*found.p_values.values(), found.node_p_familywise.min()]) <= 0.05


def chain(p: int, value: float, first: float | None = None) -> np.ndarray:
    """Precision matrix with partial correlations `value` of neighbours; `first` of the first pair."""
    Theta = np.eye(p) - value * (np.eye(p, k=1) + np.eye(p, k=-1))
    if first is not None:
        Theta[0, 1] = Theta[1, 0] = -first
    return Theta


INTERACTION = {"contrast": {"c0": 1, "c1": -1, "c2": -1, "c3": 1}, "arms": {"c0": "d", "c1": "d", "c2": "p", "c3": "p"}}

#: The same for people who were measured twice.
PAIRED = {**INTERACTION, "paired": True}

#: Chains of ten variables in each class, their samples, and options.
DIFFERENT: dict[str, tuple[Matrices, int, dict[str, Any]]] = {
    "all edges, .3 and .4": ([chain(10, 0.3), chain(10, 0.4)], 200, {}),
    "one edge, .0 and .4": ([chain(10, 0.3, 0.0), chain(10, 0.3, 0.4)], 150, {}),
    "contrast: no change": ([chain(10, 0.2)] * 2 + [chain(10, 0.4)] * 2, 120, INTERACTION),
    "contrast: equal changes": ([chain(10, 0.4), chain(10, 0.2)] * 2, 120, INTERACTION),
    "contrast: one edge, by .6": (
        [chain(10, 0.3, 0.6), chain(10, 0.3, 0.0), *[chain(10, 0.4)] * 2], 150, INTERACTION,
    ),
    "same people: no change": ([chain(10, 0.2)] * 2 + [chain(10, 0.4)] * 2, 120, PAIRED),
    "same people: equal changes": ([chain(10, 0.4), chain(10, 0.2)] * 2, 120, PAIRED),
    "same people: one edge, by .6": (
        [chain(10, 0.3, 0.6), chain(10, 0.3, 0.0), *[chain(10, 0.4)] * 2], 150, PAIRED,
    ),
}  # fmt: skip


def reject_different(job: tuple[str, int, int]) -> np.ndarray:
    words, seed, number = job
    matrices, n, options = DIFFERENT[words]
    rng = np.random.default_rng([seed, number, n])
    samples = {f"c{k}": normal(Theta, n, rng) for k, Theta in enumerate(matrices)}
    if "paired" in options:  # c0 and c1 are the same people, and c2 and c3; values of a person correlate by .6
        for one, two in (("c0", "c1"), ("c2", "c3")):
            root_one, root_two = (np.linalg.cholesky(np.linalg.inv(matrices[int(name[1])])) for name in (one, two))
            samples[two] = 0.6 * np.linalg.solve(root_one, samples[one].T).T @ root_two.T + 0.8 * samples[two]
        options = options | {"paired": {name: np.arange(n) for name in samples}}
    found = jgl.network_test(samples, n_permutations=199, random_state=number, **options)
    return np.array([*found.p_values.values(), found.node_p_familywise.min()]) <= 0.05


def power_table(repetitions: int, seed: int, work: Work) -> None:
    """Share of tests that reject at 0.05, standard errors in brackets."""
    print_header("networks", "n", *STATISTICS, "smallest of the variables, family-wise")
    for words, (_, n, _) in DIFFERENT.items():
        rejected = np.array(work(reject_different, [(words, seed, r) for r in range(repetitions)]), dtype=float)
        print_row(words, n, *(mean_and_error(column) for column in rejected.T))


#: Two chains of 20 variables: with equal networks, one edge changed within the first set, and all edges changed.
OF_SETS = {
    "equal networks": [chain(20, 0.35)] * 2,
    "one edge of the first set, .0 and .5": [chain(20, 0.3, 0.0), chain(20, 0.3, 0.5)],
    "all edges, .25 and .4": [chain(20, 0.25), chain(20, 0.4)],
}


def reject_sets(job: tuple[str, int, int]) -> np.ndarray:
    """For a set of the first five variables and one of the last five: rejections of no difference, of no enrichment."""
    words, seed, number = job
    rng = np.random.default_rng([seed, number])
    samples = {f"c{k}": normal(Theta, n, rng) for k, (Theta, n) in enumerate(zip(OF_SETS[words], SIZES, strict=True))}
    sets = {"first": [f"x{i}" for i in range(5)], "last": [f"x{i}" for i in range(15, 20)]}
    found = jgl.network_test(samples, sets=sets, n_permutations=199, random_state=number)
    return found.set_p_values.ravel() <= 0.05


#: Samples of the two classes of `sets`.
SIZES = (100, 200)


def sets_table(repetitions: int, seed: int, work: Work) -> None:
    """Share of tests of sets of variables that reject at 0.05, standard errors in brackets."""
    kinds = [f"{what}, {name} set" for what in ("difference", "enrichment") for name in ("first", "last")]
    print_header("networks", "data sets", *kinds)
    for words in OF_SETS:
        rejected = np.array(work(reject_sets, [(words, seed, r) for r in range(repetitions)]), dtype=float)
        print_row(words, repetitions, *(mean_and_error(column) for column in rejected.T))


def permutation_table(repetitions: int, seed: int, work: Work) -> None:
    """Share of tests that reject equal graphs at 0.05, and time of 1,000 permutations."""
    print_header("null hypothesis", "p", "n", *STATISTICS, "smallest of the variables, family-wise")
    for words, (p, sizes, _) in EQUAL.items():
        rejected = np.array(work(reject, [(words, seed, number) for number in range(repetitions)]), dtype=float)
        print_row(words, p, "/".join(map(str, sizes)), *(mean_and_error(column) for column in rejected.T))
    rng = np.random.default_rng(seed)
    Theta = truths("scale-free", 50, 1, rng)[0]
    samples = {name: normal(Theta, 100, rng) for name in "ab"}
    seconds, _ = best_of(2, lambda: jgl.network_test(samples, n_permutations=1000, random_state=0))
    print(f"\n1,000 permutations, p = 50, 2 x 100 samples: {seconds:.1f} s")


#: Options of `network_test` on samples of equal graphs, number of variables, permutations, and share of the data sets.
COMBINATIONS = {
    "Spearman": ({"association": "spearman"}, 8, 99, 1.0),
    "pairwise, 10 % missing": ({"missing": "pairwise"}, 8, 99, 1.0),
    "four categories, mixed": ({"association": "mixed"}, 6, 39, 0.5),
    "60 % zeros": ({"association": "zero_inflated"}, 6, 39, 0.5),
    "30 and 60 % zeros": ({"association": "zero_inflated"}, 6, 39, 0.5),
}


def reject_combination(job: tuple[str, int, int]) -> np.ndarray:
    """Which statistics reject at 0.05 on 80 + 160 samples of one graph, as in `reject`."""
    words, seed, number = job
    options, p, n_permutations, _ = COMBINATIONS[words]
    rng = np.random.default_rng([seed, number, p])
    Theta = truths("scale-free", p, 1, rng)[0]
    samples = {"a": normal(Theta, 80, rng), "b": normal(Theta, 160, rng)}
    if "missing" in options:
        samples = {name: np.where(rng.random(X.shape) < 0.1, np.nan, X) for name, X in samples.items()}
    if options.get("association") == "mixed":
        deviation = np.sqrt(np.linalg.inv(Theta).diagonal())
        samples = {name: np.digitize(X / deviation, (-0.8, 0.0, 0.9)) for name, X in samples.items()}
    if "zeros" in words:
        deviation = np.sqrt(np.linalg.inv(Theta).diagonal())
        low = {"a": -0.524 if words.startswith("30") else 0.253, "b": 0.253}
        samples = {name: np.maximum(X / deviation - low[name], 0.0) for name, X in samples.items()}
    found = jgl.network_test(samples, n_permutations=n_permutations, random_state=number, **options)
    return np.array([*found.p_values.values(), found.node_p_familywise.min()]) <= 0.05


def combinations_table(repetitions: int, seed: int, work: Work) -> None:
    """Share of tests that reject equal graphs at 0.05, standard errors in brackets."""
    print_header("data", "p", "data sets", *STATISTICS, "smallest of the variables, family-wise")
    for words, (_, p, _, share) in COMBINATIONS.items():
        n = int(share * repetitions)
        rejected = np.array(work(reject_combination, [(words, seed, number) for number in range(n)]), dtype=float)
        print_row(words, p, n, *(mean_and_error(column) for column in rejected.T))


def mean_and_error(values: np.ndarray) -> str:
    return f"{np.mean(values):.3f} ({np.std(values) / np.sqrt(len(values)):.3f})"


#: Designs of `listed` and the fraction of the edges that every class has moved.
LISTED = [
    (Design("scale-free", 30, (200, 200)), 0.2),
    (Design("band", 30, (150, 450)), 0.2),
    (Design("random", 30, (250, 250, 250)), 0.2),
    (Design("scale-free", 30, (150, 450), student), 0.2),
    (Design("scale-free", 40, (60, 180)), 0.0),
]


def listed_differences(job: tuple[tuple[Design, float], int, int]) -> np.ndarray:
    """Differences of the estimates: number, share that is false, opposite signs; significant: number, false, power."""
    (design, moved), seed, number = job
    rng = np.random.default_rng([seed, number, design.p, *design.sizes])
    truth = truths(design.graph, design.p, len(design.sizes), rng, moved, equal_values=True)
    samples = {
        f"c{k}": design.sampler(Theta, n, rng) for k, (Theta, n) in enumerate(zip(truth, design.sizes, strict=True))
    }
    chosen, tests = jgl.select(samples), jgl.infer(samples)
    listed = jgl.JointNetworks.from_solution(chosen.solution).differences(tested=tests)
    rho = [-Theta / np.sqrt(np.outer(Theta.diagonal(), Theta.diagonal())) for Theta in truth]
    place = {name: i for i, name in enumerate(tests.variable_names)}

    def true_differences(table) -> np.ndarray:
        ends = [table[word].map(place) for word in ("variable1", "variable2")]
        one, two = (np.array([rho[int(name[1:])][i, j] for name, i, j in zip(table[word], *ends, strict=True)])
                    for word in ("class1", "class2"))  # fmt: skip
        return np.abs(one - two) > 1e-9

    significant = tests.differences(fdr=0.1)
    n_true = true_differences(tests.differences()).sum()
    is_true = true_differences(significant)
    return np.array(
        [
            len(listed),
            (~true_differences(listed)).mean() if len(listed) else 0.0,
            (listed.change == "opposite signs").sum(),
            len(significant),
            (~is_true).mean() if len(significant) else 0.0,
            is_true.sum() / n_true if n_true else np.nan,
        ]
    )


def listed_table(repetitions: int, seed: int, work: Work) -> None:
    """Differences between classes, by the estimates and by the tests at a false discovery rate of 0.1."""
    print_header(
        "design", "differences of the estimates", "false", "opposite signs", "significant", "false (FDR)", "power"
    )
    for design, moved in LISTED:
        rows = np.array(work(listed_differences, [((design, moved), seed, n) for n in range(repetitions)]))
        print_row(f"{design}{'' if moved else ', equal'}", *(mean_and_error(column) for column in rows.T))


def unlike_strengths(job: tuple[Design, int, int]) -> np.ndarray:
    """Shares of variables: disjoint intervals, difference with p <= .05; any with q <= .1; mean difference; covered.

    The first two numbers are those of the percentile intervals of sums over the edges of each class by itself.
    """
    design, seed, number = job
    truth, samples = data_set(design, seed, number)
    X, cut = samples["c0"], len(samples["c0"]) // 3
    found = jgl.bootstrap_network({"a": X[:cut], "b": X[cut:]}, n_resamples=100, random_state=number)
    old = np.stack([strengths(found, np.abs(draw) * found.edge) for draw in found.rho])
    old_low, old_high = np.quantile(old[1:], (0.025, 0.975), axis=0)
    order = [(k, name) for k in "ab" for name in found.variable_names]
    table = found.centrality().set_index(["class", "variable"]).loc[order]
    estimate, low, high = (table[word].to_numpy().reshape(2, -1) for word in ("strength", "low", "high"))
    tested = found.centrality_differences()
    Theta = truth[0]
    size = np.abs(Theta / np.sqrt(np.outer(np.diag(Theta), np.diag(Theta))))[found.rows, found.columns]
    true = strengths(found, (found.common * size)[:, None])[:, 0]
    return np.array(
        [
            apart(old_low.T, old_high.T),
            apart(low, high),
            (tested.p_value <= 0.05).sum() / len(found.variable_names),
            float((tested.q_value <= 0.1).any()),
            (old[0, :, 1] - old[0, :, 0]).mean(),
            (estimate[1] - estimate[0]).mean(),
            ((low <= true) & (true <= high))[:, true > 0].mean(),
        ]
    )


def apart(low: np.ndarray, high: np.ndarray) -> float:
    """Share of the variables whose two intervals are disjoint."""
    return float(((low[0] > high[1]) | (low[1] > high[0])).mean())


def strengths(found: jgl.NetworkBootstrap, values: np.ndarray) -> np.ndarray:
    """Sums (p, K) over the pairs of each variable of `values` (m, K)."""
    out = np.zeros((len(found.variable_names), values.shape[1]))
    for ends in (found.rows, found.columns):
        np.add.at(out, ends, values)
    return out


def strength_table(repetitions: int, seed: int, work: Work) -> None:
    """Strengths of the parts of one class, a third and two thirds: every difference is false."""
    print_header(
        "design",
        "data sets",
        "disjoint, by class",
        "disjoint",
        "p <= .05",
        "any q <= .1",
        "bias, by class",
        "bias",
        "covered",
    )
    for graph, p, n in (("scale-free", 15, 600), ("band", 20, 450), ("random", 15, 900)):
        shares = np.array(work(unlike_strengths, [(Design(graph, p, (n,)), seed, r) for r in range(repetitions)]))
        mean, error = np.nanmean(shares, axis=0), np.nanstd(shares, axis=0) / np.sqrt(len(shares))
        cells = (f"{m:.3f} ({e:.3f})" for m, e in zip(mean, error, strict=True))
        print_row(f"{graph} p{p} n{n // 3}/{n - n // 3}", str(len(shares)), *cells)


#: Designs of `predictability`, and the fraction of the edges that every class has moved.
PREDICTED = [
    (Design("scale-free", 30, (150, 300)), 0.0),
    (Design("band", 20, (100, 100)), 0.0),
    (Design("hub", 40, (100, 400)), 0.0),
    (Design("noise", 30, (100, 200)), 0.0),
    (Design("scale-free", 20, (150, 300), student), 0.0),
    (Design("scale-free", 30, (200, 200)), 0.2),
    (Design("random", 30, (250, 250, 250)), 0.2),
]


def explained(Theta: np.ndarray) -> np.ndarray:
    return 1.0 - 1.0 / (np.diag(Theta) * np.diag(np.linalg.inv(Theta)))


def predicted_variables(job: tuple[tuple[Design, float], int, int]) -> np.ndarray:
    """Error of R^2 of the chosen network, and of `predictability`; coverage; level, FDR and power of differences."""
    (design, moved), seed, number = job
    rng = np.random.default_rng([seed, number, design.p, *design.sizes])
    truth = truths(design.graph, design.p, len(design.sizes), rng, moved, equal_values=True)
    samples = {
        f"c{k}": design.sampler(Theta, n, rng) for k, (Theta, n) in enumerate(zip(truth, design.sizes, strict=True))
    }
    true = pd.DataFrame({f"c{k}": explained(Theta) for k, Theta in enumerate(truth)})
    found = jgl.predictability(samples)
    networks = jgl.JointNetworks.from_solution(jgl.select(samples).solution)
    table, differences = found.variables(), found.differences()
    place = {name: i for i, name in enumerate(found.variable_names)}
    of_table = true.to_numpy()[table["variable"].map(place), table["class"].str[1:].astype(int)]
    rows = differences["variable"].map(place)
    one, two = (true.to_numpy()[rows, differences[word].str[1:].astype(int)] for word in ("class1", "class2"))
    equal, discovered = np.abs(one - two) < 1e-9, differences["q_value"] <= 0.1
    return np.array(
        [
            (networks.predictability().to_numpy() - true.to_numpy()).mean(),
            (table["predictability"] - of_table).mean(),
            ((table["low"] <= of_table + 1e-9) & (of_table <= table["high"])).mean(),
            (differences["p_value"][equal] <= 0.05).mean() if equal.any() else np.nan,
            (discovered & equal).sum() / max(1, discovered.sum()),
            discovered[~equal].mean() if not equal.all() else np.nan,
        ]
    )


def predictability_table(repetitions: int, seed: int, work: Work) -> None:
    """R^2 of each variable given all others."""
    print_header("design", "bias of the chosen network", "bias", "covered", "level .05", "FDR .1", "power")
    for design, moved in PREDICTED:
        rows = np.array(work(predicted_variables, [((design, moved), seed, n) for n in range(repetitions)]))
        print_row(f"{design}{'' if moved else ', equal'}", *(mean_and_error(column) for column in rows.T))


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


def differ(job: tuple[np.ndarray, int, int]) -> list[bool]:
    """Whether random halves of one class differ at a false discovery rate of 0.1, by way."""
    X, seed, number = job
    half = np.random.default_rng([seed, number]).permutation(len(X)) < len(X) // 2
    halves = {"c0": X[half], "c1": X[~half]}
    return [len(jgl.infer(halves, se=se, association=a).differences(fdr=0.1)) > 0 for se, a in WAYS_OF_TAILS]


def real_table(splits: int, seed: int, work: Work, folder: Path) -> None:
    """Share of random halvings of one class that find a difference."""
    print_header("class", "n", "p", *(f"{se}, {association}" for se, association in WAYS_OF_TAILS))
    for name, X in real_classes(folder):
        shares = np.mean(work(differ, [(X, seed, number) for number in range(splits)]), axis=0)
        print_row(name, str(len(X)), str(X.shape[1]), *(f"{share:.2f}" for share in shares))


def held_out_likelihoods(job: tuple[int, int]) -> list[tuple[str, str, float, float]]:
    """Edges chosen on half of the tumours, and log-likelihood of the others: as returned, and by maximum likelihood.

    Samples are standardised by their training half.
    """
    proteins = jgl.datasets.load_rppa()
    half = np.random.default_rng(list(job)).permutation(len(proteins.y)) < len(proteins.y) // 2
    train, test = {}, {}
    for name in np.unique(proteins.y):
        X, mine = proteins.X[(proteins.y == name) & half], proteins.X[(proteins.y == name) & ~half]
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        train[name], test[name] = (X - mean) / deviation, (mine - mean) / deviation
    X, y = np.vstack(list(train.values())), np.repeat(list(train), [len(part) for part in train.values()])

    def likelihood(precision: Any) -> float:
        parts = []
        for Theta, part in zip(precision, test.values(), strict=True):
            dense = Theta.toarray() if hasattr(Theta, "toarray") else np.asarray(Theta)
            parts.append(0.5 * np.linalg.slogdet(dense)[1] - 0.5 * ((part @ dense) * part).sum(axis=1))
        return float(np.concatenate(parts).mean())

    alone = likelihood([np.eye(X.shape[1])] * len(train))
    rows = [("no edge at all", "0", alone, alone)]
    for name, found in (("version 0.1", recovery.earlier_choice(X, y)), ("default", jgl.select(X, y))):
        edges = found.solution.n_edges
        given = found.solution.precision if name == "version 0.1" else found.precision
        values = likelihood(given), likelihood(found.precision)
        rows.append((name, f"{min(edges):,} to {max(edges):,}", *values))
    return rows


def held_out_table(repetitions: int, seed: int, work: Work) -> None:
    """Six cancers: what version 0.1 returned were the penalised values."""
    print_header("chosen on half of the tumours", "edges a cancer", "as returned", "maximum likelihood on the edges")
    found = work(held_out_likelihoods, [(seed, number) for number in range(repetitions)])
    for rows in zip(*found, strict=True):
        given, fitted = np.mean([row[2:] for row in rows], axis=0)
        print_row(*rows[0][:2], f"{given:.1f}", f"{fitted:.1f}")


# All together


#: Samples at each of the ten times of `changes`, 20 variables, and the edges of a chain that vanish at the sixth.
CHANGES, N_TIMES, VANISHING = (40, 100, 300), 10, (3, 9, 14)


def tested_changes(job: tuple[int, int, int]) -> np.ndarray:
    """Changes between consecutive times that are significant at a false discovery rate of 0.1: false share, power."""
    n, seed, number = job
    rng = np.random.default_rng([seed, number, n])
    before = chain(20, 0.35)
    after = before.copy()
    for i in VANISHING:
        after[i, i + 1] = after[i + 1, i] = 0.0
    samples = {f"t{t}": normal(before if t < N_TIMES // 2 else after, n, rng) for t in range(N_TIMES)}
    table = jgl.infer(samples).changes(fdr=0.1)
    places = {(f"x{i}", f"x{i + 1}") for i in VANISHING}
    is_true = np.array(
        [
            first == f"t{N_TIMES // 2 - 1}" and (i, j) in places
            for first, i, j in zip(table["class1"], table["variable1"], table["variable2"], strict=True)
        ],
        dtype=bool,
    )
    return np.array([len(table), (~is_true).mean() if len(table) else 0.0, is_true.sum() / len(VANISHING)])


def changes_table(repetitions: int, seed: int, work: Work) -> None:
    """Tests of changes from each of ten times to the next, of which one has three."""
    print_header("samples at a time", "significant changes", "false (FDR)", "power")
    for n in CHANGES:
        rows = np.array(work(tested_changes, [(n, seed, number) for number in range(repetitions)]))
        print_row(n, *(mean_and_error(column) for column in rows.T))


#: Latent variables of each class; a chain of 12 variables, 400 samples in each of two classes.
LATENT = (0, 1, 2)


def latent_choices(job: tuple[int, int, int]) -> list[list[float]]:
    """By way: mean rank, share of the edges of the chain found, and other edges a class."""
    r, seed, number = job
    rng = np.random.default_rng([seed, number, r])
    p, covariance = 12, np.linalg.inv(np.eye(12) + 0.4 * (np.eye(12, k=1) + np.eye(12, k=-1)))
    loadings = rng.choice([-1.0, 1.0], (p, r)) if r > 1 else np.ones((p, r))
    samples = {
        name: rng.multivariate_normal(np.zeros(p), covariance, size=400) + rng.normal(size=(400, r)) @ loadings.T
        for name in ("calm", "stress")
    }
    rows, truth = [], np.eye(p, k=1) > 0
    for latent in ({"latent": "auto"}, {"latent_rank": [r, r]} if r else {}, {}):
        found = jgl.select(samples, **latent).solution
        ranks = [0] if found.low_rank is None else found.low_rank.ranks
        edges = [np.triu(Theta.toarray(), 1) != 0 for Theta in found.precision]
        right = np.mean([(one & truth).sum() for one in edges]) / (p - 1)
        rows.append([float(np.mean(ranks)), right, float(np.mean([(one & ~truth).sum() for one in edges]))])
    return rows


def latent_table(repetitions: int, seed: int, work: Work) -> None:
    print_header("latent variables", "choice", "mean rank", "edges found", "other edges a class")
    for r in LATENT:
        found = np.array(work(latent_choices, [(r, seed, number) for number in range(repetitions)]))
        for way, name in enumerate(('latent="auto"', "latent_rank", "without")):
            if r or way != 1:
                print_row(r, name, *(mean_and_error(column) for column in found[:, way].T))


def begin() -> None:
    """A process of several keeps to one core."""
    warnings.simplefilter("ignore")
    single_core().__enter__()  # until the process ends


def main() -> None:
    few = 4  # choices and answers in categories take long
    tables = {
        "selection": lambda o, work: selection_table(-(-o.repetitions // few), o.seed, work),
        "inference": lambda o, work: inference_table(o.repetitions, o.seed, work),
        "tails": lambda o, work: tails_table(o.repetitions, o.seed, work, TAILS),
        "few": lambda o, work: tails_table(o.repetitions, o.seed, work, FEW),
        "ordinal": lambda o, work: ordinal_table(-(-o.repetitions // few), o.seed, work),
        "zeros": lambda o, work: zeros_table(-(-o.repetitions // 2), o.seed, work),
        "missing": lambda o, work: missing_table(o.repetitions, o.seed, work),
        "permutation": lambda o, work: permutation_table(o.repetitions, o.seed, work),
        "power": lambda o, work: power_table(o.repetitions, o.seed, work),
        "sets": lambda o, work: sets_table(o.repetitions, o.seed, work),
        "combinations": lambda o, work: combinations_table(o.repetitions, o.seed, work),
        "listed": lambda o, work: listed_table(o.repetitions, o.seed, work),
        "changes": lambda o, work: changes_table(o.repetitions, o.seed, work),
        "latent": lambda o, work: latent_table(-(-o.repetitions // few), o.seed, work),
        "strength": lambda o, work: strength_table(o.repetitions, o.seed, work),
        "predictability": lambda o, work: predictability_table(o.repetitions, o.seed, work),
        "real": lambda o, work: real_table(o.repetitions, o.seed, work, o.data),
        "held_out": lambda o, work: held_out_table(-(-o.repetitions // 40), o.seed, work),
        "scale": lambda o, work: scale_table(o.seed),
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"Some of {', '.join(tables)}; all by default.")
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    for name in options.tables:
        if name not in tables:
            parser.error(f"there is no table {name!r}: choose some of {', '.join(tables)}.")
    describe_machine()
    warnings.simplefilter("ignore")
    pool = ProcessPoolExecutor(options.processes, multiprocessing.get_context("spawn"), begin)
    with pool:
        alone = options.processes == 1
        for name in options.tables or tables:
            print(f"\n## {name}\n", flush=True)
            tables[name](options, (lambda *call: list((map if alone else pool.map)(*call))))


if __name__ == "__main__":
    main()
