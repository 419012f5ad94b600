// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_freed_streams.hpp> // first: the header stands alone

#include "machine.hpp"

#include <vram/cuda/cuda_fill.hpp>
#include <vram/cuda/cuda_resource.hpp>

#include <cstddef>  // byte
#include <optional> // optional
#include <utility>  // in_place

using namespace vram;
using tests::machine;

TEST_CASE("cuda_freed_streams: it waits once for each stream that was recorded and not forgotten") {
    machine const      here;
    cuda_resource      mr;
    cuda_stream const  s, t;
    void* const        p = mr.allocate_sync(1 << 20);
    cuda_freed_streams freed;
    cuda_fill(s, p, std::byte{1}, 1 << 20);
    freed.note(s);
    freed.note(s);
    freed.note(t);
    freed.forget(t);
    freed.forget(t);
    cuda_freed_streams moved{std::move(freed)};
    moved.synchronize(cuda_device{});
    CHECK(s.view().done());
    moved.synchronize(cuda_device{});
    mr.deallocate_sync(p, 1 << 20);
}

TEST_CASE("cuda_freed_streams: it waits for a stream that has ended, and not for a captured one") {
    machine const              here;
    cuda_resource              mr;
    std::optional<cuda_stream> s{std::in_place};
    cuda_stream const          captured;
    void* const                p = mr.allocate_sync(1 << 20);
    cuda_freed_streams         freed;
    cuda_event                 after;
    cuda_fill(*s, p, std::byte{1}, 1 << 20);
    after.record(*s);
    freed.note(*s);
    freed.note(captured);
    s.reset();
    cuda_check(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal));
    freed.synchronize(cuda_device{});
    CHECK(after.done());
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(captured, &graph) == cudaSuccess);
    cuda_check(cudaGraphDestroy(graph));
    mr.deallocate_sync(p, 1 << 20);
}

TEST_CASE("cuda_freed_streams: a stream that was captured is waited for the next time") {
    machine const      here;
    cuda_resource      mr;
    cuda_stream const  s;
    void* const        p = mr.allocate_sync(1 << 20);
    cuda_freed_streams freed;
    cuda_fill(s, p, std::byte{1}, 1 << 20);
    freed.note(s);
    cuda_check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    freed.synchronize(cuda_device{});
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(s, &graph) == cudaSuccess);
    cuda_check(cudaGraphDestroy(graph));
    freed.synchronize(cuda_device{});
    CHECK(s.view().done());
    mr.deallocate_sync(p, 1 << 20);
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_freed_streams: streams that have ended and are done are not kept") {
    machine const      here;
    cuda_freed_streams freed;
    for (int i = 0; i != 100; ++i) {
        cuda_stream const s;
        freed.note(s);
        CHECK(doubles::cudart::out().streams <= 17);
    }
}
#endif
