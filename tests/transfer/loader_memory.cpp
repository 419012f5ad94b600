// SPDX-License-Identifier: Apache-2.0
// The memory of a loader: its owner, its size, and the time of its free. (The numbers are those of
// the behaviours listed in docs/loading.md.)
#include <vram/transfer/loader.hpp> // first: the header stands alone

#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>
#include <vram/sim/sim_graph.hpp>
#include <vram/source/host_resource.hpp>

#include "../doubles/bombing.hpp"
#include "../doubles/mishaps.hpp"
#include "../laws/effort.hpp"
#include "feeding.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <stop_token>
#include <string_view>
#include <thread>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;
using feeding::numbered;

namespace loader_memory {

/// Puts the copies on the stream itself, out of pinned memory of its own.
struct enqueueing {
    std::byte*  from;
    std::size_t batches;
    bool        broken = false;

    std::size_t enqueue(std::span<std::byte> to, std::size_t index, sim_stream_view copies) const {
        if (index >= batches) { return 0; }
        std::size_t const half = numbered::bytes / 2;
        sim_copy(copies, to.data(), from, half);
        if (broken && index == 2) { throw index; }
        sim_copy(copies, to.data() + half, from + half, half);
        return numbered::bytes;
    }
    [[nodiscard]] std::size_t batch_bytes() const { return numbered::bytes; }
};

} // namespace loader_memory
using namespace loader_memory;

// 5
TEST_CASE("loader: pinned and device slots can have different depths") {
    for (std::size_t pinned : {1U, 2U, 5U}) {
        for (std::size_t device : {1U, 2U, 5U}) {
            sim_node                              node;
            sim_stream                            stream;
            limiting                              on_device{stream_ordered{sim_resource{}}, 1_MiB};
            shared<limiting<sim_pinned_resource>> on_host{limiting{sim_pinned_resource{}, 1_MiB}};
            {
                loader load{numbered{20},
                            stream,
                            resource_ref{on_device},
                            on_host,
                            {.batch_bytes  = numbered::bytes,
                             .producers    = 2,
                             .pinned_depth = pinned,
                             .device_depth = device}};
                CHECK(on_device.used() == device * numbered::bytes);
                CHECK(on_host.get().used() == pinned * (numbered::bytes + 64)); // with flags
                std::size_t seen = 0;
                for (auto& b : load) {
                    CHECK(b.index() == seen++);
                    feeding::use(stream, b);
                }
                CHECK(seen == 20);
                CHECK(load.statistics().allocations == pinned + device + 1); // and the flags
            }
            CHECK(on_device.used() == 0);
            CHECK(on_host.get().used() == 0);
            stream.synchronize();
            CHECK(node.reports().empty());
        }
    }
}

// 8
TEST_CASE("loader: with different depths a batch may outlive its loader too") {
    sim_node   node;
    sim_stream stream;
    {
        batch<sim_platform> kept, another;
        for (auto& b : loader{numbered{6},
                              stream,
                              {.batch_bytes  = numbered::bytes,
                               .producers    = 3,
                               .pinned_depth = 3,
                               .device_depth = 4}}) {
            feeding::use(stream, b);
            if (b.index() == 2) { kept = std::move(b); }
            if (b.index() == 4) { another = std::move(b); }
        }
        feeding::use(stream, another);
        feeding::use(stream, kept);
        another.release();
        CHECK(kept.index() == 2);
    }
    stream.synchronize();
    node.finish();
    CHECK(node.reports().empty());
}

// 21
TEST_CASE("loader: the budget counts pinned and device slots, without rounding") {
    sim_node   node;
    sim_stream stream;
    auto const make = [&](std::size_t budget) {
        loader const load{
            numbered{1},
            stream,
            {.batch_bytes = 1001, .pinned_depth = 3, .device_depth = 1, .budget = budget}};
    };
    CHECK_THROWS_AS(make(4003), over_limit);
    CHECK(node.figures().allocations == 0);
    make(4004);
    stream.synchronize();
    CHECK(node.reports().empty());
}

// 23
TEST_CASE("loader: pinned and device memory may come from pools of the caller") {
    sim_node   node;
    sim_stream stream;
    {
        pool<stream_ordered<sim_resource>> on_device;
        shared                             on_host{pool<sim_pinned_resource>{}};
        for (int again = 0; again < 3; ++again) {
            loader load{numbered{9},
                        stream,
                        resource_ref{on_device},
                        on_host,
                        {.batch_bytes = numbered::bytes, .producers = 2}};
            for (auto& b : load) { feeding::use(stream, b); }
        }
        CHECK(on_host.get().usage().live == 0);
        CHECK(on_device.usage().live == 0);
        CHECK(on_host.get().usage().reserved > 0); // pinned once, for all three
    }
    stream.synchronize();
    node.finish();
    CHECK(node.reports().empty());
}

