// SPDX-License-Identifier: Apache-2.0
// Captures on a GPU while other threads use the same resource: eight threads, each with its own
// stream, capture it from time to time, and no stream is retired.
//
//   VRAM_SOAK_SECONDS   for each resource: 0.5 if it is not set, 60 for a long run

#include <vram/cuda/cuda.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>

#include "machine.hpp"

#include <atomic>    // atomic
#include <chrono>    // steady_clock
#include <cstddef>   // size_t
#include <cstdio>    // printf
#include <cstdlib>   // getenv, strtod
#include <deque>     // deque
#include <exception> // exception
#include <random>    // mt19937
#include <thread>    // thread
#include <utility>   // pair
#include <vector>    // vector

using namespace vram;

namespace {

using device_memory = stream_ordered<cuda_resource>;

__global__ void stamp(unsigned* p, std::size_t words, unsigned value) {
    for (std::size_t i = threadIdx.x; i < words; i += blockDim.x) { p[i] = value; }
}
__global__ void compare(unsigned const* p, std::size_t words, unsigned value, unsigned* wrong) {
    for (std::size_t i = threadIdx.x; i < words; i += blockDim.x) {
        if (p[i] != value) { atomicAdd(wrong, 1U); }
    }
}

double seconds_of_each() {
    char const* const said = std::getenv("VRAM_SOAK_SECONDS");
    return said != nullptr ? std::strtod(said, nullptr) : 0.5;
}

/// The results of eight threads.
struct outcome {
    std::atomic<unsigned long> captures{0};
    std::atomic<unsigned long> broken{0};
    std::atomic<unsigned long> thrown{0};
};

template <class Memory>
class capturing_thread {
public:
    capturing_thread(Memory& memory, outcome& all, unsigned* wrong, unsigned seed)
        : memory_{memory}, all_{all}, wrong_{wrong}, random_{seed} {}

    void run_until(std::chrono::steady_clock::time_point end) {
        while (std::chrono::steady_clock::now() < end) {
            for (int i = 0; i < 20; ++i) { step(); }
            capture();
        }
        while (!out_.empty()) { give(); }
    } // the stream ends with the thread, with unfinished work and without `retire`

private:
    struct block {
        unsigned*   p;
        std::size_t bytes;
        unsigned    value;
    };

    block take() {
        std::size_t const bytes = 4 * (1 + random_() % (64 * 1024));
        block             b{static_cast<unsigned*>(memory_.allocate(stream_, bytes)), bytes,
                static_cast<unsigned>(random_())};
        stamp<<<1, 128, 0, stream_>>>(b.p, b.bytes / 4, b.value);
        return b;
    }
    void give(block const& b) {
        compare<<<1, 128, 0, stream_>>>(b.p, b.bytes / 4, b.value, wrong_);
        memory_.deallocate(stream_, b.p, b.bytes);
    }
    void give() {
        give(out_.front());
        out_.pop_front();
    }
    void step() {
        try {
            out_.push_back(take());
        } catch (std::exception const& e) {
            if (all_.thrown++ == 0) { std::printf("    outside of a capture: %s\n", e.what()); }
        }
        while (out_.size() > random_() % 24) { give(); }
    }
    void capture() {
        cuda_check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
        try {
            block const a = take(), b = take();
            give(a);
            give(b);
        } catch (std::exception const& e) {
            if (all_.thrown++ == 0) { std::printf("    within a capture: %s\n", e.what()); }
        }
        cudaGraph_t       graph  = nullptr;
        cudaError_t const status = cudaStreamEndCapture(stream_, &graph);
        ++all_.captures;
        if (status != cudaSuccess) {
            cuda_error::clear(status);
            if (all_.broken++ == 0) { std::printf("    %s\n", cudaGetErrorString(status)); }
        }
        if (graph != nullptr) { cuda_check(cudaGraphDestroy(graph)); }
    }

