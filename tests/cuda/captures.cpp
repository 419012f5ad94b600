// SPDX-License-Identifier: Apache-2.0
// Captures that another thread begins while vram is at work: on the double, between any two calls.
#include <vram/cuda/cuda.hpp>
#include <vram/vram.hpp>

#include "../doubles/page_modes.hpp"
#include "../laws/captures_begin_anywhere.hpp"
#include "machine.hpp"

#ifdef VRAM_CUDART_DOUBLE
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace vram;
using tests::machine;

namespace {

using ordered = stream_ordered<cuda_resource>;

/// CUDA's double, with a fresh device.
struct cuda_world {
    using stream = cuda_stream;
    using mode   = cudaStreamCaptureMode;

    static constexpr mode modes[] = {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal,
                                     cudaStreamCaptureModeRelaxed};
    static constexpr std::size_t much = 24_MiB;

    static void work(cuda_stream const& s, void* p, std::size_t bytes) {
        // A part is enough for the order. On the double, touching all pages takes most of the time.
        cuda_check(cudaMemsetAsync(p, 1, bytes < 256 ? bytes : 256, s.get()));
    }
    static void record(cuda_stream const& s) {
        place.emplace();
        place->record(s);
    }
    static void wait(cuda_stream const& s, cuda_stream const&) { place->wait(s); }
    static void synchronize(cuda_stream const& s) { s.synchronize(); }
    static void begin(cuda_stream const& s, mode m) {
        cuda_check(cudaStreamBeginCapture(s.get(), m));
    }
    static bool end(cuda_stream const& s) {
        cudaGraph_t       graph  = nullptr;
        cudaError_t const status = cudaStreamEndCapture(s.get(), &graph);
        if (graph != nullptr) { cuda_check(cudaGraphDestroy(graph)); }
        return status == cudaSuccess;
    }
    static void before_call(std::uint64_t nth, std::function<void()> what) {
        doubles::cudart::before_call(nth, std::move(what));
    }
    static bool never_came() { return !doubles::cudart::cancel_before_call(); }

    cuda_world() = default;
    ~cuda_world() { place.reset(); }
    cuda_world(cuda_world&&) = delete;

    machine const here{};

    static inline std::optional<cuda_event> place;
};

template <class Make>
void captures_begin_anywhere(Make make) {
    for (auto const events : {event_policy::lazy, event_policy::eager}) {
        CAPTURE(static_cast<int>(events));
        laws::captures_begin_anywhere<cuda_world>(
            [&] { return make(pool_options{.events = events, .graphs = true}); });
    }
}

} // namespace

TEST_CASE("pool on CUDA: another thread's capture may begin before any call, and stays valid") {
    captures_begin_anywhere([](pool_options o) { return pool{ordered{}, o}; });
}
TEST_CASE("pool over cudaMallocAsync: another thread's capture may begin before any call") {
    captures_begin_anywhere([](pool_options o) { return pool{cuda_async_resource{}, o}; });
}
TEST_CASE("pool over virtual memory: another thread's capture may begin before any call") {
    for (doubles::page_mode const mode : doubles::page_modes) {
        captures_begin_anywhere([&](pool_options o) {
            return pool{virtual_resource{{.handle_size = 2_MiB}}, doubles::in_mode(mode, o)};
        });
    }
}
TEST_CASE("slab on CUDA: another thread's capture may begin before any call, and stays valid") {
    captures_begin_anywhere([](pool_options o) { return slab{ordered{}, 24_MiB, o}; });
}
TEST_CASE("binned on CUDA: another thread's capture may begin before any call, and stays valid") {
    captures_begin_anywhere([](pool_options o) {
        return binned{ordered{}, {.largest = 128_KiB, .events = o.events, .graphs = o.graphs}};
    });
}
TEST_CASE(
    "monotonic on CUDA: another thread's capture may begin before any call, and stays valid") {
    captures_begin_anywhere([](pool_options o) { return monotonic{ordered{}, o}; });
}
TEST_CASE("arena on CUDA: another thread's capture may begin before any call, and stays valid") {
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        captures_begin_anywhere([&](pool_options o) {
            return arena{pool{ordered{}, o},
                         {.count = 4, .key = key, .events = o.events, .graphs = o.graphs}};
        });
    }
}
TEST_CASE("layers on CUDA: another thread's capture may begin before any call, and stays valid") {
    laws::captures_begin_anywhere<cuda_world>([] { return ordered{}; });
    laws::captures_begin_anywhere<cuda_world>(
        [] { return ordered{cuda_resource{}, {.frees_per_event = 4}}; });
    laws::captures_begin_anywhere<cuda_world>([] { return cuda_async_resource{}; });
    captures_begin_anywhere(
        [](pool_options o) { return statistics{limiting{pool{ordered{}, o}, 512_MiB}}; });
}

