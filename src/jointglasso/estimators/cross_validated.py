"""The joint graphical lasso with penalties chosen from the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jointglasso.data.checks import known_arguments
from jointglasso.estimators.base import JointModel
from jointglasso.selection.em import prepared
from jointglasso.selection.select_penalty import WEIGHTS, SelectionSettings


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
    association, constant, variables, pair_weights, penalty_shape
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

    @known_arguments()
    def __init__(
        self,
        *,
        criterion: str = "jbic",
        grid: Any = None,
        n_lambdas: int | None = None,
        ratios: Sequence[float] | None = None,
        min_ratio: float | None = None,
        gamma: float | None = None,
        relaxed: bool = True,
        patience: int | None = 2,
        cv: Any = 5,
        beta: float = 0.05,
        n_subsamples: int = 20,
        random_state: Any = None,
        penalty: str = "group",
        class_graph: Any = None,
        scale: str = "correlation",
        assume_centered: bool = False,
        weights: Any = WEIGHTS,
        penalize_diagonal: bool = False,
        fuse_diagonal: bool = False,
        screening: str = "dynamic",
        solver: Any = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        missing: str = "refuse",
        association: str = "pearson",
        constant: str = "refuse",
        variables: str = "same",
        pair_weights: Any = None,
        penalty_shape: str | None = None,
    ) -> None:
        self.criterion = criterion
        self.grid = grid
        self.n_lambdas, self.ratios, self.min_ratio = n_lambdas, ratios, min_ratio
        self.gamma = gamma
        self.relaxed = relaxed
        self.patience = patience
        self.cv = cv
        self.beta = beta
        self.n_subsamples = n_subsamples
        self.random_state = random_state
        self.penalty = penalty
        self.class_graph = class_graph
        self.scale = scale
        self.assume_centered = assume_centered
        self.weights = weights
        self.penalize_diagonal = penalize_diagonal
        self.fuse_diagonal = fuse_diagonal
        self.screening = screening
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.missing = missing
        self.association = association
        self.constant = constant
        self.variables = variables
        self.pair_weights = pair_weights
        self.penalty_shape = penalty_shape

    def fit(self, X: Any, y: Any = None, covariates: Any = None) -> JointGraphicalLassoCV:
        """Choose the penalties and estimate the precision matrices there.

        Parameters
        ----------
        X : table (n, p)
            Samples in rows: a NumPy array, a sparse matrix, a pandas, polars or pyarrow table, or an AnnData object.
        y : sequence of n labels or str, optional
            Class of each sample, or the name of the column with the labels; one class without it.
        covariates : table with n rows, optional
            Age, batch and the like, regressed out within each class as in `jointglasso.select`; `location_` holds the
            means of the classes, and there is no `score`.

        Returns
        -------
        JointGraphicalLassoCV
            The estimator itself.
        """
        samples = self._read(X, y, covariates)
        ready = prepared(self._preparation(), samples)
        settings = SelectionSettings(
            criterion=self.criterion,
            grid=self._grid(ready.source),
            gamma=self.gamma,
            relaxed=self.relaxed,
            patience=self.patience,
            cv=self.cv,
            beta=self.beta,
            n_subsamples=self.n_subsamples,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        chosen = self._choose(samples, ready, settings)
        self._keep(chosen.solution, ready.location, ready.deviation, ready.notes)
        return self
