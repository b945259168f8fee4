"""Information criteria of a joint graphical model.

With ``d_k = <S_k, Theta_k> - log det Theta_k``, sample sizes n_k, p variables, P = p (p - 1) / 2 pairs, E_k edges in
class k, E edges in all, and U pairs with an edge in at least one of the K classes::

    AIC         = sum_k [ n_k d_k + 2 E_k ]
    BIC         = sum_k [ n_k d_k + log(n_k) E_k ]
    eBIC_gamma  = sum_k [ n_k d_k + log(n_k) E_k + 4 gamma log(p) E_k ]
    JBIC_gamma  = sum_k n_k d_k + sum_e c_e n_e / nu_e,     summed over the E edges e, where
        c_e = f { log(n_e) + (2 gamma / E) [ log C(P, U) + log C(K U, E) ] }
        nu_e = n_e - 3/2 - min(degree of both ends of e) = n_e - 5/2 - d,
        d = min(degree of both ends of e) - 1, the other neighbours of the end with fewer

AIC and BIC are those of Danaher, Wang and Witten (2014); the extended BIC is that of Foygel and Drton (2010), summed
over the classes. The joint extended BIC charges the positions of the edges once for all classes (first binomial) and
then the classes that have them (second); for one class these terms are those of Chen and Chen (2008). Two corrections
make it hold for small samples:

- ``n_e / nu_e`` is Bartlett's correction. The likelihood ratio statistic of an edge with d conditioning variables is
  ``-n log(1 - r^2)`` with r a partial correlation of n - 2 - d degrees of freedom. Times ``(n - 5/2 - d) / n`` it is
  close to chi-squared with one degree of freedom also for n = 10, where the statistic itself is far larger.
- f >= 1 keeps the sum of the c_e above ``1.1 G + 3``. G is the expected sum of likelihood ratio statistics of the best
  graph with U pairs and E edges on independent data (`noise_gain`): without this bound the best of many graphs on pure
  noise is often better than the empty one. For the large graphs of large samples f = 1.

As n grows with f = 1, JBIC is the plain sum ``log(n_k) E_k + 2 gamma [...]``. Smaller values are better.

In `select`, an edge counts in every class that has it, unless a fused penalty makes its value equal in several
classes: such a cluster counts once, as in the model dimension, and its n_e and nu_e are sums over its classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import chdtrc, chdtri, gammaln

from jointglasso._typing import FloatArray, IntArray
from jointglasso.data import CovarianceSource, as_source
from jointglasso.data.checks import InputError, check_choice, check_nonnegative
from jointglasso.errors import argument
from jointglasso.selection.likelihood import deviances
from jointglasso.solution import EdgeClusters

CRITERIA = ("aic", "bic", "ebic", "jbic")

#: Default gamma of the extended criteria: Foygel and Drton's 0.5 for eBIC. False edges on noise are bounded by
#: `noise_gain`, so that the gamma of JBIC only has to balance found and false edges of graphs that have edges.
GAMMA = {"ebic": 0.5, "jbic": 0.45}

#: JBIC charges at least ``NOISE_FACTOR * noise_gain + NOISE_MARGIN``; simulated in docs/selection.md.
NOISE_FACTOR, NOISE_MARGIN = 1.1, 3.0

#: Anti-conservative criteria: their penalty per edge does not account for the number of candidate pairs.
ANTI_CONSERVATIVE = ("aic", "bic")


@dataclass(frozen=True)
class GraphSize:
    """Model dimension: free off-diagonal parameters of all classes, and the pairs that they belong to."""

    samples: FloatArray
    """(E,): sample size n_e of each free parameter, n_k of its class or the sum over the classes that share it."""
    residual_df: FloatArray
    """(E,): ``n_e - 3/2`` less the smaller degree of both ends, the divisor of Bartlett's correction."""
    n_pairs: int
    """Number U of pairs with an edge in at least one class."""
    estimable: bool
    """Whether the largest degree of every class is below n_k - 3: regressions on more neighbours are saturated."""

    @classmethod
    def of(cls, precision: Sequence[Any], sizes: FloatArray, edge_clusters: EdgeClusters | None = None) -> GraphSize:
        """From K precision matrices and sample sizes (K,); `edge_clusters` lists the values that classes share."""
        sizes = np.asarray(sizes, dtype=float)
        pairs, samples, residual_df, estimable = list[IntArray](), list[FloatArray](), list[FloatArray](), True
        for Theta, n in zip(precision, sizes, strict=True):
            upper = sparse.triu(sparse.csr_array(Theta), 1).tocoo()
            i, j = upper.row[upper.data != 0].astype(np.int64), upper.col[upper.data != 0]
            degree = np.bincount(np.concatenate([i, j]), minlength=Theta.shape[0])
            pairs.append(i * Theta.shape[0] + j)
            samples.append(np.full(len(i), n))
            residual_df.append(n - 1.5 - np.minimum(degree[i], degree[j]))
            estimable &= not len(i) or bool(degree.max() < n - 3)
        union = np.unique(np.concatenate(pairs))
        if edge_clusters is not None:
            samples, residual_df = (
                [edge_clusters.sum_over_clusters(precision, pairs, values)] for values in (samples, residual_df)
            )
        return cls(np.concatenate(samples), np.concatenate(residual_df), len(union), estimable)


def aic(S: Any, precision: Sequence[Any], n_samples: Any = None) -> float:
    """Akaike's criterion ``sum_k [n_k d_k + 2 E_k]``, see the module.

    Parameters
    ----------
    S : CovarianceSource, or what `jointglasso.solve` takes
        Covariances that the matrices were estimated from.
    precision : sequence of K matrices
        Precision matrices, sparse or dense, or the `precision` of a solution.
    n_samples : sequence of int, optional
        Sample sizes n_k; those of the source by default.
    """
    return _criterion("aic", S, precision, n_samples, 0.0)


