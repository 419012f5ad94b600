// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/unloader.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/base/error.hpp>
#include <vram/base/error_text.hpp>
#include <vram/data/file_error.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>
#include <vram/sim/sim_explore.hpp>
#include <vram/sim/sim_graph.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/transfer/loader.hpp>

#include "../doubles/bombing.hpp"
#include "../doubles/mishaps.hpp"
#include "../laws/effort.hpp"
#include "feeding.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

namespace unloading {

using bytes_of = std::span<std::byte const>;

constexpr std::size_t size = 128;

/// Stores the received results; declares its reads to the checker.
struct kept {
    std::vector<std::size_t>* seen;

    void operator()(bytes_of from, std::size_t index) const {
        sim_touch({from.data(), from.size()}, sim_access::read);
        std::size_t value = 0;
        std::memcpy(&value, from.data(), sizeof value);
        seen->push_back(value * 1000 + index);
    }
};
/// A kernel that writes `value` all over a result.
void produce(sim_stream_view s, std::byte* data, std::size_t value) {
    std::span const all{reinterpret_cast<std::size_t*>(data), size / sizeof value};
    sim_launch(s, {.name = "produce", .writes = {{data, size}}}, [all, value] {
        for (std::size_t& x : sim_view(all)) { x = value; }
    });
}
std::vector<std::size_t> expected(std::size_t n) {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < n; ++i) { all.push_back((i + 1) * 1000 + i); }
    return all;
}

} // namespace unloading
using unloading::bytes_of;
using unloading::kept;

template class vram::unloader<kept, sim_platform>;
template class vram::unloader<void (*)(bytes_of, std::size_t), host_platform>;
static_assert(std::movable<unloader<kept, sim_platform>>);
static_assert(!std::copy_constructible<unloader<kept, sim_platform>>);

TEST_CASE("unloader: every result arrives complete and in order, at every depth") {
    for (std::size_t pinned : {1U, 2U, 4U}) {
        for (std::size_t device : {1U, 2U, 4U}) {
            for (std::size_t results : {0U, 1U, 3U, 10U}) {
                sim_node                 node;
                sim_stream               stream;
                std::vector<std::size_t> seen;
                {
                    unloader out{kept{&seen},
                                 stream,
                                 {.batch_bytes  = unloading::size,
                                  .pinned_depth = pinned,
                                  .device_depth = device}};
                    for (std::size_t i = 0; i < results; ++i) {
                        auto r = out.next();
                        CHECK(r.size() == unloading::size);
                        unloading::produce(stream, r.data(), i + 1);
                        r.send();
                        CHECK(r.data() == nullptr);
                    }
                    out.finish();
                    CHECK(seen == unloading::expected(results));
                    CHECK(out.sent() == results);
                }
                stream.synchronize();
                node.finish();
                CHECK(node.reports().empty());
            }
        }
    }
}

TEST_CASE("unloader: a pushed block is copied in stream order, and reusable behind the push") {
    sim_node                 node;
    sim_stream               stream;
    sim_resource             memory;
    std::vector<std::size_t> seen;
    auto* const              data = static_cast<std::byte*>(memory.allocate_sync(unloading::size));
    {
        unloader out{kept{&seen}, stream, {.batch_bytes = unloading::size}};
        for (std::size_t i = 0; i < 7; ++i) {
            unloading::produce(stream, data, i + 1); // overwrites the memory that was just pushed
            out.push({data, unloading::size});
        }
        CHECK(out.sent() == 7);
        try {
            out.push({data, unloading::size + 1});
            FAIL("it does not fit");
        } catch (loader_error const& e) {
            CHECK(e.why() == loader_error::reason::too_large);
            CHECK(e.index() == 7);
            CHECK(e.bytes() == unloading::size + 1);
            CHECK(e.limit() == unloading::size);
        }
    } // waits for everything
    CHECK(seen == unloading::expected(7));
    stream.synchronize();
    memory.deallocate_sync(data, unloading::size);
    CHECK(node.reports().empty());
}

TEST_CASE("unloader: only the sent bytes are copied, and an unsent slot is no result") {
    std::vector<std::size_t> sizes;
    auto const sink = [&](bytes_of from, std::size_t) { sizes.push_back(from.size()); };
    {
        unloader out{sink, host_platform::stream{}, {.batch_bytes = 64}};
        for (std::size_t n : {10U, 0U, 64U}) {
            auto r = out.next();
            r.send(n);
        }
        { auto const dropped = out.next(); }
        auto r = out.next();
        CHECK_THROWS_AS(r.send(65), loader_error);
        CHECK(r.data() != nullptr); // it is still there
        r.send(7);
        r.send(7); // once
        auto a = out.next();
        auto b = out.next();
        a      = std::move(b);
        a.send(3);
    }
    CHECK(sizes == std::vector<std::size_t>{10, 0, 64, 7, 3});
}

