"""How kernels and the helpers that become parts of them are compiled: faster than by default.

- Numba optimizes every function and makes machine code of it, whoever calls it. A helper becomes
  part of the kernels that call it, and is optimized there again. So helpers are only made small.
- LLVM unrolls only loops of constant length, within a function. With all others it would make twice
  the code in twice the time, which runs no faster.
- Functions that run rarely are optimized less (`rare`): that takes less than half of the time.
- Passes for what kernels never contain are left out (`_NOT_NEEDED`).

This needs parts of numba that are not promised to stay. They are tried once, before the first
function is compiled: where they have changed, functions are compiled by numba's defaults, and first
calls take longer.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

import llvmlite.binding as _llvm
import numba
from numba.core import compiler

LOG = logging.getLogger("river_mondrian")

# What numba does not annotate.
_Compiler: Any = compiler.Compiler
_njit: Any = numba.njit
llvm: Any = _llvm

_NO_ADDRESS = 0

# Passes for closures, NumPy's overloads and expressions of arrays.
_NOT_NEEDED = {"InlineClosureLikes", "InlineOverloads", "NopythonRewrites"}

# Level at which functions that run rarely are optimized, without vector units. Numba's is 3.
_RARE_LEVEL = 1

Pipelines = list[Any]


@functools.cache
def _lowerings() -> tuple[Any, dict[str, Any]]:
    """Return numba's pass that makes code, and ours: all that numba does not promise is in here."""
    import numba._dynfunc
    from numba.core import codegen, compiler_machinery, config, typed_passes

    dynfunc: Any = numba._dynfunc
    library: Any = codegen.JITCodeLibrary
    lowering: Any = typed_passes.NativeLowering
    register_pass: Any = compiler_machinery.register_pass
    settings: Any = config

    class KernelLibrary(library):  # type: ignore[misc]
        """Code in which only loops of constant length are unrolled."""

        level = 3
        has_vectors = True

        def _builder(self, unrolls: bool) -> Any:
            options = llvm.create_pipeline_tuning_options(min(self.level, settings.OPT))
            options.loop_vectorization = self.has_vectors
            options.slp_vectorization = False
            options.loop_unrolling = unrolls
            return llvm.create_pass_builder(self._codegen._tm, options)

        def _optimize_functions(self, module: Any) -> None:
            module.data_layout = self._codegen._data_layout
            builder = self._builder(unrolls=True)
            manager = builder.getFunctionPassManager()
            for function in module.functions:
                if not function.is_declaration:
                    manager.run(function, builder)

        def _optimize_final_module(self) -> None:
            builder = self._builder(unrolls=False)
            builder.getModulePassManager().run(self._final_module, builder)

    class HelperLibrary(KernelLibrary):
        """Code to be linked into that of others."""

        def _optimize_final_module(self) -> None:
            """Leave it to those into which this is linked."""

        def _finalize_final_module(self) -> None:
            """Make no machine code."""
            self._finalized = True

    class RareLibrary(KernelLibrary):
        """Code that runs rarely."""

        level = _RARE_LEVEL
        has_vectors = False

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

    @register_pass(mutates_CFG=True, analysis_only=False)
    class KernelLowering(lowering):  # type: ignore[misc]
        """Make machine code without other unrolled loops."""

        _name = "kernel_lowering"
        library = KernelLibrary

        def run_pass(self, state: Any) -> bool:
            """Run the pass."""
            state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            return super().run_pass(state)

    @register_pass(mutates_CFG=True, analysis_only=False)
    class RareLowering(KernelLowering):
        """Make machine code in less time."""

        _name = "rare_lowering"
        library = RareLibrary

    own = {"kernel": KernelLowering, "helper": HelperLowering, "rare": RareLowering}
    return lowering, own


def _changed(pipelines: Pipelines, kind: str) -> Pipelines:
    """Leave out passes, and replace the one that makes code."""
    lowering, own = _lowerings()
    for pipeline in pipelines:
        pipeline.passes = [
            (own[kind] if one is lowering else one, why)
            for one, why in pipeline.passes
            if one.__name__ not in _NOT_NEEDED
        ]
        pipeline.finalize()
    return pipelines


def _compiler(kind: str, is_tried: bool = False) -> Any:
    """Make numba's compiler with other pipelines (`njit(pipeline_class=...)`).

    They are changed if numba's internals are as expected, or where that `is_tried`.
    """

    class Compiler(_Compiler):  # type: ignore[misc]
        def define_pipelines(self) -> Pipelines:
            pipelines: Pipelines = super().define_pipelines()
            return _changed(pipelines, kind) if is_tried or is_numba_known() else pipelines

    return Compiler


# Compilers for functions that become parts of others, that become machine code, and that run too
# rarely to be optimized as well.
HelperCompiler, KernelCompiler, RareCompiler = map(_compiler, ("helper", "kernel", "rare"))


@functools.cache
def is_numba_known() -> bool:
    """Return whether numba's internals are as expected, by compiling a kernel with a helper."""
    try:

        def double(x: float) -> float:
            return x + x

        tried = _compiler("helper", is_tried=True)
        helper = _njit(pipeline_class=tried, no_cpython_wrapper=True)(double)

        def call(x: float) -> float:
            return helper(x)

        return _njit(pipeline_class=_compiler("rare", is_tried=True))(call)(1.5) == 3.0
    # Whatever numba says of it: another version may fail in any way.
    except Exception as error:
        LOG.info("first calls take longer with numba %s: %r", numba.__version__, error)
        return False
