"""Factors and inverses of the matrices of big groups on a CUDA device, in double precision."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from jointglasso._optional import require
from jointglasso.backends import DeviceFailed


class DeviceMatrices:
    """Matrix work by the functions that NumPy, which stands in for a device in tests, and CuPy share.

    A device that fails or has too little memory is left with a warning: it no longer works, and the caller does.
    """

    def __init__(
        self, xp: Any, solve_triangular: Any, errors: tuple[type[Exception], ...] = (), checked: Any = nullcontext
    ) -> None:
        self.xp, self.solve_triangular, self.checked, self.works = xp, solve_triangular, checked, True
        self.errors: tuple[type[Exception], ...] = (DeviceFailed, *errors)

    @contextmanager
    def or_here(self) -> Iterator[None]:
        """A block that returns what the device finds; what follows it is reached only if the device failed."""
        try:
            yield
        except self.errors as error:
            self.works = False
            why = error if isinstance(error, DeviceFailed) else "the device has too little memory for the group"
            warnings.warn(f"A group is solved on the processor: {why}.", RuntimeWarning, stacklevel=2)

    def log_determinant(self, upper: Any, bound: float) -> float:
        """Of a matrix given by its upper triangle; not a number if it is not definite.

        Bounds on rounding are about factors computed by substitution, which a device may do in another way. Its
        factors are therefore multiplied out: where ``|L L' - A|`` is, as computed, within the bound, relative to the
        diagonal, the error is within twice the bound, since the product is off by no more than that itself.
        """
        there = self.xp.asarray(upper).T
        L = self._factor(there)
        if L is None:
            return np.nan
        root = self.xp.sqrt(self.xp.diagonal(there))
        apart = L @ L.T
        apart -= there
        apart /= root
        apart /= root[:, None]
        if not float(self.xp.abs(self.xp.tril(apart)).max()) <= bound:
            raise DeviceFailed("the device's Cholesky factors are less exact than double precision")
        return 2.0 * float(self.xp.log(self.xp.diagonal(L)).sum())

    def inverse(self, upper: Any) -> Any:
        """Of a matrix given by its upper triangle, as an array of NumPy's; None if it is not definite."""
        L = self._factor(self.xp.asarray(upper).T)
        if L is None:
            return None
        half = self.solve_triangular(L, self.xp.eye(len(L)), lower=True, overwrite_b=True, check_finite=False)
        found = half.T @ half
        return found if self.xp is np else self.xp.asnumpy(found)

    def _factor(self, lower: Any) -> Any:
        """Cholesky factor of a matrix given by its lower triangle; None if it is not definite."""
        try:
            with self.checked():
                return self.xp.linalg.cholesky(lower)
        except np.linalg.LinAlgError:
            return None


def matrices_on(device: str) -> DeviceMatrices | None:
    """The matrix work of a device: "cuda"; None for "cpu", and with a warning where there is no device to be used."""
    if device == "cpu":
        return None
    try:
        cupy, linalg = require("cupy", "gpu"), require("cupyx.scipy.linalg", "gpu")
        cupy.cuda.runtime.getDevice()
        checked = partial(require("cupyx", "gpu").errstate, linalg="raise")
        return DeviceMatrices(cupy, linalg.solve_triangular, (cupy.cuda.memory.OutOfMemoryError,), checked)
    except Exception as error:  # no package, no driver, no device
        warnings.warn(f"A group is solved on the processor: the device cannot be used: {error}.", RuntimeWarning, 2)
        return None
