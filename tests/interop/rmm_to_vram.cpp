// SPDX-License-Identifier: Apache-2.0
// The code of docs/from-rmm.md: each row once with RMM and once with vram. RMM's half is compiled and
// linked; the half of vram also runs on the double of the CUDA runtime.
#include <vram/cuda/cuda.hpp>
#include <vram/interop/mr.hpp>
#include <vram/interop/rmm.hpp>
#include <vram/vram.hpp>

#include "../cuda/machine.hpp"

#include <rmm/cuda_stream.hpp>
#include <rmm/device_buffer.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/error.hpp>
#include <rmm/mr/aligned_resource_adaptor.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/binning_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/failure_callback_resource_adaptor.hpp>
#include <rmm/mr/fixed_size_memory_resource.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/pinned_host_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <rmm/mr/tracking_resource_adaptor.hpp>

#include <cstdio>
#include <vector>

namespace {

struct cache {
    std::size_t held = 8;
    bool        drop(std::size_t) { return held-- != 0; }
};

[[maybe_unused]] void with_rmm(cache& my_cache, std::vector<float> const& host) {
    // [rmm-pool]
    rmm::cuda_stream              stream;
    rmm::mr::cuda_memory_resource cuda;
    rmm::mr::pool_memory_resource pool{cuda, 256 << 20, std::size_t{8} << 30};
    void* const                   p = pool.allocate(stream, 1000, 256);
    pool.deallocate(stream, p, 1000, 256);
    // [/rmm-pool]

    // [rmm-async]
    rmm::mr::cuda_async_memory_resource async{256 << 20};
    // [/rmm-async]

    // [rmm-arena]
    rmm::mr::arena_memory_resource arena{cuda, std::size_t{8} << 30};
    // [/rmm-arena]

    // [rmm-binning]
    rmm::mr::binning_memory_resource bins{pool, 8, 17}; // 256 B to 128 KiB, else the pool
    // [/rmm-binning]

    // [rmm-fixed]
    rmm::mr::fixed_size_memory_resource blocks{cuda, 1 << 20, 128};
    // [/rmm-fixed]

    // [rmm-buffer]
    rmm::device_buffer         scratch{std::size_t{64} << 20, stream, pool};
    rmm::device_uvector<float> values{host.size(), stream, pool};
    // [/rmm-buffer]

    // [rmm-copy]
    rmm::device_buffer copy{scratch, stream, pool};
    // [/rmm-copy]

    // [rmm-limit]
    rmm::mr::limiting_resource_adaptor limited{pool, std::size_t{2} << 30};
    // [/rmm-limit]

    // [rmm-statistics]
    rmm::mr::statistics_resource_adaptor counted{pool};
    counted.push_counters();
    counted.deallocate(stream, counted.allocate(stream, 1000, 256), 1000, 256);
    auto const [bytes, allocations] = counted.pop_counters();
    std::printf("peak %lld\n", static_cast<long long>(bytes.peak));
    // [/rmm-statistics]
    (void)allocations;

    // [rmm-tracking]
    rmm::mr::tracking_resource_adaptor tracked{pool};
    tracked.log_outstanding_allocations();
    // [/rmm-tracking]

    // [rmm-callback]
    rmm::mr::failure_callback_resource_adaptor<> retried{
        pool, [](std::size_t n, void* arg) { return static_cast<cache*>(arg)->drop(n); },
        &my_cache};
    // [/rmm-callback]

    // [rmm-aligned]
    rmm::mr::aligned_resource_adaptor aligned{cuda, 4096};
    // [/rmm-aligned]

    // [rmm-current]
    rmm::mr::set_current_device_resource(pool);
    rmm::device_buffer somewhere{1000, stream, rmm::mr::get_current_device_resource_ref()};
    // [/rmm-current]

    // [rmm-oom]
    try {
        rmm::device_buffer big{std::size_t{1} << 40, stream, pool};
    } catch (rmm::out_of_memory const& e) { std::puts(e.what()); }
    // [/rmm-oom]

    // [rmm-pinned]
    rmm::mr::pinned_host_memory_resource pinned;
    void* const                          staged = pinned.allocate_sync(1000, 256);
    pinned.deallocate_sync(staged, 1000);
    // [/rmm-pinned]
}

// [rmm-function]
void solve_rmm(::cuda::stream_ref stream, rmm::device_async_resource_ref mr) {
    rmm::device_buffer scratch{1000, stream, mr};
}
// [/rmm-function]

using namespace vram;

// [vram-function]
void solve(cuda_stream_view stream, resource_ref<cuda_platform, device_accessible> memory) {
    buffer scratch{memory, stream, 1000};
}
// [/vram-function]

} // namespace

