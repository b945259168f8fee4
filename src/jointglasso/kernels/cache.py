"""Where compiled kernels are kept between processes, and what happens where nothing may be written.

numba keeps compiled code in the folder that NUMBA_CACHE_DIR names, beside the package, or in the user's cache folder.
In a read-only container none of them can be written; then a folder of our own among the temporary files serves, and
without that the kernels are compiled anew in every process.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba

#: What to do where compiled code cannot be kept.
REMEDY = "set the environment variable NUMBA_CACHE_DIR to a folder that can be written and stays"


class CacheWarning(UserWarning):
    """Compiled code cannot be kept where it should be."""


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile like `numba.njit`, and keep the code wherever a folder can be written; the kernels use this alone.

    A function whose name begins with an underscore is called by other kernels only: it gets no door to Python, which
    takes as long to compile as many a kernel; nor does any get one to C.
    """
    options = {"no_cfunc_wrapper": True, **options}

    def decorate(function: Callable[..., Any]) -> Any:
        if function.__name__.startswith("_"):
            options["no_cpython_wrapper"] = True
        try:
            return _stamped(numba.njit(**options)(function))
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
        folder = temporary_folder()
        if folder is None:
            return numba.njit(**{**options, "cache": False})(function)
        usual = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)  # read when a function is decorated, and of no concern to others
        try:
            return _stamped(numba.njit(**options)(function))
        finally:
            numba.config.CACHE_DIR = usual

    return decorate


def _stamped(kernel: Any) -> Any:
    """Make the cached code of a kernel stand or fall with the sources of all kernels.

    numba looks at the file of a kernel alone, but code from other files, such as the functions of a penalty, is
    compiled into it: an edit there would leave stale code behind.
    """
    cached: Any = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if hasattr(cached, "_source_stamp"):
        cached._source_stamp = sources_digest()
    return kernel


@cache
def sources_digest() -> str:
    """Digest of the sources of all kernels."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def temporary_folder() -> Path | None:
    """Folder for compiled code among the temporary files, or None; the first call warns."""
    folder = private_folder()
    instead = "in every process anew" if folder is None else f"into {folder}, which may not last"
    message = f"No folder for compiled code can be written, so kernels are compiled {instead}: {REMEDY}."
    warnings.warn(message, CacheWarning, stacklevel=2)
    return folder


def cache_lasts() -> bool:
    """Whether the kernels loaded so far are kept in a folder of numba's, not among the temporary files or nowhere."""
    return temporary_folder.cache_info().currsize == 0


def private_folder() -> Path | None:
    """Make or find a folder that nobody else can write: what lies in it will be executed."""
    try:
        user = os.getuid() if hasattr(os, "getuid") else None
        folder = Path(tempfile.gettempdir(), "jointglasso-kernels" if user is None else f"jointglasso-kernels-{user}")
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        private = user is None or (found.st_uid == user and stat.S_IMODE(found.st_mode) & 0o077 == 0)
        if not stat.S_ISDIR(found.st_mode) or not private:
            return None
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    return folder