// 22
TEST_CASE(
    "loader: if no more memory can be pinned, that is an error, or pageable memory on request") {
    for (bool fallback : {false, true}) {
        sim_node   node;
        sim_stream stream;
        node.faults().at(sim_call_kind::allocate_host, 2, {.status = sim_status::refused}, 2);
        std::size_t seen = 0;
        try {
            loader load{
                numbered{9},
                stream,
                {.batch_bytes = numbered::bytes, .pinned_depth = 4, .pageable_fallback = fallback}};
            CHECK(load.statistics().pageable == 2);
            for (auto& b : load) {
                feeding::use(stream, b);
                CHECK(b.index() == seen++);
            }
        } catch (std::exception const&) { CHECK_FALSE(fallback); }
        CHECK(seen == (fallback ? 9 : 0));
        stream.synchronize();
        node.finish();
        CHECK(node.reports().empty());
    }
}

// 24
TEST_CASE("loader: a platform without NUMA information ignores the option") {
    static_assert(!has_near_device<sim_platform>);
    sim_node    node;
    sim_stream  stream;
    std::size_t seen = 0;
    for (auto& b :
         loader{numbered{3}, stream, {.batch_bytes = numbered::bytes, .numa_local = true}}) {
        feeding::use(stream, b);
        ++seen;
    }
    CHECK(seen == 3);
}

TEST_CASE("loader: a source that enqueues its own copies needs no pinned memory") {
    for (std::size_t depth : {0U, 1U, 2U, 3U}) {
        sim_node                              node;
        sim_stream                            stream;
        shared<limiting<sim_pinned_resource>> on_host{limiting{sim_pinned_resource{}, 1_MiB}};
        sim_pinned_resource                   own;
        auto* const from = static_cast<std::byte*>(own.allocate_sync(numbered::bytes));
        for (int i = 0; i < 128; ++i) { from[i] = std::byte{42}; }
        std::size_t right = 0;
        {
            loader load{enqueueing{from, 7},
                        stream,
                        sim_resource{},
                        on_host,
                        {.depth = depth, .producers = 4}};
            CHECK(on_host.get().used() == 0);
            for (auto& b : load) {
                sim_launch(stream, {.reads = {{b.data(), b.size()}}},
                           [data = b.span<std::byte>(), &right] {
                               for (std::byte x : sim_view(data)) { right += x == std::byte{42}; }
                           });
            }
            load.restart();
            std::size_t again = 0;
            for (auto& b : load) { again += b.index() == again; }
            CHECK(again == 7);
            stream.synchronize();
        }
        CHECK(right == 7 * numbered::bytes);
        own.deallocate_sync(from, numbered::bytes);
        node.finish();
        CHECK(node.reports().empty());
    }
}

TEST_CASE(
    "loader: errors, padding and kept batches of an enqueuing source are like those of any other") {
    sim_node            node{{.on_report = sim_on_report::collect}};
    sim_stream          stream;
    sim_pinned_resource own;
    auto* const         from = static_cast<std::byte*>(own.allocate_sync(numbered::bytes));
    sim_touch({from, numbered::bytes}, sim_access::write);
    for (std::size_t depth : {0U, 1U, 2U}) {
        loader      load{enqueueing{from, 9, true}, stream, {.depth = depth}};
        std::size_t seen = 0, thrown = 0;
        try {
            for (auto& b : load) { seen += b.index() == seen; }
        } catch (loader_error const& e) { thrown = feeding::cause_of<std::size_t>(e); }
        CHECK(seen == 2);
        CHECK(thrown == 2);

        std::vector<batch<sim_platform>> kept;
        loader                           many{enqueueing{from, 9},
                    stream,
                                              {.batch_bytes = 200, .depth = depth, .last = last_batch::pad}};
        try {
            for (auto& b : many) {
                CHECK(b.size() == 200);
                CHECK(b.filled() == numbered::bytes);
                kept.push_back(std::move(b));
            }
            FAIL("all are held");
        } catch (loader_error const& e) {
            CHECK(e.why() == loader_error::reason::all_held);
            CHECK(kept.size() == std::max<std::size_t>(depth, 1));
        }
    }
    stream.synchronize();
    sim_platform::synchronize(sim_device{});
    own.deallocate_sync(from, numbered::bytes);
    node.finish();
    CHECK(node.reports().empty());
}

