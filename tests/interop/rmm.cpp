// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/mr.hpp> // first: the header stands alone

#include "../cuda/machine.hpp"

#include <vram/cuda/cuda_async_resource.hpp>
#include <vram/cuda/cuda_resource.hpp>
#include <vram/cuda/cuda_stream.hpp>
#include <vram/handle/any_resource.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>

#include <rmm/device_uvector.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <rmm/resource_ref.hpp>

using namespace vram;
using tests::machine;

namespace {

using stack   = limiting<stream_ordered<cuda_resource>>;
using rmm_any = ::cuda::mr::any_resource<::cuda::mr::device_accessible>;

stack make_stack(std::size_t limit) { return stack{stream_ordered{cuda_resource{}}, limit}; }

// The types that RMM's functions accept, and its containers and adaptors store.
static_assert(std::is_convertible_v<shared<stack>&, rmm::device_async_resource_ref>);
static_assert(std::is_convertible_v<any_resource_of<stack>&, rmm::device_async_resource_ref>);
static_assert(std::is_convertible_v<resource_ref_of<stack>&, rmm::device_async_resource_ref>);
static_assert(std::is_convertible_v<mr_view<stack>, rmm::device_async_resource_ref>);
static_assert(std::is_convertible_v<shared<stack>, rmm_any>);
static_assert(std::is_convertible_v<any_resource_of<stack>, rmm_any>);
static_assert(std::is_convertible_v<mr_view<stack>, rmm_any>);
static_assert(std::is_convertible_v<shared<pool<stream_ordered<cuda_resource>>>, rmm_any>);

// And RMM's resources, under vram's layers.
static_assert(resource<mr<rmm::mr::limiting_resource_adaptor>>);
static_assert(has_property<mr<rmm::mr::limiting_resource_adaptor>, device_accessible>);
static_assert(resource<mr<rmm::device_async_resource_ref>>);
static_assert(resource<mr<rmm_any>>);

// RMM's stream view is taken for a stream.
static_assert(std::is_convertible_v<::cuda::stream_ref, cuda_stream_view>);

} // namespace

template class vram::mr<rmm::mr::limiting_resource_adaptor>;
template class vram::mr<rmm_any>;

TEST_CASE("rmm: its adaptors work over a stack of vram, and free everything to it") {
    machine const here;
    shared        memory{make_stack(1_MiB)};
    {
        rmm::mr::statistics_resource_adaptor counting{memory};
        cudaStream_t const                   stream = nullptr;
        void* const p = counting.allocate(::cuda::stream_ref{stream}, 1000, 256);
        CHECK(memory->used() == 1000);
        CHECK(counting.get_bytes_counter().value == 1000);
        counting.deallocate(::cuda::stream_ref{stream}, p, 1000, 256);
        CHECK(memory->used() == 0);
    }
    CHECK(memory.holders() == 1);
}

TEST_CASE("rmm: an out_of_memory of vram passes through its adaptors") {
    machine const                        here;
    shared                               memory{make_stack(1000)};
    rmm::mr::statistics_resource_adaptor counting{memory};
    CHECK_THROWS_AS((void)counting.allocate_sync(1001, 256), over_limit);
    CHECK(counting.get_bytes_counter().value == 0);
}

TEST_CASE("rmm: a stack of vram works over its adaptors, and their refusal is an out_of_memory") {
    machine const                      here;
    shared                             memory{make_stack(1_MiB)};
    rmm::mr::limiting_resource_adaptor budget{memory, 1024};
    {
        limiting    outer{mr{budget}, 1_MiB};
        cuda_stream s;
        void* const p = outer.allocate(s, 600);
        CHECK(budget.get_allocated_bytes() != 0);
        try {
            (void)outer.allocate(s, 2000);
            FAIL("its budget is 1024 bytes");
        } catch (over_limit const&) {
            FAIL("it was RMM that refused");
        } catch (out_of_memory const& e) { CHECK(e.numbers().asked == 2000); }
        CHECK(outer.used() == 600);
        outer.deallocate(s, p, 600);
        CHECK(budget.get_allocated_bytes() == 0);
    }
    CHECK(memory->used() == 0);
}

TEST_CASE("rmm: a stack of vram can be the device's resource, and RMM returns it") {
    machine const             here;
    shared                    memory{make_stack(1_MiB)};
    rmm::cuda_device_id const device{0};
    // Without a device the resource that was current before cannot be created, and RMM reports
    // that.
    auto before = rmm::mr::set_per_device_resource(device, memory);
    {
        mr          found{rmm::mr::get_per_device_resource_ref(device)};
        void* const p = found.allocate({}, 500);
        CHECK(memory->used() == 500);
        found.deallocate({}, p, 500);
        CHECK(memory->used() == 0);
    }
    (void)rmm::mr::set_per_device_resource(device, std::move(before));
    CHECK(memory.holders() == 1);
}

#ifndef VRAM_CUDART_DOUBLE
TEST_CASE("rmm: its containers use a stack of vram") {
    machine const here;
    stack         memory = make_stack(1_MiB);
    cuda_stream   s;
    {
        rmm::device_uvector<int> v{1000, ::cuda::stream_ref{s.get()}, as_mr(memory)};
        CHECK(memory.used() >= 4000);
        int const seven = 7;
        v.set_element_async(3, seven, ::cuda::stream_ref{s.get()});
        CHECK(v.element(3, ::cuda::stream_ref{s.get()}) == 7);
    }
    CHECK(memory.used() == 0);
    CHECK_THROWS_AS((rmm::device_uvector<int>{1_MiB, ::cuda::stream_ref{s.get()}, as_mr(memory)}),
                    over_limit);
    CHECK(memory.used() == 0);
}
#endif
