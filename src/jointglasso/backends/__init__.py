"""Where arithmetic on whole arrays is done, apart from this processor: a CUDA device, through CuPy."""

from importlib import import_module
from types import ModuleType

#: Modules that scan for pairs, by the word of `device=` that asks for them; `gpu` shows what they offer.
SCANNERS = {"cuda": "gpu"}


class DeviceFailed(RuntimeError):
    """The device has too little memory, or its products are not those of single precision."""


def scanner(device: str) -> ModuleType:
    """The module that scans for pairs on a device."""
    return import_module(f"jointglasso.backends.{SCANNERS[device]}")
