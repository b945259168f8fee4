"""Permutation tests of equal networks with studentised statistics.

Samples are standardised within classes, rows are permuted between the classes (within subjects for paired data), and
the complete estimation is repeated. With Q of a pair the heterogeneity of its K partial correlations (the squared
difference by its standard error for two classes), the statistics are

* `maximum`: the root of the largest Q, for few strong differences;
* `l2`: the root of the sum of all Q, for many weak ones;
* `strength`: the largest difference between two classes of the sum of z over the pairs, weighted by their pooled
  effects, by its standard error: a test of equal overall connectivity;
* `adaptive`: the smallest p-value of these three, calibrated by the same permutations.

and `l2` over the pairs of every variable and within sets of variables. For a contrast ``sum_k c_k z_k`` of the classes
its squared t statistic takes the place of Q, and rows are permuted between the classes of an arm.

Standard errors are recomputed in every permutation: statistics that are not studentised reject equal graphs far too
often where classes differ in size and tails. For correlations that are recomputed in every draw (mixed, Spearman's,
pairwise) they come from the data, with one factor for all classes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.utils import check_random_state

from jointglasso._display import ReprMixin
from jointglasso._typing import FloatArray, IntArray
from jointglasso.data.checks import InputError, check_count, check_mapping, check_positive, known_arguments
from jointglasso.inference.batch import Scores
from jointglasso.inference.data import InferenceData, read_inference_data
from jointglasso.inference.estimates import estimate
from jointglasso.inference.infer_edges import residuals_of, support_of
from jointglasso.inference.result import check_coefficients
from jointglasso.inference.tests import q_values, spread
from jointglasso.io import read_gene_sets
from jointglasso.selection.solves import ProgressCallback, Tracker, WorkerPool

#: Median of chi-square with one degree of freedom.
_MEDIAN = 0.454936

STATISTICS = ("maximum", "l2", "strength", "adaptive")


@dataclass(frozen=True, repr=False)
class NetworkTest(ReprMixin):
    """Result of `network_test`.

    Attributes
    ----------
    statistics, p_values : dict of float
        Of the hypothesis that all networks are equal (that the contrast is zero), by name of the statistic. The value
        of `adaptive` is the smallest p-value of the other three.
    node_statistics, node_p_values, node_p_familywise : array (p,)
        `l2` over the pairs of each variable; its p-value; and the familywise p-value (maximum over
        the variables in each permutation).
    n_permutations : int
        Permutations B; no p-value is below 1 / (B + 1).
    paired : bool
        Whether rows were permuted within subjects.
    class_names, variable_names : tuple of str
        As in the data.
    set_sizes : dict of int
        Number of variables of each set that are in the data.
    set_statistics, set_p_values : array (2, number of sets)
        `l2` over the pairs within each set, and the mean of Q within the set by that of all pairs.

    Examples
    --------
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
    set_sizes: dict[str, int]
    set_statistics: FloatArray
    set_p_values: FloatArray

    @property
    def table(self) -> pd.DataFrame:
        """Data frame of the global tests: `statistic`, `value`, `p_value`."""
        return pd.DataFrame(
            {"statistic": list(self.statistics), "value": self.statistics.values(), "p_value": self.p_values.values()}
        )

    def nodes(self) -> pd.DataFrame:
        """Table of the variables, smallest p first: `variable`, `statistic`, `p_value`, `p_familywise`, `q_value`."""
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

    def sets(self) -> pd.DataFrame:
        """Table of the sets of variables, smallest p first.

        Returns
        -------
        pandas.DataFrame
            Columns `set`, `n_variables`, `statistic` (l2 over the pairs within the set), `p_value` (that no pair within
            the set differs), `q_value`, `enrichment` (mean of Q within the set by that of all pairs) and
            `p_enrichment` (that differences are not concentrated in the set).
        """
        frame = pd.DataFrame(
            {
                "set": list(self.set_sizes),
                "n_variables": self.set_sizes.values(),
                "statistic": self.set_statistics[0],
                "p_value": self.set_p_values[0],
                "q_value": q_values(self.set_p_values[0], len(self.set_sizes)),
                "enrichment": self.set_statistics[1],
                "p_enrichment": self.set_p_values[1],
            }
        )
        return frame.sort_values(["p_value", "p_enrichment"], kind="stable", ignore_index=True)

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
    contrast: Mapping[str, float] | None = None,
    arms: Mapping[str, Any] | None = None,
    sets: Any = None,
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
        Subject of each sample where every subject was measured once in each class (of its arm); labels are then
        swapped within subjects.
    contrast : dict of float by class, optional
        Coefficients c_k of a contrast to test, as in `Inference.contrast`, instead of the equality of all classes.
    arms : dict from class to arm, optional
        Rows are permuted between the classes of an arm only, such as the times of each arm of a trial. The
        coefficients of a contrast add up to zero within each arm. One arm by default.
    sets : dict of sequences of variables by name, or path of a .gmt file, optional
        Sets of variables (pathways) in which differences are tested (`NetworkTest.sets`). Variables that are not in
        the data are ignored, and so are sets that have fewer than two in it.
    n_permutations : int, default 1000
        Permutations.
    random_state, callback, executor
        As in `bootstrap_network`, of the permutations.

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
    members = _arms(data.class_names, arms, contrast)
    orders = _orders(data, members)
    variable_sets = _variable_sets(sets, data.source.variable_names)
    summary = _Summary(data.n_variables, _contrasts(data.class_names, contrast), contrast is not None, variable_sets)
    seeds = check_random_state(random_state).randint(0, 2**31 - 1, size=n_permutations)
    multiplier = check_positive("penalty_multiplier", penalty_multiplier)
    units = data.units_drawn if data.recomputed is None else data.recomputed.with_margins_removed()
    if data.recomputed is not None:
        summary = replace(summary, error=_pooled_errors(data, multiplier, weights))
    draw, all_seeds = partial(_permuted, units, orders), [None, *seeds.tolist()]
    progress = partial(Tracker(callback, n_permutations + 1).advance, "permutations")
    estimator, with_se = data.estimator(weights, multiplier), data.recomputed is None
    statistics = estimator.summaries(draw, all_seeds, summary, workers, progress, with_se=with_se)
    return _result(data, statistics, paired is not None, variable_sets)


