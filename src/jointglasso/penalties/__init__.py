"""Penalties on the K-vector of one pair of variables."""

from jointglasso.penalties.base import ANY_CLASS, UNIFORM, PairPenalty
from jointglasso.penalties.group import GroupPenalty
from jointglasso.penalties.pair_weights import PairWeights, as_pair_weights

__all__ = ["ANY_CLASS", "UNIFORM", "GroupPenalty", "PairPenalty", "PairWeights", "as_pair_weights"]
