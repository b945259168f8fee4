"""What solvers, screening and the certificate ask of a penalty.

A penalty acts on one pair of variables (i, j) at a time, on the vector of its entries in the classes that may
hold it. Two forms of argument occur:

* *entries*: a flat vector with the entries of pair q at ``start[q]:start[q + 1]`` (solvers, certificate);
* *rows*: an array (m, K) with the K weighted covariances of m pairs (screening).

The paper counts every pair twice (2 sum_{i<j}); so does the objective, not the penalty.
"""

from __future__ import annotations

from typing import Protocol

from jointglasso._typing import BoolArray, FloatArray, IntArray


class PairPenalty(Protocol):
    """The contract of a penalty ``phi`` on the vector of one pair."""

    @property
    def lambda1(self) -> float:
        """Weight of the L1 part; also the penalty of the diagonal, where it is penalised."""

    @property
    def lambda2(self) -> float:
        """Weight of the part that ties the classes together."""

    def value(self, theta: FloatArray, start: IntArray) -> FloatArray:
        """``phi`` of each pair."""

    def prox(self, values: FloatArray, start: IntArray, step: FloatArray) -> FloatArray:
        """Minimiser of ``|x - values|^2 / 2 + step[q] phi(x)`` for each pair."""

    def nearest_subgradient(
        self, theta: FloatArray, wanted: FloatArray, start: IntArray, spent: FloatArray
    ) -> FloatArray:
        """Subgradient of ``phi`` at `theta` nearest to `wanted`; `spent` as in `excess`."""

    def gauge(self, values: FloatArray, start: IntArray) -> FloatArray:
        """Smallest g with the values of each pair in g times the subdifferential at zero."""

    def above(self, weighted: FloatArray) -> BoolArray:
        """Entries (m, K) too large for their class to be cut while another class keeps the pair."""

    def strong(self, weighted: FloatArray) -> BoolArray:
        """Pairs (m,) that are not zero in all classes at once when isolated: outside the dual ball."""

    def excess(self, weighted: FloatArray) -> FloatArray:
        """Part of the dual budget of a pair that each of its entries (m, K) uses."""

    def lambda_max(self, weighted: FloatArray) -> float:
        """Largest factor on (lambda1, lambda2) at which one of the pairs is still strong."""
