"""A simulated GPU: CuPy's interface in host memory, with the kernels of `cuda_on_host.cpp`."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
import types
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "river_mondrian/partitions/voronoi/nearest.cu"
COMPILER = shutil.which("g++")

# Guard bytes around every array, which no kernel may write.
GUARD = 256
FORBIDDEN, UNSET = 0xFF, 0xCD

FAILURES = {
    1: "there is no such kernel",
    2: "the number or the sizes of the arguments are wrong",
    3: "threads wait at a barrier or a shuffle for threads that never arrive",
    4: "a block wrote beyond its shared memory",
}


@functools.cache
def library():
    """Compile the kernels for the host, and return the library."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.so"
        options = ["-std=c++17", "-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-w"]
        options += ["-shared", "-fPIC", f'-DSOURCE="{SOURCE}"', "-o", path]
        subprocess.run([COMPILER, *options, HERE / "cuda_on_host.cpp"], check=True)
        return ctypes.CDLL(path)


class DeviceArray:
    """Array of the simulated GPU that detects stray writes; only `get` copies it to the host."""

    def __init__(self, shape, dtype, fill=UNSET):
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = np.dtype(dtype)
        self.nbytes = self.dtype.itemsize * int(np.prod(self.shape))
        room = np.full(self.nbytes + 2 * GUARD + 64, FORBIDDEN, dtype=np.uint8)
        begin = GUARD + -(room.ctypes.data + GUARD) % 64
        self._room, self._begin = room, begin
        room[begin : begin + self.nbytes] = fill
        self._values = room[begin : begin + self.nbytes].view(self.dtype).reshape(self.shape)

    @property
    def address(self):
        return self._room.ctypes.data + self._begin

    @property
    def host(self):
        """Return the values for checks in tests."""
        return self._values

    def check(self):
        beside = self._room[: self._begin], self._room[self._begin + self.nbytes :]
        assert all((part == FORBIDDEN).all() for part in beside), "a kernel wrote beside an array"

    def __len__(self):
        return self.shape[0]

    def __add__(self, number):
        return asarray(self._values + number)

    def sum(self):
        return self._values.sum()

    def __array__(self, *args, **kwargs):
        raise TypeError("implicit copy to the host")

    def get(self, out):
        assert out.dtype == self.dtype and out.flags.c_contiguous
        out[...] = self._values


def asarray(values):
    # CuPy would keep another memory order, which the kernels do not support.
    assert type(values) is np.ndarray and values.flags.c_contiguous
    array = DeviceArray(values.shape, values.dtype)
    array._values[...] = values
    return array


class Kernel:
    """A kernel with CuPy's launch interface."""

    def __init__(self, name, schedule, known, record):
        self.name, self.schedule, self.library, self.record = name, schedule, known, record
        self.max_dynamic_shared_size_bytes = 48 << 10

    def __call__(self, grid, block, args, *, shared_mem=0):
        assert shared_mem <= self.max_dynamic_shared_size_bytes
        assert len(block) == 1 and 1 <= block[0] <= 1024
        sides = (*grid, 1)[:2]
        assert 1 <= sides[0] < 1 << 31 and 1 <= sides[1] < 1 << 16
        arrays = [value for value in args if isinstance(value, DeviceArray)]
        # CuPy passes a Python number with 64 bits, so arguments must have a NumPy type.
        values = [np.uint64(v.address) if isinstance(v, DeviceArray) else v for v in args]
        assert all(isinstance(value, np.generic) for value in values)
        kept = [np.array([value]) for value in values]
        pointers = (ctypes.c_void_p * len(kept))(*(value.ctypes.data for value in kept))
        sizes = (ctypes.c_size_t * len(kept))(*(value.itemsize for value in kept))
        where = (ctypes.c_int * 2)(*sides), block[0], shared_mem, self.schedule
        status = self.library.launch(self.name.encode(), *where, len(kept), pointers, sizes)
        assert status == 0, f"{self.name}: {FAILURES[status]}"
        for array in arrays:
            array.check()
        self.record[self.name] = args


# Properties of the simulated GPU. `free` is in bytes, and `shared` is in bytes per block.
USUAL = {"driver": True, "n_devices": 1, "kernel": True, "free": 1 << 30, "shared": 232_448}
USUAL |= {"processors": 2, "schedule": 0}


def cupy(**options):
    """Return a module with the CuPy functions that the package calls."""
    given = types.SimpleNamespace(**USUAL | options)
    module = types.ModuleType("cupy")
    # The arguments of each kernel's last launch.
    module.launched = {}
    for name in ("int32", "uint32", "float32"):
        setattr(module, name, getattr(np, name))

    def count():
        if not given.driver:
            raise OSError("cudaErrorInsufficientDriver")
        return given.n_devices

    def arange(n, dtype):
        if not given.kernel:
            raise OSError("cannot find nvrtc")
        return asarray(np.arange(n, dtype=dtype))

    limits = {"MaxSharedMemoryPerBlockOptin": given.shared, "MultiProcessorCount": given.processors}

    class Device:
        attributes = types.MappingProxyType(limits)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    class RawModule:
        def __init__(self, *, code):
            assert code == SOURCE.read_text()

        def get_function(self, name):
            return Kernel(name, given.schedule, library(), module.launched)

    memory = given.free, 2 * given.free
    runtime = types.SimpleNamespace(getDeviceCount=count, memGetInfo=lambda: memory)
    module.cuda = types.SimpleNamespace(runtime=runtime, Device=Device)
    module.get_default_memory_pool = lambda: types.SimpleNamespace(free_bytes=lambda: 0)
    module.RawModule = RawModule
    module.arange, module.asarray, module.empty = arange, asarray, DeviceArray
    module.zeros = lambda shape, dtype: DeviceArray(shape, dtype, fill=0)
    return module
