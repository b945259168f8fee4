"""Networks of several classes: which edges they share, where they differ, and files other programs read."""

from jointglasso.networks.joint import JointNetworks

__all__ = ["JointNetworks"]
