# SPDX-License-Identifier: Apache-2.0
"""Tensors of PyTorch in memory of vram.

    import vram_torch
    vram_torch.install()            # before the first use of CUDA
    ...
    print(vram_torch.report())      # also torch.cuda.memory_summary, max_memory_allocated, empty_cache, ...

install(record=True) also counts by tags, `with vram_torch.tag("optimizer"): ...`, and keeps a history for memory._snapshot().
A part of the program can use vram alone: `with torch.cuda.use_mem_pool(vram_torch.mem_pool()): ...`. The allocator
(allocator.cpp beside this file) is compiled once, with PyTorch's headers, in VRAM_TORCH_BUILD or the user's cache folder.
"""
import contextlib
import ctypes
import hashlib
import os
import pathlib
import pickle
import subprocess
import tempfile

import torch
from torch.utils import cpp_extension

HERE = pathlib.Path(__file__).resolve().parent
BUNDLED = HERE / "include"  # of the installed package
INCLUDE = pathlib.Path(os.environ.get("VRAM_INCLUDE", BUNDLED if BUNDLED.is_dir() else HERE.parent.parent / "include"))
SOURCE = "stream_ordered<cuda_resource>"
SIZES = ("allocated_bytes", "active_bytes", "requested_bytes")  # kinds of torch.cuda.memory_stats; vram has one number for all
COUNTS = ("allocation", "active")
UNKNOWN = ("reserved_bytes", "inactive_split_bytes", "segment", "inactive_split", "oversize_allocations", "oversize_segments")
_library = None
_kept = []  # PyTorch keeps no reference to an allocator


def build(source=SOURCE, record=False, compiler=os.environ.get("CXX", "c++")):
    """Compiles the allocator over the resource `source`, such as "virtual_resource", and returns the library's path."""
    cuda = cpp_extension.CUDA_HOME or "/usr/local/cuda"
    torch_lib = pathlib.Path(torch.__file__).parent / "lib"
    command = [compiler, "-std=c++20", "-O2", "-fPIC", "-shared", f"-DVRAM_TORCH_SOURCE={source}",
               *(["-DVRAM_TORCH_RECORD"] if record else []), str(HERE / "allocator.cpp"),
               f"-I{INCLUDE}", f"-I{cuda}/include", *(f"-I{p}" for p in cpp_extension.include_paths()),
               f"-L{torch_lib}", "-lc10", f"-L{cuda}/lib64", "-lcudart", f"-Wl,-rpath,{torch_lib}", "-ldl", "-pthread"]
    headers = sorted(INCLUDE.rglob("*.hpp")) + [HERE / "allocator.cpp"]
    state = hashlib.sha256("\n".join([torch.__version__, *command, *(p.read_text() for p in headers)]).encode()).hexdigest()
    folder = pathlib.Path(os.environ.get("VRAM_TORCH_BUILD", pathlib.Path.home() / ".cache" / "vram_torch"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"allocator-{state[:16]}.so"
    if not path.exists():
        made = path.with_suffix(f".{os.getpid()}")  # renamed when it is complete: other processes may build it, too
        subprocess.run([*command, "-o", str(made)], check=True)
        made.rename(path)
    return path


def allocator(source=SOURCE, record=False):
    """The allocator as an object of PyTorch, with the functions that PyTorch calls."""
    global _library
    path = build(source, record)
    plugged = torch.cuda.memory.CUDAPluggableAllocator(str(path), "vram_torch_malloc", "vram_torch_free")
    _library = ctypes.CDLL(str(path))
    _library.vram_torch_report.restype = _library.vram_torch_snapshot.restype = ctypes.c_char_p
    _kept.append(plugged)

    def address(name):
        return ctypes.cast(getattr(_library, name), ctypes.c_void_p).value

    plugged.allocator().set_record_stream_fn(address("vram_torch_record_stream"))
    plugged.allocator().set_reset_fn(address("vram_torch_trim"))
    return plugged


def install(source=SOURCE, record=False):
    """Makes vram the memory of all CUDA tensors. To be called before the first use of CUDA."""
    torch.cuda.memory.change_current_allocator(allocator(source, record))
    for function in (memory_stats, reset_peak_memory_stats):  # PyTorch's memory_summary, max_memory_allocated, ... call them
        setattr(torch.cuda, function.__name__, function)
        setattr(torch.cuda.memory, function.__name__, function)
    torch.cuda.memory._snapshot, torch.cuda.memory._dump_snapshot = snapshot, dump_snapshot


def mem_pool(source=SOURCE, record=False):
    """A torch.cuda.MemPool whose segments are blocks of vram; they are freed when the pool ends."""
    return torch.cuda.MemPool(allocator(source, record).allocator())


def _index(device):
    if device is None:
        return torch.cuda.current_device()
    return device if isinstance(device, int) else (torch.device(device).index or 0)


def usage(device=None):
    """Live and reserved bytes and their peaks, the bytes and blocks that were allocated and freed, and the refusals."""
    figures = (ctypes.c_uint64 * 9)()
    _library.vram_torch_usage(_index(device), figures)
    return dict(zip(("live", "peak_live", "reserved", "peak_reserved", "allocated", "freed", "allocations", "frees",
                     "refusals"), figures))


def memory_stats(device=None):
    """The statistics of torch.cuda.memory_stats, from which memory_allocated and memory_summary are computed. Numbers that
    vram does not have are 0: those of small and of large blocks, and of segments. The peaks of counts are current."""
    now = usage(device)
    stats = {f"{kind}{part}.{what}": 0 for kind in SIZES + COUNTS + UNKNOWN
             for part in (("",) if kind.startswith("oversize") else (".all", ".large_pool", ".small_pool"))
             for what in ("current", "peak", "allocated", "freed")}
    for kinds, values in (
            (SIZES, (now["live"], now["peak_live"], now["allocated"], now["freed"])),
            (COUNTS, (now["allocations"] - now["frees"], now["allocations"] - now["frees"], now["allocations"], now["frees"])),
            (("reserved_bytes",), (now["reserved"], now["peak_reserved"], now["reserved"], 0))):
        for kind in kinds:
            stats.update(zip((f"{kind}.all.{what}" for what in ("current", "peak", "allocated", "freed")), values))
    return stats | {"num_ooms": now["refusals"], "num_alloc_retries": 0}


def reset_peak_memory_stats(device=None):
    """Starts the peaks again at the current values."""
    _library.vram_torch_reset_peaks(_index(device))


def report(device=None):
    """The report of the stack of a device, as text; after install(record=True), with the live bytes of each tag."""
    return _library.vram_torch_report(_index(device)).decode()


@contextlib.contextmanager
def tag(name):
    """Names the purpose of the tensors that this thread allocates in the block. (Autograd has its own threads.)"""
    _library.vram_torch_begin_tag(name.encode())
    try:
        yield
    finally:
        _library.vram_torch_end_tag()


def dump_snapshot(filename="dump_snapshot.pickle", device=None):
    """Writes the history of a device for pytorch.org/memory_viz."""
    error = _library.vram_torch_snapshot(_index(device), os.fsencode(filename))
    if error:
        raise RuntimeError(error.decode())


def snapshot(device=None):
    """The history of a device, as torch.cuda.memory._snapshot returns it."""
    with tempfile.TemporaryDirectory() as folder:
        dump_snapshot(f"{folder}/snapshot.pickle", device)
        return pickle.loads(pathlib.Path(folder, "snapshot.pickle").read_bytes())
