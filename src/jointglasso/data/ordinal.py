"""Polychoric and polyserial correlations: correlations of the latent Gaussian variables of ordinal data.

An ordinal variable is modelled as a latent Gaussian variable cut at thresholds; the correlation is that of the latent
variables (Olsson, 1979; Olsson, Drasgow and Dorans, 1982). Two-step estimate: thresholds from the marginal proportions,
then the correlation of each pair by maximum likelihood. Pearson correlations of the codes are attenuated, which creates
false partial correlations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri

from jointglasso._threads import map_on_threads
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data.samples import Samples

#: Maximum number of distinct integer values of an ordinal variable.
CATEGORIES = 10

#: Bound on the absolute correlation: under perfect agreement the likelihood increases up to 1.
LARGEST = 0.999

#: Finite stand-in for an infinite threshold, so that products with it are finite.
INFINITY = 30.0

#: Gauss-Legendre nodes and weights: errors below 1e-10 up to a correlation of 0.98, 1e-8 beyond.
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(20)

_MAX_ITER, _TOL = 60, 1e-9


def ordinal_variables(samples: Samples) -> BoolArray:
    """Mask (p,) of the variables with at most `CATEGORIES` distinct values over all classes, all of them integers."""
    ordinal = np.zeros(samples.n_variables, dtype=bool)
    for j in range(samples.n_variables):
        values = np.unique(np.concatenate([np.unique(X[:, j]) for X in samples.matrices]))
        values = values[~np.isnan(values)]
        ordinal[j] = len(values) <= CATEGORIES and bool((values == np.round(values)).all())
    return ordinal


def latent_correlation(Z: FloatArray, codes: FloatArray, ordinal: BoolArray, R: FloatArray) -> FloatArray:
    """Correlations (p, p) of the latent variables of one class.

    Parameters
    ----------
    Z : array (n, p)
        Normal scores of all variables; those of ordinal ones are not used.
    codes : array (n, p)
        Samples; NaN where missing. Each pair takes the samples that have both values.
    ordinal : array (p,)
        Mask of the ordinal variables.
    R : array (p, p)
        Correlations of the scores: returned for pairs of continuous variables, initial values elsewhere.
    """
    items = np.flatnonzero(ordinal)
    answers = [Answers(codes[:, j]) for j in items]
    width = max((len(one.thresholds) for one in answers), default=0) + 1
    out = R.copy()

    def fill(number: int) -> None:
        i, item = items[number], answers[number]
        later, later_answers = items[number + 1 :], answers[number + 1 :]
        if len(later):
            out[i, later] = out[later, i] = polychoric(item, later_answers, width, R[i, later])
        continuous = np.flatnonzero(~ordinal)
        if len(continuous):
            out[i, continuous] = out[continuous, i] = polyserial(item, Z[:, continuous], R[i, continuous])

    map_on_threads(fill, range(len(items)))
    return out


class Answers:
    """One ordinal variable: category index of each sample, and the thresholds between the observed categories."""

    def __init__(self, codes: FloatArray) -> None:
        present = ~np.isnan(codes)
        _, place, counts = np.unique(codes[present], return_inverse=True, return_counts=True)
        self.place: IntArray = np.full(len(codes), -1, dtype=np.int64)
        """Category of each sample from 0; -1 where missing."""
        self.place[present] = place
        self.thresholds: FloatArray = ndtri(np.cumsum(counts)[:-1] / counts.sum())

    def indicators(self, width: int) -> FloatArray:
        """Indicator matrix (n, width) of the categories; a zero row where the value is missing."""
        return (self.place[:, None] == np.arange(width)).astype(float)

    def padded(self, width: int) -> FloatArray:
        """Upper thresholds (width,) of the categories, padded with infinity."""
        return np.concatenate([self.thresholds, np.full(width - len(self.thresholds), INFINITY)])


def polychoric(one: Answers, others: list[Answers], width: int, start: FloatArray) -> FloatArray:
    """Correlations of an ordinal variable with others; `width` is at least the number of categories of any."""
    a = one.padded(width)
    b = np.array([other.padded(width) for other in others])
    indicators = one.indicators(width).T
    N = np.array([indicators @ other.indicators(width) for other in others])
    # An empty cell of a 2 x 2 table would make the correlation 1: add half an observation to it.
    is_2x2 = (len(one.thresholds) == 1) & np.array([len(other.thresholds) == 1 for other in others])
    N[is_2x2, :2, :2] = np.where(N[is_2x2, :2, :2] == 0, 0.5, N[is_2x2, :2, :2])
    total = N.sum(axis=(1, 2))

    def score_and_information(r: FloatArray) -> tuple[FloatArray, FloatArray]:
        density, probability = bivariate(a[None, :, None], b[:, None, :], r[:, None, None])
        probability = np.maximum(_cells(probability), 1e-14)
        derivative = _cells(density)
        return (N * derivative / probability).sum(axis=(1, 2)), total * (derivative**2 / probability).sum(axis=(1, 2))

    return root_of_score(score_and_information, start)


def polyserial(one: Answers, Z: FloatArray, start: FloatArray) -> FloatArray:
    """Correlations of an ordinal variable with standard Gaussian ones (n, m); NaN where missing."""
    ends = np.concatenate([[-INFINITY], one.thresholds, [INFINITY]])
    both = (one.place >= 0)[:, None] & ~np.isnan(Z)
    z = np.where(both, Z, 0.0)
    low, high = ends[np.maximum(one.place, 0)][:, None], ends[np.maximum(one.place, 0) + 1][:, None]

    def score_and_information(r: FloatArray) -> tuple[FloatArray, FloatArray]:
        conditional_sd = np.sqrt(1.0 - r**2)
        below, above = (low - r * z) / conditional_sd, (high - r * z) / conditional_sd
        # Use the tail that contains both limits, to avoid cancellation in small probabilities.
        upper_tail = below > 0
        probability = ndtr(np.where(upper_tail, -below, above)) - ndtr(np.where(upper_tail, -above, below))
        derivative = (_density(above) * (high * r - z) - _density(below) * (low * r - z)) / conditional_sd**3
        score = np.where(both, derivative / np.maximum(probability, 1e-300), 0.0)
        return score.sum(axis=0), (score**2).sum(axis=0)

    return root_of_score(score_and_information, start)


def bivariate(a: FloatArray, b: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bivariate standard normal density and distribution function at (a, b) with correlation r.

    The derivative of the distribution function by r is the density (Plackett, 1954); it is integrated over the angle
    arcsin(r) from 0 by Gauss-Legendre quadrature.
    """
    half_angle = 0.5 * np.arcsin(r)
    squares, product = a**2 + b**2, 2.0 * a * b
    probability = ndtr(a) * ndtr(b)
    for node, node_weight in zip(_NODES, _NODE_WEIGHTS, strict=True):
        angle = half_angle * (node + 1.0)
        sine = np.sin(angle)
        probability = probability + node_weight * half_angle / (2.0 * np.pi) * np.exp(
            -0.5 * (squares - product * sine) / (1.0 - sine**2)
        )
    return bivariate_density(a, b, r), probability


