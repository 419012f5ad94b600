// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/tracking.hpp> // first: the header stands alone

#include "../doubles/minimal_resource.hpp"
#include "../doubles/mishaps.hpp"
#include "../laws/resource.hpp"
#include "../random/leak_program.hpp"
#include "../transfer/feeding.hpp"

#include <vram/handle/buffer.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/explain.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/staging/staging.hpp>
#include <vram/transfer/loader.hpp>
#include <vram/transfer/unloader.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace vram;
using detail::thread_number;
using detail::worker;

template class vram::tracking<doubles::archetype<>>;
template class vram::tracking<doubles::minimal_resource<>>;

namespace {
bool text_contains(std::string const& all, std::string const& part) {
    return all.find(part) != std::string::npos;
}
tracked_owner of_tag(auto const& memory, std::string const& path) {
    for (tracked_owner const& each : memory.by_tag()) {
        if (each.owner.path() == path) { return each; }
    }
    return {};
}
/// The leaks that the error sink received: bytes by tag and line.
struct leaks_seen {
    leaks_seen() {
        seen().clear();
        before   = set_error_sink([](error const& e) noexcept {
            std::string const resource = e.resource != nullptr ? e.resource : "";
            if (e.kind != error_kind::leak || resource != "tracking") { ++others(); }
            if (resource != "tracking") { return; }
            seen()[std::string{e.tag != nullptr ? e.tag : ""} + ":" +
                   std::to_string(e.allocated_at.line())] += e.bytes;
        });
        others() = 0;
    }
    ~leaks_seen() { set_error_sink(before); }
    static std::map<std::string, std::size_t>& seen() {
        static std::map<std::string, std::size_t> all;
        return all;
    }
    static int& others() {
        static int count = 0;
        return count;
    }
    error_sink before;
};
} // namespace

TEST_CASE("tracking: it keeps the laws of a resource") {
    laws::resource([](auto up) { return tracking{std::move(up)}; });
    laws::resource([](auto up) { return tracking{std::move(up), {.frames = 4}}; });
    laws::resource<doubles::minimal_resource<>>(
        [](auto up) { return std::move(up) | with::tracking; });
    laws::resource_of_many_threads(
        [](auto up) { return std::move(up) | with::tracking({.frames = 2}); });
}

TEST_CASE("tracking: no block is younger than now while another thread allocates") {
    tracking          memory{host_resource{}};
    std::atomic<bool> begun{false};
    std::atomic<bool> ends{false};
    std::thread       other{[&] {
        while (!ends) {
            void* blocks[2000];
            for (void*& p : blocks) { p = memory.allocate_sync(16); }
            begun = true;
            for (void* const p : blocks) { memory.deallocate_sync(p, 16); }
        }
    }};
    while (!begun) { std::this_thread::yield(); }
    int younger = 0;
    for (int i = 0; i != 1000; ++i) {
        for (tracked_block const& b : memory.blocks()) { younger += b.age.count() < 0 ? 1 : 0; }
    }
    ends = true;
    other.join();
    CHECK(younger == 0);
}

TEST_CASE("tracking: without host memory for a record, the block returns to the upstream") {
    laws::survives_every_failure([](auto up) { return tracking{std::move(up)}; },
                                 [](auto& mr) { laws::block const first{mr, 10}, second{mr, 990}; },
                                 [](auto& mr) { return mr.blocks().size(); });
}

