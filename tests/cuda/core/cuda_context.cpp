// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_context.hpp> // first: the header stands alone

#include "../machine.hpp"

#include <vram/cuda/cuda.hpp>
#include <vram/vram.hpp>

#include <concepts> // default_initializable
#include <cstddef>  // size_t
#include <optional> // optional
#include <utility>  // in_place

using namespace vram;
using namespace vram::detail;
using tests::machine;

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_context: a reset of a device is noticed, whether CUDA is used again or not") {
    for (bool const again : {false, true}) {
        machine const            here;
        doubles::mishaps const   told;
        cuda_stream              stream;
        cuda_event               event;
        cuda_context::life const life  = cuda_context::now(cuda_device{0});
        cuda_context::life const other = cuda_context::now(cuda_device{1});
        CHECK_FALSE(cuda_context::ended(life));
        REQUIRE(cudaDeviceReset() == cudaSuccess);
        if (again) { REQUIRE(cudaFree(nullptr) == cudaSuccess); }
        CHECK_FALSE(stream.view().ended());
        CHECK(cuda_context::ended(life));
        CHECK(stream.view().ended());
        CHECK_FALSE(cuda_context::ended(other));
        CHECK(cuda_context::gone(cuda_device{0}) == !again);
        CHECK(event.done());
        event.synchronize();
        event.record(stream);
        event.wait(stream);

        cuda_stream const next; // has another life
        CHECK_FALSE(next.view().ended());
        next.synchronize();
        CHECK(told.count() == 1);
        CHECK(doubles::cudart::dangling() == 0);
    }
}

TEST_CASE("cuda_context: a pool and its streams end after a reset of the device") {
    for (bool const again : {false, true}) {
        for (bool const pool_first : {false, true}) {
            CAPTURE(again);
            CAPTURE(pool_first);
            machine const          here;
            doubles::mishaps const told;
            {
                std::optional<pool<stream_ordered<cuda_resource>>> memory{std::in_place};
                cuda_stream                                        one, two, raw_owner;
                cudaStream_t const                                 raw = raw_owner.release();
                cuda_async_resource                                async;
                void* const                                        p = memory->allocate(one, 1000);
                void* const                                        a = async.allocate(one, 1000);
                memory->deallocate(one, p, 1000);
                void* const q = memory->allocate(two, 1000); // behind an event
                memory->deallocate(two, q, 1000);
                memory->deallocate(raw, memory->allocate(raw, 1 << 22), 1 << 22);
                REQUIRE(cudaDeviceReset() == cudaSuccess);
                if (again) { REQUIRE(cudaFree(nullptr) == cudaSuccess); }
                if (pool_first) { memory.reset(); }
                cuda_event const next; // from here on the reset is known
                async.deallocate(one, a, 1000);
            }
            CHECK(told.count() == 1); // one message for the reset
            CHECK(doubles::cudart::dangling() == 0);
            CHECK(doubles::cudart::mistakes() == 0);
            CHECK(doubles::cudart::calls("cudaStreamDestroy") == 0);
            CHECK(doubles::cudart::calls("cudaEventDestroy") == 1); // that of `next`
            CHECK(doubles::cudart::calls("cudaMemPoolDestroy") == 0);
        }
    }
}

template <class Pool>
Pool made_before_reset() {
    if constexpr (std::default_initializable<Pool>) {
        return Pool{};
    } else {
        return Pool{std::size_t{1} << 20};
    }
}
TEST_CASE_TEMPLATE("cuda_context: a pool that ends after a reset creates no new context", Pool,
                   pool<stream_ordered<cuda_resource>>, slab<stream_ordered<cuda_resource>>,
                   monotonic<cuda_resource>, stream_ordered<cuda_resource>) {
    machine const          here;
    doubles::mishaps const told;
    {
        Pool              memory = made_before_reset<Pool>();
        cuda_stream const one, two;
        void* const       p = memory.allocate(one, 1000);
        memory.deallocate(one, p, 1000);
        void* const q = memory.allocate(two, 1000); // may wait for an event
        memory.deallocate(two, q, 1000);
        REQUIRE(cudaDeviceReset() == cudaSuccess);
    }
    CHECK(told.count() == 1);
    CHECK(doubles::cudart::dangling() == 0);
    CHECK_FALSE(doubles::cudart::has_context(0));
}

