"""Validation of the input: errors state in one sentence what is wrong and what to do."""

from jointglasso.data.covariance_checks import FULL_CHECK_SIZE, check_covariances, join_matrices, semidefinite
from jointglasso.data.messages import (
    impossible_pair,
    indefinite_start,
    no_common_minimum,
    no_minimum,
    not_semidefinite,
    require_bounded,
    require_moderate_scores,
    require_ordinary_variance,
    require_sound_variance,
    require_varying,
)
from jointglasso.data.naming import (
    VARIABLES,
    align_variables,
    column_names,
    final_names,
    joined_variables,
    require_whole_characters,
    split_classes,
)
from jointglasso.data.option_checks import (
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
    known_arguments,
)
from jointglasso.data.sample_checks import label_rows, labelled, require_finite
from jointglasso.data.table_checks import SampleRows, deferred, read_matrix, readable_table, with_rows
from jointglasso.errors import InputError, InputTypeError
