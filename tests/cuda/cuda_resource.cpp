// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_resource.hpp> // first: the header stands alone

#include "../laws/resource.hpp"
#include "machine.hpp"

#include <vram/cuda/cuda_thread.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/locked.hpp>
#include <vram/layer/stream_ordered.hpp>

using namespace vram;
using tests::machine;

template class vram::limiting<cuda_resource>;
template class vram::stream_ordered<cuda_resource>;

static_assert(sizeof(cuda_resource) <= 2 * sizeof(cuda_device));
static_assert(std::is_trivially_copyable_v<cuda_resource>);

TEST_CASE("cuda_resource: it keeps the laws of a resource") {
    machine const here;
    laws::source([] { return cuda_resource{}; }, {.largest_alignment = 2_MiB, .operations = 300});
}

TEST_CASE("cuda_resource: stream_ordered over it keeps the laws") {
    machine const here;
    laws::resource<cuda_resource>([](auto up) { return stream_ordered{std::move(up)}; },
                                  {.largest_alignment = 2_MiB, .operations = 300});
}

TEST_CASE("cuda_resource: limiting over stream_ordered over it keeps the laws") {
    machine const here;
    laws::resource<cuda_resource>(
        [](auto up) { return limiting{stream_ordered{std::move(up)}, 16_MiB}; },
        {.operations = 300});
}

TEST_CASE("cuda_resource: many concurrent threads keep the laws") {
    machine const here;
    laws::resource_of_many_threads<cuda_resource>(
        [](auto up) { return stream_ordered{std::move(up)}; }, {.operations = 100});
}

TEST_CASE("cuda_resource: stream_ordered over it allocates and frees during a capture") {
    machine const     here;
    cuda_stream const s;
    cudaGraph_t       graph = nullptr;
    stream_ordered    memory{cuda_resource{}};
    cuda_check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal));
    memory.deallocate(s, memory.allocate(s, 100), 100);
    memory.deallocate(s, memory.try_allocate(s, 100), 100);
    cuda_check(cudaStreamEndCapture(s.get(), &graph));
    cuda_check(cudaGraphDestroy(graph));
    memory.forget_captures();
}

TEST_CASE("cuda_resource: limiting over it does not count a free that CUDA refuses") {
    machine const          here;
    doubles::mishaps const told;
    limiting               mr{cuda_resource{}, 1_MiB};
    void* const            p = mr.allocate_sync(1000);
    mr.deallocate_sync(p, 1000);
    mr.deallocate_sync(p, 1000);
    CHECK(told.count(error_kind::foreign_pointer) == 1);
    CHECK(told.count() == 1);
    CHECK(mr.used() == 0);
}
