"""Every input error is raised here, in one sentence that names what is wrong and what to do."""

from jointglasso.errors import InputError, InputTypeError
from jointglasso.validation.covariances import FULL_CHECK_SIZE, CheckedMatrices, check_covariances
from jointglasso.validation.definiteness import semidefinite
from jointglasso.validation.errors import (
    impossible_pair,
    indefinite_start,
    no_minimum,
    not_semidefinite,
    require_bounded,
    require_ordinary_variance,
    require_sound_variance,
    require_varying,
)
from jointglasso.validation.labelled import labelled
from jointglasso.validation.naming import column_names, require_whole_characters
from jointglasso.validation.options import (
    NOW_CONSTANT,
    NOW_SCALE,
    check_callback,
    check_choice,
    check_count,
    check_jobs,
    check_nonnegative,
    check_path,
    check_positive,
    check_switch,
    check_warm_start,
    check_weights,
    renamed,
)
from jointglasso.validation.panels import VARIABLES, join_classes, joined_variables
from jointglasso.validation.samples import (
    CheckedSamples,
    check_labels,
    check_samples,
    label_rows,
    parts_by_class,
)
from jointglasso.validation.tables import SampleRows, readable_table

__all__ = [
    "FULL_CHECK_SIZE",
    "NOW_CONSTANT",
    "NOW_SCALE",
    "VARIABLES",
    "CheckedMatrices",
    "CheckedSamples",
    "InputError",
    "InputTypeError",
    "SampleRows",
    "check_callback",
    "check_choice",
    "check_count",
    "check_covariances",
    "check_jobs",
    "check_labels",
    "check_nonnegative",
    "check_path",
    "check_positive",
    "check_samples",
    "check_switch",
    "check_warm_start",
    "check_weights",
    "column_names",
    "impossible_pair",
    "indefinite_start",
    "join_classes",
    "joined_variables",
    "label_rows",
    "labelled",
    "no_minimum",
    "not_semidefinite",
    "parts_by_class",
    "readable_table",
    "renamed",
    "require_bounded",
    "require_ordinary_variance",
    "require_sound_variance",
    "require_varying",
    "require_whole_characters",
    "semidefinite",
]
