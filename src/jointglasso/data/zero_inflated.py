"""Correlations of the latent Gaussian variables of data with many zeros: the truncated latent Gaussian copula.

A zero-inflated variable is an increasing function of a latent Gaussian variable where that exceeds a threshold, and
zero elsewhere (Yoon, Carroll and Gaynanova, 2020). Kendall's tau of two variables is a function F of the correlation r
of the latent ones, given the thresholds, which the shares of zeros estimate; r is the root of ``F(r) = tau``.

F' has a closed form in bivariate normal probabilities (`slope`), which replaces the probabilities of three and four
variables of the paper: the sign of a difference jumps by one where a latent variable crosses a threshold while the
other copy lies within a band beside it, and by two where the two copies of a continuous variable meet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre
from scipy.special import ndtr, ndtri

from jointglasso._threads import map_on_threads
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data.ordinal import INFINITY, LARGEST, Answers, bivariate, bivariate_density, root_of_score
from jointglasso.data.samples import Samples

#: Largest angle arcsin(r), and degree of the expansion of dF / d(angle) in Legendre polynomials up to it: the error of
#: F is below 2e-5 with 2 to 95 % zeros.
_WIDEST, _DEGREE = float(np.arcsin(LARGEST)), 23
_NODES, _WEIGHTS = legendre.leggauss(_DEGREE + 1)
_PROJECTION = (legendre.legvander(_NODES, _DEGREE) * _WEIGHTS[:, None] * (np.arange(_DEGREE + 1) + 0.5)).T

#: Pairs of one piece of work: the arrays of `slope` take 40 numbers a pair.
_PIECE = 200


def zero_inflated_variables(samples: Samples) -> BoolArray:
    """Mask (p,) of the variables without negative values and with zeros, over all classes."""
    lowest = np.fmin.reduce([np.nanmin(X, axis=0) for X in samples.matrices])
    return np.asarray(lowest == 0.0)


def kendall(X: FloatArray, of: IntArray) -> FloatArray:
    """Kendall's tau (m, p) of the variables `of` with all p, pairs with ties counted as zero; NaN is missing.

    The signs of all differences to one sample are multiplied at a time, in ``O(n^2 m p)``.
    """
    rows, total = np.ascontiguousarray(X.T), np.zeros((len(of), X.shape[1]))
    for i in range(len(X) - 1):
        here, later = rows[:, i : i + 1], rows[:, i + 1 :]
        signs = (later > here).astype(np.float32) - (later < here)
        total += signs[of] @ signs.T
    present = (~np.isnan(X)).astype(float)
    n = present[:, of].T @ present
    return total / np.maximum(0.5 * n * (n - 1.0), 1.0)


@dataclass(frozen=True)
class Margins:
    """Latent margins of m variables: thresholds where the observed value jumps, and a continuous part above `start`."""

    start: FloatArray
    """(m,): values above it are observed as they are; `INFINITY` for an ordinal variable."""
    jumps: FloatArray
    """(m, c): thresholds, padded with `INFINITY`."""
    low: FloatArray
    """(m, c): lower end of the band beside a threshold within which the sign of a difference jumps."""
    high: FloatArray
    """(m, c): upper end of the band."""

    @classmethod
    def truncated(cls, thresholds: FloatArray) -> Margins:
        """Zero up to a threshold (m,), observed above; continuous where it is ``-INFINITY``."""
        jumps = thresholds[:, None]
        return cls(thresholds, jumps, np.full_like(jumps, -INFINITY), jumps)

    @classmethod
    def ordinal(cls, answers: list[Answers]) -> Margins:
        """Categories between thresholds."""
        width = max((len(one.thresholds) for one in answers), default=0) + 2
        ends = np.array([[-INFINITY, *one.padded(width - 1)] for one in answers]).reshape(-1, width)
        return cls(np.full(len(answers), INFINITY), ends[:, 1:-1], ends[:, :-2], ends[:, 2:])

    def take(self, rows: slice) -> Margins:
        """Some of the variables."""
        return Margins(self.start[rows], self.jumps[rows], self.low[rows], self.high[rows])


def slope(threshold: float, others: Margins, angle: FloatArray) -> FloatArray:
    """Derivative (m, t) of Kendall's tau by the angle arcsin(r), of a zero-inflated variable and m others.

    With the copies (Z, Z') and (W, W') of two samples, ``tau = E sign(z - z') sign(w - w')`` of the observed values,
    and Price's theorem gives ``tau' = 2 E[d/dZ sign(z - z') d/dW sign(w - w')]``. The derivatives are point masses: one
    at each threshold, for Z' in the band beside it, and two at ``Z = Z'`` above the start. Four terms result.
    """
    a, r, s = np.array(threshold), np.sin(angle)[:, None], np.cos(angle)[:, None]  # arrays (m, t, c)
    start, jumps = others.start[:, None, None], others.jumps[:, None]
    low, high = others.low[:, None], others.high[:, None]
    q = 2.0 - r**2
    root, slant = np.sqrt(q), -r / np.sqrt(2.0)
    density = bivariate_density(a, jumps, r)
    both_jump = (density * (bivariate(a, high, r)[1] - bivariate(a, low, r)[1])).sum(axis=-1)

    def beyond(jump: FloatArray, ends: FloatArray, from_start: FloatArray) -> FloatArray:
        """Integral over w > from_start of ``density(jump, w) density(w) P(W' < ends | w)``, a jump of Z."""
        first = (r * jump - q * from_start) / (s * root)
        second = (ends - jump * r**2 / q) * root / (np.sqrt(2.0) * s)
        return np.asarray(np.exp(-(np.square(jump)) / q) / (2.0 * np.pi * root) * bivariate(first, second, slant)[1])

    own_jump = beyond(a, a, start).sum(axis=-1)
    other_jump = beyond(jumps, high, a)
    if (low > -INFINITY).any():
        other_jump = other_jump - beyond(jumps, low, a)
    no_jump = (bivariate(-np.sqrt(2.0) * a, -np.sqrt(2.0) * start, r)[1] / (np.pi * s)).sum(axis=-1)
    return np.asarray(2.0 * s[:, 0] * (both_jump + 2.0 * own_jump + 2.0 * other_jump.sum(axis=-1) + no_jump))


def bridge(threshold: float, others: Margins) -> tuple[FloatArray, FloatArray]:
    """Legendre coefficients of dF / d(angle) and of F, (degree + 1, m), in ``arcsin(r) / arcsin(LARGEST)``."""
    slopes = _PROJECTION @ slope(threshold, others, _WIDEST * _NODES).T
    return slopes, np.asarray(legendre.legint(slopes, lbnd=0.0, scl=_WIDEST))


def latent_from_kendall(tau: FloatArray, threshold: float, others: Margins) -> FloatArray:
    """Correlations (m,) of a zero-inflated variable with m others, whose Kendall's tau is `tau`.

    If `others` is one variable, its curve F serves all `tau`.
    """
    slopes, curves = bridge(threshold, others)

    def score_and_information(r: FloatArray) -> tuple[FloatArray, FloatArray]:
        x = np.arcsin(r) / _WIDEST
        value = legendre.legval(x, curves, tensor=False)
        return tau - value, legendre.legval(x, slopes, tensor=False) / np.sqrt(1.0 - r**2)

    return root_of_score(score_and_information, np.sin(0.5 * np.pi * tau))


def zero_inflated_correlation(X: FloatArray, R: FloatArray, zero_inflated: BoolArray, ordinal: BoolArray) -> FloatArray:
    """Correlations (p, p) of the latent variables of one class, pairs of a zero-inflated variable by Kendall's tau.

    Parameters
    ----------
    X : array (n, p)
        Samples; NaN where missing. Each pair takes the samples that have both values.
    R : array (p, p)
        Correlations of all other pairs, which are returned.
    zero_inflated, ordinal : array (p,)
        Masks; all other variables are continuous.
    """
    items, continuous, coded = (np.flatnonzero(mask) for mask in (zero_inflated, ~(zero_inflated | ordinal), ordinal))
    is_zero = np.where(np.isnan(X), np.nan, X == 0.0)[:, items]
    tau = kendall(X, items)
    tau[:, items] = _with_half_a_sample(tau[:, items], is_zero)
    thresholds = np.clip(ndtri(np.nanmean(is_zero, axis=0)), -INFINITY, INFINITY)
    own, complete = Margins.truncated(thresholds), Margins.truncated(np.array([-INFINITY]))
    categories = Margins.ordinal([Answers(X[:, j]) for j in coded])
    out = R.copy()

    def fill(number: int) -> None:
        i, threshold = items[number], float(thresholds[number])
        out[i, continuous] = latent_from_kendall(tau[number, continuous], threshold, complete)
        for columns, others, first in ((items, own, number + 1), (coded, categories, 0)):
            for start in range(first, len(columns), _PIECE):
                piece = slice(start, start + _PIECE)
                found = latent_from_kendall(tau[number, columns[piece]], threshold, others.take(piece))
                out[i, columns[piece]] = out[columns[piece], i] = found
        out[continuous, i] = out[i, continuous]

    map_on_threads(fill, range(len(items)))
    return out


def _with_half_a_sample(tau: FloatArray, is_zero: FloatArray) -> FloatArray:
    """Kendall's tau (m, m) with half a sample added to pairs that are positive together in no sample.

    Without it their correlation would be -1. The sample added is concordant with those in which both are zero.
    """
    zero, positive = (is_zero == 1.0).astype(float), (is_zero == 0.0).astype(float)
    never, both_zero = positive.T @ positive == 0.0, zero.T @ zero
    n = np.maximum((zero + positive).T @ (zero + positive), 1.0)
    return np.asarray(np.where(never, tau * (1.0 - 1.0 / n) + both_zero / n**2, tau))


def information_lost(X: FloatArray, zero_inflated: BoolArray) -> float:
    """Mean over all pairs of the variance of the latent correlation relative to that of Gaussian samples.

    Under independence the asymptotic variance of a root of ``F(r) = tau`` is the product of one factor for each
    variable, ``E g^2 / c^2``, with the expected sign g of the difference to another sample, and its mean derivative
    ``c = E d/dZ sign(z - z')``. Factors of other variables are taken as 1.
    """
    share = np.nanmean(np.where(np.isnan(X), np.nan, X == 0.0)[:, zero_inflated], axis=0)
    threshold = ndtri(np.clip(share, 1e-12, 1.0 - 1e-12))
    squared = share * (1.0 - share) ** 2 + (1.0 - (2.0 * share - 1.0) ** 3) / 6.0
    density = np.exp(-0.5 * threshold**2) / np.sqrt(2.0 * np.pi)
    c = density * share + ndtr(-np.sqrt(2.0) * threshold) / np.sqrt(np.pi)
    factor = np.ones(X.shape[1])
    factor[zero_inflated] = squared / c**2
    pairs = factor.sum() ** 2 - (factor**2).sum()
    return float(pairs / max(len(factor) * (len(factor) - 1), 1))
