"""The paper's synthetic data and penalties, at its size and at others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from benchmarks.synthetic import make_joint_ggm
from jointglasso._typing import FloatArray

#: (lambda1, lambda2) of the three columns of the paper's figure of running times, meant for p=1000 and n=5000.
PAPER_LAMBDAS = {"P1": (0.009, 0.0005), "P2": (0.0086, 0.001), "P3": (0.0082, 0.0015)}

#: Number of variables to which the paper's penalties, densities and signals belong.
PAPER_P = 1000

#: Variance of a variable whose precision is 5; a sample covariance of two has this divided by the root of n as noise.
_VARIANCE = 0.2

_BLOCKS_NOTE = (
    "The paper does not say how many diagonal blocks types B and C have, and results depend on it: B10 and C10 have "
    "ten blocks at p=1000, B40 and C40 forty."
)


@dataclass(frozen=True)
class Design:
    """One of the paper's types A, B and C."""

    kind: str
    n_blocks: int = 10
    """Diagonal blocks at p=1000 (types B and C)."""

    @property
    def r(self) -> float:
        """Size of an edge relative to the diagonal at p=1000, just below the paper's limit."""
        return 0.006 if self.kind == "A" else 0.0066


DESIGNS = {
    "A": Design("A"),
    "B10": Design("B", 10),
    "B40": Design("B", 40),
    "C10": Design("C", 10),
    "C40": Design("C", 40),
}


_CHOICES_NOTE = (
    "Chosen here, because the paper does not say: in type A 80 % of the edges of a class are shared by all, with one "
    "sign; blocks of types B and C are full, with signs drawn for each class; in type C 10 % of the variables of a "
    'class are moved to another block; r is 0.006 (A) and 0.0066 (B, C), where the paper has "less than" 0.0061 and '
    "0.0067."
)

#: Factor from which one method counts as much faster, or one partition as much cheaper, than another.
MUCH = 2.0


def draw(name: str, p: int, n_classes: int, seed: int) -> FloatArray:
    """Draw the covariance matrices (K, p, p) of a design, n=5p samples a class; class k is the same whatever K.

    At another p than 1000 a variable keeps its number of edges and an edge its strength relative to the noise: were the
    paper's 97 % zeros kept, a variable would have 300 edges at p=10,000, and at n=5p every rule would rightly find one
    block.
    """
    design = DESIGNS[name]
    data = make_joint_ggm(
        design.kind,
        p,
        n_classes,
        density=min(1.0, 0.03 * PAPER_P / p),
        n_blocks=max(2, round(design.n_blocks * p / PAPER_P)),
        r=design.r * np.sqrt(PAPER_P / p),
        output="covariances",
        random_state=seed,
    )
    covariances = np.empty((n_classes, p, p))
    for target, matrix in zip(covariances, data.iter_covariances(), strict=True):
        target[:] = matrix
    return covariances


def lambdas(name: str, p: int) -> tuple[float, float]:
    """The paper's penalties, carried over to p variables and n=5p samples by the expected degree of the noise graph."""
    lambda1, lambda2 = PAPER_LAMBDAS[name]
    if p == PAPER_P:
        return lambda1, lambda2
    first = _carried(lambda1, p)
    return first, _carried(lambda1 + lambda2, p) - first


def case(design: str, name: str, p: int, n_classes: int) -> dict[str, object]:
    """The columns of a row that say which data and penalties it is about."""
    lambda1, lambda2 = lambdas(name, p)
    return {"design": design, "lambdas": name, "lambda1": lambda1, "lambda2": lambda2, "p": p, "K": n_classes}


def shown_lambdas(name: str, p: int) -> str:
    """The penalties for the heading of a panel."""
    lambda1, lambda2 = lambdas(name, p)
    return f"λ = ({lambda1:.3g}, {lambda2:.2g})"


def _carried(threshold: float, p: int) -> float:
    then, now = (_VARIANCE / np.sqrt(5.0 * size) for size in (PAPER_P, p))
    degree = PAPER_P * 2.0 * ndtr(-threshold / then)
    return float(-ndtri(degree / (2.0 * p)) * now)


def data_notes(p: int) -> list[str]:
    """What was chosen where the paper is silent, and how data of another size than the paper's differ."""
    if p == PAPER_P:
        return [_BLOCKS_NOTE, _CHOICES_NOTE]
    return [
        _BLOCKS_NOTE,
        _CHOICES_NOTE,
        f"At p={p} the penalties are carried over from p=1000 so that noise gives a variable as many edges; a variable "
        "has as many true edges, of the same strength relative to the noise, as at p=1000.",
    ]
