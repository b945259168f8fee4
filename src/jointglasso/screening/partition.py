"""K partitions of the variables, one per class, their refinement order, and the paper's conditions (7) and (8).

The conditions are evaluated for every pair, in tiles. That code follows the formulas and shares with the screening
rules only the test of a single pair, so that it is an independent check of the partitions that they build.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from jointglasso._cached_property import cached_property
from jointglasso._display import ReprMixin
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.data import as_source
from jointglasso.data.checks import InputError, check_nonnegative, check_weights
from jointglasso.penalties import GroupPenalty, PairWeights, as_pair_weights
from jointglasso.penalties.base import coupling_weights, l1_weights, times

if TYPE_CHECKING:
    from jointglasso.penalties.base import Coupling
    from jointglasso.screening.groups import ClassBlocks, Group


_SIDE = 256

#: Share of lambda2, (m, K) or a number, that a pair screened out in a class may use besides lambda1, for the rows and
#: columns of a tile.
Limits = Callable[[slice, slice], Any]


def _every_tile(
    labels: IntArray, S: Any, penalty: GroupPenalty, limits: Limits, weights: Any, pair_weights: Any
) -> bool:
    """Whether pairs screened out everywhere lie in the dual ball, and others within the limits of their classes."""
    source, (n_classes, p) = as_source(S), labels.shape
    if (source.n_classes, source.n_variables) != (n_classes, p):
        raise InputError(
            f"The partition is of {n_classes} classes and {p} variables, "
            f"S of {source.n_classes} and {source.n_variables}.",
            "partition",
        )
    w = check_weights(weights, source.class_names, source.sample_sizes)
    factors = as_pair_weights(pair_weights, source.variable_names, source.class_names)
    for top_edge in range(0, p, _SIDE):
        for left_edge in range(top_edge, p, _SIDE):
            rows, columns = slice(top_edge, min(top_edge + _SIDE, p)), slice(left_edge, min(left_edge + _SIDE, p))
            i, j = np.mgrid[rows, columns]
            # Entry by entry, because a source may round its tiles; the rules too decide by entries.
            i, j = i.ravel(), j.ravel()
            weighted = w * np.stack([source.entries(k, i, j) for k in range(n_classes)], axis=1)
            joined = (labels[:, i] == labels[:, j]).T
            weighted[i == j] = 0.0
            factor = _tile_factors(factors, i, j, weighted)
            in_some = np.asarray(joined.any(axis=1))
            outside_ball = penalty.violates_global_condition(weighted[~in_some], factor[~in_some])
            coupling = penalty.lambda2 * coupling_weights(factor)[:, None] * limits(rows, columns)
            limit = times(penalty.lambda1, l1_weights(factor)) + coupling
            if outside_ball.any() or (np.abs(weighted) > limit)[~joined & in_some[:, None]].any():
                return False
    return True


def _penalty(lambda1: float, lambda2: float) -> GroupPenalty:
    return GroupPenalty(check_nonnegative("lambda1", lambda1), check_nonnegative("lambda2", lambda2))


def _tile_factors(factors: PairWeights | None, i: IntArray, j: IntArray, weighted: FloatArray) -> FloatArray:
    """Pair weights of a tile; forbidden pairs always satisfy the conditions: their covariances are set to zero."""
    if factors is None:
        return np.ones(len(i))
    factor = factors.factors(np.minimum(i, j), np.maximum(i, j))
    forbidden = np.isinf(coupling_weights(factor))
    weighted[forbidden] = 0.0
    factor[forbidden] = 1.0
    return factor


def class_components(n_variables: int, rows: IntArray, columns: IntArray, in_class: BoolArray) -> IntArray:
    """Label (K, p) the components of each class; pair e is an edge of class k where ``in_class[e, k]``."""
    from jointglasso.kernels.components import components

    n_classes = in_class.shape[1]
    edge, k = np.nonzero(in_class)
    nodes = components(n_classes * n_variables, rows[edge] + k * n_variables, columns[edge] + k * n_variables)[0]
    labels = nodes.reshape(n_classes, n_variables)
    return labels - labels[:, :1]


class Partition(ReprMixin):
    """K partitions of the same p variables, one per class.

    Parameters
    ----------
    labels : int array (K, p)
        Block of each variable in each class; any numbering, stored as 0, 1, ... by smallest member.
    coupled : Coupling, optional
        Pairs of classes that the penalty couples; all of them by default.
    absent : bool array (K, p), optional
        Variables missing from a class; each of them is a singleton.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]]
    >>> jgl.screen(S, 0.1, 0.1).largest
    2
    """

    def __init__(self, labels: Any, coupled: Coupling | None = None, absent: BoolArray | None = None) -> None:
        array = np.asarray(labels)
        if array.ndim != 2 or 0 in array.shape or not np.issubdtype(array.dtype, np.integer):
            raise InputError(
                f"labels must be an integer array (K, p), not {array.dtype} of shape {array.shape}.", "labels"
            )
        canonical = _is_canonical(array)
        self.labels: IntArray = array.astype(np.int64) if canonical else np.stack([_canonical(row) for row in array])
        self.labels.setflags(write=False)
        self.coupled, self.absent = coupled, absent
        #: Names of the classes, for printing.
        self.class_names = tuple(str(k + 1) for k in range(len(array)))

    def named(self, class_names: Sequence[str]) -> Partition:
        """Set the names of the classes, and return the partition."""
        self.class_names = tuple(class_names)
        return self

    @classmethod
    def single_block(cls, n_classes: int, n_variables: int) -> Partition:
        """One block of all variables in every class: no screening."""
        return cls(np.zeros((n_classes, n_variables), dtype=np.int64))

    def with_isolated(self, absent: BoolArray | None) -> Partition:
        """The partition with the missing variables `absent` (K, p) as singletons."""
        if absent is None or not absent.any():
            return self
        singleton = self.n_variables + np.arange(self.n_variables)
        labels = np.where(absent, singleton, self.labels)
        return Partition(labels, self.coupled, absent).named(self.class_names)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.labels.shape[0])

    @property
    def n_variables(self) -> int:
        """Number of variables p."""
        return int(self.labels.shape[1])

    @cached_property
    def _sizes(self) -> list[IntArray]:
        return [np.bincount(row) for row in self.labels]

    def block_sizes(self, k: int) -> IntArray:
        """Sizes of the blocks of class `k`, in the order of their labels."""
        return self._sizes[k]

    @property
    def largest(self) -> int:
        """Size of the largest block over all classes."""
        return int(max(sizes.max() for sizes in self._sizes))

    @property
    def n_blocks(self) -> int:
        """Number of blocks, summed over the classes."""
        return int(sum(len(sizes) for sizes in self._sizes))

    @property
    def cost(self) -> int:
        """The paper's measure of work: sum over classes and blocks of size**3."""
        return sum(int((sizes.astype(object) ** 3).sum()) for sizes in self._sizes)

    def refines(self, other: Partition) -> bool:
        """Whether every block of this partition lies within one block of `other`, in every class."""
        self._require_same_shape(other)
        for fine, coarse in zip(self.labels, other.labels, strict=True):
            image = np.full(fine.max() + 1, -1)
            image[fine] = coarse
            if not np.array_equal(image[fine], coarse):
                return False
        return True

    def join(self) -> Partition:
        """Finest partition of the variables that the partition of every class refines, used for all classes."""
        from jointglasso.kernels.components import components

        variables = np.arange(self.n_variables)
        links = []
        for row in self.labels:
            first_member = np.unique(row, return_index=True)[1]
            links.append(first_member[row])
        united = components(self.n_variables, np.tile(variables, self.n_classes), np.concatenate(links))[0]
        return Partition(np.tile(united, (self.n_classes, 1))).named(self.class_names)

    def satisfies_sufficient(
        self, S: Any, lambda1: float, lambda2: float, *, weights: Any = None, pair_weights: Any = None
    ) -> bool:
        """Whether condition (8) holds for every pair: the solution is block-diagonal by this partition (Theorem 3)."""
        penalty = _penalty(lambda1, lambda2)
        return _every_tile(self.labels, S, penalty, lambda rows, columns: 0.0, weights, pair_weights)

    def satisfies_necessary(
        self,
        S: Any,
        lambda1: float,
        lambda2: float,
        precision: Any,
        *,
        weights: Any = None,
        pair_weights: Any = None,
    ) -> bool:
        """Whether condition (7) holds for every pair, given the solution's precision matrices (Theorem 2)."""
        penalty = _penalty(lambda1, lambda2)
        matrices = [sparse.csr_array(Theta) for Theta in precision]

        def limits(rows: slice, columns: slice) -> FloatArray:
            nonzero = np.stack([Theta[rows, columns].toarray().ravel() != 0 for Theta in matrices], axis=1)
            return np.asarray((nonzero.sum(axis=1, keepdims=True) - nonzero) == 0, dtype=np.float64)

        return _every_tile(self.labels, S, penalty, limits, weights, pair_weights)

    @cached_property
    def class_blocks(self) -> ClassBlocks:
        """The blocks of two or more variables as flat arrays, with the independent group of each.

        If the diagonals of the classes are coupled, singletons are blocks as well.
        """
        return self.blocks_from(2)

    def blocks_from(self, smallest: int) -> ClassBlocks:
        """Blocks of at least `smallest` variables."""
        from jointglasso.screening.groups import class_blocks

        return class_blocks(self.labels, smallest=smallest, coupled=self.coupled, absent=self.absent)

    def groups(self) -> list[Group]:
        """Independent groups of class blocks, largest first.

        Blocks of different classes are coupled only if they share a pair of variables, because the penalty acts on
        pairs; groups are solved independently. Singletons belong to no group: their precision has a closed form.
        """
        return self.class_blocks.groups()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and np.array_equal(self.labels, other.labels)

    __hash__ = None  # type: ignore[assignment]

    def _parts(self) -> list[Any]:
        sizes = self._sizes
        table = {
            "class": self.class_names,
            "blocks": [len(blocks) for blocks in sizes],
            "largest": [int(blocks.max()) for blocks in sizes],
            "isolated variables": [int((blocks == 1).sum()) for blocks in sizes],
        }
        return [f"Blocks of {self.n_variables:,} variables; cost (sum of their cubes) {self.cost:.3g}", table]

    def __repr__(self) -> str:
        return (
            f"Partition(n_classes={self.n_classes}, n_variables={self.n_variables}, n_blocks={self.n_blocks}, "
            f"largest={self.largest}, cost={self.cost:.3g})"
        )

    def _require_same_shape(self, other: Partition) -> None:
        if self.labels.shape != other.labels.shape:
            raise InputError(
                f"The partitions have shapes {self.labels.shape} and {other.labels.shape}: compare equal ones.", "other"
            )


def _is_canonical(labels: IntArray) -> bool:
    """Whether the blocks of every class (K, p) are numbered 0, 1, ... in the order of their smallest member."""
    next_label = 1 + np.maximum.accumulate(labels, axis=1)[:, :-1]
    return not labels[:, 0].any() and bool(((labels[:, 1:] >= 0) & (labels[:, 1:] <= next_label)).all())


def _canonical(labels: IntArray) -> IntArray:
    """Renumber blocks 0, 1, ... in the order of their smallest member."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]
