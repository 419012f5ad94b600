// SPDX-License-Identifier: Apache-2.0
// The pools on CUDA's own streams: features that the simulated device lacks, and the number of CUDA
// calls.
#include <vram/cuda/cuda.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/pool/fixed_growth.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>

#include <optional>
#include <thread>

#include "../doubles/page_modes.hpp"
#include "../doubles/resetting.hpp"
#include "../laws/captures_go_on.hpp"
#include "../laws/resource.hpp"
#include "machine.hpp"

using namespace vram;
using doubles::mishaps;
using tests::machine;

namespace {

/// Ends a capture and destroys its graph. Returns true if the capture was not broken.
bool capture_ends_well(cudaStream_t s) {
    cudaGraph_t       graph  = nullptr;
    cudaError_t const status = cudaStreamEndCapture(s, &graph);
    if (graph != nullptr) { cuda_check(cudaGraphDestroy(graph)); }
    return status == cudaSuccess;
}

/// Checks every mode of a capture, for a pool that `make(events, graphs)` creates.
template <class Make>
void captures_go_on(Make make) {
    for (auto const mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                            cudaStreamCaptureModeRelaxed}) {
        for (auto const events : {event_policy::lazy, event_policy::eager}) {
            for (bool const graphs : {false, true}) {
                laws::a_capture_goes_on(
                    [&](cuda_stream_view s) { cuda_check(cudaStreamBeginCapture(s, mode)); },
                    [](cuda_stream_view s) { return capture_ends_well(s); },
                    [&] { return make(events, graphs); });
            }
        }
    }
}

using ordered = stream_ordered<cuda_resource>;

} // namespace

TEST_CASE("pool on CUDA: it keeps the laws of a resource") {
    machine const here;
    laws::source([] { return pool{stream_ordered{cuda_resource{}}}; }, {.operations = 2000});
    laws::source([] { return pool{cuda_async_resource{}}; }, {.operations = 2000});
    laws::source(
        [] { return pool{stream_ordered{cuda_resource{}}, {.events = event_policy::eager}}; },
        {.operations = 2000});
}

TEST_CASE("pool on CUDA over virtual memory: it keeps the laws, with and without remap") {
    machine const here;
    for (doubles::page_mode const mode : doubles::page_modes) {
        laws::source(
            [&] { return pool{virtual_resource{{.handle_size = 2_MiB}}, doubles::in_mode(mode)}; },
            {.room = 96_MiB, .largest = 12_MiB, .operations = 600});
    }
}

TEST_CASE("slab, binned and monotonic on CUDA: they keep the laws of a resource") {
    machine const here;
    for (auto const events : {event_policy::lazy, event_policy::eager}) {
        laws::source([&] { return slab{ordered{}, 4_KiB, {.events = events}}; },
                     {.largest_alignment = 2_KiB, .operations = 1000});
        laws::source([&] { return binned{ordered{}, {.largest = 2_KiB, .events = events}}; },
                     {.operations = 1000});
        laws::source([&] { return monotonic{ordered{}, {.events = events}}; },
                     {.operations = 1000});
    }
}

TEST_CASE("pools on CUDA: no operation breaks a capture") {
    machine const here;
    captures_go_on([](event_policy events, bool graphs) {
        return pool{ordered{},
                    {.max_size = 8_MiB, .events = events, .graphs = graphs},
                    fixed_growth{.step = 2_MiB}};
    });
    captures_go_on([](event_policy events, bool graphs) {
        return pool<cuda_resource, exact_growth>{
            {.max_size = 8_MiB, .events = events, .graphs = graphs}};
    });
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        captures_go_on([&](event_policy events, bool graphs) {
            return arena<ordered, exact_growth>{
                {.max_size = 8_MiB, .count = 8, .key = key, .events = events, .graphs = graphs}};
        });
    }
    captures_go_on([](event_policy events, bool graphs) {
        return slab<ordered>{1_MiB, {.max_size = 8_MiB, .events = events, .graphs = graphs}};
    });
    for (std::size_t const largest : {2_KiB, 1_MiB}) { // bins, and sizes above them
        captures_go_on([&](event_policy events, bool graphs) {
            return binned<ordered>{
                {.largest = largest, .max_size = 8_MiB, .events = events, .graphs = graphs}};
        });
    }
    captures_go_on([](event_policy events, bool graphs) {
        return doubles::resetting{monotonic<ordered, exact_growth>{
            {.max_size = 8_MiB, .events = events, .graphs = graphs}}};
    });
}

