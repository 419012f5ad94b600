#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Arrays of Numba in memory of vram: kernels, streams, reuse, a refusal, a handle for another process, and a reset.

    use_numba.py
"""
import multiprocessing
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # not needed after pip install
import numpy
from numba import cuda

N = 1 << 20


@cuda.jit
def fill(out, value, naps):
    for _ in range(naps):
        cuda.nanosleep(1_000_000)
    i = cuda.grid(1)
    if i < out.size:
        out[i] = value


def first_of(handle, results):
    """Another process: opens the handle of an array and returns its first element."""
    try:
        with handle as array:
            results.put(float(array.copy_to_host()[0]))
    except Exception as e:
        results.put(e.args and str(e.args[-1]))


def main():
    # [install]
    import numba_vram
    numba_vram.install()  # before the first use of CUDA
    x = cuda.to_device(numpy.arange(1000.0))  # memory of vram, as that of all device arrays
    print(numba_vram.usage())
    # [/install]
    assert (x.copy_to_host() == numpy.arange(1000.0)).all() and numba_vram.usage()["live"] >= x.nbytes

    ones = numpy.ones(N, numpy.float32)
    for value in range(100):
        numbers = cuda.to_device(ones)
        fill[N // 256, 256](numbers, value, 0)
        assert (numbers.copy_to_host() == value).all()
        del numbers
    assert numba_vram.usage()["reserved"] < 8 * ones.nbytes, "the memory is used again"
    print("100 arrays, one after the other:", numba_vram.usage())

    first, second = cuda.stream(), cuda.stream()
    began = time.perf_counter()
    old = cuda.device_array(N, numpy.float32)
    fill[N // 256, 256, first](old, 1, 400)  # sleeps longer than all calls here take
    address = old.device_ctypes_pointer.value
    del old
    new = cuda.device_array(N, numpy.float32)
    fill[N // 256, 256, second](new, 2, 0)
    calls = time.perf_counter() - began
    cuda.synchronize()
    assert new.device_ctypes_pointer.value == address and calls < (time.perf_counter() - began) / 2, calls
    assert (new.copy_to_host() == 2).all(), "the kernel of the other stream came first"
    print(f"memory is used again while a stream still uses it, by calls of {calls * 1e3:.2f} ms")

    try:
        cuda.device_array(1 << 50, numpy.uint8)
        raise SystemExit("a petabyte is not refused")
    except MemoryError as e:  # also numba.cuda.cudadrv.driver.CudaAPIError
        print("refused:", e)
    free, total = cuda.current_context().get_memory_info()
    assert 0 < free <= total

    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    try:
        other = spawn.Process(target=first_of, args=(new.get_ipc_handle(), results))
        other.start()
        print("another process reads 2 as", results.get(timeout=30))
        other.join()
    except Exception as e:
        print("no array for another process:", e)

    cuda.current_context().reset()
    assert numba_vram.usage() == {"live": 0, "reserved": 0}, numba_vram.usage()
    y = cuda.to_device(numpy.arange(10))
    assert (y.copy_to_host() == numpy.arange(10)).all()
    print("after a reset:", numba_vram.usage())


if __name__ == "__main__":
    main()
