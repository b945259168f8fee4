"""The graphical lasso of one class, with the interface of scikit-learn's classes of the same names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.covariance import EmpiricalCovariance, empirical_covariance, log_likelihood
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import validate_data

from jointglasso._typing import FloatArray
from jointglasso.data.checks import InputError, check_choice, check_positive
from jointglasso.data.table_checks import readable_table
from jointglasso.engine import solve, solve_path
from jointglasso.errors import argument
from jointglasso.selection.criteria import aic, bic, ebic
from jointglasso.solution import Solution

#: Smallest alpha of a generated grid, as a fraction of the largest.
MIN_RATIO = 0.01


@dataclass(eq=False, repr=False, kw_only=True)
class _OneClass(EmpiricalCovariance):  # type: ignore[misc]
    """Parameters that the graphical lassos of one class share, and their solves."""

    tol: float = 1e-6
    max_iter: int | None = None
    assume_centered: bool = False
    mode: str = "cd"
    enet_tol: float = 1e-4
    eps: float = float(np.finfo(np.float64).eps)
    verbose: bool = False

    store_precision: ClassVar[bool] = True

    def _validated(self, X: Any) -> FloatArray:
        """Samples after scikit-learn's validation; sets `location_`."""
        X = validate_data(self, readable_table(X), dtype=np.float64, ensure_min_features=2, ensure_min_samples=2)
        self.location_ = np.zeros(X.shape[1]) if self.assume_centered else X.mean(axis=0)
        return X

    def _fit_covariance(self, S: FloatArray, alpha: float) -> Any:
        """Solve for the covariance matrix S and set the fitted attributes; return the estimator."""
        solution: Solution = solve([S], alpha, 0.0, penalize_diagonal=False, tol=self.tol, max_iter=self.max_iter)
        # Without a penalty the minimiser is known; the certificate bounds the gap there, too.
        self.precision_ = solution.precision[0].toarray() if alpha > 0 else np.linalg.inv(S)
        self.covariance_ = np.linalg.inv(self.precision_)
        self.certificate_ = solution.certificate
        self.costs_ = [
            (float(step.objective), float("nan") if step.gap is None else float(step.gap)) for step in solution.history
        ]
        self.n_iter_ = max(1, solution.n_iter)
        return self

    def _path(self, S: FloatArray, alphas: FloatArray) -> list[Solution]:
        """Solutions for decreasing `alphas`, each started from the one before."""
        points = [(float(alpha), 0.0) for alpha in alphas]
        return list(solve_path([S], points, penalize_diagonal=False, tol=self.tol, max_iter=self.max_iter))


@dataclass(eq=False, repr=False)
class GraphicalLasso(_OneClass):
    """Graphical lasso of one class with the interface of `sklearn.covariance.GraphicalLasso`.

    The objective is ``<S, Theta> - log det Theta + alpha sum_{i != j} |theta_ij|`` with the covariance matrix S
    (divisor n). There is no refit: `precision_` is the penalised estimate.

    Parameters
    ----------
    alpha : float, default 0.01
        Sparsity penalty, in units of the covariances.
    covariance : {"precomputed"}, optional
        With "precomputed", `fit` takes a covariance matrix (p, p) instead of samples.
    tol : float, default 1e-6
        Relative duality gap; see `jointglasso.solve`.
    max_iter : int, optional
        Limit of the iterations, as in `jointglasso.solve`.
    assume_centered : bool, default False
        If True, the means are not subtracted.
    mode, enet_tol, eps, verbose
        Parameters of scikit-learn's solver, accepted so that calls need no change, and ignored.

    Attributes
    ----------
    precision_, covariance_ : array (p, p)
        Precision matrix with exact zeros, and its inverse.
    location_ : array (p,)
        Means; zero if the data are centred or a covariance matrix was given.
    certificate_ : Certificate
        Duality gap and certified edges.
    costs_ : list of (float, float)
        Objective and duality gap of each iteration; NaN where the gap was not computed. scikit-learn adds
        ``2 p log(2 pi)`` to the objective.
    n_iter_ : int
        Iterations, at least 1.

    Notes
    -----
    `score`, `mahalanobis`, `error_norm` and `get_precision` are those of `sklearn.covariance.EmpiricalCovariance`.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> X[:, 1] += X[:, 0]
    >>> jgl.GraphicalLasso(alpha=0.3).fit(X).precision_.round(2)
    array([[ 1.37, -0.66,  0.  ],
           [-0.66,  0.8 ,  0.  ],
           [ 0.  ,  0.  ,  1.39]])
    """

    alpha: float = 0.01
    _: KW_ONLY
    covariance: str | None = None

    def fit(self, X: Any, y: Any = None) -> GraphicalLasso:
        """Estimate the precision matrix of samples (n, p), or of a covariance matrix if that is `covariance`."""
        if self.covariance is not None and check_choice("covariance", self.covariance, ("precomputed",)):
            X = validate_data(self, readable_table(X), dtype=np.float64, ensure_min_features=2, ensure_min_samples=2)
            self.location_ = np.zeros(X.shape[1])
            return self._fit_covariance(X, self.alpha)
        X = self._validated(X)
        return self._fit_covariance(empirical_covariance(X, assume_centered=self.assume_centered), self.alpha)


