"""Covariance sources from samples by class, with the means and deviations of the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso._wording import count
from jointglasso.data.checks import (
    InputError,
    check_choice,
    check_switch,
    require_moderate_scores,
    require_sound_variance,
    require_varying,
)
from jointglasso.data.kinds import LATENT, VariableKinds
from jointglasso.data.missing import (
    MISSING,
    effective_sizes,
    handle_missing,
    pairwise_correlation,
    semidefinite_correlation,
)
from jointglasso.data.naming import VARIABLES
from jointglasso.data.ranks import NormalScores, latent_from_spearman, ranks
from jointglasso.data.samples import Samples
from jointglasso.data.source import CovarianceSource, DenseCovariance
from jointglasso.data.streamed import SCALES, SampleCovariance, stated_variance
from jointglasso.errors import argument

ASSOCIATIONS = ("pearson", "spearman", "nonparanormal", *LATENT)
CONSTANT = ("refuse", "isolate")


@dataclass(frozen=True)
class PreparedSamples:
    """Covariance source, with the margins (location, deviation) that standardise new samples."""

    source: CovarianceSource
    samples: Samples
    """Samples behind the source; incomplete ones may have been dropped."""
    location: FloatArray
    """Mean of each variable in each class (K, p); zero where the data are taken as centred."""
    deviation: FloatArray
    """Standard deviation of each variable in each class (K, p); `stated_variance` where a variable is constant."""
    scale: str
    association: str
    largest_change: FloatArray
    """(K,): largest change of a correlation by the projection to a positive semidefinite matrix; 0 without it."""
    kinds: VariableKinds
    """Which variables are ordinal or zero-inflated."""

    def scores(self, k: int, X: FloatArray) -> FloatArray:
        """New samples of class k standardised by the margins of the samples behind the source."""
        if self.association == "pearson":
            Z = (X - self.location[k]) / self.deviation[k]
            require_moderate_scores(Z, X, self.samples.class_names[k], self.samples.variable_names)
        else:
            Z = NormalScores(self.samples.matrices[k])(X)
        return Z if self.scale == "correlation" else Z * self.deviation[k]

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about the correlations for the report, in sentences."""
        notes = [*self.kinds.notes(self.association, self.samples)]
        for name, change in zip(self.samples.class_names, self.largest_change.tolist(), strict=True):
            if change > 0:
                notes.append(
                    f"The correlations of class {name!r}, computed pair by pair, had negative eigenvalues; the matrix "
                    f"without them that was taken instead differs by up to {change:.2g}."
                )
        return tuple(notes)


