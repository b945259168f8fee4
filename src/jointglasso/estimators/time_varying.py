"""Time-varying graphical lasso: the joint graphical lasso on consecutive time windows."""

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
