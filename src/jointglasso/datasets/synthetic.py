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
from typing import Any, Literal

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from scipy import sparse
from scipy.linalg import blas, lapack
from scipy.sparse.csgraph import connected_components

from jointglasso._cached_property import cached_property
from jointglasso._typing import FloatArray, IntArray
from jointglasso.data.checks import InputError, check_choice, check_count

__all__ = ["JointData", "make_joint_ggm"]

RandomState = int | SeedSequence | Generator | None

KINDS = ("A", "B", "C", "modules")
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
    class_names, variable_names : tuple of str
        "class1", ... and "x1", ...
    parameters : dict
        The values `make_joint_ggm` used, defaults filled in, and the seed's `entropy` and `spawn_key`.

    Examples
    --------
    >>> import jointglasso as jgl
    >>> data = jgl.datasets.make_joint_ggm("A", p=20, n_classes=2, random_state=0)
    >>> data.class_names, data.precisions[0].shape
    (('class1', 'class2'), (20, 20))
    """

    precisions: list[sparse.csc_array]
    samples: list[FloatArray] | None
    n_samples: tuple[int, ...]
    class_names: tuple[str, ...]
    variable_names: tuple[str, ...]
    parameters: dict[str, Any]
    _data_seeds: tuple[SeedSequence, ...] = field(repr=False)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} ({size})" for name, size in zip(self.class_names, self.n_samples, strict=True))
        return f"<JointData: {len(self.variable_names):,} variables, samples of {sizes}>"

    @cached_property
    def labels(self) -> IntArray:
        """True partition, shape (K, p): connected component of each variable in each class."""
        return np.stack([_component_labels(precision) for precision in self.precisions])

    @property
    def X(self) -> FloatArray:
        """Samples of all classes stacked, shape (sum of n_k, p)."""
        if self.samples is None:
            raise InputError("no samples were drawn: call make_joint_ggm with output='samples'", "output")
        return np.concatenate(self.samples)

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
        True precision matrices, samples or covariances, and names.

    Examples
    --------
    >>> data = make_joint_ggm("C", p=50, n_classes=3, random_state=0)
    >>> data.covariances.shape
    (3, 50, 50)
    """
    check_choice("kind", kind, KINDS)
    check_choice("output", output, ("samples", "covariances"))
    p, n_classes = check_count("p", p, 2), check_count("n_classes", n_classes)
    counts = _sample_counts(n_samples, 100 if kind == "modules" else 5 * p, n_classes)
    build: Callable[..., sparse.csc_array]
    if kind == "A":
        build, settings = _sparse_precision, _sparse_settings(r, density, shared)
    elif kind == "modules":
        build, settings = _module_precision, _module_settings(p, shared, n_blocks, noise, loadings)
    else:
        build, settings = _block_precision, _block_settings(p, r, n_blocks, moved if kind == "C" else 0.0)
    root = _seed_sequence(random_state)
    common_seed, *class_seeds = root.spawn(1 + n_classes)
    seeds = [seed.spawn(2) for seed in class_seeds]
    # The common stream is restarted for every class, so that all classes get the same common structure.
    precisions = [build(p, default_rng(common_seed), default_rng(seed), **settings) for seed, _ in seeds]
    if kind != "modules":
        _check_positive_definite(precisions, settings["r"], "density" if kind == "A" else "the block size")
    data = JointData(
        precisions=precisions,
        samples=None,
        n_samples=counts,
        class_names=tuple(f"class{k + 1}" for k in range(n_classes)),
        variable_names=tuple(f"x{j + 1}" for j in range(p)),
        parameters={"kind": kind, "p": p, "n_classes": n_classes, "n_samples": counts, "output": output}
        | {**settings, "entropy": root.entropy, "spawn_key": root.spawn_key},
        _data_seeds=tuple(data_seed for _, data_seed in seeds),
    )
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
    p = len(data.variable_names)
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


def _require(valid: bool, name: str, value: object, expected: str) -> None:
    if not valid:
        raise InputError(f"{name}={value!r} is not valid: it must be {expected}", name)


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer)