TEST_CASE("pools on CUDA over virtual memory: no operation breaks a capture") {
    machine const here;
    for (doubles::page_mode const mode : doubles::page_modes) {
        captures_go_on([&](event_policy events, bool graphs) {
            return pool{
                virtual_resource{{.handle_size = 2_MiB}},
                doubles::in_mode(mode, {.max_size = 8_MiB, .events = events, .graphs = graphs})};
        });
    }
}

TEST_CASE("pool on CUDA: default streams work like other streams") {
    machine const                       here;
    cuda_stream const                   s;
    pool<stream_ordered<cuda_resource>> memory;
    for (cudaStream_t const each : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
        void* const p = memory.allocate(each, 1_MiB);
        memory.deallocate(each, p, 1_MiB);
        void* const q = memory.allocate(s, 1_MiB);
        CHECK(q != nullptr);
        memory.deallocate(s, q, 1_MiB);
        memory.retire(each);
    }
    memory.retire(s);
}

namespace {

/// A block is freed on the thread's own stream while that stream is captured: a wait would break
/// the capture, and the block must not be reused by other streams.
template <class Make, class GiveBack>
void a_block_comes_back_in_a_capture(Make make, GiveBack give_back) {
    machine const      here;
    cuda_stream const  other;
    cudaStream_t const own    = cudaStreamPerThread;
    auto               memory = make();
    for (auto const mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
        void* const p = memory.allocate(own, 1_MiB);
        cuda_check(cudaMemsetAsync(p, 1, 1_MiB, own));
        cuda_check(cudaStreamBeginCapture(own, mode));
        give_back(memory, own, p);
        void* const q = memory.allocate(other, 1_MiB);
        CHECK(q != p);
        cuda_check(cudaMemsetAsync(q, 2, 1_MiB, other.get()));
        CHECK(capture_ends_well(own));
        memory.deallocate(other, q, 1_MiB);
    }
    memory.forget_captures();
    memory.retire(other);
}

} // namespace

TEST_CASE("pools on CUDA: a block freed on the thread's own stream during its capture belongs to "
          "the graph") {
    auto const one = [](auto& memory, cudaStream_t s, void* p) { memory.deallocate(s, p, 1_MiB); };
    for (auto const events : {event_policy::lazy, event_policy::eager}) {
        for (bool const graphs : {false, true}) {
            pool_options const o{.events = events, .graphs = graphs};
            a_block_comes_back_in_a_capture([&] { return pool{ordered{}, o}; }, one);
            a_block_comes_back_in_a_capture([&] { return slab{ordered{}, 1_MiB, o}; }, one);
            a_block_comes_back_in_a_capture(
                [&] { return doubles::resetting{monotonic{ordered{}, o}}; }, one);
            a_block_comes_back_in_a_capture(
                [&] { return monotonic{ordered{}, o}; },
                [](auto& memory, cudaStream_t s, void*) { memory.reset(s); });
            a_block_comes_back_in_a_capture(
                [&] { return monotonic{ordered{}, o}; },
                [](auto& memory, cudaStream_t, void*) { memory.reset_sync(); });
        }
    }
}

TEST_CASE(
    "pools on CUDA: a block freed on a stream that is first seen during its capture is retained") {
    auto const stays_out = [](auto make) {
        machine const     here;
        mishaps const     told;
        cuda_stream const s;
        auto              memory = make();
        cudaStream_t      raw    = nullptr;
        cuda_check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking));
        void* const p = memory.allocate(s, 1_MiB);
        cuda_check(cudaStreamBeginCapture(raw, cudaStreamCaptureModeThreadLocal));
        memory.deallocate(raw, p, 1_MiB);
        CHECK(told.count(error_kind::leak) == 1);
        CHECK(memory.usage().live >= 1_MiB);
        void* const q = memory.allocate(s, 1_MiB);
        CHECK(q != p);
        CHECK(capture_ends_well(raw));
        memory.deallocate(s, q, 1_MiB);
        memory.deallocate(s, p, 1_MiB); // the caller can still free the block
        CHECK(memory.usage().live == 0);
        memory.retire(s);
        cuda_check(cudaStreamDestroy(raw));
    };
    stays_out([] { return pool{ordered{}}; });
    stays_out([] { return slab{ordered{}, 1_MiB}; });
    stays_out([] { return monotonic{ordered{}}; });
}

