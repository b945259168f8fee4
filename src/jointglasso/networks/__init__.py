"""Networks of several classes: edge tables, comparisons between classes, and export to graph formats."""

from jointglasso.networks.joint import JointNetworks

__all__ = ["JointNetworks"]
