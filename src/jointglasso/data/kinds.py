"""Kinds of variables (continuous, ordinal, zero-inflated), which decide how their latent correlations are estimated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso._wording import listed
from jointglasso.data.ordinal import CATEGORIES, latent_correlation, ordinal_variables
from jointglasso.data.samples import Samples
from jointglasso.data.zero_inflated import information_lost, zero_inflated_correlation, zero_inflated_variables

#: Associations that are correlations of latent Gaussian variables: samples have no scores, and no likelihood.
LATENT = ("mixed", "zero_inflated")


@dataclass(frozen=True)
class VariableKinds:
    """Which variables are ordinal and which are zero-inflated, each a mask (p,); the others are continuous."""

    ordinal: BoolArray
    zero_inflated: BoolArray

    @classmethod
    def of(cls, samples: Samples, association: str) -> VariableKinds:
        """The kinds that the values show, as far as `association` distinguishes them."""
        none = np.zeros(samples.n_variables, dtype=bool)
        ordinal = ordinal_variables(samples) if association in LATENT else none
        many_zeros = zero_inflated_variables(samples) if association == "zero_inflated" else none
        return cls(ordinal, many_zeros & ~ordinal)

    @property
    def latent(self) -> BoolArray:
        """Mask (p,) of the variables whose values are not those of the latent variables, up to increasing functions."""
        return np.asarray(self.ordinal | self.zero_inflated)

    def correlation(self, Z: FloatArray, X: FloatArray, R: FloatArray) -> FloatArray:
        """Correlations (p, p) of the latent variables of one class, given those of the normal scores Z of X."""
        R = latent_correlation(Z, X, self.ordinal, R) if self.ordinal.any() else R
        if not self.zero_inflated.any():
            return R
        return zero_inflated_correlation(X, R, self.zero_inflated, self.ordinal)

    def without_margins(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """Samples X of one class, or their normal scores Z, whose rows may be exchanged with those of other classes.

        Scores of zero-inflated variables are moved to (0, 1), beside zeros that remain.
        """
        above = np.where(self.zero_inflated, np.where(X == 0.0, 0.0, ndtr(Z)), Z)
        return np.where(self.ordinal, X, above)

    def effective_sizes(self, samples: Samples, sizes: IntArray) -> IntArray:
        """Sample sizes (K,) divided by the mean inflation of the variances of the correlations by zeros."""
        if not self.zero_inflated.any():
            return sizes
        lost = [information_lost(X, self.zero_inflated) for X in samples.matrices]
        return np.maximum(2, np.rint(sizes / np.maximum(lost, 1.0))).astype(np.int64)

    def notes(self, association: str, samples: Samples) -> Iterator[str]:
        """Sentences that say which variables are taken as what."""
        if association not in LATENT:
            return
        if self.zero_inflated.any() or association == "zero_inflated":
            which = np.flatnonzero(self.zero_inflated)
            named = listed([samples.variable_names[i] for i in which], 5)
            shares = [float((X[:, which] == 0.0).mean()) for X in samples.matrices] if len(which) else []
            by_class = ", ".join(f"{share:.0%}" for share in shares[:8])
            per_class = f"; zeros are {by_class} of their values by class" if shares else ""
            yield (
                f"{len(which)} of {samples.n_variables} variables are taken as zero-inflated, since they have zeros "
                f"and no negative values{f' ({named})' if named else ''}{per_class}."
            )
        if self.ordinal.any() or association == "mixed":
            which = np.flatnonzero(self.ordinal)
            named = ", ".join(samples.variable_names[i] for i in which[:5]) + (", ..." if len(which) > 5 else "")
            yield (
                f"{len(which)} of {samples.n_variables} variables are taken as ordinal, since they have at most "
                f"{CATEGORIES} distinct whole numbers as values{f' ({named})' if len(which) else ''}: correlations are "
                "those of the latent Gaussian variables."
            )
