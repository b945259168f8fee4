"""How functions that only kernels call are compiled: by inner parts of numba, which may differ in versions to come."""

from __future__ import annotations

import ctypes
from typing import Any

from numba._dynfunc import make_function
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class HelperCompiler(Compiler):  # type: ignore[misc]
    """Compiles a function as a part of those that call it.

    numba optimises every function and makes machine code of it, and does both again with its code inside each function
    that calls it, level by level. Functions that Python never calls are spared all but the last.
    """

    def define_pipelines(self) -> Any:
        state = self.state
        state.flags.no_cpython_wrapper = True
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.targetctx = state.targetctx.subtarget(get_executable=_no_door)
        return super().define_pipelines()


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """Code to be linked to other code."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


def _no_door(library: Any, fndesc: Any, env: Any) -> Any:
    """What numba knows a function by, and Python is given to call: this one says that it cannot be called."""
    refusal = ctypes.cast(ctypes.pythonapi.PyObject_Call, ctypes.c_void_p).value
    return make_function(fndesc.lookup_module(), fndesc.qualname, "", refusal, env, (library,))
