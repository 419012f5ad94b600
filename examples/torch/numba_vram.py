# SPDX-License-Identifier: Apache-2.0
"""Arrays of Numba in memory of vram.

    import numba_vram
    numba_vram.install()            # before the first use of CUDA

The environment variable NUMBA_CUDA_MEMORY_MANAGER=numba_vram does the same. Numba passes no stream: blocks belong to the legacy default
stream, for which Numba's streams wait. The allocator (allocator.cpp) is compiled at the first use, without PyTorch.
"""
import ctypes

from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError

from vram_allocator import SOURCE, build

_library = None


class refused(CudaAPIError, MemoryError):
    """A refusal, with the sentences of vram's `explain`."""


def _call(name, *arguments):
    call = getattr(_library, f"vram_torch_{name}")
    call.restype = ctypes.c_char_p
    if error := call(*arguments):
        raise RuntimeError(error.decode())


def _allocate(size, device):
    block, no_memory = ctypes.c_void_p(), ctypes.c_int()
    try:
        _call("allocate_default", ctypes.c_int64(size), device, ctypes.byref(block), ctypes.byref(no_memory))
    except RuntimeError as e:
        raise (refused(2, str(e)) if no_memory.value else e) from None  # 2 is CUDA_ERROR_OUT_OF_MEMORY
    return block


class vram_manager(cuda.GetIpcHandleMixin, cuda.HostOnlyCUDAMemoryManager):
    """The memory of one context. Numba manages the pinned memory itself."""

    interface_version = 1

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self._blocks = {}  # the library, address, size and device of each live block
        if _library is None:  # NUMBA_CUDA_MEMORY_MANAGER
            _load(pytorch=False)

    def initialize(self):
        pass

    def memalloc(self, size):
        device, key = self.context.device.id, object()
        block = self._attempt_allocation(lambda: _allocate(size, device))
        self._blocks[key] = _library, block, ctypes.c_int64(size), device
        return cuda.MemoryPointer(self.context, block, size, finalizer=lambda: self._free(key))

    def _free(self, key):
        library, *block = self._blocks.pop(key, [None])
        if library:  # else reset() has freed the block
            library.vram_torch_free_default(*block)

    def reset(self):
        super().reset()
        for key in list(self._blocks):
            self._free(key)
        _call("trim", ctypes.byref(ctypes.c_uint64()))

    def get_memory_info(self):
        _call("memory_info", self.context.device.id, figures := (ctypes.c_uint64 * 2)())
        return cuda.MemoryInfo(free=figures[0], total=figures[1])

    def get_ipc_handle(self, memory):
        try:
            return super().get_ipc_handle(memory)  # of the chunk, with the offset of the block
        except CudaAPIError as e:
            raise NotImplementedError(f"CUDA has no IPC handle for this memory, as for all of virtual_resource: {e}") from e


_numba_memory_manager = vram_manager  # for NUMBA_CUDA_MEMORY_MANAGER


def _load(*arguments, **named):
    global _library
    _library = ctypes.CDLL(str(build(*arguments, **named)))


def install(source=SOURCE, record=False, pytorch=False):
    """Makes vram the memory of all device arrays. To be called before the first use of CUDA. With pytorch=True, and `source` and
    `record` as those of vram_torch.install, PyTorch and Numba share a stack."""
    _load(source, record, pytorch=pytorch)
    cuda.set_memory_manager(vram_manager)


def usage(device=0):
    """The live and the reserved bytes of a device."""
    _call("usage", device, figures := (ctypes.c_uint64 * 9)())
    return {"live": figures[0], "reserved": figures[2]}
