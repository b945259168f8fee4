"""Do the classes differ? A permutation test of edge differences.

Every class is centred (and, on the correlation scale, standardised); then the labels are permuted and the whole
estimation is repeated. The statistic of a pair of variables is the range over the classes of its partial correlation,
with two classes the absolute difference.

What the p-values mean: they test the hypothesis that all classes have the same distribution apart from means (and
variances), and are exact up to the estimation of those. `p_value` of a single pair is valid under that hypothesis: it
says nothing sure about a pair that is alike in classes that differ elsewhere. `p_familywise` compares with the largest
statistic of each permutation: under the same hypothesis the chance of any pair below alpha is at most alpha (weak
control of the family-wise error).

For false discovery rates of single pairs use `jointglasso.infer`: with B permutations no p-value is below 1 / (B + 1),
too large for many pairs. For the networks as a whole use `jointglasso.network_test`, whose statistics are studentised:
plain differences, as here, reject equal graphs too often where classes differ in size and tails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from jointglasso._display import ReprMixin
from jointglasso._optional import require
from jointglasso._typing import FloatArray, IntArray
from jointglasso.data.checks import InputError, check_count
from jointglasso.data.prepare import Preparation
from jointglasso.data.samples import Samples
from jointglasso.engine import solve
from jointglasso.engine.executors import TaskProgress
from jointglasso.networks.edge_list import upper_entries
from jointglasso.selection.resampling import Resamples, read_data
from jointglasso.selection.solves import (
    ProgressCallback,
    Tracker,
    WorkerPool,
    quiet_solves,
    solve_options,
    warn_not_converged,
)


@dataclass(frozen=True, repr=False)
class DifferenceTest(ReprMixin):
    """Result of `difference_test`; pairs that are equal in all classes (statistic 0, p-value 1) are left out.

    Attributes
    ----------
    rows, columns : array (m,)
        Variables of each pair, rows < columns.
    statistic : array (m,)
        Range over the classes of the partial correlation.
    p_value, p_familywise : array (m,)
        Of each pair alone, and against the largest statistic; see the module.
    global_statistic, global_p_value : float
        Root of the sum of squared statistics, and its p-value: do the networks differ at all?
    n_permutations : int
        Permutations B.
    class_names, variable_names : tuple of str
        As in the data.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> test = jgl.difference_test(X, y, lambda1=0.2, lambda2=0.1, n_permutations=9, random_state=0)
    >>> test.table.columns.tolist()
    ['variable1', 'variable2', 'statistic', 'p_value', 'p_familywise']
    """

    rows: IntArray
    columns: IntArray
    statistic: FloatArray
    p_value: FloatArray
    p_familywise: FloatArray
    global_statistic: float
    global_p_value: float
    n_permutations: int
    class_names: tuple[str, ...]
    variable_names: tuple[str, ...]

    @property
    def q_value(self) -> FloatArray:
        """Retired."""
        raise AttributeError(
            "q_value is no longer computed from permutations, which are too few for it: take the q of "
            "jointglasso.infer(X, y).differences()."
        )

    def _parts(self) -> list[Any]:
        return [
            f"Do the networks of {', '.join(self.class_names)} differ? {self.n_permutations:,} permutations: statistic "
            f"{self.global_statistic:.4g}, p = {self.global_p_value:.3g}.",
            self.table,
        ]

    @property
    def table(self) -> Any:
        """Pandas data frame of the pairs, largest statistic first."""
        frame = require("pandas", "pandas").DataFrame(
            {
                "variable1": [self.variable_names[i] for i in self.rows],
                "variable2": [self.variable_names[j] for j in self.columns],
                "statistic": self.statistic,
                "p_value": self.p_value,
                "p_familywise": self.p_familywise,
            }
        )
        return frame.sort_values("statistic", ascending=False, kind="stable", ignore_index=True)


def difference_test(
    X: Any,
    y: Any = None,
    *,
    lambda1: float,
    lambda2: float,
    n_permutations: int = 200,
    random_state: Any = None,
    n_jobs: int | None = None,
    callback: ProgressCallback | None = None,
    executor: Any = None,
    scale: str = "correlation",
    assume_centered: bool = False,
    association: str = "pearson",
    missing: str = "refuse",
    constant: str = "refuse",
    weights: Any = None,
    **options: Any,
) -> DifferenceTest:
    """Permutation test of differences between the networks of the classes.

    Parameters
    ----------
    X, y
        Samples and labels of at least two classes, as in `select`.
    lambda1, lambda2 : float
        Penalties of every solve. They should be fixed beforehand: if they were chosen on the same labels, the choice is
        not repeated under permutation.
    n_permutations : int, default 200
        Permutations of the labels.
    random_state, n_jobs, callback, executor, scale, assume_centered, association, missing, constant, weights, **options
        As in `select`.

    Returns
    -------
    DifferenceTest
        P-values of every differing pair and of the networks as a whole; the module says what they mean.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 4)), np.repeat(["ill", "well"], 40)
    >>> X[:, 1] += X[:, 0]
    >>> test = jgl.difference_test(X, y, lambda1=0.2, lambda2=0.1, n_permutations=9, random_state=0)
    >>> bool(0.0 < test.global_p_value <= 1.0)
    True
    """
    preparation = Preparation(scale, assume_centered, association, missing, constant).checked()
    data = read_data(X, y, preparation)
    samples = data.require_samples("The permutation test")
    if samples.n_classes < 2:
        raise InputError(
            "The permutation test compares classes, and there is only one: give labels y of at least two.", "y"
        )
    n_permutations = check_count("n_permutations", n_permutations)
    tracker = Tracker(callback, n_permutations + 1)
    samples = _residuals(samples, preparation)
    rng = check_random_state(random_state)
    orders = [rng.permutation(int(sum(samples.sizes))) for _ in range(n_permutations)]
    settings = {**solve_options(options), "weights": weights}
    shared = Resamples(samples, preparation, (lambda1, lambda2), settings)
    pool = WorkerPool.of(n_jobs, executor, settings)
    with quiet_solves():
        keys, observed, converged = _statistics(data.source, shared)
        tracker.advance("permutations")
        null = pool.map(_permuted, orders, shared, tracker)
    failed = [done for _, _, done in null].count(False) + (not converged)
    warn_not_converged(failed, n_permutations + 1, "permutation test")
    return _summary(samples, keys, observed, [(key, value) for key, value, _ in null])


def _permuted(order: IntArray, shared: Resamples, progress: TaskProgress) -> tuple[IntArray, FloatArray, bool]:
    """Statistics of the classes that one permutation of the labels makes."""
    samples = shared.samples
    parts = np.split(np.vstack(samples.matrices)[order], np.cumsum(samples.sizes)[:-1])
    shuffled = samples.with_parts(parts)
    found = _statistics(shared.preparation.for_resamples()(shuffled).source, shared)
    progress("permutations")
    return found


def _statistics(source: Any, shared: Resamples) -> tuple[IntArray, FloatArray, bool]:
    solution = solve(source, *shared.lambdas, **shared.options)
    return *_ranges(solution.precision), solution.status.converged


def _residuals(samples: Samples, preparation: Preparation) -> Samples:
    """Samples without the mean of their class and, where correlations are compared, without its variances."""
    prepared = preparation(samples)
    kept = prepared.samples
    rest = [X - location for X, location in zip(kept.matrices, prepared.location, strict=True)]
    if preparation.scale == "correlation":
        rest = [X / deviation for X, deviation in zip(rest, prepared.deviation, strict=True)]
    return kept.with_parts(rest)


def _ranges(precision: Sequence[Any]) -> tuple[IntArray, FloatArray]:
    """Pairs ``i * p + j``, sorted, whose partial correlation differs between classes, and its range over them."""
    p = precision[0].shape[0]
    found = []
    for Theta in precision:
        row, column, _, partial = upper_entries(Theta)
        found.append((row * p + column, partial))
    keys = np.unique(np.concatenate([key for key, _ in found]))
    values = np.zeros((len(keys), len(precision)))
    for k, (key, value) in enumerate(found):
        values[np.searchsorted(keys, key), k] = value
    spread = values.max(axis=1) - values.min(axis=1)
    return keys[spread > 0], spread[spread > 0]


def _summary(
    samples: Samples, keys: IntArray, observed: FloatArray, null: list[tuple[IntArray, FloatArray]]
) -> DifferenceTest:
    single = np.ones(len(keys))
    family = np.ones(len(keys))
    total = float(np.sqrt((observed**2).sum()))
    as_large_in_all = 1.0
    limit = observed * (1.0 - 1e-12)  # equal statistics count as equal in spite of rounding
    for key, value in null:
        _, here, there = np.intersect1d(keys, key, assume_unique=True, return_indices=True)
        single[here] += value[there] >= limit[here]
        family += value.max(initial=0.0) >= limit
        as_large_in_all += np.sqrt((value**2).sum()) >= total * (1.0 - 1e-12)
    n = len(null) + 1
    p = samples.n_variables
    return DifferenceTest(
        rows=keys // p,
        columns=keys % p,
        statistic=observed,
        p_value=single / n,
        p_familywise=family / n,
        global_statistic=total,
        global_p_value=as_large_in_all / n,
        n_permutations=len(null),
        class_names=samples.class_names,
        variable_names=samples.variable_names,
    )
