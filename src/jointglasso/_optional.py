"""Import of optional dependencies on use."""

from __future__ import annotations

import importlib
from typing import Any


def version_of(package: str) -> str | None:
    """Version of an installed package; None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def require(module: str, extra: str) -> Any:
    """Import `module`; the error names the extra of this package that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        message = f"This needs the package {package}: install it with pip install 'jointglasso[{extra}]'."
        raise ImportError(message, name=module) from error
