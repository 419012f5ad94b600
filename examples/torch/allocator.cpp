// SPDX-License-Identifier: Apache-2.0
// The memory of PyTorch's tensors from a stack of vram: the C functions that vram_torch.py, beside
// this file, compiles and passes to torch.cuda.memory.CUDAPluggableAllocator. cupy_vram.py and
// numba_vram.py call them, too.

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
#include <stdexcept>
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

stack& stack_of(int device) {
    if (device < 0 || static_cast<std::size_t>(device) >= torch_allocator<stack>::most_devices) {
        throw std::out_of_range{"vram_torch: there is no device with this number"};
    }
    return memory().stack(cuda_device{device});
}

/// Calls `f` for Python, which no exception of C++ may reach. Returns the text of its exception,
/// valid until the next call of the thread, or null.
template <class F>
char const* error_of(F f) noexcept {
    thread_local char said[2048];
    try {
        f();
        return nullptr;
    } catch (std::exception const& e) {
        std::snprintf(said, sizeof said, "%s", e.what());
    } catch (...) { std::snprintf(said, sizeof said, "vram_torch: an unknown exception"); }
    return said;
}

/// The tags that Python's `with vram_torch.tag(...)` has begun, of one thread.
thread_local std::deque<tagged> tags;
/// The result of `vram_torch_report`, valid until the next call of the thread.
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

// The functions for a torch.cuda.MemPool.

/// Returns null instead of an exception, so that PyTorch handles the refusal.
void* vram_torch_try_malloc(std::int64_t bytes, int device, cudaStream_t stream) {
    auto const size = static_cast<std::size_t>(bytes);
    try {
        return counted(device, size, memory().allocate(cuda_device{device}, stream, size));
    } catch (out_of_memory const&) {
        add(totals_of(device).refusals, 1);
        return nullptr;
    }
}
/// Frees a segment after all present work of its device, as cudaFree does: a graph that PyTorch has
/// destroyed may still run.
void vram_torch_free_segment(void* p, std::int64_t bytes, int device, cudaStream_t stream) {
    char const* const error = error_of([&] { cuda_platform::await_all(cuda_device{device}); });
    if (error != nullptr) { std::fprintf(stderr, "%s\n", error); }
    vram_torch_free(p, bytes, device, stream);
}

/// torch.cuda.empty_cache().
void vram_torch_reset() {
    char const* const error = error_of([] { (void)memory().trim(); });
    if (error != nullptr) { std::fprintf(stderr, "%s\n", error); }
}

// The functions below are for Python. They return the text of an error, or null.

/// Stores a block for CuPy. If the device has no memory, stores 1 in `no_memory`, and the text is
/// that of `explain`.
char const* vram_torch_allocate(std::int64_t bytes, int device, cudaStream_t stream, void** block,
                                int* no_memory) {
    auto const size = static_cast<std::size_t>(bytes);
    return error_of([&] {
        try {
            *block = counted(device, size, memory().allocate(cuda_device{device}, stream, size));
        } catch (out_of_memory const& e) {
            *no_memory = 1;
            throw std::runtime_error{refused(device, e)};
        }
    });
}
/// Stores a block of the legacy default stream, for Numba, which passes no stream. A refusal is as
/// that of `vram_torch_allocate`.
///
/// Numba's streams may still use freed memory at this address. The event is work of the legacy
/// default stream, so it waits for their present work, and their later work waits for the event.
char const* vram_torch_allocate_default(std::int64_t bytes, int device, void** block,
                                        int* no_memory) {
    char const* const refusal =
        vram_torch_allocate(bytes, device, cudaStreamLegacy, block, no_memory);
    if (refusal != nullptr) { return refusal; }
    return error_of([&] {
        try {
            cuda_device const       on{device};
            cuda_event              now{on};
            cuda_device_guard const guard{on};
            now.record(cudaStreamLegacy);
        } catch (...) {
            vram_torch_free(*block, bytes, device, cudaStreamLegacy);
            throw;
        }
    });
}
/// Frees such a block.
void vram_torch_free_default(void* p, std::int64_t bytes, int device) {
    vram_torch_free(p, bytes, device, cudaStreamLegacy);
}
/// Stores the free and the total bytes of a device. Unused memory of its stack is free.
char const* vram_torch_memory_info(int device, std::uint64_t* figures) {
    return error_of([&] {
        memory_usage const now  = stack_of(device).usage();
        memory_info const  info = cuda_memory_info(cuda_device{device});
        figures[0]              = info.free + (now.reserved - now.live);
        figures[1]              = info.total;
    });
}
/// Stores the number of bytes that were returned to the devices.
char const* vram_torch_trim(std::uint64_t* bytes) {
    return error_of([&] { *bytes = memory().trim(); });
}
char const* vram_torch_forget_captures() {
    return error_of([] { memory().forget_captures(); });
}
/// Makes the stack of a device, and queries the id and the device of a stream, which CUDA does not
/// return during a capture.
char const* vram_torch_note_stream(int device, cudaStream_t stream) {
    return error_of([&] {
        (void)stack_of(device);
        cuda_device_guard const on{cuda_device{device}};
        (void)cuda_stream_view{stream}.id();
        (void)cuda_stream_view{stream}.device();
    });
}
/// Fills in live, peak live, reserved and peak reserved bytes, the bytes and blocks that were
/// allocated and freed, and the number of refusals.
char const* vram_torch_usage(int device, std::uint64_t* figures) {
    return error_of([&] {
        memory_usage const now = stack_of(device).usage();
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
    });
}
char const* vram_torch_reset_peaks(int device) {
    return error_of([&] { (void)stack_of(device).reset_peaks(); });
}
/// Stores the report of the stack of a device.
char const* vram_torch_report(int device, char const** result) {
    return error_of([&] {
        stack& of = stack_of(device);
        text      = report(of);
#ifdef VRAM_TORCH_RECORD
        text += of.text();
#endif
        *result = text.c_str();
    });
}
/// Begins a tag for the allocations of the calling thread, and ends the last one.
char const* vram_torch_begin_tag(char const* name) {
    return error_of([&] { tags.emplace_back(std::string{name}); });
}
char const* vram_torch_end_tag() {
    return error_of([] {
        if (!tags.empty()) { tags.pop_back(); }
    });
}
/// Writes the history of a device to a file in the format of PyTorch's snapshots.
char const* vram_torch_snapshot(int device, char const* file) {
    return error_of([&] {
#ifdef VRAM_TORCH_RECORD
        stack_of(device).observer().write(file, viewer_pickle);
#else
        (void)device, (void)file;
        throw std::runtime_error{"there is no history: call install(record=True)"};
#endif
    });
}
}
