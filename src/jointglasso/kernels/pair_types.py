"""Coefficients of a penalty on one pair, in the form that compiled code takes."""

from __future__ import annotations

from typing import NamedTuple

from jointglasso._typing import FloatArray, IntArray


class FusedPair(NamedTuple):
    """Coefficients of the fused penalty, and the shape of its graph of classes."""

    l1: FloatArray
    ties: FloatArray
    shape: int
    mass: FloatArray
    """COMPLETE: classes k and l are tied by ``mass[k] * mass[l]``."""
    parent: IntArray
    """FOREST: the neighbour towards the root of each class, -1 for a root."""
    order: IntArray
    """FOREST: the classes, parents before their children."""


class LaplacianPair(NamedTuple):
    """Coefficients of the Laplacian penalty."""

    l1: FloatArray
    ties: FloatArray
