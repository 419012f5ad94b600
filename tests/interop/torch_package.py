#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package of examples/torch, without PyTorch and without a GPU: it is installed with pip, its allocator is compiled and
linked with the double of the CUDA runtime, and stand-ins for PyTorch, CuPy and Numba call it. If the real Numba can be imported, its
classes call it, too. torch_package.py COMPILER CUDA-INCLUDE

What needs PyTorch itself, the exceptions and the training, is examples/torch/train.py on a GPU; what needs Numba's arrays and
kernels is examples/torch/use_numba.py.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAND_IN = {
    "torch/__init__.py": "__version__ = 'stand-in'\nfrom . import cuda\n"
                         "class device:\n    def __init__(self, name):\n"
                         "        _, _, number = name.partition(':')\n        self.index = int(number) if number else None\n",
    "torch/utils/__init__.py": "",
    "torch/utils/cpp_extension.py": "import os\nCUDA_HOME = os.environ['STAND_IN_CUDA']\ndef include_paths(): return []\n",
    "torch/cuda/__init__.py": """
import ctypes, itertools, os
from . import memory
runtime = ctypes.CDLL(os.environ["STAND_IN_CUDA"] + "/lib64/libcudart.so")
initialized, current, stream = False, 0, None
def is_initialized(): return initialized
def current_device(): return current
def current_stream(device=None): return stream
class Stream:
    numbers, made = {0: itertools.count(), -1: itertools.count()}, {}
    def __init__(self, device=None, priority=0):  # one of 32 streams, as in PyTorch
        key = priority, next(self.numbers[priority]) % 32
        if key not in self.made:
            handle = ctypes.c_void_p()
            assert runtime.cudaStreamCreateWithFlags(ctypes.byref(handle), 1) == 0
            self.made[key] = handle.value
        self.cuda_stream = self.made[key]
class CUDAGraph:
    def capture_begin(self, *arguments, **named):
        assert runtime.cudaStreamBeginCapture(ctypes.c_void_p(stream.cuda_stream), 0) == 0
    def capture_end(self):
        return runtime.cudaStreamEndCapture(ctypes.c_void_p(stream.cuda_stream), ctypes.byref(ctypes.c_void_p()))
class MemPool:
    def __init__(self, allocator): self.allocator = allocator
""",
    "torch/cuda/memory.py": """
import ctypes
current = None
class CUDAPluggableAllocator:
    def __init__(self, path, malloc, free):
        self.library, self.set, self.names = ctypes.CDLL(path), {}, (malloc, free)
        self.malloc, self.free = getattr(self.library, malloc), getattr(self.library, free)
        self.malloc.restype, self.malloc.argtypes = ctypes.c_void_p, [ctypes.c_int64, ctypes.c_int, ctypes.c_void_p]
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_void_p]
    def allocator(self): return self
    def set_record_stream_fn(self, f): self.set["record_stream"] = f
    def set_reset_fn(self, f): self.set["reset"] = f
def change_current_allocator(a):
    global current
    current = a
def memory_stats(device=None): return {}
def max_memory_allocated(device=None): return memory_stats(device=device).get("allocated_bytes.all.peak", 0)
""",
    "cupy/__init__.py": "from . import cuda\n",
    "cupy/cuda.py": """
import types
stream = types.SimpleNamespace(ptr=0)
def get_current_stream(): return stream
class PythonFunctionAllocator:
    def __init__(self, malloc, free): self.functions = malloc, free
    def malloc(self, size): raise NotImplementedError
def set_allocator(function):
    global current
    current = function.__self__
""",
}
STAND_IN_NUMBA = {
    "numba/__init__.py": "",
    "numba/cuda/__init__.py": """
import collections, weakref
from .cudadrv import driver
MemoryInfo = collections.namedtuple("MemoryInfo", "free,total")
class HostOnlyCUDAMemoryManager:
    def __init__(self, *arguments, context, **named):
        self.context, self.flushed = context, 0
    def _attempt_allocation(self, allocator):
        try:
            return allocator()
        except driver.CudaAPIError as e:
            if e.code != 2:
                raise
            self.flushed += 1
            return allocator()
    def reset(self): self.flushed += 1
class GetIpcHandleMixin:
    def get_ipc_handle(self, memory): return driver.driver.cuIpcGetMemHandle(memory)
class MemoryPointer:
    def __init__(self, context, pointer, size, owner=None, finalizer=None):
        self.context, self.device_pointer_value, self.size = context, pointer.value, size
        self._finalizer = weakref.finalize(self, finalizer)
def set_memory_manager(plugin):
    global chosen
    assert plugin(context=None).interface_version == 1
    chosen = plugin
""",
    "numba/cuda/cudadrv/__init__.py": "",
    "numba/cuda/cudadrv/driver.py": """
class CudaAPIError(Exception):
    def __init__(self, code, msg):
        self.code, self.msg = code, msg
        super().__init__(code, msg)
class driver: pass
""",
}
USE = """
import ctypes, sys
import torch
import vram_torch
assert str(vram_torch.INCLUDE).startswith(str(vram_torch.HERE)), "the package has its own headers"
record = sys.argv[1] == "record"
vram_torch.install(record=record)
memory = torch.cuda.memory
a = memory.current
assert torch.cuda.memory_stats() == {} and memory.max_memory_allocated() == 0, "CUDA is not initialized"
torch.cuda.initialized = True
assert set(a.set) == {"record_stream", "reset"} and all(a.set.values())
with vram_torch.tag("optimizer"), vram_torch.tag("state"):
    p = a.malloc(1 << 20, 0, None)
q = a.malloc(4096, 0, None)
assert p and q and a.malloc(0, 0, None) is None
a.free(q, 4096, 0, None)
stats = torch.cuda.memory_stats()
assert stats["allocated_bytes.all.current"] == 1 << 20, stats
assert stats["allocated_bytes.all.allocated"] == (1 << 20) + 4096 and stats["allocated_bytes.all.freed"] == 4096, stats
assert stats["allocation.all.current"] == 1 and stats["allocation.all.allocated"] == 2 and stats["num_ooms"] == 0, stats
assert stats["reserved_bytes.all.current"] >= 1 << 20, stats
assert memory.max_memory_allocated() == (1 << 20) + 4096
for kind in ("allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes", "inactive_split_bytes", "allocation",
             "active", "segment", "inactive_split"):  # each number that torch.cuda.memory_summary prints
    for part in ("all", "large_pool", "small_pool"):
        assert all(f"{kind}.{part}.{what}" in stats for what in ("current", "peak", "allocated", "freed")), (kind, part)
for kind in ("oversize_allocations", "oversize_segments"):
    assert all(f"{kind}.{what}" in stats for what in ("current", "peak", "allocated", "freed")), kind
memory.reset_peak_memory_stats()
assert memory.max_memory_allocated() == 1 << 20
assert a.malloc(1 << 50, 0, None) is None, "without PyTorch's headers a refusal is null"
assert torch.cuda.memory_stats()["num_ooms"] == 1
before = torch.cuda.memory_stats()
alone = vram_torch.mem_pool(record=not record).allocator
assert alone.names == ("vram_torch_try_malloc", "vram_torch_free_segment") and alone.malloc(1 << 50, 0, None) is None
segment, busy = alone.malloc(1 << 26, 0, None), torch.cuda.Stream()
assert torch.cuda.runtime.cudaMemsetAsync(*map(ctypes.c_void_p, (segment, 0, 1 << 26, busy.cuda_stream))) == 0
assert torch.cuda.runtime.cudaStreamQuery(ctypes.c_void_p(busy.cuda_stream)) == 600, "cudaErrorNotReady"
alone.free(segment, 1 << 26, 0, None)
assert torch.cuda.runtime.cudaStreamQuery(ctypes.c_void_p(busy.cuda_stream)) == 0, "PyTorch frees a segment as cudaFree does"
assert torch.cuda.memory_stats() == before, "the figures are those of install()"
for wrong in (50, 1000, -1):
    for function in (vram_torch.usage, vram_torch.report, vram_torch.reset_peak_memory_stats):
        try:
            function(wrong)
            raise SystemExit(f"{function} accepts the device {wrong}")
        except RuntimeError as e:
            assert str(e)
torch.cuda.current = 1
assert [vram_torch._index(d) for d in (None, "cuda", "cuda:0", 0, "cuda:1")] == [1, 1, 0, 0, 1]
torch.cuda.current = 0
text = vram_torch.report()
assert "live" in text, text
if record:
    assert "optimizer/state" in text, text
    shot = memory._snapshot()
    assert {"segments", "device_traces"} <= set(shot), shot.keys()
    assert any(b["size"] == 1 << 20 for s in shot["segments"] for b in s["blocks"]), shot["segments"]
    assert any(e["action"] == "alloc" and e["size"] == 1 << 20 for e in shot["device_traces"][0])
else:
    try:
        memory._snapshot()
        raise SystemExit("there is no history")
    except RuntimeError as e:
        assert "install(record=True)" in str(e)
torch.cuda.stream, side, graph = torch.cuda.Stream(), torch.cuda.Stream(priority=-1), torch.cuda.CUDAGraph()
graph.capture_begin()  # vram has not seen the stream before
c = a.malloc(4096, 0, torch.cuda.stream.cuda_stream)
assert c
a.free(c, 4096, 0, torch.cuda.stream.cuda_stream)
assert graph.capture_end() == 0
assert torch.cuda.runtime.cudaStreamBeginCapture(ctypes.c_void_p(side.cuda_stream), 0) == 0
c = a.malloc(4096, 0, side.cuda_stream)  # a stream of PyTorch's pools that the program used only in a capture
a.free(c, 4096, 0, side.cuda_stream)
assert torch.cuda.runtime.cudaStreamEndCapture(ctypes.c_void_p(side.cuda_stream), ctypes.byref(ctypes.c_void_p())) == 0
vram_torch.forget_captures()
a.free(p, 1 << 20, 0, None)
assert vram_torch.trim() >= 1 << 20 and torch.cuda.memory_stats()["reserved_bytes.all.current"] == 0
assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == 0
"""
USE_CUPY = """
import ctypes, gc, os, sys, weakref
sys.path.insert(0, sys.argv[1])
import cupy
import cupy_vram
assert "torch" not in sys.modules
cupy_vram.install()
malloc, free = cupy.cuda.current.functions
p = malloc(1 << 20, 0)
assert p and cupy_vram.usage()["live"] == 1 << 20 and malloc(0, 0) == 0
try:
    malloc(1 << 50, 0)
    raise SystemExit("it is not refused")
except MemoryError as e:
    assert "could not be allocated" in str(e), e
assert cupy_vram.usage()["live"] == 1 << 20 and len(cupy_vram._blocks) == 1
try:
    malloc(1 << 20, 77)
    raise SystemExit("there is no device 77")
except RuntimeError as e:
    assert str(e)
free(p, 0)
free(0, 0)
assert cupy_vram.usage()["live"] == 0 and not cupy_vram._blocks


class Stream:  # as in CuPy, the end of the object destroys the stream
    runtime = ctypes.CDLL(os.environ["STAND_IN_CUDA"] + "/lib64/libcudart.so")
    def __init__(self):
        handle = ctypes.c_void_p()
        assert self.runtime.cudaStreamCreateWithFlags(ctypes.byref(handle), 1) == 0
        self.ptr = handle.value
    def __del__(self):
        assert self.runtime.cudaStreamDestroy(ctypes.c_void_p(self.ptr)) == 0


default, cupy.cuda.stream = cupy.cuda.stream, Stream()
ended, p = weakref.ref(cupy.cuda.stream), malloc(4096, 0)
cupy.cuda.stream = default
gc.collect()
assert ended() is not None, "a block keeps its stream until the free"
free(p, 0)
gc.collect()
assert ended() is None and cupy_vram.usage()["live"] == 0
"""
USE_NUMBA = """
import ctypes, gc, os, weakref
from numba import cuda
from numba.cuda.cudadrv import driver
import numba_vram
import vram_allocator
assert str(numba_vram.build.__code__.co_filename).startswith(str(vram_allocator.HERE)), "the installed module"
runtime = ctypes.CDLL(os.environ["STAND_IN_CUDA"] + "/lib64/libcudart.so")
class Device:
    id = 0
    def get_device_identity(self): return {}
class Context:
    device = Device()
numba_vram.install()
assert numba_vram._numba_memory_manager is numba_vram.vram_manager
context = Context()
manager = context.memory_manager = numba_vram.vram_manager(context=context)
manager.reset()  # Numba may call it before the first use
manager.initialize()
assert numba_vram.usage() == {"live": 0, "reserved": 0}
before = manager.get_memory_info()
a = manager.memalloc(1 << 20)
assert isinstance(a, cuda.MemoryPointer) and a.size == 1 << 20 and a.context is context
address, reserved = a.device_pointer_value, numba_vram.usage()["reserved"]
assert address and numba_vram.usage()["live"] == 1 << 20 and reserved >= 1 << 20
assert manager.get_memory_info() == (before.total - (1 << 20), before.total), "unused memory of the pool is free"
for _ in range(100):  # the memory is allocated again at once
    del a
    assert numba_vram.usage()["live"] == 0
    a = manager.memalloc(1 << 20)
    assert a.device_pointer_value == address and numba_vram.usage()["reserved"] == reserved

# The next owner of a block waits on the device for the streams that still use it.
first, second = ctypes.c_void_p(), ctypes.c_void_p()
for stream in (first, second):  # blocking, as Numba's streams
    assert runtime.cudaStreamCreateWithFlags(ctypes.byref(stream), 0) == 0
big = manager.memalloc(1 << 26)
at = big.device_pointer_value
assert runtime.cudaMemsetAsync(ctypes.c_void_p(at), 0, ctypes.c_size_t(1 << 26), first) == 0
assert runtime.cudaStreamQuery(first) == 600, "cudaErrorNotReady"
del big
assert runtime.cudaStreamQuery(first) == 600, "the host does not wait for a free"
big = manager.memalloc(1 << 26)
assert big.device_pointer_value == at and runtime.cudaStreamQuery(first) == 600
later = ctypes.c_void_p()
assert runtime.cudaEventCreateWithFlags(ctypes.byref(later), 2) == 0 and runtime.cudaEventRecord(later, second) == 0
assert runtime.cudaEventSynchronize(later) == 0 and runtime.cudaStreamQuery(first) == 0, "later work follows that of other streams"
del big

# A refusal is tried again after Numba's pending frees, and is an exception of both kinds.
attempts, attempt = [], manager._attempt_allocation
manager._attempt_allocation = lambda allocator: attempt(lambda: attempts.append(0) or allocator())
for kind in (driver.CudaAPIError, MemoryError):
    try:
        manager.memalloc(1 << 50)
        raise SystemExit("a petabyte is not refused")
    except kind as e:
        assert e.code == 2 and "1 PiB" in str(e).replace(".00", ""), str(e)
assert len(attempts) == 4
del manager._attempt_allocation, attempt
lost = Context()
lost.device = Device()
lost.device.id = 50
for call in (lambda m: m.memalloc(4096), lambda m: m.get_memory_info()):
    try:
        call(numba_vram.vram_manager(context=lost))
        raise SystemExit("there is no such device")
    except RuntimeError as e:
        assert str(e) and not isinstance(e, MemoryError)

# IPC: Numba's own handle with the offset, or a clear error.
class no_handles:
    def __getattr__(self, name):
        def call(*arguments): raise driver.CudaAPIError(1, name)
        return call
known, driver.driver = driver.driver, no_handles()
try:
    manager.get_ipc_handle(a)
    raise SystemExit("there is a handle")
except NotImplementedError as e:
    assert "IPC" in str(e)
driver.driver = known

manager.reset()  # frees the blocks of live arrays, too
assert numba_vram.usage() == {"live": 0, "reserved": 0}
b = manager.memalloc(1 << 20)
del a
gc.collect()
assert numba_vram.usage()["live"] == 1 << 20, "the array from before the reset frees nothing"
held = weakref.ref(context)
del context, manager
gc.collect()
assert held() is not None, "an array keeps its context"
numba_vram.install(pytorch=True)  # another stack
del b
gc.collect()
assert held() is None and numba_vram.usage()["live"] == 0
numba_vram.install()
assert numba_vram.usage()["live"] == 0, "a block is freed by the library that allocated it"
last = numba_vram.vram_manager(context=Context()).memalloc(1 << 20)  # freed at the end of the process
"""
USE_BOTH = """
import numba_vram, torch, vram_torch
vram_torch.install()
numba_vram.install(pytorch=True)
block = torch.cuda.memory.current.malloc(4096, 0, None)
assert block and numba_vram.usage()["live"] == vram_torch.usage()["live"] == 4096
"""


