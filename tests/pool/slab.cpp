// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/slab.hpp> // first: the header stands alone

#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include "../doubles/bombing.hpp"
#include "../doubles/contracts_throw.hpp"
#include "../doubles/interrupted_platform.hpp"
#include "../doubles/minimal_resource.hpp"
#include "../doubles/mishaps.hpp"
#include "../doubles/streams_at_work.hpp"
#include "../laws/captures_go_on.hpp"
#include "../laws/every_interleaving.hpp"
#include "../laws/graphs_keep.hpp"
#include "../laws/platform_faults.hpp"
#include "../laws/random_streams.hpp"
#include "../laws/resource.hpp"

#include <chrono>
#include <functional>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;
using doubles::busy;

template class vram::slab<doubles::archetype<>>;
template class vram::slab<doubles::minimal_resource<>>;
template class vram::slab<sim_resource>;
template class vram::slab<stream_ordered<sim_resource>>;
template class vram::slab<doubles::archetype<sim_platform>>;

namespace {

constexpr laws::options up_to_a_block{.largest_alignment = 2_KiB};

} // namespace

TEST_CASE("slab: it keeps the laws of a resource") {
    laws::resource([](auto up) { return slab{std::move(up), 4_KiB}; }, up_to_a_block);
    laws::resource([](auto up) { return slab{std::move(up), 4_KiB, {.initial_size = 1_MiB}}; },
                   up_to_a_block);
    laws::resource(
        [](auto up) { return slab{std::move(up), 4_KiB, {.events = event_policy::eager}}; },
        up_to_a_block);
    laws::resource<doubles::minimal_resource<>>(
        [](auto up) { return std::move(up) | with::slab(12_KiB); }, up_to_a_block);
    laws::resource([](auto up) { return std::move(up) | with::stream_ordered | with::slab(4_KiB); },
                   up_to_a_block);
    laws::resource([](auto up) { return std::move(up) | with::pool | with::slab(4_KiB); },
                   up_to_a_block);
    laws::resource_of_many_threads([](auto up) { return std::move(up) | with::slab(4_KiB); },
                                   up_to_a_block);
}

TEST_CASE("slab: it keeps the laws on a device, and every order between streams") {
    for (event_policy const events : {event_policy::lazy, event_policy::eager}) {
        sim_node           node{{.on_report = sim_on_report::collect}};
        pool_options const options{.events = events};
        laws::resource<sim_resource>(
            [&](auto up) { return slab{std::move(up), 4_KiB, options}; },
            {.largest_alignment = 2_KiB, .operations = 5000, .streams = 8});
        laws::resource<sim_async_resource>(
            [&](auto up) { return slab{std::move(up), 4_KiB, options}; },
            {.largest_alignment = 2_KiB, .streams = 5, .seed = 3});
        laws::resource<sim_resource>(
            [&](auto up) {
                return std::move(up) | with::stream_ordered | with::slab(1_MiB, options) |
                       with::slab(4_KiB, options);
            },
            {.largest_alignment = 2_KiB, .seed = 4});
        laws::resource_of_many_threads<sim_resource>(
            [&](auto up) { return slab{std::move(up), 4_KiB, options}; },
            {.largest_alignment = 2_KiB, .operations = 300});
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
        CHECK(node.reports().empty());
    }
}

TEST_CASE("slab: no failure loses memory") {
    laws::survives_every_failure([](auto up) { return slab{std::move(up), 1_KiB}; },
                                 [](auto& mr) { laws::block const first{mr, 10}, second{mr, 990}; },
                                 [](auto& mr) { return mr.usage().live; });
    laws::survives_every_failure(
        [](auto up) { return slab{std::move(up), 1_MiB}; },
        [](auto& mr) { laws::block const first{mr, 10}, second{mr, 9990}, third{mr, 1}; },
        [](auto& mr) { return mr.usage().live; });
}