def _pooled_errors(data: InferenceData, multiplier: float, weights: Any) -> FloatArray:
    """(P, K): standard errors with one factor for all classes, for correlations that are recomputed in every draw.

    Bootstrap standard errors in every permutation would take 60 times as long.
    """
    residuals = residuals_of(data, support_of(data, multiplier, weights))
    error = estimate(data, residuals, "moderated", None).error
    factor = (error**2 * (data.sizes - 3.0)).mean(axis=1, keepdims=True)
    return np.sqrt(factor / (data.sizes - 3.0))


def _permuted(units: Scores, orders: list[IntArray], rng: np.random.Generator | None) -> list[FloatArray]:
    """Samples with permuted class labels; without `rng` those of the data."""
    n = sum(units.sizes)
    return units.permuted(np.arange(n) if rng is None else _permutation(orders, n, rng))


@dataclass(frozen=True)
class _Summary:
    """Global statistics, those of the nodes and of the sets of one draw.

    `contrasts` (r, K) has the coefficients of the comparisons; with `single`, Q is that of the only one. Standard
    errors are `error` (P, K) or those of the draw.
    """

    n_variables: int
    contrasts: FloatArray
    single: bool
    sets: dict[str, IntArray]
    error: FloatArray | None = None

    def __call__(
        self, z: FloatArray, error: FloatArray | None = None, variance: Callable[[FloatArray], FloatArray] | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        errors = self.error if error is None else error
        error, inflation = calibrated(z, cast(FloatArray, errors))
        Q = spread(z, error)
        if self.single:
            Q = (z @ self.contrasts[0]) ** 2 / (error**2 @ self.contrasts[0] ** 2)
        matrix = np.zeros((self.n_variables, self.n_variables))
        matrix[np.triu_indices(self.n_variables, 1)] = Q
        matrix += matrix.T
        inside = np.array([0.5 * matrix[np.ix_(i, i)].sum() for i in self.sets.values()])
        n_pairs = np.array([len(i) * (len(i) - 1) / 2 for i in self.sets.values()])
        values = np.sqrt(Q.max()), np.sqrt(Q.sum()), self._strength(z, error, inflation, variance)
        sets = np.stack([np.sqrt(inside), inside / n_pairs / (Q.mean() or 1.0)])
        return np.array(values), np.sqrt(matrix.sum(axis=1)), sets

    def _strength(self, z: FloatArray, error: FloatArray, inflation: FloatArray, variance: Any) -> float:
        """Largest studentised contrast of ``sum w z`` over the pairs, with the weights w of the pooled effects."""
        weight = pooled_weights(z, error)
        by_class = weight**2 @ error**2
        if variance is not None:  # estimates of several pairs depend on each other, positively with heavy tails
            by_class = np.maximum(by_class, inflation * variance(weight))
        deviation = np.sqrt(self.contrasts**2 @ by_class)
        return float((np.abs(self.contrasts @ (weight @ z)) / np.where(deviation > 0, deviation, np.inf)).max())


def calibrated(z: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Standard errors of each class scaled so that the median of ``(z / error)^2`` is that of chi-square(1).

    Returns them and the factors (K,) of their squares. In a sparse network most pairs are null. With heavy tails and
    few samples all standard errors of a class are too small, less so after permutation, which mixes the classes;
    without the factor this alone would be significant.
    """
    inflation = np.median((z / error) ** 2, axis=0) / _MEDIAN
    inflation = np.where(inflation > 0, inflation, 1.0)
    return error * np.sqrt(inflation), inflation


def pooled_weights(z: FloatArray, error: FloatArray) -> FloatArray:
    """(P,): weights ``m (1 - (2 / t)^2)_+`` of the pairs, from their pooled effects m with t statistics t.

    They are independent of all contrasts whose coefficients add up to zero, and pairs without an edge add little noise.
    """
    precision = error**-2
    total = precision.sum(axis=1)
    effect = (precision * z).sum(axis=1) / total
    weight: FloatArray = effect * (1.0 - 4.0 / np.maximum(effect**2 * total, 4.0))
    return weight


def draw_p_values(draws: FloatArray) -> FloatArray:
    """(B + 1, m): p-value of every draw of m statistics among all draws; ties count in spite of rounding."""
    ranks: FloatArray = stats.rankdata(-np.round(draws, 9), method="max", axis=0)
    return ranks / len(draws)


def _result(
    data: InferenceData, statistics: list[tuple[FloatArray, ...]], paired: bool, sets: dict[str, IntArray]
) -> NetworkTest:
    global_draws, nodes, set_draws = (np.array(part) for part in zip(*statistics, strict=True))
    p_values = draw_p_values(global_draws)
    smallest = p_values.min(axis=1)
    adaptive = float((smallest <= smallest[0]).mean())
    node_limit = nodes[0] * (1.0 - 1e-12)  # ties count in spite of rounding
    return NetworkTest(
        statistics=dict(zip(STATISTICS, [*global_draws[0].tolist(), float(smallest[0])], strict=True)),
        p_values=dict(zip(STATISTICS, [*p_values[0].tolist(), adaptive], strict=True)),
        node_statistics=nodes[0],
        node_p_values=draw_p_values(nodes)[0],
        node_p_familywise=(nodes.max(axis=1)[:, None] >= node_limit).mean(axis=0),
        n_permutations=len(statistics) - 1,
        paired=paired,
        class_names=data.class_names,
        variable_names=data.source.variable_names,
        set_sizes={name: len(index) for name, index in sets.items()},
        set_statistics=set_draws[0],
        set_p_values=draw_p_values(set_draws)[0],
    )


def _permutation(orders: list[IntArray], n: int, rng: np.random.Generator) -> IntArray:
    """Random permutation of the rows (n,) within each row of the arrays `orders`."""
    out = np.arange(n)
    for order in orders:
        out[order] = rng.permuted(order, axis=1)
    return out


def _arms(
    names: tuple[str, ...], arms: Mapping[str, Any] | None, contrast: Mapping[str, float] | None
) -> list[IntArray]:
    """Classes of each arm, by position; refuses coefficients that do not add up to zero within an arm."""
    if arms is not None:
        check_mapping("arms", arms, "from class to arm")
    named = dict.fromkeys(names, "all") if arms is None else {str(name): str(arm) for name, arm in arms.items()}
    for name in {*names} ^ {*named}:
        raise InputError(f"arms must name the arm of each class ({', '.join(names)}): see {name!r}.", "arms")
    labels = np.array([named[name] for name in names])
    members: list[IntArray] = [np.flatnonzero(labels == arm) for arm in dict.fromkeys(labels.tolist())]
    c = None if contrast is None else check_coefficients(contrast, names)
    for classes in members:
        if c is not None and abs(c[classes].sum()) > 1e-9 * np.abs(c).max():
            raise InputError(
                f"The coefficients of contrast add up to {c[classes].sum():g} over the classes "
                f"{', '.join(names[k] for k in classes)}, between which rows are permuted: they must add up to 0.",
                "contrast",
            )
        if c is None and len(members) > 1:
            raise InputError("arms needs a contrast of the classes: give contrast, or leave arms out.", "arms")
    return members


def _contrasts(names: tuple[str, ...], contrast: Mapping[str, float] | None) -> FloatArray:
    """(r, K): coefficients of the contrast, or of the differences of each two classes."""
    if contrast is not None:
        c = check_coefficients(contrast, names)[None]
        return c / np.abs(c).max()
    a, b = np.triu_indices(len(names), 1)
    unit = np.eye(len(names))
    return unit[a] - unit[b]


def _variable_sets(sets: Any, variable_names: tuple[str, ...]) -> dict[str, IntArray]:
    """Positions of the variables of each set with at least two variables in the data."""
    if sets is None:
        return {}
    if isinstance(sets, str | os.PathLike):
        sets = read_gene_sets(sets)
    check_mapping("sets", sets, "of variables by name, or the path of a .gmt file")
    position = {name: i for i, name in enumerate(variable_names)}
    known = {
        str(name): sorted({position[v] for v in map(str, members) if v in position}) for name, members in sets.items()
    }
    used = {name: np.array(index) for name, index in known.items() if len(index) > 1}
    if not used:
        raise InputError("No set has two variables of the data: sets must use the names of the variables.", "sets")
    return used


def _orders(data: InferenceData, arms: list[IntArray]) -> list[IntArray]:
    """Arrays whose rows are permuted: all rows of an arm, or the rows of each of its subjects."""
    ends = np.cumsum([0, *data.units_drawn.sizes])
    if data.subject_names is None:
        return [np.concatenate([np.arange(ends[k], ends[k + 1]) for k in classes])[None] for classes in arms]
    subjects = data.subject_names
    return [
        _paired_orders(tuple(data.class_names[k] for k in arm), [subjects[k] for k in arm], ends[arm]) for arm in arms
    ]


def _paired_orders(names: tuple[str, ...], subjects: list[Any], offsets: IntArray) -> IntArray:
    """Rows (subjects, K) of each subject among the pooled samples; those of class k begin at ``offsets[k]``."""
    first = subjects[0]
    columns = []
    for name, labels, offset in zip(names, subjects, offsets.tolist(), strict=True):
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
    return np.column_stack(columns)
