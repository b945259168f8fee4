"""The refit: estimates on the support of a solution, between the penalised values and the maximum likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jointglasso._display import ReprMixin
from jointglasso._typing import FloatArray
from jointglasso._wording import count, listed


class RefitWarning(UserWarning):
    """The likelihood has no maximum on the support of some components; a ridge was added there.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> issubclass(jgl.RefitWarning, UserWarning)
    True
    """


@dataclass(frozen=True)
class RefitFailure:
    """A component of a class whose likelihood has no maximum, or whose refit did not converge."""

    class_name: str
    variables: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return (
            f"The refit of class {self.class_name!r} failed on a component of {count(len(self.variables), 'variable')} "
            f"({listed(self.variables, 5)}): {self.reason}"
        )


@dataclass(frozen=True, repr=False)
class Refit(ReprMixin):
    """Maximum likelihood on a given support for ``phi_k S_k + (1 - phi_k) W_k``, see `relaxation`.

    Attributes
    ----------
    precision : list of K scipy.sparse.csc_array
        Estimates; zero outside the support.
    residual : array (K,)
        Largest ``|W_ij - S_ij|`` on the support, on the scale of correlations, over the components that did not fail.
    failures : tuple of RefitFailure
        Components whose likelihood has no maximum; empty if every component was refitted.
    ridge : float
        Fraction of each variance added to the diagonal in the components listed in `failures`, so that a maximum
        exists; 0 if the values of the solution were kept there.
    relaxation : tuple of K floats
        phi_k: the fit is to ``phi_k S_k + (1 - phi_k) W_k`` with W_k the inverse of the penalised matrix; 1 is the
        maximum likelihood for S_k.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> S = [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 0.4], [0.4, 1.0]]]
    >>> found = jgl.refit(S, jgl.solve(S, 0.1, 0.1))
    >>> found.failures, bool(found.residual.max() < 1e-8)
    ((), True)
    """

    precision: list[Any]
    residual: FloatArray
    failures: tuple[RefitFailure, ...]
    ridge: float = 0.0
    relaxation: tuple[float, ...] = ()

    def _parts(self) -> list[Any]:
        edges = [(Theta.count_nonzero() - Theta.shape[0]) // 2 for Theta in self.precision]
        table = {"class": range(1, len(edges) + 1), "edges": edges, "residual": self.residual}
        return [self.describe(), table, *map(str, self.failures[:5])]

    def describe(self) -> str:
        """Description of the values, as text."""
        text = "Values are those of the maximum likelihood on the edges found, without the shrinkage of the penalties."
        if self.relaxation and min(self.relaxation) < 1.0:
            phi = "/".join(dict.fromkeys(f"{value:.2f}" for value in self.relaxation))
            text = (
                f"Values are between the penalised estimate (0) and the maximum likelihood on its edges (1), at {phi}."
            )
        if not self.failures:
            return text
        remedy = f"a ridge of {self.ridge:g} of each variance was added" if self.ridge else "given values were kept"
        sizes: dict[str, int] = {}
        for failure in self.failures:
            sizes[failure.class_name] = sizes.get(failure.class_name, 0) + len(failure.variables)
        where = ", ".join(f"{name} ({size} variables)" for name, size in sizes.items())
        return f"{text} The likelihood has no maximum in parts of {where}: there {remedy}."