TEST_CASE("tracking: it counts live bytes, peaks and allocations for each tag, line and thread") {
    tracking memory{doubles::archetype<>{}};
    void*    a         = nullptr;
    void*    b         = nullptr;
    unsigned line_of_a = 0, line_of_b = 0;
    {
        tagged const train{"tracking/train"};
        a = memory.allocate_sync(1000), line_of_a = __LINE__;
        {
            tagged const inner{"optimizer"};
            b = memory.try_allocate({}, 50), line_of_b = __LINE__;
            memory.deallocate_sync(memory.allocate_sync(200), 200);
        }
    }
    auto const train = of_tag(memory, "tracking/train");
    CHECK(train.live == 1000);
    CHECK(train.blocks == 1);
    CHECK(train.peak == 1000);
    CHECK(train.allocations == 1);
    auto const optimizer = of_tag(memory, "tracking/train/optimizer");
    CHECK(optimizer.live == 50);
    CHECK(optimizer.peak == 250);
    CHECK(optimizer.at_peak == 250);
    CHECK(optimizer.allocations == 2);
    CHECK(optimizer.allocated == 250);
    CHECK(optimizer.peak_is_exact);

    auto const sites = memory.by_site();
    REQUIRE(sites.size() == 3);
    CHECK(sites[0].at.line() == line_of_a); // the largest first
    CHECK(sites[1].at.line() == line_of_b);
    CHECK(sites[2].live == 0);
    CHECK(sites[2].peak == 200);

    auto const all = memory.blocks(tracked_order::largest_first);
    REQUIRE(all.size() == 2);
    CHECK(all[0].memory == a);
    CHECK(all[0].bytes == 1000);
    CHECK(all[0].alignment == default_alignment);
    CHECK(all[0].at.line() == line_of_a);
    CHECK(all[0].age.count() >= all[1].age.count());
    CHECK(all[0].thread == thread_number());
    CHECK(memory.blocks()[1].memory == b); // oldest first
    CHECK(memory.blocks(tracked_order::by_tag)[0].memory == a);

    std::string const text = memory.text(2);
    CAPTURE(text);
    CHECK(text_contains(text, "tracking/train/optimizer"));
    CHECK(text_contains(text, "tracking.cpp:" + std::to_string(line_of_a)));
    CHECK(text_contains(text, "and 1 more"));
    memory.deallocate_sync(a, 1000);
    memory.deallocate({}, b, 50);
    CHECK(of_tag(memory, "tracking/train").live == 0);
    CHECK(memory.blocks().empty());
}

TEST_CASE("tracking: it names the owners of the memory at the peak, not those of now") {
    tracking memory{doubles::archetype<>{}};
    void*    activations = nullptr;
    void*    weights     = nullptr;
    {
        tagged const scope{"at_peak/weights"};
        weights = memory.allocate_sync(300);
    }
    {
        tagged const scope{"at_peak/activations"};
        activations = memory.allocate_sync(700); // the peak: 1000 bytes
        memory.deallocate_sync(activations, 700);
    }
    {
        tagged const scope{"at_peak/weights"};
        memory.deallocate_sync(memory.allocate_sync(400), 400); // 700 bytes
    }
    CHECK(of_tag(memory, "at_peak/weights").at_peak == 300);
    CHECK(of_tag(memory, "at_peak/weights").peak == 700);
    CHECK(of_tag(memory, "at_peak/activations").at_peak == 700);
    CHECK(of_tag(memory, "at_peak/activations").live == 0);
    memory.deallocate_sync(weights, 300);
}

TEST_CASE("tracking: the figures of threads are separate, also if another thread frees") {
    tracking memory{doubles::archetype<>{}};
    void*    p = nullptr;
    worker{0,
           [&] {
               tagged const scope{"of two threads"};
               p = memory.allocate_sync(100);
           }}
        .join();
    tagged const scope{"of two threads"};
    worker       other{0, [&] { laws::block const held{memory, 10}; }};
    void* const  q = memory.allocate_sync(40);
    other.join();
    auto const both = of_tag(memory, "of two threads");
    CHECK(both.live == 140);
    CHECK(both.allocations == 3);
    CHECK_FALSE(both.peak_is_exact);
    CHECK(both.peak >= 140);
    CHECK(memory.by_thread().size() >= 2);
    std::vector<tracked_owner> const pairs = memory.by_tag_and_thread();
    REQUIRE(pairs.size() >= 2);
    std::uint64_t allocations = 0;
    std::size_t   live        = 0;
    for (tracked_owner const& each : pairs) {
        CHECK(std::string{each.owner.path()} == "of two threads");
        CHECK(each.peak_is_exact);
        allocations += each.allocations;
        live += each.live;
        if (each.thread == thread_number()) {
            CHECK(each.live == 40);
            CHECK(each.peak == 40);
            CHECK(each.allocations == 1);
        }
    }
    CHECK(allocations == 3);
    CHECK(live == 140);
    CHECK(pairs[0].live == 100);
    CHECK(pairs[0].peak <= 110);
    memory.deallocate_sync(p, 100);
    memory.deallocate_sync(q, 40);
    for (tracked_owner const& each : memory.by_thread()) { CHECK(each.live == 0); }
}