TEST_CASE("arena on CUDA: it keeps the laws of a resource, by thread and by stream") {
    machine const here;
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        laws::source([&] { return arena{pool{stream_ordered{cuda_resource{}}}, {.key = key}}; },
                     {.operations = 2000, .streams = 5});
        laws::source([&] { return arena{cuda_async_resource{}, {.count = 2, .key = key}}; },
                     {.operations = 2000});
    }
}

TEST_CASE("arena on CUDA: default streams work like other streams") {
    machine const                              here;
    cuda_stream const                          s;
    arena<pool<stream_ordered<cuda_resource>>> memory{{.key = arena_key::stream}};
    for (cudaStream_t const each : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
        void* const p = memory.allocate(each, 1_MiB);
        void* const q = memory.allocate(s, 1_MiB);
        memory.deallocate(s, p, 1_MiB);
        memory.deallocate(each, q, 1_MiB);
        memory.retire(each);
    }
    memory.retire(s);
    CHECK(memory.usage().live == 0);
}

namespace {

/// A cuda_stream is destroyed with unfinished work and without `retire`, while a pool that `make()`
/// creates remembers it: nothing is reported, CUDA is not called with the handle of the destroyed
/// stream, and nothing is lost. With `waits`, its memory is requested then.
template <class Make>
void outlives_a_stream(Make make, std::size_t bytes, bool waits) {
    machine const here;
    mishaps const told;
    {
        auto                       memory = make();
        cuda_stream const          other;
        std::optional<cuda_stream> s{std::in_place};
        auto const                 turn = [&](cuda_stream const& on) {
            void* const p = memory.allocate(on, bytes);
            cuda_check(cudaMemsetAsync(p, 1, bytes, on.get()));
            memory.deallocate(on, p, bytes);
        };
        turn(*s);
        s.reset(); // without retire
        if (waits) {
            turn(other);
            s.emplace(); // it may get the same handle
            turn(*s);
            turn(other);
        }
    } // streams end before the pool
    CHECK(told.count() == 0);
#ifdef VRAM_CUDART_DOUBLE
    CHECK(doubles::cudart::dangling() == 0);
#endif
}

} // namespace

TEST_CASE("every pool on CUDA: it outlives each cuda_stream, and none needs to be retired") {
    for (bool const waits : {false, true}) {
        CAPTURE(waits);
        outlives_a_stream([] { return pool{ordered{}}; }, 20_MiB, waits);
        outlives_a_stream([] { return pool{ordered{}, {.events = event_policy::eager}}; }, 20_MiB,
                          waits);
        for (doubles::page_mode const mode : doubles::page_modes) {
            outlives_a_stream([&] { return pool{virtual_resource{}, doubles::in_mode(mode)}; },
                              20_MiB, waits);
        }
        for (arena_key const key : {arena_key::thread, arena_key::stream}) {
            outlives_a_stream([&] { return arena{pool{ordered{}}, {.count = 1, .key = key}}; },
                              20_MiB, waits);
        }
        outlives_a_stream([] { return slab{ordered{}, 20_MiB}; }, 20_MiB, waits);
        outlives_a_stream([] { return binned{ordered{}, {.largest = 1_MiB}}; }, 1_MiB, waits);
        outlives_a_stream([] { return doubles::resetting{monotonic{ordered{}}}; }, 1_MiB, waits);
        outlives_a_stream([] { return ordered{}; }, 20_MiB, waits);
        outlives_a_stream([] { return ordered{cuda_resource{}, {.frees_per_event = 4}}; }, 20_MiB,
                          waits);
        outlives_a_stream([] { return cuda_async_resource{}; }, 20_MiB, waits);
    }
}

TEST_CASE("monotonic on CUDA: memory of a cuda_stream that has ended is unwound") {
    for (auto const events : {event_policy::lazy, event_policy::eager}) {
        machine const     here;
        mishaps const     told;
        cuda_stream const other;
        {
            monotonic                  memory{ordered{}, {.events = events}};
            std::optional<cuda_stream> s{std::in_place};
            void* const                p = memory.allocate(*s, 1_MiB);
            cuda_check(cudaMemsetAsync(p, 1, 1_MiB, s->get()));
            s.reset(); // while a block is live
            memory.reset_sync();
            CHECK(memory.allocate(other, 1_MiB) == p);
            cuda_check(cudaMemsetAsync(p, 2, 1_MiB, other.get()));
            memory.reset(other);
        }
        CHECK(told.count() == 0);
#ifdef VRAM_CUDART_DOUBLE
        CHECK(doubles::cudart::dangling() == 0);
#endif
    }
}

