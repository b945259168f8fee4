"""Compilation of kernels by numba, and the folder in which the compiled code is cached between processes.

numba checks the file of a kernel for changes, but code of other files, such as the functions of a penalty, is compiled
into it. The name of the cache folder therefore contains a digest of the sources of all kernels. Cached code is executed
when it is loaded, so that the folder must belong to the user, and others must not be able to write to it.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import pickle
import shutil
import stat
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numba

#: What to do where compiled code cannot be cached.
REMEDY = "set the environment variable NUMBA_CACHE_DIR to a folder that can be written and stays"

#: Errors of reading a damaged cache file, and of writing to a full disk.
_CACHE_ERRORS = (
    pickle.UnpicklingError, EOFError, AttributeError, ImportError, LookupError, MemoryError, TypeError, ValueError,
    OverflowError, OSError,
)  # fmt: skip

#: Seconds of compiling or loading a kernel after which it is announced.
_SILENT_SECONDS = 2.0

#: Called with the sentence that says what is being compiled; the command line prints it.
announce: Callable[[str], None] = logging.getLogger("jointglasso").info


class CacheWarning(UserWarning):
    """Compiled code cannot be cached in the folder of the user."""


class CacheFolder(NamedTuple):
    """Folder of compiled code."""

    path: Path | None
    """None if no private folder can be written."""
    lasting: bool
    """Whether it is not among the temporary files."""


def njit(function: Callable[..., Any]) -> Any:
    """Compile as `numba.njit`, with the cache in `cache_folder`: for functions that Python calls."""
    folder = cache_folder().path
    if folder is None:
        return numba.njit(**_OPTIONS)(function)
    previous = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)  # numba reads it when a function is decorated
    try:
        kernel = numba.njit(cache=True, **_OPTIONS)(function)
    finally:
        numba.config.CACHE_DIR = previous
    return _with_repair(kernel)


def njit_internal(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function for calls from other kernels only."""
    if function is None:
        return lambda function: njit_internal(function, **options)
    explicit = {"forceinline": False, "_nrt": True, **options}  # otherwise taken from the caller
    compiled = numba.njit(**HELPER, **explicit)(function)
    if HELPER is _OPTIONS:
        return compiled
    choose = compiled.get_call_template

    def without_literals(types: Any, keywords: Any) -> Any:
        """Template for arguments of which literals are plain numbers, so that no code is specialised to them."""
        return choose(tuple(numba.types.unliteral(kind) for kind in types), keywords)

    compiled.get_call_template = without_literals
    return compiled


def njit_no_refcount(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile an internal function without reference counting: array arguments and their slices are borrowed.

    Counting is an atomic instruction for each slice and each array argument, and took half of the time of sweeps with a
    fused penalty. The function must not allocate or return an array, nor call one that does: it would not be freed.
    """
    return njit_internal(function, _nrt=False, **options)


#: Options of all kernels: numba compiles its own functions again for each set of options. The wrapper for calls from C
#: would take as long to compile as a small kernel.
_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

#: Versions of numba whose internal interfaces `HelperCompiler` fits; with others `njit_internal` compiles more slowly.
KNOWN_NUMBA = (0, 60), (0, 68)


def _options_of_helpers() -> dict[str, Any]:
    if not KNOWN_NUMBA[0] <= numba.version_info.short <= KNOWN_NUMBA[1]:
        return _OPTIONS
    from jointglasso.kernels.helper_compiler import HelperCompiler

    return {**_OPTIONS, "pipeline_class": HelperCompiler}


HELPER = _options_of_helpers()


def _with_repair(kernel: Any) -> Any:
    """Recompile where the cached code cannot be read, or has been compiled for other types than those asked for.

    numba writes a cache without locks: of two processes that compile one kernel for different types at the same time,
    one may write the index and the other the code.
    """
    load_or_compile = kernel.compile

    def compile_checked(signature: Any) -> Any:
        with _without_garbage_collection(), _announced(kernel):
            with suppress(*_CACHE_ERRORS):
                load_or_compile(signature)
            if signature not in kernel.signatures:
                shutil.rmtree(kernel.stats.cache_path, ignore_errors=True)
            return load_or_compile(signature)  # numba returns what has been compiled

    kernel.compile = compile_checked
    return kernel


@contextmanager
def _announced(kernel: Any) -> Iterator[None]:
    """Announce a compilation that takes longer than `_SILENT_SECONDS`; loading from the cache does not."""
    name = f"{kernel.py_func.__module__.rpartition('.')[2]}.{kernel.py_func.__name__}"
    timer = threading.Timer(_SILENT_SECONDS, lambda: announce(f"Compiling {name}, once on this machine."))
    timer.daemon = True
    with suppress(RuntimeError):  # no further thread can be started
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection, which takes a tenth of the time: a compilation creates millions of objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def is_kernel(item: Any) -> bool:
    """Whether an object is a compiled function that can be called from Python."""
    return hasattr(item, "py_func") and item._compiler.pipeline_class is not HELPER.get("pipeline_class")


def compile_for(kernel: Any, *examples: Any) -> None:
    """Compile a kernel for the types of these arguments."""
    kernel.compile(tuple(numba.typeof(example) for example in examples))


@cache
def sources_digest() -> str:
    """Digest of the sources of all kernels."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def cache_folder() -> CacheFolder:
    """Find or make the cache folder: below NUMBA_CACHE_DIR or the user's cache folder, else a temporary one.

    The first call warns if the compiled code is not kept.
    """
    name = f"kernels-{sources_digest()[:16]}"
    try:
        path = _private_folder(_user_folder() / "jointglasso", name)
    except RuntimeError:  # the user has no home
        path = None
    if path is not None:
        return CacheFolder(path, lasting=True)
    user = os.getuid() if hasattr(os, "getuid") else ""
    path = _private_folder(Path(tempfile.gettempdir()), f"jointglasso-{user}-{name}")
    where = "in every process anew" if path is None else f"into {path}, which may not last"
    message = f"No private folder for compiled code can be written, so kernels are compiled {where}: {REMEDY}."
    warnings.warn(message, CacheWarning, stacklevel=2)
    return CacheFolder(path, lasting=False)


def _user_folder() -> Path:
    """Cache folder of the user, by the conventions of the system."""
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _private_folder(parent: Path, name: str) -> Path | None:
    """Find or make a folder that only the user can write; None if that is impossible."""
    folder = parent / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            return None
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077):
            return None
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    return folder