TEST_CASE("tracking: a wrong free is reported with the lines of the block's past, and frees "
          "nothing") {
    doubles::mishaps seen;
    tracking         memory{doubles::archetype<>{}};
    unsigned         line = 0;
    void*            p    = nullptr;
    {
        tagged const scope{"wrong frees"};
        p = memory.allocate_sync(100), line = __LINE__;
    }
    memory.deallocate_sync(p, 64);
    CHECK(seen.last().kind == error_kind::wrong_size);
    CHECK(seen.last().block_bytes == 100);
    CHECK(seen.last().allocated_at.line() == line);
    CHECK(std::string{seen.last().tag} == "wrong frees");
    CHECK(seen.last().caller.line() == __LINE__ - 5);
    memory.deallocate({}, p, 100, 64);
    CHECK(seen.last().kind == error_kind::wrong_alignment);
    memory.deallocate_sync(static_cast<char*>(p) + 8, 100);
    CHECK(seen.last().kind == error_kind::interior_pointer);
    CHECK(seen.last().block == p);
    int outside = 0;
    memory.deallocate_sync(&outside, sizeof outside);
    CHECK(seen.last().kind == error_kind::foreign_pointer);
    CHECK_FALSE(seen.last().allocated_at.known());
    CHECK(memory.usage().live == 100);

    memory.deallocate_sync(p, 100);
    unsigned const freed = __LINE__ - 1;
    memory.deallocate_sync(p, 100);
    CHECK(seen.last().kind == error_kind::double_free);
    CHECK(seen.last().allocated_at.line() == line);
    CHECK(seen.last().freed_at.line() == freed);
    CHECK(seen.count() == 5);
    CHECK(seen.under_a_lock() == 0);
}

TEST_CASE("tracking: leaks of each kind are reported with tag and line, and nothing else") {
    sim_node                           node;
    std::map<std::string, std::size_t> expected;
    leaks_seen                         sink;
    {
        sim_stream                                           stream, other;
        tracking<pool<stream_ordered<sim_resource>>>         memory;
        shared<tracking<pool<stream_ordered<sim_resource>>>> held{
            tracking<pool<stream_ordered<sim_resource>>>{}};
        auto const leak = [&](std::string const& tag, unsigned line, std::size_t bytes) {
            expected[tag + ":" + std::to_string(line)] += bytes;
        };
        // An early return, in the second call only.
        auto const early = [&](bool skip) {
            tagged const scope{"early return"};
            void* const  p = memory.allocate(stream, 1000);
            if (skip) { return; }
            memory.deallocate(stream, p, 1000);
        };
        early(false);
        early(true), leak("early return", __LINE__ - 5, 1000);
        // An exception between the allocation and the free.
        try {
            tagged const scope{"exception"};
            void* const  p = memory.allocate(stream, 2000);
            leak("exception", __LINE__ - 1, 2000);
            if (p != nullptr) { throw std::runtime_error{"planted"}; }
            memory.deallocate(stream, p, 2000);
        } catch (std::runtime_error const&) {}
        // A pointer that is overwritten when an object with another block is moved to it.
        struct owner {
            void* block = nullptr;
        };
        {
            tagged const scope{"moved-from"};
            owner        a{memory.allocate(stream, 3000)};
            leak("moved-from", __LINE__ - 1, 3000);
            owner b{memory.allocate(stream, 3001)};
            a = std::move(b);
            memory.deallocate(stream, a.block, 3001);
        }
        // A block that is freed on another stream than that of its allocation is no leak, but is
        // counted.
        {
            tagged const scope{"wrong stream"};
            memory.deallocate(other, memory.allocate(stream, 4000), 4000);
        }
        auto const crossed = of_tag(memory, "wrong stream");
        CHECK(crossed.crossed == 1);
        CHECK(crossed.crossed_at.line() == __LINE__ - 4);
        CHECK(of_tag(memory, "early return").crossed == 0);
        // A cycle of handles: the layer never ends, so the program asks.
        struct cyclic {
            std::shared_ptr<cyclic>                              self;
            shared<tracking<pool<stream_ordered<sim_resource>>>> memory;
            void*                                                block = nullptr;
        };
        {
            tagged const scope{"cycle"};
            auto         made = std::make_shared<cyclic>(cyclic{nullptr, held});
            made->self        = made;
            made->block       = made->memory.allocate(stream, 5000);
            leak("cycle", __LINE__ - 1, 5000);
            CHECK(held->report_leaks() == 1);
            held.deallocate(stream, made->block, 5000); // for the end of the test
            made->self = nullptr;
        }
        CHECK(sink.seen().size() == 1);
        stream.synchronize();
        other.synchronize();
        CHECK(sink.others() == 0);
    }
    CHECK(sink.seen() == expected);
}