@dataclass(eq=False, repr=False)
class GraphicalLassoCV(_OneClass):
    """Graphical lasso with alpha chosen by cross-validation, as `sklearn.covariance.GraphicalLassoCV`.

    The score of an alpha is the mean log-likelihood of the held-out samples, which optimises prediction and selects too
    many edges; `GraphicalLassoIC` is meant for the graph.

    Parameters
    ----------
    alphas : int or sequence of float, default 4
        Number of points of each refinement, or the points themselves, which are not refined.
    n_refinements : int, default 4
        Number of times that the grid is refined around its best point.
    cv : int, splitter or iterable of (train, test), optional
        Folds, as in scikit-learn; 5 by default.
    n_jobs : int, optional
        Threads that solve folds at the same time.
    tol, max_iter, assume_centered, mode, enet_tol, eps, verbose
        As in `GraphicalLasso`.

    Attributes
    ----------
    alpha_ : float
        Chosen penalty.
    cv_results_ : dict of arrays
        `alphas` from large to small and finally 0 (the sample covariance), with `split{i}_test_score`,
        `mean_test_score` and `std_test_score`.

    Notes
    -----
    The attributes of `GraphicalLasso` are those of the fit of all samples at `alpha_`.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> model = jgl.GraphicalLassoCV(alphas=[0.1, 0.3]).fit(X)
    >>> model.alpha_, model.cv_results_["alphas"].tolist()
    (0.1, [0.3, 0.1, 0.0])
    """

    _: KW_ONLY
    alphas: Any = 4
    n_refinements: int = 4
    cv: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> GraphicalLassoCV:
        """Choose alpha and estimate the precision matrix; `groups` are passed to the splitter."""
        X = self._validated(X)
        S = empirical_covariance(X, assume_centered=self.assume_centered)
        splits = list(check_cv(self.cv, y, classifier=False).split(X, y, groups))
        folds = [[empirical_covariance(X[rows], assume_centered=self.assume_centered) for rows in s] for s in splits]
        alphas, path = grid_of(S, self.alphas), list[tuple[float, FloatArray]]()
        for _ in range(self.n_refinements if isinstance(self.alphas, Integral) else 1):
            scores = Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(self._scores)(train, test, alphas) for train, test in folds
            )
            path.extend(zip(alphas.tolist(), np.transpose(scores), strict=True))
            path.sort(key=lambda point: -point[0])
            best = max(range(len(path)), key=lambda i: (np.mean(path[i][1]), i))
            alphas = between_neighbours([alpha for alpha, _ in path], best, len(alphas))
        self.alpha_ = path[best][0]
        unpenalised = [log_likelihood(test, np.linalg.pinv(train, hermitian=True)) for train, test in folds]
        table = np.array([*(values for _, values in path), unpenalised])
        self.cv_results_ = {"alphas": np.array([*(alpha for alpha, _ in path), 0.0])}
        self.cv_results_ |= {f"split{i}_test_score": column for i, column in enumerate(table.T)}
        self.cv_results_ |= {"mean_test_score": table.mean(axis=1), "std_test_score": table.std(axis=1)}
        return self._fit_covariance(S, self.alpha_)

    def _scores(self, train: FloatArray, test: FloatArray, alphas: FloatArray) -> list[float]:
        """Log-likelihood of the test covariance under each precision matrix of the path."""
        return [log_likelihood(test, solution.precision[0].toarray()) for solution in self._path(train, alphas)]


