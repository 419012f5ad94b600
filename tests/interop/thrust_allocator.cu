// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/thrust_allocator.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/cuda/cuda_stream.hpp>
#include <vram/cuda/cuda_thread.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/pool/pool.hpp>

#include <doctest/doctest.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/host_vector.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <cstddef>    // size_t
#include <functional> // greater
#include <utility>    // move

using namespace vram;

namespace {

/// Overwrites the memory after some time.
__global__ void write_late(int* p, std::size_t n, long long ticks) {
    long long const since = clock64();
    while (clock64() - since < ticks) {}
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x) { p[i] = -1; }
}

/// With a copy constructor that is not trivial: Thrust constructs such elements in a kernel.
struct element {
    int value = 0;

    element() = default;
    __host__            __device__ explicit element(int v) : value{v} {}
    __host__ __device__ element(element const& other) : value{other.value} {}
    element&            operator=(element const&) = default;
};

int value_of(int v) { return v; }
int value_of(element const& e) { return e.value; }

constexpr std::size_t many = std::size_t{1} << 18;

template <class Element>
struct late_work {
    using alloc  = vram::thrust_allocator<Element>;
    using vector = thrust::device_vector<Element, alloc>;

    cuda_stream                         stream;
    pool<stream_ordered<cuda_resource>> memory;

    /// The stream overwrites, after some time, the block that the next vector will get.
    alloc busy() {
        void* const before = memory.allocate(stream, many * sizeof(Element));
        write_late<<<1, 256, 0, stream.view().get()>>>(static_cast<int*>(before), many, 20'000'000);
        memory.deallocate(stream, before, many * sizeof(Element));
        return alloc{memory, stream};
    }
    /// Returns the number of elements that are not `expected`, after all queued work.
    std::size_t wrong(vector const& v, int expected) {
        cuda_platform::synchronize(cuda_platform::current_device());
        thrust::host_vector<Element> const host(v.begin(), v.end());
        std::size_t                        count = 0;
        for (Element const& each : host) { count += value_of(each) != expected; }
        return count;
    }
};

template <class Element>
void vectors_are_made_in_stream_order() {
    late_work<Element> work;
    using vector = typename late_work<Element>::vector;
    { vector warm(many, Element{3}, work.busy()); } // kernels are loaded, the pool has a chunk
    work.stream.synchronize();

    vector filled(many, Element{3}, work.busy());
    CHECK(work.wrong(filled, 3) == 0);
    vector const zeroes(many, work.busy());
    CHECK(work.wrong(zeroes, 0) == 0);

    thrust::host_vector<Element> const host(many, Element{5});
    vector const                       from_host(host.begin(), host.end(), work.busy());
    CHECK(work.wrong(from_host, 5) == 0);
    vector const from_device(filled.begin(), filled.end(), work.busy());
    CHECK(work.wrong(from_device, 3) == 0);
    (void)work.busy();
    vector const copy = filled;
    CHECK(work.wrong(copy, 3) == 0);

    vector grown(work.busy());
    grown.resize(many, Element{7});
    CHECK(work.wrong(grown, 7) == 0);
    vector assigned(work.busy());
    assigned.assign(many, Element{8});
    CHECK(work.wrong(assigned, 8) == 0);

    vector const moved = std::move(assigned);
    assigned.assign(10, Element{9});
    CHECK(work.wrong(assigned, 9) == 0);
    CHECK(work.wrong(moved, 8) == 0);
}

} // namespace

TEST_CASE("thrust_allocator: a vector fills and copies its elements in the order of its stream") {
    vectors_are_made_in_stream_order<int>();
    vectors_are_made_in_stream_order<element>();
}

TEST_CASE(
    "thrust_allocator: a vector and the temporary storage of an algorithm come from the stack") {
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
        CHECK(memory.used() == 400000); // the temporary memory was freed
        auto const copy = v;
        CHECK(memory.used() == 800000);
        CHECK(copy[99999] == 0);
    }
    CHECK(memory.used() == 0);
}

TEST_CASE("thrust_allocator: algorithms that do not wait take temporary storage from the stack") {
    limiting<pool<stream_ordered<cuda_resource>>> memory{pool{stream_ordered{cuda_resource{}}},
                                                         64_MiB};
    cuda_stream                                   s;
    {
        thrust_allocator<int> alloc{memory, s};
        auto const            policy = thrust::cuda::par_nosync(alloc).on(s.view().get());
        thrust::device_vector<int, thrust_allocator<int>> v(many, alloc);
        for (int round = 0; round < 10; ++round) {
            thrust::sequence(policy, v.begin(), v.end());
            thrust::sort(policy, v.begin(), v.end(), thrust::greater<int>{});
        }
        CHECK(memory.used() ==
              memory.rounded_size(many * sizeof(int), 256)); // freed in stream order
        s.synchronize();
        CHECK(v[0] == static_cast<int>(many) - 1);
        CHECK(v[many - 1] == 0);
    }
    CHECK(memory.used() == 0);
    s.synchronize();
    memory.retire(s);
}
