"""`fit --prove`: solve on until every edge is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jointglasso.cli.data import Data
from jointglasso.cli.session import Session
from jointglasso.cli.solving import arguments_of_solve, progress_of_solve

if TYPE_CHECKING:
    from jointglasso import Solution

#: Below this relative gap rounding decides.
SMALLEST_TOL = 1e-13


def prove(session: Session, data: Data, solution: Solution, options: dict[str, Any]) -> Solution:
    """Solve again from the solution, to ever smaller gaps, while that decides more edges."""
    import jointglasso as jgl

    arguments = arguments_of_solve(options, data)
    tol = arguments.pop("tol")
    penalties = solution.parameters["lambda1"], solution.parameters["lambda2"]
    while solution.certificate.edges_undetermined and tol > SMALLEST_TOL:
        tol = max(0.01 * tol, SMALLEST_TOL)
        with progress_of_solve(session) as progress:
            closer = jgl.solve(
                data.source, *penalties, tol=tol, warm_start=solution, n_jobs=options["n_jobs"], callback=progress,
                **arguments,
            )  # fmt: skip
        if not closer.status.converged:
            break
        solution = closer
    left = solution.certificate.edges_undetermined
    if left:
        session.note(
            f"--prove: {left:,} places stay undecided at a relative gap of {solution.certificate.relative_gap:.0e}."
        )
    return solution
