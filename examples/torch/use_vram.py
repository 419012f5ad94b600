#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The memory of PyTorch's tensors from vram: for the whole program, or for a part of it.

    use_vram.py whole|part
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # not needed after pip install
import torch


def whole():
    # [install]
    import vram_torch
    vram_torch.install()  # before the first use of CUDA
    x = torch.ones(1000, 1000, device="cuda")  # memory of vram, as that of all CUDA tensors
    print(torch.cuda.memory_summary())
    print(vram_torch.report())
    # [/install]
    assert torch.cuda.memory_allocated() >= x.nbytes
    y = x * 2  # loads the kernel outside of the capture
    # [graph]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    graph.replay()
    torch.cuda.synchronize()
    del y, graph  # after the last replay of all graphs:
    vram_torch.forget_captures()  # frees the memory that the graphs have freed
    vram_torch.trim()  # returns unused memory to the device
    # [/graph]


def part():
    # [pool]
    import vram_torch
    pool = vram_torch.mem_pool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(1000, 1000, device="cuda")  # memory of vram
    y = x + 1  # memory of PyTorch's own allocator
    print(vram_torch.report())
    del x, pool  # the pool must exist as long as its tensors
    torch.cuda.empty_cache()  # frees the memory of the pool
    # [/pool]
    assert float(y[0, 0]) == 2 and vram_torch.usage()["live"] == 0


if __name__ == "__main__":
    {"whole": whole, "part": part}[sys.argv[1]]()
