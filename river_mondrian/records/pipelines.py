"""Pipelines that compile kernels and their helpers faster than numba's defaults.

- Numba optimizes every function and generates its machine code. But a helper becomes part of the
  kernels that call it, and is optimized there again. So helpers get only the first optimization,
  and no machine code.
- LLVM unrolls only loops of constant length, within a function. Unrolling all other loops would
  double the compilation time and the code, without faster kernels.
- Functions that run rarely are optimized less (`rare`), which takes less than half of the time.
- Passes for constructs that kernels never contain are omitted (`_NOT_NEEDED`).

The pipelines use numba's internals, which may change. The internals are tested once, before the
first function is compiled. If they have changed, functions are compiled by numba's defaults, and
first calls take longer.
"""

import functools
import logging
from typing import Any

import llvmlite.binding as _llvm
import numba
from numba.core import compiler

from .numba_types import KernelContext

LOG = logging.getLogger("river_mondrian")

# Parts of numba without annotations.
_Compiler: Any = compiler.Compiler
_njit: Any = numba.njit
llvm: Any = _llvm

_NO_ADDRESS = 0

# Passes for closures, NumPy's overloads and expressions of arrays.
_NOT_NEEDED = {"InlineClosureLikes", "InlineOverloads", "NopythonRewrites"}

# Optimization level of functions that run rarely, without vector units. Numba's level is 3.
_RARE_LEVEL = 1

Pipelines = list[Any]


@functools.cache
def _lowerings() -> tuple[Any, dict[str, Any]]:
    """Return numba's lowering pass, and the package's lowering passes by kind.

    Only this function uses numba's internals.
    """
    import numba._dynfunc
    from numba.core import codegen, compiler_machinery, config, typed_passes

    dynfunc: Any = numba._dynfunc
    library: Any = codegen.JITCodeLibrary
    lowering: Any = typed_passes.NativeLowering
    register_pass: Any = compiler_machinery.register_pass
    settings: Any = config

    class KernelLibrary(library):  # type: ignore[misc]
        """A library in which only loops of constant length are unrolled."""

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
        """A library to be linked into other libraries."""

        def _optimize_final_module(self) -> None:
            """Do nothing: the libraries that link this library optimize it."""

        def _finalize_final_module(self) -> None:
            """Generate no machine code."""
            self._finalized = True

    class RareLibrary(KernelLibrary):
        """A library of code that runs rarely."""

        level = _RARE_LEVEL
        has_vectors = False

    @register_pass(mutates_CFG=True, analysis_only=False)
    class HelperLowering(lowering):  # type: ignore[misc]
        """Lower without an entry point for Python."""

        _name = "helper_lowering"

        def run_pass(self, state: Any) -> bool:
            """Run the pass."""
            name = state.func_id.func_qualname
            state.library = HelperLibrary(state.targetctx.codegen(), name)
            state.flags.no_compile = True
            super().run_pass(state)
            # Numba's key of the compiled function, which is all that callers need to link it.
            module = state.cr.fndesc.lookup_module()
            key = dynfunc.make_function(
                module, name, "a helper of kernels", _NO_ADDRESS, state.cr.env, (state.library,)
            )
            state.targetctx.insert_user_function(key, state.cr.fndesc, [state.library])
            state["cr"] = state.cr._replace(cfunc=key)
            return True

    @register_pass(mutates_CFG=True, analysis_only=False)
    class KernelLowering(lowering):  # type: ignore[misc]
        """Lower to machine code with fewer unrolled loops."""

        _name = "kernel_lowering"
        library = KernelLibrary

        def run_pass(self, state: Any) -> bool:
            """Run the pass."""
            state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            return super().run_pass(state)

    @register_pass(mutates_CFG=True, analysis_only=False)
    class RareLowering(KernelLowering):
        """Lower to machine code in less time."""

        _name = "rare_lowering"
        library = RareLibrary

    own = {"kernel": KernelLowering, "helper": HelperLowering, "rare": RareLowering}
    return lowering, own


def _changed(pipelines: Pipelines, kind: str) -> Pipelines:
    """Remove passes that are not needed, and replace the lowering pass."""
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
    """Return numba's compiler with other pipelines (`njit(pipeline_class=...)`).

    The pipelines are changed if numba's internals are as expected, or in a trial (`is_tried`).
    """

    class Compiler(_Compiler):  # type: ignore[misc]
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            state = self.state
            # The context of the target is a copy of numba's, for this compilation.
            state.typingctx = state.targetctx.typing_context = KernelContext(state.typingctx)

        def define_pipelines(self) -> Pipelines:
            pipelines: Pipelines = super().define_pipelines()
            return _changed(pipelines, kind) if is_tried or is_numba_known() else pipelines

    return Compiler


# Compilers for helpers that become parts of kernels, for kernels, and for functions that run too
# rarely to be fully optimized.
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
    # Any error: another version of numba may fail in any way.
    except Exception as error:
        LOG.info("first calls take longer with numba %s: %r", numba.__version__, error)
        return False