def _sample_counts(n_samples: int | Sequence[int] | None, default: int, n_classes: int) -> tuple[int, ...]:
    requested = default if n_samples is None else n_samples
    counts = list(requested) if isinstance(requested, Sequence | np.ndarray) else [requested] * n_classes
    valid = len(counts) == n_classes and all(_is_integer(n) and n >= 2 for n in counts)
    _require(valid, "n_samples", n_samples, f"an integer of at least 2, or n_classes={n_classes} of them")
    return tuple(int(n) for n in counts)


def _sparse_settings(r: float | None, density: float, shared: float) -> dict[str, Any]:
    r = 0.006 if r is None else r
    _require(0.0 < r < 1.0, "r", r, "in (0, 1)")
    _require(0.0 < density <= 1.0, "density", density, "in (0, 1]")
    _require(0.0 <= shared <= 1.0, "shared", shared, "in [0, 1]")
    return {"r": r, "density": density, "shared": shared}


def _block_settings(p: int, r: float | None, n_blocks: int, moved: float) -> dict[str, Any]:
    r = 0.0066 if r is None else r
    fits = _is_integer(n_blocks) and 1 <= n_blocks <= p
    _require(0.0 < r < 1.0, "r", r, "in (0, 1)")
    _require(fits, "n_blocks", n_blocks, f"an integer from 1 to p={p}")
    _require(0.0 <= moved <= 1.0, "moved", moved, "in [0, 1]")
    _require(n_blocks > 1 or moved == 0.0, "moved", moved, "0, as n_blocks=1 leaves no other block")
    return {"r": r, "n_blocks": n_blocks, "moved": moved}


def _module_settings(
    p: int, shared: float, n_blocks: int, noise: float, loadings: tuple[float, float]
) -> dict[str, Any]:
    _require(0.0 <= shared <= 1.0, "shared", shared, "in [0, 1]")
    _require(0.0 <= noise < 1.0, "noise", noise, "in [0, 1)")
    low, high = loadings
    _require(0.0 < low <= high < 1.0, "loadings", loadings, "(low, high) with 0 < low <= high < 1")
    # 1e-9 corrects rounding, as in 100 * (1 - 0.9) = 9.99...
    n_members = int(p * (1.0 - noise) + 1e-9)
    expected = f"an integer from 1 to {n_members // 2}, as p={p} and noise={noise} leave {n_members} variables"
    _require(_is_integer(n_blocks) and 1 <= n_blocks <= n_members // 2, "n_blocks", n_blocks, expected)
    counts = {"module_size": n_members // n_blocks, "n_common_modules": round(shared * n_blocks)}
    return {"shared": shared, "n_blocks": n_blocks, "noise": noise, "loadings": (low, high), **counts}


def _seed_sequence(random_state: RandomState) -> SeedSequence:
    if isinstance(random_state, Generator):
        return SeedSequence(int(random_state.integers(2**63)))
    if isinstance(random_state, SeedSequence):
        # A fresh copy: spawning counts children, and the same seed must give the same children next time.
        return SeedSequence(random_state.entropy, spawn_key=random_state.spawn_key)
    valid = random_state is None or (_is_integer(random_state) and random_state >= 0)
    _require(valid, "random_state", random_state, "a non-negative integer, SeedSequence, Generator or None")
    return SeedSequence(random_state)


def _check_positive_definite(precisions: list[sparse.csc_array], r: float, other_cause: str) -> None:
    for k, precision in enumerate(precisions):
        # Diagonal dominance (absolute column sums below twice the diagonal) is sufficient and cheap to test.
        if abs(precision).sum(axis=0).max() < 2.0 * DIAGONAL:
            continue
        if any(_cholesky(precision, members) is None for members in _components(precision)):
            problem = f"r={r!r} makes the precision matrix of class{k + 1} not positive definite"
            raise InputError(f"{problem}: lower r or {other_cause}", "r")
