"""How functions are compiled that only compiled code calls: as far as their callers need.

Numba optimizes every function and makes machine code of it, whoever calls it. A helper ends up
within the kernels that call it, and is optimized there again, with all that is known there. So
nothing is done to it ahead but what makes its code small. That saves a third of the time that a
first call takes.
"""

from __future__ import annotations

from typing import Any

import numba._dynfunc
from numba.core import codegen, compiler, compiler_machinery, typed_passes

# What numba does not annotate.
_dynfunc: Any = numba._dynfunc
_Library: Any = codegen.JITCodeLibrary
_Lowering: Any = typed_passes.NativeLowering
_Compiler: Any = compiler.Compiler
_register_pass: Any = compiler_machinery.register_pass

_NO_ADDRESS = 0


class _HelperLibrary(_Library):  # type: ignore[misc]
    """Code to be linked into that of others."""

    def _optimize_final_module(self) -> None:
        """Leave it to those into which this is linked."""

    def _finalize_final_module(self) -> None:
        """Make no machine code."""
        self._finalized = True


@_register_pass(mutates_CFG=True, analysis_only=False)
class _HelperLowering(_Lowering):  # type: ignore[misc]
    """Make code without a way in from Python."""

    _name = "helper_lowering"

    def run_pass(self, state: Any) -> bool:
        """Run the pass."""
        name = state.func_id.func_qualname
        state.library = _HelperLibrary(state.targetctx.codegen(), name)
        state.flags.no_compile = True
        super().run_pass(state)
        # Numba's key of the compiled function; whoever links it needs no more.
        module = state.cr.fndesc.lookup_module()
        key = _dynfunc.make_function(
            module, name, "a helper of kernels", _NO_ADDRESS, state.cr.env, (state.library,)
        )
        state.targetctx.insert_user_function(key, state.cr.fndesc, [state.library])
        state["cr"] = state.cr._replace(cfunc=key)
        return True


class HelperCompiler(_Compiler):  # type: ignore[misc]
    """Numba's compiler for functions that become parts of others (`njit(pipeline_class=...)`)."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's pipeline, with another pass for code."""
        pipelines: list[Any] = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [
                (_HelperLowering if one is typed_passes.NativeLowering else one, what)
                for one, what in pipeline.passes
            ]
            pipeline.finalize()
        return pipelines
