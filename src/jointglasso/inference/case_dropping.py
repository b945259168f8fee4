"""Case-dropping bootstrap: stability of the order of centralities when samples are left out, and the CS coefficient.

A fraction of the samples of each class (subjects, where these are given) is dropped at random, and the pairs and the
centralities are determined again, with the standard errors of the data for the smaller samples. The CS coefficient
(Epskamp, Borsboom and Fried 2018) is the largest fraction that can be dropped with a correlation of the centralities
with those of all samples of at least 0.7 in 95 % of the draws. They advise to interpret no order below 0.25.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from jointglasso._display import ReprMixin
from jointglasso._typing import FloatArray
from jointglasso.data.checks import InputError, check_choice, check_count, known_arguments
from jointglasso.inference.bootstrap import MEASURES, centralities, common_pairs, edges_at
from jointglasso.inference.data import FEWEST, read_inference_data
from jointglasso.inference.infer_edges import infer_from
from jointglasso.inference.result import check_level, check_rate
from jointglasso.selection.solves import ProgressCallback, Tracker, WorkerPool

#: Fractions of the samples that are dropped, as in the R package bootnet.
FRACTIONS: FloatArray = np.arange(1, 16) / 20.0


@dataclass(frozen=True, repr=False)
class CentralityStability(ReprMixin):
    """Result of `centrality_stability`.

    Attributes
    ----------
    fractions : array (F,)
        Fractions of the samples that were dropped; those that leave a class fewer than 8 are left out.
    correlations : array (2, F, B, K)
        Correlation of the centralities of the remaining samples with those of all, for strength and for expected
        influence; 0 where one of the two is constant.
    class_names : tuple of str
        As in the data.

    Examples
    --------
    >>> jgl.centrality_stability(X, y, n_resamples=20, random_state=0).table.columns.tolist()
    ['class', 'measure', 'dropped', 'correlation', 'low', 'high']
    """

    fractions: FloatArray
    correlations: FloatArray
    class_names: tuple[str, ...]

    def cs(self, measure: str = "strength", *, correlation: float = 0.7, probability: float = 0.95) -> dict[str, float]:
        """CS coefficient of each class: largest fraction of samples that can be dropped; 0 if none.

        Up to this fraction at least the share `probability` of the draws has at least this `correlation`.
        """
        check_choice("measure", measure, MEASURES)
        check_level(correlation), check_level(probability)
        enough = (self.correlations[MEASURES.index(measure)] >= correlation).mean(axis=1) >= probability
        n_stable = np.logical_and.accumulate(enough, axis=0).sum(axis=0)
        return dict(zip(self.class_names, np.append(0.0, self.fractions)[n_stable].tolist(), strict=True))

    @property
    def table(self) -> pd.DataFrame:
        """Data frame: `class`, `measure`, fraction `dropped`, mean `correlation`, `low` and `high` (2.5 and 97.5 %)."""
        mean, (low, high) = self.correlations.mean(axis=2), np.quantile(self.correlations, [0.025, 0.975], axis=2)
        index = pd.MultiIndex.from_product(
            [MEASURES, self.fractions, self.class_names], names=["measure", "dropped", "class"]
        )
        frame = pd.DataFrame({"correlation": mean.ravel(), "low": low.ravel(), "high": high.ravel()}, index=index)
        columns = ["class", "measure", "dropped", "correlation", "low", "high"]
        return frame.reset_index().sort_values(columns[:3], kind="stable", ignore_index=True)[columns]

    def _parts(self) -> list[Any]:
        table: dict[str, Any] = {"class": self.class_names}
        table |= {measure.replace("_", " "): list(self.cs(measure).values()) for measure in MEASURES}
        return [f"CS coefficients of centralities ({self.correlations.shape[2]} draws for each fraction)", table]


@known_arguments()
def centrality_stability(
    X: Any,
    y: Any = None,
    *,
    n_resamples: int = 100,
    fdr: float = 0.1,
    groups: Any = None,
    association: str = "nonparanormal",
    covariates: Any = None,
    missing: str = "refuse",
    weights: Any = None,
    penalty_multiplier: float = 1.0,
    random_state: Any = None,
    callback: ProgressCallback | None = None,
    executor: Any = None,
) -> CentralityStability:
    """Stability of the order of centralities when 5 to 75 % of the samples are dropped, and their CS coefficients.

    Parameters
    ----------
    X, y, groups, association, covariates, missing, weights, penalty_multiplier
        As in `infer`. With `groups`, subjects are dropped with all their samples.
    n_resamples : int, default 100
        Draws for each of 15 fractions.
    fdr : float, default 0.1
        False discovery rate of the edges in every draw.
    random_state, callback, executor
        As in `bootstrap_network`.

    Returns
    -------
    CentralityStability
        Correlations of the centralities with those of all samples, and `cs`.

    Notes
    -----
    Centralities are sums over the pairs with a significant pooled effect, as in `bootstrap_network`; the pairs are
    chosen again in every draw.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 4)), np.repeat(["ill", "well"], 100)
    >>> X[:, 1:3] += X[:, :1]
    >>> stability = jgl.centrality_stability(X, y, n_resamples=20, random_state=0)
    >>> min(stability.cs().values()) >= 0.5
    True
    """
    n_resamples, workers = check_count("n_resamples", n_resamples, 2), WorkerPool.of(-1, executor)
    data = read_inference_data(X, y, association=association, missing=missing, groups=groups, covariates=covariates)
    fractions = FRACTIONS[[float(((1.0 - f) * data.units).min()) >= FEWEST for f in FRACTIONS]]
    if not len(fractions):
        raise InputError(f"Dropping samples leaves a class fewer than {FEWEST}: leave small classes out.", "X")
    estimates = infer_from(data, penalty_multiplier=penalty_multiplier, weights=weights).estimates
    fdr = check_rate(fdr)
    seeds = check_random_state(random_state).randint(0, 2**31 - 1, size=(len(fractions), n_resamples))
    progress = partial(Tracker(callback, seeds.size).advance, "subsamples")
    reference = _centralities(data.n_variables, estimates.error, estimates.degrees, fdr, estimates.z)
    correlations = []
    for fraction, own_seeds in zip(fractions, seeds, strict=True):
        estimator = data.estimator(weights, penalty_multiplier, 1.0 - fraction)
        error = estimates.error * np.sqrt((data.sizes - 3.0) / np.maximum((1.0 - fraction) * data.sizes - 3.0, 1.0))
        summary = partial(_centralities, data.n_variables, error, (1.0 - fraction) * estimates.degrees, fdr)
        subsample = partial(data.units_drawn.subsample, float(fraction))
        drawn = estimator.summaries(subsample, own_seeds, summary, workers, progress)
        correlations.append([_correlations(reference, values) for values in drawn])
    return CentralityStability(fractions, np.moveaxis(np.array(correlations), 2, 0), data.class_names)


def _centralities(n_variables: int, error: FloatArray, degrees: FloatArray, fdr: float, z: FloatArray) -> FloatArray:
    """Summary of a draw: strength and expected influence (2, p, K) over the common pairs of the draw."""
    edge = edges_at(z, error, degrees, fdr)
    common, effect = common_pairs(z, error, degrees, edge, fdr)
    values = np.where(common[:, None], np.tanh(z), 0.0)
    sign = np.sign(np.where(edge, z, effect[:, None]))
    ends = np.triu_indices(n_variables, 1)
    return np.stack([centralities(part, *ends, n_variables) for part in (values * sign, values)])


def _correlations(one: FloatArray, other: FloatArray) -> FloatArray:
    """Correlations (2, K) over the variables of two arrays (2, p, K) of centralities."""
    a, b = (part - part.mean(axis=1, keepdims=True) for part in (one, other))
    scale = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.divide((a * b).sum(axis=1), scale, out=np.zeros_like(scale), where=scale > 0)
