"""Every input error is raised here, in one sentence that names what is wrong and what to do."""

from jointglasso.validation.covariances import FULL_CHECK_SIZE, CheckedMatrices, check_covariances
from jointglasso.validation.definiteness import semidefinite
from jointglasso.validation.errors import (
    impossible_pair,
    indefinite_start,
    no_minimum,
    not_semidefinite,
    require_bounded,
    require_finite_variance,
    require_ordinary_variance,
    require_varying,
)
from jointglasso.validation.options import (
    check_callback,
    check_choice,
    check_count,
    check_jobs,
    check_nonnegative,
    check_positive,
    check_switch,
    check_warm_start,
    check_weights,
)
from jointglasso.validation.samples import CheckedSamples, check_labels, check_samples, label_rows, parts_by_class
from jointglasso.validation.tables import SampleRows

__all__ = [
    "FULL_CHECK_SIZE",
    "CheckedMatrices",
    "CheckedSamples",
    "SampleRows",
    "check_callback",
    "check_choice",
    "check_count",
    "check_covariances",
    "check_jobs",
    "check_labels",
    "check_nonnegative",
    "check_positive",
    "check_samples",
    "check_switch",
    "check_warm_start",
    "check_weights",
    "impossible_pair",
    "indefinite_start",
    "label_rows",
    "no_minimum",
    "not_semidefinite",
    "parts_by_class",
    "require_bounded",
    "require_finite_variance",
    "require_ordinary_variance",
    "require_varying",
    "semidefinite",
]