    Memory&           memory_;
    outcome&          all_;
    unsigned*         wrong_;
    std::mt19937      random_;
    cuda_stream       stream_;
    std::deque<block> out_;
};

template <class Make>
void captures_go_on(char const* name, Make make) {
    tests::machine const   here;
    doubles::mishaps const told;
    outcome                all;
    managed_resource       managed;
    auto* const            wrong = static_cast<unsigned*>(managed.allocate_sync(sizeof(unsigned)));
    *wrong                       = 0;
    {
        auto       memory = make();
        auto const end    = std::chrono::steady_clock::now() +
                         std::chrono::duration_cast<std::chrono::nanoseconds>(
                             std::chrono::duration<double>{seconds_of_each()});
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < 8; ++i) {
            threads.emplace_back([&, i] {
                capturing_thread one{memory, all, wrong, i + 1};
                one.run_until(end);
            });
        }
        for (auto& each : threads) { each.join(); }
    }
    cuda_check(cudaDeviceSynchronize());
    std::printf("  %-24s %8lu captures, %lu broken, %lu calls threw, %u wrong, %zu reports\n", name,
                all.captures.load(), all.broken.load(), all.thrown.load(), *wrong, told.count());
    CHECK(all.captures != 0);
    CHECK(all.broken == 0);
    CHECK(all.thrown == 0);
    CHECK(*wrong == 0);
    CHECK(told.count() == 0);
    managed.deallocate_sync(wrong, sizeof(unsigned));
}

} // namespace

TEST_CASE("captures on a GPU: other threads that share the resource break no capture") {
    stamp<<<1, 1>>>(nullptr, 0, 0); // both are loaded before any capture
    compare<<<1, 1>>>(nullptr, 0, 0, nullptr);
    cuda_check(cudaDeviceSynchronize());
    for (auto const events : {event_policy::lazy, event_policy::eager}) {
        pool_options const o{.events = events, .graphs = true};
        captures_go_on("slab", [&] { return slab{device_memory{}, 256_KiB, o}; });
        captures_go_on("pool", [&] { return pool{device_memory{}, o}; });
        captures_go_on("pool over pages", [&] {
            return pool{virtual_resource{}, {.events = events, .graphs = true, .remap = true}};
        });
        captures_go_on("pool over async memory", [&] { return pool{cuda_async_resource{}, o}; });
        captures_go_on("binned", [&] {
            return binned{device_memory{}, {.largest = 128_KiB, .events = events, .graphs = true}};
        });
        captures_go_on("arena", [&] {
            return arena{pool{device_memory{}, o}, {.events = events, .graphs = true}};
        });
        captures_go_on("statistics, limiting",
                       [&] { return statistics{limiting{pool{device_memory{}, o}, 8_GiB}}; });
    }
    captures_go_on("stream_ordered", [] { return device_memory{}; });
}

TEST_CASE(
    "captures on a GPU: a query of an event from an ended capture fails, and breaks no capture") {
    tests::machine const here;
    cuda_stream const    s;
    cuda_event           place;
    cuda_check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    place.record(s);
    cudaGraph_t graph = nullptr;
    cuda_check(cudaStreamEndCapture(s, &graph));
    CHECK_THROWS_AS((void)place.done(), cuda_error);
    cuda_check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    CHECK_THROWS_AS((void)place.done(), cuda_error); // also while another stream is being captured
    cudaGraph_t other = nullptr;
    cuda_check(cudaStreamEndCapture(s, &other));
    cuda_check(cudaGraphDestroy(other));
    place.record(s);
    place.synchronize();
    CHECK(place.done());
    cudaGraphExec_t run = nullptr;
    cuda_check(cudaGraphInstantiate(&run, graph, 0));
    cuda_check(cudaGraphLaunch(run, s));
    s.synchronize();
    cuda_check(cudaGraphExecDestroy(run));
    cuda_check(cudaGraphDestroy(graph));
}

namespace {
__global__ void dawdle(long long cycles) {
    long long const since = clock64();
    while (clock64() - since < cycles) {}
}
} // namespace

