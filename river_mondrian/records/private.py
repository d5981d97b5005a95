"""All undocumented names of numba that the package uses, and the purpose of each name.

The other modules use only numba's documented interfaces for extensions and caching. A new version
of numba may change the names in this module.

Names without a fallback, which are few and old:

- `AttributeTemplate`: types of fields, because documented attributes would be compiled one by one
- `AbstractTemplate`: types of methods, and of kernels in fields
- `BoundFunction`: methods of records, and kernels in fields, which get the record
- `PrimitiveModel`: a record in compiled code is its address
- `call_conv.call_function`: calls by name or address, with numba's errors
- `call_conv.get_function_type`: the type of a function called by name or address
- `call_conv.return_status_propagate`: an error in such a call reaches Python
- `library.get_pointer_to_function`: the address of a called function
- `fndesc.llvm_func_name`: the name of a called function in its code
- `runtime.nrt.rtsys`: memory that kernels allocate, before the first kernel is loaded

Names of the passes. Without one of them, numba's own passes compile functions. The names in
`PASSES_BEFORE_LOWERING` and `LAST_PASS` belong here, too.

- `core.typed_passes.NativeLowering`: the pass that generates code
- `core.lowering.Lower`: the base class of the package's code generator
- `incref`, `decref`: records and arrays have no reference counts
- `lower`, `typemap`, `data_model_manager`, `contains_nrt_meminfo`: types with reference counts
  raise an error
- `alloca_lltype`: no information for debuggers
- `core.compiler_machinery.PassManager`: the list of passes
- `_runPass`: passes without timers, events and checks between passes
- `_analysis`: results of passes that other passes read
- `core.codegen.JITCodeLibrary`: the base class of libraries with the package's optimization
- `_optimize_functions`: helpers get a short first optimization
- `_optimize_final_module`: LLVM unrolls only loops of constant length
- `_finalize_final_module`: helpers have no machine code
- `_finalized`: the state of a library without machine code
- `_final_module`: the code of a library
- `_codegen`: the owner of LLVM's settings
- `_tm`: LLVM's description of the processor
- `library`: the library of the function in compilation
- `targetctx`: the context that has helpers for callers
- `codegen`: the code generator of a context
- `enable_object_caching`: machine code can be stored on disk
- `func_id`: the name of the function in compilation
- `no_compile`: helpers have no entry point for Python
- `cr`: the compiled function
- `fndesc`: the description of a function
- `lookup_module`: the module of a function
- `env`: the environment of a function
- `insert_user_function`: callers find a helper by a key
- `_dynfunc.make_function`: the key of a helper
- `_replace`: the compiled function with this key

Names of the cache. Without one of them, every process compiles.

- `_cache`: numba asks this object for code before it compiles, and passes new code to it
- `targetoptions`: options such as `fastmath` are part of the key of code
- `core.compiler.CompileResult`: the class of compiled functions
- `_reduce`: a compiled function, to pickle it
- `_rebuild`: a compiled function from its pickle
- `core.serialize.dumps`: numba's pickler
- `library`: the library of a compiled function
- `has_dynamic_globals`: code with addresses of this process cannot be stored
- `_final_module`: the functions that code calls by name
- `refresh`: numba's C functions exist before code that calls them is loaded

`look_up` finds optional names only when they are used, because the package must be importable
without them. If a name is missing or fails, `give_up` logs one message.
"""

import contextlib
import functools
import importlib
import logging
from typing import Any

import llvmlite.binding as _llvm
import numba
from numba import types
from numba.core import cgutils, compiler_machinery, errors
from numba.core.runtime import nrt
from numba.core.typing import templates
from numba.extending import models

LOG = logging.getLogger(__name__.partition(".")[0])

# Names of llvmlite and numba as `Any`, because these packages have no annotations.
llvm: Any = _llvm
register_pass: Any = compiler_machinery.register_pass
PrimitiveModel: Any = models.PrimitiveModel
AbstractTemplate: Any = templates.AbstractTemplate
AttributeTemplate: Any = templates.AttributeTemplate
BoundFunction: Any = types.BoundFunction
alloca_once: Any = cgutils.alloca_once
_rtsys: Any = nrt.rtsys

# The passes that kernels need, in their order. Other passes are for closures, NumPy's overloads,
# array expressions and branches on constants, which kernels do not have.
PASSES_BEFORE_LOWERING = (
    *("core.compiler.TranslateByteCode", "core.compiler.FixupArgs"),
    *("core.compiler.IRProcessing", "core.compiler.GenericRewrites"),
    *("core.compiler.InlineInlinables", "core.compiler.ReconstructSSA"),
    *("core.compiler.NopythonTypeInference", "core.compiler.PreLowerStripPhis"),
)
LAST_PASS = "core.compiler.NoPythonBackend"