TEST_CASE("unloader: an exception of the sink is thrown by the next call, and nothing is written "
          "after it") {
    std::size_t written = 0;
    auto const  sink    = [&](bytes_of, std::size_t index) {
        if (index == 2) { throw index; }
        ++written;
    };
    doubles::mishaps const told;
    {
        unloader    out{sink, host_platform::stream{}, {.batch_bytes = 64}};
        std::size_t thrown = 0;
        try {
            for (int i = 0; i < 100; ++i) { out.next().send(); }
        } catch (std::size_t index) { thrown = index; }
        CHECK(thrown == 2);
        CHECK_THROWS_AS(out.finish(), std::size_t); // and stays so
        CHECK_THROWS_AS((void)out.next(), std::size_t);
    }
    CHECK(written == 2);
    CHECK(told.count() == 0); // the program has caught it
    {
        unloader out{
            [](bytes_of, std::size_t) { throw 1; }, host_platform::stream{}, {.batch_bytes = 64}};
        out.next().send();
    }
    CHECK(told.count() == 1); // the program has not
}

TEST_CASE("unloader: after a failure `next` throws it, also if the program holds every block") {
    std::atomic<bool> holds_all{false};
    auto const        sink = [&](bytes_of, std::size_t) {
        holds_all.wait(false);
        throw 1;
    };
    unloader out{sink, host_platform::stream{}, {.batch_bytes = 64, .device_depth = 2}};
    out.next().send();
    auto const first = out.next(), second = out.next();
    holds_all = true;
    holds_all.notify_one();
    CHECK_THROWS_AS(out.finish(), int);
    CHECK_THROWS_AS((void)out.next(), int);
}

namespace unloading {
inline std::string reported;
} // namespace unloading

TEST_CASE("unloader: an exception that no call could throw is reported in full") {
    auto const before = set_error_sink(
        [](error const& e) noexcept { unloading::reported = error_text{e}.c_str(); });
    unloading::reported.clear();
    {
        auto const sink = [](bytes_of, std::size_t index) {
            if (index == 1) {
                throw file_error{std::error_code{ENOSPC, std::generic_category()}, "out.bin"};
            }
        };
        unloader out{sink, host_platform::stream{}, {.batch_bytes = 64}};
        out.next().send();
        out.next().send();
    }
    set_error_sink(before);
    CAPTURE(unloading::reported);
    for (char const* part : {"unloader", "the sink of result 1", "out.bin", "No space left"}) {
        CAPTURE(part);
        CHECK(unloading::reported.find(part) != std::string::npos);
    }
}

TEST_CASE("unloader: an empty result keeps its index, and the sink receives it in order") {
    for (std::size_t depth : {1U, 2U, 3U}) {
        sim_node                 node;
        sim_stream               stream;
        std::vector<std::size_t> sizes;
        {
            auto const sink = [&](bytes_of r, std::size_t index) {
                CHECK(index == sizes.size());
                sizes.push_back(r.size());
            };
            unloader     out{sink, stream, {.batch_bytes = 64, .depth = depth}};
            sim_resource memory;
            void* const  all = memory.allocate_sync(64);
            for (std::size_t const bytes : {64U, 0U, 12U, 0U, 0U, 1U}) {
                auto r = out.next();
                if (bytes != 0) {
                    sim_launch(stream, {.name     = "filter",
                                        .writes   = {{r.data(), bytes}},
                                        .duration = sim_time{100}});
                }
                r.send(bytes);
            }
            { auto const none = out.next(); } // not sent: no result
            sim_platform::fill(stream, all, std::byte{1}, 64);
            out.push({static_cast<std::byte const*>(all), 0});
            out.push({static_cast<std::byte const*>(all), 7});
            CHECK(out.sent() == 8);
            out.finish();
            stream.synchronize();
            memory.deallocate_sync(all, 64);
        }
        CHECK(sizes == std::vector<std::size_t>{64, 0, 12, 0, 0, 1, 0, 7});
        node.finish();
        CHECK(node.reports().empty());
    }
}

