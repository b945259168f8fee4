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


def is_from(data: Any, *packages: str) -> bool:
    """Whether the type of an object, or a base class of it, is defined in one of these packages; imports nothing."""
    return any(base.__module__.partition(".")[0] in packages for base in type(data).__mro__)


def require(module: str, extra: str) -> Any:
    """Import `module`; the error names the extra of this package that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        message = f"This needs the package {package}: install it with pip install 'jointglasso[{extra}]'."
        raise ImportError(message, name=module) from error
