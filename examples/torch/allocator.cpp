// SPDX-License-Identifier: Apache-2.0
// The memory of PyTorch's tensors from a stack of vram: the C functions that vram_torch.py, beside
// this file, compiles and passes to torch.cuda.memory.CUDAPluggableAllocator.

#include <vram/cuda/cuda.hpp>
#include <vram/history/history.hpp>
#include <vram/history/viewer_pickle.hpp>
#include <vram/interop/torch.hpp>
#include <vram/vram.hpp>

#if __has_include(<c10/util/Exception.h>)
#include <c10/util/Exception.h>
#else // for a program without PyTorch, which catches no exception of C++
#define TORCH_CHECK_WITH(kind, held, title, text) return static_cast<void>(text), nullptr
#endif

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <string>

using namespace vram;

namespace {

#ifndef VRAM_TORCH_SOURCE
#define VRAM_TORCH_SOURCE stream_ordered<cuda_resource> // or virtual_resource, which grows in place
#endif

#ifdef VRAM_TORCH_RECORD
/// Tags in `report`, and a history of all events for PyTorch's memory viewer.
using stack = tracking<pool<observed<VRAM_TORCH_SOURCE, history>>>;

stack make_stack(cuda_device) {
    return stack{pool{observed{VRAM_TORCH_SOURCE{}, history{}}, {.graphs = true}}};
}
#else
// [stack]
using stack = pool<VRAM_TORCH_SOURCE>;

stack make_stack(cuda_device) { return stack{VRAM_TORCH_SOURCE{}, {.graphs = true}}; }
// [/stack]
#endif

// [memory]
/// PyTorch frees tensors until the process has ended, so the object is never destroyed.
torch_allocator<stack>& memory() {
    static auto& whole = *new torch_allocator{make_stack};
    return whole;
}
// [/memory]

/// Totals of a device for torch.cuda.memory_stats.
struct totals {
    std::atomic<std::uint64_t> bytes{0}, freed_bytes{0}, blocks{0}, freed_blocks{0}, refusals{0};
};
totals& totals_of(int device) {
    static std::array<totals, torch_allocator<stack>::most_devices> all;
    return all.at(static_cast<std::size_t>(device));
}
void add(std::atomic<std::uint64_t>& to, std::uint64_t n) {
    to.fetch_add(n, std::memory_order_relaxed);
}
void* counted(int device, std::size_t bytes, void* p) {
    if (p != nullptr) { add(totals_of(device).bytes, bytes), add(totals_of(device).blocks, 1); }
    return p;
}
void count_free(int device, std::size_t bytes, void const* p) {
    if (p == nullptr) { return; }
    add(totals_of(device).freed_bytes, bytes), add(totals_of(device).freed_blocks, 1);
}
std::string refused(int device, out_of_memory const& e) {
    add(totals_of(device).refusals, 1);
    return explain(e);
}

memory_usage usage(int device) { return memory().stack(cuda_device{device}).usage(); }

/// The tags that Python's `with vram_torch.tag(...)` has begun, of one thread.
thread_local std::deque<tagged> tags;
/// The result of a function that returns text, valid until the next call of the thread.
thread_local std::string text;

} // namespace

extern "C" {

// [functions]
void* vram_torch_malloc(std::int64_t bytes, int device, cudaStream_t stream) {
    auto const size = static_cast<std::size_t>(bytes);
    try {
        return counted(device, size, memory().allocate(cuda_device{device}, stream, size));
    } catch (out_of_memory const& e) { // becomes torch.OutOfMemoryError
        TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. ", refused(device, e));
    }
}
void vram_torch_free(void* p, std::int64_t bytes, int device, cudaStream_t stream) {
    auto const size = static_cast<std::size_t>(bytes);
    memory().deallocate(cuda_device{device}, stream, p, size);
    count_free(device, size, p);
}
void vram_torch_record_stream(void* p, cudaStream_t stream) { memory().record_stream(p, stream); }
// [/functions]

/// torch.cuda.empty_cache().
void vram_torch_trim() {
    try {
        (void)memory().trim();
    } catch (std::exception const& e) { std::fprintf(stderr, "%s\n", e.what()); }
}
/// Fills in live, peak live, reserved and peak reserved bytes, the bytes and blocks that were
/// allocated and freed, and the number of refusals.
void vram_torch_usage(int device, std::uint64_t* figures) {
    memory_usage const now = usage(device);
    totals&            all = totals_of(device);
    figures[0]             = now.live;
    figures[1]             = now.peak_live;
    figures[2]             = now.reserved;
    figures[3]             = now.peak_reserved;
    figures[4]             = all.bytes;
    figures[5]             = all.freed_bytes;
    figures[6]             = all.blocks;
    figures[7]             = all.freed_blocks;
    figures[8]             = all.refusals;
}
void vram_torch_reset_peaks(int device) { (void)memory().stack(cuda_device{device}).reset_peaks(); }
/// The report of the stack of a device.
char const* vram_torch_report(int device) {
    stack& of = memory().stack(cuda_device{device});
    text      = report(of);
#ifdef VRAM_TORCH_RECORD
    text += of.text();
#endif
    return text.c_str();
}
/// Begins a tag for the allocations of the calling thread, and ends the last one.
void vram_torch_begin_tag(char const* name) { tags.emplace_back(std::string{name}); }
void vram_torch_end_tag() {
    if (!tags.empty()) { tags.pop_back(); }
}
/// Writes the history of a device to a file in the format of PyTorch's snapshots. Returns the
/// error; empty if there is none.
char const* vram_torch_snapshot(int device, char const* file) {
#ifdef VRAM_TORCH_RECORD
    try {
        memory().stack(cuda_device{device}).observer().write(file, viewer_pickle);
        text.clear();
    } catch (std::exception const& e) { text = e.what(); }
#else
    (void)device, (void)file;
    text = "there is no history: call install(record=True)";
#endif
    return text.c_str();
}
}
