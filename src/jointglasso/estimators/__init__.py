"""Scikit-learn estimators on top of `solve` and `select`."""

from jointglasso.estimators.cross_validated import JointGraphicalLassoCV
from jointglasso.estimators.graphical_lasso import GraphicalLasso, GraphicalLassoCV, GraphicalLassoIC
from jointglasso.estimators.joint_lasso import JointGraphicalLasso
from jointglasso.estimators.time_varying import TimeVaryingGraphicalLasso

__all__ = [
    "GraphicalLasso",
    "GraphicalLassoCV",
    "GraphicalLassoIC",
    "JointGraphicalLasso",
    "JointGraphicalLassoCV",
    "TimeVaryingGraphicalLasso",
]