TEST_CASE("unloader: further streams are waited for, also for a dropped slot") {
    sim_node                 node{{.compute_slots = 2}};
    sim_stream               stream, other;
    std::vector<std::size_t> seen;
    {
        unloader out{kept{&seen}, stream, {.batch_bytes = unloading::size}};
        for (std::size_t i = 0; i < 6; ++i) {
            auto r = out.next();
            r.record_stream(other);
            r.record_stream(other);
            unloading::produce(other, r.data(), i + 1);
            r.send();
            auto dropped = out.next();
            dropped.record_stream(other);
            unloading::produce(other, dropped.data(), 99);
        }
        out.finish();
    }
    CHECK(seen == unloading::expected(6));
    stream.synchronize();
    other.synchronize();
    CHECK(node.reports().empty());
}

TEST_CASE("unloader: holding every slot, a captured stream and a late result are errors") {
    sim_node   node;
    sim_stream stream;
    auto const reason = [](auto call) {
        try {
            call();
        } catch (loader_error const& e) { return e.why(); }
        return loader_error::reason::no_size;
    };
    std::vector<std::size_t> seen;
    using out_type = unloader<kept, sim_platform>;
    {
        std::vector<out_type::result> held;
        {
            out_type out{kept{&seen}, stream.view(), {.batch_bytes = unloading::size}};
            held.push_back(out.next());
            held.push_back(out.next());
            CHECK(reason([&] { (void)out.next(); }) == loader_error::reason::all_held);
            sim_graph::begin(stream, sim_capture_mode::relaxed);
            CHECK(reason([&] { (void)out.next(); }) == loader_error::reason::capturing);
            auto const graph = sim_graph::end(stream);
            unloading::produce(stream, held[1].data(), 1);
            held[1].send();
            out_type other{std::move(out)};
            out = std::move(other);
        }
        CHECK(reason([&] { held[0].send(); }) == loader_error::reason::ended);
    }
    CHECK(seen == unloading::expected(1));
    stream.synchronize();
    CHECK(node.reports().empty());
}

TEST_CASE("unloader: the stream that writes a result waits for the allocation of its block") {
    sim_node                 node;
    sim_stream               stream, before;
    std::vector<std::size_t> seen;
    constexpr std::size_t    all = 2_MiB; // one chunk of the pool
    pool                     memory{limiting{stream_ordered{sim_resource{}}, all}};
    void* const              p = memory.allocate(before, all);
    sim_launch(before, {.writes = {{p, all}}, .duration = 1ms});
    memory.deallocate(before, p, all);
    {
        unloader out{kept{&seen},
                     stream.view(),
                     resource_ref{memory},
                     sim_pinned_resource{},
                     {.batch_bytes = all, .depth = 1}};
        auto     result = out.next();
        CHECK(result.data() == p); // the pool makes only the copy stream wait for `before`
        unloading::produce(stream, result.data(), 1);
        result.send(unloading::size);
        out.finish();
    }
    CHECK(seen == unloading::expected(1));
}

TEST_CASE("unloader: a result cannot be sent during a capture, and can be sent after it") {
    sim_node                 node;
    sim_stream               stream, other;
    std::vector<std::size_t> seen;
    {
        unloader   out{kept{&seen}, stream.view(), {.batch_bytes = unloading::size}};
        auto       result = out.next();
        auto const sent   = [&] {
            try {
                result.send();
            } catch (loader_error const& e) { return e.why() != loader_error::reason::capturing; }
            return true;
        };
        unloading::produce(stream, result.data(), 1);
        sim_graph::begin(stream, sim_capture_mode::relaxed);
        CHECK_FALSE(sent());
        (void)sim_graph::end(stream); // the copy did not become a part of the graph
        result.record_stream(other);
        sim_graph::begin(other, sim_capture_mode::relaxed);
        CHECK_FALSE(sent());
        (void)sim_graph::end(other);
        CHECK(sent());
        out.finish();
    }
    CHECK(seen == unloading::expected(1));
}

TEST_CASE("unloader: memory whose streams could not be waited for counts as held") {
    sim_node                 node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const   told;
    sim_stream               stream;
    std::vector<std::size_t> seen;
    {
        unloader out{kept{&seen}, stream.view(), {.batch_bytes = unloading::size}};
        {
            auto const unsent = out.next();
            node.faults().at(sim_call_kind::synchronize, 1, {.status = sim_status::refused}, 100);
        }
        node.faults().clear();
        CHECK(told.count() != 0);
        for (std::size_t i = 0; i < 3; ++i) { // the other block suffices
            auto result = out.next();
            unloading::produce(stream, result.data(), i + 1);
            result.send();
        }
        auto const held = out.next();
        CHECK_THROWS_AS((void)out.next(), loader_error); // does not wait forever
        out.finish();
    }
    CHECK(seen == unloading::expected(3));
    CHECK(told.count(error_kind::leak) == 0);
    stream.synchronize();
    CHECK(node.reports().empty());
}