def bic(S: Any, precision: Sequence[Any], n_samples: Any = None) -> float:
    """Bayesian criterion ``sum_k [n_k d_k + log(n_k) E_k]``; arguments as in `aic`."""
    return _criterion("bic", S, precision, n_samples, 0.0)


def ebic(S: Any, precision: Sequence[Any], n_samples: Any = None, *, gamma: float = 0.5) -> float:
    """Extended Bayesian criterion ``sum_k [n_k d_k + (log n_k + 4 gamma log p) E_k]``; arguments as in `aic`.

    `gamma` between 0 (the plain BIC) and 1 sets how fast the prior probability of a graph falls with its size.
    """
    return _criterion("ebic", S, precision, n_samples, gamma)


def jbic(S: Any, precision: Sequence[Any], n_samples: Any = None, *, gamma: float = GAMMA["jbic"]) -> float:
    """Joint extended Bayesian criterion, see the module; arguments as in `ebic`.

    It is meant for maximum likelihood estimates on the support (`refit`).
    """
    return _criterion("jbic", S, precision, n_samples, gamma)


def model_complexity(criterion: str, size: GraphSize, n_classes: int, n_variables: int, gamma: float = 0.0) -> float:
    """Complexity term that the criterion adds to minus two log-likelihoods."""
    check_choice("criterion", criterion, CRITERIA)
    n_edges = len(size.samples)
    if criterion == "aic":
        return 2.0 * n_edges
    plain = float(np.log(size.samples).sum())
    gamma = check_gamma(gamma)
    if criterion == "bic" or not n_edges:
        return plain
    if criterion == "ebic":
        return plain + 4.0 * gamma * float(np.log(n_variables)) * n_edges
    if not size.estimable:
        return np.inf
    n_candidates = n_variables * (n_variables - 1) / 2
    positions = _log_binomial(n_candidates, size.n_pairs) + _log_binomial(n_classes * size.n_pairs, n_edges)
    per_edge = np.log(size.samples) + 2.0 * gamma * positions / n_edges
    floor = NOISE_FACTOR * noise_gain(n_candidates, n_classes, size.n_pairs, n_edges) + NOISE_MARGIN
    per_edge *= max(1.0, floor / per_edge.sum())
    return float((per_edge * size.samples / size.residual_df).sum())


def price_of_edge(criterion: str, size: GraphSize, sizes: FloatArray, n_variables: int, gamma: float = 0.0) -> float:
    """Mean complexity of the edges of a graph, of a single edge if it has none; 0 if it is infinite."""
    if not len(size.samples):
        n = sizes.max(keepdims=True)
        size = GraphSize(n, n - 2.5, 1, True)
    complexity = model_complexity(criterion, size, len(sizes), n_variables, gamma)
    return complexity / len(size.samples) if np.isfinite(complexity) else 0.0


def noise_gain(n_candidates: float, n_classes: int, n_pairs: int, n_edges: int) -> float:
    """Expected sum G of the likelihood ratio statistics of the best graph of a given size on independent data.

    A graph of E edges on U of the P candidate pairs has m = E / U classes per pair. Its pairs are the U best of
    ``P C(K, m)`` statistics, each chi-squared with m degrees of freedom: with x their quantile at the tail probability
    ``t = U / (P C(K, m))``, G is U times the mean of the statistics beyond x, ``m Pr(chi2_{m+2} > x) / t``.
    """
    m = n_edges / n_pairs
    tail = np.exp(max(np.log(n_pairs / n_candidates) - _log_binomial(n_classes, m), -600.0))
    if tail >= 1.0:
        return float(n_edges)
    return float(n_edges * chdtrc(m + 2.0, chdtri(m, tail)) / tail)


def single_edge_rate(n_variables: int, n_classes: int, sizes: FloatArray, gamma: float = GAMMA["jbic"]) -> float:
    """Expected number of single edges, over all classes, that lower JBIC on independent normal data of this size."""
    if n_variables < 2:
        return 0.0
    n_candidates = n_variables * (n_variables - 1) / 2
    price = np.log(sizes) + 2.0 * gamma * np.log(n_candidates * n_classes)
    price = np.maximum(price, NOISE_FACTOR * noise_gain(n_candidates, n_classes, 1, 1) + NOISE_MARGIN)
    return float(n_candidates * chdtrc(1.0, price).sum())


def _log_binomial(n: float, k: float) -> float:
    return float(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def check_gamma(gamma: Any) -> float:
    """Return `gamma`; raise InputError outside [0, 1]."""
    if check_nonnegative("gamma", gamma) > 1.0:
        raise InputError(f"{argument('gamma', gamma)} must be between 0 and 1.", "gamma")
    return float(gamma)


def sample_sizes(source: CovarianceSource) -> FloatArray:
    """Sample sizes n_k (K,) of a source; InputError where it has none."""
    if source.sample_sizes is None:
        raise InputError(
            "The criterion needs the number of samples of each class: give samples, or "
            "DenseCovariance(matrices, sample_sizes=[...]).",
            "sample_sizes",
        )
    return np.asarray(source.sample_sizes, dtype=float)


def _criterion(name: str, S: Any, precision: Sequence[Any], n_samples: Any, gamma: float) -> float:
    source = as_source(S)
    sizes = sample_sizes(source) if n_samples is None else np.asarray(n_samples, dtype=float)
    complexity = model_complexity(name, GraphSize.of(precision, sizes), len(sizes), source.n_variables, gamma)
    return float((sizes * deviances(source, precision)).sum()) + complexity
