"""The command line: a thin front of the library."""

from __future__ import annotations

import platform
import time
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from jointglasso.cli.reproduce import reproduce

if TYPE_CHECKING:
    from jointglasso import CovarianceSource, Solution


@click.group()
@click.version_option(package_name="jointglasso")
def main() -> None:
    """Exact joint graphical lasso: several related networks, with a proof of optimality."""


main.add_command(reproduce)


@main.command()
@click.option("--lambda1", default=0.5, show_default=True, help="Sparsity penalty.")
@click.option("--lambda2", default=0.1, show_default=True, help="Similarity penalty.")
@click.option("--tol", default=1e-8, show_default=True, help="Relative duality gap to reach.")
def demo(lambda1: float, lambda2: float, tol: float) -> None:
    """Learn the protein networks of six cancers from data inside the package.

    Example: jointglasso demo --lambda1 0.4
    """
    import jointglasso as jgl

    table = jgl.datasets.load_rppa()
    click.echo(f"{table.source}: {table.X.shape[0]} samples.\n")
    source = table.to_source(correlation=True)
    click.echo("Preparing: kernels are compiled once per machine, which takes about half a minute.\n", err=True)
    jgl.solve(table.select(table.variable_names[:80]).to_source(correlation=True), lambda1, lambda2)
    _show_screens(source, lambda1, lambda2)
    began = time.perf_counter()
    solution = jgl.solve(source, lambda1, lambda2, tol=tol)
    _show_solution(solution, time.perf_counter() - began)


def _show_screens(source: CovarianceSource, lambda1: float, lambda2: float) -> None:
    """Table of what each screening rule leaves to be solved."""
    import jointglasso as jgl

    click.echo(f"Screening at lambda1={lambda1:g}, lambda2={lambda2:g}:")
    click.echo(f"  {'rule':<10}{'blocks':>8}{'biggest':>10}{'cost (sum of cubes)':>22}")
    for rule in ("none", "global", "class", "hybrid"):
        partition = jgl.screen(source, lambda1, lambda2, rule=rule)
        click.echo(f"  {rule:<10}{partition.n_blocks:>8}{partition.largest:>10}{partition.cost:>22,}")


def _show_solution(solution: Solution, seconds: float) -> None:
    """Edges of each class, shared edges, and the certificate."""
    import numpy as np

    click.echo(f"\nSolved in {seconds:.3f} s: {solution.status}")
    for name, edges in zip(solution.class_names, solution.n_edges, strict=True):
        click.echo(f"  {name:<10}{edges:>6} edges")
    in_classes = sum((Theta != 0).astype(np.int64) for Theta in solution.precision)
    shared = (int((in_classes == len(solution.precision)).sum()) - in_classes.shape[0]) // 2
    click.echo(f"  {'all':<10}{shared:>6} edges are shared by all classes")
    proof = solution.certificate
    click.echo(
        f"\nProof: objective {proof.objective:.10g}, optimum at least {proof.dual_objective:.10g}.\n"
        f"{proof.edges_present:,} edges are proved present, {proof.edges_absent:,} proved absent, "
        f"{proof.edges_undetermined:,} undetermined."
    )


@main.command()
@click.option("--warm", is_flag=True, help="Compile every kernel now, so that later runs start at once.")
def doctor(warm: bool) -> None:
    """Show versions and threads; with --warm, fill the kernel cache.

    Example: jointglasso doctor --warm
    """
    import scipy.linalg  # noqa: F401  loads the BLAS that is then listed
    from threadpoolctl import threadpool_info

    import jointglasso as jgl

    click.echo(f"jointglasso {jgl.__version__}, Python {platform.python_version()} on {platform.machine()}")
    for package in ("numpy", "scipy", "numba", "scikit-learn", "joblib"):
        click.echo(f"  {package} {version(package)}")
    for library in threadpool_info():
        click.echo(f"  {library['internal_api']} {library.get('version')}: {library['num_threads']} threads")
    if warm:
        click.echo(f"Kernels ready in {jgl.warm_kernels():.1f} s.")
