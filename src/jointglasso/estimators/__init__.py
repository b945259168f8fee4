"""Scikit-learn estimators on top of `solve` and `select`."""

from jointglasso.estimators.graphical_lasso import GraphicalLasso, GraphicalLassoCV, GraphicalLassoIC
from jointglasso.estimators.joint_lasso import (
    JointGraphicalLasso,
    JointGraphicalLassoCV,
    TimeVaryingGraphicalLasso,
)

__all__ = [
    "GraphicalLasso",
    "GraphicalLassoCV",
    "GraphicalLassoIC",
    "JointGraphicalLasso",
    "JointGraphicalLassoCV",
    "TimeVaryingGraphicalLasso",
]