// 35
TEST_CASE("loader: in checker mode slots are overwritten while they are unused") {
    std::atomic<std::size_t> stale = 0, asked = 0;
    auto const               fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        ++asked;
        for (std::byte b : to) { stale += b != std::byte{0xFF}; }
        for (std::byte& b : to) { b = std::byte{7}; }
        return index < 6 ? to.size() : 0;
    };
    loader load{fill, host_platform::stream{}, {.batch_bytes = 64, .depth = 2, .checker = true}};
    std::byte const* before = nullptr;
    for (auto& b : load) {
        CHECK(b.data()[5] == std::byte{7});
        if (before != nullptr && before != b.data()) { CHECK(before[5] == std::byte{0xFF}); }
        before = b.data();
        b.release();
        if (b.index() == 5) { CHECK(before[5] == std::byte{0xFF}); }
        load.stop();
        break;
    }
    CHECK(stale == 0);
    CHECK(asked > 0);
}

// 35
TEST_CASE("loader: in checker mode a device slot is overwritten after its release") {
    for (bool check : {false, true}) {
        sim_node    node{{.checks = {.races = false, .uninitialised = false}}};
        sim_stream  stream;
        std::size_t poisoned = 0;
        {
            loader     load{numbered{2},
                        stream,
                            {.batch_bytes = numbered::bytes, .depth = 3, .checker = check}};
            auto       at   = load.begin();
            auto const data = at->span<std::byte>();
            ++at;
            CHECK(at->index() == 1);
            sim_platform::synchronize(sim_device{}); // a later query is too late
            sim_range const all{data.data(), data.size()};
            sim_launch(stream, {.name = "late", .reads = {all}}, [data, &poisoned] {
                for (std::byte b : sim_view(data)) { poisoned += b == std::byte{0xFF}; }
            });
            stream.synchronize();
        }
        CHECK(poisoned == (check ? numbered::bytes : 0));
        CHECK(node.reports().empty());
    }
}

// 2
TEST_CASE("loader: the copies use a stream of the caller, if one is given") {
    sim_node   node{{.trace = true}};
    sim_stream stream, side;
    {
        loader load{numbered{5}, stream, side, {.batch_bytes = numbered::bytes}};
        for (auto& b : load) { feeding::use(stream, b); }
        stream.synchronize();
    }
    std::size_t copies = 0;
    for (auto const& each : node.trace()) {
        if (each.engine != sim_engine::to_device) { continue; }
        ++copies;
        CHECK(each.stream == side.id());
    }
    CHECK(copies == 5);
    CHECK(node.reports().empty());
}

// 4
TEST_CASE("loader: it copies the filled bytes only, and an empty batch not at all") {
    sim_node   node;
    sim_stream stream;
    auto const fill = [](std::span<std::byte>, std::size_t index) -> std::size_t {
        return index < 3 ? 100 * (index + 1) : 0;
    };
    loader load{fill, stream, {.batch_bytes = 1000}};
    for (auto& b : load) { feeding::use(stream, b); }
    stream.synchronize();
    CHECK(node.figures().bytes_to_device == 600);
    CHECK(node.faults().calls(sim_call_kind::copy) == 3);
    CHECK(load.statistics().bytes == 600);
}

namespace loader_memory {
/// Runs `child` in a forked process with a time limit of 20 s, and returns its result.
template <class Child>
int forked(Child child) {
    pid_t const pid = ::fork();
    if (pid == 0) {
        ::alarm(20); // otherwise it would wait for threads that do not exist in the child
        ::_exit(child());
    }
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}
/// Returns true if `use` throws the error for a forked child.
template <class Use>
bool refused(Use use) {
    try {
        use();
    } catch (loader_error const& e) { return e.why() == loader_error::reason::forked; }
    return false;
}
} // namespace loader_memory

// 27
TEST_CASE("loader: in a forked child, its use is an error") {
#if !defined VRAM_TESTS_TSAN
    loader load{numbered{9}, host_platform::stream{}, {.batch_bytes = numbered::bytes}};
    auto   at = load.begin();
    CHECK(at->index() == 0);
    CHECK(forked([&] {
              ++at;
              bool const told = refused([&] { (void)*at; }) && refused([&] { load.restart(); });
              bool const asks = refused([&] { (void)load.states(); }) &&
                                refused([&] { (void)load.statistics(); });
              return told && asks ? 7 : 0;
          }) == 7);
    ++at;
    CHECK(at->index() == 1); // the loop continues here
#endif
}

