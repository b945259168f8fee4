"""Tests of the differences between the classes of a fit, wherever they are affordable."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from jointglasso._wording import count
from jointglasso.errors import InputError

if TYPE_CHECKING:
    from jointglasso import Inference
    from jointglasso.cli.input_data import Data

#: Maximum number of variables, by what the standard errors take: one pass, resamples, resamples of polychoric fits.
MOST, MOST_RESAMPLED, MOST_MIXED = 500, 150, 40

#: Minimum number of samples of a class by variable.
SAMPLES_BY_VARIABLE = 0.2

#: False discovery rate of the differences that are called significant.
RATE = 0.1


def tested_differences(data: Data) -> tuple[Inference | None, str]:
    """Result of `infer` on the samples of a fit, or None with the reason.

    Pearson's correlations are tested on normal scores: with them heavy tails make differences where there are none.
    """
    import jointglasso as jgl
    from jointglasso.data.dependence import DependentSamplesWarning

    samples, association = data.samples, data.preparation["association"]
    missing = data.preparation.get("missing", "refuse")
    if samples.n_classes < 2:
        return None, "there is one class"
    resampled = association in ("spearman", "mixed") or missing == "pairwise"
    most = MOST_MIXED if association == "mixed" else MOST_RESAMPLED if resampled else MOST
    if samples.sample_fraction != 1.0:
        return None, "the windows share samples"
    if samples.absent is not None:
        return None, "the classes have different variables"
    if samples.n_variables > most:
        return None, f"{samples.n_variables:,} variables are more than the {most} up to which fit tests them"
    for name, size in zip(samples.class_names, samples.sizes.tolist(), strict=True):
        if size < SAMPLES_BY_VARIABLE * samples.n_variables:
            return None, f"class {name!r} has {count(size, 'sample')} for {samples.n_variables:,} variables"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jgl.InferenceWarning)
            warnings.simplefilter("error", DependentSamplesWarning)
            used = "nonparanormal" if association == "pearson" else association
            return jgl.infer(samples, association=used, missing=missing), ""
    except DependentSamplesWarning:
        return None, "consecutive samples are alike, and tests take samples as independent"
    except InputError as error:
        return None, str(error).rstrip(".")
