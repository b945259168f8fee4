"""The problems, made only when their turn comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from common import PAPER_LAMBDAS, paper_covariances
from real_genes import load as load_genes
from synthetic import make_joint_ggm

#: First penalty that gives the genes a largest block of about p/2 variables; the second is 0.1.
GENE_LAMBDAS = {500: 0.58, 1000: 0.6, 2000: 0.65, 3000: 0.63}


@dataclass(frozen=True)
class Problem:
    """One joint graphical lasso with a free diagonal."""

    name: str
    S: np.ndarray
    lambda1: float
    lambda2: float

    def save(self, path: Path) -> None:
        np.savez(path, name=self.name, S=self.S, lambda1=self.lambda1, lambda2=self.lambda2)

    @classmethod
    def load(cls, path: Path) -> Problem:
        with np.load(path) as stored:
            return cls(str(stored["name"]), stored["S"], float(stored["lambda1"]), float(stored["lambda2"]))


@dataclass(frozen=True)
class Entry:
    """A problem of the catalogue."""

    name: str
    make: Callable[[], tuple[np.ndarray, float, float]]
    quick: bool = False
    curve: bool = False
    """Peers go on beyond the target, so that time can be drawn against accuracy."""

    def problem(self) -> Problem:
        return Problem(self.name, *self.make())


def scaled(p: int) -> tuple[float, float]:
    """The paper's third pair, given at p=1000 with n=5p, by the noise at p."""
    lambda1, lambda2 = np.array(PAPER_LAMBDAS["P3"]) * np.sqrt(1000 / p)
    return float(lambda1), float(lambda2)


def paper(design: str, p: int, n_classes: int) -> tuple[np.ndarray, float, float]:
    return paper_covariances(design, p, n_classes), *scaled(p)


def connected(p: int, n_classes: int) -> tuple[np.ndarray, float, float]:
    """About 1 % of the pairs above lambda1 + lambda2 in some class: no screening rule finds much."""
    S = paper_covariances("A", p, n_classes)
    level = float(np.quantile(np.abs(S[:, *np.triu_indices(p, 1)]).max(axis=0), 0.99))
    return S, 0.85 * level, 0.15 * level


def group_alone(p: int, n_classes: int) -> tuple[np.ndarray, float, float]:
    """No lambda1, the problem of skein-glm; 1 % of the pairs pass the group's threshold."""
    S = paper_covariances("A", p, n_classes)
    return S, 0.0, float(np.quantile(np.linalg.norm(S[:, *np.triu_indices(p, 1)], axis=0), 0.99))


def subjects(p: int, n_subjects: int) -> tuple[np.ndarray, float, float]:
    """Regions of the brain in many people, 200 samples each: one group penalty, which a tenth of the pairs pass."""
    rng = np.random.default_rng([p, n_subjects])
    edges = np.triu(rng.random((p, p)) < 4.0 / p, 1) * rng.uniform(-0.4, 0.6, (p, p))
    S = []
    for _ in range(n_subjects):
        Theta = edges * rng.uniform(0.5, 1.5, (p, p))
        Theta += Theta.T
        Theta += np.diag(0.2 + np.abs(Theta).sum(axis=0))
        samples = rng.standard_normal((200, p)) @ np.linalg.cholesky(np.linalg.inv(Theta)).T
        S.append(np.corrcoef(samples.T))
    S = np.stack(S)
    return S, 0.0, float(np.quantile(np.linalg.norm(S[:, *np.triu_indices(p, 1)], axis=0), 0.9))


def modules(p: int) -> tuple[np.ndarray, float, float]:
    drawn = make_joint_ggm("modules", p, 3, n_samples=100, n_blocks=p // 30, random_state=0)
    return drawn.covariances, 0.3, 0.1


def one_class(p: int) -> tuple[np.ndarray, float, float]:
    return paper_covariances("A", p, 1), scaled(p)[0], 0.0


def one_factor(p: int, lambda1: float) -> tuple[np.ndarray, float, float]:
    """Everything is correlated with everything, as returns are: one factor, and pairs of variables beside it."""
    rng = np.random.default_rng(0)
    loadings = rng.uniform(0.5, 0.9, p)
    S = []
    for _ in range(2):
        own = rng.standard_normal((300, p))
        own[:, 1::2] += 0.5 * own[:, : 2 * (p // 2) : 2]
        loading = np.clip(loadings + 0.1 * rng.standard_normal(p), 0.3, 0.95)
        samples = loading * rng.standard_normal((300, 1)) + np.sqrt(1.0 - loading**2) * own / own.std(axis=0)
        S.append(np.corrcoef(samples.T))
    return np.stack(S), lambda1, 0.3 * lambda1


def genes(file: str, p: int) -> tuple[np.ndarray, float, float]:
    return load_genes(file, p), GENE_LAMBDAS[p], 0.1


def catalogue(gene_file: str | None) -> Iterator[Entry]:
    """All problems; those of real genes where their file is given."""
    for p in (100, 300, 1000, 2000):
        for design in ("A", "C40"):
            for k in (2, 6, 10):
                chosen = (design, k) == ("A", 6)
                yield Entry(f"type {design}, p={p}, K={k}", partial(paper, design, p, k), quick=chosen and p == 100,
                            curve=chosen and p in (300, 1000))  # fmt: skip
    yield Entry("type A, p=1000, K=6, connected", partial(connected, 1000, 6), curve=True)
    for p in (300, 1000):
        yield Entry(f"modules, p={p}, K=3", partial(modules, p), quick=p == 300, curve=True)
    for p in (100, 300, 1000):
        yield Entry(f"group penalty alone, p={p}, K=3", partial(group_alone, p, 3), quick=p == 100, curve=p == 300)
    for p, n_subjects in ((39, 40), (39, 100), (200, 40), (200, 100), (400, 40), (400, 100)):
        yield Entry(f"subjects, p={p}, K={n_subjects}", partial(subjects, p, n_subjects))
    for p in (300, 1000):
        yield Entry(f"one class, p={p}", partial(one_class, p), quick=p == 300, curve=True)
    for p, lambda1 in ((300, 0.1), (300, 0.3), (700, 0.1), (700, 0.3)):
        yield Entry(f"one factor, p={p}, K=2, {lambda1}", partial(one_factor, p, lambda1))
    for p in GENE_LAMBDAS if gene_file else ():
        yield Entry(f"genes, p={p}, K=3", partial(genes, gene_file, p), curve=p in (1000, 2000))
