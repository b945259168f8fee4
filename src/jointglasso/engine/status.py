"""How a solve ended, in words."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from jointglasso.engine.runner import Options
from jointglasso.errors import argument
from jointglasso.solution import Certificate, Status


def _remedies() -> dict[str, str]:
    again = argument("warm_start", words="warm_start=this solution")
    go_on = f"Solve again with {again} to go on."
    tol, max_iter = argument("tol"), argument("max_iter")
    return {
        "interrupt": go_on,
        "callback": go_on,
        "max_iter": f"Raise {max_iter}, warm-start from this solution, raise lambda1, or accept the gap by raising "
        f"{tol}.",
        "paper's rule": 'Use stopping="gap" to reach the tolerance.',
        "rounding": f"The limit of double precision is reached: raise {tol}, or rescale badly scaled data.",
        "tolerance": f"The groups met their limits but not their sum: solve again with {again}.",
    }


def status_of(certificate: Certificate, n_iter: int, ended: Collection[str], options: Options) -> Status:
    """The status of a solve, given what ended its pieces of work."""
    reached = f"relative duality gap {certificate.relative_gap:.1e}, tolerance {options.tol:.1e}"
    if certificate.relative_gap <= options.tol:
        return Status(True, f"Converged after {n_iter} iterations: {reached}.", code="converged")
    remedies = _remedies()
    why = options.control.stopped_by or next(reason for reason in remedies if reason in ended)
    computed = 0.0 if np.isinf(certificate.rounding) else certificate.gap - certificate.rounding
    if why == "tolerance" and certificate.relative(computed) <= options.tol:
        why = "rounding"  # the solver was content with a gap that rounding makes worthless
    code = "paper_rule" if why == "paper's rule" else why
    return Status(False, f"Stopped by {why} after {n_iter} iterations: {reached}.", remedies[why], code)
