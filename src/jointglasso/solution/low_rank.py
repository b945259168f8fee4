"""The low-rank part of the precision matrices: the effect of latent variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointglasso._display import ReprMixin
from jointglasso._typing import FloatArray


@dataclass(frozen=True, repr=False)
class LowRank(ReprMixin):
    """The part L_k of ``Theta_k = A_k - L_k``, ``Solution.precision`` being the sparse A_k.

    Attributes
    ----------
    mu : float
        Penalty on the traces of L.
    factors : list of K arrays (p, r_k)
        ``L_k = F_k F_k'``: the effect of each latent variable on the measured ones, strongest first, up to sign.
    proved_zero : bool
        Whether the gap certifies that L = 0 in the exact solution.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 8)) + rng.normal(size=(200, 1))  # one latent factor
    >>> S = jgl.SampleCovariance([X], scale="correlation")
    >>> found = jgl.solve(S, 0.2, 0.0, penalize_diagonal=False, latent=0.4)
    >>> found.low_rank.ranks, found.low_rank.factors[0].shape
    ([1], (8, 1))
    """

    mu: float
    factors: list[FloatArray]
    proved_zero: bool = False

    @property
    def ranks(self) -> list[int]:
        """Number of latent variables of each class."""
        return [factor.shape[1] for factor in self.factors]

    @property
    def matrices(self) -> FloatArray:
        """(K, p, p): the matrices L_k."""
        return np.stack([factor @ factor.T for factor in self.factors])

    def _parts(self) -> list[Any]:
        text = self.describe([f"class {k + 1}" for k in range(len(self.factors))])
        strongest = [float((factor[:, 0] ** 2).sum()) if factor.shape[1] else 0.0 for factor in self.factors]
        table = {"class": range(1, len(self.factors) + 1), "latent variables": self.ranks, "strongest": strongest}
        return [f"Latent variables at mu = {self.mu:.4g}: {text}", table]

    def describe(self, class_names: Sequence[str]) -> str:
        """Number of latent variables of each class, as text."""
        if self.proved_zero:
            return "none, proved"
        return ", ".join(f"{name} {rank}" for name, rank in zip(class_names, self.ranks, strict=True))