// 27
TEST_CASE("loader: a forked child waits for no thread, at any time of the fork") {
#if !defined VRAM_TESTS_TSAN
    loader load{numbered{9}, host_platform::stream{}, {.batch_bytes = numbered::bytes}};
    auto   at   = load.begin();
    auto   kept = std::move(*at);
    {
        // Holds the gate nearly all the time.
        std::jthread const asks{[&](std::stop_token const& over) {
            while (!over.stop_requested()) { (void)load.states(); }
        }};
        for (int i = 0; i < 20; ++i) {
            REQUIRE(forked([&] {
                        kept.release();
                        load.stop();
                        auto const gone = std::move(load);
                        return 7;
                    }) == 7);
        }
    }
    CHECK(kept.index() == 0);
    ++at;
    CHECK(at->index() == 1);
#endif
}

namespace loader_memory {
/// Host memory whose owner holds a lock.
struct locked_resource : host_resource {
    std::mutex* lock;

    void deallocate_sync(void* p, std::size_t bytes,
                         std::size_t alignment = default_alignment) noexcept {
        std::scoped_lock const held{*lock};
        host_resource::deallocate_sync(p, bytes, alignment);
    }
};
} // namespace loader_memory

// 27
TEST_CASE("loader: in a forked child, a batch that outlived its loader frees nothing") {
#if !defined VRAM_TESTS_TSAN
    std::mutex           lock;
    batch<host_platform> kept;
    {
        locked_resource memory;
        memory.lock = &lock;
        loader load{numbered{2},
                    host_platform::stream{},
                    memory,
                    memory,
                    {.batch_bytes = numbered::bytes, .depth = 2}};
        auto   at = load.begin();
        kept      = std::move(*at);
    }
    {
        std::scoped_lock const held{lock};
        REQUIRE(forked([&] {
                    kept.release(); // the last owner of all that the loader had
                    return 7;
                }) == 7);
    }
    CHECK(kept.index() == 0);
#endif
}

namespace loader_memory {
/// The host with a profiler that counts.
struct profiled : host_platform {
    static inline std::atomic<int> fills = 0, copies = 0, uses = 0, ends = 0, names = 0;

    static std::uint64_t begin_range(char const* name) {
        std::string_view const what{name};
        fills += what == "vram fill";
        copies += what == "vram copy";
        uses += what == "vram use";
        return 1;
    }
    static void end_range(std::uint64_t) { ++ends; }
    static void name_thread(char const*) { ++names; }
};
} // namespace loader_memory

// 34
TEST_CASE("loader: a profiler sees every fill, copy and use, and the names of the threads") {
    {
        loader<numbered, profiled> load{numbered{5}, {}, {.batch_bytes = numbered::bytes}};
        for (auto& b : load) { CHECK(b.size() == numbered::bytes); }
    }
    CHECK(profiled::fills == 6); // the end is a fill, too
    CHECK(profiled::copies == 5);
    CHECK(profiled::uses == 5);
    CHECK(profiled::ends == 16);
    CHECK(profiled::names == 1);
}

// 25
TEST_CASE("loader: its threads use the device of the loop's stream, with any current device") {
    sim_node         node{{.devices = 2}};
    sim_stream const stream{sim_device{1}};
    int              seen = -1;
    auto const       fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        seen = sim_device::current().index();
        return index < 3 ? to.size() : 0;
    };
    CHECK(sim_device::current().index() == 0);
    {
        loader load{fill, stream, {.batch_bytes = 100}};
        for (auto& b : load) { feeding::use(stream, b); }
        stream.synchronize();
    }
    CHECK(seen == 1);
    CHECK(node.figures(1).allocations == 2);
    CHECK(node.figures(0).allocations == 0);
    CHECK(node.reports().empty());
}

// 29
TEST_CASE("loader: default streams work like other streams") {
    for (auto kind : {sim_default_stream::legacy, sim_default_stream::per_thread}) {
        sim_node    node{{.default_stream = kind}};
        std::size_t seen = 0;
        {
            sim_stream_view const stream;
            loader                load{numbered{5}, stream, {.batch_bytes = numbered::bytes}};
            for (auto& b : load) {
                feeding::use(stream, b);
                CHECK(b.index() == seen++);
            }
            stream.synchronize();
        }
        CHECK(seen == 5);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("loader: after the start no thread allocates host memory") {
    std::vector<std::uint64_t> producers;
    producers.reserve(200);
    auto const fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        producers.push_back(doubles::host_allocations());
        return index < 100 ? to.size() : 0;
    };
    loader              load{fill, host_platform::stream{}, {.batch_bytes = 64, .depth = 3}};
    std::uint64_t const before = doubles::host_allocations();
    for (auto& b : load) { b.release(); }
    CHECK(doubles::host_allocations() == before);
    REQUIRE(producers.size() == 101);
    CHECK(producers.back() == producers.front());
}
