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
from jointglasso.validation.naming import (
    align_variables,
    column_names,
    final_names,
    require_whole_characters,
    split_classes,
)
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
from jointglasso.validation.panels import VARIABLES, join_matrices, joined_variables
from jointglasso.validation.samples import label_rows, require_finite
from jointglasso.validation.tables import SampleRows, deferred, read_matrix, readable_table, with_rows

__all__ = [
    "FULL_CHECK_SIZE",
    "NOW_CONSTANT",
    "NOW_SCALE",
    "VARIABLES",
    "CheckedMatrices",
    "InputError",
    "InputTypeError",
    "SampleRows",
    "align_variables",
    "check_callback",
    "check_choice",
    "check_count",
    "check_covariances",
    "check_jobs",
    "check_nonnegative",
    "check_path",
    "check_positive",
    "check_switch",
    "check_warm_start",
    "check_weights",
    "column_names",
    "deferred",
    "final_names",
    "impossible_pair",
    "indefinite_start",
    "join_matrices",
    "joined_variables",
    "label_rows",
    "labelled",
    "no_minimum",
    "not_semidefinite",
    "read_matrix",
    "readable_table",
    "renamed",
    "require_bounded",
    "require_finite",
    "require_ordinary_variance",
    "require_sound_variance",
    "require_varying",
    "require_whole_characters",
    "semidefinite",
    "split_classes",
    "with_rows",
]
