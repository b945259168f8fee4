"""Penalties on the K-vector of one pair of variables."""

from jointglasso.penalties.base import ANY_CLASS, UNIFORM, PairPenalty, SafeRegion
from jointglasso.penalties.choice import PENALTIES, make_penalty
from jointglasso.penalties.fused import FusedPenalty
from jointglasso.penalties.group import GroupPenalty
from jointglasso.penalties.laplacian import LaplacianPenalty
from jointglasso.penalties.pair_weights import PairWeights, as_pair_weights

__all__ = [
    "ANY_CLASS",
    "PENALTIES",
    "UNIFORM",
    "FusedPenalty",
    "GroupPenalty",
    "LaplacianPenalty",
    "PairPenalty",
    "PairWeights",
    "SafeRegion",
    "as_pair_weights",
    "make_penalty",
]
