"""How functions are compiled that only compiled code calls: as far as their callers need.

Numba optimizes every function and makes machine code of it, whoever calls it. A helper ends up
within the kernels that call it, and is optimized there again, with all that is known there. So
nothing is done to it ahead but what makes its code small. That saves a third of the time that a
first call takes.

It needs parts of numba that are not promised to stay. They are tried once, before the first helper
is compiled: where they have changed, helpers are compiled as numba does it, and first calls take
longer.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import numba
from numba.core import compiler

LOG = logging.getLogger("river_mondrian")

# What numba does not annotate.
_Compiler: Any = compiler.Compiler
_njit: Any = numba.njit

_NO_ADDRESS = 0

Pipelines = list[Any]


@functools.cache
def _replace_lowering() -> Callable[[Pipelines], Pipelines]:
    """Return what gives pipelines another pass for code: all that is not promised is in here."""
    import numba._dynfunc
    from numba.core import codegen, compiler_machinery, typed_passes

    dynfunc: Any = numba._dynfunc
    library: Any = codegen.JITCodeLibrary
    lowering: Any = typed_passes.NativeLowering
    register_pass: Any = compiler_machinery.register_pass

    class HelperLibrary(library):  # type: ignore[misc]
        """Code to be linked into that of others."""

        def _optimize_final_module(self) -> None:
            """Leave it to those into which this is linked."""

        def _finalize_final_module(self) -> None:
            """Make no machine code."""
            self._finalized = True

    @register_pass(mutates_CFG=True, analysis_only=False)
    class HelperLowering(lowering):  # type: ignore[misc]
        """Make code without a way in from Python."""

        _name = "helper_lowering"

        def run_pass(self, state: Any) -> bool:
            """Run the pass."""
            name = state.func_id.func_qualname
            state.library = HelperLibrary(state.targetctx.codegen(), name)
            state.flags.no_compile = True
            super().run_pass(state)
            # Numba's key of the compiled function; whoever links it needs no more.
            module = state.cr.fndesc.lookup_module()
            key = dynfunc.make_function(
                module, name, "a helper of kernels", _NO_ADDRESS, state.cr.env, (state.library,)
            )
            state.targetctx.insert_user_function(key, state.cr.fndesc, [state.library])
            state["cr"] = state.cr._replace(cfunc=key)
            return True

    def replace(pipelines: Pipelines) -> Pipelines:
        for pipeline in pipelines:
            pipeline.passes = [
                (HelperLowering if one is lowering else one, what) for one, what in pipeline.passes
            ]
            pipeline.finalize()
        return pipelines

    return replace


class _TriedCompiler(_Compiler):  # type: ignore[misc]
    """What compiles a helper where numba is as it is thought to be."""

    def define_pipelines(self) -> Pipelines:
        """Return numba's pipelines, with another pass for code."""
        return _replace_lowering()(super().define_pipelines())


@functools.cache
def are_helpers_apart() -> bool:
    """Tell whether helpers are compiled as far as their callers need, by compiling one."""
    try:

        def double(x: float) -> float:
            return x + x

        helper = _njit(pipeline_class=_TriedCompiler, no_cpython_wrapper=True)(double)

        def call(x: float) -> float:
            found: float = helper(x)
            return found

        found: bool = _njit(call)(1.5) == 3.0
    # Whatever numba says of it: another version may fail in any way.
    except Exception as error:
        LOG.info("first calls take longer with numba %s: %r", numba.__version__, error)
        return False
    return found


class HelperCompiler(_Compiler):  # type: ignore[misc]
    """Numba's compiler for functions that become parts of others (`njit(pipeline_class=...)`)."""

    def define_pipelines(self) -> Pipelines:
        """Return numba's pipelines, with another pass for code where numba takes that."""
        pipelines: Pipelines = super().define_pipelines()
        return _replace_lowering()(pipelines) if are_helpers_apart() else pipelines
