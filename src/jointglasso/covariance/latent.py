"""Correlations of the Gaussian variables behind answers in few categories: polychoric and polyserial.

An ordinal variable is seen as a Gaussian one cut at thresholds, and the correlation is that of the uncut variables
(Olsson, 1979; Olsson, Drasgow and Dorans, 1982). In two steps: thresholds from the shares of the categories, then for
every pair the correlation of largest likelihood. Correlations of the codes themselves are too small, and pull edges
into partial correlations that are none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri

from jointglasso._threads import map_on_threads
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.covariance.classes import Samples

#: Distinct whole numbers up to which a variable counts as ordinal.
CATEGORIES = 10

#: Largest size of a correlation: where answers agree without exception the likelihood grows towards 1.
LARGEST = 0.999

#: Beyond every threshold: stands for infinity, so that products with it are numbers.
_FAR = 30.0

#: Nodes of the quadrature: errors below 1e-10 up to a correlation of 0.98, 1e-8 beyond.
_NODES, _SHARES = np.polynomial.legendre.leggauss(20)

_ROUNDS, _TOL = 60, 1e-9


def ordinal_variables(samples: Samples) -> BoolArray:
    """(p,): variables with at most `CATEGORIES` distinct values in all classes together, all of them whole numbers."""
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
        Which variables are ordinal.
    R : array (p, p)
        Correlations of the scores: what is returned between two continuous variables, and the start elsewhere.
    """
    items = np.flatnonzero(ordinal)
    answers = [Answers(codes[:, j]) for j in items]
    width = max((len(one.thresholds) for one in answers), default=0) + 1
    out = R.copy()

    def fill(number: int) -> None:
        i, mine = items[number], answers[number]
        later, rest = items[number + 1 :], answers[number + 1 :]
        if len(later):
            out[i, later] = out[later, i] = polychoric(mine, rest, width, R[i, later])
        continuous = np.flatnonzero(~ordinal)
        if len(continuous):
            out[i, continuous] = out[continuous, i] = polyserial(mine, Z[:, continuous], R[i, continuous])

    map_on_threads(fill, range(len(items)))
    return out


class Answers:
    """One ordinal variable: the place of each answer among the categories that occur, and the thresholds between."""

    def __init__(self, codes: FloatArray) -> None:
        present = ~np.isnan(codes)
        _, place, counts = np.unique(codes[present], return_inverse=True, return_counts=True)
        self.place: IntArray = np.full(len(codes), -1, dtype=np.int64)
        """Category of each sample from 0; -1 where missing."""
        self.place[present] = place
        self.thresholds: FloatArray = ndtri(np.cumsum(counts)[:-1] / counts.sum())

    def indicators(self, width: int) -> FloatArray:
        """(n, width): 1 in the column of the answer; zero throughout where it is missing."""
        return (self.place[:, None] == np.arange(width)).astype(float)

    def padded(self, width: int) -> FloatArray:
        """(width,): upper ends of the categories; those that do not occur have no width, at infinity."""
        return np.concatenate([self.thresholds, np.full(width - len(self.thresholds), _FAR)])


def polychoric(one: Answers, others: list[Answers], width: int, start: FloatArray) -> FloatArray:
    """Correlations of an ordinal variable with others; `width` is at least the number of categories of any."""
    a = one.padded(width)
    b = np.array([other.padded(width) for other in others])
    mine = one.indicators(width).T
    N = np.array([mine @ other.indicators(width) for other in others])
    # In a table of four an empty cell would make the correlation 1: half a sample is put there.
    four = (len(one.thresholds) == 1) & np.array([len(other.thresholds) == 1 for other in others])
    N[four, :2, :2] = np.where(N[four, :2, :2] == 0, 0.5, N[four, :2, :2])
    total = N.sum(axis=(1, 2))

    def slope(r: FloatArray) -> tuple[FloatArray, FloatArray]:
        density, share = bivariate(a[None, :, None], b[:, None, :], r[:, None, None])
        share = np.maximum(_cells(share), 1e-14)
        change = _cells(density)
        return (N * change / share).sum(axis=(1, 2)), total * (change**2 / share).sum(axis=(1, 2))

    return _maximise(slope, start)


def polyserial(one: Answers, Z: FloatArray, start: FloatArray) -> FloatArray:
    """Correlations of an ordinal variable with standard Gaussian ones (n, m); NaN where missing."""
    ends = np.concatenate([[-_FAR], one.thresholds, [_FAR]])
    both = (one.place >= 0)[:, None] & ~np.isnan(Z)
    z = np.where(both, Z, 0.0)
    low, high = ends[np.maximum(one.place, 0)][:, None], ends[np.maximum(one.place, 0) + 1][:, None]

    def slope(r: FloatArray) -> tuple[FloatArray, FloatArray]:
        rest = np.sqrt(1.0 - r**2)
        below, above = (low - r * z) / rest, (high - r * z) / rest
        # The tail in which both ends lie, so that small shares are not differences of numbers near 1.
        turned = below > 0
        share = ndtr(np.where(turned, -below, above)) - ndtr(np.where(turned, -above, below))
        change = (_density(above) * (high * r - z) - _density(below) * (low * r - z)) / rest**3
        score = np.where(both, change / np.maximum(share, 1e-300), 0.0)
        return score.sum(axis=0), (score**2).sum(axis=0)

    return _maximise(slope, start)


def bivariate(a: FloatArray, b: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Density at (a, b) and probability of below a and below b, of two standard Gaussians with correlation r.

    The derivative of the probability by r is the density (Plackett, 1954), which is integrated from 0 over the angle
    whose sine is the correlation.
    """
    half = 0.5 * np.arcsin(r)
    squares, product = a**2 + b**2, 2.0 * a * b
    probability = ndtr(a) * ndtr(b)
    for node, share in zip(_NODES, _SHARES, strict=True):
        angle = half * (node + 1.0)
        sine = np.sin(angle)
        probability = probability + share * half / (2.0 * np.pi) * np.exp(
            -0.5 * (squares - product * sine) / (1.0 - sine**2)
        )
    rest = 1.0 - r**2
    density = np.exp(-0.5 * (squares - product * r) / rest) / (2.0 * np.pi * np.sqrt(rest))
    return density, probability


def _cells(below: FloatArray) -> FloatArray:
    """What lies in each cell (m, c, c), from what lies below its upper ends."""
    return np.diff(np.diff(below, axis=1, prepend=0.0), axis=2, prepend=0.0)


def _density(x: FloatArray) -> FloatArray:
    density: FloatArray = np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi)
    return density


def _maximise(slope: Callable[[FloatArray], tuple[FloatArray, FloatArray]], start: FloatArray) -> FloatArray:
    """Zeros of the slope of likelihoods in r, by steps of slope / information, kept between points of unlike slope."""
    r = np.clip(start, -0.9, 0.9)
    low, high = np.full_like(r, -LARGEST), np.full_like(r, LARGEST)
    for _ in range(_ROUNDS):
        score, information = slope(r)
        low, high = np.where(score > 0, r, low), np.where(score < 0, r, high)
        new = r + np.divide(score, information, out=np.zeros_like(r), where=information > 0)
        new = np.where((new > low) & (new < high) | (score == 0), new, 0.5 * (low + high))
        change, r = np.abs(new - r).max(initial=0.0), new
        if change <= _TOL:
            break
    return r