# Degree of optimization of helpers and of functions that run rarely. Numba's degree is 3.
_LOW_OPTIMIZATION = 1
_NO_ADDRESS = 0


def look_up(name: str, owner: Any = None) -> Any:
    """Return the attribute with an optional name: of `owner`, or of a module of numba."""
    if owner is None:
        module, _, name = name.rpartition(".")
        owner = importlib.import_module(f"numba.{module}")
    return getattr(owner, name)


@functools.cache
def _log_once() -> None:
    LOG.warning(
        "numba %s differs from the versions that this package knows, so first calls take longer. "
        "The level INFO of this logger shows the reason.",
        numba.__version__,
    )


def give_up(what: str, error: BaseException) -> None:
    """Log one warning per process that optional names are not used, and each reason as INFO."""
    _log_once()
    LOG.info("no %s with numba %s: %r", what, numba.__version__, error)


# Functions that are called by name or by address.


def address_of(compiled: Any) -> int:
    """Return the address of a compiled function."""
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


def function_type(context: Any, result: Any, taken: Any) -> Any:
    """Return the LLVM type of a function with these result and argument types."""
    return context.call_conv.get_function_type(result, taken)


def call_function(
    context: Any, builder: Any, function: Any, result: Any, taken: Any, args: Any
) -> Any:
    """Generate a call of a compiled function that propagates errors, and return its result."""
    status, value = context.call_conv.call_function(builder, function, result, taken, args)
    with cgutils.if_unlikely(builder, status.is_error):
        context.call_conv.return_status_propagate(builder, status)
    return value


# Passes.


@functools.cache
def _lowerings() -> dict[str, Any]:
    """Return the passes that generate the code of each kind of function."""
    library: Any = look_up("core.codegen.JITCodeLibrary")
    lowering: Any = look_up("core.typed_passes.NativeLowering")
    make_function: Any = look_up("_dynfunc.make_function")
    lower: Any = look_up("core.lowering.Lower")
    for name in ("lower", "incref", "decref", "alloca_lltype"):
        look_up(name, lower)
    for name in ("_optimize_functions", "_optimize_final_module", "_finalize_final_module"):
        look_up(name, library)

    class Lower(lower):
        """Code generator without reference counts, because records and arrays are addresses."""

        def lower(self) -> None:
            """Generate the code; raise an error for types whose objects would not be freed."""
            models = look_up("data_model_manager", self.context)
            for typ in set(look_up("typemap", look_up("fndesc", self)).values()):
                is_constant = isinstance(typ, types.Array) and not typ.mutable
                if look_up("contains_nrt_meminfo", models[typ])() and not is_constant:
                    raise errors.LoweringError(f"kernels cannot hold {typ}: it is not freed")
            super().lower()

        def incref(self, typ: Any, value: Any) -> None:
            """Do nothing."""

        decref = incref

        def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
            """Allocate a variable without information for debuggers."""
            return alloca_once(self.builder, lltype, name=name)

    class KernelLibrary(library):
        """A library that unrolls only loops of constant length."""

        optimization = 3
        has_vectors = True

        def _builder(self, unrolls: bool) -> Any:
            options = llvm.create_pipeline_tuning_options(min(self.optimization, numba.config.OPT))
            options.loop_vectorization = self.has_vectors
            options.slp_vectorization = False
            options.loop_unrolling = unrolls
            return llvm.create_pass_builder(look_up("_tm", look_up("_codegen", self)), options)

        def _optimize_functions(self, module: Any) -> None:
            builder = self._builder(unrolls=True)
            manager = builder.getFunctionPassManager()
            for function in module.functions:
                if not function.is_declaration:
                    manager.run(function, builder)

        def _optimize_final_module(self) -> None:
            builder = self._builder(unrolls=False)
            builder.getModulePassManager().run(look_up("_final_module", self), builder)

    class HelperLibrary(KernelLibrary):
        """A library without machine code, which is linked into other libraries."""

        optimization = _LOW_OPTIMIZATION

        def _optimize_final_module(self) -> None:
            """Do nothing: the libraries that link this library optimize it."""

        def _finalize_final_module(self) -> None:
            look_up("_finalized", self)
            self._finalized = True

    class ColdLibrary(KernelLibrary):
        """A library of code that runs rarely."""

        optimization = _LOW_OPTIMIZATION
        has_vectors = False

    @register_pass(mutates_CFG=True, analysis_only=False)
    class KernelLowering(lowering):
        """Pass that generates machine code with fewer unrolled loops."""

        _name = "kernel_lowering"
        lowering_class = Lower
        library = KernelLibrary

        def run_pass(self, state: Any) -> bool:
            """Run the pass."""
            codegen = look_up("codegen", look_up("targetctx", state))()
            look_up("library", state)
            state.library = self.library(codegen, look_up("func_id", state).func_qualname)
            look_up("enable_object_caching", state.library)()
            return super().run_pass(state)

    @register_pass(mutates_CFG=True, analysis_only=False)
    class ColdLowering(KernelLowering):
        """Pass that generates slower machine code in less time."""

        _name = "cold_lowering"
        library = ColdLibrary

    @register_pass(mutates_CFG=True, analysis_only=False)
    class HelperLowering(KernelLowering):
        """Pass that generates code without an entry point for Python."""

        _name = "helper_lowering"
        library = HelperLibrary

        def run_pass(self, state: Any) -> bool:
            """Run the pass."""
            look_up("no_compile", state.flags)
            state.flags.no_compile = True
            super().run_pass(state)
            # Callers find the library to link by this key, because a helper has no address.
            result = look_up("cr", state)
            description = look_up("fndesc", result)
            key = make_function(
                look_up("lookup_module", description)(),
                state.library.name,
                "a helper of kernels",
                _NO_ADDRESS,
                look_up("env", result),
                (state.library,),
            )
            insert = look_up("insert_user_function", state.targetctx)
            insert(key, description, [state.library])
            state.cr = look_up("_replace", result)(cfunc=key)
            return True

    return {"kernel": KernelLowering, "helper": HelperLowering, "cold": ColdLowering}


