// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/cub.hpp> // first: the header stands alone

#include "../cuda/machine.hpp"

#include <vram/base/bytes.hpp>
#include <vram/cuda/cuda_resource.hpp>
#include <vram/cuda/cuda_stream.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>

namespace cub_tests {

using namespace vram;
using tests::machine;

using stack = limiting<stream_ordered<cuda_resource>>;

TEST_CASE("cub: both phases of an algorithm run, with storage of the size that the first sets") {
    machine const     here;
    cuda_stream const s;
    stack             memory{stream_ordered{cuda_resource{}}, 1_MiB};
    for (std::size_t const size : {0U, 1U, 5000U}) {
        int phase = 0;
        cub_run(memory, s, [&](void* storage, std::size_t& bytes) {
            if (++phase == 1) {
                CHECK(storage == nullptr);
                bytes = size;
            } else {
                CHECK(storage != nullptr); // null would be the first phase again
                CHECK(bytes == size);
                CHECK(memory.used() == size);
            }
            return cudaSuccess;
        });
        CHECK(phase == 2);
        CHECK(memory.used() == 0);
    }
}

TEST_CASE("cub: an error of either phase, and a refusal, are exceptions") {
    machine const     here;
    cuda_stream const s;
    stack             memory{stream_ordered{cuda_resource{}}, 1000};
    for (int const bad : {1, 2}) {
        int phase = 0;
        CHECK_THROWS_AS(cub_run(memory, s,
                                [&](void*, std::size_t& bytes) {
                                    bytes = 10;
                                    return ++phase == bad ? cudaErrorInvalidValue : cudaSuccess;
                                }),
                        cuda_error);
        CHECK(phase == bad);
    }
    CHECK_THROWS_AS(cub_run(memory, s,
                            [](void*, std::size_t& bytes) {
                                bytes = 1001;
                                return cudaSuccess;
                            }),
                    over_limit);
    CHECK(memory.used() == 0);
}

TEST_CASE("cub: the storage is that of the stack, also for a stream of another device") {
    machine const here;
    if (!tests::two_devices()) { return; }
    cuda_stream const                   there{cuda_device{1}};
    pool<stream_ordered<cuda_resource>> memory; // of device 0
    cub_run(memory, there, [&](void* storage, std::size_t& bytes) {
        bytes = 100;
        CHECK((storage == nullptr || memory.owns(storage)));
        return cudaSuccess;
    });
    CHECK(memory.usage().live == 0);
    CHECK(memory.usage().reserved != 0);
}

#if CCCL_VERSION >= 3004000
TEST_CASE("cub: an environment has the stream and the memory") {
    machine const         here;
    cuda_stream const     s;
    stack                 memory{stream_ordered{cuda_resource{}}, 1_MiB};
    cub_environment const borrowing{memory, s};
    CHECK(::cuda::get_stream(borrowing).get() == s.view().get());
    auto        mr = ::cuda::mr::get_memory_resource(borrowing);
    void* const p  = mr.allocate(::cuda::get_stream(borrowing), 1000, 16);
    CHECK(memory.used() == 1000);
    mr.deallocate(::cuda::get_stream(borrowing), p, 1000, 16);
    CHECK(memory.used() == 0);

    shared handle{stack{stream_ordered{cuda_resource{}}, 1_MiB}};
    {
        cub_environment const holding{handle, s};
        CHECK(handle.holders() == 2);
    }
    CHECK(handle.holders() == 1);
}
#endif

} // namespace cub_tests
