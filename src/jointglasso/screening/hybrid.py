"""The paper's Algorithm 1: hybrid covariance thresholding."""

from __future__ import annotations

from jointglasso.screening.pairs import PairTable
from jointglasso.screening.partition import Partition


def hybrid_partition(pairs: PairTable) -> Partition:
    """Finest partition satisfying condition (8) (Theorem 4).

    1. In each class, join i and j where the pair is strong, ``sum_k (|S_k,ij| - lambda1)_+^2 > lambda2^2``, and above,
       ``|S_x,ij| > lambda1``.
    2. Search for a triple (x, i, j): above in class x, not joined there, but joined in some other class s. Merge
       the two blocks of class x that hold i and j.
    3. Repeat step 2 until there is no such triple.

    The merges are forced and the result does not depend on their order, so the kernel may take them as they
    come: it keeps the weak pairs waiting and wakes them when a union brings their ends together, instead of
    searching all K p^2 triples after each merge. `kernels.reference.hybrid_closure` is the same in eight lines.
    """
    from jointglasso.kernels.components import hybrid_closure

    return Partition(hybrid_closure(pairs.n_variables, pairs.rows, pairs.columns, pairs.above, pairs.strong))