TEST_CASE("rmm to vram: the rows of docs/from-rmm.md run") {
    tests::machine const     here;
    cache                    my_cache;
    std::vector<float> const host(1000, 1.0F);
    (void)&with_rmm;
    (void)&solve_rmm;

    // [vram-pool]
    cuda_stream stream;
    pool memory{stream_ordered{cuda_resource{}}, {.initial_size = 256_MiB, .max_size = 8_GiB}};
    void* const p = memory.allocate(stream, 1000);
    memory.deallocate(stream, p, 1000);
    // [/vram-pool]
    {
        // [vram-async]
        cuda_async_resource async{{.initial_size = 256_MiB}};
        // [/vram-async]
    }
    {
        // [vram-arena]
        arena arena_memory{pool{stream_ordered{cuda_resource{}}}, {.max_size = 8_GiB}};
        // [/vram-arena]
        CHECK(arena_memory.usage().live == 0);
    }
    {
        // [vram-binning]
        binned bins{stream_ordered{cuda_resource{}}};
        // [/vram-binning]
        CHECK(bins.usage().reserved == 0);

        // [vram-fixed]
        slab blocks{stream_ordered{cuda_resource{}}, 1_MiB};
        // [/vram-fixed]
        CHECK(blocks.usage().reserved == 0);
    }
    {
        // [vram-buffer]
        buffer scratch{memory, stream, 64_MiB};
        auto   values = make_array<float>(memory, stream, host.size());
        // [/vram-buffer]
        // [vram-copy]
        buffer copy{memory, stream, scratch.size()};
        cuda_platform::copy(stream, copy.data(), scratch.data(), scratch.size());
        // [/vram-copy]
        CHECK(copy.size() == scratch.size());
        CHECK(values.size() == host.size());
        solve(stream, memory);
    }
    // [vram-shared]
    shared pooled{pool{stream_ordered{cuda_resource{}}}}; // a copyable handle of a pool
    // [/vram-shared]
    {
        // [vram-limit]
        // Limits the live bytes of the callers.
        limiting limited{pooled, 2_GiB};
        // Limits the reserved bytes.
        pool held{limiting{stream_ordered{cuda_resource{}}, 2_GiB}};
        // [/vram-limit]
        CHECK(limited.used() == 0);
        CHECK(held.usage().live == 0);
    }
    {
        // [vram-statistics]
        statistics counted{pooled};
        counted.push();
        counted.deallocate(stream, counted.allocate(stream, 1000), 1000);
        counters const step = counted.pop();
        std::printf("peak %lld\n", static_cast<long long>(step.bytes.peak));
        // [/vram-statistics]
        CHECK(step.bytes.peak == 1000);
    }
    {
        // [vram-tracking]
        leak_check const watch{pooled};             // the end of the scope reports a leak
        std::fputs(report(pooled).c_str(), stdout); // each layer: live, peak, reserved, ...
        // [/vram-tracking]
    }
    {
        // [vram-callback]
        retrying retried{pooled, trim_upstream{}, calling{[&](failed_attempt const& failed) {
                             return my_cache.drop(failed.bytes);
                         }}};
        // [/vram-callback]
        retried.deallocate(stream, retried.allocate(stream, 1000), 1000);
    }
    {
        // [vram-aligned]
        void* const q = memory.allocate(stream, 1000, 4096); // each request has its own alignment
        memory.deallocate(stream, q, 1000, 4096);
        aligned pages{cuda_resource{}, 4096}; // or at least this one for all requests
        // [/vram-aligned]
        CHECK(is_aligned(q, 4096));
        CHECK(pages.alignment() == 4096);
    }
    {
        // [vram-current]
        current_resource_guard<cuda_platform> const scope{pooled}; // or current<...>::set
        auto                                        now = current<cuda_platform>::get();
        buffer                                      somewhere{now, stream, 1000};
        // [/vram-current]
        CHECK(somewhere.size() == 1000);
    }
    current<cuda_platform>::forget(cuda_device{0});
    // [vram-oom]
    try {
        buffer big{memory, stream, 1_TiB};
    } catch (out_of_memory const& e) { std::puts(explain(e).c_str()); }
    // [/vram-oom]
    {
        // [vram-pinned]
        pool        pinned{pinned_resource{}}; // cudaHostAlloc takes 0.4 s for each GiB
        void* const staged = pinned.allocate_sync(1000);
        pinned.deallocate_sync(staged, 1000);
        // [/vram-pinned]
    }
    {
        // [under]
        mr     theirs{rmm::mr::cuda_memory_resource{}};   // an RMM resource under a vram pool,
        pool   on_rmm{stream_ordered{std::move(theirs)}}; // and a vram stack under RMM:
        shared stack{pool{stream_ordered{cuda_resource{}}}};
        rmm::mr::statistics_resource_adaptor counting{as_rmm(stack)};
        // [/under]
        CHECK(on_rmm.usage().live == 0);
    }
    stream.synchronize();
}
