#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader on the loader benchmark's loop: prints the milliseconds of a batch, and ends with 1 where there is
no PyTorch with a GPU. It is a program of its own: bench-loader calls it."""
import argparse
import sys
import time


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--fill-ns", type=int, required=True, help="what a worker takes to fill a batch")
    parser.add_argument("--kernel-ns", type=int, required=True)
    parser.add_argument("--loop-ns", type=int, default=0, help="what the loop itself works on a batch")
    parser.add_argument("--batches", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--memcpy", action="store_true", help="fill by copying, which takes what it takes")
    return parser.parse_args()


def main():
    asked = options()
    try:
        import torch
    except ImportError:
        return 1
    if not torch.cuda.is_available():
        return 1

    class Batches(torch.utils.data.Dataset):
        def __init__(self):
            self.source = torch.zeros(asked.bytes, dtype=torch.uint8)

        def __len__(self):
            return asked.batches

        def __getitem__(self, index):
            if asked.memcpy:
                return self.source.clone()
            end = time.perf_counter_ns() + asked.fill_ns
            batch = torch.empty(asked.bytes, dtype=torch.uint8)
            while time.perf_counter_ns() < end:
                pass
            return batch

    # batch_size=None: an element is a batch, and nothing is collated.
    loader = torch.utils.data.DataLoader(Batches(), batch_size=None, num_workers=asked.workers, pin_memory=True,
                                         persistent_workers=True, prefetch_factor=2)
    hertz = cycles_per_second(torch)
    best = None
    for turn in range(2):  # the first starts the workers
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        for batch in loader:
            on_device = batch.to("cuda", non_blocking=True)
            torch.cuda._sleep(int(asked.kernel_ns * hertz / 1e9))
            end = time.perf_counter_ns() + asked.loop_ns
            while time.perf_counter_ns() < end:
                pass
            del on_device
        torch.cuda.synchronize()
        took = time.perf_counter_ns() - begin
        best = took if turn == 0 else min(best, took)
    print(best / asked.batches / 1e6)
    return 0


def cycles_per_second(torch):
    """What torch.cuda._sleep counts, measured."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(1_000_000)
    begin.record()
    torch.cuda._sleep(100_000_000)
    end.record()
    torch.cuda.synchronize()
    return 100_000_000 / (begin.elapsed_time(end) / 1e3)


if __name__ == "__main__":
    sys.exit(main())
