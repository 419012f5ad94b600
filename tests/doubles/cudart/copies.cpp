// SPDX-License-Identifier: Apache-2.0
// Copies and fills, in stream order.

#include "machine.hpp"

#include <vram/sim/sim_copy.hpp> // sim_copy, sim_fill

using namespace doubles::cudart;

namespace {

/// Queues work on a stream. During a capture the work is not run.
template <class Work>
cudaError_t enqueue(char const* function, cudaStream_t stream, Work work) {
    return stream_call(function, stream, [&](machine&, auto& held, CUstream_st& s) {
        if (s.captured != nullptr) {
            return s.captured->intact ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
        }
        vram::sim_stream_view const view = s.view;
        held.unlock(); // a copy may wait for the stream
        work(view);
        return cudaSuccess;
    });
}

/// Returns true if the current device can access memory of a pool or a mapping at `p`, or if `p` is
/// other memory. Measured: the device of the stream does not matter.
bool reaches(machine& m, void const* p) {
    vram::detail::sim_machine& sim = m.node->machine();
    std::scoped_lock const     held{sim.mutex};
    auto const                 at      = reinterpret_cast<std::uintptr_t>(p);
    int const                  current = this_thread().device;
    if (auto* const pages = sim.memory.reservation_of(at)) {
        auto const* const page = pages->mapping(at);
        return page == nullptr || page->device == current;
    }
    auto* const       space = sim.memory.space_of(at);
    auto const* const block = space != nullptr ? space->before(at) : nullptr;
    return block == nullptr || block->pool_peers == nullptr || block->device == current ||
           (*block->pool_peers)[static_cast<std::size_t>(current)];
}

/// Queues a copy between `to` and `from`, or refuses it if the current device has no access.
template <class Work>
cudaError_t enqueue_copy(char const* function, cudaStream_t stream, void const* to,
                         void const* from, Work work) {
    if (!reaches(machine::here(), to) || !reaches(machine::here(), from)) {
        return stream_call(function, stream,
                           [](machine&, auto&, CUstream_st&) { return cudaErrorInvalidValue; });
    }
    return enqueue(function, stream, std::move(work));
}

} // namespace

extern "C" {

cudaError_t CUDARTAPI cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind,
                                      cudaStream_t stream) {
    return enqueue_copy("cudaMemcpyAsync", stream, to, from,
                        [&](vram::sim_stream_view s) { vram::sim_copy(s, to, from, bytes); });
}

/// Batches are refused on default streams and in captures, and so are empty copies.
#if CUDART_VERSION >= 13000
cudaError_t CUDARTAPI cudaMemcpyBatchAsync(void* const* to, void const* const* from,
                                           std::size_t const* bytes, std::size_t count,
                                           cudaMemcpyAttributes* how, std::size_t* firsts,
                                           std::size_t kinds, cudaStream_t stream) {
#else
cudaError_t CUDARTAPI cudaMemcpyBatchAsync(void** to, void** from, std::size_t* bytes,
                                           std::size_t count, cudaMemcpyAttributes* how,
                                           std::size_t* firsts, std::size_t kinds, std::size_t*,
                                           cudaStream_t stream) {
#endif
    return stream_call("cudaMemcpyBatchAsync", stream, [&](machine&, auto& held, CUstream_st& s) {
        if (!s.own) { return cudaErrorInvalidValue; }
        if (s.captured != nullptr) { return spoil(*s.captured); }
        bool const known = kinds == 1 && firsts[0] == 0 && count != 0 &&
                           how->srcAccessOrder == cudaMemcpySrcAccessOrderStream;
        if (!known) { return cudaErrorInvalidValue; }
        for (std::size_t i = 0; i < count; ++i) {
            if (bytes[i] == 0) { return cudaErrorInvalidValue; }
        }
        vram::sim_stream_view const view = s.view;
        held.unlock();
        vram::sim_copy_batch(view, {to, count}, {from, count}, {bytes, count});
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void* to, int to_device, void const* from,
                                          int from_device, std::size_t bytes, cudaStream_t stream) {
    machine&         m = machine::here();
    std::unique_lock held{m.mutex};
    if (!m.is_device(to_device) || !m.is_device(from_device)) {
        held.unlock();
        return call("cudaMemcpyPeerAsync", [] { return cudaErrorInvalidDevice; });
    }
    vram::sim_device const target = m.device(to_device), source = m.device(from_device);
    held.unlock();
    return enqueue("cudaMemcpyPeerAsync", stream, [&](vram::sim_stream_view s) {
        vram::sim_copy(s, to, target, from, source, bytes);
    });
}

cudaError_t CUDARTAPI cudaMemcpy2DAsync(void* to, std::size_t to_pitch, void const* from,
                                        std::size_t from_pitch, std::size_t width,
                                        std::size_t height, cudaMemcpyKind, cudaStream_t stream) {
    if (width > to_pitch || width > from_pitch) {
        return call("cudaMemcpy2DAsync", [] { return cudaErrorInvalidPitchValue; });
    }
    return enqueue_copy("cudaMemcpy2DAsync", stream, to, from, [&](vram::sim_stream_view s) {
        vram::sim_copy(s, {.to         = to,
                           .to_pitch   = to_pitch,
                           .to_slice   = to_pitch * height,
                           .from       = from,
                           .from_pitch = from_pitch,
                           .from_slice = from_pitch * height,
                           .width      = width,
                           .height     = height});
    });
}

cudaError_t CUDARTAPI cudaMemcpy3DAsync(cudaMemcpy3DParms const* p, cudaStream_t stream) {
    auto const misses = [&](cudaPitchedPtr const& side) {
        return p->extent.width > side.pitch || p->extent.height > side.ysize;
    };
    if (misses(p->srcPtr) || misses(p->dstPtr)) {
        return call("cudaMemcpy3DAsync", [] { return cudaErrorInvalidPitchValue; });
    }
    return enqueue_copy("cudaMemcpy3DAsync", stream, p->dstPtr.ptr, p->srcPtr.ptr,
                        [&](vram::sim_stream_view s) {
                            vram::sim_copy(s, {.to         = p->dstPtr.ptr,
                                               .to_pitch   = p->dstPtr.pitch,
                                               .to_slice   = p->dstPtr.pitch * p->dstPtr.ysize,
                                               .from       = p->srcPtr.ptr,
                                               .from_pitch = p->srcPtr.pitch,
                                               .from_slice = p->srcPtr.pitch * p->srcPtr.ysize,
                                               .width      = p->extent.width,
                                               .height     = p->extent.height,
                                               .depth      = p->extent.depth});
                        });
}

cudaError_t CUDARTAPI cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
    return enqueue("cudaMemsetAsync", stream, [&](vram::sim_stream_view s) {
        vram::sim_fill(s, to, static_cast<std::byte>(value), bytes);
    });
}

} // extern "C"
