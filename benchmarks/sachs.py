"""Sachs et al. 2005: which edges of the reference signalling networks are found, beside other tools.

    python benchmarks/sachs.py sachs2005_14conditions.csv.gz sachs2005_network.csv

Eleven proteins in T cells under the first nine conditions of the file (those of the 2005 paper), log intensities,
correlations. An edge counts as found when it is present in at least half of the conditions. References: the skeletons
and the moral graphs of two published directed networks. jointglasso: penalties by extended BIC. scikit-learn:
`GraphicalLassoCV` on each condition.
GGLasso: its joint solver at our penalties, to see that it finds the same edges.
"""

from __future__ import annotations

import argparse
import csv
import io
import time
import warnings
from contextlib import redirect_stdout
from itertools import combinations

import numpy as np

import jointglasso as jgl
from common import describe_machine, print_header, print_row


def references(path: str, names: tuple[str, ...]) -> dict[str, set[tuple[int, int]]]:
    position = {name.lower(): i for i, name in enumerate(names)}
    arcs: dict[str, list[tuple[int, int]]] = {}
    with open(path) as stream:
        for row in csv.DictReader(stream):
            ends = position.get(row["from"].lower()), position.get(row["to"].lower())
            if None not in ends:
                arcs.setdefault(row["network"], []).append(ends)  # type: ignore[arg-type]
    graphs = {}
    for network, found in arcs.items():
        skeleton = {tuple(sorted(arc)) for arc in found}
        parents: dict[int, set[int]] = {}
        for a, b in found:
            parents.setdefault(b, set()).add(a)
        married = {tuple(sorted(pair)) for group in parents.values() for pair in combinations(group, 2)}
        graphs[f"{network} skeleton"] = skeleton
        graphs[f"{network} moral"] = skeleton | married
    return graphs


def in_most(precision: list[np.ndarray]) -> set[tuple[int, int]]:
    """Edges present in at least half of the classes."""
    present = sum((np.abs(Theta) > 1e-8).astype(int) for Theta in precision)
    rows, columns = np.nonzero(np.triu(2 * present >= len(precision), 1))
    return set(zip(rows.tolist(), columns.tolist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells")
    parser.add_argument("network")
    arguments = parser.parse_args()
    describe_machine()
    table = jgl.io.read_table(arguments.cells, label="condition")
    table = table.select(classes=list(table.classes)[:9])
    X, y = np.log(table.X), table.y
    print(f"{len(X)} cells, {len(table.classes)} conditions: {', '.join(table.classes)}")
    graphs = references(arguments.network, table.variable_names)

    began = time.perf_counter()
    chosen = jgl.select(X, y)
    print(f"jointglasso {time.perf_counter() - began:.1f} s. {chosen.explain()}")
    began = time.perf_counter()
    tested = jgl.infer(X, y)
    print(f"infer {time.perf_counter() - began:.1f} s")
    found = {
        "jointglasso, joint extended BIC": in_most([Theta.toarray() for Theta in chosen.precision]),
        "jointglasso, infer at a false discovery rate of 0.01": in_most(
            [Theta.toarray() for Theta in tested.graph(0.01).precision]
        ),
    }

    from sklearn.covariance import GraphicalLassoCV
    from sklearn.preprocessing import StandardScaler

    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = [
            GraphicalLassoCV().fit(StandardScaler().fit_transform(X[y == name])).precision_ for name in table.classes
        ]
    print(f"scikit-learn {time.perf_counter() - began:.1f} s")
    found["scikit-learn, each condition, CV"] = in_most(alone)

    from gglasso.solver.admm_solver import ADMM_MGL

    S = np.stack([np.corrcoef(X[y == name].T) for name in chosen.solution.class_names])
    with redirect_stdout(io.StringIO()):
        start = np.stack([np.eye(len(S[0]))] * len(S))
        theirs, _ = ADMM_MGL(S, chosen.lambda1, chosen.lambda2, "GGL", start, tol=1e-9, rtol=1e-9)
    found["GGLasso at our penalties"] = in_most(list(theirs["Theta"]))

    print_header("method", "edges", *(f"{name} ({len(edges)}): found / right" for name, edges in graphs.items()))
    for method, edges in found.items():
        scores = [f"{len(edges & graph)} / {len(edges & graph) / max(1, len(edges)):.0%}" for graph in graphs.values()]
        print_row(method, len(edges), *scores)
    names = table.variable_names
    for method in list(found)[:2]:
        print(f"{method}:", ", ".join(f"{names[a]}-{names[b]}" for a, b in sorted(found[method])))


if __name__ == "__main__":
    main()