@dataclass(eq=False, repr=False)
class GraphicalLassoIC(_OneClass):
    """Graphical lasso with alpha chosen by an information criterion of the penalised estimate.

    With the extended BIC this is the procedure of Foygel and Drton (2010) and of qgraph's `EBICglasso`; standardise the
    samples first to penalise all variables alike.

    Parameters
    ----------
    criterion : {"ebic", "bic", "aic"}
        Criterion, see `jointglasso.selection.criteria`.
    gamma : float, default 0.5
        Parameter of the extended BIC.
    alphas : int or sequence of float, default 100
        Number of points, evenly spaced on a log scale between the largest useful alpha and a hundredth of it, or the
        points themselves.
    tol, max_iter, assume_centered, mode, enet_tol, eps, verbose
        As in `GraphicalLasso`.

    Attributes
    ----------
    alpha_ : float
        Chosen penalty.
    alphas_, criterion_ : arrays
        The points from large to small, and the criterion at each.

    Notes
    -----
    The attributes of `GraphicalLasso` are those of the fit at `alpha_`.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> X[:, 1] += X[:, 0]
    >>> jgl.GraphicalLassoIC().fit(X).precision_ != 0
    array([[ True,  True, False],
           [ True,  True, False],
           [False, False,  True]])
    """

    criterion: str = "ebic"
    _: KW_ONLY
    gamma: float = 0.5
    alphas: Any = 100

    def fit(self, X: Any, y: Any = None) -> GraphicalLassoIC:
        """Choose alpha and estimate the precision matrix of samples (n, p)."""
        check_choice("criterion", self.criterion, ("ebic", "bic", "aic"))
        X = self._validated(X)
        S = empirical_covariance(X, assume_centered=self.assume_centered)
        self.alphas_ = grid_of(S, self.alphas)
        self.criterion_ = np.array([self._value(S, solution, len(X)) for solution in self._path(S, self.alphas_)])
        self.alpha_ = float(self.alphas_[self.criterion_.argmin()])
        return self._fit_covariance(S, self.alpha_)

    def _value(self, S: FloatArray, solution: Solution, n: int) -> float:
        if self.criterion == "ebic":
            return ebic([S], solution.precision, [n], gamma=self.gamma)
        return {"aic": aic, "bic": bic}[self.criterion]([S], solution.precision, [n])


def grid_of(S: FloatArray, alphas: Any) -> FloatArray:
    """Decreasing penalties: `alphas` themselves, or that many from the largest |s_ij| to a hundredth of it."""
    if not isinstance(alphas, Integral):
        values = np.array([check_positive("alphas", alpha) for alpha in alphas])
        if not len(values):
            raise InputError(f"{argument('alphas', alphas)} must hold at least one penalty.", "alphas")
        return np.sort(values)[::-1]
    check_positive("alphas", alphas)
    largest = max(float(np.abs(S - np.diag(np.diag(S))).max()), np.finfo(float).tiny)
    return np.geomspace(largest, MIN_RATIO * largest, int(alphas))


def between_neighbours(alphas: Sequence[float], best: int, n: int) -> FloatArray:
    """`n` penalties between the neighbours of the best one of decreasing `alphas`.

    Beyond the smallest penalty they go down to a hundredth of it, as in scikit-learn.
    """
    is_smallest = best == len(alphas) - 1
    high = alphas[best] if is_smallest else alphas[max(best - 1, 0)]
    low = MIN_RATIO * alphas[best] if is_smallest else alphas[best + 1]
    return np.geomspace(high, low, n + 2)[1:-1]
