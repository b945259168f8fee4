"""Where pure noise percolates: below this penalty, independent variables alone tie most variables together.

With n samples the correlation r of two independent normal variables satisfies ``r^2 ~ Beta(1/2, (n - 2)/2)``. A graph
with an edge wherever |r| is above a threshold has a giant component once a variable has one neighbour on average,
``p P(|r| > threshold) = 1``; where variables differ in scale, once the largest eigenvalue of the matrix of edge
probabilities is one. Divide and conquer works above that penalty.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv

from jointglasso._typing import FloatArray, IntArray
from jointglasso.covariance import CovarianceSource

#: Scales of the variables are represented by this many quantiles.
_QUANTILES = 200


def critical_correlation(n_samples: int, n_variables: int) -> float:
    """Threshold on |r| at which independent variables have one neighbour each on average."""
    if n_samples <= 2:
        return 1.0  # two samples are always perfectly correlated
    if n_variables <= 1:
        return 0.0
    return float(np.sqrt(1.0 - betaincinv((n_samples - 2) / 2, 0.5, 1.0 / n_variables)))


def noise_percolation(source: CovarianceSource, weights: FloatArray, ratio: float, rule: str) -> float | None:
    """Lambda1 below which noise of this many samples and these variances percolates; None without sample sizes.

    A pair that stands out in one class only is kept from ``w |S| = lambda1 + lambda2`` on by the rules that look at
    all classes, and from lambda1 on by the class rule. The global rule ties the variables where any class does.
    """
    sizes = source.sample_sizes
    if sizes is None:
        return None
    scales = [weights[k] ** 0.5 * _scale_quantiles(source, k) for k in range(source.n_classes)]
    if rule == "global":
        return _critical_threshold(scales, sizes, source.n_variables) / (1.0 + ratio)
    single = max(_critical_threshold([scale], sizes[k : k + 1], source.n_variables) for k, scale in enumerate(scales))
    return single if rule == "class" else single / (1.0 + ratio)


def _scale_quantiles(source: CovarianceSource, k: int) -> FloatArray:
    deviation = np.sqrt(source.diagonal(k))
    levels = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    return np.asarray(np.quantile(deviation, levels))


def _critical_threshold(scales: list[FloatArray], sizes: IntArray, n_variables: int) -> float:
    """Threshold at which the largest eigenvalue of the expected graph, all its classes united, is one."""
    largest = max(float(scale[-1]) ** 2 for scale in scales)
    if largest == 0 or n_variables <= 1:
        return 0.0
    if len(scales) == 1 and scales[0][0] ** 2 >= (1.0 - 1e-12) * largest:
        return largest * critical_correlation(int(sizes[0]), n_variables)

    def excess(threshold: float) -> float:
        expected = sum(_edge_probability(threshold, s, int(n)) for s, n in zip(scales, sizes, strict=True))
        return float(np.linalg.eigvalsh(expected)[-1]) * n_variables / _QUANTILES - 1.0

    if excess(largest) >= 0:  # too few samples: noise reaches even the largest possible covariance
        return largest
    return float(brentq(excess, 0.0, largest, xtol=1e-9 * largest))


def _edge_probability(threshold: float, scale: FloatArray, n_samples: int) -> FloatArray:
    """Probability that the covariance of two independent variables is above the threshold, for all pairs of scales."""
    product = np.outer(scale, scale)
    with np.errstate(divide="ignore"):
        squared = np.minimum(np.where(product > 0, threshold / product, np.inf) ** 2, 1.0)
    if n_samples <= 2:
        return (product >= threshold).astype(float)
    return np.asarray(betainc((n_samples - 2) / 2, 0.5, 1.0 - squared))
