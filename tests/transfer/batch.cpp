// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/batch.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/sim/sim_graph.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/transfer/loader.hpp>
#include <vram/transfer/unloader.hpp>

#include "../doubles/mishaps.hpp"
#include "feeding.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <iterator>
#include <span>
#include <thread>
#include <utility>

using namespace vram;
using feeding::numbered;
using feeding::use;

template class vram::batch<sim_platform>;
template class vram::batch<host_platform>;

namespace {
loader_options const two_slots{.batch_bytes = numbered::bytes, .depth = 2};
}

TEST_CASE("batch: a default-constructed batch is empty") {
    batch<host_platform> none;
    CHECK(none.empty());
    CHECK(none.data() == nullptr);
    CHECK(none.index() == 0);
    CHECK(none.span<int>().empty());
    none.release();
    none.record_stream({});
}

TEST_CASE("batch: a size that is not a multiple of the element is an error with both numbers") {
    auto const fill = [](std::span<std::byte>, std::size_t index) -> std::size_t {
        return index == 0 ? 10 : 0;
    };
    for (auto& b : loader{fill, host_platform::stream{}, {.batch_bytes = 64}}) {
        CHECK(b.span<std::byte>().size() == 10);
        try {
            (void)b.span<int>();
            FAIL("ten bytes are no whole number of ints");
        } catch (loader_error const& e) {
            CHECK(e.why() == loader_error::reason::wrong_alignment);
            CHECK(e.bytes() == 10);
            CHECK(e.limit() == sizeof(int));
        }
    }
}

TEST_CASE("batch: a move transfers the slot, and an assignment releases the former one") {
    loader load{numbered{9}, host_platform::stream{}, two_slots};
    auto   at   = load.begin();
    auto   kept = std::move(*at);
    CHECK(at->empty());
    ++at;
    kept = std::move(*at); // the first slot is free now: the third batch can come
    CHECK(kept.index() == 1);
    auto& self = kept;
    kept       = std::move(self);
    CHECK(kept.index() == 1);
    ++at;
    CHECK(at->index() == 2);
}

// 7
TEST_CASE("batch: after an early release the slot is filled while the loop's body continues") {
    sim_node   node;
    sim_stream stream;
    loader     load{numbered{4}, stream, {.batch_bytes = numbered::bytes, .depth = 1}};
    auto       at = load.begin();
    use(stream, *at);
    at->release();
    CHECK(at->data() == nullptr);
    ++at;
    CHECK(at->index() == 1);
    use(stream, *at);
    stream.synchronize();
    CHECK(node.reports().empty());
}

// 7
TEST_CASE("batch: work on a further stream is waited for once the stream is declared") {
    for (bool named : {true, false}) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream stream, other;
        {
            loader load{numbered{6}, stream, two_slots};
            for (auto& b : load) {
                if (named) {
                    b.record_stream(other);
                    b.record_stream(other); // once is enough
                }
                use(other, b);
            }
            other.synchronize();
        }
        stream.synchronize();
        node.finish();
        CHECK(node.reports().empty() == named);
    }
}

TEST_CASE("batch: it may be released on another stream, behind all streams that used it") {
    sim_node   node;
    sim_stream stream, other;
    {
        loader load{numbered{5}, stream, two_slots};
        for (auto& b : load) {
            sim_event ready;
            ready.record(stream);
            ready.wait(other);
            use(other, b);
            b.release(other);
        }
    }
    stream.synchronize();
    other.synchronize();
    node.finish();
    CHECK(node.reports().empty());
}

// 8
TEST_CASE("batch: it may be released on a stream of another device, without a wait of the host" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads that run freely wait at any time")) {
    for (bool const timing : {false, true}) {
        sim_node               node{{.devices = 2}};
        doubles::mishaps const told;
        sim_stream             stream{sim_device{0}}, far{sim_device{1}};
        {
            loader load{numbered{6}, stream, {.batch_bytes = numbered::bytes, .timing = timing}};
            for (auto& b : load) {
                use(stream, b);
                sim_event ready{sim_device{0}};
                ready.record(stream);
                ready.wait(far);
                auto const waits = node.figures().host_waits;
                b.index() % 2 == 0 ? b.release(far) : b.release();
                CHECK(node.figures().host_waits == waits);
            }
        }
        CHECK(told.count() == 0);
        stream.synchronize();
        far.synchronize();
        CHECK(node.reports().empty());
    }
}

