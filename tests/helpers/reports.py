"""Solutions to make reports of: a small real one, one with awkward names, and one as big as a page must bear."""

from functools import cache

import numpy as np
from scipy import sparse

import jointglasso as jgl
from jointglasso.networks import JointNetworks
from jointglasso.screening import Partition
from jointglasso.solution import Certificate, History, Solution, Status

#: Names that would run code, end the data or break a table if they were taken for markup.
HOSTILE_NAMES = (
    "</script><img src=x onerror=\"window.broken='markup'\">",
    "<!--<script>",
    "{{script}}",
    "'\"&amp;<b>",
    "a,b\nc",
    "\u2028line\u2029",
    "=1+1",
    "ß→蛋白 \U0001f9ec",
    "__proto__",
    "",
)


@cache
def protein_solution(n_variables=40, lambda1=0.25, lambda2=0.05, penalty="group"):
    """Real data: the first proteins of six cancers."""
    table = jgl.datasets.load_rppa()
    part = table.select(table.variable_names[:n_variables])
    return jgl.solve(part.to_source(scale="correlation"), lambda1, lambda2, penalty=penalty)


def made_solution(precision, class_names, variable_names, *, converged=True, certified=None, parameters=None):
    """Wrap matrices that come from no solve."""
    nothing = [sparse.csc_array(Theta.shape, dtype=bool) for Theta in precision]
    n_edges = sum((Theta.nnz - Theta.shape[0]) // 2 for Theta in precision)
    return Solution(
        precision=list(precision),
        objective=12.5,
        certificate=Certificate(12.5, 0.25, np.array([0.25]), n_edges, 7, 3),
        partition=Partition.single_block(len(precision), precision[0].shape[0]),
        status=Status(converged, "Stopped after 3 iterations.", "" if converged else "Raise max_iter."),
        n_iter=3,
        timings={"total": 0.5},
        history=History(),
        solver="auto",
        screening="dynamic",
        methods={},
        class_names=tuple(class_names),
        variable_names=tuple(variable_names),
        certified=certified or nothing,
        parameters=parameters or {},
    )


def ring(n_variables, value, *, skip=()):
    """Precision matrix of a ring, without the edges that start at `skip`."""
    first = np.array([i for i in range(n_variables) if i not in skip], dtype=int)
    second = (first + 1) % n_variables
    upper = sparse.coo_array((np.full(len(first), value), (first, second)), shape=(n_variables, n_variables))
    return sparse.csc_array(upper + upper.T + 2.0 * sparse.eye_array(n_variables))


def hostile_solution():
    """Awkward names of variables and classes on a ring that differs between two classes."""
    n = len(HOSTILE_NAMES)
    return made_solution([ring(n, -0.5), ring(n, 0.4, skip=(3,))], (HOSTILE_NAMES[0], "<b>B</b>"), HOSTILE_NAMES)


def edgeless_solution():
    return made_solution([sparse.csc_array(sparse.eye_array(4))] * 2, ("A", "B"), "abcd")


@cache
def big_solution(n_variables=2000, n_pairs=10000, n_classes=4):
    """Modules with hubs; every pair is an edge in about two thirds of the classes, and in one at least."""
    rng = np.random.default_rng(0)
    weight = rng.zipf(1.8, size=n_variables).clip(1, 60).astype(float)
    module = rng.integers(0, 25, n_variables)
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < n_pairs:
        one = rng.choice(n_variables, 20000, p=weight / weight.sum())
        two = rng.integers(0, n_variables, 20000)
        kept = (one != two) & ((module[one] == module[two]) | (rng.random(20000) < 0.01))
        low, high = np.minimum(one, two)[kept], np.maximum(one, two)[kept]
        keys = np.unique(np.concatenate([keys, low * n_variables + high]))
    first, second = np.divmod(rng.permutation(keys)[:n_pairs], n_variables)
    present = rng.random((n_classes, n_pairs)) < 2 / 3
    present[rng.integers(0, n_classes, n_pairs), np.arange(n_pairs)] = True
    precision = []
    for mine in present:
        value = rng.normal(scale=0.1, size=int(mine.sum()))
        upper = sparse.coo_array((value, (first[mine], second[mine])), shape=(n_variables, n_variables))
        precision.append(sparse.csc_array(upper + upper.T + sparse.eye_array(n_variables)))
    return made_solution(precision, "ABCD"[:n_classes], [f"gene{i}" for i in range(n_variables)])


def made_stability(networks: JointNetworks):
    """Frequencies that differ from edge to edge."""
    edges = networks.edge_list
    frequency = (np.arange(len(edges)) % 101) / 100.0
    p = networks.n_variables
    matrices = []
    for k in range(networks.n_classes):
        mine = edges.class_index == k
        matrices.append(sparse.coo_array((frequency[mine], (edges.first[mine], edges.second[mine])), shape=(p, p)))
    return matrices