TEST_CASE("slab: a stream's own memory is reused at once, without event, wait or host memory") {
    sim_node    node{{.checks = {.races = false, .bounds = false}}}; // they need host memory
    sim_stream  s;
    slab        mr{sim_resource{}, 1_MiB};
    void* const first = mr.allocate(s, 1_MiB);
    busy(s, first, 1_MiB);
    mr.deallocate(s, first, 1_MiB);
    auto const allocations = doubles::host_allocations();
    auto const calls       = mr.usage().upstream;
    for (int i = 0; i < 100; ++i) {
        void* const p = mr.allocate(s, 1_MiB);
        if (p != first) { FAIL("another block"); }
        mr.deallocate(s, p, 1_MiB);
    }
    CHECK(doubles::host_allocations() == allocations);
    CHECK(mr.usage().upstream == calls);
    CHECK(mr.usage().events == 0);
    CHECK(mr.usage().waits == 0);
    CHECK(mr.usage().live == 0);
    CHECK(mr.usage().pending == 1_MiB);
}

TEST_CASE("slab: another stream waits for the stream that freed, once, and the host does not") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream a, b;
    slab       mr{sim_resource{}, 1_MiB, {.initial_size = 8_MiB, .max_size = 8_MiB}};
    void*      blocks[8];
    for (auto& p : blocks) { p = mr.allocate(a, 1_MiB); }
    for (auto* const p : blocks) { busy(a, p, 1_MiB, 1ms); }
    for (auto* const p : blocks) { mr.deallocate(a, p, 1_MiB); }
    auto const before = node.now();
    for (auto& p : blocks) { p = mr.allocate(b, 1_MiB); }
    for (auto* const p : blocks) { busy(b, p, 1_MiB); }
    CHECK(mr.usage().waits == 1);
    CHECK(mr.usage().events == 1);
    CHECK(node.now() - before < 1ms);
    for (auto* const p : blocks) { mr.deallocate(b, p, 1_MiB); }
    CHECK(node.reports().empty());
}

TEST_CASE("slab: memory that is complete when requested adds no dependency") {
    sim_node    node{{.compute_slots = 2}};
    sim_stream  a, b, c;
    slab        mr{sim_resource{},
            1_MiB,
                   {.initial_size = 2_MiB, .max_size = 2_MiB, .events = event_policy::eager}};
    void* const p = mr.allocate(a, 1_MiB);
    void* const q = mr.allocate(b, 1_MiB);
    busy(a, p, 1_MiB, 50ms);
    busy(b, q, 1_MiB, 1ms);
    mr.deallocate(a, p, 1_MiB);
    mr.deallocate(b, q, 1_MiB);
    b.synchronize();
    void* const r = mr.allocate(c, 1_MiB); // b's, though a freed first
    CHECK(r == q);
    CHECK(mr.usage().waits == 0);
    mr.deallocate(c, r, 1_MiB);
}