TEST_CASE("batch: it may be released on another thread, and after its loader") {
    std::thread last;
    {
        loader load{numbered{3}, host_platform::stream{}, two_slots};
        auto   at = load.begin();
        last      = std::thread{[b = std::move(*at)]() mutable { b.release(); }};
        ++at;
        CHECK(at->index() == 1);
    }
    last.join();
}

TEST_CASE("batch: if no event can be recorded the release waits instead, and reports that") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream stream;
    auto const before = set_error_sink([](error const&) noexcept {});
    {
        loader load{numbered{3}, stream, two_slots};
        auto   at = load.begin();
        use(stream, *at);
        node.faults().at(sim_call_kind::record, 1, {.status = sim_status::refused});
        at->release();
        node.faults().clear();
    }
    set_error_sink(before);
    stream.synchronize();
    node.finish();
    CHECK(node.reports().empty());
}

TEST_CASE("batch: record_stream refuses a captured stream, and leaves its capture valid") {
    sim_node   node;
    sim_stream stream, captured;
    loader     load{numbered{2}, stream, two_slots};
    unloader   out{[](std::span<std::byte const>, std::size_t) {}, stream};
    auto       at     = load.begin();
    auto       result = out.next();
    auto const why    = [](auto const& call) {
        try {
            call();
        } catch (loader_error const& e) { return e.why(); }
        return loader_error::reason::ended;
    };
    sim_graph::begin(captured, sim_capture_mode::relaxed);
    CHECK(why([&] { at->record_stream(captured); }) == loader_error::reason::capturing);
    CHECK(why([&] { result.record_stream(captured); }) == loader_error::reason::capturing);
    (void)sim_graph::end(captured);
    at->record_stream(captured);
    result.record_stream(captured);
}

TEST_CASE("batch: a release during a capture waits for the device, and the loop goes on after it") {
    sim_node               node;
    doubles::mishaps const told;
    sim_stream             stream;
    std::size_t            seen = 0;
    {
        loader load{numbered{6}, stream, two_slots};
        auto   at = load.begin();
        use(stream, *at);
        sim_graph::begin(stream, sim_capture_mode::relaxed);
        ++at;
        (void)sim_graph::end(stream); // the copies of the loader did not become a part of the graph
        CHECK(told.count() == 1);
        for (; at != std::default_sentinel; ++at) {
            use(stream, *at);
            ++seen;
        }
    }
    CHECK(seen == 5);
    CHECK(told.count() == 1);
}

TEST_CASE("batch: after releases that had to wait, the uses of later batches are measured") {
    using namespace std::chrono_literals;
    sim_node               node;
    doubles::mishaps const told;
    sim_stream             stream;
    loader load{numbered{60}, stream, {.batch_bytes = numbered::bytes, .timing = true}};
    for (auto& b : load) {
        sim_launch(stream, {.duration = 5us});
        if (b.index() < 40) {
            sim_graph::begin(stream, sim_capture_mode::relaxed);
            b.release();
            (void)sim_graph::end(stream);
        }
    }
    stream.synchronize();
    CHECK(told.count() == 40);
    CHECK(load.statistics().use_ns >= 5'000);
}

TEST_CASE(
    "batch: after a release that had to wait, the next batch of the slot has no further streams") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream stream, other;
    auto const before = set_error_sink([](error const&) noexcept {});
    {
        loader load{numbered{3}, stream, {.batch_bytes = numbered::bytes, .depth = 1}};
        auto   at = load.begin();
        at->record_stream(other);
        use(other, *at);
        node.faults().at(sim_call_kind::record, 1, {.status = sim_status::refused});
        at->release();
        node.faults().clear();
        ++at;
        at->record_stream(other); // must wait for this copy too
        use(other, *at);
        at->release();
    }
    set_error_sink(before);
    stream.synchronize();
    other.synchronize();
    node.finish();
    CHECK(node.reports().empty());
}
