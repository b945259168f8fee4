"""The fused family beside GGLasso's FGL and our plain ADMM, on big blocks of real genes, and over fifty time points.

    python benchmarks/fused.py peers [--most 300] [--least 1000 --classes 3 --rung 2 --limit 60]
    python benchmarks/fused.py genes FILE.npz [--p 2000]
    python benchmarks/fused.py times
    python benchmarks/fused.py short

peers: chains of classes on the same covariances, the diagonal unpenalised, which is GGLasso's convention. GGLasso gets
the loosest of several tolerances that brings it within a relative 1e-6 of the optimum, which is ours at 1e-9: no time
is spent on what is not asked for. `--rung` begins with a tighter one. `--limit` is what a case may take GGLasso, all
tolerances together, as a number of iterations: where it is not there by then it is stopped, with its gap beside the
time it has had, and the ratio is more than the one that is printed. Ours is the time to a proved gap of 1e-6. All are
seconds of processor time, so that the load of the machine does not matter much. Compiling is not counted. `genes`: FILE
as for real_genes.py; the yardstick is one Cholesky factor and inverse of the solution's blocks. `times`: K=50, p=200.
`short`: K=50 and few variables, beside GGLasso's FGL as in `peers`. GGLasso does not compare diagonals: rows with fused
diagonals are beside its time without. OMP_NUM_THREADS=1 keeps BLAS from waiting on threads, which counts as work.
"""

from __future__ import annotations

import argparse
import io
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from typing import Any

import numpy as np

import jointglasso as jgl
from common import describe_machine, matched_lambdas, paper_covariances, print_header, print_row
from jointglasso.problem import make_problem
from real_genes import blocks_of, factor_and_invert, load
from synthetic import make_joint_ggm

GAP = 1e-6

#: GGLasso's absolute and relative tolerances, loosest first.
LADDER = [(1e-5, 1e-3), (1e-6, 1e-4), (1e-7, 3e-5), (1e-9, 1e-5), (1e-10, 1e-6)]

#: Expression-like data, 100 samples a class: lambda1 that leaves small components, and one that leaves a giant one.
EXPRESSION = {100: (0.35, 0.2), 300: (0.38, 0.22), 1000: (0.42, 0.28)}


def gglasso(
    S: np.ndarray, lambda1: float, lambda2: float, tol: float, rtol: float, max_iter: int = 1000
) -> tuple[list[np.ndarray], bool]:
    """Precision matrices of GGLasso's fused problem over consecutive classes, and whether it met its tolerances."""
    from gglasso.problem import glasso_problem

    penalties = {"lambda1": lambda1, "lambda2": lambda2}
    problem = glasso_problem(S.copy(), 100, reg="FGL", reg_params=penalties, do_scaling=False)
    with redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(tol=tol, rtol=rtol, solver_params={"max_iter": max_iter})
    return list(problem.solution.precision_), problem.solver_info["status"] == "optimal"


def chain(S: np.ndarray, lambda1: float, lambda2: float, solver: str = "auto", **options: Any) -> jgl.Solution:
    return jgl.solve(S, lambda1, lambda2, penalty="chain", penalize_diagonal=False, solver=solver, **options)


def problems(most: int, least: int = 0, classes: tuple[int, ...] = (3, 6, 10)):
    """Name, covariances and penalties of the cases."""
    for p in (size for size in EXPRESSION if least <= size <= most):
        for n_classes in classes:
            yield f"paper A, p={p}, K={n_classes}", paper_covariances("A", p, n_classes), *matched_lambdas("P2", p)
            data = make_joint_ggm("modules", p, n_classes, n_samples=100, random_state=0)
            S = np.array([np.corrcoef(X.T) for X in data.samples])
            for kind, lambda1 in zip(("sparse", "connected"), EXPRESSION[p], strict=True):
                yield f"expression {kind}, p={p}, K={n_classes}", S, lambda1, 0.3 * lambda1