def bivariate_density(a: FloatArray, b: FloatArray, r: FloatArray) -> FloatArray:
    """Bivariate standard normal density at (a, b) with correlation r."""
    residual_variance = 1.0 - r**2
    density: FloatArray = np.exp(-0.5 * (a**2 + b**2 - 2.0 * a * b * r) / residual_variance)
    return density / (2.0 * np.pi * np.sqrt(residual_variance))


def _cells(below: FloatArray) -> FloatArray:
    """Cell values (m, c, c) from cumulative values at the upper thresholds (second-order differences)."""
    return np.diff(np.diff(below, axis=1, prepend=0.0), axis=2, prepend=0.0)


def _density(x: FloatArray) -> FloatArray:
    density: FloatArray = np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi)
    return density


def root_of_score(
    score_and_information: Callable[[FloatArray], tuple[FloatArray, FloatArray]], start: FloatArray
) -> FloatArray:
    """Roots r of the score functions by Fisher scoring, safeguarded by bisection."""
    r = np.clip(start, -0.9, 0.9)
    low, high = np.full_like(r, -LARGEST), np.full_like(r, LARGEST)
    for _ in range(_MAX_ITER):
        score, information = score_and_information(r)
        low, high = np.where(score > 0, r, low), np.where(score < 0, r, high)
        new = r + np.divide(score, information, out=np.zeros_like(r), where=information > 0)
        new = np.where((new > low) & (new < high) | (score == 0), new, 0.5 * (low + high))
        change, r = np.abs(new - r).max(initial=0.0), new
        if change <= _TOL:
            break
    return r
