"""Samples in time: windows as classes of a time-varying network, trends, autocorrelation of rows, prewhitening."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from jointglasso._typing import FloatArray, IntArray
from jointglasso._wording import count
from jointglasso.data.checks import InputError, check_choice, check_count, check_nonnegative
from jointglasso.data.ranks import ranks
from jointglasso.data.samples import Samples, read_samples
from jointglasso.errors import argument, warn_caller

#: Minimum number of samples of a window.
FEWEST = 2

#: Minimum number of time stamps, and critical value of n (1 - r), for the warning about trends.
FEWEST_FOR_TRENDS, UNIT_ROOT = 30, 14.0


@dataclass(frozen=True)
class TimeWindows:
    """Windows of samples in temporal order."""

    rows: list[IntArray]
    """Sample indices of each window in the order of time; overlapping windows share samples."""
    first: Any
    last: Any
    """(K,): first and last time stamp of each window, from which its name is made."""
    names: tuple[str, ...]
    sample_fraction: float
    """Weight of a sample in each of its windows, so that the windows together count every sample once."""


def time_windows(time: Any, *, windows: int | None = None, width: Any = None, overlap: float = 0.0) -> TimeWindows:
    """Divide samples into windows by their time stamps.

    Parameters
    ----------
    time : sequence of n numbers, datetimes or ISO 8601 strings
        Time stamp of each sample, in any order.
    windows : int, optional
        Number of windows, each with about as many samples; samples of one time stay together.
    width : number, timedelta or string such as "30D", optional
        Length of the windows in time instead. With neither, every time stamp is a window.
    overlap : float, default 0
        Fraction of a window shared with the next one, below 1.
    """
    fraction = check_nonnegative("overlap", overlap)
    if fraction >= 1:
        raise InputError(
            f"overlap={overlap:g} must be below 1: a window that shares everything with the next is it.", "overlap"
        )
    if windows is not None and width is not None:
        raise InputError("windows counts the windows and width is their length: give one of them.", "windows")
    if windows is None and width is None and fraction > 0:
        raise InputError(
            "overlap needs windows= or width=: without them every time stamp is a window of its own.", "overlap"
        )
    stamps = read_times(time)
    order = np.argsort(stamps, kind="stable")
    times, repeats = np.unique(stamps, return_counts=True)
    if windows is not None:
        first, stop = _by_count(repeats, check_count("windows", windows), fraction)
    elif width is not None:
        first, stop = _by_width(times, width, fraction)
    else:
        first, stop = np.arange(len(times)), np.arange(1, len(times) + 1)
    ends = np.concatenate([[0], np.cumsum(repeats)])
    rows: list[IntArray] = [order[ends[a] : ends[b]] for a, b in zip(first, stop, strict=True)]
    names = _window_names(times[first], times[stop - 1])
    for name, members in zip(names, rows, strict=True):
        if len(members) < FEWEST:
            raise InputError(
                f"The window {name!r} has {count(len(members), 'sample')}, and a covariance needs "
                f"{FEWEST}: take fewer or wider windows.",
                "windows",
                class_name=name,
            )
    counted = sum(map(len, rows)) / len(stamps)
    return TimeWindows(rows, times[first], times[stop - 1], names, 1.0 / max(1.0, counted))


def warn_of_trends(X: Any, time: Any) -> None:
    """Warn where most variables look like levels, such as prices: the correlations are then those of their trends.

    A variable counts if a unit root is not rejected: ``n (1 - r) < 14`` with its lag-1 autocorrelation r over time
    (the 5 % point of Dickey and Fuller's test with a mean).
    """
    stamps = read_times(time)
    if len(stamps) < FEWEST_FOR_TRENDS or len(np.unique(stamps)) < len(stamps):
        return
    Z = np.asarray(X, dtype=np.float64)[np.argsort(stamps)]
    Z = np.nan_to_num(Z - np.nanmean(Z, axis=0))
    power = np.einsum("ij,ij->j", Z, Z)
    r = np.einsum("ij,ij->j", Z[1:], Z[:-1]) / np.where(power > 0, power, 1.0)
    trending = len(Z) * (1.0 - r) < UNIT_ROOT
    if 2 * trending.sum() > len(r):
        warn_caller(
            f"{int(trending.sum()):,} of {count(len(r), 'variable')} have trends (lag-1 autocorrelation "
            f"{np.median(r[trending]):.3f} in the median), as prices and other levels have: edges then show common "
            "trends. Estimate the network of their changes, such as log returns, or remove the trends.",
        )


def read_times(time: Any) -> Any:
    """Time stamps as an array of floats or of datetimes."""
    values = np.asarray(time)
    if values.ndim != 1 or not len(values):
        raise InputError(f"The time stamps have shape {values.shape}: give one for each sample.", "time")
    if values.dtype.kind not in "iufM":
        try:
            values = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            import pandas as pd

            try:
                values = pd.to_datetime(pd.Series(list(time)), format="ISO8601").to_numpy()
            except (TypeError, ValueError):
                raise InputError(
                    "The time stamps are neither numbers nor dates: write dates as 2003-01-31 or 2003-01-31T12:00.",
                    "time",
                ) from None
    stamps = values if values.dtype.kind == "M" else values.astype(np.float64)
    bad = np.flatnonzero(np.isnat(stamps) if stamps.dtype.kind == "M" else ~np.isfinite(stamps))
    if len(bad):
        raise InputError(
            f"The time stamp of sample {bad[0]} is missing ({len(bad)} such): give it or drop the sample.", "time"
        )
    return stamps


def _by_count(count: IntArray, n: int, overlap: float) -> tuple[IntArray, IntArray]:
    """Index ranges [first, stop) of time stamps of n windows with about equally many samples."""
    if n > len(count):
        raise InputError(
            f"windows={n} is more than the {len(count)} different time stamps: take fewer windows.", "windows"
        )
    total = float(count.sum())
    length = total / (1.0 + (n - 1) * (1.0 - overlap))
    edges = np.concatenate([[0], np.cumsum(count)])
    start = np.arange(n) * length * (1.0 - overlap)
    first = np.abs(edges[:-1, None] - start).argmin(axis=0)
    stop = np.abs(edges[1:, None] - (start + length)).argmin(axis=0) + 1
    return first, np.maximum(stop, first + 1)


def _by_width(times: Any, width: Any, overlap: float) -> tuple[IntArray, IntArray]:
    """Index ranges [first, stop) of time stamps of windows of equal duration; empty windows are dropped."""
    import pandas as pd

    if times.dtype.kind == "M":
        try:
            length = pd.Timedelta(width).to_numpy()
        except ValueError:
            raise InputError(
                f"width={width!r} is no length of time: give a timedelta or a word such as '30D'.", "width"
            ) from None
    else:
        length = check_nonnegative("width", width)
    step = length * (1.0 - overlap)
    if not length > 0 * length:
        raise InputError(f"width={width!r} must be more than 0.", "width")
    beyond = (times[-1] - times[0] - length) / step
    start = times[0] + np.arange(1 + max(0, int(np.ceil(beyond - 1e-9)))) * step
    first, stop = np.searchsorted(times, start), np.searchsorted(times, start + length)
    stop[-1] = len(times)  # the last window holds its own end
    nonempty = stop > first
    return first[nonempty], stop[nonempty]


def _window_names(first: Any, last: Any) -> tuple[str, ...]:
    if first.dtype.kind == "M":
        days = (first == first.astype("M8[D]")).all() and (last == last.astype("M8[D]")).all()
        stamps = [part.astype("M8[D]" if days else "M8[s]") for part in (first, last)]
        one, two = (np.datetime_as_string(part).tolist() for part in stamps)
    else:
        digits = next((d for d in (6, 9, 12) if len({f"{x:.{d}g}" for x in first}) == len(set(first.tolist()))), 17)
        one, two = ([f"{x:.{digits}g}" for x in part] for part in (first, last))
    names = [a if a == b else f"{a} – {b}" for a, b in zip(one, two, strict=True)]
    if len(set(names)) < len(names):
        raise InputError(
            f"Two windows have the same samples, from {one[0]} to {two[0]} on: take fewer windows or less overlap.",
            "windows",
        )
    return tuple(names)


#: Rows and variables of a class that the statistic uses: it is certain with fewer.
MAX_ROWS, MAX_VARIABLES = 5000, 200

#: Level of the test over all classes, and the smallest autocorrelation r that is reported: with 0.2 the variance of a
#: correlation is ``(1 + r^2) / (1 - r^2) = 1.08`` times that of independent samples.
LEVEL, SMALLEST = 1e-4, 0.2

#: Limits of a block of consecutive samples, and the number of blocks that a class should have at least.
MIN_BLOCK, MAX_BLOCK, MIN_BLOCKS = 10, 40, 10


class DependentSamplesWarning(UserWarning):
    """Warns that consecutive samples are more alike than samples in random order would be."""


def warn_if_dependent(samples: Samples) -> None:
    """Warn where the samples of a class have autocorrelation in the order of their rows."""
    results = [lag_one(X) for X in samples.matrices]
    limit = -ndtri(LEVEL / samples.n_classes)
    dependent = [k for k, (r, deviate) in enumerate(results) if deviate > limit and r > SMALLEST]
    if not dependent:
        return
    k = max(dependent, key=lambda k: results[k][0])
    r, deviate = results[k]
    length = block_length(r, int(samples.sizes[k]))
    warn_caller(
        f"Consecutive samples of class {samples.class_names[k]!r} are alike: their mean lag-1 autocorrelation is "
        f"{r:.2f}, {deviate:.0f} standard errors above that of samples in random order ({len(dependent)} of "
        f"{samples.n_classes} classes). Criteria, intervals and tests take samples as independent and find too many "
        f"edges and differences. `infer` accounts for blocks of about {length} consecutive samples: "
        f"give their numbers, np.arange(len(X)) // {length}, as {argument('groups')}. `prewhiten` gives "
        "residuals that all functions take.",
        DependentSamplesWarning,
    )


def lag_one(X: FloatArray) -> tuple[float, float]:
    """Mean lag-1 autocorrelation of the ranks of the variables, and its deviation from random order in standard errors.

    With rows z_t of standardised ranks and ``G_st = <z_s, z_t> / p``, the statistic is ``sum_t G_{t,t+1} / n``. In
    random order an off-diagonal entry of G has mean ``-trace(G) / (n (n - 1))``, since the rows of G sum to zero, and
    the sum has about n - 1 times its variance: dependence between variables is accounted for.
    """
    Z = X[:MAX_ROWS, :: max(1, -(-X.shape[1] // MAX_VARIABLES))]
    n = len(Z)
    Z = Z[:, (~np.isnan(Z)).sum(axis=0) > n // 2]
    if n < 2 * MIN_BLOCK or not Z.size:
        return 0.0, 0.0
    Z = ranks(Z)
    Z = Z - np.nanmean(Z, axis=0)
    deviation = np.nanstd(Z, axis=0)
    Z = np.nan_to_num(Z[:, deviation > 0] / deviation[deviation > 0])
    p = max(1, Z.shape[1])
    products = np.einsum("ij,ij->i", Z[:-1], Z[1:]) / p
    squares = np.einsum("ij,ij->i", Z, Z) / p
    mean = -float(squares.sum()) / (n * (n - 1))
    off_diagonal = float(((Z.T @ Z) ** 2).sum()) / p**2 - float((squares**2).sum())
    variance = max(off_diagonal / (n * (n - 1)) - mean**2, 1e-300)
    return float(products.sum() / n), float((products.sum() - (n - 1) * mean) / np.sqrt((n - 1) * variance))


def block_length(autocorrelation: float, n: int) -> int:
    """Number of consecutive samples in a block such that blocks keep nine tenths of the variance of a correlation.

    The products of two variables with autocorrelations ``r^h`` have ``phi^h``, ``phi = r^2``. Blocks of length b lose
    ``2 phi / (b (1 - phi)^2)`` of the long-run variance ``(1 + phi) / (1 - phi)``, a tenth for
    ``b = 20 phi / (1 - phi^2)``.
    """
    phi = min(autocorrelation, 0.99) ** 2
    length = int(np.clip(np.ceil(20.0 * phi / (1.0 - phi**2)), MIN_BLOCK, MAX_BLOCK))
    return max(2, min(length, n // MIN_BLOCKS))


#: Residual degrees of freedom of each regression that a class needs.
_FEWEST = 5


def prewhiten(X: Any, y: Any = None, *, model: str = "ar", order: int = 1) -> dict[str, Any]:
    """Remove the dependence between consecutive samples: residuals of an autoregressive model, by class.

    The rows of a class are in order of time. The networks of the residuals are those of the innovations
    (contemporaneous networks); if all variables have the same autocorrelation these are also the networks of the
    samples themselves.

    Parameters
    ----------
    X, y
        Table with labels, or tables by class, as in `jointglasso.select`; without missing values.
    model : {"ar", "var"}
        "ar" predicts each variable by its own past, "var" by the past of all variables, which takes more samples than
        ``order * p``.
    order : int, default 1
        Number of past samples.

    Returns
    -------
    dict of pandas.DataFrame
        Residuals (n_k - order, p) of each class, for `select`, `infer`, `network_test` and the estimators.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> for t in range(1, 200):
    ...     X[t] += 0.6 * X[t - 1]
    >>> residuals = jgl.prewhiten(X, np.repeat(["a", "b"], 100))
    >>> {name: table.shape for name, table in residuals.items()}
    {'a': (99, 3), 'b': (99, 3)}
    """
    import pandas as pd

    check_choice("model", model, ("ar", "var"))
    check_count("order", order)
    samples = read_samples(X, y)
    if samples.absent is not None or samples.sample_fraction < 1.0:
        raise InputError("prewhiten takes classes with the same variables and without overlap.", "X")
    tables = {}
    for name, matrix in zip(samples.class_names, samples.one_by_one(), strict=True):
        n_regressors = order if model == "ar" else order * samples.n_variables
        if len(matrix) - order - n_regressors - 1 < _FEWEST:
            remedy = 'use model="ar", ' if model == "var" else ""
            raise InputError(
                f"Class {name!r} has {len(matrix)} samples, too few for {n_regressors} regressors: {remedy}lower "
                "order, or leave the class out.",
                "order",
                class_name=name,
            )
        tables[name] = pd.DataFrame(_residuals(matrix, model, order), columns=list(samples.variable_names))
    return tables


def _residuals(X: FloatArray, model: str, order: int) -> FloatArray:
    """Residuals (n - order, p) of the least-squares regression of each sample on the samples before it."""
    n = len(X)
    past = np.stack([X[order - lag : n - lag] for lag in range(1, order + 1)])  # (order, n - order, p)
    past, present = past - past.mean(axis=1, keepdims=True), X[order:] - X[order:].mean(axis=0)
    if model == "var":
        design = past.transpose(1, 0, 2).reshape(n - order, -1)
        return np.asarray(present - design @ np.linalg.lstsq(design, present, rcond=None)[0])
    residual = np.empty_like(present)
    for j in range(X.shape[1]):
        design = past[:, :, j].T
        residual[:, j] = present[:, j] - design @ np.linalg.lstsq(design, present[:, j], rcond=None)[0]
    return residual