TEST_CASE("unloader: a block without an explicit wait is reused when its copy is complete") {
    if (!sim_ordered_threads) { return; } // the sink may throw before the second result
    doubles::mishaps const told;
    sim_node               node{{.host_bandwidth = 1'000'000, .on_report = sim_on_report::collect}};
    sim_stream             stream;
    {
        unloader out{[](bytes_of, std::size_t) { throw 7; },
                     stream,
                     {.batch_bytes = 1000, .completion_flags = false}};
        node.faults().at(sim_call_kind::wait, 6, {.status = sim_status::refused}); // the call's
        for (int i = 0; i < 2; ++i) { out.next().send(); } // the second one has no callback
        CHECK_THROWS_AS(out.finish(), int);
    }
    CHECK(told.count() == 1);
    stream.synchronize();
    node.finish();
    for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    CHECK(node.reports().empty());
}

TEST_CASE(
    "unloader: it accepts a budget, resources of the caller, and pageable memory on request") {
    sim_node   node;
    sim_stream stream;
    auto const sink = [](bytes_of, std::size_t) {};
    CHECK_THROWS_AS((unloader{sink, stream, {.batch_bytes = 100, .depth = 3, .budget = 599}}),
                    over_limit);
    CHECK(node.figures().allocations == 0);
    limiting device{stream_ordered{sim_resource{}}, 1_MiB};
    {
        unloader out{sink,
                     stream,
                     resource_ref{device},
                     sim_pinned_resource{},
                     {.batch_bytes = 100, .depth = 3}};
        CHECK(device.used() == 300);
        out.next().send();
    }
    CHECK(device.used() == 0);
    node.faults().at(sim_call_kind::allocate_host, 1, {.status = sim_status::refused});
    unloader out{sink, stream, {.batch_bytes = 100, .pageable_fallback = true}};
    CHECK(out.pageable() == 1);
    out.next().send();
    out.finish();
    stream.synchronize();
}

TEST_CASE("unloader: a loop can go from a loader to an unloader") {
    sim_node                 node;
    sim_stream               stream;
    std::vector<std::size_t> seen;
    {
        unloader out{kept{&seen}, stream, {.batch_bytes = unloading::size}};
        for (auto& b : loader{feeding::numbered{9}, stream, {.batch_bytes = unloading::size}}) {
            auto r = out.next();
            sim_launch(stream,
                       {.name   = "add one",
                        .reads  = {{b.data(), b.size()}},
                        .writes = {{r.data(), unloading::size}}},
                       [from = b.span<std::size_t>(), to = r.span<std::size_t>()] {
                           for (std::size_t i = 0; i < from.size(); ++i) {
                               sim_view(to)[i] = sim_view(from)[i] + 1;
                           }
                       });
            r.send();
        }
        out.finish();
    }
    CHECK(seen == unloading::expected(9));
    stream.synchronize();
    CHECK(node.reports().empty());
}

