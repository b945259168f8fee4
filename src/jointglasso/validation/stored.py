"""Tables that lie in files, sent to another process as the place where they lie."""

from __future__ import annotations

import mmap
import os
from importlib import import_module
from typing import Any

import numpy as np

from jointglasso.errors import InputError


def place_of(table: Any) -> tuple[Any, ...] | None:
    """Where a whole mapped array or a dataset of h5py lies on disk; None for tables that must travel themselves.

    Arrays of zarr know how to travel without their numbers, so they are none of our business.
    """
    base: Any = getattr(table, "base", None)
    if isinstance(table, np.memmap) and isinstance(base, mmap.mmap) and table.filename is not None:
        order = "C" if table.flags.c_contiguous else "F"
        path = os.path.abspath(table.filename)
        return "mapped", path, os.path.getsize(path), (table.dtype, table.offset, table.shape, order)
    if type(table).__module__.partition(".")[0] == "h5py" and hasattr(table, "file"):
        path = os.path.abspath(table.file.filename)
        return "h5py", path, os.path.getsize(path), (table.name,)
    return None


def is_stored(table: Any) -> bool:
    """Whether another process can read a table where it lies."""
    return place_of(table) is not None or type(table).__module__.partition(".")[0] == "zarr"


def open_place(place: tuple[Any, ...]) -> Any:
    """The table at a place, in the process that it was sent to."""
    kind, path, size, where = place
    try:
        found = os.path.getsize(path)
    except OSError as error:
        raise FileNotFoundError(
            f"A worker cannot read the samples at {path} ({error.strerror}): put them on storage that every worker "
            "sees under the same path, or read them into memory before."
        ) from None
    if found != size:
        raise InputError(
            f"A worker finds another file of samples at {path}: {found} bytes instead of {size}.", "samples"
        )
    if kind == "mapped":
        dtype, offset, shape, order = where
        return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)
    return import_module("h5py").File(path, "r")[where[0]]
