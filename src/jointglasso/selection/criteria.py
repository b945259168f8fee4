"""Information criteria of a joint graphical model.

With ``d_k = <S_k, Theta_k> - log det Theta_k``, sample sizes n_k, p variables, P = p (p - 1) / 2 pairs, E_k edges in
class k, E edges in all, and U pairs with an edge in at least one of the K classes::

    AIC         = sum_k [ n_k d_k + 2 E_k ]
    BIC         = sum_k [ n_k d_k + log(n_k) E_k ]
    eBIC_gamma  = sum_k [ n_k d_k + log(n_k) E_k + 4 gamma log(p) E_k ]
    JBIC_gamma  = sum_k [ n_k d_k + log(n_k) E_k ] + 2 gamma [ log C(P, U) + log C(K U, E) ]

AIC and BIC are those of Danaher, Wang and Witten (2014); the extended BIC is that of Foygel and Drton (2010), summed
over the classes. The joint extended BIC uses that the classes are related: its prior is uniform over the unions of
supports of a given size U (first term in brackets), then over the E entries among the K U possible ones (second term);
for one class it is the criterion of Chen and Chen (2008). Smaller is better.

An edge counts once in every class that has it. A fused penalty can make its value equal in several classes: such a
cluster of classes is one free parameter and counts once, and ``n_k`` is then the total sample size of the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from jointglasso._typing import FloatArray
from jointglasso.covariance import CovarianceSource, as_source
from jointglasso.errors import argument
from jointglasso.selection.likelihood import deviances
from jointglasso.solution import EdgeClusters
from jointglasso.validation import InputError, check_choice, check_nonnegative

CRITERIA = ("aic", "bic", "ebic", "jbic")

#: Default gamma of the extended criteria: Foygel and Drton's 0.5 for eBIC; 0.55 for JBIC, which halves the false edges
#: on pure noise at no cost elsewhere.
GAMMA = {"ebic": 0.5, "jbic": 0.55}

#: Anti-conservative criteria: their penalty per edge does not account for the number of candidate pairs.
ANTI_CONSERVATIVE = ("aic", "bic")


@dataclass(frozen=True)
class GraphSize:
    """Model dimension: free off-diagonal parameters of all classes, and the pairs that they belong to."""

    samples: FloatArray
    """Sample size of each free parameter: n_k of its class, or the sum over the classes that share the value."""
    n_pairs: int
    """Number U of pairs with an edge in at least one class."""

    @classmethod
    def of(cls, precision: Sequence[Any], sizes: FloatArray, edge_clusters: EdgeClusters | None = None) -> GraphSize:
        """From K precision matrices and sample sizes (K,); `edge_clusters` lists the values that classes share."""
        upper = [sparse.csr_array(sparse.triu(sparse.coo_array(Theta), 1)) for Theta in precision]
        union = abs(upper[0])
        for matrix in upper[1:]:
            union = union + abs(matrix)
        if edge_clusters is None:
            samples = np.repeat(np.asarray(sizes, dtype=float), [matrix.count_nonzero() for matrix in upper])
        else:
            samples = edge_clusters.samples_of_clusters(precision, sizes)
        return cls(samples, int(union.count_nonzero()))


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
    if criterion == "aic":
        return 2.0 * len(size.samples)
    bic_term = float(np.log(size.samples).sum())
    if criterion == "bic":
        return bic_term
    gamma = check_gamma(gamma)
    if criterion == "ebic":
        return bic_term + 4.0 * gamma * float(np.log(n_variables)) * len(size.samples)
    log_supports = _log_binomial(n_variables * (n_variables - 1) / 2, size.n_pairs)
    log_classes = _log_binomial(n_classes * size.n_pairs, len(size.samples))
    return bic_term + 2.0 * gamma * (log_supports + log_classes)


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
