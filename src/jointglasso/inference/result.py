"""Result of the inference: tables of edges and of differences between classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from jointglasso._cached_property import cached_property
from jointglasso._display import ReprMixin
from jointglasso._typing import FloatArray, IntArray
from jointglasso._version import __version__
from jointglasso._wording import count
from jointglasso.data.checks import InputError, check_choice, check_mapping, check_positive
from jointglasso.inference import tests
from jointglasso.inference.estimates import Estimates
from jointglasso.inference.tests import q_values
from jointglasso.networks import JointNetworks
from jointglasso.solution import Solution

#: What follows "correlations", by association.
_OF_WHAT = {
    "nonparanormal": " of normal scores",
    "pearson": "",
    "mixed": " of the latent Gaussian variables of ordinal data (polychoric, polyserial)",
    "zero_inflated": " of the latent Gaussian variables of zero-inflated data (Kendall's tau)",
    "spearman": " from Spearman's rank correlations",
}

#: Kinds of standard errors in words.
SE_WORDS = {
    "moderated": "estimated from the influence of single samples and moderated across pairs",
    "gaussian": "of Gaussian data",
    "by subject": "from the influence of subjects, moderated across pairs",
    "resampled": "from bootstrap resamples",
}


@dataclass(frozen=True, repr=False)
class Inference(ReprMixin):
    """Partial correlations of all pairs in all classes, with intervals, p-values and false discovery rates.

    Attributes
    ----------
    class_names, variable_names : tuple of str
        As in the data.
    sizes : array (K,)
        Samples of each class, less the covariates that were regressed out.
    se : str
        "moderated" or "gaussian"; "by subject" where samples belong to subjects, "resampled" where correlations are
        recomputed in resamples.
    association, missing : str
        As in the call of `infer`.
    support_edges : tuple of int
        Pairs of the support step in each class.
    diagonals : list of arrays (p,)
        T_ii of each class, on the scale of correlations.
    estimates : Estimates
        z and its standard error (m, K) of every kept pair.
    solution : Solution or None
        The penalised model of the support step, with its certificate; None where matrices were given as the support.
    notes : tuple of str
        Remarks on the validity of the results; empty if there are none.
    covariates : tuple of str
        Names of the covariates that were regressed out.

    Notes
    -----
    Tables are sorted by p-value. q is the smallest false discovery rate (Benjamini and Hochberg) at which the row
    would be a discovery among all pairs of its class, or of its comparison. With very many variables only pairs with
    a p-value up to ``estimates.limit`` in some test are kept; q still counts all pairs.

    Examples
    --------
    >>> found = jgl.infer(X, y)
    >>> found.edges(fdr=0.1)[["class", "variable1", "variable2"]]
      class variable1 variable2
    0  well        x0        x1
    1   ill        x0        x1
    """

    class_names: tuple[str, ...]
    variable_names: tuple[str, ...]
    sizes: FloatArray
    se: str
    association: str
    support_edges: tuple[int, ...]
    diagonals: list[FloatArray]
    estimates: Estimates
    solution: Solution | None
    notes: tuple[str, ...]
    covariates: tuple[str, ...] = ()
    missing: str = "refuse"

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.class_names)

    @property
    def n_pairs(self) -> int:
        """Pairs of variables, kept or not."""
        p = len(self.variable_names)
        return p * (p - 1) // 2

    @property
    def gaussian(self) -> bool:
        """Whether standard errors assume Gaussian data."""
        return self.se == "gaussian"

    @cached_property
    def p_values(self) -> FloatArray:
        """(m, K): p-value of every kept pair in every class."""
        estimates = self.estimates
        return tests.edge_p_values(estimates.z, estimates.error, estimates.degrees, gaussian=self.gaussian)

    @cached_property
    def q_values(self) -> FloatArray:
        """(m, K): q-values, computed separately for each class."""
        return np.column_stack([q_values(p, self.n_pairs) for p in self.p_values.T])

    def intervals(self, level: float = 0.95) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Partial correlations of the kept pairs and both ends of their intervals, arrays (m, K)."""
        z, half = self.estimates.z, self._half_widths(level)
        return np.tanh(z), np.tanh(z - half), np.tanh(z + half)

    def difference_intervals(self, a: int, b: int, level: float = 0.95) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Differences (m,) of the partial correlations of the classes a and b, and both ends of their intervals."""
        z, half = self.estimates.z[:, [a, b]], self._half_widths(level)[:, [a, b]]
        return tests.difference_interval(np.tanh(z), np.tanh(z - half), np.tanh(z + half))

    def leading(self, fdr: float, n: int) -> IntArray:
        """Positions of up to `n` kept pairs that are an edge in some class, smallest p-value first."""
        p = np.where(self.q_values <= check_rate(fdr), self.p_values, np.inf).min(axis=1)
        order = np.argsort(p, kind="stable")[:n]
        return order[np.isfinite(p[order])]

    @cached_property
    def heterogeneity_values(self) -> tuple[FloatArray, FloatArray]:
        """P-values and q-values (m,) of the test that a partial correlation is the same in all classes."""
        self._require_classes("Heterogeneity")
        _, p = tests.heterogeneity(self.estimates.z, self.estimates.error, self._degrees)
        return p, q_values(p, self.n_pairs)

    def edges(self, *, fdr: float | None = None, level: float = 0.95) -> pd.DataFrame:
        """Table of the partial correlations.

        Parameters
        ----------
        fdr : float, optional
            Only rows with q up to this; all by default.
        level : float, default 0.95
            Level of the (pointwise) intervals.

        Returns
        -------
        pandas.DataFrame
            Columns `class`, `variable1`, `variable2`, `partial_correlation`, `low`, `high`, `p_value`, `q_value`.
        """
        values = (*self.intervals(level), self.p_values, self.q_values)
        names = ("partial_correlation", "low", "high", "p_value", "q_value")
        parts = [
            {name: column[:, k] for name, column in zip(names, values, strict=True)} for k in range(self.n_classes)
        ]
        return self._table(parts, {"class": list(self.class_names)}, fdr)

    def differences(
        self, class1: Any = None, class2: Any = None, *, fdr: float | None = None, level: float = 0.95
    ) -> pd.DataFrame:
        """Table of the differences between each two classes.

        The difference is that of the partial correlations, its interval that of Zou (2007); tests are made on the
        scale of z, so that the two can disagree near the threshold.

        Parameters
        ----------
        class1, class2 : str, optional
            Only the first minus the second of these classes; each two classes by default.
        fdr, level
            As in `edges`.

        Returns
        -------
        pandas.DataFrame
            Columns `class1`, `class2`, `variable1`, `variable2`, `difference`, `low`, `high`, `p_value`, `q_value`.
        """
        class_pairs = [*combinations(range(self.n_classes), 2)]
        if class1 is not None or class2 is not None:
            one, other = (
                check_choice(f"class{n}", str(name), self.class_names) for n, name in ((1, class1), (2, class2))
            )
            if one == other:
                raise InputError(f"class1 and class2 are both {one!r}: give two classes.", "class2")
            class_pairs = [(self.class_names.index(one), self.class_names.index(other))]
        return self._differences(class_pairs, fdr, level, jointly=False)

    def changes(self, *, fdr: float | None = None, level: float = 0.95) -> pd.DataFrame:
        """Table of the differences between each class and the next, for classes in order such as times or stages.

        Columns and parameters as in `differences`; q-values count the pairs of all K - 1 steps together. The classes
        must be independent samples, not windows that overlap.
        """
        return self._differences([*pairwise(range(self.n_classes))], fdr, level, jointly=True)

    def _differences(
        self, class_pairs: list[tuple[int, int]], fdr: float | None, level: float, *, jointly: bool
    ) -> pd.DataFrame:
        """Differences between pairs of classes, with q-values over all of them or by comparison."""
        self._require_classes("Differences")
        estimates = self.estimates
        p_values = np.array(
            [
                tests.difference_p_values(estimates.z[:, both], estimates.error[:, both], self._degrees[both])
                for both in map(list, class_pairs)
            ]
        )
        if jointly:
            q = q_values(p_values.ravel(), len(class_pairs) * self.n_pairs).reshape(p_values.shape)
        else:
            q = np.array([q_values(p, self.n_pairs) for p in p_values])
        parts = []
        for (a, b), p, own_q in zip(class_pairs, p_values, q, strict=True):
            values = (*self.difference_intervals(a, b, level), p, own_q)
            parts.append(dict(zip(("difference", "low", "high", "p_value", "q_value"), values, strict=True)))
        names = {f"class{n + 1}": [self.class_names[pair[n]] for pair in class_pairs] for n in (0, 1)}
        return self._table(parts, names, fdr)

    def contrast(
        self, coefficients: Mapping[str, float], *, fdr: float | None = None, level: float = 0.95
    ) -> pd.DataFrame:
        """Table of a contrast ``sum_k c_k z_k`` of the Fisher-transformed partial correlations ``z = atanh(rho)``.

        Two changes are compared by ``{"drug_after": 1, "drug_before": -1, "placebo_after": -1, "placebo_before": 1}``,
        a class with the mean of two others by ``{"a": 1, "b": -0.5, "c": -0.5}``. Interval and test are both on the
        scale of z, which is close to that of the partial correlations below 0.3: a sum of partial correlations and one
        of z are zero together for two classes only.

        Parameters
        ----------
        coefficients : dict of float by class
            c_k; 0 for classes that are left out. The classes must be independent samples.
        fdr, level
            As in `edges`.

        Returns
        -------
        pandas.DataFrame
            Columns `variable1`, `variable2`, `contrast`, `low`, `high`, `p_value`, `q_value`.
        """
        c = check_coefficients(coefficients, self.class_names)
        used = c != 0
        estimates, degrees = self.estimates, self._degrees[used]
        value, half, p = tests.contrast(
            estimates.z[:, used], estimates.error[:, used], degrees, c[used], check_level(level)
        )
        columns = {"contrast": value, "low": value - half, "high": value + half, "p_value": p}
        return self._table([columns | {"q_value": q_values(p, self.n_pairs)}], {}, fdr)

    def heterogeneity(self, *, fdr: float | None = None) -> pd.DataFrame:
        """Table of the test that a partial correlation is the same in all classes.

        Returns
        -------
        pandas.DataFrame
            Columns `variable1`, `variable2`, `statistic` (Q, near chi-square with K - 1 degrees of freedom), `p_value`
            (Welch), `q_value`.
        """
        self._require_classes("Heterogeneity")
        return self._across(tests.heterogeneity, fdr)

    def pooled_effect(self, *, fdr: float | None = None) -> pd.DataFrame:
        """Table of the test of a pooled effect: the mean over the classes with inverse-variance weights.

        Returns
        -------
        pandas.DataFrame
            Columns `variable1`, `variable2`, `statistic` (Student's t, with the sign of the effect), `p_value`,
            `q_value`.
        """
        return self._across(tests.pooled_effect, fdr)

    def omnibus(self, *, fdr: float | None = None) -> pd.DataFrame:
        """Table of the test that a pair is an edge in at least one class (chi-square with K degrees of freedom)."""
        return self._across(tests.omnibus, fdr)

    def graph(self, fdr: float = 0.1) -> JointNetworks:
        """Networks of the edges with q up to `fdr` in their class; their values are the desparsified estimates."""
        check_rate(fdr)
        estimates, p = self.estimates, len(self.variable_names)
        matrices = []
        for k, diagonal in enumerate(self.diagonals):
            chosen = self.q_values[:, k] <= fdr
            i, j = estimates.rows[chosen], estimates.columns[chosen]
            value = -np.tanh(estimates.z[chosen, k]) * np.sqrt(diagonal[i] * diagonal[j])
            upper = sparse.coo_array((value, (i, j)), shape=(p, p))
            matrices.append(sparse.csc_array(upper + upper.T + sparse.diags_array(diagonal)))
        return JointNetworks(matrices, self.class_names, self.variable_names)

    def method(self, fdr: float = 0.1) -> str:
        """Description of the method and the numbers of discoveries, as text for a paper."""
        sizes = ", ".join(f"{name}: n = {size:g}" for name, size in zip(self.class_names, self.sizes, strict=True))
        classes = f"{self.n_classes} classes ({sizes})" if self.n_classes > 1 else f"one class (n = {self.sizes[0]:g})"
        between = ", differences between classes by Welch's test of Fisher-transformed partial correlations"
        missing_words = {
            "complete": ", samples with missing values left out,",
            "pairwise": ", each pair from the samples that have both values,",
            "em": ", missing values drawn under the network (EM),",
        }.get(self.missing, "")
        adjusted = f", adjusted for {', '.join(self.covariates)} within classes," if self.covariates else ""
        lasso = "joint graphical lasso (group penalty, lambda = sqrt(max(log p, 2 log(p / 5)) / n))"
        return (
            f"Partial correlations{_OF_WHAT[self.association]} between {len(self.variable_names)} variables in "
            f"{classes}{missing_words}{adjusted} were estimated by desparsified maximum likelihood on the support of a "
            f"{lasso}, with standard errors {SE_WORDS[self.se]}{between if self.n_classes > 1 else ''}, and "
            f"false discovery rates by Benjamini and Hochberg's procedure (threshold {fdr:g}; jointglasso "
            f"{__version__}). Significant at this rate were {self._counted(fdr)}."
        )

    def _counted(self, fdr: float) -> str:
        """Numbers of edges of each class and of differences, in words."""
        edges = (self.q_values <= check_rate(fdr)).sum(axis=0).tolist()
        if self.n_classes == 1:
            return f"{edges[0]:,} edges"
        by_class = ", ".join(f"{number:,} in {name}" for name, number in zip(self.class_names, edges, strict=True))
        return f"edges ({by_class}) and {count(len(self.differences(fdr=fdr)), 'difference')} between two classes"

    def _networks(self) -> JointNetworks:
        return self.graph()

    def _parts(self) -> list[Any]:
        sizes = ", ".join(f"{name} {size:g}" for name, size in zip(self.class_names, self.sizes, strict=True))
        counts = zip(self.class_names, (self.q_values <= 0.1).sum(axis=0).tolist(), strict=True)
        by_class = ", ".join(f"{name} {number}" for name, number in counts)
        classes = count(self.n_classes, "class")
        lines = [
            f"Partial correlations of {len(self.variable_names):,} variables in {classes} (samples: {sizes})",
            f"Correlations{_OF_WHAT[self.association]} (association={self.association!r}), {self.se} standard errors",
            f"Edges at FDR 0.1: {by_class}",
        ]
        if self.n_classes > 1:
            lines.append(f"Differences at FDR 0.1: {len(self.differences(fdr=0.1))}")
        return [*lines, self.edges(), *self.notes]

    def _half_widths(self, level: float) -> FloatArray:
        """(m, K): half-widths of the intervals of z."""
        return tests.half_width(check_level(level), self._degrees) * self.estimates.error

    @property
    def _degrees(self) -> FloatArray:
        """(K,): degrees of freedom of estimated standard errors; infinite for Gaussian ones."""
        return np.full(self.n_classes, np.inf) if self.gaussian else self.estimates.degrees

    def _across(
        self, test: Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]], fdr: float | None
    ) -> pd.DataFrame:
        statistic, p = test(self.estimates.z, self.estimates.error, self._degrees)
        return self._table([{"statistic": statistic, "p_value": p, "q_value": q_values(p, self.n_pairs)}], {}, fdr)

    def _table(self, parts: list[dict[str, FloatArray]], names: dict[str, list[str]], fdr: float | None) -> Any:
        """Stack tables with equal columns (one per class or comparison), filter by q, sort by p."""
        every = np.arange(len(self.estimates.rows))
        chosen = [every if fdr is None else np.flatnonzero(part["q_value"] <= check_rate(fdr)) for part in parts]
        columns = {
            name: np.concatenate([part[name][rows] for part, rows in zip(parts, chosen, strict=True)])
            for name in parts[0]
        }
        order = np.argsort(columns["p_value"], kind="stable")
        which = np.repeat(np.arange(len(parts)), [len(rows) for rows in chosen])[order]
        pair, variables = np.concatenate(chosen)[order], np.array(self.variable_names, dtype=object)
        labels = {name: np.array(values, dtype=object)[which] for name, values in names.items()}
        labels["variable1"] = variables[self.estimates.rows[pair]]
        labels["variable2"] = variables[self.estimates.columns[pair]]
        return pd.DataFrame(labels | {name: column[order] for name, column in columns.items()})

    def _require_classes(self, what: str) -> None:
        if self.n_classes < 2:
            raise InputError(f"{what} are between classes, and there is only one: give labels y of at least two.", "y")


def by_class_and_variable(
    class_names: tuple[str, ...], variable_names: tuple[str, ...], columns: Mapping[str, FloatArray]
) -> pd.DataFrame:
    """Table of quantities (p, K), a row for each variable of each class: `class`, `variable` and the columns."""
    index = pd.MultiIndex.from_product([class_names, variable_names], names=["class", "variable"])
    return pd.DataFrame({name: values.T.ravel() for name, values in columns.items()}, index=index).reset_index()


def differences_by_variable(
    class_names: tuple[str, ...], variable_names: tuple[str, ...], columns: Callable[[int, int], dict[str, FloatArray]]
) -> pd.DataFrame:
    """Table of the differences between each two classes a and b, smallest p-value first, with q-values by comparison.

    ``columns(a, b)`` are arrays (p,), the p-values among them.
    """
    if len(class_names) < 2:
        raise InputError("Differences are between classes, and there is only one: give labels y.", "y")
    parts = []
    for a, b in combinations(range(len(class_names)), 2):
        values = columns(a, b)
        names = {"class1": class_names[a], "class2": class_names[b], "variable": variable_names}
        q = q_values(values["p_value"], len(variable_names))
        parts.append(pd.DataFrame({**names, **values, "q_value": q}))
    return pd.concat(parts).sort_values("p_value", kind="stable", ignore_index=True)


def check_rate(fdr: float) -> float:
    """Return a false discovery rate in (0, 1]; raise InputError otherwise."""
    if not check_positive("fdr", fdr) <= 1.0:
        raise InputError(f"fdr={fdr:g} is a share: give a number above 0 and up to 1, such as 0.1.", "fdr")
    return float(fdr)


def check_level(level: float) -> float:
    """Return the level of an interval in (0, 1); raise InputError otherwise."""
    if not check_positive("level", level) < 1.0:
        raise InputError(f"level={level:g} must be between 0 and 1, such as 0.95.", "level")
    return float(level)


def check_coefficients(coefficients: Mapping[str, float], class_names: tuple[str, ...]) -> FloatArray:
    """Coefficients (K,) of a contrast in the order of the classes; InputError for unknown classes or none but zeros."""
    check_mapping("coefficients", coefficients, "of a number by class")
    named = {str(name): value for name, value in coefficients.items()}
    unknown = [name for name in named if name not in class_names]
    if unknown:
        raise InputError(
            f"coefficients names the class {unknown[0]!r}, which is not among the classes ({', '.join(class_names)}).",
            "coefficients",
            class_name=unknown[0],
        )
    c = np.array([float(named.get(name, 0.0)) for name in class_names])
    if not np.isfinite(c).all() or not c.any():
        raise InputError("coefficients must be finite, and one of them other than zero.", "coefficients")
    return c
