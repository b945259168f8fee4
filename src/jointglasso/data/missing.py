"""Missing values: refused, dropped with their samples (complete cases), or handled by pairwise deletion.

Pairwise correlation matrices can be indefinite; they are projected to positive semidefinite ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jointglasso._typing import FloatArray, IntArray
from jointglasso._wording import count
from jointglasso.data.checks import InputError
from jointglasso.data.samples import Samples
from jointglasso.errors import argument

MISSING = ("refuse", "complete", "pairwise", "em")


def handle_missing(samples: Samples, missing: str, *, smallest: int = 2, offered: Sequence[str] = MISSING) -> Samples:
    """Refuse missing values, drop incomplete samples, or leave NaN in place for pairwise covariances.

    Infinite values are always refused, and so is a class left with fewer than `smallest` complete samples. `offered`
    lists the alternatives that the error message may propose.
    """
    infinite = [np.argwhere(np.isinf(X)) for X in samples.matrices]
    for k, places in enumerate(infinite):
        if len(places):
            raise InputError(
                f"X holds {count(sum(map(len, infinite)), 'infinite value')} (inf), the first in variable "
                f"{samples.variable_names[places[0][1]]!r} of class {samples.class_names[k]!r}: correct them, or make "
                "them missing (NaN).",
                class_name=samples.class_names[k],
                variable=samples.variable_names[places[0][1]],
            )
    if not any(np.isnan(X).any() for X in samples.matrices):
        return samples
    if missing == "refuse":
        raise _refused(samples, offered)
    return _complete_cases(samples, smallest) if missing == "complete" else samples


def _refused(samples: Samples, offered: Sequence[str]) -> InputError:
    by_variable = np.sum([np.isnan(X).sum(axis=0) for X in samples.matrices], axis=0)
    affected = np.flatnonzero(by_variable)
    worst = affected[np.argsort(-by_variable[affected], kind="stable")][:5]
    named = ", ".join(f"{samples.variable_names[i]!r}: {by_variable[i]}" for i in worst)
    more = f" and {len(affected) - len(worst)} more" if len(affected) > len(worst) else ""
    n_full = [int((~np.isnan(X).any(axis=1)).sum()) for X in samples.matrices]
    total = int(samples.sizes.sum())
    return InputError(
        f"X holds {count(int(by_variable.sum()), 'missing value')} (NaN) in {total - sum(n_full)} of {total} samples "
        f"and {len(affected)} of {samples.n_variables} variables ({named}{more}): fill them in, drop those "
        f"variables, or {_ways(samples, n_full, offered)}.",
        variable=samples.variable_names[worst[0]],
        parameter="missing",
    )


def _ways(samples: Samples, n_full: list[int], offered: Sequence[str]) -> str:
    """Sentence with the options in `offered` that are feasible for these data."""
    pairwise, em = argument("missing", "pairwise"), argument("missing", "em")
    present = np.array([(~np.isnan(X)).sum(axis=0) for X in samples.matrices])
    k, lacking = min(
        ((k, np.flatnonzero(row < 2)) for k, row in enumerate(present)), key=lambda candidate: -len(candidate[1])
    )
    if len(lacking):
        all_or_none = ((present == 0) | (present == samples.sizes[:, None])).all()
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        lacks = f"{samples.variable_names[lacking[0]]!r}{more} in class {samples.class_names[k]!r}"
        union = f", or, if it did not measure them, set {argument('variables', 'union')}"
        rest = "" if all_or_none else f", and {pairwise} or {em} for the rest"
        return f"leave those out that a class lacks ({lacks})" + (union + rest) * ("pairwise" in offered)
    ways = {
        "pairwise": f"{pairwise} (each pair of variables takes the samples that have both)",
        "complete": f"{argument('missing', 'complete')} (keeps the {sum(n_full)} complete samples)",
        "em": f"{em} (estimates covariances by expectation and maximisation)",
    }
    usable = [
        phrase for option, phrase in ways.items() if option in offered and (option != "complete" or min(n_full) >= 2)
    ]
    if not usable:
        return "add samples"
    *others, last = usable
    return f"set {', '.join(others)} or {last}" if others else f"set {last}"


def _complete_cases(samples: Samples, smallest: int) -> Samples:
    keep = [np.flatnonzero(~np.isnan(X).any(axis=1)) for X in samples.matrices]
    for name, rows, size in zip(samples.class_names, keep, samples.sizes, strict=True):
        if len(rows) < smallest:
            raise InputError(
                f"Class {name!r} has {count(len(rows), 'complete sample')} of {size}, and a covariance needs at least "
                f"2: drop the variables with many missing values, or set {argument('missing', 'pairwise')}.",
                class_name=name,
                parameter="missing",
            )
    return samples.take(keep)


def pairwise_products(Z: FloatArray) -> tuple[FloatArray, IntArray]:
    """(p, p): mean of ``z_i z_j`` over the rows where both are observed, and (p, p): the number of those rows."""
    filled, counts = np.where(np.isnan(Z), 0.0, Z), pair_counts(Z)
    return (filled.T @ filled) / np.maximum(counts, 1.0), counts.astype(np.int64)


def pair_counts(X: FloatArray) -> FloatArray:
    """(p, p): number of samples with both values of each pair."""
    present = (~np.isnan(X)).astype(float)
    counts: FloatArray = present.T @ present
    return counts


def pairwise_correlation(Z: FloatArray, class_name: str, variable_names: tuple[str, ...]) -> FloatArray:
    """Pairwise-complete correlations (p, p).

    Each variable is centred (by the caller) and scaled over all samples in which it is present; each covariance is
    the mean over the samples in which both are. The result has unit diagonal but may have negative eigenvalues;
    entries beyond 1 in absolute value are clipped.
    """
    S, counts = pairwise_products(Z)
    never = np.argwhere(counts == 0)
    if len(never):
        i, j = never[0]
        raise InputError(
            f"Variables {variable_names[i]!r} and {variable_names[j]!r} are never present together in class "
            f"{class_name!r} ({len(never) // 2} such pairs): drop one of them, or add samples that have both.",
            class_name=class_name,
            variable=variable_names[i],
        )
    deviation = np.sqrt(np.diagonal(S))
    deviation = np.where(deviation > 0, deviation, 1.0)
    R = np.clip(S / np.outer(deviation, deviation), -1.0, 1.0)
    np.fill_diagonal(R, 1.0)
    return R


def effective_sizes(samples: Samples) -> IntArray:
    """Effective sample size (K,): the harmonic mean over all pairs of the number of samples with both values.

    With the total number of samples instead, tests reject true hypotheses four times too often.
    """
    sizes = []
    for X in samples.matrices:
        counts = pair_counts(X)[np.triu_indices(X.shape[1], 1)]
        sizes.append(len(X) if not len(counts) else max(2, int(len(counts) / (1.0 / np.maximum(counts, 1.0)).sum())))
    return samples.reduced_sizes(np.array(sizes, dtype=np.int64))


#: Smallest eigenvalue after projection: above rounding, far below the sampling error of a correlation.
FLOOR = 1e-6


def semidefinite_correlation(R: FloatArray) -> tuple[FloatArray, float]:
    """Positive semidefinite correlation matrix close to `R`, and the largest change of an entry.

    `R` itself if it is positive semidefinite. Otherwise its eigenvalues are raised to at least `FLOOR` and the result
    is rescaled to unit diagonal: within a constant factor of the nearest correlation matrix, at the cost of one
    eigendecomposition.
    """
    try:
        np.linalg.cholesky(R + FLOOR * np.eye(len(R)))
        return R, 0.0
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(R)
    raised = (vectors * np.maximum(values, FLOOR)) @ vectors.T
    deviation = np.sqrt(np.diagonal(raised))
    projected = raised / np.outer(deviation, deviation)
    projected = (projected + projected.T) / 2.0
    np.fill_diagonal(projected, 1.0)
    return projected, float(np.abs(projected - R).max())
