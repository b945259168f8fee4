"""Compiler of functions called from kernels only; it overrides internal interfaces of numba, which may change."""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class HelperCompiler(Compiler):  # type: ignore[misc]
    """Compiles a function into its callers, without machine code of its own.

    numba optimises each function and generates machine code for it, and again for its code inside each caller, level by
    level. A function that Python never calls needs only the last of these.
    """

    def define_pipelines(self) -> Any:
        state = self.state
        state.flags.no_cpython_wrapper = True
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.targetctx = state.targetctx.subtarget(get_executable=_uncallable)
        return super().define_pipelines()


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """Unoptimised code, linked into the libraries of the callers."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


def _uncallable(library: Any, fndesc: Any, env: Any) -> Any:
    """Function object that numba requires of each compiled function, a different one for each.

    numba would call it with positional and keyword arguments, which `str.format` takes: it fails with this message.
    """
    return f"{{{fndesc.qualname} is called by kernels only}}".format