namespace {

/// `act()` uses streams of its own; a stream that it has nothing to do with is captured from before
/// its n-th call on.
template <class Act>
void goes_on_beside(Act act) {
    for (auto const mode : cuda_world::modes) {
        for (bool const briefly : {false, true}) {
            bool came = true;
            for (std::uint64_t n = 1 + static_cast<unsigned>(mode) % laws::order_stride; came;
                 n += laws::order_stride) {
                CAPTURE(static_cast<int>(mode));
                CAPTURE(briefly);
                CAPTURE(n);
                REQUIRE(n < 1000);
                cuda_world const       world;
                doubles::mishaps const told;
                cuda_stream const      theirs;
                bool                   capturing = false, well = true;
                auto const             end = [&] {
                    laws::on_another_thread([&] { well = cuda_world::end(theirs) && well; });
                    capturing = false;
                };
                cuda_world::before_call(n, [&] {
                    laws::on_another_thread([&] { cuda_world::begin(theirs, mode); });
                    capturing = true;
                    if (briefly) { cuda_world::before_call(1, end); }
                });
                try {
                    act();
                } catch (std::exception const& e) { FAIL_CHECK(std::string{e.what()}); }
                came = !cuda_world::never_came();
                if (capturing) { end(); }
                CHECK(well);
                CHECK(told.count() == 0);
            }
        }
    }
}

constexpr std::size_t batch_bytes = 16_KiB;

/// Three batches.
std::size_t fill_batch(std::span<std::byte> to, std::size_t index) {
    if (index == 3) { return 0; }
    std::memset(to.data(), static_cast<int>(index), batch_bytes);
    return batch_bytes;
}

} // namespace

TEST_CASE("loader on CUDA: another thread's capture may begin before any call, and stays valid") {
    for (std::size_t const depth : {0, 2}) {
        goes_on_beside([&] {
            auto              source = fill_batch;
            cuda_stream const consumer, other;
            loader            batches{std::move(source), consumer.view(),
                           loader_options{.batch_bytes = batch_bytes, .depth = depth}};
            std::size_t       count = 0;
            for (auto& batch : batches) {
                batch.record_stream(other);
                cuda_check(cudaMemsetAsync(batch.data(), 7, batch.size(), consumer));
                ++count;
            }
            CHECK(count == 3);
        });
    }
}

TEST_CASE("unloader on CUDA: another thread's capture may begin before any call, and stays valid") {
    goes_on_beside([] {
        std::size_t       count = 0;
        cuda_stream const producer;
        {
            unloader out{[&](std::span<std::byte const>, std::size_t) { ++count; }, producer.view(),
                         unloader_options{.batch_bytes = batch_bytes}};
            for (int i = 0; i != 3; ++i) {
                auto r = out.next();
                cuda_check(cudaMemsetAsync(r.data(), i, batch_bytes, producer));
                r.send();
            }
            out.finish();
        }
        CHECK(count == 3);
    });
}

TEST_CASE("staging on CUDA: another thread's capture may begin before any call, and stays valid") {
    goes_on_beside([] {
        cuda_stream const      stream;
        cuda_resource          memory;
        staging                stage{stream.view(),
                      staging_options{.threads = 1, .chunk_bytes = 16_KiB, .first_bytes = 4_KiB}};
        std::vector<std::byte> host(40_KiB, std::byte{3}), back(40_KiB);
        void* const            p = memory.allocate_sync(host.size());
        stage.upload(stream, p, std::span<std::byte const>{host});
        stage.download(stream, std::span{back}, p);
        stream.synchronize();
        CHECK(host == back);
        memory.deallocate_sync(p, host.size());
    });
}

TEST_CASE("loader and unloader on CUDA: their streams may end before them") {
    machine const          here;
    doubles::mishaps const told;
    {
        auto                       source = fill_batch;
        std::size_t                count  = 0;
        std::optional<cuda_stream> stream{std::in_place}, side{std::in_place};
        loader                     batches{std::move(source), stream->view(),
                       loader_options{.batch_bytes = batch_bytes}};
        unloader out{[&](std::span<std::byte const>, std::size_t) { ++count; }, stream->view(),
                     unloader_options{.batch_bytes = batch_bytes}};
        auto     batch = batches.begin();
        (*batch).record_stream(*side);
        auto result = out.next();
        cuda_check(cudaMemcpyAsync(result.data(), (*batch).data(), batch_bytes, cudaMemcpyDefault,
                                   *stream));
        result.send();
        cudaStream_t const gone[]{stream->get(), side->get()};
        stream.reset();
        side.reset(); // while the loader has a batch that both use
        cuda_stream const other;
        CHECK(other.get() != gone[0]);
        CHECK(other.get() != gone[1]);
        ++batch;
        out.finish();
        CHECK(count == 1);
    }
    CHECK(told.count() == 0);
    CHECK(doubles::cudart::dangling() == 0);
}
#endif
