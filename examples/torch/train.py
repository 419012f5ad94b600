#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small GPT on vram's documentation and headers, with the memory of PyTorch or of vram, and prints the results.

    train.py native|expandable|vram|in-place|mem-pool [--steps 200] [--compile] [--infer] [--device cuda]

expandable: PyTorch's expandable segments. vram: pool<stream_ordered<cuda_resource>>. in-place: pool<virtual_resource>.
mem-pool: PyTorch's own allocator with a torch.cuda.MemPool of vram. Run it once for each: the losses are equal, and the
reserved memory and the speed can be compared. --compile trains a compiled model. --infer then captures the model in a CUDA
graph, replays it with new input, and compares the results with those of the model.
"""
import argparse
import contextlib
import os
import pathlib
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("memory", choices=["native", "expandable", "vram", "in-place", "mem-pool"])
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--compile", action="store_true")
parser.add_argument("--infer", action="store_true")
parser.add_argument("--device", default="cuda")
parser.add_argument("--width", type=int, default=384)
parser.add_argument("--layers", type=int, default=6)
parser.add_argument("--batch", type=int, default=64)
options = parser.parse_args()
if options.memory == "expandable":
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"

import torch
from torch import nn
from torch.nn import functional

if options.memory in ("vram", "in-place", "mem-pool"):
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import vram_torch
if options.memory in ("vram", "in-place"):
    vram_torch.install("virtual_resource" if options.memory == "in-place" else "stream_ordered<cuda_resource>")

LENGTH = 256


class block(nn.Module):
    def __init__(self, width, heads=6):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.query(self.before(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.shrink(functional.gelu(self.grow(self.after(x))))


class gpt(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.letters, self.places = nn.Embedding(256, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(block(width) for _ in range(layers)))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, letters):
        x = self.letters(letters) + self.places(torch.arange(letters.shape[1], device=letters.device))
        return self.head(self.last(self.blocks(x)))


def infer(model, letters, pool):
    """Replays a graph of the model 100 times, each time with other input. The results must be those of the model itself."""
    model.eval()
    fixed, wrong, graph = letters[:8 * LENGTH].view(8, LENGTH).clone(), 0, torch.cuda.CUDAGraph()
    with torch.no_grad():
        side = torch.cuda.Stream()  # loads the kernels outside of the capture
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(fixed)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph, **({"pool": pool.id} if pool else {})):
            answer = model(fixed)
        for turn in range(100):
            fixed.copy_(letters[turn * 100:turn * 100 + 8 * LENGTH].view(8, LENGTH))
            graph.replay()
            replayed = answer.clone()
            neighbour = torch.full((1 + turn << 16,), float("nan"), device=options.device)  # must not meet the graph's memory
            wrong += not torch.allclose(replayed, model(fixed), rtol=1e-3, atol=1e-3)
            del neighbour
    print(f"graph: {wrong} of 100 replays differ from the model")


def main():
    pool = vram_torch.mem_pool() if options.memory == "mem-pool" else None
    with torch.cuda.use_mem_pool(pool) if pool else contextlib.nullcontext():
        model, letters = train()
    if options.infer:
        infer(model, letters, pool)  # outside of use_mem_pool: PyTorch refuses a capture with a pool that is in use
    del model, letters
    if pool:
        live, reserved = (vram_torch.usage()[what] / 2**20 for what in ("peak_live", "peak_reserved"))
        del pool
        torch.cuda.empty_cache()
        print(f"mem-pool: peak {live:.0f} MiB, reserved {reserved:.0f} MiB; after its end {vram_torch.usage()['live'] / 2**20:.0f} MiB")


def train():
    top = pathlib.Path(__file__).resolve().parents[2]
    text = b"".join(p.read_bytes() for p in [*sorted(top.glob("docs/*.md")), *sorted(top.glob("include/vram/*/*.hpp"))])
    torch.manual_seed(7)
    letters = torch.frombuffer(bytearray(text), dtype=torch.uint8).to(options.device).long()
    model = gpt(options.width, options.layers).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    run = torch.compile(model) if options.compile else model
    chooser = torch.Generator().manual_seed(7)
    cuda = options.device.startswith("cuda")
    began, first, losses = 0.0, 0, None
    for step in range(options.steps):
        if step == min(10, options.steps - 1):  # after the first steps, which load kernels
            if cuda:
                torch.cuda.synchronize()
            began, first = time.perf_counter(), step
        length = LENGTH - 8 * (step % 5)  # several lengths, as a program with real data has
        starts = torch.randint(len(letters) - LENGTH - 1, (options.batch, 1), generator=chooser).to(options.device)
        batch = letters[starts + torch.arange(length + 1, device=options.device)]
        loss = functional.cross_entropy(run(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses = loss.detach() if losses is None else losses + loss.detach()
    if cuda:
        torch.cuda.synchronize()
    speed = (options.steps - first) / (time.perf_counter() - began)
    print(f"memory {options.memory}: loss {loss.item():.6f}, mean loss {losses.item() / options.steps:.6f}, {speed:.2f} steps/s", end="")
    if cuda:
        peak, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        print(f", peak {peak / 2**20:.0f} MiB, reserved {reserved / 2**20:.0f} MiB", end="")
    print()
    if options.memory in ("vram", "in-place"):
        try:
            torch.empty(1 << 50, dtype=torch.uint8, device=options.device)
        except torch.OutOfMemoryError as e:
            print(f"refused: {e}".splitlines()[0])
    return model, letters


if __name__ == "__main__":
    main()
