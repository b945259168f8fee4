"""Where compiled kernels are kept between processes, and what happens where nothing may be written.

numba keeps compiled code in the folder that NUMBA_CACHE_DIR names, beside the package, or in the user's cache folder.
In a read-only container none of them can be written; then a folder of our own among the temporary files serves, and
without that the kernels are compiled anew in every process.
"""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.compiler_lock import global_compiler_lock

#: What to do where compiled code cannot be kept.
REMEDY = "set the environment variable NUMBA_CACHE_DIR to a folder that can be written and stays"


class CacheWarning(UserWarning):
    """Compiled code cannot be kept where it should be."""


def njit(function: Callable[..., Any]) -> Any:
    """Compile like `numba.njit`, and keep the code wherever a folder can be written: what Python calls."""
    try:
        return _kept(numba.njit(cache=True, **_OPTIONS)(function))
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
    folder = temporary_folder()
    if folder is None:
        return numba.njit(**_OPTIONS)(function)
    usual = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)  # read when a function is decorated, and of no concern to others
    try:
        return _kept(numba.njit(cache=True, **_OPTIONS)(function))
    finally:
        numba.config.CACHE_DIR = usual


def njit_internal(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function that only kernels call: Python cannot."""
    if function is None:
        return lambda function: njit_internal(function, **options)
    compiled = numba.njit(**HELPER, **{"forceinline": False, **options})(function)  # or it would have its caller's
    if HELPER is _OPTIONS:
        return compiled
    choose = compiled.get_call_template

    def choose_one(types: Any, keywords: Any) -> Any:
        """A constant among the arguments is a number like others: no code of its own for it."""
        return choose(tuple(numba.types.unliteral(given) for given in types), keywords)

    compiled.get_call_template = choose_one
    return compiled


def njit_no_refcount(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a helper that makes no arrays, and hands on parts of those it is given to other leaves alone.

    It borrows the arrays of its caller: references to them are not counted. Counting is an atomic instruction for each
    slice and each array that a function is given, and was half the time of sweeps with a fused penalty. It must not
    return an array, nor call a function that does: nobody would count that one.
    """
    return njit_internal(function, _nrt=False, **options)


#: The same for all, as far as possible: numba compiles its own functions anew for each set of options. The door to C
#: would take as long to compile as many a kernel.
_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

#: Versions of numba whose inner parts `HelperCompiler` is known to fit; under any other helpers take longer to compile.
KNOWN_NUMBA = (0, 60), (0, 68)


def _options_of_helpers() -> dict[str, Any]:
    if not KNOWN_NUMBA[0] <= numba.version_info.short <= KNOWN_NUMBA[1]:
        return _OPTIONS
    from jointglasso.kernels.helper_compiler import HelperCompiler

    return {**_OPTIONS, "pipeline_class": HelperCompiler}


HELPER = _options_of_helpers()


def _kept(kernel: Any) -> Any:
    """Make the cached code of a kernel stand or fall with the sources of all kernels, and let one process compile it.

    numba looks at the file of a kernel alone, but code from other files, such as the functions of a penalty, is
    compiled into it: an edit there would leave stale code behind. Processes that need a kernel that another one is just
    compiling for the same types wait for it; kernels call one another in one direction only, so that they never wait in
    a circle.
    """
    cached: Any = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if hasattr(cached, "_source_stamp"):
        cached._source_stamp = sources_digest()
        compile_, load, save = kernel.compile, cached._load_index, cached.save
        folder, name = Path(kernel.stats.cache_path), cached._index_name

        def load_known() -> Any:
            """What another version kept may name types that are no more, and is read before its version is seen."""
            try:
                return load()
            except (AttributeError, ImportError, EOFError, pickle.UnpicklingError):
                return {}

        def save_alone(key: Any, data: Any) -> None:
            """An index is written before the code it names: what lies there of other sources must not pass for it."""
            with _alone_on_this_machine(folder / f"{name}.lock"):
                if not load_known():
                    for old in folder.glob(f"{name.removesuffix('.nbi')}.*.nbc"):
                        old.unlink(missing_ok=True)
                save(key, data)

        def compile_once(signature: Any) -> Any:
            types = hashlib.sha256(str(signature).encode()).hexdigest()[:16]
            with global_compiler_lock, _alone_on_this_machine(folder / f"{name}.{types}.lock"), _no_collector():
                return compile_(signature)

        kernel.compile, cached._load_index, cached.save = compile_once, load_known, save_alone
    return kernel


@contextmanager
def _alone_on_this_machine(path: Path) -> Iterator[None]:
    """Hold a lock that ends with this process at the latest; without one where the system or the folder has none."""
    try:
        import fcntl

        file = path.open("a")
        fcntl.flock(file, fcntl.LOCK_EX)
    except (ImportError, OSError):
        yield
        return
    with file:
        yield


@contextmanager
def _no_collector() -> Iterator[None]:
    """Look for no garbage: among the millions of objects that compiling makes that takes a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def is_kernel(item: Any) -> bool:
    """Whether this is a compiled function that Python calls."""
    return hasattr(item, "py_func") and item._compiler.pipeline_class is not HELPER.get("pipeline_class")


def compile_for(kernel: Any, *examples: Any) -> None:
    """Compile a kernel for arguments of such types."""
    kernel.compile(tuple(numba.typeof(example) for example in examples))


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
