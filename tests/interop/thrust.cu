// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/thrust.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/cuda/cuda_stream.hpp>
#include <vram/cuda/cuda_thread.hpp>
#include <vram/cuda/managed_resource.hpp>
#include <vram/cuda/pinned_resource.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/pool/pool.hpp>

#include <doctest/doctest.h>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/host_vector.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <cstddef> // size_t

using namespace vram;

namespace thrust_tests {

constexpr std::size_t many = 100'000;

using universal = thrust_universal_allocator<int>;
using managed   = thrust::device_vector<int, universal>;
using host      = thrust::host_vector<int, thrust_host_allocator<int>>;

template <class R>
concept serves_universal = requires(R& mr, cuda_stream_view s) { universal{mr, s}; };
static_assert(serves_universal<pool<stream_ordered<managed_resource>>>);
static_assert(serves_universal<pool<stream_ordered<pinned_resource>>>);
static_assert(!serves_universal<pool<stream_ordered<cuda_resource>>>, "the host cannot access it");
static_assert(!std::is_default_constructible_v<universal>, "current memory is that of a device");

} // namespace thrust_tests
using namespace thrust_tests;

template class vram::thrust_allocator<int, true>;

TEST_CASE("thrust: a vector of managed memory is used by kernels and by the host") {
    limiting<stream_ordered<managed_resource>> memory{stream_ordered{managed_resource{}}, 64_MiB};
    cuda_stream                                s;
    {
        universal  alloc{memory, s};
        auto const policy = thrust::cuda::par_nosync(alloc).on(s.view().get());
        managed    v(many, alloc);
        CHECK(memory.used() == many * sizeof(int));
        thrust::sequence(policy, v.begin(), v.end());
        thrust::sort(policy, v.begin(), v.end(), thrust::greater<int>{});
        s.synchronize();
        int& first = v[0]; // a plain reference
        CHECK(first == static_cast<int>(many) - 1);
        first              = 7;
        managed const copy = v;
        s.synchronize();
        CHECK(copy[0] == 7);
        CHECK(memory.used() == 2 * many * sizeof(int));
    }
    CHECK(memory.used() == 0);
}

TEST_CASE("thrust: a host vector has pinned memory of a stack") {
    shared pinned{limiting{pool<stream_ordered<pinned_resource>>{}, 64_MiB}};
    pool<stream_ordered<cuda_resource>> memory;
    cuda_stream                         s;
    {
        host staged(many, 3, {pinned});
        CHECK(pinned->used() >= many * sizeof(int));
        CHECK(cuda_platform::memory_kind_of(staged.data()) == memory_kind::pinned);
        thrust::device_vector<int, thrust_allocator<int>> device(many, {memory, s});
        thrust::copy(staged.begin(), staged.end(), device.begin());
        staged[1] = 4;
        thrust::copy(device.begin(), device.end(), staged.begin());
        CHECK(staged[1] == 3);
        host const other = staged;
        CHECK(other[many - 1] == 3);
    }
    CHECK(pinned->used() == 0);
    s.synchronize();
    memory.retire(s);
}
