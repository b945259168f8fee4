"""The joint graphical lasso with penalties chosen from the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jointglasso.estimators.base import JointModel
from jointglasso.selection.front import check_criterion, select_from
from jointglasso.selection.grids import RATIOS, lambda_grid
from jointglasso.selection.intake import SelectionData


class JointGraphicalLassoCV(JointModel):
    """Joint graphical lasso whose penalties are chosen by cross-validation or another criterion.

    Parameters
    ----------
    criterion : {"cv", "ebic", "bic", "aic", "stars"}
        Held-out likelihood, information criteria, or StARS; see `jointglasso.select`.
    grid : LambdaGrid or list of pairs (lambda1, lambda2), optional
        Points to try; made from the data by default, with
    n_lambdas : int, default 10
        points in each column and
    ratios : sequence of float
        the ratio ``lambda2 / lambda1`` of each column, down to
    min_ratio : float, default 0.05
        this share of the largest penalty.
    gamma, relaxed, patience, cv, beta, n_subsamples, random_state
        Options of the criteria, see `jointglasso.select`.
    scale, assume_centered, weights, penalize_diagonal, screening, solver, tol, max_iter, n_jobs, missing
        As in `JointGraphicalLasso`. `n_jobs` counts columns, folds or subsamples at the same time.
    association, constant, pair_weights
        As in `JointGraphicalLasso`.

    Attributes
    ----------
    lambda1_, lambda2_ : float
        Chosen penalties.
    selection_ : SelectionResult
        Table of all points, and ``selection_.explain()``.

    Notes
    -----
    All attributes of `JointGraphicalLasso` are there too, for the solution on all samples at the chosen penalties.
    """

    def __init__(
        self,
        *,
        criterion: str = "cv",
        grid: Any = None,
        n_lambdas: int = 10,
        ratios: Sequence[float] = RATIOS,
        min_ratio: float = 0.05,
        gamma: float = 0.5,
        relaxed: bool = True,
        patience: int | None = 2,
        cv: Any = 5,
        beta: float = 0.05,
        n_subsamples: int = 20,
        random_state: Any = None,
        scale: str = "correlation",
        assume_centered: bool = False,
        weights: Any = "equal",
        penalize_diagonal: bool = True,
        screening: str = "dynamic",
        solver: Any = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        missing: str = "refuse",
        association: str = "pearson",
        constant: str = "refuse",
        pair_weights: Any = None,
    ) -> None:
        self.criterion = criterion
        self.grid = grid
        self.n_lambdas = n_lambdas
        self.ratios = ratios
        self.min_ratio = min_ratio
        self.gamma = gamma
        self.relaxed = relaxed
        self.patience = patience
        self.cv = cv
        self.beta = beta
        self.n_subsamples = n_subsamples
        self.random_state = random_state
        self.scale = scale
        self.assume_centered = assume_centered
        self.weights = weights
        self.penalize_diagonal = penalize_diagonal
        self.screening = screening
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.missing = missing
        self.association = association
        self.constant = constant
        self.pair_weights = pair_weights

    def fit(self, X: Any, y: Any = None) -> JointGraphicalLassoCV:
        """Choose the penalties and estimate the precision matrices there.

        Parameters
        ----------
        X : table (n, p)
            Samples in rows: a NumPy array or a pandas, polars or pyarrow table.
        y : sequence of n labels, optional
            Class of each sample; one class without it.

        Returns
        -------
        JointGraphicalLassoCV
            The estimator itself.
        """
        check_criterion(self.criterion)
        samples, rows = self._read(X, y)
        preparation = self._preparation()
        prepared = preparation(samples)
        grid = self.grid
        if grid is None:
            grid = lambda_grid(
                prepared.source,
                n_lambdas=self.n_lambdas,
                ratios=self.ratios,
                min_ratio=self.min_ratio,
                weights=self.weights,
                pair_weights=self.pair_weights,
            )
        options = {name: value for name, value in self._solve_options().items() if name not in ("n_jobs", "weights")}
        self.selection_ = select_from(
            SelectionData(prepared.source, samples, rows, preparation),
            criterion=self.criterion,
            grid=grid,
            gamma=self.gamma,
            relaxed=self.relaxed,
            patience=self.patience,
            cv=self.cv,
            beta=self.beta,
            n_subsamples=self.n_subsamples,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            callback=None,
            weights=self.weights,
            **options,
        )
        self.lambda1_, self.lambda2_ = self.selection_.lambda1, self.selection_.lambda2
        self._keep(self.selection_.solution, prepared.location, prepared.deviation)
        return self
