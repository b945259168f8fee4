"""Scikit-learn estimators: thin faces of `solve` and `select`."""

from jointglasso.estimators.cross_validated import JointGraphicalLassoCV
from jointglasso.estimators.joint import JointGraphicalLasso

__all__ = ["JointGraphicalLasso", "JointGraphicalLassoCV"]
