// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/thrust.hpp> // first: the header stands alone

#include "../cuda/machine.hpp"

#include <vram/base/bytes.hpp>
#include <vram/cuda/cuda_stream.hpp>
#include <vram/cuda/managed_resource.hpp>
#include <vram/cuda/pinned_resource.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>

#include <memory> // allocator_traits
#include <vector> // vector

namespace thrust_tests {

using namespace vram;
using tests::machine;

using managed_stack = limiting<stream_ordered<managed_resource>>;
using pinned_stack  = limiting<stream_ordered<pinned_resource>>;
using universal     = thrust_universal_allocator<int>;
using of_host       = thrust_host_allocator<int>;

static_assert(std::copyable<universal> && std::copyable<of_host>);
static_assert(std::is_same_v<universal::reference, int&>);
static_assert(std::is_same_v<std::allocator_traits<universal>::rebind_alloc<char>,
                             thrust_universal_allocator<char>>);
static_assert(!std::constructible_from<universal, stream_ordered<cuda_resource>&>);
static_assert(!std::constructible_from<of_host, stream_ordered<cuda_resource>&>);
static_assert(!std::convertible_to<thrust_allocator<int>, universal>);

TEST_CASE("thrust: an allocator of universal memory borrows a stack or holds it") {
    machine const here;
    cuda_stream   s;
    managed_stack memory{stream_ordered{managed_resource{}}, 1_MiB};
    {
        universal  alloc{memory, s};
        auto const p = alloc.allocate(1000);
        CHECK(memory.used() == 4000);
        alloc.deallocate(p, 1000);
        CHECK(memory.used() == 0);
        CHECK_THROWS_AS((void)alloc.allocate(1_MiB), over_limit);
    }
    shared    handle{managed_stack{stream_ordered{managed_resource{}}, 1_MiB}};
    universal holding{handle, s};
    thrust_universal_allocator<char> rebound{holding};
    CHECK(handle.holders() == 3);
    auto const p = rebound.allocate(10);
    CHECK(handle->used() == 10);
    rebound.deallocate(p, 10);
}

TEST_CASE("thrust: an allocator for host vectors borrows a stack or holds it") {
    machine const here;
    pinned_stack  memory{stream_ordered{pinned_resource{}}, 1_MiB};
    {
        std::vector<int, of_host> numbers(1000, 3, memory);
        CHECK(memory.used() == 4000);
        std::vector<int, of_host> const copy = numbers;
        std::vector<int, of_host> const moved{std::move(numbers)};
        CHECK(copy == moved);
        CHECK(memory.used() == 8000);
        CHECK_THROWS_AS((void)of_host{memory}.allocate(unsatisfiable / 2), out_of_memory);
    }
    CHECK(memory.used() == 0);
    shared                      handle{pinned_stack{stream_ordered{pinned_resource{}}, 1_MiB}};
    std::vector<int, of_host>   numbers(1000, 3, handle);
    thrust_host_allocator<char> rebound{numbers.get_allocator()};
    CHECK(handle.holders() == 3);
    CHECK(handle->used() == 4000);
    CHECK(thrust_host_allocator<int>{rebound} == numbers.get_allocator());
    CHECK(thrust_host_allocator<int>{memory} != numbers.get_allocator());
}

} // namespace thrust_tests

template class vram::thrust_allocator<int, true>;
template class vram::thrust_host_allocator<int>;
