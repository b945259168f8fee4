"""Validation of the input: errors state in one sentence what is wrong and what to do."""

from jointglasso.data.covariance_checks import (
    FULL_CHECK_SIZE,
    check_covariance,
    check_covariances,
    join_matrices,
    semidefinite,
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
    check_mapping,
    check_nonnegative,
    check_path,
    check_positive,
    check_switch,
    check_warm_start,
    check_weights,
    impossible_pair,
    indefinite_start,
    known_arguments,
    no_common_minimum,
    no_minimum,
    not_semidefinite,
    require_bounded,
    require_moderate_scores,
    require_ordinary_variance,
    require_sound_variance,
    require_varying,
)
from jointglasso.data.table_checks import (
    SampleRows,
    deferred,
    label_rows,
    labelled,
    read_matrix,
    readable_table,
    require_finite,
    with_rows,
)
from jointglasso.errors import InputError, InputTypeError