TEST_CASE("tracking: random programs report exactly the blocks that they leak") {
    // For half a second; `random_programs --subject leaks` runs more.
    auto const    deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds{500};
    std::uint64_t seed     = 0;
    while (seed < 10 || std::chrono::steady_clock::now() < deadline) {
        CAPTURE(seed);
        REQUIRE(trial::leak_program::run(seed++) == "");
    }
}

TEST_CASE("tracking: many leaking lines end in one report of the rest") {
    leaks_seen  sink;
    std::size_t sum = 0;
    {
        tracking memory{doubles::archetype<>{}};
        for (int i = 0; i < 25; ++i) {
            tagged const scope{"many leaks/" + std::to_string(i)};
            auto const   bytes = static_cast<std::size_t>(i + 1);
            (void)memory.allocate_sync(bytes);
            sum += bytes;
        }
    }
    std::size_t reported = 0;
    for (auto const& each : sink.seen()) { reported += each.second; }
    CHECK(sink.seen().size() == 21);
    CHECK(reported == sum);
}

TEST_CASE("tracking: an assignment reports the leaks of the layer that it replaces") {
    leaks_seen sink;
    tracking   memory{doubles::archetype<>{}};
    tracking   other{doubles::archetype<>{}};
    (void)memory.allocate_sync(7);
    unsigned const line = __LINE__ - 1;
    memory              = std::move(other);
    CHECK(sink.seen() == std::map<std::string, std::size_t>{{":" + std::to_string(line), 7}});
    laws::block const works{memory, 10};
}

