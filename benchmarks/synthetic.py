"""Synthetic joint Gaussian graphical models with known precision matrices.

Kinds "A", "B" and "C" are the designs of the paper's "Experimental Results": signals so weak that the
thresholded graph of noise is close to percolation. Kind "modules" is strongly correlated, as gene expression is.

* Every class has one random stream for its structure and one for its data, both spawned from `random_state`, so that
  class k does not depend on the number of classes.
* A sample covariance S need not come from samples: n S is Wishart with n - 1 degrees of freedom and can be
  drawn as such, on demand and one class at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from scipy import sparse
from scipy.linalg import blas, lapack
from scipy.sparse.csgraph import connected_components

from jointglasso._typing import FloatArray, IntArray

RandomState = int | SeedSequence | Generator | None

DIAGONAL = 5.0


@dataclass(frozen=True, eq=False, repr=False)
class JointData:
    """Data of K classes together with the model they were drawn from.

    Attributes
    ----------
    precisions : list of K scipy.sparse.csc_array, shape (p, p)
        True precision matrices.
    samples : list of K arrays, shape (n_k, p), or None
        Samples of each class (true mean 0); None with `output="covariances"`.
    n_samples : tuple of K int
        Sample size n_k of each class.
    """

    precisions: list[sparse.csc_array]
    samples: list[FloatArray] | None
    n_samples: tuple[int, ...]
    _data_seeds: tuple[SeedSequence, ...] = field(repr=False)

    @cached_property
    def labels(self) -> IntArray:
        """True partition, shape (K, p): connected component of each variable in each class."""
        return np.stack([_component_labels(precision) for precision in self.precisions])

    @property
    def X(self) -> FloatArray:
        """Samples of all classes stacked, shape (sum of n_k, p)."""
        return np.concatenate(self.samples or [])

    @property
    def y(self) -> IntArray:
        """Class (0, ..., K-1) of each row of `X`."""
        return np.repeat(np.arange(len(self.n_samples)), self.n_samples)

    @cached_property
    def covariances(self) -> FloatArray:
        """Sample covariance matrices, shape (K, p, p), centred, divisor n_k; made once and kept."""
        covariances = np.empty((len(self.precisions), *self.precisions[0].shape))
        for target, covariance in zip(covariances, self.iter_covariances(), strict=True):
            target[:] = covariance
        return covariances

    def iter_covariances(self) -> Iterator[FloatArray]:
        """Yield the matrices of `covariances` one class at a time, keeping none.

        Making one takes about two p-by-p arrays (1.6 GB at p = 10,000). Every call yields the same matrices.
        """
        for k, precision in enumerate(self.precisions):
            if self.samples is not None:
                samples = self.samples[k]
                yield _gram((samples - samples.mean(axis=0)).T, len(samples))
            else:
                yield _draw_covariance(precision, self.n_samples[k], default_rng(self._data_seeds[k]))


def make_joint_ggm(
    kind: str,
    p: int,
    n_classes: int,
    *,
    n_samples: int | Sequence[int] | None = None,
    r: float | None = None,
    density: float = 0.03,
    shared: float = 0.8,
    n_blocks: int = 10,
    moved: float = 0.1,
    noise: float = 0.5,
    loadings: tuple[float, float] = (0.3, 0.9),
    output: Literal["samples", "covariances"] = "samples",
    random_state: RandomState = None,
) -> JointData:
    """Draw K Gaussian graphical models and data from them.

    Parameters
    ----------
    kind : {"A", "B", "C", "modules"}
        - "A": sparse random precision matrices; an edge common to the classes has one sign in all of them.
        - "B": the same dense diagonal blocks in every class; the signs are drawn for each class separately
          (common signs would make the K matrices equal).
        - "C": as "B", but in each class some variables have moved to another block.
        - "modules": unit variances; one latent factor drives each module, so its block of
          the precision matrix is full; some modules belong to one class; the rest is noise.

        In A, B and C the diagonal is 5 and an off-diagonal entry is 0 or +-5r. A kind ignores the parameters
        of the others.
    p, n_classes : int
        Number of variables, at least 2, and of classes K, at least 1.
    n_samples : int or sequence of K int, optional
        Samples of each class, at least 2. Default 5p (as in the paper) for A, B, C, and 100 for "modules".
    r : float, optional
        Size of an edge relative to the diagonal (A, B, C), in (0, 1). Default 0.006 for A and 0.0066 for B
        and C; the paper uses less than 0.0061 and 0.0067.
    density : float
        Fraction of non-zero off-diagonal entries, in (0, 1] (A).
    shared : float
        Fraction of the edges (A) or of the modules ("modules") common to all classes, in [0, 1].
    n_blocks : int
        Number of equal blocks, the last taking the remainder (B, C), or of modules of each class.
    moved : float
        Fraction of the variables that change their block in each class, in [0, 1] (C).
    noise : float
        Fraction of the variables outside all modules, in [0, 1) ("modules"); module sizes are rounded down.
    loadings : (float, float)
        Range of the absolute loadings on the factor, 0 < low <= high < 1 ("modules"); signs are random. Two
        variables of a module with loadings a and b have correlation ab.
    output : {"samples", "covariances"}
        With "covariances" no n-by-p array is made: `JointData.covariances` and `iter_covariances` draw n S
        from the Wishart distribution, by Bartlett's triangular factor if n - 1 >= p and otherwise by a
        p-by-(n - 1) Gaussian factor. The distribution is that of the covariance of samples; the values
        differ.
    random_state : int, SeedSequence, Generator or None
        The same value gives bit-identical data; of a Generator one draw is used as the seed.

    Returns
    -------
    JointData
        True precision matrices, and samples or covariances.
    """
    counts = n_samples if isinstance(n_samples, Sequence) else [n_samples or (100 if kind == "modules" else 5 * p)]
    counts = tuple(counts) if len(counts) > 1 else tuple(counts) * n_classes
    build: Callable[..., sparse.csc_array] = _block_precision
    settings: dict[str, Any] = {"r": r or 0.0066, "n_blocks": n_blocks, "moved": moved if kind == "C" else 0.0}
    if kind == "A":
        build, settings = _sparse_precision, {"r": r or 0.006, "density": density, "shared": shared}
    elif kind == "modules":
        size = int(p * (1.0 - noise) + 1e-9) // n_blocks  # 1e-9 corrects rounding, as in 100 * (1 - 0.9) = 9.99...
        n_common = round(shared * n_blocks)
        build = _module_precision
        settings = {"n_blocks": n_blocks, "loadings": loadings, "module_size": size, "n_common_modules": n_common}
    common_seed, *class_seeds = _seed_sequence(random_state).spawn(1 + n_classes)
    seeds = [seed.spawn(2) for seed in class_seeds]
    # The common stream is restarted for every class, so that all classes get the same common structure.
    precisions = [build(p, default_rng(common_seed), default_rng(seed), **settings) for seed, _ in seeds]
    if kind != "modules" and not all(map(_is_definite, precisions)):
        raise ValueError(f"r={settings['r']} makes a precision matrix indefinite: lower it")
    data = JointData(precisions, None, counts, tuple(data_seed for _, data_seed in seeds))
    return data if output == "covariances" else replace(data, samples=_draw_samples(data))


def _sparse_precision(
    p: int, common_rng: Generator, class_rng: Generator, r: float, density: float, shared: float
) -> sparse.csc_array:
    n_pairs = p * (p - 1) // 2
    n_edges = round(density * n_pairs)
    n_common = round(shared * n_edges)
    common_pairs = np.sort(common_rng.choice(n_pairs, n_common, replace=False, shuffle=False))
    # Edges of one class are drawn by rank among the pairs that are not common, then mapped to pair numbers.
    ranks = class_rng.choice(n_pairs - n_common, n_edges - n_common, replace=False, shuffle=False)
    class_pairs = ranks + np.searchsorted(common_pairs - np.arange(n_common), ranks, side="right")
    signs = np.concatenate([_random_signs(common_rng, n_common), _random_signs(class_rng, class_pairs.size)])
    rows, columns = _pair_from_number(np.concatenate([common_pairs, class_pairs]))
    return _symmetric(np.full(p, DIAGONAL), rows, columns, DIAGONAL * r * signs)


def _block_precision(
    p: int, common_rng: Generator, class_rng: Generator, r: float, n_blocks: int, moved: float
) -> sparse.csc_array:
    block = np.minimum(np.arange(p) // (p // n_blocks), n_blocks - 1)
    movers = class_rng.choice(p, round(moved * p), replace=False)
    if movers.size:
        # A shift by 1, ..., n_blocks - 1 never leads back to the old block.
        block[movers] = (block[movers] + class_rng.integers(1, n_blocks, movers.size)) % n_blocks
    blocks = [np.flatnonzero(block == b) for b in range(n_blocks)]
    rows, columns = np.concatenate([m[np.stack(np.tril_indices(m.size, -1))] for m in blocks], axis=1)
    return _symmetric(np.full(p, DIAGONAL), rows, columns, DIAGONAL * r * _random_signs(class_rng, rows.size))


def _module_precision(p: int, common_rng: Generator, class_rng: Generator, **settings: Any) -> sparse.csc_array:
    size, n_common = settings["module_size"], settings["n_common_modules"]
    n_class, (low, high) = settings["n_blocks"] - n_common, settings["loadings"]
    # Common modules use the first variables, modules of one class any of the others.
    drawn = class_rng.choice(np.arange(n_common * size, p), n_class * size, replace=False)
    members = np.concatenate([np.arange(n_common * size), drawn]).reshape(-1, size)
    sides = [(common_rng, (n_common, size)), (class_rng, (n_class, size))]
    loading = np.concatenate([rng.uniform(low, high, s) * _random_signs(rng, s) for rng, s in sides])
    # Woodbury, module by module: (D + l l')^-1 = D^-1 - u u' / (1 + l'u), D = diag(1 - l^2), u = D^-1 l.
    scaled = loading / (1.0 - loading**2)
    root = scaled / np.sqrt(1.0 + np.sum(loading * scaled, axis=1, keepdims=True))
    diagonal = np.ones(p)
    diagonal[members] = 1.0 / (1.0 - loading**2) - root**2
    i, j = np.tril_indices(size, -1)
    entries = -root[:, i] * root[:, j]
    return _symmetric(diagonal, members[:, i].ravel(), members[:, j].ravel(), entries.ravel())


def _random_signs(rng: Generator, shape: int | tuple[int, ...]) -> FloatArray:
    return rng.choice(np.array([-1.0, 1.0]), shape)


def _pair_from_number(number: IntArray) -> tuple[IntArray, IntArray]:
    """Row i and column j < i of the pairs numbered i (i - 1) / 2 + j."""
    row = ((1.0 + np.sqrt(1.0 + 8.0 * number)) / 2.0).astype(np.intp)
    # Rounding of the square root can put the row off by one.
    row -= row * (row - 1) // 2 > number
    row += row * (row + 1) // 2 <= number
    return row, number - row * (row - 1) // 2


def _symmetric(diagonal: FloatArray, i: IntArray, j: IntArray, values: FloatArray) -> sparse.csc_array:
    variables = np.arange(diagonal.size)
    rows, columns = np.concatenate([variables, i, j]), np.concatenate([variables, j, i])
    entries = np.concatenate([diagonal, values, values])
    return sparse.csc_array((entries, (rows, columns)), shape=(diagonal.size, diagonal.size))


def _component_labels(precision: sparse.csc_array) -> IntArray:
    return np.asarray(connected_components(precision, directed=False)[1], dtype=np.intp)


def _components(precision: sparse.csc_array) -> list[IntArray]:
    labels = _component_labels(precision)
    return np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])


def _cholesky(precision: sparse.csc_array, members: IntArray) -> FloatArray | None:
    """Lower Cholesky factor of a diagonal block (upper triangle undefined); None if not positive definite."""
    block = precision if members.size == precision.shape[0] else precision[members][:, members]
    factor, info = lapack.dpotrf(block.toarray(order="F"), lower=1, clean=0, overwrite_a=1)
    return factor if info == 0 else None


def _apply_covariance(precision: sparse.csc_array, white: FloatArray) -> FloatArray:
    """Transform columns of covariance I to covariance precision^-1, in place; `white` is (p, m) in Fortran order.

    If precision = C C' then C'^-1 is a root of the covariance; connected components are independent.
    """
    components = _components(precision)
    single = np.array([members[0] for members in components if members.size == 1], dtype=np.intp)
    white[single] /= np.sqrt(precision.diagonal()[single])[:, None]
    for members in components:
        if members.size > 1:
            # A view if there is one component: a copy would cost 0.8 GB at p = 10,000.
            rows = slice(None) if members.size == len(white) else members
            factor = _cholesky(precision, members)
            white[rows] = blas.dtrsm(1.0, factor, white[rows], lower=1, trans_a=1, overwrite_b=1)
    return white


def _draw_samples(data: JointData) -> list[FloatArray]:
    p = data.precisions[0].shape[0]
    classes = zip(data.precisions, data.n_samples, data._data_seeds, strict=True)
    return [_apply_covariance(theta, default_rng(seed).standard_normal((n, p)).T).T for theta, n, seed in classes]


def _draw_covariance(precision: sparse.csc_array, n: int, rng: Generator) -> FloatArray:
    """Draw S with n S ~ Wishart(n - 1, precision^-1), as of a centred sample covariance with divisor n."""
    p = precision.shape[0]
    white = _bartlett_factor(p, n - 1, rng) if n - 1 >= p else rng.standard_normal((n - 1, p)).T
    return _gram(_apply_covariance(precision, white), n)


def _gram(root: FloatArray, divisor: int) -> FloatArray:
    gram: FloatArray = root @ root.T
    gram /= divisor  # in place: no third p-by-p array
    return gram


def _bartlett_factor(p: int, freedom: int, rng: Generator) -> FloatArray:
    """Lower triangular A with A A' ~ Wishart(freedom, I): chi on the diagonal, standard normal below."""
    factor = np.zeros((p, p), order="F")
    np.fill_diagonal(factor, np.sqrt(rng.chisquare(freedom - np.arange(p))))
    for j in range(p - 1):
        rng.standard_normal(out=factor[j + 1 :, j])
    return factor


def _is_definite(precision: sparse.csc_array) -> bool:
    # Diagonal dominance (absolute column sums below twice the diagonal) is sufficient and cheap to test.
    if abs(precision).sum(axis=0).max() < 2.0 * DIAGONAL:
        return True
    return all(_cholesky(precision, members) is not None for members in _components(precision))


def _seed_sequence(random_state: RandomState) -> SeedSequence:
    if isinstance(random_state, Generator):
        return SeedSequence(int(random_state.integers(2**63)))
    if isinstance(random_state, SeedSequence):
        # A fresh copy: spawning counts children, and the same seed must give the same children next time.
        return SeedSequence(random_state.entropy, spawn_key=random_state.spawn_key)
    return SeedSequence(random_state)
