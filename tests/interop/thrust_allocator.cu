// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/thrust_allocator.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/cuda/cuda_stream.hpp>
#include <vram/cuda/cuda_thread.hpp>
#include <vram/layer/limiting.hpp>

#include <doctest/doctest.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <functional> // greater

using namespace vram;

TEST_CASE(
    "thrust_allocator: a vector lives in the stack, and an algorithm takes its scratch there") {
    limiting<stream_ordered<cuda_resource>> memory{stream_ordered{cuda_resource{}}, 64_MiB};
    cuda_stream                             s;
    {
        thrust_allocator<int>                             alloc{memory, s};
        thrust::device_vector<int, thrust_allocator<int>> v(100000, 1, alloc);
        CHECK(memory.used() == 400000);
        thrust_allocator<char> scratch{alloc};
        auto const             policy = thrust::cuda::par(scratch).on(s.view().get());
        thrust::sequence(policy, v.begin(), v.end());
        thrust::sort(policy, v.begin(), v.end(), thrust::greater<int>{});
        s.view().synchronize();
        CHECK(v[0] == 99999);
        CHECK(memory.used() == 400000); // the scratch is back
        auto const copy = v;
        CHECK(memory.used() == 800000);
        CHECK(copy[99999] == 0);
    }
    CHECK(memory.used() == 0);
}
