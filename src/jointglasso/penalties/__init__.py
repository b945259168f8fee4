"""Penalties on the K-vector of one pair of variables."""

from jointglasso.penalties.base import PairPenalty
from jointglasso.penalties.group import GroupPenalty

__all__ = ["GroupPenalty", "PairPenalty"]
