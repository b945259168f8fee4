"""Permutation tests of equal networks with studentised statistics.

Samples are standardised within classes, rows are permuted between the classes (within subjects for paired data), and
the complete estimation is repeated. With Q of a pair the heterogeneity of its K partial correlations (the squared
difference by its standard error for two classes), the statistics are

* `maximum`: the root of the largest Q, for few strong differences;
* `l2`: the root of the sum of all Q, for many weak ones;
* `strength`: the largest difference between two classes of the sum of squared partial correlations (on the scale of z,
  corrected for the noise), by its standard error: a test of equal overall connectivity.

and for every variable `l2` over its pairs. Standard errors are recomputed in every permutation: statistics that are not
studentised reject equal graphs far too often where classes differ in size and tails. For correlations that are
recomputed in every draw (mixed, Spearman's, pairwise) they come from the data, with one factor for all classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from jointglasso._display import ReprMixin
from jointglasso._typing import FloatArray, IntArray
from jointglasso.data.checks import InputError, check_count, check_positive, known_arguments
from jointglasso.inference.batch import Estimator, Recomputed, Scores
from jointglasso.inference.data import InferenceData, read_inference_data
from jointglasso.inference.estimates import estimate
from jointglasso.inference.standard_errors import Residuals
from jointglasso.inference.support import class_weights, find_support
from jointglasso.inference.tests import q_values, spread
from jointglasso.selection.solves import ProgressCallback, Tracker, WorkerPool

if TYPE_CHECKING:
    import pandas as pd

#: Median of chi-square with one degree of freedom.
_MEDIAN = 0.454936

STATISTICS = ("maximum", "l2", "strength")


@dataclass(frozen=True, repr=False)
class NetworkTest(ReprMixin):
    """Result of `network_test`.

    Attributes
    ----------
    statistics, p_values : dict of float
        Of the hypothesis that all networks are equal, by name of the statistic.
    node_statistics, node_p_values, node_p_familywise : array (p,)
        `l2` over the pairs of each variable; its p-value; and the familywise p-value (maximum over
        the variables in each permutation).
    n_permutations : int
        Permutations B; no p-value is below 1 / (B + 1).
    paired : bool
        Whether rows were permuted within subjects.
    class_names, variable_names : tuple of str
        As in the data.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> test = jgl.network_test(X, y, n_permutations=19, random_state=0)
    >>> test.table.columns.tolist()
    ['statistic', 'value', 'p_value']
    """

    statistics: dict[str, float]
    p_values: dict[str, float]
    node_statistics: FloatArray
    node_p_values: FloatArray
    node_p_familywise: FloatArray
    n_permutations: int
    paired: bool
    class_names: tuple[str, ...]
    variable_names: tuple[str, ...]

    @property
    def table(self) -> pd.DataFrame:
        """Data frame of the global tests: `statistic`, `value`, `p_value`."""
        import pandas as pd

        return pd.DataFrame(
            {"statistic": list(self.statistics), "value": self.statistics.values(), "p_value": self.p_values.values()}
        )

    def nodes(self) -> pd.DataFrame:
        """Table of the variables, smallest p first: `variable`, `statistic`, `p_value`, `p_familywise`, `q_value`."""
        import pandas as pd

        frame = pd.DataFrame(
            {
                "variable": self.variable_names,
                "statistic": self.node_statistics,
                "p_value": self.node_p_values,
                "p_familywise": self.node_p_familywise,
                "q_value": q_values(self.node_p_values, len(self.variable_names)),
            }
        )
        return frame.sort_values(["p_value", "statistic"], ascending=[True, False], kind="stable", ignore_index=True)

    def _parts(self) -> list[Any]:
        kind = "permutations within subjects" if self.paired else "permutations"
        head = f"Do the networks of {', '.join(self.class_names)} differ? {self.n_permutations:,} {kind}"
        return [head, self.table, "Variables whose edges differ most:", self.nodes().head(5)]


@known_arguments()
def network_test(
    X: Any,
    y: Any = None,
    *,
    paired: Any = None,
    n_permutations: int = 1000,
    association: str = "nonparanormal",
    covariates: Any = None,
    missing: str = "refuse",
    weights: Any = None,
    penalty_multiplier: float = 1.0,
    random_state: Any = None,
    callback: ProgressCallback | None = None,
    executor: Any = None,
) -> NetworkTest:
    """Test by permutation whether the networks of two or more classes differ, as a whole and variable by variable.

    For single pairs use `infer`: with B permutations no p-value is below 1 / (B + 1), too large for many pairs.

    Parameters
    ----------
    X, y, association, covariates, missing, weights, penalty_multiplier
        As in `infer`; at least two classes.
    paired : sequence of n labels, or dict by class, optional
        Subject of each sample where every subject was measured once in each class; labels are then swapped within
        subjects.
    n_permutations : int, default 1000
        Permutations.
    random_state : int, RandomState or None
        Seed of the permutations.
    callback : callable, optional
        Called with a `SelectionProgress` after each few permutations.
    executor : None, "threads", or an object with ``submit``
        Runs the permutations: threads on all cores by default, an executor of `concurrent.futures`, or a
        `distributed.Client`. The result does not depend on it.

    Returns
    -------
    NetworkTest
        Statistics with p-values ``(1 + #{permuted >= observed}) / (B + 1)``.

    Notes
    -----
    The null hypothesis is that the networks are equal. The test is exact if the distributions of the classes differ in
    means and variances only; studentised statistics keep the level approximately under other differences (sizes,
    tails).

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> test = jgl.network_test(X, y, n_permutations=19, random_state=0)
    >>> test.p_values["maximum"] > 0.05
    True
    """
    n_permutations, workers = check_count("n_permutations", n_permutations), WorkerPool.of(-1, executor)
    data = read_inference_data(
        X, y, association=association, missing=missing, groups=paired, covariates=covariates, permutations=True
    )
    if len(data.class_names) < 2:
        raise InputError("The test compares classes, and there is only one: give labels y of at least two.", "y")
    if data.n_variables < 2:
        raise InputError("X has one variable, and an edge needs two: give more variables.", "X")
    orders = None if data.subject_names is None else _paired_orders(data.class_names, data.subject_names)
    rng = check_random_state(random_state)
    seeds = rng.randint(0, 2**31 - 1, size=n_permutations)
    multiplier = check_positive("penalty_multiplier", penalty_multiplier)
    sizes = data.effective_sample_size
    estimator = Estimator(sizes, class_weights(data.source, sizes, weights), multiplier)
    tracker = Tracker(callback, n_permutations + 1)
    if data.recomputed is None:
        draws = _Permutations(data.units_drawn, orders, seeds)
        statistics = estimator.estimate_with_se(draws, _Summary(data.n_variables), tracker, workers)
    else:
        draws = _Permutations(data.recomputed.with_margins_removed(), orders, seeds)
        summary = _Summary(data.n_variables, _pooled_errors(data, multiplier, weights))
        statistics = estimator.estimate(draws, summary, tracker, workers)
    return _result(data, statistics, paired is not None)


def _pooled_errors(data: InferenceData, multiplier: float, weights: Any) -> FloatArray:
    """(P, K): standard errors with one factor for all classes, for correlations that are recomputed in every draw.

    Bootstrap standard errors in every permutation would take 60 times as long.
    """
    sizes = data.effective_sample_size
    fit = find_support(data.source, sizes, penalty_multiplier=multiplier, weights=weights, options={})
    residuals = [Residuals(Z, Theta) for Z, Theta in zip(data.scores, fit.precision, strict=True)]
    error = estimate(data, residuals, "moderated", None).error
    factor = (error**2 * (data.sizes - 3.0)).mean(axis=1, keepdims=True)
    return np.sqrt(factor / (data.sizes - 3.0))


@dataclass(frozen=True)
class _Permutations:
    """Draw 0 is the data, the others have permuted class labels."""

    units: Recomputed | Scores
    orders: IntArray | None
    seeds: IntArray
    stage = "permutations"

    def __len__(self) -> int:
        return 1 + len(self.seeds)

    def __call__(self, number: int) -> list[FloatArray]:
        n = sum(self.units.sizes)
        if number == 0:
            return self.units.permuted(np.arange(n))
        return self.units.permuted(_permutation(self.orders, n, np.random.default_rng(self.seeds[number - 1])))


class _Summary:
    """Global and node statistics of one draw; with standard errors `error` (P, K), or those of the draw."""

    def __init__(self, n_variables: int, error: FloatArray | None = None) -> None:
        self._n_variables, self._error = n_variables, error
        self._rows, self._columns = np.triu_indices(n_variables, 1)

    def __call__(self, z: FloatArray, *errors: FloatArray) -> tuple[FloatArray, FloatArray]:
        error = calibrated(z, errors[0] if self._error is None else self._error)
        Q = spread(z, error)
        nodes = np.bincount(self._rows, Q, self._n_variables) + np.bincount(self._columns, Q, self._n_variables)
        return np.array([np.sqrt(Q.max()), np.sqrt(Q.sum()), strength_difference(z, error)]), np.sqrt(nodes)


def calibrated(z: FloatArray, error: FloatArray) -> FloatArray:
    """Standard errors of each class scaled so that the median of ``(z / error)^2`` is that of chi-square(1).

    In a sparse network most pairs are null. With heavy tails and few samples all standard errors of a class are too
    small, less so after permutation, which mixes the classes; without the factor this alone would be significant.
    """
    inflation = np.median((z / error) ** 2, axis=0) / _MEDIAN
    return error * np.sqrt(np.where(inflation > 0, inflation, 1.0))


def strength_difference(z: FloatArray, error: FloatArray) -> float:
    """Largest studentised difference between two classes of ``sum (z^2 - error^2)``, whose mean is ``sum z^2``.

    The variance of ``z^2 - error^2`` is ``2 error^4 + 4 z^2 error^2``.
    """
    excess = z**2 - error**2
    total = excess.sum(axis=0)
    variance = (2.0 * error**4 + 4.0 * np.maximum(excess, 0.0) * error**2).sum(axis=0)
    a, b = np.triu_indices(z.shape[1], 1)
    return float((np.abs(total[a] - total[b]) / np.sqrt(variance[a] + variance[b])).max())


def _result(data: InferenceData, statistics: list[tuple[FloatArray, FloatArray]], paired: bool) -> NetworkTest:
    global_statistics, nodes = (np.array(part) for part in zip(*statistics, strict=True))
    limit, node_limit = (
        global_statistics[0] * (1.0 - 1e-12),
        nodes[0] * (1.0 - 1e-12),
    )  # ties count in spite of rounding
    return NetworkTest(
        statistics=dict(zip(STATISTICS, global_statistics[0].tolist(), strict=True)),
        p_values=dict(zip(STATISTICS, (global_statistics >= limit).mean(axis=0).tolist(), strict=True)),
        node_statistics=nodes[0],
        node_p_values=(nodes >= node_limit).mean(axis=0),
        node_p_familywise=(nodes.max(axis=1)[:, None] >= node_limit).mean(axis=0),
        n_permutations=len(statistics) - 1,
        paired=paired,
        class_names=data.class_names,
        variable_names=data.source.variable_names,
    )


def _permutation(orders: IntArray | None, n: int, rng: np.random.Generator) -> IntArray:
    """Random permutation of the rows (n,), within subjects if `orders` is given."""
    if orders is None:
        return rng.permutation(n)
    mixed: IntArray = rng.permuted(orders, axis=1)
    out = np.empty(n, dtype=np.int64)
    out[orders] = mixed
    return out


def _paired_orders(names: tuple[str, ...], subjects: list[Any]) -> IntArray:
    """Rows (subjects, K) of each subject among the pooled samples."""
    first = subjects[0]
    columns, offset = [], 0
    for name, labels in zip(names, subjects, strict=True):
        known, counts = np.unique(labels, return_counts=True)
        if (counts > 1).any():
            raise InputError(
                f"Subject {known[counts > 1][0]!r} comes twice in class {name!r}: pairs need it once.",
                "paired",
                class_name=name,
            )
        extra = sorted(set(known) ^ set(first))
        if extra:
            raise InputError(
                f"Subject {extra[0]!r} is not in both classes {names[0]!r} and {name!r}: keep those that are in all.",
                "paired",
                class_name=name,
            )
        columns.append(offset + np.argsort(labels, kind="stable"))
        offset += len(labels)
    return np.column_stack(columns)