TEST_CASE("slab: it waits for memory that another stream uses before it grows") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    sim_stream  a, b;
    slab        mr{sim_resource{}, 8_MiB}; // a chunk contains one block
    void* const p = mr.allocate(a, 8_MiB);
    busy(a, p, 8_MiB);
    mr.deallocate(a, p, 8_MiB);
    void* const q = mr.allocate(b, 8_MiB);
    CHECK(q == p);
    CHECK(mr.usage().reserved == 8_MiB);
    busy(b, q, 8_MiB);
    mr.deallocate(b, q, 8_MiB);
    auto const  before = node.now();
    void* const r      = mr.allocate_sync(8_MiB); // without a stream: the host waits
    CHECK(r == p);
    CHECK(node.now() - before >= 1ms);
    mr.deallocate_sync(r, 8_MiB);
    CHECK(mr.usage().pending == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("slab: over a pool it uses ready memory of the pool before a stream waits") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream a, b, c;
    slab       mr{pool{sim_resource{}, {.initial_size = 12_MiB, .max_size = 12_MiB}}, 1_MiB};
    std::vector<void*> blocks;
    for (int i = 0; i < 8; ++i) {
        blocks.push_back(mr.allocate(a, 1_MiB));
        busy(a, blocks.back(), 1_MiB, 5ms);
    }
    std::size_t const held = mr.usage().reserved;
    for (void* const p : blocks) { mr.deallocate(a, p, 1_MiB); }
    void* const q = mr.allocate(b, 1_MiB);
    CHECK(mr.usage().reserved > held);
    CHECK(mr.usage().waits + mr.upstream().usage().waits == 0);
    CHECK(mr.usage().events == 1); // the event by which the stream was queried
    CHECK(mr.upstream().usage().events == 0);
    busy(b, q, 1_MiB);
    std::vector<void*> rest; // the rest of the upstream
    while (void* const p = mr.upstream().try_allocate_ready(b, 1_MiB)) { rest.push_back(p); }
    void* const r = mr.allocate(c, 1_MiB);
    CHECK(mr.usage().waits == 1);
    busy(c, r, 1_MiB);
    mr.deallocate(c, r, 1_MiB);
    mr.deallocate(b, q, 1_MiB);
    for (void* const p : rest) { mr.upstream().deallocate(b, p, 1_MiB); }
    CHECK(mr.trim() == 12_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("slab: over a pool it loses nothing without host memory") {
    for (std::uint64_t n = 1;; ++n) {
        sim_node               node;
        doubles::mishaps const told; // receives the report that an event could not be created
        sim_stream             a, b;
        slab                   mr{pool{sim_resource{}, {.initial_size = 12_MiB}}, 1_MiB};
        void* const            p = mr.allocate(a, 1_MiB);
        busy(a, p, 1_MiB, 5ms);
        mr.deallocate(a, p, 1_MiB);
        doubles::bombing armed{n};
        void* const      q   = mr.try_allocate(b, 1_MiB);
        bool const       hit = armed.defuse();
        if (q != nullptr) { mr.deallocate(b, q, 1_MiB); }
        CHECK(mr.usage().live == 0);
        CHECK(mr.upstream().usage().live == mr.usage().reserved);
        if (!hit) { break; }
        REQUIRE(n < 100);
    }
}

TEST_CASE("slab: over a pool it uses completed memory before it grows") {
    sim_node   node;
    sim_stream streams[8];
    slab       mr{pool{sim_resource{}, {.initial_size = 64_MiB}}, 1_MiB};
    for (auto const& s : streams) { // one after the other; the host waits for each
        void* const p = mr.allocate(s, 1_MiB);
        busy(s, p, 1_MiB, 5ms);
        mr.deallocate(s, p, 1_MiB);
        s.synchronize();
        CHECK(mr.usage().upstream == 1);
    }
    CHECK(mr.usage().waits == 0);
    for (auto const& s : streams) { mr.retire(s); }
}

TEST_CASE("slab: over a pool it keeps a captured stream's frees that meet a request") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    sim_stream  a, b, c;
    slab        mr{pool{sim_resource{}, {.initial_size = 32_MiB}}, 2_MiB};
    void* const p = mr.allocate(a, 2_MiB);
    void* const q = mr.allocate(c, 2_MiB);
    busy(c, q, 2_MiB);
    mr.deallocate(c, q, 2_MiB);
    c.synchronize();
    std::size_t const held = mr.usage().reserved;
    sim_graph::begin(a);
    busy(a, p, 2_MiB);
    mr.deallocate(a, p, 2_MiB);            // the graph may use it each time that it runs
    void* const r = mr.allocate(b, 2_MiB); // first finds the block that cannot be waited for
    CHECK(r == q);                         // and then queries the other stream
    CHECK(mr.usage().reserved == held);
    sim_graph graph = sim_graph::end(a);
    void*     rest[4];
    for (void*& t : rest) {
        t = mr.allocate(b, 2_MiB);
        CHECK(t != p);
        busy(b, t, 2_MiB);
    }
    graph.launch(a);
    a.synchronize();
    for (void* const t : rest) { mr.deallocate(b, t, 2_MiB); }
    mr.deallocate(b, r, 2_MiB);
    mr.forget_captures();
    CHECK(mr.trim() == 32_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("slab: a chunk that was ready for one stream makes others wait") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    sim_stream  a, b, c;
    slab        mr{pool{sim_resource{}, {.initial_size = 4_MiB, .max_size = 4_MiB}}, 1_MiB};
    void* const p       = mr.allocate(a, 1_MiB);
    void* const q       = mr.allocate(a, 1_MiB);
    void* const beneath = mr.upstream().allocate(b, 2_MiB);
    busy(a, p, 1_MiB, 50ms);
    busy(b, beneath, 2_MiB, 5ms);
    mr.upstream().deallocate(b, beneath, 2_MiB);
    mr.deallocate(a, p, 1_MiB);
    mr.deallocate(a, q, 1_MiB);
    void* const r = mr.allocate(b, 1_MiB);
    CHECK(mr.usage().reserved == 4_MiB); // a chunk of two, which its stream may use
    void* const t = mr.allocate(c, 1_MiB);
    busy(c, t, 1_MiB);
    mr.deallocate(c, t, 1_MiB);
    mr.deallocate(b, r, 1_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("slab: a retired stream may be destroyed, and one destroyed without retire is reported") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    slab                   mr{sim_resource{}, 8_MiB};
    for (int i = 0; i < 100; ++i) {
        sim_stream  s;
        void* const p = mr.allocate(s, 8_MiB);
        busy(s, p, 8_MiB);
        mr.deallocate(s, p, 8_MiB);
        mr.retire(s);
    }
    CHECK(mr.usage().reserved == 8_MiB);
    CHECK(told.count() == 0);
    {
        sim_stream const s = doubles::raw_stream();
        void* const      p = mr.allocate(s, 8_MiB);
        busy(s, p, 8_MiB);
        mr.deallocate(s, p, 8_MiB);
    }
    sim_stream  other;
    void* const q = mr.allocate(other, 8_MiB);
    busy(other, q, 8_MiB);
    mr.deallocate(other, q, 8_MiB);
    CHECK(told.count(error_kind::dead_stream) == 1);
    CHECK(node.reports().empty());
}

TEST_CASE("slab: chunks grow with the reserved bytes, and are freed when all their blocks are") {
    sim_node   node{{.capacity = 1_GiB, .on_report = sim_on_report::collect}};
    sim_stream s;
    slab       mr{sim_resource{}, 64_KiB};
    void*      blocks[64];
    for (auto& p : blocks) { p = mr.allocate(s, 64_KiB); }
    CHECK(mr.usage().reserved == 4_MiB); // 1 + 1 + 2 + 4 + ... blocks
    CHECK(mr.usage().upstream == 7);
    for (auto* const p : blocks) { busy(s, p, 64_KiB); }
    for (int i = 1; i < 64; ++i) { mr.deallocate(s, blocks[i], 64_KiB); }
    CHECK(mr.trim(unsatisfiable) == 0);
    CHECK(mr.trim(2_MiB) != 0);
    CHECK(mr.trim() != 0);
    CHECK(mr.usage().reserved == 64_KiB);
    CHECK(node.figures().used == 64_KiB);
    mr.deallocate(s, blocks[0], 64_KiB);
    CHECK(mr.trim() == 64_KiB);
    CHECK(mr.usage().reserved == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("slab: if a chunk of many blocks is refused, one of few is requested") {
    slab  mr{limiting{host_resource{}, 10_KiB}, 4_KiB}; // it asks for 64 KiB
    void* blocks[2];
    for (auto& p : blocks) { p = mr.allocate_sync(4_KiB); }
    CHECK_THROWS_AS((void)mr.allocate_sync(4_KiB), out_of_memory);
    CHECK(mr.try_allocate_sync(4_KiB) == nullptr);
    for (auto* const p : blocks) { mr.deallocate_sync(p, 4_KiB); }
    CHECK(mr.usage().reserved == 8_KiB);
}

TEST_CASE("slab: a request larger than a block is refused, and the refusal says so") {
    slab mr{host_resource{}, 3000}; // 12 * 256: aligned to 1024
    CHECK(mr.block_bytes() == 3072);
    try {
        (void)mr.allocate_sync(3073);
        REQUIRE(false);
    } catch (over_size const& e) {
        CHECK(e.block_bytes() == 3072);
        CHECK(e.numbers().asked == 3073);
    }
    CHECK_THROWS_AS((void)mr.allocate_sync(1, 2048), over_size);
    CHECK(mr.try_allocate_sync(1, 2048) == nullptr);
    CHECK(mr.usage().reserved == 0);
    void* const p = mr.allocate_sync(3072, 1024);
    mr.deallocate_sync(p, 3072, 1024);
    doubles::contracts_throw const here;
    CHECK_THROWS_AS((void)mr.allocate_sync(1, 3), doubles::broken_contract);
    CHECK_THROWS_AS((slab{host_resource{}, 0}), doubles::broken_contract);
}

TEST_CASE("slab: a refusal has every number") {
    sim_node    node{{.capacity = 8_MiB}};
    sim_stream  s;
    slab        mr{sim_resource{}, 3_MiB, {.max_size = 7_MiB}};
    void* const p = mr.allocate(s, 3_MiB);
    void* const q = mr.allocate(s, 2_MiB);
    try {
        (void)mr.allocate(s, 5, 512);
        REQUIRE(false);
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 5);
        CHECK(e.numbers().rounded == 3_MiB);
        CHECK(e.numbers().alignment == 512);
        CHECK(e.numbers().stream == s.id());
        CHECK(e.numbers().live == 6_MiB);
        CHECK(e.numbers().reserved == 6_MiB);
        CHECK(e.numbers().limit == 7_MiB);
        CHECK(e.numbers().device_total == 8_MiB);
        CHECK(e.numbers().device_free == 2_MiB);
    }
    mr.deallocate(s, p, 3_MiB);
    mr.deallocate(s, q, 2_MiB);
}

TEST_CASE("slab: foreign pointers, double frees and wrong sizes are reported") {
    doubles::mishaps const told;
    slab                   mr{host_resource{}, 1_KiB};
    int                    foreign = 0;
    void* const            p       = mr.allocate({}, 1000);
    mr.deallocate({}, &foreign, 4);
    CHECK(told.count(error_kind::foreign_pointer) == 1);
    CHECK(told.pointer() == &foreign);
    mr.deallocate({}, static_cast<std::byte*>(p) + 256, 744);
    CHECK(told.count(error_kind::interior_pointer) == 1);
    CHECK(told.last().block == p);
    CHECK(told.last().block_bytes == 1000);
    mr.deallocate({}, p, 999);
    mr.deallocate({}, p, 1000, 512);
    mr.deallocate({}, p, 1000, 768); // not an alignment, although it ends in as many zero bits
    CHECK(told.count(error_kind::wrong_size) == 1);
    CHECK(told.count(error_kind::wrong_alignment) == 2);
    CHECK(told.last().caller.line() == __LINE__ - 3);
    CHECK(mr.usage().live == 1_KiB);
    CHECK(mr.usage().requested == 1000);
    mr.deallocate({}, p, 1000);
    mr.deallocate({}, p, 1000);
    CHECK(told.count(error_kind::double_free) == 1);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("slab: a block cannot be freed while the host waits for it") {
    using platform = doubles::interrupted_platform;
    sim_node               node{{.on_report = sim_on_report::collect, .merge_reports = false}};
    doubles::mishaps const told;
    sim_stream             s;
    slab  mr{doubles::interrupted_memory{}, 1_MiB, {.initial_size = 1_MiB, .max_size = 1_MiB}};
    void* p = mr.allocate(s, 1); // the size is a valid epoch number
    busy(s, p, 1);
    mr.deallocate(s, p, 1);
    platform::meanwhile = [&] {
        for (std::size_t const bytes : {1_B, 2_B, 1_MiB}) { mr.deallocate_sync(p, bytes); }
        CHECK(told.count() == 3);
        CHECK(mr.try_allocate_sync(1_MiB) == nullptr);
    };
    p = mr.allocate_sync(1_MiB);
    CHECK(platform::meanwhile == nullptr);
    CHECK(told.count() == 3);
    CHECK(mr.usage().live == 1_MiB);
    CHECK(mr.usage().requested == 1_MiB);
    CHECK(mr.try_allocate_sync(1_MiB) == nullptr);
    mr.deallocate_sync(p, 1_MiB);
    CHECK(node.reports().size() == 3); // the refused frees
}

TEST_CASE("slab: with eager events a free waits for no stream, even if all events are awaited") {
    using platform = doubles::interrupted_platform;
    sim_node           node{{.on_report = sim_on_report::collect}};
    sim_stream         s;
    slab               mr{doubles::interrupted_memory{},
            1_MiB,
                          {.initial_size = 12_MiB, .max_size = 12_MiB, .events = event_policy::eager}};
    std::vector<void*> blocks(12), got;
    for (void*& p : blocks) { p = mr.allocate(s, 1_MiB); }
    std::function<void()> const one_more = [&] { // a host thread that waits for an event
        std::size_t const depth = 12 - blocks.size();
        if (depth == stream_timeline<platform>::most) {
            auto const before = node.now();
            for (void* const p : blocks) { mr.deallocate(s, p, 1_MiB); }
            CHECK(node.now() == before);
            return;
        }
        busy(s, blocks.back(), 1_MiB, 10ms);
        mr.deallocate(s, blocks.back(), 1_MiB);
        blocks.pop_back();
        platform::meanwhile = one_more;
        got.push_back(mr.allocate_sync(1_MiB));
    };
    one_more();
    for (void* const p : got) { mr.deallocate_sync(p, 1_MiB); }
    CHECK(mr.usage().live == 0);
    CHECK(mr.trim() == 12_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("slab: live blocks at its end are reported, and its chunks are freed") {
    sim_node               node;
    doubles::mishaps const told;
    {
        sim_stream s;
        slab       mr{sim_resource{}, 1_MiB};
        busy(s, mr.allocate(s, 1_MiB), 1_MiB);
    }
    CHECK(told.count(error_kind::leak) == 1);
    CHECK(node.figures().used == 0);
}

TEST_CASE("slab: a move takes its blocks along") {
    sim_node    node;
    sim_stream  s;
    slab        a{sim_resource{}, 1_MiB};
    void* const p = a.allocate(s, 1_MiB);
    slab        b{std::move(a)};
    CHECK(b.usage().live == 1_MiB);
    a             = slab{sim_resource{}, 2_MiB};
    void* const q = a.allocate(s, 2_MiB);
    b.deallocate(s, p, 1_MiB);
    a.deallocate(s, q, 2_MiB);
    b = std::move(a);
    CHECK(b.usage().peak_live == 2_MiB);
    CHECK(b.block_bytes() == 2_MiB);
}

TEST_CASE("slab: memory that a capture freed is not reused until the graphs are forgotten") {
    for (bool const graphs : {true, false}) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream s, other;
        slab       mr{sim_resource{},
                1_MiB,
                      {.initial_size = 1_MiB,
                       .max_size     = 1_MiB,
                       .events       = graphs ? event_policy::lazy : event_policy::eager,
                       .graphs       = graphs}};
        sim_graph::begin(s);
        void* const p = mr.allocate(s, 1_MiB);
        mr.deallocate(s, p, 1_MiB);
        if (graphs) {
            void* const q = mr.allocate(s, 1_MiB); // the capture's own
            CHECK(q == p);
            mr.deallocate(s, q, 1_MiB);
        }
        sim_graph const graph = sim_graph::end(s);
        CHECK(mr.try_allocate(other, 1_MiB) == nullptr);
        CHECK(mr.try_allocate_sync(1_MiB) == nullptr);
        CHECK(mr.trim() == 0);
        CHECK(mr.usage().pending == 1_MiB);
        mr.forget_captures();
        void* const r = mr.allocate(other, 1_MiB);
        mr.deallocate(other, r, 1_MiB);
    }
}

TEST_CASE("slab: forget_captures waits for uses beside the graph") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream s, other;
    slab mr{sim_resource{}, 1_MiB, {.initial_size = 2_MiB, .max_size = 2_MiB, .graphs = true}};
    void* const a = mr.allocate(s, 1_MiB);
    void* const b = mr.allocate(s, 1_MiB);
    busy(s, a, 1_MiB);
    sim_graph::begin(s);
    mr.deallocate(s, b, 1_MiB);
    sim_graph const graph = sim_graph::end(s);
    mr.deallocate(s, a, 1_MiB);
    mr.forget_captures();
    for (int i = 0; i < 2; ++i) {
        void* const p = mr.allocate(other, 1_MiB);
        busy(other, p, 1_MiB);
    }
    mr.deallocate(other, a, 1_MiB);
    mr.deallocate(other, b, 1_MiB);
    other.synchronize();
    CHECK(node.reports().empty());
}

TEST_CASE("slab: no operation breaks a capture") {
    laws::captures_go_on([](event_policy events, bool graphs) {
        return slab{sim_resource{} | with::stream_ordered,
                    1_MiB,
                    {.max_size = 8_MiB, .events = events, .graphs = graphs}};
    });
}

TEST_CASE("slab: graph-retained memory stays so if a later capture's block is freed outside") {
    laws::graphs_keep([] {
        return slab{
            sim_resource{}, 1_MiB, {.initial_size = 1_MiB, .max_size = 1_MiB, .graphs = true}};
    });
}

TEST_CASE("slab: a chunk that waits for a capture does not keep others from being freed") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    sim_stream  captured, other;
    slab        mr{sim_resource{}, 2_MiB, {.graphs = true}};
    void* const a = mr.allocate(captured, 2_MiB);
    void* const b = mr.allocate(other, 2_MiB);
    busy(captured, a, 2_MiB);
    busy(other, b, 2_MiB);
    mr.deallocate(captured, a, 2_MiB);
    mr.deallocate(other, b, 2_MiB);
    sim_graph::begin(captured, sim_capture_mode::relaxed);
    CHECK(mr.trim() == 2_MiB);
    sim_graph const graph = sim_graph::end(captured);
    CHECK(mr.trim() == 2_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("slab: it allocates as many blocks at once as the limit permits") {
    slab const mr{sim_resource{}, 3_MiB, {.initial_size = 10_MiB, .max_size = 11_MiB}};
    CHECK(mr.usage().reserved == 9_MiB);
}

TEST_CASE("slab: it forwards forget_captures to the upstream") {
    slab mr{doubles::archetype<>{}, 1_KiB};
    mr.forget_captures();
    CHECK(mr.upstream().forgotten() == 1);
}

TEST_CASE("slab: memory of a stream that is being captured is unavailable to others") {
    for (bool const graphs : {true, false}) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream s, other;
        slab       mr{
            sim_resource{}, 1_MiB, {.initial_size = 1_MiB, .max_size = 1_MiB, .graphs = graphs}};
        void* p = mr.allocate(s, 1_MiB);
        busy(s, p, 1_MiB);
        mr.deallocate(s, p, 1_MiB);
        sim_graph::begin(s);
        CHECK(mr.try_allocate(other, 1_MiB) == nullptr);
        CHECK(mr.try_allocate_sync(1_MiB) == nullptr);
        CHECK(mr.trim() == 0);
        sim_graph const graph = sim_graph::end(s);
        // Without `graphs` the slab does not know when the capture ended.
        if (!graphs) { mr.forget_captures(); }
        p = mr.allocate(other, 1_MiB);
        mr.deallocate(other, p, 1_MiB);
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    }
}

TEST_CASE(
    "slab: after any failed platform call nothing is lost, and no stream gets memory too early") {
    laws::survives_platform_faults(
        [](event_policy events) { return slab{sim_resource{}, 3_MiB, {.events = events}}; },
        [](auto& mr, sim_stream_view a, sim_stream_view b) {
            laws::take_turns(mr, a, b, {1_MiB, 1_MiB, 3_MiB, 2_MiB});
        });
}

TEST_CASE("slab: it passes ten thousand random operations on sixteen streams") {
    laws::random_streams({201, 202},
                         {.room              = 4_MiB,
                          .largest           = 64_KiB,
                          .largest_alignment = 64_KiB,
                          .operations        = 5000,
                          .may_refuse        = true},
                         [] { return slab{sim_resource{}, 64_KiB, {.max_size = 6_MiB}}; });
}

TEST_CASE("slab: it is correct for two streams with six operations each, in every order") {
    laws::every_interleaving([] { return slab{sim_resource{}, 8_MiB}; }, 8_MiB);
}