TEST_CASE("cuda_context: virtual memory makes no call for pages that a reset has freed") {
    machine const          here;
    doubles::mishaps const told;
    {
        virtual_resource space;
        void* const      p = space.allocate_sync(1000);
        REQUIRE(cudaDeviceReset() == cudaSuccess);
        space.deallocate_sync(p, 1000);
    }
    CHECK(told.count() == 1);
    CHECK(doubles::cudart::calls("cuMemUnmap") == 0);
    CHECK(doubles::cudart::calls("cuMemRelease") == 0);
    CHECK(doubles::cudart::calls("cuMemAddressFree") == 0);
    doubles::cudart::reset(); // the double's reset of a device leaves virtual memory alone
}

TEST_CASE("cuda_context: no function of a pool of the driver passes its handle after a reset") {
    for (bool const again : {false, true}) {
        machine const          here;
        doubles::mishaps const told;
        cuda_async_resource    memory{{.initial_size = 1 << 20}};
        std::size_t const      asked = doubles::cudart::calls("cudaMemPoolGetAttribute");
        REQUIRE(cudaDeviceReset() == cudaSuccess);
        if (again) { REQUIRE(cudaFree(nullptr) == cudaSuccess); }
        CHECK(memory.usage() == memory_usage{});
        CHECK(memory.trim() == 0);
        CHECK(memory.trim_no_wait() == 0);
        memory.pool().allow_access(cuda_device{1});
        memory.pool().deny_access(cuda_device{1});
        CHECK(memory.pool().lost());
        CHECK(doubles::cudart::calls("cudaMemPoolGetAttribute") == asked);
        CHECK(doubles::cudart::calls("cudaMemPoolTrimTo") == 0);
        CHECK(doubles::cudart::calls("cudaMemPoolSetAccess") == 0);
        CHECK(doubles::cudart::has_context(0) == again);
        CHECK(told.count() == 0);
    }
}

TEST_CASE("cuda_context: no message if nothing exists when a device is reset") {
    machine const          here;
    doubles::mishaps const told;
    for (int i = 0; i < 3; ++i) {
        {
            pool<stream_ordered<cuda_resource>> memory;
            cuda_stream                         one;
            memory.deallocate(one, memory.allocate(one, 1000), 1000);
        }
        REQUIRE(cudaDeviceReset() == cudaSuccess);
    }
    CHECK(told.count() == 0);
}

TEST_CASE("cuda_context: what a reset has freed is not freed again") {
    machine const          here;
    doubles::mishaps const told;
    cuda_resource          memory;
    pinned_resource        pinned;
    registered_resource    registered;
    void* const            p = memory.allocate_sync(100);
    void* const            q = pinned.allocate_sync(100);
    void* const            r = registered.allocate_sync(100);
    REQUIRE(cudaDeviceReset() == cudaSuccess);
    memory.deallocate_sync(p, 100);
    pinned.deallocate_sync(q, 100);
    registered.deallocate_sync(r, 100);
    CHECK(doubles::cudart::calls("cudaFree") == 0);
    CHECK(doubles::cudart::calls("cudaFreeHost") == 0);
    CHECK(doubles::cudart::calls("cudaHostUnregister") == 0);
    CHECK(told.count() == 1);
    memory.deallocate_sync(memory.allocate_sync(100), 100); // the resource can be used again
    CHECK(doubles::cudart::calls("cudaFree") == 1);
    CHECK(doubles::cudart::out().device_blocks == 0);
}
#endif
