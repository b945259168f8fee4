"""A short name for the numbers of a source, to tell whether two runs are about the same data."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from jointglasso._threads import map_on_threads
from jointglasso.covariance.source import CovarianceSource

#: Entries looked at where a source cannot give all its numbers at once.
_SAMPLED = 100_000


def fingerprint(source: CovarianceSource) -> str:
    """Digest of the names and numbers of a source.

    A source with a method ``content()``, giving the arrays of each class that define it, is read in full. Of any other,
    the diagonals and a fixed random sample of entries are read.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name in (*source.class_names, *source.variable_names):
        digest.update(name.encode("utf-8") + b"\0")
    read = getattr(source, "content", None)
    by_class = map_on_threads(
        (lambda k: _digest(read(k))) if read is not None else (lambda k: _digest(_sampled(source, k))),
        range(source.n_classes),
    )
    for part in by_class:
        digest.update(part)
    return digest.hexdigest()


def _digest(arrays: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(str((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def _sampled(source: CovarianceSource, k: int) -> list[Any]:
    draw = np.random.default_rng(0)
    i, j = draw.integers(0, source.n_variables, (2, _SAMPLED))
    return [source.diagonal(k), source.entries(k, i, j)]