@dataclass(frozen=True)
class Preparation:
    """How covariances are computed from samples, with the parameters of `JointGraphicalLasso`.

    Spearman, latent and pairwise matrices are dense (p, p) and cost an eigendecomposition each if they must be
    projected. The others are computed in tiles from the samples.
    """

    scale: str = "correlation"
    assume_centered: bool = False
    association: str = "pearson"
    missing: str = "refuse"
    constant: str = "refuse"
    variables: str = "same"

    def checked(self) -> Preparation:
        """Return itself after validation of every option."""
        check_choice("scale", self.scale, SCALES)
        check_switch("assume_centered", self.assume_centered)
        check_choice("association", self.association, ASSOCIATIONS)
        check_choice("missing", self.missing, MISSING)
        check_choice("constant", self.constant, CONSTANT)
        check_choice("variables", self.variables, VARIABLES)
        if self.association in LATENT and self.scale == "covariance":
            raise InputError(
                f"{argument('association', self.association)} is about correlations of latent variables: leave scale "
                "out.",
                "scale",
            )
        return self

    def for_resamples(self) -> Preparation:
        """Options for resamples: variables that are constant in a resample by chance are isolated."""
        return replace(self, constant="isolate")

    def __call__(self, samples: Samples) -> PreparedSamples:
        """Compute the source, or return it from the cache of the samples."""
        self.checked()
        if self not in samples.computed:
            samples.require_two()
            used = handle_missing(samples, self.missing)
            used.computed[self] = None, self._compute(used)
            if used is not samples:  # `used` does not store itself: a reference cycle would delay freeing it
                samples.computed[self] = used, used.computed[self][1]
        used, fields = samples.computed[self]
        return PreparedSamples(samples=samples if used is None else used, **fields)

    def _compute(self, samples: Samples) -> dict[str, Any]:
        """Fields of a `PreparedSamples` except `samples`."""
        if self.missing == "em" and any(np.isnan(X).any() for X in samples.matrices):
            raise InputError(
                f"{argument('missing', 'em')} needs the solver: it is for select, edge_stability and the estimators.",
                "missing",
            )
        location, variance, constant = _moments(samples, self.assume_centered)
        if self.constant == "refuse":
            refused = constant if samples.absent is None else constant & ~samples.absent
            for name, mask in zip(samples.class_names, refused, strict=True):
                require_varying(mask, name, samples.variable_names)
        deviation = np.sqrt(stated_variance(variance, constant, samples.sizes))
        incomplete = any(np.isnan(X).any() for X in samples.matrices)
        kinds = VariableKinds.of(samples, self.association)
        latent = kinds.latent  # with mean 0 and variance 1
        location, deviation = np.where(latent, 0.0, location), np.where(latent, 1.0, deviation)
        source: DenseCovariance | SampleCovariance
        if self.association in ("spearman", *LATENT) or incomplete:
            source, change = self._dense(samples, location, deviation, constant, kinds)
        else:
            source, change = self._streamed(samples, deviation), np.zeros(samples.n_classes)
        source.absent = samples.absent
        return {
            "source": source,
            "location": location,
            "deviation": deviation,
            "scale": self.scale,
            "association": self.association,
            "largest_change": change,
            "kinds": kinds,
        }

    def _streamed(self, samples: Samples, deviation: FloatArray) -> SampleCovariance:
        # Constant variables have been refused already where required.
        if self.association == "pearson":
            centred = self.assume_centered
            return SampleCovariance(samples, scale=self.scale, constant="isolate", assume_centered=centred)
        scored = [NormalScores(X).scores * d for X, d in zip(samples.matrices, deviation, strict=True)]
        return SampleCovariance(samples.with_parts(scored), scale=self.scale, constant="isolate")

    def _dense(
        self,
        samples: Samples,
        location: FloatArray,
        deviation: FloatArray,
        constant: BoolArray,
        kinds: VariableKinds,
    ) -> tuple[DenseCovariance, FloatArray]:
        matrices, changes = [], []
        for k, X in enumerate(samples.matrices):
            Z = self._margins(X, location[k])
            R = pairwise_correlation(Z, samples.class_names[k], samples.variable_names)
            R = latent_from_spearman(R) if self.association == "spearman" else kinds.correlation(Z, X, R)
            R[constant[k]] = R[:, constant[k]] = 0.0
            np.fill_diagonal(R, 1.0)
            R, change = semidefinite_correlation(R)
            matrices.append(R if self.scale == "correlation" else R * np.outer(deviation[k], deviation[k]))
            changes.append(change)
        source = DenseCovariance(
            matrices,
            class_names=samples.class_names,
            variable_names=samples.variable_names,
            sample_sizes=kinds.effective_sizes(samples, effective_sizes(samples)),
        )
        return source, np.array(changes)

    def _margins(self, X: FloatArray, location: FloatArray) -> FloatArray:
        """Centred values, ranks or normal scores (n, p), whose correlations define the association."""
        if self.association == "pearson":
            return X - location
        if self.association in ("nonparanormal", *LATENT):
            return NormalScores(X).scores
        ranked = ranks(X)
        return ranked - np.nanmean(ranked, axis=0)


def _moments(samples: Samples, assume_centered: bool) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Means, variances and masks of constant variables, each (K, p), over the observed values."""
    location = np.zeros((samples.n_classes, samples.n_variables))
    variance, constant = np.zeros_like(location), np.zeros(location.shape, dtype=bool)
    for k, X in enumerate(samples.matrices):
        _require_observed((~np.isnan(X)).sum(axis=0), samples.class_names[k], samples.variable_names)
        with np.errstate(over="ignore", invalid="ignore"):
            if not assume_centered:
                location[k] = np.nanmean(X, axis=0)
            variance[k] = np.nanmean((X - location[k]) ** 2, axis=0)
        low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
        constant[k] = (low == high) & ((low == 0) | (not assume_centered))
        require_sound_variance(variance[k], constant[k], samples.class_names[k], samples.variable_names)
    return location, variance, constant


def _require_observed(counts: IntArray, class_name: str, variable_names: tuple[str, ...]) -> None:
    empty = np.flatnonzero(counts < 2)
    if len(empty):
        raise InputError(
            f"Variable {variable_names[empty[0]]!r} has {counts[empty[0]]} values in class {class_name!r} "
            f"({count(len(empty), 'such variable')}), and a variance needs at least 2: drop the "
            f"variable, fill the values in, or set {argument('variables', 'union')} if the class did not measure it.",
            class_name=class_name,
            variable=variable_names[empty[0]],
        )
