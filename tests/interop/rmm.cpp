// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/rmm.hpp> // first: the header stands alone

#include "../cuda/machine.hpp"
#include "../laws/resource.hpp"
#include "misuse.hpp"

#include <vram/cuda/cuda_async_resource.hpp>
#include <vram/cuda/cuda_resource.hpp>
#include <vram/cuda/cuda_stream.hpp>
#include <vram/handle/any_resource.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>

#include <rmm/device_buffer.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/mr/failure_callback_resource_adaptor.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <rmm/resource_ref.hpp>

#include <string>  // string
#include <utility> // exchange

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

static_assert(std::is_convertible_v<decltype(as_rmm(std::declval<stack&>()))&,
                                    rmm::device_async_resource_ref>);
static_assert(std::is_convertible_v<rmm_resource<shared<stack>>, rmm_any>);
static_assert(std::is_convertible_v<rmm_resource<any_resource_of<stack>>, rmm_any>);
static_assert(resource<rmm_resource<shared<stack>>>, "it is a resource of vram as well");

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
template class vram::rmm_resource<shared<stack>>;

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

TEST_CASE(
    "rmm: a refusal of a stack is an rmm::out_of_memory with the numbers and sentences of vram") {
    machine const                        here;
    shared                               memory{make_stack(1000)};
    rmm::mr::statistics_resource_adaptor counting{as_rmm(memory)};
    for (bool const synchronous : {true, false}) {
        try {
            cudaStream_t const stream = nullptr;
            (void)(synchronous ? counting.allocate_sync(1001, 256)
                               : counting.allocate(::cuda::stream_ref{stream}, 1001, 256));
            FAIL("its budget is 1000 bytes");
        } catch (rmm::out_of_memory const& e) {
            auto const* const full = dynamic_cast<rmm_out_of_memory const*>(&e);
            REQUIRE(full != nullptr);
            CHECK(full->numbers().asked == 1001);
            CHECK(full->numbers().limit == 1000);
            CHECK(std::string{e.what()}.ends_with(explain(full->numbers())));
        }
    }
    // The same stack without the translation: RMM's handlers do not see the refusal.
    rmm::mr::statistics_resource_adaptor plain{memory};
    CHECK_THROWS_AS((void)plain.allocate_sync(1001, 256), vram::out_of_memory);
    CHECK(memory->used() == 0);
}

TEST_CASE("rmm: a failure callback is called for a refusal of a stack, and can free memory") {
    machine const here;
    struct cache {
        shared<stack> memory;
        void*         block = nullptr;
        int           calls = 0;
    } spillable{shared{make_stack(1000)}};
    spillable.block = spillable.memory.allocate_sync(900);
    rmm::mr::failure_callback_resource_adaptor<> retried{
        as_rmm(spillable.memory),
        [](std::size_t bytes, void* argument) {
            auto& c = *static_cast<cache*>(argument);
            ++c.calls;
            CHECK(bytes == 500);
            if (c.block == nullptr) { return false; }
            c.memory.deallocate_sync(std::exchange(c.block, nullptr), 900);
            return true;
        },
        &spillable};
    void* const p = retried.allocate_sync(500, 256);
    CHECK(spillable.calls == 1);
    CHECK(spillable.memory->used() == 500);
    void* const q = retried.allocate_sync(500, 256);
    CHECK_THROWS_AS((void)retried.allocate_sync(500, 256), rmm::out_of_memory);
    CHECK(spillable.calls == 2);
    retried.deallocate_sync(p, 500, 256);
    retried.deallocate_sync(q, 500, 256);
    CHECK(spillable.memory->used() == 0);
}

TEST_CASE("rmm: the resource of a stack keeps the laws of a resource") {
    machine const here;
    stack         memory = make_stack(1_GiB);
    {
        auto lent = as_rmm(memory);
        mr   by_reference{rmm::device_async_resource_ref{lent}};
        laws::obeyed_by(by_reference, {.operations = 200});
        mr by_handle{rmm_any{lent}};
        laws::obeyed_by(by_handle, {.operations = 200});
    }
    CHECK(memory.used() == 0);
}

TEST_CASE("rmm: a pool keeps the laws of a resource through RMM, on other devices too") {
    machine const                       here;
    pool<stream_ordered<cuda_resource>> memory;
    {
        auto lent = as_rmm(memory);
        mr   through{rmm::device_async_resource_ref{lent}};
        laws::obeyed_by(through, {.operations = 200});
        misuse::other_devices(through, memory);
        misuse::alignments(through);
    }
    CHECK(memory.usage().live == 0);
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
    auto before = rmm::mr::set_per_device_resource(device, as_rmm(memory));
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
    CHECK_THROWS_AS((rmm::device_buffer{2_MiB, ::cuda::stream_ref{s.get()}, as_rmm(memory)}),
                    rmm::out_of_memory);
    CHECK(memory.used() == 0);
}
#endif
