#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Arrays of CuPy in memory of vram. As a program, tries it on two streams and prints the results.

    import cupy_vram
    cupy_vram.install()

CuPy passes no stream, so a block belongs to the stream that is current at its allocation, as in CuPy's own pool. The allocator
(allocator.cpp beside this file) is compiled at the first use, without PyTorch.
"""
import ctypes

import cupy

from vram_allocator import SOURCE, build

_library = None
# [functions]
_blocks = {}  # the size and the stream of each live block: CuPy frees by the address alone


def _malloc(size, device):
    stream = cupy.cuda.get_current_stream()
    block, no_memory = ctypes.c_void_p(), ctypes.c_int()
    error = _library.vram_torch_allocate(size, device, stream.ptr, ctypes.byref(block), ctypes.byref(no_memory))
    if error:
        raise (MemoryError if no_memory.value else RuntimeError)(error.decode())
    if block.value:
        _blocks[block.value] = size, stream  # the object: CuPy destroys a stream with its last reference
    return block.value or 0


def _free(block, device):
    if block:
        size, stream = _blocks.pop(block)
        _library.vram_torch_free(block, size, device, stream.ptr)
# [/functions]


def install(source=SOURCE):
    """Makes vram the memory of all arrays that are made from now on."""
    global _library
    _library = ctypes.CDLL(str(build(source, pytorch=False)))
    _library.vram_torch_allocate.restype = ctypes.c_char_p
    _library.vram_torch_allocate.argtypes = ctypes.c_int64, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    _library.vram_torch_free.argtypes = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_void_p
    _library.vram_torch_usage.restype = ctypes.c_char_p
    # [allocator]
    cupy.cuda.set_allocator(cupy.cuda.PythonFunctionAllocator(_malloc, _free).malloc)
    # [/allocator]


def usage(device=0):
    """The live and the reserved bytes of a device."""
    figures = (ctypes.c_uint64 * 9)()
    if error := _library.vram_torch_usage(device, figures):
        raise RuntimeError(error.decode())
    return {"live": figures[0], "reserved": figures[2]}


def main():
    install()
    for stream in (cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)):
        with stream:
            for turn in range(100):
                numbers = cupy.full(1 << 20, turn, dtype=cupy.float32)
                if int((numbers * 2).sum(dtype=cupy.float64)) != turn << 21:
                    raise SystemExit(f"turn {turn} has a wrong sum")
    print("sums of two streams are right:", usage())
    del numbers
    try:
        cupy.empty(1 << 50, dtype=cupy.uint8)
        raise SystemExit("a petabyte is not refused")
    except MemoryError as refused:
        print("refused:", refused)
    print("after the last array:", usage())


if __name__ == "__main__":
    main()