TEST_CASE("buffer on CUDA: its stream may end first, and its memory is freed all the same") {
    auto const outlives = [](auto make) {
        machine const here;
        mishaps const told;
        {
            auto                       memory = make();
            std::optional<cuda_stream> s{std::in_place};
            buffer                     first{memory, *s, 1_MiB};
            cuda_check(cudaMemsetAsync(first.data(), 1, 1_MiB, s->get()));
            cudaStream_t const gone = s->get();
            s.reset();
            cuda_stream const other;
            CHECK(other.get() != gone); // a new stream must not be taken for the buffer's
            first.destroy();
            buffer second{memory, other, 1_MiB};
            cuda_check(cudaMemsetAsync(second.data(), 2, 1_MiB, other.get()));
        }
        CHECK(told.count() == 0);
#ifdef VRAM_CUDART_DOUBLE
        CHECK(doubles::cudart::dangling() == 0);
#endif
    };
    outlives([] { return pool{ordered{}}; });
    outlives([] { return slab{ordered{}, 1_MiB}; });
    outlives([] { return doubles::resetting{monotonic{ordered{}}}; });
    outlives([] { return ordered{}; });
    outlives([] { return cuda_async_resource{}; });
}

#ifdef VRAM_CUDART_DOUBLE
namespace {

/// A stream allocates and frees sizes up to `most`, in a pool that `make()` creates.
template <class Make>
void makes_no_call_of_its_own(Make make, std::size_t most) {
    machine const     here;
    cuda_stream const s;
    auto              memory = make();
    auto const        turns  = [&] {
        void* const below = memory.allocate(s, 1);
        for (std::size_t bytes = 1; bytes < most; bytes = 2 * bytes + 1) {
            void* const p = memory.allocate(s, bytes);
            void* const q = memory.allocate(s, bytes);
            memory.deallocate(s, p, bytes);
            memory.deallocate(s, q, bytes);
            void* const again = memory.allocate(s, bytes);
            memory.deallocate(s, again, bytes);
        }
        memory.deallocate(s, below, 1);
    };
    turns();
    turns(); // the pool may grow once more
    auto const before = doubles::cudart::calls();
    turns();
    CHECK(doubles::cudart::calls() == before);
    memory.retire(s);
}

} // namespace

TEST_CASE("every pool on CUDA: a stream that reuses its own memory makes no CUDA call") {
    makes_no_call_of_its_own([] { return pool{ordered{}}; }, 8_MiB);
    for (doubles::page_mode const mode : doubles::page_modes) {
        auto const make = [&] { return pool{virtual_resource{}, doubles::in_mode(mode)}; };
        makes_no_call_of_its_own(make, 8_MiB);
    }
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        makes_no_call_of_its_own([&] { return arena{pool{ordered{}}, {.key = key}}; }, 8_MiB);
    }
    makes_no_call_of_its_own([] { return slab{ordered{}, 1_MiB}; }, 1_MiB);
    makes_no_call_of_its_own([] { return binned{ordered{}}; }, 1_MiB);
    makes_no_call_of_its_own([] { return doubles::resetting{monotonic{ordered{}}}; }, 1_MiB);
}

TEST_CASE("monotonic on CUDA: consecutive steps make no CUDA call, with any kind of unwinding") {
    machine const     here;
    cuda_stream const s;
    monotonic         memory{ordered{}};
    auto const        step = [&](bool marked) {
        auto const mark = memory.mark();
        for (int i = 0; i < 10; ++i) { (void)memory.allocate(s, 1_KiB); }
        if (marked) { memory.unwind(mark, s); }
        marked ? memory.reset_sync() : memory.reset(s);
    };
    step(true);
    auto const before = doubles::cudart::calls();
    for (int i = 0; i < 10; ++i) { step(i % 2 == 0); }
    CHECK(doubles::cudart::calls() == before);
    memory.retire(s);
}

