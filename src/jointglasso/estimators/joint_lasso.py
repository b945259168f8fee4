"""The joint graphical lasso at given penalties, or at penalties chosen from the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from jointglasso.estimators.base import JointModel, estimator


@estimator
@dataclass(eq=False, repr=False)
class JointGraphicalLasso(JointModel):
    """Sparse precision matrices of several classes, estimated jointly.

    The objective is defined in `jointglasso.problem`.

    Parameters
    ----------
    lambda1 : float, default 0.2
        Sparsity penalty.
    lambda2 : float, default 0.1
        Similarity penalty; 0 gives separate graphical lassos.
    penalty : {"group", "maximum", "common", "fused", "chain", "graph", "laplacian"}
        Coupling of the classes, as in `jointglasso.solve`: "group" favours a common support, "maximum" does so by the
        largest entry of each pair, "common" a network that all classes share beside their own, "fused" favours equal
        values in all classes, "chain" in consecutive classes, "graph" in neighbours of `class_graph`, "laplacian"
        similar values in neighbours. Classes are in order of appearance.
    class_graph : array (K, K), list, dict or str, optional
        Which classes are neighbours, or their order, as in `jointglasso.solve`.
    scale : {"correlation", "covariance"}
        Scale on which the penalty acts. With correlations, the default, one penalty applies to all variables alike. The
        two estimates are not rescaled versions of each other.
    assume_centered : bool, default False
        If True, the class means are not subtracted.
    weights : {"sqrt_sample_size", "equal", "sample_size"}, array (K,) or dict
        Weight of each class in the likelihood; by default ``sqrt(n_k / mean n)``, see `jointglasso.select`.
    penalize_diagonal : bool, default False
        False is the convention of JGL and GGLasso, True that of the paper and of `jointglasso.solve`.
    fuse_diagonal : bool, default False
        Apply the fusion penalty to the diagonals too, as in `jointglasso.solve`.
    screening, solver, tol, max_iter, n_jobs
        As in `jointglasso.solve`.
    missing : {"refuse", "complete", "pairwise", "em"}
        Refuse missing values, drop incomplete samples, use for each pair of variables the samples that have both, or
        use EM. The last two use effective sample sizes.
    association : {"pearson", "spearman", "nonparanormal", "mixed", "zero_inflated"}
        Correlation: Pearson's; ``2 sin(pi rho / 6)`` of Spearman's rho; Pearson's of winsorised normal scores;
        polychoric and polyserial of variables with few whole numbers as values (questionnaires), beside normal scores
        of the others; or that with variables beside them that have zeros and no negative values, Gaussian below a
        threshold. Spearman, latent and pairwise matrices are projected to positive semidefinite ones where needed.
    constant : {"refuse", "isolate"}
        Refuse variables that are constant in a class, or isolate them there, with their mean variance over the
        other classes (1 if there is none; on the correlation scale their variance is 1).
    variables : {"same", "union"}
        Refuse variables without values in a class, or treat them as absent there: a pair exists in the classes that
        have both variables.
    pair_weights, coupling_weights : array, list of arrays by class, or None
        Penalty weights of each pair of variables, passed on to `jointglasso.solve`.
    penalty_shape : {"adaptive", "scad", "mcp", "log", "sqrt", "atan"}, optional
        Concave penalty that shrinks strong edges less, as in `jointglasso.solve`.
    latent : float, optional
        Penalty on latent variables, as in `jointglasso.solve`. With it, `precision_` is the penalised
        conditional network given the latent variables, and `low_rank_` their contribution.

    Attributes
    ----------
    classes_ : array (K,)
        Labels in order of appearance, which is the order of everything below.
    precision_ : list of K scipy.sparse.csc_array
        Precision matrices on the scale of the data: relaxed estimate on the support of the penalised one (`refit_`).
    penalized_precision_ : list of K scipy.sparse.csc_array
        The penalised matrices with the same support, on the scale of the data; the certificate refers to them.
    refit_ : Refit
        Refit: residuals, and the components that needed a ridge because the likelihood has no maximum.
    precision_correlation_ : list of K scipy.sparse.csc_array
        `precision_` for the variables scaled to unit sample variance.
    low_rank_ : array (K, p, p) or None
        With `latent`, L_k such that ``precision_ - low_rank_`` is the marginal precision of the measured variables.
    location_, deviation_ : array (K, p)
        Means and standard deviations of the variables.
    covariance_ : array (K, p, p)
        Inverses of `precision_`, computed on access.
    partial_correlations_ : list of K scipy.sparse.csc_array
        Partial correlations, unit diagonal.
    networks_ : JointNetworks
        Edge tables, hubs and comparisons.
    solution_, certificate_, partition_ : Solution, Certificate, Partition
        Penalised solution on the penalised `scale`, with its optimality certificate and its partition.
    notes_ : tuple of str
        Remarks about the correlations: variables treated as ordinal, matrices projected to be positive semidefinite.
    n_iter_ : int
        Iterations of the solver, at least 1.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from jointglasso import JointGraphicalLasso
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 5)), np.repeat(["a", "b"], 30)
    >>> model = JointGraphicalLasso(lambda1=0.3, lambda2=0.1).fit(X, y)
    >>> [Theta.shape for Theta in model.precision_]
    [(5, 5), (5, 5)]
    """

    lambda1: float = 0.2
    lambda2: float = 0.1
    _: KW_ONLY
    penalty: str = "group"
    class_graph: Any = None
    variables: str = "same"
    latent: float | None = None


@estimator
@dataclass(eq=False, repr=False)
class JointGraphicalLassoCV(JointModel):
    """Joint graphical lasso whose penalties are chosen by cross-validation or another criterion.

    Parameters
    ----------
    criterion : {"jbic", "cv", "ebic", "bic", "aic", "stars"}
        Information criteria, held-out likelihood ("cv", one-standard-error rule), or StARS; see `jointglasso.select`.
        The default is that of `select`: cross-validation optimises prediction and selects too many edges.
    grid : LambdaGrid or list of pairs (lambda1, lambda2), optional
        Points to evaluate; by default a search, unless one of the next three parameters is given:
    n_lambdas, ratios, min_ratio
        Points in each column, ratio ``lambda2 / lambda1`` of each, and smallest penalty as a fraction of the
        largest, as in `jointglasso.lambda_grid`.
    gamma, relaxed, patience, cv, beta, n_subsamples, random_state
        Options of the criteria, see `jointglasso.select`.
    penalty, class_graph
        Coupling of the classes, as in `JointGraphicalLasso`.
    scale, assume_centered, weights, penalize_diagonal, fuse_diagonal, screening, solver, tol, max_iter, n_jobs, missing
        As in `JointGraphicalLasso`. `n_jobs` is the number of concurrent columns, folds or subsamples.
    association, constant, variables, pair_weights, coupling_weights, penalty_shape
        As in `JointGraphicalLasso`.

    Attributes
    ----------
    lambda1_, lambda2_ : float
        Chosen penalties.
    selection_ : SelectionResult
        Table of all points, and ``selection_.explain()``.

    Notes
    -----
    The attributes of `JointGraphicalLasso` are available too, for the solution on all samples at the chosen penalties.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> model = jgl.JointGraphicalLassoCV(criterion="jbic").fit(X, y)
    >>> [int((matrix.toarray() != 0).sum() - 4) // 2 for matrix in model.precision_]
    [1, 1]
    """

    _: KW_ONLY
    criterion: str = "jbic"
    grid: Any = None
    n_lambdas: int | None = None
    ratios: Sequence[float] | None = None
    min_ratio: float | None = None
    gamma: float | None = None
    relaxed: bool = True
    patience: int | None = 2
    cv: Any = 5
    beta: float = 0.05
    n_subsamples: int = 20
    random_state: Any = None
    penalty: str = "group"
    class_graph: Any = None
    variables: str = "same"
