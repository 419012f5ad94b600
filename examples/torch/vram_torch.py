# SPDX-License-Identifier: Apache-2.0
"""Tensors of PyTorch in memory of vram.

    import vram_torch
    vram_torch.install()            # before the first use of CUDA
    ...
    print(vram_torch.report())      # also torch.cuda.memory_allocated, max_memory_reserved, empty_cache, ...

A part of the program can use vram alone: `with torch.cuda.use_mem_pool(vram_torch.mem_pool()): ...`. The allocator
(allocator.cpp beside this file) is compiled once, with PyTorch's headers, in VRAM_TORCH_BUILD or the user's cache folder.
"""
import ctypes
import hashlib
import os
import pathlib
import subprocess

import torch
from torch.utils import cpp_extension

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = pathlib.Path(os.environ.get("VRAM_INCLUDE", HERE.parent.parent / "include"))
_library = None
_kept = []  # PyTorch keeps no reference to an allocator


def build(source="stream_ordered<cuda_resource>", compiler=os.environ.get("CXX", "c++")):
    """Compiles the allocator over the resource `source`, such as "virtual_resource", and returns the library's path."""
    cuda = cpp_extension.CUDA_HOME or "/usr/local/cuda"
    torch_lib = pathlib.Path(torch.__file__).parent / "lib"
    command = [compiler, "-std=c++20", "-O2", "-fPIC", "-shared", f"-DVRAM_TORCH_SOURCE={source}", str(HERE / "allocator.cpp"),
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


def allocator(source="stream_ordered<cuda_resource>"):
    """The allocator as an object of PyTorch, with the functions that PyTorch calls."""
    global _library
    path = build(source)
    plugged = torch.cuda.memory.CUDAPluggableAllocator(str(path), "vram_torch_malloc", "vram_torch_free")
    _library = ctypes.CDLL(str(path))
    _library.vram_torch_report.restype = ctypes.c_char_p
    _kept.append(plugged)

    def address(name):
        return ctypes.cast(getattr(_library, name), ctypes.c_void_p).value

    plugged.allocator().set_record_stream_fn(address("vram_torch_record_stream"))
    plugged.allocator().set_reset_fn(address("vram_torch_trim"))
    return plugged


def install(source="stream_ordered<cuda_resource>"):
    """Makes vram the memory of all CUDA tensors. To be called before the first use of CUDA."""
    torch.cuda.memory.change_current_allocator(allocator(source))
    torch.cuda.memory_stats = torch.cuda.memory.memory_stats = memory_stats
    torch.cuda.reset_peak_memory_stats = torch.cuda.memory.reset_peak_memory_stats = reset_peak_memory_stats
    torch.cuda.memory_summary = torch.cuda.memory.memory_summary = lambda device=None, abbreviated=False: report(device)


def mem_pool(source="stream_ordered<cuda_resource>"):
    """A torch.cuda.MemPool whose segments are blocks of vram; they are freed when the pool ends."""
    return torch.cuda.MemPool(allocator(source).allocator())


def _index(device):
    if device is None:
        return torch.cuda.current_device()
    return device if isinstance(device, int) else (torch.device(device).index or 0)


def usage(device=None):
    """Live, peak live, reserved and peak reserved bytes, and the number of allocations."""
    figures = (ctypes.c_uint64 * 5)()
    _library.vram_torch_usage(_index(device), figures)
    return dict(zip(("live", "peak_live", "reserved", "peak_reserved", "allocations"), figures))


def memory_stats(device=None):
    """The statistics under the names of torch.cuda.memory_stats, from which memory_allocated and others are computed."""
    now = usage(device)
    return {"allocated_bytes.all.current": now["live"], "allocated_bytes.all.peak": now["peak_live"],
            "reserved_bytes.all.current": now["reserved"], "reserved_bytes.all.peak": now["peak_reserved"],
            "allocation.all.allocated": now["allocations"]}


def reset_peak_memory_stats(device=None):
    _library.vram_torch_reset_peaks(_index(device))


def report(device=None):
    """The report of the stack of a device, as text."""
    return _library.vram_torch_report(_index(device)).decode()