@functools.cache
def pipeline(kind: str, after_parsing: Any) -> Any:
    """Return the passes for a kind of function: "kernel", "helper" or "cold".

    `after_parsing` is an additional pass after the pass `IRProcessing`.
    """
    manager: Any = look_up("core.compiler_machinery.PassManager")
    look_up("_runPass", manager)

    class Manager(manager):
        """A manager that runs passes without numba's timers, events and analyses."""

        def _runPass(self, index: int, step: Any, state: Any) -> None:
            step.analysis = look_up("_analysis", self)
            step.run_pass(state)

    passes = Manager(kind)
    for name in PASSES_BEFORE_LOWERING:
        passes.add_pass(look_up(name))
        if name == "core.compiler.IRProcessing":
            passes.add_pass(after_parsing)
    for step in (_lowerings()[kind], look_up(LAST_PASS)):
        passes.add_pass(step)
    passes.finalize()
    return passes


# The cache.


def set_cache(dispatcher: Any, cache: Any) -> None:
    """Set the cache that a dispatcher reads code from, and passes new code to."""
    look_up("_cache", dispatcher)
    dispatcher._cache = cache


def options_of(dispatcher: Any) -> str:
    """Return a description of a function's numba options."""
    options = look_up("targetoptions", dispatcher)
    return repr(
        sorted(
            (name, sorted(value) if isinstance(value, set) else value)
            for name, value in options.items()
        )
    )


def called_by_name(compiled: Any) -> list[str]:
    """Return the names of the functions that compiled code calls by name."""
    functions = look_up("_final_module", look_up("library", compiled)).functions
    return [f.name for f in functions if f.is_declaration and not f.name.startswith("llvm.")]


def pickled(compiled: Any, *others: Any) -> bytes | None:
    """Return a pickle of compiled code and other objects, or None for process-specific code."""
    if look_up("has_dynamic_globals", look_up("library", compiled)):
        return None
    return bytes(look_up("core.serialize.dumps")((*others, look_up("_reduce", compiled)())))


def rebuilt(reduced: Any, context: Any) -> Any:
    """Return a compiled function from its unpickled parts."""
    return look_up("_rebuild", look_up("core.compiler.CompileResult"))(context, *reduced)


def ensure_functions(names: list[str], context: Any) -> None:
    """Make numba provide the C functions that code calls, because LLVM aborts if one is missing.

    Usually the functions exist already. Providing all of numba's functions takes 0.2 s.

    Raises
    ------
    LookupError
        If a function does not exist, for example in code from another build of numba.
    """
    for provide in (lambda: _rtsys.initialize(context), lambda: look_up("refresh", context)()):
        if not _missing(names):
            return
        with contextlib.suppress(AttributeError):
            provide()
    missing = _missing(names)
    if missing:
        raise LookupError(f"there is no function {missing[0]}")


def _missing(names: list[str]) -> list[str]:
    return [name for name in names if not llvm.address_of_symbol(name)]
