"""Data sets: the paper's synthetic designs, an expression-like one, and two real data sets."""

from jointglasso.datasets.embedded import load_expression, load_rppa
from jointglasso.datasets.synthetic import JointData, make_joint_ggm

__all__ = ["JointData", "load_expression", "load_rppa", "make_joint_ggm"]
