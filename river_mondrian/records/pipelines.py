"""Pipelines that compile kernels and their helpers faster than numba's defaults.

- Numba optimizes each function and generates its machine code. But a helper is linked into the
  kernels that call it, and optimized again. So helpers get only a short first optimization, and no
  machine code.
- LLVM unrolls only loops of constant length. Unrolling all other loops would double the compilation
  time and the size of the code, but kernels would not be faster.
- Functions that run rarely are optimized less (`rare`). This takes less than half of the time of a
  full optimization.
- Only the passes that kernels need are run (`_PASSES`), without numba's timers and analyses between
  passes. Kernels have no objects with reference counts.
- Types and code of functions that kernels never call are not loaded (`numba_types.KernelTarget`).

The pipelines use numba's internals, which may change. The internals are tested once, before the
first function is compiled. If the internals have changed, functions are compiled by numba's passes,
and first calls take longer. The contexts of `numba_types` are used in both cases.
"""

import functools
import logging
from typing import Any

import llvmlite.binding as _llvm
import numba
from numba import types
from numba.core import compiler, errors

from .numba_types import KernelTarget

LOG = logging.getLogger("river_mondrian")

# Modules and functions of numba that have no annotations.
_Compiler: Any = compiler.Compiler
_njit: Any = numba.njit
llvm: Any = _llvm

_NO_ADDRESS = 0

# The passes before the lowering pass. Kernels do not need numba's other passes. These passes handle
# closures, NumPy's overloads, array expressions, branches on constants, and objects with reference
# counts.
_PASSES = (
    *("TranslateByteCode", "FixupArgs", "IRProcessing", "GenericRewrites", "InlineInlinables"),
    *("ReconstructSSA", "NopythonTypeInference", "PreLowerStripPhis"),
)

# Optimization level of helpers and of functions that run rarely. The latter are not vectorized.
# Numba's level is 3.
_LOW_LEVEL = 1

Pipelines = list[Any]


@functools.cache
def _lowerings() -> tuple[Any, dict[str, Any]]:
    """Return the class that runs passes, and the lowering pass for each kind of function."""
    import numba._dynfunc
    from numba.core import cgutils, codegen, compiler_machinery, config, lowering, typed_passes

    dynfunc: Any = numba._dynfunc
    library: Any = codegen.JITCodeLibrary
    lowering_pass: Any = typed_passes.NativeLowering
    lower: Any = lowering.Lower
    pass_manager: Any = compiler_machinery.PassManager
    register_pass: Any = compiler_machinery.register_pass
    settings: Any = config
    alloca_once: Any = cgutils.alloca_once

    class Manager(pass_manager):  # type: ignore[misc]
        """A manager that runs passes without numba's timers, events and analyses."""

        def _runPass(self, index: int, one: Any, state: Any) -> None:
            one.analysis = self._analysis
            one.run_pass(state)

    class Lower(lower):  # type: ignore[misc]
        """Code generator without reference counts, because records and arrays are addresses."""

        def lower(self) -> None:
            """Generate the code; refuse types with objects that would not be freed."""
            for typ in set(self.fndesc.typemap.values()):
                is_constant = isinstance(typ, types.Array) and not typ.mutable
                if self.context.data_model_manager[typ].contains_nrt_meminfo() and not is_constant:
                    raise errors.LoweringError(f"kernels cannot hold {typ}: it is not freed")
            super().lower()

        def incref(self, typ: Any, value: Any) -> None:
            """Do nothing."""

        decref = incref

        def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
            """Allocate a variable without information for debuggers."""
            return alloca_once(self.builder, lltype, name=name)

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
        """A library that is linked into other libraries."""

        level = _LOW_LEVEL

        def _optimize_final_module(self) -> None:
            """Do nothing: the libraries that link this library optimize it."""

        def _finalize_final_module(self) -> None:
            """Generate no machine code."""
            self._finalized = True

    class RareLibrary(KernelLibrary):
        """A library of code that runs rarely."""

        level = _LOW_LEVEL
        has_vectors = False

    @register_pass(mutates_CFG=True, analysis_only=False)
    class HelperLowering(lowering_pass):  # type: ignore[misc]
        """Pass that generates code without an entry point for Python."""

        _name = "helper_lowering"
        lowering_class = Lower

        def run_pass(self, state: Any) -> bool:
            """Run the pass."""
            name = state.func_id.func_qualname
            state.library = HelperLibrary(state.targetctx.codegen(), name)
            state.flags.no_compile = True
            super().run_pass(state)
            # Callers link the compiled function by this key.
            module = state.cr.fndesc.lookup_module()
            key = dynfunc.make_function(
                module, name, "a helper of kernels", _NO_ADDRESS, state.cr.env, (state.library,)
            )
            state.targetctx.insert_user_function(key, state.cr.fndesc, [state.library])
            state["cr"] = state.cr._replace(cfunc=key)
            return True

    @register_pass(mutates_CFG=True, analysis_only=False)
    class KernelLowering(lowering_pass):  # type: ignore[misc]
        """Pass that generates machine code with fewer unrolled loops."""

        _name = "kernel_lowering"
        lowering_class = Lower
        library = KernelLibrary

        def run_pass(self, state: Any) -> bool:
            """Run the pass."""
            state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            return super().run_pass(state)

    @register_pass(mutates_CFG=True, analysis_only=False)
    class RareLowering(KernelLowering):
        """Pass that generates slower machine code in less time."""

        _name = "rare_lowering"
        library = RareLibrary

    own = {"kernel": KernelLowering, "helper": HelperLowering, "rare": RareLowering}
    return Manager, own


@functools.cache
def _pipelines(kind: str) -> Pipelines:
    """Return the passes for a kind of function: "kernel", "helper" or "rare"."""
    manager, own = _lowerings()
    pipeline = manager("kernel")
    for name in (*_PASSES, kind, "NoPythonBackend"):
        pipeline.add_pass(own.get(name) or getattr(compiler, name))
    pipeline.finalize()
    return [pipeline]


def _compiler(kind: str, is_tried: bool = False) -> Any:
    """Return a compiler for `njit(pipeline_class=...)` with the passes for a kind of function.

    The compiler uses numba's passes if numba's internals are not as expected, except in a trial
    (`is_tried`).
    """

    class Compiler(_Compiler):  # type: ignore[misc]
        def __init__(self, context: Any, target: Any, *args: Any) -> None:
            # Both contexts are copies, because the package must not change users' functions.
            super().__init__(KernelTarget.types, KernelTarget.of(target), *args)

        def define_pipelines(self) -> Pipelines:
            is_changed = is_tried or is_numba_known()
            pipelines: Pipelines = _pipelines(kind) if is_changed else super().define_pipelines()
            return pipelines

    return Compiler


# Compilers of helpers, of kernels, and of functions that run rarely.
HelperCompiler, KernelCompiler, RareCompiler = map(_compiler, ("helper", "kernel", "rare"))


@functools.cache
def is_numba_known() -> bool:
    """Compile and run a test kernel; return whether numba's internals are as expected."""
    try:

        def double(x: float) -> float:
            return x + x

        tried = _compiler("helper", is_tried=True)
        helper = _njit(pipeline_class=tried, no_cpython_wrapper=True)(double)

        def call(x: float) -> float:
            return helper(x)

        return _njit(pipeline_class=_compiler("rare", is_tried=True))(call)(1.5) == 3.0
    # Any exception is caught, because another version of numba may fail in any way.
    except Exception as error:
        LOG.info("first calls take longer with numba %s: %r", numba.__version__, error)
        return False
