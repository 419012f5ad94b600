// SPDX-License-Identifier: Apache-2.0
// The memory of PyTorch's tensors from a stack of vram: the C functions that vram_torch.py, beside
// this file, compiles and passes to torch.cuda.memory.CUDAPluggableAllocator.

#include <vram/cuda/cuda.hpp>
#include <vram/interop/torch.hpp>
#include <vram/vram.hpp>

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

using namespace vram;

namespace {

#ifndef VRAM_TORCH_SOURCE
#define VRAM_TORCH_SOURCE stream_ordered<cuda_resource> // or virtual_resource, which grows in place
#endif

// [stack]
using stack = pool<VRAM_TORCH_SOURCE>;

/// PyTorch frees tensors until the process has ended, so the object is never destroyed.
torch_allocator<stack>& memory() {
    static auto& whole = *new torch_allocator{
        [](cuda_device) { return stack{VRAM_TORCH_SOURCE{}, {.graphs = true}}; }};
    return whole;
}
// [/stack]

memory_usage usage(int device) { return memory().stack(cuda_device{device}).usage(); }

} // namespace

extern "C" {

// [functions]
void* vram_torch_malloc(std::int64_t bytes, int device, cudaStream_t stream) {
    try {
        return memory().allocate(cuda_device{device}, stream, static_cast<std::size_t>(bytes));
    } catch (out_of_memory const& e) { // becomes torch.OutOfMemoryError
        TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. ", explain(e));
    }
}
void vram_torch_free(void* p, std::int64_t bytes, int device, cudaStream_t stream) {
    memory().deallocate(cuda_device{device}, stream, p, static_cast<std::size_t>(bytes));
}
void vram_torch_record_stream(void* p, cudaStream_t stream) { memory().record_stream(p, stream); }
// [/functions]

/// torch.cuda.empty_cache().
void vram_torch_trim() {
    try {
        (void)memory().trim();
    } catch (std::exception const& e) { std::fprintf(stderr, "%s\n", e.what()); }
}
/// Fills in live, peak live, reserved and peak reserved bytes, and the number of allocations.
void vram_torch_usage(int device, std::uint64_t* figures) {
    memory_usage const now = usage(device);
    figures[0]             = now.live;
    figures[1]             = now.peak_live;
    figures[2]             = now.reserved;
    figures[3]             = now.peak_reserved;
    figures[4]             = now.allocations;
}
void vram_torch_reset_peaks(int device) { (void)memory().stack(cuda_device{device}).reset_peaks(); }
/// The report of the stack of a device, valid until the next call of the thread.
char const* vram_torch_report(int device) {
    thread_local std::string text;
    text = report(memory().stack(cuda_device{device}));
    return text.c_str();
}
}
