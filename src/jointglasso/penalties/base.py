"""What solvers, screening and the certificate ask of a penalty.

A penalty acts on one pair of variables (i, j) at a time, on the vector of its entries in the classes that may
hold it. Two forms of argument occur:

* *entries*: a flat vector with the entries of pair q at ``start[q]:start[q + 1]`` (solvers, certificate);
* *rows*: an array (m, K) with the K weighted covariances of m pairs (screening).

The paper counts every pair twice (2 sum_{i<j}); so does the objective, not the penalty.

Each pair may have a weight of its own: `factor` holds a finite number v >= 0 for every pair, whose penalty is then
``v phi``, or is empty (`UNIFORM`) where all weights are 1. Pairs of infinite weight are no unknowns and get no penalty:
whoever lists pairs leaves them out.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from jointglasso._typing import BoolArray, FloatArray, IntArray

#: No weights: every pair has the penalty as it is.
UNIFORM: FloatArray = np.empty(0)


class PairPenalty(Protocol):
    """The contract of a penalty ``phi`` on the vector of one pair."""

    @property
    def lambda1(self) -> float:
        """Weight of the L1 part; also the penalty of the diagonal, where it is penalised."""

    @property
    def lambda2(self) -> float:
        """Weight of the part that ties the classes together."""

    def value(self, theta: FloatArray, start: IntArray, factor: FloatArray = UNIFORM) -> FloatArray:
        """``phi`` of each pair."""

    def prox(self, values: FloatArray, start: IntArray, step: FloatArray, factor: FloatArray = UNIFORM) -> FloatArray:
        """Minimiser of ``|x - values|^2 / 2 + step[q] phi(x)`` for each pair."""

    def nearest_subgradient(
        self,
        theta: FloatArray,
        wanted: FloatArray,
        start: IntArray,
        spent: FloatArray,
        factor: FloatArray = UNIFORM,
    ) -> FloatArray:
        """Subgradient of ``phi`` at `theta` nearest to `wanted`; `spent` as in `excess`."""

    def gauge(self, values: FloatArray, start: IntArray, factor: FloatArray = UNIFORM) -> FloatArray:
        """Smallest g with the values of each pair in g times the subdifferential at zero."""

    def above(self, weighted: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """Entries too large for their class to be cut while another class keeps the pair.

        Either rows (m, K) with `factor` (m,), or a list of entries with one factor each.
        """

    def below(self, values: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """Entries small enough, with room to spare, for their class to be cut; arguments as in `above`."""

    def strong(self, weighted: FloatArray, factor: FloatArray = UNIFORM) -> BoolArray:
        """Pairs (m,) that are not zero in all classes at once when isolated: outside the dual ball."""

    def excess(self, weighted: FloatArray, factor: FloatArray = UNIFORM) -> FloatArray:
        """Part of the dual budget of a pair that each of its entries uses; arguments as in `above`."""

    def used(self, values: FloatArray, start: IntArray, factor: FloatArray = UNIFORM) -> FloatArray:
        """Part of the dual budget of each pair that its entries use together."""

    def budget(self, factor: FloatArray = UNIFORM) -> FloatArray | float:
        """Dual budget of each pair, or of all alike: the excesses of a pair in its dual ball add up to no more."""

    def lambda_max(self, weighted: FloatArray, factor: FloatArray = UNIFORM) -> float:
        """Largest factor on (lambda1, lambda2) at which one of the pairs is still strong.

        Infinite if an unpenalised pair has a covariance: it never vanishes.
        """
