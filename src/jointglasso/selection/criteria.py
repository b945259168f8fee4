"""Information criteria of a joint graphical model.

With ``d_k = <S_k, Theta_k> - log det Theta_k``, sample sizes n_k, p variables and E_k edges (pairs i < j) in class k::

    AIC        = sum_k [ n_k d_k + 2 E_k ]
    BIC        = sum_k [ n_k d_k + log(n_k) E_k ]
    eBIC_gamma = sum_k [ n_k d_k + log(n_k) E_k + 4 gamma log(p) E_k ]

AIC and BIC are those of Danaher, Wang and Witten (2014); the extended BIC is that of Foygel and Drton (2010), summed
over the classes. Smaller is better. An edge counts in every class that has it, whether or not lambda2 ties its values,
unless a fused penalty makes it the same in some classes: then these count once, as the dimension of the model does, and
``log(n_k)`` is the logarithm of all their samples together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from jointglasso._typing import FloatArray
from jointglasso.covariance import CovarianceSource, as_source
from jointglasso.selection.likelihood import deviances
from jointglasso.solution import Solution
from jointglasso.validation import check_choice, check_nonnegative

CRITERIA = ("aic", "bic", "ebic")


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

    `gamma` between 0 (the plain BIC) and 1 says how strongly large graphs are held unlikely beforehand.
    """
    return _criterion("ebic", S, precision, n_samples, gamma)


def price_of_an_edge(criterion: str, sizes: FloatArray, n_variables: int, gamma: float = 0.5) -> FloatArray:
    """Amount (K,) that the criterion adds for each edge of a class."""
    check_choice("criterion", criterion, CRITERIA)
    if criterion == "aic":
        return np.full(len(sizes), 2.0)
    price: FloatArray = np.log(np.asarray(sizes, dtype=float))
    return price if criterion == "bic" else price + 4.0 * check_gamma(gamma) * np.log(n_variables)


def price_of_solution(
    criterion: str, solution: Solution, sizes: FloatArray, n_variables: int, gamma: float = 0.5
) -> float:
    """What the criterion adds for all edges of a solution; classes in which an edge is the same pay for it once."""
    if solution.sameness is None:
        return float(price_of_an_edge(criterion, sizes, n_variables, gamma) @ np.array(solution.n_edges))
    pooled = solution.sameness.samples_of_clusters(solution.precision, sizes)
    return float(price_of_an_edge(criterion, pooled, n_variables, gamma).sum())


def check_gamma(gamma: Any) -> float:
    """Return `gamma` when it is between 0 and 1."""
    if check_nonnegative("gamma", gamma) > 1.0:
        raise ValueError(f"gamma={gamma:g} must be between 0 and 1.")
    return float(gamma)


def sample_sizes(source: CovarianceSource) -> FloatArray:
    """Sample sizes of a source that knows them."""
    if source.sample_sizes is None:
        raise ValueError(
            "The criterion needs the number of samples of each class: give samples, or "
            "DenseCovariance(matrices, sample_sizes=[...])."
        )
    return np.asarray(source.sample_sizes, dtype=float)


def count_edges(precision: Sequence[Any]) -> FloatArray:
    """Pairs i < j with a non-zero entry, in each class."""
    upper = [sparse.triu(sparse.coo_array(Theta), 1) for Theta in precision]
    return np.array([float(matrix.count_nonzero()) for matrix in upper])


def _criterion(name: str, S: Any, precision: Sequence[Any], n_samples: Any, gamma: float) -> float:
    source = as_source(S)
    sizes = sample_sizes(source) if n_samples is None else np.asarray(n_samples, dtype=float)
    price = price_of_an_edge(name, sizes, source.n_variables, gamma)
    return float((sizes * deviances(source, precision) + price * count_edges(precision)).sum())
