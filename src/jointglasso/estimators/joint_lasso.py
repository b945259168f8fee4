"""The joint graphical lasso: at given penalties, at penalties chosen from the data, and on windows in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from jointglasso.data.checks import InputError, check_choice
from jointglasso.data.samples import Samples
from jointglasso.data.table_checks import labelled
from jointglasso.data.windows import read_times, time_windows, warn_of_trends
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


@estimator
@dataclass(eq=False, repr=False)
class TimeVaryingGraphicalLasso(JointModel):
    """Sparse precision matrices of time windows, with a penalty on changes between consecutive windows.

    Parameters
    ----------
    lambda1, lambda2 : float, optional
        Penalties of edges and of changes from one window to the next; chosen by `criterion` if None.
    penalty : {"chain", "laplacian"}
        "chain" (fused) favours equal values in consecutive windows: piecewise constant networks with certified changes;
        "laplacian" favours similar values: smoothly varying networks.
    windows : int, optional
        Number of windows, each with about as many samples.
    width : number, timedelta or string such as "30D", optional
        Length of the windows in time instead. With neither, every time stamp is a window.
    overlap : float, default 0
        Fraction of a window shared with the next one. The criteria use sample sizes that count every sample once.
    n_lambdas, ratios, min_ratio
        Grid of penalties instead of a search: points in each column, ratio ``lambda2 / lambda1`` of each, and smallest
        penalty as a fraction of the largest, as in `jointglasso.lambda_grid`.
    criterion : {"jbic", "ebic", "bic", "aic", "cv", "stars"}
        How penalties are chosen, see `jointglasso.select`; "cv" and "stars" need windows without overlap.
    gamma, random_state
        Options of the criteria.
    scale, assume_centered, weights, penalize_diagonal, fuse_diagonal, screening, solver, tol, max_iter, n_jobs
        As in `JointGraphicalLasso`.
    missing, association, constant, pair_weights, coupling_weights, penalty_shape
        As in `JointGraphicalLasso`.

    Attributes
    ----------
    windows_ : pandas.DataFrame
        One row per window: `name`, `first` and `last` time stamp, `samples`.
    steps_ : pandas.DataFrame
        Numbers of changes between consecutive windows, and of certified ones; see `JointNetworks.steps`.
    lambda1_, lambda2_ : float
        The penalties.
    selection_ : SelectionResult or None
        Selection of the penalties; None if they were given.

    Notes
    -----
    All other attributes are those of `JointGraphicalLasso`, the windows being the classes.

    Examples
    --------
    >>> import numpy as np
    >>> from jointglasso import TimeVaryingGraphicalLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> X[200:, 1] += X[200:, 0]
    >>> model = TimeVaryingGraphicalLasso(0.1, 0.2, windows=4).fit(X, np.arange(400))
    >>> model.steps_[["before", "after", "changed", "certified"]]
          before      after  changed  certified
    0     0 – 99  100 – 199        0          0
    1  100 – 199  200 – 299        1          1
    2  200 – 299  300 – 399        0          0
    """

    lambda1: float | None = None
    lambda2: float | None = None
    _: KW_ONLY
    penalty: str = "chain"
    windows: int | None = None
    width: Any = None
    overlap: float = 0.0
    n_lambdas: int | None = None
    ratios: Sequence[float] | None = None
    min_ratio: float | None = None
    criterion: str = "jbic"
    gamma: float | None = None
    random_state: Any = None

    class_graph: ClassVar[None] = None
    grid: ClassVar[None] = None
    variables: ClassVar[str] = "same"

    def fit(self, X: Any, y: Any = None, covariates: Any = None) -> Self:
        """Estimate the precision matrix of each window.

        Parameters
        ----------
        X : table (n, p)
            Samples in rows, in any order: a NumPy array, a pandas, polars or pyarrow table, or an AnnData object.
        y : sequence of n numbers or datetimes, or str, optional
            Time stamp of each sample, or the name of its column; the order of the rows without it.
        covariates : table with n rows, optional
            Regressed out within each window, as in `JointGraphicalLasso`; for windows that do not overlap.

        Returns
        -------
        Self
            The estimator itself.
        """
        check_choice("penalty", self.penalty, ("chain", "laplacian"))
        if (self.lambda1 is None) != (self.lambda2 is None):
            raise InputError("lambda1 and lambda2 go together: give both, or none to have them chosen.", "lambda1")
        X, y = self._validated(X, y)
        time = np.arange(len(X)) if y is None else y
        if len(time) != len(X):
            raise InputError(f"There are {len(time)} time stamps for {len(X)} samples: give one for each.", "time")
        warn_of_trends(X, time)
        windows = time_windows(time, windows=self.windows, width=self.width, overlap=self.overlap)
        samples = Samples(
            [X[rows] for rows in windows.rows],
            windows.names,
            self._variable_names(),
            sample_fraction=windows.sample_fraction,
            given_rows=windows.rows,
        )
        self.classes_ = np.array(windows.names)
        self.windows_ = pd.DataFrame(
            {"name": windows.names, "first": windows.first, "last": windows.last, "samples": samples.sizes}
        )
        return self._fit_samples(self._adjusted(samples, covariates))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood per sample under the first window that ends at or after its time stamp."""
        check_is_fitted(self)
        X, y = labelled(X, y)
        if y is None:
            raise InputError("y is needed: the time stamp of each sample tells its window.", "y")
        window = np.searchsorted(self.windows_["last"].to_numpy(), read_times(y))
        return super().score(X, self.classes_[np.minimum(window, len(self.classes_) - 1)])

    @property
    def steps_(self) -> Any:
        """Changes between consecutive windows: `JointNetworks.steps`."""
        check_is_fitted(self)
        return self.networks_.steps()
