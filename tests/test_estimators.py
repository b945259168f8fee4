"""The scikit-learn estimators."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import jointglasso as jgl

#: A small grid keeps the checks quick.
SMALL = {"n_lambdas": 3, "ratios": (0.5,), "cv": 3}


@parametrize_with_checks(
    [
        jgl.JointGraphicalLasso(),
        jgl.JointGraphicalLassoCV(**SMALL),
        jgl.JointGraphicalLassoCV(criterion="ebic", **SMALL),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
