"""Sample covariances computed on demand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointglasso._threads import map_on_threads
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.backends import SCANNERS, scanner
from jointglasso.data.checks import (
    check_choice,
    check_switch,
    known_arguments,
    require_sound_variance,
    require_varying,
)
from jointglasso.data.effects import with_sample_weights, without_covariates
from jointglasso.data.samples import Samples
from jointglasso.data.source import CovarianceSource

#: Entries of the samples that are centred at a time, to stay in cache.
_PIECE = 65_536

SCALES = ("correlation", "covariance")

DEVICES = ("auto", "cpu", *SCANNERS)

#: Multiplications of a scan above which a CUDA device is faster than sixteen cores, start-up included.
_WORTH_A_DEVICE = 1e12


class SampleCovariance(CovarianceSource):
    """Sample covariance or correlation of each class, computed in tiles from the samples.

    Parameters
    ----------
    samples : sequence or dict of K arrays (n_k, p)
        One sample matrix per class, samples in rows. Data frames supply variable names; classes with another order of
        the columns are aligned by name. Sparse matrices, arrays mapped from files, arrays of Dask, and
        datasets of h5py, zarr or AnnData are read and made dense one class at a time. Workers of a cluster read
        files under the same path.
    scale : {"covariance", "correlation"}
        Covariances, or correlations (every variable scaled to unit variance within its class).
    assume_centered : bool, default False
        If True, the class means are not subtracted.
    constant : {"refuse", "isolate"}
        Variables that are constant in a class: refuse them on the correlation scale (covariances are 0), or isolate
        them there, with their mean variance over the other classes (1 if there is none).
    device : {"auto", "cpu", "cuda"}
        Device of the screening products: the processor, or a CUDA device through CuPy (``pip install
        'jointglasso[gpu]'``). "auto" uses the device if there is one and the scan is long enough to benefit. The
        result is the same. With too little memory on the device, the processor is used, with a warning.
    class_names, variable_names : sequence of str, optional
        Names used in messages and results.
    variables : {"same", "union", "intersection"}
        Treatment of data frames with different variables, as in `DenseCovariance`.

    Notes
    -----
    Unless `assume_centered`, each class is centred by its own mean; the divisor is n_k, as in the paper. The object
    stores one centred, scaled copy Z_k (p, n_k) of the samples, with ``S_k = Z_k Z_k'``, and its rows normalised in
    single precision for the screening pass: 12 bytes per entry of the samples.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> samples = np.random.default_rng(0).normal(size=(50, 3))
    >>> source = jgl.SampleCovariance({"ill": samples[:20], "well": samples[20:]}, scale="correlation")
    >>> source.class_names, source.sample_sizes.tolist(), source.diagonal(0).tolist()
    (('ill', 'well'), [20, 30], [1.0, 1.0, 1.0])
    """

    #: Products Z Z' are positive semidefinite: blocks need not be checked.
    is_semidefinite = True

    sample_sizes: IntArray

    @known_arguments()
    def __init__(
        self,
        samples: Any,
        *,
        scale: str = "covariance",
        assume_centered: bool = False,
        constant: str = "refuse",
        device: str = "auto",
        class_names: Any = None,
        variable_names: Any = None,
        variables: str = "same",
    ) -> None:
        classes = samples
        if not isinstance(classes, Samples):
            classes = Samples.by_class(samples, class_names, variable_names, variables)
        classes.require_two()
        super().__init__(classes.class_names, classes.variable_names, classes.sizes, classes.absent)
        self._isolate_constant = check_choice("constant", constant, ("refuse", "isolate")) == "isolate"
        self.sample_sizes: IntArray = classes.reduced_sizes(classes.sizes)
        self.scale = check_choice("scale", scale, SCALES)
        self.assume_centered = check_switch("assume_centered", assume_centered)
        self._read(classes)
        self.device = self._choose_device(device)

    def _read(self, samples: Samples) -> None:
        """Centre and scale the samples; for those in files keep the reference to them."""
        self._files = samples if samples.are_stored else None
        self._scaled: list[FloatArray] = []
        self._diagonals: list[FloatArray] = []
        constants = []
        for k, X in enumerate(samples.one_by_one()):
            Z, variance, constant = _centred(X, self.assume_centered)
            require_sound_variance(variance, constant, samples.class_names[k], samples.variable_names)
            if self.scale == "correlation" and not self._isolate_constant:
                known = constant if self.absent is None else constant & ~self.absent[k]
                require_varying(known, samples.class_names[k], samples.variable_names)
            self._scaled.append(Z)
            self._diagonals.append(variance)
            constants.append(constant)
        self._isolated = np.array(constants) & self._isolate_constant
        if self.absent is not None:
            self._isolated |= self.absent
        if self._isolated.any():
            stated = stated_variance(np.array(self._diagonals), self._isolated, self.sample_sizes)
            self._diagonals = list(stated)
        if self.scale == "correlation":
            map_on_threads(self._scale, range(self.n_classes))
        self._rough: list[NDArray[np.float32]] = map_on_threads(self._unit, range(self.n_classes))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the references to files, or the samples in double precision."""
        excluded = ("_rough",) if self._files is None else ("_rough", "_scaled", "_diagonals", "_isolated")
        return {name: value for name, value in self.__dict__.items() if name not in excluded}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._files is None:
            self._rough = map_on_threads(self._unit, range(self.n_classes))
        else:
            self._read(self._files)

    def _choose_device(self, device: str) -> str:
        if check_choice("device", device, DEVICES) == "auto":
            products = float(self.n_variables) ** 2 * int(self.sample_sizes.sum())
            return "cuda" if products >= _WORTH_A_DEVICE and scanner("cuda").available() else "cpu"
        if device in SCANNERS:
            scanner(device).require_device()
        return device

    def _scale(self, k: int) -> None:
        """Scale class k to correlations."""
        self._scaled[k] /= np.sqrt(self._diagonals[k])[:, None]
        self._diagonals[k] = np.ones_like(self._diagonals[k])

    def _unit(self, k: int) -> NDArray[np.float32]:
        """Array (p, n_k) of the variables of class k scaled to unit norm, in single precision."""
        Z, variance = self._scaled[k], self._diagonals[k]
        unit = np.empty(Z.shape, dtype=np.float32)
        root = np.sqrt(np.where(variance > 0, variance, 1.0))
        return np.divide(Z, root[:, None], out=unit, casting="same_kind")

    @classmethod
    @known_arguments(association="its covariances are those of the values; `select`, the estimators, `infer` and "
                     "`LabelledTable.to_source` take other associations")  # fmt: skip
    def from_labels(
        cls,
        X: Any,
        y: Any,
        *,
        scale: str = "covariance",
        assume_centered: bool = False,
        constant: str = "refuse",
        device: str = "auto",
        variable_names: Any = None,
        covariates: Any = None,
        sample_weight: Any = None,
    ) -> SampleCovariance:
        """Split one table of samples by their class labels.

        Parameters
        ----------
        X : array, data frame, sparse matrix or dataset (n, p)
            Samples in rows. Sparse matrices and files are read one class at a time.
        y : sequence of n labels
            Class of each sample; the classes are in order of appearance.
        scale, assume_centered, constant, device, variable_names
            As in the constructor.
        covariates : table with n rows, optional
            Regressed out of the variables within each class; `sample_sizes` are less their rank.
        sample_weight : sequence of n numbers, optional
            Weight of each sample within its class; `sample_sizes` are the effective ones of Kish.
        """
        samples = Samples.from_labels(X, [] if y is None else y, variable_names)
        samples = with_sample_weights(without_covariates(samples, covariates), sample_weight)
        return cls(samples, scale=scale, assume_centered=assume_centered, constant=constant, device=device)

    def tile(self, k: int, rows: slice, columns: slice) -> FloatArray:
        Z = self._scaled[k]
        piece = Z[rows] @ Z[columns].T
        if self._isolated[k].any():  # their columns of Z are zero, their variance is not
            variables = np.arange(self.n_variables)
            _, i, j = np.intersect1d(variables[rows], variables[columns], return_indices=True)
            piece[i, j] = self._diagonals[k][rows][i]
        return piece

    def block(self, k: int, variables: IntArray) -> FloatArray:
        Z = self._scaled[k][variables]
        S = Z @ Z.T
        np.fill_diagonal(S, self._diagonals[k][variables])
        return S

    def rows(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        """``S_k[rows][:, columns]``."""
        piece = self._scaled[k][rows] @ self._scaled[k][columns].T
        i, j = np.nonzero(rows[:, None] == columns)
        piece[i, j] = self._diagonals[k][rows[i]]
        return piece

    def entries(self, k: int, rows: IntArray, columns: IntArray) -> FloatArray:
        Z = self._scaled[k]
        out = np.empty(len(rows))
        # Each gathered variable has n_k entries: bound the memory by working in parts.
        step = max(1, 400_000 // Z.shape[1])
        for first in range(0, len(rows), step):
            piece = slice(first, first + step)
            out[piece] = np.einsum("ij,ij->i", np.take(Z, rows[piece], axis=0), np.take(Z, columns[piece], axis=0))
        on_diagonal = rows == columns
        out[on_diagonal] = self._diagonals[k][rows[on_diagonal]]
        return out

    def unit_vectors(self, k: int) -> NDArray[np.float32]:
        """Array (p, n_k) whose row inner products are the rough correlations of class k."""
        return self._rough[k]

    def rough_correlations(
        self, k: int, rows: slice, columns: slice, out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """``S_ij / sqrt(S_ii S_jj)`` of class k in single precision, with error at most `correlation_error(k)`.

        0 where a variance is 0. Written into `out` if given: allocating memory for every tile takes as long as testing
        it.
        """
        U = self._rough[k]
        return np.matmul(U[rows], U[columns].T, out=out)

    def correlation_error(self, k: int) -> float:
        """Bound the rounding error of a float32 inner product of two unit vectors of length n.

        In any order of summation it is at most n u / (1 - n u) times sum |x_i y_i| <= 1, u = 2^-24 (Higham,
        Accuracy and Stability, section 3.1); rounding the vectors themselves adds 2 u + u^2.
        """
        u = (self._scaled[k].shape[1] + 4) * 2.0**-24
        return u / (1.0 - u) if u < 0.5 else np.inf

    def diagonal(self, k: int) -> FloatArray:
        return self._diagonals[k]

    def content(self, k: int) -> list[FloatArray]:
        """Arrays that define class k, for the fingerprint of the data."""
        return [self._scaled[k], self._diagonals[k]] if self._isolated[k].any() else [self._scaled[k]]


def stated_variance(variance: FloatArray, constant: BoolArray, sample_sizes: IntArray) -> FloatArray:
    """Variances (K, p) with a substitute where a variable is constant in a class.

    The substitute is the mean, weighted by sample size, of its variances in the other classes, and 1 if it is constant
    in all.
    """
    size = np.where(constant, 0.0, np.asarray(sample_sizes, dtype=float)[:, None])
    total = size.sum(axis=0)
    mean = (size * np.where(constant, 0.0, variance)).sum(axis=0) / np.where(total > 0, total, 1.0)
    return np.where(constant, np.where(total > 0, mean, 1.0), variance)


def _centred(X: FloatArray, assume_centered: bool) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Z (p, n) with ``S = Z Z'``, variances (p,) and mask (p,) of constant variables.

    Variables are in rows to be contiguous, and are processed a few at a time on threads while they are in cache.
    """
    n, p = X.shape
    Z, variance, constant = np.empty((p, n)), np.empty(p), np.empty(p, dtype=bool)

    def centre(columns: slice) -> None:
        piece = np.array(X[:, columns].T, dtype=float, order="C")
        is_constant = (piece == (0.0 if assume_centered else piece[:, :1])).all(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            if not assume_centered:
                piece -= piece.mean(axis=1, keepdims=True)
            piece /= np.sqrt(n)
            piece[is_constant] = 0.0  # the rounded mean of equal numbers need not be that number
            variance[columns] = np.einsum("ij,ij->i", piece, piece)
        constant[columns], Z[columns] = is_constant, piece

    step = max(16, _PIECE // n)
    map_on_threads(centre, [slice(first, first + step) for first in range(0, p, step)])
    return Z, variance, constant
