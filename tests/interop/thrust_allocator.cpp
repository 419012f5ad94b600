// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/thrust_allocator.hpp> // first: the header stands alone

#include "../cuda/machine.hpp"

#include <vram/base/bytes.hpp>
#include <vram/cuda/cuda_async_resource.hpp>
#include <vram/cuda/cuda_device_guard.hpp>
#include <vram/cuda/cuda_stream.hpp>
#include <vram/cuda/cuda_thread.hpp>
#include <vram/handle/current_resource_guard.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>

#include <memory>  // allocator_traits
#include <utility> // move

using namespace vram;
using tests::machine;

namespace {

using thrust_stack = limiting<stream_ordered<cuda_resource>>;

static_assert(std::copyable<thrust_allocator<float>>);
static_assert(std::is_same_v<std::allocator_traits<thrust_allocator<int>>::rebind_alloc<char>,
                             thrust_allocator<char>>);

using on_stream = thrust_allocator<int>::system_type;

/// Checks the system that Thrust chooses for a copy from another vector.
[[maybe_unused]] decltype(auto) system_of_a_copy(thrust::cuda::tag from, on_stream to) {
    using thrust::system::detail::generic::select_system;
    return select_system(from, to);
}
static_assert(std::is_same_v<decltype(system_of_a_copy({}, {})), on_stream&>);

} // namespace

template class vram::thrust_allocator<float>;

TEST_CASE("thrust_allocator: memory comes from the stack that it refers to or owns") {
    machine const here;
    cuda_stream   s;
    {
        thrust_stack            memory{stream_ordered{cuda_resource{}}, 1_MiB};
        thrust_allocator<float> borrowing{memory, s};
        auto const              p = borrowing.allocate(1000);
        CHECK(memory.used() == 4000);
        CHECK(borrowing.get_stream() == s.view());
        borrowing.deallocate(p, 1000);
        CHECK(memory.used() == 0);
        CHECK_THROWS_AS((void)borrowing.allocate(1_MiB), over_limit);
        CHECK_THROWS_AS((void)borrowing.allocate(unsatisfiable / 2), out_of_memory);
        CHECK(memory.used() == 0);
    }
    shared                 handle{thrust_stack{stream_ordered{cuda_resource{}}, 1_MiB}};
    thrust_allocator<char> holding{handle, s};
    CHECK(handle.holders() == 2);
    thrust_allocator<int> rebound{holding};
    CHECK(handle.holders() == 3);
    CHECK(rebound == thrust_allocator<int>{handle});
    CHECK(rebound.get_stream() == s.view());
    CHECK(thrust_allocator<int>{handle} !=
          thrust_allocator<int>{shared{thrust_stack{stream_ordered{cuda_resource{}}, 1_MiB}}});
}

TEST_CASE(
    "thrust_allocator: the memory is that of the stack, also for a stream of another device") {
    machine const here;
    if (!tests::two_devices()) { return; }
    cuda_stream const                   there{cuda_device{1}};
    pool<stream_ordered<cuda_resource>> memory; // of device 0
    {
        thrust_allocator<double> allocator{memory, there};
        for (int const current : {0, 1}) {
            cuda_device_guard const on{cuda_device{current}};
            auto const              p = allocator.allocate(1000);
            CHECK(memory.owns(thrust::raw_pointer_cast(p)));
            allocator.deallocate(p, 1000);
        }
    }
    struct alignas(4096) large {
        char bytes[4096];
    };
    thrust_allocator<large> aligned{memory, there};
    auto const              p = aligned.allocate(3); // in the alignment of its elements
    CHECK(is_aligned(thrust::raw_pointer_cast(p), 4096));
    aligned.deallocate(p, 3);
    CHECK(memory.usage().live == 0);
}

TEST_CASE("thrust_allocator: without a resource it uses the device's current one") {
    machine const here;
    {
        shared handle{thrust_stack{stream_ordered{cuda_resource{}}, 1_MiB}};
        current_resource_guard<cuda_platform> const scope{handle};
        thrust_allocator<int>                       standard;
        auto const                                  p = standard.allocate(100);
        CHECK(handle->used() == 400);
        standard.deallocate(p, 100);
        CHECK(handle->used() == 0);
    }
    current<cuda_platform>::forget(cuda_platform::current_device());
}

TEST_CASE("thrust_allocator: a moved-from allocator keeps its resource and its stream") {
    machine const here;
    cuda_stream   s;
    shared        handle{thrust_stack{stream_ordered{cuda_resource{}}, 1_MiB}};
    {
        thrust_allocator<int> first{handle, s};
        thrust_allocator<int> second{std::move(first)};
        thrust_allocator<int> third{shared{thrust_stack{stream_ordered{cuda_resource{}}, 1_MiB}}};
        CHECK(third != first);
        third = std::move(second);
        for (thrust_allocator<int>* each : {&first, &second, &third}) {
            CHECK(*each == third);
            CHECK(each->get_stream() == s.view());
            CHECK(get_stream(each->system()) == s.view().get());
            auto const p = each->allocate(100);
            CHECK(handle->used() == 400);
            each->deallocate(p, 100);
        }
    }
    CHECK(handle.holders() == 1);
    CHECK(handle->used() == 0);
}

TEST_CASE("thrust_allocator: memory of a cuda_stream that ended is freed, and by rebound copies") {
    machine const          here;
    doubles::mishaps const told;
    cuda_async_resource    memory;
    auto const             of_ended_stream = [&] {
        cuda_stream const stream;
        return thrust_allocator<int>{memory, stream};
    };
    thrust_allocator<int>  ints = of_ended_stream();
    auto const             p    = ints.allocate(1000);
    thrust_allocator<char> chars{ints};
    ints         = thrust_allocator<int>{memory}; // now only `chars` owns the stream
    auto const q = chars.allocate(1000);
    chars.deallocate(q, 1000);
    chars.deallocate(thrust::device_pointer_cast(reinterpret_cast<char*>(p.get())), 4000);
    CHECK(told.count() == 0);
    CHECK(memory.usage().live == 0);
}
