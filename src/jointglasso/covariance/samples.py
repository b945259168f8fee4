"""Covariances computed from samples when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jointglasso._threads import map_on_threads
from jointglasso._typing import BoolArray, FloatArray, IntArray
from jointglasso.backends import SCANNERS, scanner
from jointglasso.covariance.annotated import distinct_names, samples_by_class
from jointglasso.covariance.classes import Samples
from jointglasso.validation import (
    NOW_CONSTANT,
    NOW_SCALE,
    check_choice,
    check_switch,
    renamed,
    require_sound_variance,
    require_varying,
)

if TYPE_CHECKING:
    from anndata import AnnData

#: Numbers of the samples that are centred together: they stay in cache.
_PIECE = 65_536

SCALES = ("correlation", "covariance")

DEVICES = ("auto", "cpu", *SCANNERS)

#: Multiplications of a scan from which a CUDA device is faster than sixteen cores, its start included.
_WORTH_A_DEVICE = 1e12


class SampleCovariance:
    """Sample covariance or correlation of each class, computed piece by piece from the samples.

    Parameters
    ----------
    samples : sequence or dict of K arrays (n_k, p)
        One sample matrix a class, samples in rows. Data frames bring variable names; classes whose columns
        come in another order are aligned by name. Sparse matrices, arrays mapped from files, arrays of Dask, and
        datasets of h5py, zarr or AnnData are read and made dense one class after the other. Workers of a cluster read
        files by themselves, under the same path.
    scale : {"covariance", "correlation"}
        Give covariances, or correlations: every variable scaled to unit variance within its class.
    assume_centered : bool, default False
        Take the samples as they are, without subtracting the mean of their class.
    constant : {"refuse", "isolate"}
        Variables that are constant in a class: refuse them where correlations are wanted (a covariance is 0), or leave
        them isolated there, with the variance that they have on average in the other classes (1 if in none).
    device : {"auto", "cpu", "cuda"}
        Where screening multiplies the samples: on this processor, or on a CUDA device by way of CuPy (``pip install
        'jointglasso[gpu]'``). "auto" takes the device if there is one and the scan is long enough to gain by it. The
        pairs found are the same. "cuda" also factors the matrices of groups of 1,500 variables and more there. A device
        with too little memory is left for the processor, with a warning.
    class_names, variable_names : sequence of str, optional
        Names used in messages and results.
    variables : {"same", "union", "intersection"}
        What to do with data frames of which some lack variables: refuse them; take all variables, where a pair exists
        in the classes that have both; or take those that all classes have.

    Notes
    -----
    Unless `assume_centered`, each class is centred by its own mean; the divisor is n_k, as in the paper. The object
    keeps one centred, scaled copy Z_k of the samples, with ``S_k = Z_k Z_k'``, and its unit columns in single
    precision for the screening pass: 12 bytes per number of the samples.

    Examples
    --------
    >>> import numpy as np
    >>> import jointglasso as jgl
    >>> samples = np.random.default_rng(0).normal(size=(50, 3))
    >>> source = jgl.SampleCovariance({"ill": samples[:20], "well": samples[20:]}, scale="correlation")
    >>> source.class_names, source.sample_sizes.tolist(), source.diagonal(0).tolist()
    (('ill', 'well'), [20, 30], [1.0, 1.0, 1.0])
    """

    #: Products Z'Z have no negative eigenvalue: blocks need not be checked for one.
    is_semidefinite = True

    #: (K, p): variables that a class lacks; None where all classes have all of them.
    absent: BoolArray | None = None

    @renamed(correlation=NOW_SCALE, isolate_constant=NOW_CONSTANT)
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
        given = samples
        if not isinstance(given, Samples):
            given = Samples.by_class(samples, class_names, variable_names, variables)
        given.require_two()
        self.absent = given.absent
        self._isolate_constant = check_choice("constant", constant, ("refuse", "isolate")) == "isolate"
        self.class_names, self.variable_names = given.class_names, given.variable_names
        self.n_classes, self.n_variables = given.n_classes, given.n_variables
        self.sample_sizes: IntArray = given.sizes
        self.scale = check_choice("scale", scale, SCALES)
        self.assume_centered = check_switch("assume_centered", assume_centered)
        self._read(given)
        self._device = self._place(device)
        #: As it was asked for: big groups have a choice of their own.
        self.device_wanted = device

    def _read(self, given: Samples) -> None:
        """Centre, scale and keep the samples; of those in files remember where they are."""
        self._files = given if given.are_stored else None
        self._scaled: list[FloatArray] = []
        self._diagonals: list[FloatArray] = []
        constants = []
        for k, X in enumerate(given.one_by_one()):
            Z, variance, constant = _centred(X, self.assume_centered)
            require_sound_variance(variance, constant, given.class_names[k], given.variable_names)
            if self.scale == "correlation" and not self._isolate_constant:
                known = constant if self.absent is None else constant & ~self.absent[k]
                require_varying(known, given.class_names[k], given.variable_names)
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
        """What has to travel: where the files are, or the samples in double precision."""
        left = ("_rough",) if self._files is None else ("_rough", "_scaled", "_diagonals", "_isolated")
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._files is None:
            self._rough = map_on_threads(self._unit, range(self.n_classes))
        else:
            self._read(self._files)

    def _place(self, device: str) -> str:
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
        """Unit vectors of the variables of class k."""
        Z, variance = self._scaled[k], self._diagonals[k]
        unit = np.empty(Z.shape, dtype=np.float32)
        root = np.sqrt(np.where(variance > 0, variance, 1.0))
        return np.divide(Z, root[:, None], out=unit, casting="same_kind")

    @classmethod
    @renamed(correlation=NOW_SCALE)
    def from_labels(cls, X: Any, y: Any, *, scale: str = "covariance", variable_names: Any = None) -> SampleCovariance:
        """Split one table of samples by their class labels.

        Parameters
        ----------
        X : array, data frame, sparse matrix or dataset (n, p)
            Samples in rows. What is sparse or on disk is read one class after the other.
        y : sequence of n labels
            Class of each sample; the classes are in order of appearance.
        scale, variable_names
            As in the constructor.
        """
        return cls(Samples.from_labels(X, [] if y is None else y, variable_names), scale=scale)

    @classmethod
    @renamed(correlation=NOW_SCALE)
    def from_anndata(
        cls, adata: AnnData, groupby: str, *, layer: str | None = None, scale: str = "covariance", classes: Any = None
    ) -> SampleCovariance:
        """Split the cells of an AnnData object by a column of ``adata.obs``.

        Parameters
        ----------
        adata : AnnData
            Cells in rows, genes in columns; it may stay on disk (``backed="r"``), and is then read class by class.
        groupby : str
            Column of ``adata.obs`` with the class of each cell.
        layer : str, optional
            Layer to read instead of ``adata.X``.
        scale : {"covariance", "correlation"}
            As in the constructor.
        classes : sequence of str, optional
            Use these classes only; all by default. They are in order of appearance.
        """
        samples = samples_by_class(adata, groupby, layer, classes)
        return cls(samples, scale=scale, variable_names=distinct_names(adata.var_names))

    def among(self, variables: IntArray) -> SampleCovariance:
        """The same covariances of some of the variables."""
        return SampleCovariance(
            [Z[variables].T * np.sqrt(Z.shape[1]) for Z in self._scaled],
            assume_centered=True,
            constant="isolate" if self._isolate_constant else "refuse",
            device="cpu",
            class_names=self.class_names,
            variable_names=[self.variable_names[i] for i in variables],
        )

    @property
    def in_files(self) -> bool:
        """Whether the samples lie in files, where workers elsewhere can read them."""
        return self._files is not None

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
        # Gathered variables are n_k numbers each: in pieces, so that many entries do not fill the memory.
        step = max(1, 400_000 // Z.shape[1])
        for first in range(0, len(rows), step):
            piece = slice(first, first + step)
            out[piece] = np.einsum("ij,ij->i", np.take(Z, rows[piece], axis=0), np.take(Z, columns[piece], axis=0))
        same = rows == columns
        out[same] = self._diagonals[k][rows[same]]
        return out

    @property
    def device(self) -> str:
        return self._device

    def unit_vectors(self, k: int) -> NDArray[np.float32]:
        return self._rough[k]

    def rough_correlations(
        self, k: int, rows: slice, columns: slice, out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        U = self._rough[k]
        return np.matmul(U[rows], U[columns].T, out=out)

    def correlation_error(self, k: int) -> float:
        """Bound the rounding of a float32 scalar product of two unit vectors of length n.

        In any order of summation it is wrong by at most n u / (1 - n u) times sum |x_i y_i| <= 1, u = 2^-24 (Higham,
        Accuracy and Stability, section 3.1); rounding the vectors themselves adds 2 u + u^2.
        """
        u = (self._scaled[k].shape[1] + 4) * 2.0**-24
        return u / (1.0 - u) if u < 0.5 else np.inf

    def diagonal(self, k: int) -> FloatArray:
        return self._diagonals[k]

    def content(self, k: int) -> list[FloatArray]:
        """The numbers that define class k, for a fingerprint of the data."""
        return [self._scaled[k], self._diagonals[k]] if self._isolated[k].any() else [self._scaled[k]]


def stated_variance(variance: FloatArray, constant: BoolArray, sample_sizes: IntArray) -> FloatArray:
    """Variances (K, p) in which that of a variable constant in a class is a stated one.

    It is the mean, weighted by sample size, of its variances in the classes where it varies, and 1 if it varies
    in none.
    """
    share = np.where(constant, 0.0, np.asarray(sample_sizes, dtype=float)[:, None])
    total = share.sum(axis=0)
    mean = (share * np.where(constant, 0.0, variance)).sum(axis=0) / np.where(total > 0, total, 1.0)
    return np.where(constant, np.where(total > 0, mean, 1.0), variance)


def _centred(X: FloatArray, assume_centered: bool) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Samples Z, variables in rows, with ``S = Z Z'``, the variances, and which variables are constant.

    What belongs to one variable then lies together. A few variables at a time, on threads: all that is done to them is
    done while they are in cache.
    """
    n, p = X.shape
    Z, variance, constant = np.empty((p, n)), np.empty(p), np.empty(p, dtype=bool)

    def centre(some: slice) -> None:
        piece = np.array(X[:, some].T, dtype=float, order="C")
        still = (piece == (0.0 if assume_centered else piece[:, :1])).all(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            if not assume_centered:
                piece -= piece.mean(axis=1, keepdims=True)
            piece /= np.sqrt(n)
            piece[still] = 0.0  # the rounded mean of equal numbers need not be that number
            variance[some] = np.einsum("ij,ij->i", piece, piece)
        constant[some], Z[some] = still, piece

    step = max(16, _PIECE // n)
    map_on_threads(centre, [slice(first, first + step) for first in range(0, p, step)])
    return Z, variance, constant
