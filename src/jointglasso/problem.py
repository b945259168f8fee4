"""The joint graphical lasso problem: data, penalty and objective.

From K covariance matrices S_k, weights w_k and penalties lambda1, lambda2 >= 0 (Eq. (1)-(4) of the paper)::

    min over Theta_k > 0 of   sum_k w_k [ -log det Theta_k + tr(S_k Theta_k) ]
                            + lambda1 sum_k |Theta_k|_1
                            + lambda2 * 2 sum_{i<j} R(Theta_1,ij, ..., Theta_K,ij)

with one of these coupling terms R, b_kl >= 0 being the edge weights of a graph on the classes::

    "group"       R(t) = ( sum_k t_k^2 )^(1/2)                edges appear in the same classes
    "maximum"     R(t) = max_k |t_k|                          the same, and entries below the largest one cost nothing
    "common"      R(t) = min_c |c| + sum_k |t_k - c|, see below: a network that all classes share, and one of each class
    "fused"       R(t) = sum_{k<l} |t_k - t_l|                edges are the same in many classes: all b_kl = 1
    "chain"       R(t) = sum_k |t_k - t_{k+1}|                the same, from each class to the next: time points
    "graph"       R(t) = sum_{k<l} b_kl |t_k - t_l|           the same, between neighbours in any graph
    "laplacian"   R(t) = sum_{k<l} b_kl (t_k - t_l)^2         edges differ a little between neighbours

For "common" the penalty of a pair, both terms together, is ``min_c rho |c| + gamma sum_k |t_k - c|`` with ``gamma =
lambda1 + lambda2`` and ``rho = K lambda1 + lambda2`` (Hara and Washio 2013).

With pair weights v_ij >= 0, i != j, the penalty terms of pair ij are multiplied by v_ij; an infinite weight forbids the
pair, which is then zero in all classes. The diagonal is not affected. Weights by class a_k,ij and of the coupling b_ij
replace them by ``lambda1 sum_k a_k,ij |t_k| + lambda2 b_ij R(t)``; an infinite a_k,ij forbids the pair in class k. For
"common" there is one weight for the penalty of a pair.

The paper penalises the diagonal through ``|Theta_k|_1``; with ``penalize_diagonal=False`` the sum runs over i != j
only, the convention of the R package JGL and of GGLasso. With ``fuse_diagonal=True``, JGL's convention for its fused
penalty, ``lambda2 sum_i R(Theta_1,ii, ..., Theta_K,ii)`` is added for "fused", "chain" and "graph".

With latent variables Theta_k = A_k - L_k, L_k positive semidefinite: the penalties act on A_k in place of Theta_k, and
``mu sum_k tr L_k`` is added (`solvers/latent.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import sparse

from jointglasso._cached_property import cached_property
from jointglasso._sparse import logdet
from jointglasso._typing import FloatArray, IntArray
from jointglasso.data import CovarianceSource, as_source
from jointglasso.data.checks import InputError, check_switch, check_weights, require_bounded
from jointglasso.kernels.pair_types import Entries
from jointglasso.penalties import UNIFORM, PairPenalty, PairWeights, as_pair_weights, make_penalty
from jointglasso.penalties.base import Coupling, coupling_weights, l1_weights


@dataclass(frozen=True)
class JointProblem:
    """Covariances, class weights and penalty of one joint graphical lasso problem.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> from jointglasso.problem import make_problem
    >>> problem = make_problem([[[1.0, 0.5], [0.5, 1.0]]], 0.1, 0.1)
    >>> isinstance(problem, jgl.JointProblem), problem.penalty.lambda1
    (True, 0.1)
    """

    source: CovarianceSource
    penalty: PairPenalty
    weights: FloatArray
    penalize_diagonal: bool = True
    pair_weights: PairWeights | None = None
    """Weights of pairs in the penalty; None where all are 1."""

    @property
    def diagonal_penalty(self) -> float:
        """Penalty of each diagonal entry."""
        return self.penalty.lambda1 if self.penalize_diagonal else 0.0

    @cached_property
    def unit(self) -> float:
        """Mean class weight: lower bound on the objective's magnitude in relative duality gaps.

        It makes the stopping rule invariant to a common factor of weights and penalties.
        """
        return float(self.weights.mean())

    @cached_property
    def optimal_variances(self) -> FloatArray:
        """(K, p): diagonals of W_k = Theta_k^{-1} at the optimum, which the optimality conditions fix in advance.

        With a fused diagonal this holds for variables without edges only. It is set to 1, arbitrarily, where a
        variable is missing in the class.
        """
        diagonals = np.stack([self.source.diagonal(k) for k in range(self.source.n_classes)])
        variances: FloatArray = diagonals + (self.diagonal_penalty / self.weights)[:, None]
        if (penalty := self.penalty.fused_diagonal_penalty) is not None:
            variables = np.arange(self.source.n_variables)
            rows = penalty.mask_missing(self.weights * diagonals.T + self.diagonal_penalty, variables, variables)
            linear, entries = penalty.as_entries(rows)
            curvature = np.tile(self.weights, len(variables))
            variances = np.ascontiguousarray(penalty.update(curvature, linear, entries).reshape(rows.shape).T)
        return variances if self.source.absent is None else np.where(self.source.absent, 1.0, variances)

    @cached_property
    def log_variances(self) -> FloatArray:
        """(K, p): logarithms of `optimal_variances`; one plus this is the objective of a variable without edges."""
        return np.log(self.optimal_variances)

    def objective(self, precision: Sequence[Any]) -> float:
        """Value of the objective at K precision matrices, dense or sparse.

        Infinite if one of them is not positive definite or has a forbidden entry.
        """
        total, absent, diagonals = 0.0, self.source.absent, np.zeros((self.source.n_variables, len(precision)))
        off_diagonal = []
        for k, matrix in enumerate(precision):
            Theta = sparse.coo_array(matrix)
            if absent is not None:  # variables missing in the class do not contribute
                measured = np.flatnonzero(~absent[k])
                Theta = sparse.coo_array(sparse.csr_array(Theta)[measured][:, measured])
            try:
                log_determinant = logdet(Theta)
            except np.linalg.LinAlgError:
                return np.inf
            total += self.diagonal_penalty * float(np.abs(Theta.diagonal()).sum())
            diagonals[slice(None) if absent is None else measured, k] = Theta.diagonal()
            if absent is not None:
                Theta = sparse.coo_array((Theta.data, (measured[Theta.row], measured[Theta.col])), shape=matrix.shape)
            trace = float(self.source.entries(k, Theta.row, Theta.col) @ Theta.data)
            total += self.weights[k] * (trace - log_determinant)
            upper = sparse.triu(Theta, 1).tocoo()
            key = upper.row.astype(np.int64) * self.source.n_variables + upper.col
            off_diagonal.append((key, upper.data))
        diagonal_penalty_term = self.penalty.fused_diagonal_penalty
        if diagonal_penalty_term is not None:
            variables = np.arange(len(diagonals))
            values, entries = diagonal_penalty_term.as_entries(
                diagonal_penalty_term.mask_missing(diagonals, variables, variables)
            )
            total += float(diagonal_penalty_term.value(values, entries).sum())
        return total + 2.0 * self._pair_penalty(off_diagonal)

    def _pair_penalty(self, off_diagonal: list[tuple[IntArray, FloatArray]]) -> float:
        """Penalty of the entries i < j of each class, given by pair and value."""
        keys = np.concatenate([key for key, _ in off_diagonal])
        classes = np.repeat(np.arange(len(off_diagonal)), [len(key) for key, _ in off_diagonal])
        values = np.concatenate([value for _, value in off_diagonal])
        order = np.argsort(keys, kind="stable")
        keys, classes, values = keys[order], classes[order], values[order]
        factor = l1 = UNIFORM
        if self.pair_weights is not None:
            weight = self.pair_weights.factors(*np.divmod(keys, self.source.n_variables))
            by_class = np.broadcast_to(l1_weights(weight), (len(keys), len(off_diagonal)))
            by_class = by_class[np.arange(len(keys)), classes]
            if (np.isinf(by_class) & (values != 0)).any():
                return np.inf
            finite = np.isfinite(by_class)
            keys, classes, values, weight = keys[finite], classes[finite], values[finite], weight[finite]
            factor = coupling_weights(weight)[np.flatnonzero(np.diff(keys, prepend=-1))]
            l1 = by_class[finite] if weight.ndim == 2 else UNIFORM
        start = np.flatnonzero(np.diff(keys, prepend=-1, append=-1))
        cls = self.penalty.labels(classes, *np.divmod(keys, self.source.n_variables))
        entries = Entries(start, cls, factor, self.source.n_classes, l1)
        return float(self.penalty.value(values, entries).sum()) if len(keys) else 0.0


@dataclass(frozen=True)
class ProblemOptions:
    """Options of `jointglasso.solve` that, with the covariances, lambda1 and lambda2, define the problem."""

    penalty: str = "group"
    class_graph: Any = None
    weights: Any = None
    penalize_diagonal: bool = True
    fuse_diagonal: bool = False
    pair_weights: Any = None
    coupling_weights: Any = None

    def penalty_of(self, source: CovarianceSource, lambda1: Any, lambda2: Any) -> PairPenalty:
        """The penalty of the classes of a source."""
        named = source.class_names, source.sample_sizes, source.absent
        fused = check_switch("fuse_diagonal", self.fuse_diagonal)
        return make_penalty(self.penalty, lambda1, lambda2, self.class_graph, *named, fuse_diagonal=fused)

    def weights_of(self, source: CovarianceSource) -> FloatArray:
        """(K,): weights of the classes of a source."""
        return check_weights(self.weights, source.class_names, source.sample_sizes)

    def weights_of_pairs(self, source: CovarianceSource) -> PairWeights | None:
        """`pair_weights` and `coupling_weights`, read and checked; None where all are 1."""
        names = source.variable_names, source.class_names
        factors = as_pair_weights(self.pair_weights, *names, self.coupling_weights)
        if factors is not None and factors.by_class and self.penalty == "common":
            raise InputError(
                'penalty="common" prices a value and its deviations together: it takes one weight for a pair, no '
                "weights by class or of the coupling.", "pair_weights",
            )  # fmt: skip
        return factors

    def problem(self, S: Any, lambda1: Any, lambda2: Any) -> JointProblem:
        """Validate all arguments and build the problem."""
        source = as_source(S)
        penalty, w = self.penalty_of(source, lambda1, lambda2), self.weights_of(source)
        factors = self.weights_of_pairs(source)
        problem = JointProblem(source, penalty, w, check_switch("penalize_diagonal", self.penalize_diagonal), factors)
        if problem.diagonal_penalty > 0.0:
            return problem
        variances = np.stack([source.diagonal(k) for k in range(source.n_classes)])
        if penalty.fused_diagonal_penalty is not None and source.absent is None:
            # A variance of zero in one class is bounded by those of the classes that its diagonal is compared with.
            variances = cast(Coupling, penalty.coupling).parts @ variances
        for name, diagonal in zip(source.class_names, variances, strict=True):
            require_bounded(diagonal, problem.diagonal_penalty, name, source.variable_names)
        return problem


def make_problem(S: Any, lambda1: Any, lambda2: Any, **options: Any) -> JointProblem:
    """Problem of the covariances, penalties and fields of `ProblemOptions`."""
    return ProblemOptions(**options).problem(S, lambda1, lambda2)
