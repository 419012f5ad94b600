#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads arrays of vram with NumPy, PyTorch and CuPy, and gives vram their arrays, without a copy.

    dlpack.py LIBRARY    the shared library that examples/interop/dlpack.cpp becomes

Libraries that are not installed, and those of a GPU without one, are skipped.
"""
import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
library.vram_numbers.argtypes = [ctypes.c_bool, ctypes.c_bool, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
library.vram_numbers.restype = ctypes.c_void_p
library.vram_sum.argtypes = [ctypes.c_bool, ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p]
library.vram_sum.restype = ctypes.c_double
library.vram_drop.argtypes = [ctypes.c_bool, ctypes.c_void_p]
library.vram_drop.restype = None
library.vram_has_cuda.restype = ctypes.c_bool
library.vram_live.argtypes = [ctypes.c_bool]
library.vram_live.restype = ctypes.c_size_t

python = ctypes.pythonapi
destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, destructor]
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
python.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_SetName.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
NAMES = {True: b"dltensor_versioned", False: b"dltensor"}
USED = {True: b"used_dltensor_versioned", False: b"used_dltensor"}


@destructor
def drop(capsule):
    """Frees the tensor of a capsule that no library has taken over. (Its owner renames it.)"""
    for versioned, name in NAMES.items():
        if python.PyCapsule_IsValid(capsule, name):
            library.vram_drop(versioned, python.PyCapsule_GetPointer(capsule, name))


class numbers:
    """The numbers 0, 1, 2, ... in memory of vram: an object that from_dlpack of each library takes."""

    def __init__(self, cuda, rows, columns, versions=True):
        self.cuda, self.rows, self.columns, self.versions = cuda, rows, columns, versions

    def __dlpack_device__(self):
        return (2, 0) if self.cuda else (1, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        versioned = self.versions and max_version is not None and max_version[0] >= 1
        tensor = library.vram_numbers(self.cuda, versioned, stream if stream and stream > 0 else None, self.rows, self.columns)
        return python.PyCapsule_New(tensor, NAMES[versioned], drop)


def total(array, cuda, stream=None):
    """The sum of an array of another library, computed in vram."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0), **({"stream": stream} if cuda else {}))
    except TypeError:  # a library of before DLPack 1.0
        capsule = array.__dlpack__(**({"stream": stream} if cuda else {}))
    for versioned, name in NAMES.items():
        if python.PyCapsule_IsValid(id(capsule), name):
            tensor = python.PyCapsule_GetPointer(id(capsule), name)
            python.PyCapsule_SetName(id(capsule), USED[versioned])
            return library.vram_sum(cuda, versioned, stream, tensor)
    raise TypeError("no capsule of DLPack")


def check(title, from_dlpack, cuda, ones, stream=None):
    for versioned in (True, False):
        array = from_dlpack(numbers(cuda, 30, 40, versioned))
        assert tuple(array.shape) == (30, 40) and float(array[29, 39]) == 1199, array
        assert library.vram_live(cuda) >= 4800  # the memory is that of vram
        if getattr(getattr(array, "flags", None), "writeable", True) is not False:  # NumPy may only read tensors of before 1.0
            array[0, 0] = 1.0
            assert total(array, cuda, stream) == 719401  # and back
        del array
        assert library.vram_live(cuda) == 0  # the deleter was called
    assert total(ones, cuda, stream) == 100
    numbers(cuda, 3, 4).__dlpack__()  # a capsule that no library takes over
    assert library.vram_live(cuda) == 0
    print(f"{title}: shared in both directions")


def main():
    try:
        import numpy
        check("NumPy", numpy.from_dlpack, False, numpy.ones(100, numpy.float32))
    except ImportError:
        print("skipped: NumPy is not installed")
    try:
        import torch
        if library.vram_has_cuda() and torch.cuda.is_available():
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                check("PyTorch", torch.from_dlpack, True, torch.ones(100, device="cuda"), side.cuda_stream)
        else:
            check("PyTorch on the host", torch.from_dlpack, False, torch.ones(100))
    except ImportError:
        print("skipped: PyTorch is not installed")
    try:
        import cupy
        if not library.vram_has_cuda() or not cupy.cuda.is_available():
            print("skipped: CuPy without a GPU")
            return
        side = cupy.cuda.Stream(non_blocking=True)
        with side:
            check("CuPy", cupy.from_dlpack, True, cupy.ones(100, cupy.float32), side.ptr)
    except ImportError:
        print("skipped: CuPy is not installed")


if __name__ == "__main__":
    main()