TEST_CASE("tracking: an out-of-memory names the tags with the most live memory") {
    tracking                                   memory{limiting{doubles::archetype<>{}, 10'000}};
    std::vector<std::pair<void*, std::size_t>> live;
    unsigned                                   line = 0;
    auto const keep = [&](std::string const& tag, std::size_t bytes) {
        tagged const scope{tag};
        live.emplace_back(memory.allocate_sync(bytes), bytes);
        line = __LINE__ - 1;
    };
    auto const refused = [&]() -> shortage {
        try {
            (void)memory.allocate_sync(9000);
        } catch (out_of_memory const& e) { return e.numbers(); }
        FAIL("the request fits");
        return {};
    };
    keep("holders/a", 1500);
    shortage one = refused();
    CHECK(one.holders[0].bytes == 1500);
    CHECK(one.holders[0].at.line() == line); // there is one tag: its lines
    CHECK(one.holders[1].bytes == 0);
    keep("holders/b", 2000);
    keep("holders/c", 10);
    keep("holders/d", 300);
    keep("holders/a", 1000);
    shortage const n = refused();
    CHECK(std::string{n.holders[0].owner.path()} == "holders/a");
    CHECK(n.holders[0].bytes == 2500);
    CHECK(n.holders[0].blocks == 2);
    CHECK(std::string{n.holders[1].owner.path()} == "holders/b");
    CHECK(std::string{n.holders[2].owner.path()} == "holders/d");
    std::string const text = explain(n);
    CAPTURE(text);
    CHECK(text_contains(text,
                        "Most of the live memory: 2.44 KiB in 2 blocks for \"holders/a\"; 1.95 "
                        "KiB in 1 block for \"holders/b\"; "));
    for (auto const& [p, bytes] : live) { memory.deallocate_sync(p, bytes); }
}

TEST_CASE("tracking: a stack of the program is stored for each block") {
    tracking          memory{doubles::archetype<>{}, {.frames = 3}};
    void* const       p   = memory.allocate_sync(10);
    auto const        all = memory.blocks();
    laws::block const other{memory, 10};
    REQUIRE(all.size() == 1);
#if __has_include(<unwind.h>)
    CHECK(all[0].stack.size() == 3);
#endif
    memory.deallocate_sync(p, 10);
    tracking    without{doubles::archetype<>{}};
    void* const q = without.allocate_sync(10);
    CHECK(without.blocks()[0].stack.empty());
    without.deallocate_sync(q, 10);
}

TEST_CASE("tracking: blocks that an upstream frees by itself can be forgotten") {
    doubles::mishaps seen;
    sim_node         node;
    sim_stream       stream;
    tracking         memory{monotonic{stream_ordered{sim_resource{}}}};
    (void)memory.allocate(stream, 100);
    (void)memory.allocate(stream, 200);
    CHECK(memory.blocks().size() == 2);
    CHECK(memory.blocks()[0].stream.known());
    memory.upstream().reset(stream);
    memory.forget_blocks();
    CHECK(memory.blocks().empty());
    CHECK(memory.by_tag()[0].live == 0);
    CHECK(seen.count() == 0);
}

TEST_CASE("tracking: the memory of loader, unloader and staging has tags of its own") {
    sim_node     node;
    sim_stream   stream;
    tagged const scope{"vram's own"};
    tracking     on_device{stream_ordered{sim_resource{}}};
    shared       on_host{tracking{sim_pinned_resource{}}};
    {
        loader const load{feeding::numbered{4},
                          stream,
                          resource_ref{on_device},
                          on_host,
                          {.batch_bytes = feeding::numbered::bytes}};
        CHECK(of_tag(on_device, "vram's own/loader").blocks != 0);
        CHECK(of_tag(on_host.get(), "vram's own/loader").blocks != 0);
        CHECK(on_host->by_tag().size() == 1);
    }
    {
        unloader const save{[](std::span<std::byte const>, std::size_t) {},
                            stream,
                            resource_ref{on_device},
                            on_host,
                            {.batch_bytes = 1024}};
        CHECK(of_tag(on_device, "vram's own/unloader").blocks != 0);
        CHECK(of_tag(on_host.get(), "vram's own/unloader").blocks != 0);
    }
    {
        staging const ring{stream, on_host};
        CHECK(of_tag(on_host.get(), "vram's own/staging").blocks != 0);
    }
    stream.synchronize();
    CHECK(on_device.blocks().empty());
    CHECK(on_host->blocks().empty());
}

TEST_CASE("tracking: a forked child reports no leaks of its parent") {
    std::optional<tracking<host_resource>> memory{std::in_place};
    void* const                            p = memory->allocate_sync(100);
    std::fflush(nullptr); // the child would write it again
    pid_t const child = ::fork();
    if (child == 0) {
        doubles::mishaps const  told;
        tracking<host_resource> moved{std::move(*memory)};
        moved = tracking<host_resource>{};
        memory.reset();
        if (told.count() != 0) { ::_exit(1); }
        // Its own leaks are reported.
        memory.emplace();
        static_cast<void>(memory->allocate_sync(100));
        memory.reset();
        ::_exit(told.count() == 1 ? 0 : 2);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    memory->deallocate_sync(p, 100);
}
