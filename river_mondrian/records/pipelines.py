"""Compilers of kernels and their helpers, faster than numba's defaults.

- A helper gets only a short first optimization and no machine code, because it is linked into its
  calling kernels and optimized again.
- LLVM unrolls only loops of constant length. Unrolling all other loops would double the compilation
  time and the size of the code, but kernels would not be faster.
- Functions that run rarely are optimized less (`cold`), in less than half of the time of a full
  optimization.
- Only the passes that kernels need are run, without numba's timers and checks between passes.

The passes use undocumented names of numba (`private`). A trial compiles and runs a small kernel
before the first function is compiled. If the trial fails, numba's passes compile functions, and
first calls take longer.
"""

from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any, ClassVar

import numba
from numba.core import compiler, compiler_machinery, ir, untyped_passes

from . import private

# Names of numba as `Any`, because numba has no annotations.
_CompilerBase: Any = compiler.CompilerBase
_PassBuilder: Any = compiler.DefaultPassBuilder
_FunctionPass: Any = compiler_machinery.FunctionPass
_register_pass: Any = compiler_machinery.register_pass
_IRProcessing: Any = untyped_passes.IRProcessing
_ir: Any = ir
_njit: Any = numba.njit

# Functions that numba compiles from Python for each type, and functions that replace them.
BUILTINS: dict[Any, Any] = {}
_BUILTIN_TYPES = type, BuiltinFunctionType


@_register_pass(mutates_CFG=False, analysis_only=False)
class OwnBuiltins(_FunctionPass):  # type: ignore[misc]
    """Pass that replaces the functions in `BUILTINS`."""

    _name = "own_builtins"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Run the pass."""
        is_changed = False
        for block in state.func_ir.blocks.values():
            for assign in block.find_insts(_ir.Assign):
                value = assign.value
                is_builtin = isinstance(value, _ir.Global) and type(value.value) in _BUILTIN_TYPES
                if is_builtin and value.value in BUILTINS:
                    value.value = BUILTINS[value.value]
                    is_changed = True
        return is_changed


def _compiler(kind: str) -> Any:
    """Return a compiler for `njit(pipeline_class=...)` with the passes for a kind of function."""

    class Compiler(_CompilerBase):  # type: ignore[misc]
        def define_pipelines(self) -> list[Any]:
            if TRIAL.has_passed():
                return [private.pipeline(kind, OwnBuiltins)]
            passes = _PassBuilder.define_nopython_pipeline(self.state)
            passes.add_pass_after(OwnBuiltins, _IRProcessing)
            passes.finalize()
            return [passes]

    return Compiler


# Compilers of helpers, of kernels, and of functions that run rarely.
HelperCompiler, KernelCompiler, ColdCompiler = map(_compiler, ("helper", "kernel", "cold"))


class Trial:
    """The trial of the passes in this process; the module `trial` sets `attempt`."""

    attempt: ClassVar[Callable[[], None]]

    def __init__(self) -> None:
        self._has_passed: bool | None = None

    def has_passed(self) -> bool:
        """Compile and run a kernel once per process, and return whether its result is right."""
        if self._has_passed is None:
            # True for now, because the passes must also compile the trial itself.
            self._has_passed = True
            try:
                type(self).attempt()
            # Any exception is caught, because another version of numba may fail in any way.
            except Exception as error:
                self._has_passed = False
                private.give_up("fast compilation", error)
        return self._has_passed


TRIAL = Trial()
