"""Data of a selection, and stratified folds and subsamples of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state

from jointglasso._typing import IntArray
from jointglasso.data import CovarianceSource
from jointglasso.data.checks import InputError, check_count
from jointglasso.data.effects import with_sample_weights, without_covariates
from jointglasso.data.prepare import Preparation
from jointglasso.data.samples import Samples, read_samples
from jointglasso.data.windows import warn_if_dependent
from jointglasso.errors import argument
from jointglasso.selection.em import prepared

#: Sample indices by class.
Part = list[IntArray]

#: Sample sizes n_k by class.
Sizes = Sequence[int] | IntArray


@dataclass(frozen=True)
class SelectionData:
    """Covariances of all samples, and the samples themselves where available."""

    source: CovarianceSource
    samples: Samples | None
    preparation: Preparation
    notes: tuple[str, ...] = ()
    """Remarks about the covariances for the report, in sentences."""

    def require_samples(self, what: str) -> Samples:
        """Samples by class; InputError where only covariances are known or samples are shared by windows."""
        if self.samples is None:
            raise InputError(f"{what} needs the samples, not their covariances alone: give X and y.", "X")
        if self.samples.sample_fraction < 1.0:
            raise InputError(
                f"{what} takes the samples apart, but windows that overlap share theirs: use an information criterion, "
                "or windows without overlap.",
                "windows",
            )
        return self.samples


def read_data(
    X: Any, y: Any, preparation: Preparation, covariates: Any = None, sample_weight: Any = None
) -> SelectionData:
    """Read a table with labels, a dict of tables by class, samples by class, or a covariance source.

    Covariates are regressed out of the samples, and sample weights enter the covariances and the sample sizes.
    """
    if isinstance(X, CovarianceSource):
        if y is not None:
            raise InputError("y is given although X is a covariance source, which knows its classes: leave y out.", "y")
        for name, value in (("covariates", covariates), ("sample_weight", sample_weight)):
            if value is not None:
                raise InputError(f"{argument(name)} needs the samples, not their covariances alone.", name)
        return SelectionData(X, None, preparation)
    samples = read_samples(X, y, preparation.variables)
    samples = without_covariates(samples, covariates, preparation.association, preparation.missing)
    warn_if_dependent(samples)
    samples = with_sample_weights(samples, sample_weight, preparation.association)
    prepared_samples = prepared(preparation, samples)
    return SelectionData(prepared_samples.source, samples, preparation, prepared_samples.notes)


def stratified_folds(sizes: Sizes, n_folds: int, random_state: Any, *, shuffle: bool = True) -> list[Part]:
    """Held-out samples of each class in each fold, of sizes as equal as possible.

    Every sample is held out once, except in very small classes: at least two samples of each class remain for training
    in every fold.
    """
    rng = check_random_state(random_state)
    folds: list[Part] = [[] for _ in range(n_folds)]
    n_assigned = 0
    for size in sizes:
        order = rng.permutation(size) if shuffle else np.arange(size)
        order = order[: max(0, size - 2) * n_folds]
        # Continue with the fold after that of the previous class, so that small classes do not all use the first folds.
        fold_of = (n_assigned + np.arange(len(order))) % n_folds
        for fold in range(n_folds):
            folds[fold].append(np.sort(order[fold_of == fold]))
        n_assigned += len(order)
    return folds


def make_folds(data: SelectionData, cv: Any, random_state: Any) -> list[Part]:
    """Held-out samples of each fold by class, from a number, a scikit-learn splitter or a list of splits.

    A number, or a plain `KFold`, is stratified by class. Other splitters and lists of (training rows, held-out rows)
    are used unchanged.
    """
    samples = data.require_samples("Cross-validation")
    if isinstance(cv, KFold):
        seed = cv.random_state if cv.random_state is not None else random_state
        folds = stratified_folds(samples.sizes, check_count("cv", cv.n_splits, 2), seed, shuffle=cv.shuffle)
    elif hasattr(cv, "split") or (hasattr(cv, "__iter__") and not isinstance(cv, str)):
        folds = _explicit_folds(samples.rows, cv)
    else:
        folds = stratified_folds(samples.sizes, check_count("cv", cv, 2), random_state)
    if not any(len(part) for held_out in folds for part in held_out):
        raise InputError(
            "Cross-validation has no sample to hold out: a class needs at least 3 samples; choose "
            f"{argument('criterion', 'ebic')}.",
            "cv",
        )
    for number, held_out in enumerate(folds):
        for name, size, part in zip(samples.class_names, samples.sizes, held_out, strict=True):
            if size - len(part) < 2:
                raise InputError(
                    f"Fold {number + 1} leaves {size - len(part)} of the {size} samples of class {name!r} to train "
                    f"on, and a covariance needs 2: use stratified folds (cv=a number), add "
                    f"samples, or choose {argument('criterion', 'ebic')}.",
                    "cv",
                    class_name=name,
                )
    return folds


def _explicit_folds(by_class: Sequence[IntArray], cv: Any) -> list[Part]:
    """Folds from a splitter or explicit row numbers; ``by_class[k]`` are the rows of class k in the table."""
    labels, position = np.empty((2, sum(map(len, by_class))), dtype=np.int64)
    for k, members in enumerate(by_class):
        labels[members], position[members] = k, np.arange(len(members))
    splits = list(cv.split(np.zeros((len(labels), 1)), labels) if hasattr(cv, "split") else cv)
    if not splits:
        raise InputError("cv holds no split: give a number of folds or pairs (training rows, held-out rows).", "cv")
    folds = []
    for _, test in splits:
        rows = np.asarray(test)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        if rows.ndim != 1 or (len(rows) and (rows.min() < 0 or rows.max() >= len(labels))):
            raise InputError(f"cv names held-out rows outside 0 to {len(labels) - 1}: give row numbers of X.", "cv")
        folds.append([position[rows[labels[rows] == k]] for k in range(len(by_class))])
    return folds


def complement(part: Part, sizes: Sizes) -> Part:
    """Samples outside `part`, by class."""
    return [np.setdiff1d(np.arange(size), members) for size, members in zip(sizes, part, strict=True)]


def draw(sizes: Sizes, take: Sizes, rng: Any) -> Part:
    """Random subsample of ``take[k]`` samples of each class, without replacement, sorted."""
    return [np.sort(rng.permutation(size)[:n]) for size, n in zip(sizes, take, strict=True)]


def edges_of(Theta: Any) -> Any:
    """Upper triangular CSR adjacency matrix with entries 1."""
    upper = sparse.csr_array(sparse.triu(Theta, 1))
    upper.eliminate_zeros()
    return sparse.csr_array((np.ones(upper.nnz, dtype=np.int32), upper.indices, upper.indptr), shape=upper.shape)
