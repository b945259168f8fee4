"""`jointglasso doctor`: versions, cores, memory and compiled kernels of this machine."""

from __future__ import annotations

import platform
from typing import Any

import click

import jointglasso as jgl
from jointglasso._optional import version_of
from jointglasso.cli.session import Command, Session

NEEDED = ("numpy", "scipy", "numba", "scikit-learn", "pandas", "click", "rich")
OPTIONAL = ("matplotlib", "pyarrow", "openpyxl", "anndata", "networkx", "igraph", "polars")


@click.command(cls=Command)
@click.option("--warm", is_flag=True, help="Compile every kernel now, so that later runs start at once.")
@click.pass_obj
def doctor(session: Session, warm: bool) -> None:
    """Show versions, cores, memory and compiled kernels.

    Kernels are compiled on first use and cached; --warm compiles them now.

    \b
    Example:
      jointglasso doctor --warm
    """
    facts = _facts()
    if warm:
        facts["seconds_to_warm"] = jgl.warm_kernels()
    for name, value in facts.items():
        session.echo(f"{name:<16}{_words(value)}")
    facts["kernels"] = _kernels(session)
    session.add(**facts)


def _facts() -> dict[str, Any]:
    import scipy.linalg  # noqa: F401  loads the BLAS that is then listed
    from threadpoolctl import threadpool_info

    from jointglasso._memory import available_memory
    from jointglasso._threads import available_cores

    libraries = {library["internal_api"]: library for library in threadpool_info()}
    return {
        "jointglasso": jgl.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "packages": {name: version_of(name) for name in NEEDED},
        "optional": {name: version_of(name) for name in OPTIONAL},
        "cores": available_cores(),
        "memory_bytes": available_memory(),
        "threads": {name: f"{facts.get('version')} ({facts['num_threads']})" for name, facts in libraries.items()},
    }


def _kernels(session: Session) -> dict[str, Any]:
    from jointglasso.warm import kernel_cache

    cache = kernel_cache()
    where = "not cached" if cache.folder is None else f"in {cache.folder}"
    session.echo(f"Compiled kernels: {cache.n_ready} of {cache.n_kernels}, {where}")
    if not cache.sweeps:
        warm = ": jointglasso doctor --warm compiles them now" if cache.folder else " in every process"
        session.echo(f"The first solve will take half a minute longer{warm}.")
    return {"ready": cache.n_ready, "all": cache.n_kernels, "folder": cache.folder, "lasting": cache.lasting}


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {content or '(not installed)'}" for name, content in value.items())
    return f"{value:,.0f}" if isinstance(value, float) else str(value)
