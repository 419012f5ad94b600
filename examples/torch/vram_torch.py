# SPDX-License-Identifier: Apache-2.0
"""Tensors of PyTorch in memory of vram.

    import vram_torch
    vram_torch.install()            # before the first use of CUDA
    ...
    print(vram_torch.report())      # also torch.cuda.memory_summary, max_memory_allocated, empty_cache, ...

install(record=True) also counts by tags, `with vram_torch.tag("optimizer"): ...`, and keeps a history for memory._snapshot().
A part of the program can use vram alone: `with torch.cuda.use_mem_pool(vram_torch.mem_pool()): ...`. The allocator (allocator.cpp
beside this file) is compiled once, with the headers of PyTorch and CUDA, in VRAM_TORCH_BUILD or the user's cache folder.
"""
import contextlib
import ctypes
import os
import pathlib
import pickle
import tempfile

import torch

from vram_allocator import HERE, INCLUDE, SOURCE, build

SIZES = ("allocated_bytes", "active_bytes", "requested_bytes")  # kinds of torch.cuda.memory_stats; vram has one number for all
UNKNOWN = ("inactive_split_bytes", "segment", "inactive_split", "oversize_allocations", "oversize_segments")
_library = None  # of install(), or of the first allocator
_kept = []  # each allocator, to which PyTorch keeps no reference, and its library
_begin = torch.cuda.CUDAGraph.capture_begin


def allocator(source=SOURCE, record=False, malloc="vram_torch_malloc", free="vram_torch_free"):
    """The allocator as an object of PyTorch, with the functions that PyTorch calls."""
    global _library
    path = str(build(source, record))
    plugged, library = torch.cuda.memory.CUDAPluggableAllocator(path, malloc, free), ctypes.CDLL(path)
    for name in ("record_stream", "reset"):
        getattr(plugged.allocator(), f"set_{name}_fn")(ctypes.cast(library[f"vram_torch_{name}"], ctypes.c_void_p).value)
    _kept.append((plugged, library))
    _library, torch.cuda.CUDAGraph.capture_begin = _library or library, _capture_begin
    return plugged


def _call(name, *arguments, library=None):
    call = getattr(library or _library, f"vram_torch_{name}")
    call.restype = ctypes.c_char_p
    if error := call(*arguments):
        raise RuntimeError(error.decode())


def _capture_begin(graph, *arguments, **named):
    pools = [torch.cuda.Stream(priority=p) for p in (0, -1) for _ in range(32)]  # every stream of PyTorch's pools
    for stream in [torch.cuda.current_stream(), *pools]:  # CUDA does not return the id of a stream during a capture
        for _, library in _kept:
            _call("note_stream", torch.cuda.current_device(), ctypes.c_void_p(stream.cuda_stream), library=library)
    return _begin(graph, *arguments, **named)


def install(source=SOURCE, record=False):
    """Makes vram the memory of all CUDA tensors. To be called before the first use of CUDA."""
    global _library
    torch.cuda.memory.change_current_allocator(allocator(source, record))
    _library = _kept[-1][1]
    for module in (torch.cuda, torch.cuda.memory):  # PyTorch's memory_summary, max_memory_allocated, ... call them
        module.memory_stats, module.reset_peak_memory_stats = memory_stats, reset_peak_memory_stats
    torch.cuda.memory._snapshot, torch.cuda.memory._dump_snapshot = snapshot, dump_snapshot


def mem_pool(source=SOURCE, record=False):
    """A torch.cuda.MemPool whose segments are blocks of vram; they are freed when the pool ends."""
    return torch.cuda.MemPool(allocator(source, record, "vram_torch_try_malloc", "vram_torch_free_segment").allocator())


def _index(device):
    index = device if device is None or isinstance(device, int) else torch.device(device).index
    return torch.cuda.current_device() if index is None else index


def usage(device=None):
    """Live and reserved bytes and their peaks, the bytes and blocks that were allocated and freed, and the refusals."""
    figures = (ctypes.c_uint64 * 9)()
    _call("usage", _index(device), figures)
    return dict(zip(("live", "peak_live", "reserved", "peak_reserved", "allocated", "freed", "allocations", "frees",
                     "refusals"), figures))


def memory_stats(device=None):
    """The statistics of torch.cuda.memory_stats, from which memory_allocated and memory_summary are computed. Numbers that
    vram does not have are 0: those of small and of large blocks, and of segments. The peaks of counts are current."""
    if not torch.cuda.is_initialized():
        return {}
    now = usage(device)
    count = now["allocations"] - now["frees"]
    rows = dict.fromkeys(UNKNOWN, (0, 0, 0, 0)) | {"reserved_bytes": (now["reserved"], now["peak_reserved"], now["reserved"], 0)}
    rows |= dict.fromkeys(SIZES, (now["live"], now["peak_live"], now["allocated"], now["freed"]))
    rows |= dict.fromkeys(("allocation", "active"), (count, count, now["allocations"], now["frees"]))
    return {f"{kind}{part}.{what}": value if part == ".all" else 0 for kind, row in rows.items()
            for part in (("",) if kind.startswith("oversize") else (".all", ".large_pool", ".small_pool"))
            for what, value in zip(("current", "peak", "allocated", "freed"), row)} | {
                "num_ooms": now["refusals"], "num_alloc_retries": 0}


def reset_peak_memory_stats(device=None):
    """Starts the peaks again at the current values."""
    _call("reset_peaks", _index(device))


def trim():
    """Returns unused memory of every allocator to the devices. Returns the number of bytes."""
    total, freed = 0, ctypes.c_uint64()
    for _, library in _kept:
        _call("trim", ctypes.byref(freed), library=library)
        total += freed.value
    return total


def forget_captures():
    """Waits for the device, then makes memory available again that was freed during captures.

    To be called after the last replay of all graphs.
    """
    for _, library in _kept:
        _call("forget_captures", library=library)


def report(device=None):
    """The report of the stack of a device, as text; after install(record=True), with the live bytes of each tag."""
    _call("report", _index(device), ctypes.byref(text := ctypes.c_char_p()))
    return text.value.decode()


@contextlib.contextmanager
def tag(name):
    """Names the purpose of the tensors that this thread allocates in the block. (Autograd has its own threads.)"""
    _call("begin_tag", name.encode())
    try:
        yield
    finally:
        _call("end_tag")


def dump_snapshot(filename="dump_snapshot.pickle", device=None):
    """Writes the history of a device for pytorch.org/memory_viz."""
    _call("snapshot", _index(device), os.fsencode(filename))


def snapshot(device=None):
    """The history of a device, as torch.cuda.memory._snapshot returns it."""
    with tempfile.TemporaryDirectory() as folder:
        dump_snapshot(f"{folder}/snapshot.pickle", device)
        return pickle.loads(pathlib.Path(folder, "snapshot.pickle").read_bytes())
