"""Array arithmetic on devices other than the CPU: CUDA, through CuPy."""

from importlib import import_module
from types import ModuleType

#: Modules that scan for pairs, by the value of `device`; `gpu` defines the interface.
SCANNERS = {"cuda": "gpu"}


class DeviceFailed(RuntimeError):
    """The device has too little memory, or its matrix products are less exact than single precision."""


def scanner(device: str) -> ModuleType:
    """The module that scans for pairs on a device."""
    return import_module(f"jointglasso.backends.{SCANNERS[device]}")