namespace {

/// A cuda_stream ends. Its handle must not be reused while a pool that `make()` creates has no
/// event behind its work, and a later stream with the handle must not be taken for it.
template <class Make>
void keeps_the_handle(Make make, std::size_t bytes) {
    machine const              here;
    mishaps const              told;
    auto                       memory = make();
    cuda_stream const          other;
    std::optional<cuda_stream> s{std::in_place};
    cudaStream_t const         first = s->get();
    memory.deallocate(*s, memory.allocate(*s, bytes), bytes);
    s.reset(); // without retire
    CHECK(doubles::cudart::calls("cudaStreamDestroy") == 0);
    cudaStream_t raw[2];
    cuda_check(cudaStreamCreateWithFlags(&raw[0], cudaStreamNonBlocking));
    CHECK(raw[0] != first); // the double would reuse the handle, as CUDA may do
    memory.deallocate(other, memory.allocate(other, bytes), bytes);
    CHECK(doubles::cudart::calls("cudaStreamDestroy") == 1);
    cuda_check(cudaStreamCreateWithFlags(&raw[1], cudaStreamNonBlocking));
    CHECK(raw[1] == first);
    for (int i = 0; i != 5; ++i) {
        for (cudaStream_t const each : raw) {
            memory.deallocate(each, memory.allocate(each, bytes), bytes);
        }
        memory.deallocate(other, memory.allocate(other, bytes), bytes);
    }
    CHECK(told.count() == 0);
    CHECK(doubles::cudart::dangling() == 0);
    for (cudaStream_t const each : raw) {
        memory.retire(each);
        cuda_check(cudaStreamDestroy(each));
    }
}

/// A stream is destroyed without `retire` while a pool that `make()` creates waits for it, and
/// another stream gets its handle.
template <class Make>
void notices_a_handle_that_came_back(Make make, std::size_t bytes) {
    machine const     here;
    mishaps const     told;
    cuda_stream const other;
    auto              memory = make();
    cudaStream_t      raw    = nullptr;
    cuda_check(cudaStreamCreate(&raw));
    cudaStream_t const first = raw;
    memory.deallocate(raw, memory.allocate(raw, bytes), bytes);
    cuda_check(cudaStreamDestroy(raw)); // without retire
    cuda_check(cudaStreamCreate(&raw));
    REQUIRE(raw == first);                  // the double reuses the handle at once, as CUDA may do
    CHECK(cuda_stream_view{raw}.id() != 0); // queries its id
    void* const p = memory.allocate(other, bytes);
    CHECK(told.count(error_kind::dead_stream) == 1);
    memory.deallocate(other, p, bytes);
    void* const q = memory.allocate(raw, 1_MiB); // from now on the handle means the new stream
    memory.deallocate(raw, q, 1_MiB);
    void* const r = memory.allocate(other, bytes);
    CHECK(told.count() == 1);
    memory.deallocate(other, r, bytes);
    memory.retire(raw);
    memory.retire(other);
    cuda_check(cudaStreamDestroy(raw));
}

} // namespace

TEST_CASE("every pool on CUDA: the handle of an ended cuda_stream is not reused while the pool "
          "needs it") {
    keeps_the_handle([] { return pool{ordered{}}; }, 20_MiB);
    keeps_the_handle([] { return slab{ordered{}, 20_MiB}; }, 20_MiB);
    keeps_the_handle([] { return binned{ordered{}, {.largest = 1_MiB}}; }, 1_MiB);
    keeps_the_handle([] { return doubles::resetting{monotonic{ordered{}, {}, exact_growth{}}}; },
                     20_MiB);
}

TEST_CASE("arena on CUDA: a remote free by a stream that has ended waits for that stream only") {
    machine const here;
    mishaps const told;
    {
        arena<pool<ordered>> memory;
        cuda_stream const    other;
        void* const blocks[2]{memory.allocate(other, 1_MiB), memory.allocate(other, 1_MiB)};
        {
            cuda_stream const s;
            std::thread{[&] {
                for (void* const p : blocks) {
                    cuda_check(cudaMemsetAsync(p, 1, 1_MiB, s.get()));
                    memory.deallocate(s, p, 1_MiB);
                }
            }}.join();
        }
        cuda_stream const late; // it has another handle
        void* const       again = memory.allocate(other, 1_MiB);
        cuda_check(cudaMemsetAsync(again, 2, 1_MiB, other.get()));
        memory.deallocate(other, again, 1_MiB);
        CHECK(doubles::cudart::dangling() == 0);
        CHECK(memory.usage().live == 0);
    }
    CHECK(told.count() == 0);
    CHECK(doubles::cudart::calls("cudaDeviceSynchronize") == 0);
}