#if !defined VRAM_TESTS_TSAN
TEST_CASE(
    "unloader: computing, copying and writing overlap exactly, and the host waits for nothing") {
    auto const took = [](sim_time kernel, std::size_t bytes, sim_time sink, std::size_t depth) {
        sim_node   node{{.backed = false, .host_bandwidth = 1_GB, .copy_latency = sim_time{0}}};
        sim_stream stream;
        unloader   out{[&](bytes_of, std::size_t) { node.work(sink); },
                     stream,
                       {.batch_bytes = bytes, .depth = depth}};
        node.reset_figures();
        sim_time const from = node.now();
        for (int i = 0; i < 20; ++i) {
            auto r = out.next();
            sim_launch(stream, {.writes = {{r.data(), bytes}}, .duration = kernel});
            r.send();
        }
        out.finish();
        CHECK(node.figures().host_waits == 0);
        CHECK(node.figures().queries == 0);
        CHECK(node.figures().allocations == 0);
        CHECK(node.reports().empty());
        return node.now() - from;
    };
    CHECK(took(50us, 20'000, 10us, 2) == 20 * 50us + 20us + 10us);
    CHECK(took(10us, 50'000, 20us, 3) == 10us + 20 * 50us + 20us);
    CHECK(took(10us, 20'000, 50us, 2) == 10us + 20us + 20 * 50us);
    CHECK(took(10us, 20'000, 50us, 1) == 10us + 20 * (20us + 50us));
}

TEST_CASE(
    "unloader: every order of program, callback and sink is correct, at depths one to three") {
    for (std::size_t depth : {1U, 2U, 3U}) {
        sim_exploring how{.max_runs = laws::of_orders(3000)};
        how.node.preemptions = 1;
        auto const found     = sim_explore(how, [&](sim_node&) {
            sim_stream               stream;
            std::vector<std::size_t> seen;
            {
                unloader out{kept{&seen}, stream, {.batch_bytes = unloading::size, .depth = depth}};
                for (std::size_t i = 0; i < 4; ++i) {
                    auto r = out.next();
                    unloading::produce(stream, r.data(), i + 1);
                    r.send();
                }
            }
            if (seen != unloading::expected(4)) { throw loader_error{{}}; }
            stream.synchronize();
        });
        CHECK(found.failures == 0);
        CHECK(found.runs > 5);
    }
}
#endif

TEST_CASE("unloader: after any failed platform call nothing is lost and no thread waits for ever") {
    using enum sim_call_kind;
    for (auto kind : {allocate, allocate_host, create_stream, create_event, copy, record, wait,
                      launch, synchronize}) {
        for (std::uint64_t n = 1; n <= 100; ++n) {
            CAPTURE(n);
            CAPTURE(static_cast<unsigned>(kind));
            doubles::mishaps const told;
            sim_node               node{{.on_report = sim_on_report::collect}};
            bool                   failed = false;
            node.faults().at(kind, n);
            std::vector<std::size_t> seen;
            try {
                sim_stream stream;
                unloader   out{kept{&seen}, stream, {.batch_bytes = unloading::size}};
                for (std::size_t i = 0; i < 5; ++i) {
                    auto r = out.next();
                    unloading::produce(stream, r.data(), i + 1);
                    r.send();
                }
                out.finish();
            } catch (std::exception const&) { failed = true; }
            bool const hit = node.faults().calls(kind) >= n;
            CHECK((failed || seen == unloading::expected(5)));
            CHECK((hit || !failed));
            for (std::size_t i = 0; i < seen.size(); ++i) { CHECK(seen[i] % 1000 == i); }
            node.faults().clear();
            sim_platform::synchronize(sim_device{});
            node.finish();
            for (auto const& r : node.reports()) { MESSAGE(r.text()); }
            CHECK(node.reports().empty());
            if (!hit) { break; }
            CHECK(n < 100);
        }
    }
}

TEST_CASE("unloader: after the start no thread allocates host memory") {
    std::vector<std::uint64_t> sinks;
    sinks.reserve(200);
    unloader out{[&](bytes_of, std::size_t) { sinks.push_back(doubles::host_allocations()); },
                 host_platform::stream{},
                 {.batch_bytes = 64, .depth = 3}};
    std::uint64_t const before = doubles::host_allocations();
    for (int i = 0; i < 100; ++i) { out.next().send(); }
    out.finish();
    CHECK(doubles::host_allocations() == before);
    REQUIRE(sinks.size() == 100);
    CHECK(sinks.back() == sinks.front());
}

TEST_CASE("unloader: in a forked child its use is an error, and its end waits for nothing") {
#if !defined VRAM_TESTS_TSAN
    auto const sink = [](std::span<std::byte const>, std::size_t) {};
    unloader   out{sink, host_platform::stream{}, {.batch_bytes = 64}};
    out.next().send();
    out.finish();
    auto               result = out.next();
    std::jthread const asks{[&](std::stop_token const& over) { // and holds the gate mostly
        while (!over.stop_requested()) { out.finish(); }
    }};
    auto const         refused = [](auto use) {
        try {
            use();
        } catch (loader_error const& e) { return e.why() == loader_error::reason::forked; }
        return false;
    };
    for (int i = 0; i < 20; ++i) {
        pid_t const child = ::fork();
        if (child == 0) {
            ::alarm(20); // else it would wait for threads that it has not
            bool const told = refused([&] { (void)out.next(); }) &&
                              refused([&] { result.send(); }) && refused([&] { out.finish(); });
            { auto const ended = std::move(result); }
            { auto const ended = std::move(out); }
            ::_exit(told ? 7 : 1);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        REQUIRE(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 7);
    }
    CHECK(result.data() != nullptr); // and here it goes on
#endif
}
