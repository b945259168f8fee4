"""Sparse factors on genes, where the rule keeps dense blocks: at the solution, and for sweeps of column ascent.

python benchmarks/sparse_genes.py FILE.npz [--genes 6000] [--lambdas 0.5 0.01]

FILE holds X (n, p), samples by genes, and the class labels y. Seconds of processor time on one core, raw covariances.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy import sparse

import jointglasso as jgl
from common import describe_machine
from jointglasso import config
from jointglasso.blocks.sparse_factor import FactorSparsity

#: Columns of W that are timed.
COLUMNS = 256


def seconds(function):
    """The result of the second call, and its seconds."""
    function()
    began = time.process_time()
    return function(), time.process_time() - began


def factors_at(name: str, Theta: sparse.csr_array) -> None:
    """Factor, inverse and columns of the largest component; columns and factors of one sweep of column ascent."""
    label = sparse.csgraph.connected_components(Theta)[1]
    largest = np.flatnonzero(label == np.bincount(label).argmax())
    Theta = Theta[largest][:, largest]
    upper, p = sparse.triu(Theta, 1, format="coo"), len(largest)
    sparsity = FactorSparsity.of(p, *(ends.astype(np.int64) for ends in upper.coords))
    factor, factored = seconds(lambda: sparsity.factor(Theta.diagonal(), upper.data))
    inverse, inverted = seconds(factor.invert)
    parts = np.split(np.linspace(0, p - 1, COLUMNS).astype(np.int64), COLUMNS // 32)
    each = seconds(lambda: [inverse.columns(part) for part in parts])[1] / COLUMNS
    print(f"# {name}: p {p}, edges {upper.nnz}, tail {sparsity.n_tail}, nnz(L) {len(sparsity.rows)}", end="; ")
    print(f"factor {factored:.4f} s, inverse {inverted:.4f} s, all columns of W {each * p:.2f} s", end="; ")
    print(f"a sweep: columns {each * (p + 2 * upper.nnz):.2f} s, a factor after each variable {p * factored:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--genes", type=int, help="a random subset of so many")
    parser.add_argument("--lambdas", type=float, nargs=2, default=[0.5, 0.01])
    options = parser.parse_args()
    describe_machine()
    data = np.load(options.file)
    X = data["X"][:, ~np.isnan(data["X"]).any(axis=0)]
    if options.genes:
        X = X[:, np.sort(np.random.default_rng(0).choice(X.shape[1], options.genes, replace=False))]
    source = jgl.SampleCovariance.from_labels(X, data["y"])
    config.SPARSE_BLOCK = 10**9
    dense, dense_seconds = seconds(lambda: jgl.solve(source, *options.lambdas, tol=1e-6))
    proof = f"largest {dense.partition.largest}, gap {dense.certificate.relative_gap:.0e}, {dense.n_iter} sweeps"
    print(f"# {X.shape[1]} genes, penalties {options.lambdas}, dense blocks: {dense_seconds:.1f} s, {proof}")
    for name, Theta in zip(dense.class_names, dense.precision, strict=True):
        factors_at(name, sparse.csr_array(Theta))


if __name__ == "__main__":
    main()