TEST_CASE(
    "monotonic on CUDA: a stream that has ended is known though many others were used later") {
    machine const here;
    mishaps const told;
    monotonic     memory{ordered{}};
    // More streams than there are timelines before one is reused.
    cuda_stream const          others[20];
    std::optional<cuda_stream> s{std::in_place};
    (void)memory.allocate(*s, 1_MiB);
    for (cuda_stream const& each : others) { (void)memory.allocate(each, 1_KiB); }
    s.reset();
    memory.reset_sync();
    CHECK(told.count() == 0);
    CHECK(doubles::cudart::dangling() == 0);
}

TEST_CASE("every pool on CUDA: a reused handle of a raw stream is noticed when it matters") {
    notices_a_handle_that_came_back([] { return pool{ordered{}}; }, 20_MiB);
    notices_a_handle_that_came_back(
        [] { return arena{pool{ordered{}}, {.count = 1, .key = arena_key::stream}}; }, 20_MiB);
    notices_a_handle_that_came_back([] { return slab{ordered{}, 20_MiB}; }, 20_MiB);
    notices_a_handle_that_came_back([] { return binned{ordered{}, {.largest = 1_MiB}}; }, 1_MiB);
    notices_a_handle_that_came_back(
        [] { return doubles::resetting{monotonic{ordered{}, {}, exact_growth{}}}; }, 20_MiB);
}

TEST_CASE("monotonic on CUDA: a reused handle is not taken for the stream of the unwound memory") {
    machine const     here;
    mishaps const     told;
    cuda_stream const other;
    monotonic         memory{ordered{}, {.events = event_policy::eager}};
    cudaStream_t      raw = nullptr;
    cuda_check(cudaStreamCreate(&raw));
    cudaStream_t const first = raw;
    void* const        p     = memory.allocate(raw, 1_MiB);
    cuda_check(cudaStreamDestroy(raw)); // without `retire`, while a block is live
    cuda_check(cudaStreamCreate(&raw));
    REQUIRE(raw == first);
    CHECK(cuda_stream_view{raw}.id() != 0); // queries its id
    memory.reset_sync();
    CHECK(memory.allocate(other, 1_MiB) == p);
    CHECK(told.count(error_kind::dead_stream) == 1);
    memory.reset(other);
    memory.retire(other);
    cuda_check(cudaStreamDestroy(raw));
}

TEST_CASE("binned on CUDA: a captured stream may begin with a large block") {
    machine const here;
    mishaps const told;
    {
        binned       memory{cuda_async_resource{}, {.largest = 1_MiB}};
        cudaStream_t raw = nullptr;
        cuda_check(cudaStreamCreate(&raw));
        cuda_check(cudaStreamBeginCapture(raw, cudaStreamCaptureModeThreadLocal));
        void* const p = memory.allocate(raw, 2_MiB);
        memory.deallocate(raw, p, 2_MiB);
        cudaGraph_t graph = nullptr;
        cuda_check(cudaStreamEndCapture(raw, &graph));
        cuda_check(cudaGraphDestroy(graph));
        memory.retire(raw);
        cuda_check(cudaStreamDestroy(raw));
    }
    CHECK(told.count() == 0);
}

TEST_CASE(
    "pool on CUDA: another thread's own stream is not waited for while this one's is captured") {
    machine const     here;
    cuda_stream const other;
    {
        pool  memory{ordered{}};
        void* p = nullptr;
        std::thread{[&] {
            p = memory.allocate(cudaStreamPerThread, 1_MiB);
            memory.deallocate(cudaStreamPerThread, p, 1_MiB);
        }}.join();
        std::thread{[&] { // this thread never queried its own stream
            cuda_check(
                cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeThreadLocal));
            void* const q = memory.allocate(other, 1_MiB);
            CHECK(capture_ends_well(cudaStreamPerThread));
            memory.deallocate(other, q, 1_MiB);
        }}
            .join();
        memory.forget_captures();
        memory.retire(other);
    }
}
#endif