TEST_CASE("captures on a GPU: the host can wait for a device while a stream is captured") {
    tests::machine const here;
    cuda_stream const    busy, captured;
    for (auto const mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal}) {
        cuda_event after;
        dawdle<<<1, 1, 0, busy>>>(100'000'000);
        after.record(busy);
        cuda_check(cudaStreamBeginCapture(captured, mode));
        CHECK_FALSE(after.done());
        cuda_platform::await_all(cuda_device::current());
        CHECK(after.done());
        std::thread{[&] { cuda_platform::await_all(cuda_device::current()); }}.join();
        cudaGraph_t graph = nullptr;
        CHECK(cudaStreamEndCapture(captured, &graph) == cudaSuccess);
        cuda_check(cudaGraphDestroy(graph));
    }
}

TEST_CASE("captures on a GPU: events and streams can be created and destroyed during a capture") {
    tests::machine const here;
    cuda_stream const    captured;
    for (auto const mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal}) {
        cuda_check(cudaStreamBeginCapture(captured, mode));
        auto const all = [&] {
            cuda_stream const s;
            cuda_event        place, within;
            place.record(s);
            within.record(captured); // the event belongs to the graph when it is destroyed
            CHECK(s.id() != 0);
        };
        all();
        std::thread{all}.join();
        cudaGraph_t graph = nullptr;
        CHECK(cudaStreamEndCapture(captured, &graph) == cudaSuccess);
        cuda_check(cudaGraphDestroy(graph));
    }
}

namespace {

__global__ void triple(unsigned const* in, unsigned* to, std::size_t words) {
    for (std::size_t i = threadIdx.x; i < words; i += blockDim.x) { to[i] = 3 * *in; }
}
__global__ void add_one(unsigned const* from, unsigned* to, std::size_t words) {
    for (std::size_t i = threadIdx.x; i < words; i += blockDim.x) { to[i] = from[i] + 1; }
}
/// Counts a word of `from` that differs from `3 * expected + 1`.
__global__ void verify(unsigned const* from, std::size_t words, unsigned expected,
                       unsigned* wrong) {
    for (std::size_t i = threadIdx.x; i < words; i += blockDim.x) {
        if (from[i] != 3 * expected + 1) { atomicAdd(wrong, 1U); }
    }
}

/// Blocks of three streams that are written, compared later, and freed.
template <class Memory>
class changing_neighbours {
public:
    changing_neighbours(Memory& memory, unsigned* wrong) : memory_{memory}, wrong_{wrong} {}

    void change() {
        if (live_.size() < 8 && random_() % 2 == 0) {
            std::size_t const at    = random_() % streams_.size();
            std::size_t const bytes = 4 * (1 + random_() % (16 * 1024));
            auto* const       p     = static_cast<unsigned*>(memory_.allocate(streams_[at], bytes));
            block const       b{p, bytes, static_cast<unsigned>(random_()), at};
            stamp<<<1, 128, 0, streams_[at]>>>(b.p, b.bytes / 4, b.value);
            live_.push_back(b);
        } else if (!live_.empty()) {
            give();
        }
    }
    void end() {
        while (!live_.empty()) { give(); }
        cuda_check(cudaDeviceSynchronize());
    }

private:
    struct block {
        unsigned*   p;
        std::size_t bytes;
        unsigned    value;
        std::size_t stream;
    };
    void give() {
        block const& b = live_.front();
        compare<<<1, 128, 0, streams_[b.stream]>>>(b.p, b.bytes / 4, b.value, wrong_);
        memory_.deallocate(streams_[b.stream], b.p, b.bytes);
        live_.pop_front();
    }

