"""What the fused family means, in NumPy: sets of classes by enumeration, no shortcut. For a handful of classes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np


@dataclass(frozen=True)
class PairPenaltyReference:
    """``v phi`` of the classes `classes`, all others being zero: l1 weights, ties and whether these are squared."""

    l1: np.ndarray
    class_graph: np.ndarray
    classes: np.ndarray
    v: float = 1.0
    squared: bool = False

    def full(self, t: np.ndarray) -> np.ndarray:
        whole = np.zeros(len(self.l1))
        whole[self.classes] = t
        return whole

    def value(self, t: np.ndarray) -> float:
        x = self.full(t)
        difference = np.abs(x[:, None] - x[None, :])
        coupling = np.triu(self.class_graph, 1) * (difference**2 if self.squared else difference)
        return self.v * float(self.l1 @ np.abs(x) + coupling.sum())

    def outside_by(self, u: np.ndarray, t: np.ndarray) -> float:
        """How far u is from being a subgradient at t of the restricted penalty: 0 if it is one.

        Fused: for every set Q inside one level of t, what remains of u(Q) after the fixed signs is at most what the
        free ones give.
        """
        if self.squared:
            return self._outside_squared(u, t)
        a, b = self._restricted()
        worst = 0.0
        fixed = a * np.sign(t) + (b * np.sign(t[:, None] - t[None, :])).sum(axis=1)
        r = u - fixed
        for level in np.unique(t):
            cluster = np.flatnonzero(t == level)
            for bits in product([False, True], repeat=len(cluster)):
                chosen = np.array(bits)
                Q, rest = cluster[chosen], cluster[~chosen]
                free = b[np.ix_(Q, rest)].sum() + (a[Q].sum() if level == 0 else 0.0)
                worst = max(worst, abs(r[Q].sum()) - free)
        return worst

    def _outside_squared(self, u: np.ndarray, t: np.ndarray) -> float:
        x = self.full(t)
        laplacian = np.diag(self.class_graph.sum(axis=1)) - self.class_graph
        rest = u - self.v * 2.0 * (laplacian @ x)[self.classes]
        l1 = self.v * self.l1[self.classes]
        return float(
            np.where(t == 0, np.maximum(np.abs(rest) - l1, 0.0), np.abs(rest - l1 * np.sign(t))).max(initial=0)
        )

    def gauge(self, u: np.ndarray) -> float:
        a, b = self._restricted()
        n = len(a)
        worst = 0.0
        sets = [np.eye(n, dtype=bool)[k] for k in range(n)] if self.squared else self._sets(n)
        for Q in sets:
            limit = a[Q].sum() + (0.0 if self.squared else b[np.ix_(Q, ~Q)].sum())
            if abs(u[Q].sum()) > 0:
                worst = max(worst, abs(u[Q].sum()) / limit if limit > 0 else np.inf)
        return worst

    def tight(self, u: np.ndarray, radius: np.ndarray) -> list[np.ndarray]:
        """Sets Q with ``|u'(Q)| = l1(Q) + cut(Q)`` at some u' within reach of u where no subset is above its limit.

        The largest u'(Q) under the limits f of all subsets A is the smallest ``f(A) + (u + radius)(Q - A)``: there is
        such a point if no subset has a larger ``u + radius - f`` than Q.
        """
        a, b = self._restricted()
        found = []
        for sign in (1.0, -1.0):
            reached = sign * u + radius
            gain = {Q.tobytes(): float((reached - a)[Q].sum() - b[np.ix_(Q, ~Q)].sum()) for Q in self._sets(len(a))}
            for Q in self._sets(len(a)):
                if Q.any() and all(gain[Q.tobytes()] >= gain[(A & Q).tobytes()] - 1e-14 for A in self._sets(len(a))):
                    found.append(Q)
        return found

    def _restricted(self) -> tuple[np.ndarray, np.ndarray]:
        cut = np.setdiff1d(np.arange(len(self.l1)), self.classes)
        pull = 0.0 if self.squared else self.class_graph[np.ix_(self.classes, cut)].sum(axis=1)
        return self.v * (self.l1[self.classes] + pull), self.v * self.class_graph[np.ix_(self.classes, self.classes)]

    @staticmethod
    def _sets(n: int) -> list[np.ndarray]:
        return [np.array(bits) for bits in product([False, True], repeat=n)]


def smallest_joined(l1: np.ndarray, class_graph: np.ndarray, v: np.ndarray, joined: np.ndarray) -> np.ndarray:
    """Smallest set around `joined` outside of which every set of classes satisfies the rule of the fused screen."""
    n = len(l1)
    allowed = []
    for bits in product([False, True], repeat=n):
        A = np.array(bits)
        if (joined <= A).all() and _may_cut(l1, class_graph, v, A):
            allowed.append(A)
    smallest = np.logical_and.reduce(allowed)
    assert any((smallest == A).all() for A in allowed), "the rule has no smallest set"
    return smallest


def _may_cut(l1: np.ndarray, class_graph: np.ndarray, v: np.ndarray, A: np.ndarray) -> bool:
    X = np.flatnonzero(~A)
    for bits in product([False, True], repeat=len(X)):
        Q, rest = X[np.array(bits, dtype=bool)], X[~np.array(bits, dtype=bool)]
        if len(Q) == 0:
            continue
        limit = l1[Q].sum() + class_graph[np.ix_(Q, rest)].sum() - class_graph[np.ix_(Q, np.flatnonzero(A))].sum()
        if abs(v[Q].sum()) > limit + 1e-10:
            return False
    return True