def run(*command, **how):
    made = subprocess.run(list(map(str, command)), capture_output=True, text=True, **how)
    if made.returncode != 0:
        print(f"FAILED: {' '.join(map(str, command))}\n{made.stdout}{made.stderr}")
        print("tally: 0 passed, 1 failed, 0 skipped")
        sys.exit(1)


def main():
    compiler, cuda_include = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        for name, content in (STAND_IN | {f"stand-in/{n}": c for n, c in STAND_IN_NUMBA.items()}).items():
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            (scratch / name).write_text(content)
        made = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", scratch,
                               ROOT / "examples/torch"], capture_output=True, text=True)
        if made.returncode != 0:
            if "No module named pip" in made.stderr or "setuptools" in made.stderr:  # no pip, or no network
                print("skipped: pip cannot build a package here")
                return
            print(f"FAILED: pip install\n{made.stdout}{made.stderr}\ntally: 0 passed, 1 failed, 0 skipped")
            sys.exit(1)
        # A Toolkit whose runtime is the double, and an empty library of PyTorch.
        (scratch / "cuda/lib64").mkdir(parents=True)
        (scratch / "cuda/include").symlink_to(cuda_include)
        (scratch / "torch/lib").mkdir()
        run(compiler, "-shared", "-x", "c++", os.devnull, "-o", scratch / "torch/lib/libc10.so")
        double = scratch / "double.cpp"  # its files in one, which takes a sixth of the time
        double.write_text("".join(f'#include "{source}"\n' for source in sorted((ROOT / "tests/doubles/cudart").glob("*.cpp"))))
        run(compiler, "-std=c++20", "-O0", "-fPIC", "-shared", f"-I{ROOT}/include", f"-I{ROOT}/tests", "-isystem", cuda_include,
            double, "-o", scratch / "cuda/lib64/libcudart.so")
        environment = os.environ | {"PYTHONPATH": folder, "STAND_IN_CUDA": str(scratch / "cuda"), "CXX": compiler, "CXXFLAGS": "-O0",
                                    "VRAM_TORCH_BUILD": str(scratch / "built")}
        plain = environment | {"CUDA_HOME": str(scratch / "cuda")}  # without PyTorch
        for how in ("plain", "record"):
            run(sys.executable, "-c", USE, how, env=environment)
        with_stand_in = {"PYTHONPATH": f"{folder}:{folder}/stand-in"}  # -S: without numba-cuda's hooks of imports
        run(sys.executable, "-S", "-c", USE_NUMBA, env=plain | with_stand_in)
        run(sys.executable, "-S", "-c", USE_BOTH, env=environment | with_stand_in)
        numba = subprocess.run([sys.executable, "-c", "import numba.cuda as c; c.HostOnlyCUDAMemoryManager"], capture_output=True,
                               text=True)
        if numba.returncode == 0:
            # Numba loads the real runtime, too, with global symbols: those of the double must come first.
            run(sys.executable, "-c", USE_NUMBA, env=plain | {"LD_PRELOAD": str(scratch / "cuda/lib64/libcudart.so")})
        else:
            print("the real Numba is left out: " + (numba.stderr.strip().splitlines() or ["it cannot be imported"])[-1])
        run(sys.executable, "-B", "-c", USE_CUPY, ROOT / "examples/torch", env=plain)
        assert len(list((scratch / "built").glob("*.so"))) == 4
    left_out = int(numba.returncode != 0)
    print(f"tally: {7 - left_out} passed, 0 failed, {left_out} skipped")


main()