    Memory&                  memory_;
    unsigned*                wrong_;
    std::mt19937             random_{5};
    std::deque<block>        live_;
    std::vector<cuda_stream> streams_ = std::vector<cuda_stream>(3);
};

/// Captures a graph with two temporary blocks, and launches it 1000 times beside neighbours.
template <class Make>
void launches_are_correct(char const* name, Make make) {
    CAPTURE(name);
    doubles::mishaps const told;
    managed_resource       managed;
    auto* const            wrong = static_cast<unsigned*>(managed.allocate_sync(8));
    wrong[0] = wrong[1] = 0;
    {
        auto                  memory = make();
        cuda_stream           s;
        constexpr std::size_t bytes = 64 << 10, words = bytes / 4;
        cuda_resource         plain;
        auto* const           io  = static_cast<unsigned*>(plain.allocate_sync(4 + bytes));
        unsigned* const       out = io + 1;
        changing_neighbours   others{memory, wrong};
        for (int i = 0; i < 20; ++i) { others.change(); }
        cudaGraph_t     graph    = nullptr;
        cudaGraphExec_t launched = nullptr;
        cuda_check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        auto* const a = static_cast<unsigned*>(memory.allocate(s, bytes));
        auto* const b = static_cast<unsigned*>(memory.allocate(s, bytes));
        triple<<<1, 128, 0, s>>>(io, a, words);
        add_one<<<1, 128, 0, s>>>(a, b, words);
        memory.deallocate(s, a, bytes);
        cuda_check(cudaMemcpyAsync(out, b, bytes, cudaMemcpyDeviceToDevice, s));
        memory.deallocate(s, b, bytes);
        cuda_check(cudaStreamEndCapture(s, &graph));
        cuda_check(cudaGraphInstantiate(&launched, graph, 0));
        for (unsigned i = 1; i <= 1000; ++i) {
            stamp<<<1, 1, 0, s>>>(io, 1, i);
            cuda_check(cudaGraphLaunch(launched, s));
            verify<<<1, 128, 0, s>>>(out, words, i, wrong + 1);
            others.change();
            others.change();
        }
        s.synchronize();
        cuda_check(cudaGraphExecDestroy(launched));
        cuda_check(cudaGraphDestroy(graph));
        others.end();
        CHECK(memory.usage().live == 0);
        (void)memory.trim();
        CHECK(memory.usage().reserved > 0); // the memory of the graph
        memory.forget_captures();
        (void)memory.trim();
        CHECK(memory.usage().reserved == 0);
        plain.deallocate_sync(io, 4 + bytes);
    }
    CHECK(wrong[0] == 0); // words of neighbours
    CHECK(wrong[1] == 0); // words of the graph
    CHECK(told.count() == 0);
    managed.deallocate_sync(wrong, 8);
}

} // namespace

TEST_CASE("captures on a GPU: 1000 launches of a graph are correct beside neighbours that change, "
          "and forget_captures releases its memory") {
    tests::machine const here;
    verify<<<1, 1>>>(nullptr, 0, 0, nullptr); // all are loaded before the capture
    triple<<<1, 1>>>(nullptr, nullptr, 0);
    add_one<<<1, 1>>>(nullptr, nullptr, 0);
    stamp<<<1, 1>>>(nullptr, 0, 0);
    compare<<<1, 1>>>(nullptr, 0, 0, nullptr);
    cuda_check(cudaDeviceSynchronize());
    for (auto const events : {event_policy::lazy, event_policy::eager}) {
        pool_options const o{.events = events, .graphs = true};
        launches_are_correct("pool", [&] { return pool{device_memory{}, o}; });
        launches_are_correct("pool over pages", [&] { return pool{virtual_resource{}, o}; });
        launches_are_correct("pool over async memory",
                             [&] { return pool{cuda_async_resource{}, o}; });
        launches_are_correct("slab", [&] { return slab{device_memory{}, 64_KiB, o}; });
        launches_are_correct("binned", [&] {
            return binned{device_memory{}, {.largest = 128_KiB, .events = events, .graphs = true}};
        });
        launches_are_correct(
            "arena", [&] { return arena{device_memory{}, {.events = events, .graphs = true}}; });
    }
}