def processor_time(repeats: int, function: Callable[[], Any]) -> tuple[float, Any]:
    """The least processor time that a call took, and what it returned."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        found = function()
        times.append(time.process_time() - began)
    return min(times), found


def peers(arguments: argparse.Namespace) -> None:
    """One row for each case, GGLasso and our ADMM beside the default."""
    print_header("data", "edges", "largest", "ours s", "gap", "GGLasso s", "gap", "times", "our ADMM s", "times")
    small = np.stack([np.eye(8)] * 3) + 0.1
    gglasso(small, 0.05, 0.01, 1e-3, 1e-3)
    for name, S, lambda1, lambda2 in problems(arguments.most, arguments.least, tuple(arguments.classes)):
        if arguments.only not in name:
            continue
        best = chain(S, lambda1, lambda2, tol=1e-9).objective
        seconds, ours = processor_time(10 if S.shape[1] <= 300 else 3, partial(chain, S, lambda1, lambda2))
        objective = make_problem(S, lambda1, lambda2, penalty="chain", penalize_diagonal=False).objective
        slow, gap = climb(partial(gglasso, S, lambda1, lambda2), partial(relative_gap, objective, best), arguments)
        reached = "" if gap <= GAP else "> "
        cells = [f"{slow:.3g}", f"{gap:.0e}", f"{reached}{slow / seconds:.0f}", "-", "-"]
        if S.shape[1] <= arguments.admm:
            plain, _ = processor_time(1, partial(chain, S, lambda1, lambda2, "admm"))
            cells[3:] = f"{plain:.3g}", f"{plain / seconds:.0f}"
        print_row(
            name, sum(ours.n_edges), ours.partition.largest, f"{seconds:.4f}", f"{ours.certificate.relative_gap:.0e}",
            *cells,
        )  # fmt: skip


def short(arguments: argparse.Namespace) -> None:
    """Fifty time points of few variables, the data of `side_by_side.py`."""
    print_header("variables", "diagonals", "ours s", "gap", "GGLasso s", "gap", "times")
    small = np.stack([np.eye(8)] * 3) + 0.1
    gglasso(small, 0.05, 0.01, 1e-3, 1e-3)
    for p in (20, 50):
        rng = np.random.default_rng(0)
        mixing = np.eye(p) + 0.4 * (rng.random((p, p)) < 2.0 / p)
        S = np.stack([np.corrcoef(rng.standard_normal((150, p)) @ mixing, rowvar=False) for _ in range(50)])
        best = chain(S, 0.2, 0.05, tol=1e-9).objective
        objective = make_problem(S, 0.2, 0.05, penalty="chain", penalize_diagonal=False).objective
        slow, gap = climb(partial(gglasso, S, 0.2, 0.05), partial(relative_gap, objective, best), arguments)
        for fused in (False, True):
            chain(S, 0.2, 0.05, fuse_diagonal=fused)
            seconds, ours = processor_time(15, partial(chain, S, 0.2, 0.05, fuse_diagonal=fused))
            print_row(
                p, "fused" if fused else "free", f"{seconds:.4f}", f"{ours.certificate.relative_gap:.0e}",
                f"{slow:.3g}", f"{gap:.0e}", f"{slow / seconds:.1f}",
            )  # fmt: skip


def relative_gap(objective: Callable[[list[np.ndarray]], float], best: float, found: list[np.ndarray]) -> float:
    return (objective(found) - best) / abs(best)


def climb(
    theirs: Callable[..., tuple[list[np.ndarray], bool]],
    gap_of: Callable[[list[np.ndarray]], float],
    arguments: argparse.Namespace,
) -> tuple[float, float]:
    """Processor time and gap of GGLasso at the first tolerance that is tight enough, or where its time was over."""
    left, each = float(arguments.limit), 0.0
    if np.isfinite(left):
        each = processor_time(1, partial(theirs, 0.0, 0.0, 10))[0] / 10
    for tolerances in LADDER[arguments.rung :]:
        most = 1000 if each <= 0.0 else max(1, int(left / each))
        slow, (found, met) = processor_time(3 if each == 0.0 else 1, partial(theirs, *tolerances, most))
        gap, left = gap_of(found), left - slow
        if gap <= GAP or not met or left <= 0.0:
            break
    return slow, gap


def genes(arguments: argparse.Namespace) -> None:
    """Big blocks against their own Cholesky factor and inverse."""
    S = load(arguments.file, arguments.p)
    print_header("penalty", "lambdas", "edges", "largest", "seconds", "gap", "Cholesky and inverse", "times", "methods")
    for lambda1, lambda2 in ((0.6, 0.1), (0.5, 0.1)):
        for penalty in ("group", "chain", "fused"):
            solve = partial(jgl.solve, S, lambda1, lambda2, penalty=penalty, tol=GAP)
            seconds, found = processor_time(arguments.repeats, solve)
            blocks = blocks_of(found)
            yardstick, _ = processor_time(5, partial(factor_and_invert, blocks))
            print_row(
                penalty, f"{lambda1}, {lambda2}", sum(found.n_edges), max(len(b) for b in blocks), f"{seconds:.3f}",
                f"{found.certificate.relative_gap:.0e}", f"{yardstick:.3f}", f"{seconds / yardstick:.0f}",
                found.methods,
            )  # fmt: skip


def times(arguments: argparse.Namespace) -> None:
    """Fifty time points of two hundred variables."""
    rng = np.random.default_rng(0)
    data = make_joint_ggm("modules", 200, 2, n_samples=2, random_state=0)
    ends = [np.linalg.inv(Theta.toarray()) for Theta in data.precisions]
    S = []
    for t in range(50):  # a network that turns into another one half-way
        factor = np.linalg.cholesky(ends[int(t >= 25)])
        S.append(np.corrcoef((rng.standard_normal((100, 200)) @ factor.T).T))
    print_header("penalty", "lambdas", "edges", "largest", "seconds", "gap", "methods")
    for penalty in ("chain", "laplacian"):
        for lambda1 in (0.3, 0.2):
            seconds, found = processor_time(2, partial(jgl.solve, np.array(S), lambda1, 0.2, penalty=penalty, tol=GAP))
            print_row(
                penalty, f"{lambda1}, 0.2", sum(found.n_edges), found.partition.largest, f"{seconds:.2f}",
                f"{found.certificate.relative_gap:.0e}", found.methods,
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("peers")
    one.add_argument("--least", type=int, default=0, help="smallest number of variables")
    one.add_argument("--classes", type=int, nargs="*", default=[3, 6, 10])
    one.add_argument("--only", default="", help="part of the names of the cases")
    one.add_argument("--rung", type=int, default=0, help="the first of GGLasso's tolerances to be tried")
    one.add_argument("--limit", type=float, default=np.inf, help="most seconds of processor time for GGLasso, roughly")
    one.add_argument("--most", type=int, default=1000, help="largest number of variables")
    one.add_argument("--admm", type=int, default=300, help="largest number of variables for our plain ADMM")
    two = kinds.add_parser("genes")
    two.add_argument("file")
    two.add_argument("--p", type=int, default=2000)
    two.add_argument("--repeats", type=int, default=2)
    kinds.add_parser("times")
    kinds.add_parser("short").set_defaults(rung=0, limit=np.inf)
    arguments = parser.parse_args()
    describe_machine()
    {"peers": peers, "genes": genes, "times": times, "short": short}[arguments.kind](arguments)


if __name__ == "__main__":
    main()
