// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/pool.hpp> // first: the header stands alone

#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/device_share_growth.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/pool/fixed_growth.hpp>
#include <vram/pool/fragmentation.hpp>
#include <vram/pool/peak_scope.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/region_resource.hpp>

#include "../doubles/bombing.hpp"
#include "../doubles/interrupted_platform.hpp"
#include "../doubles/lending_resource.hpp"
#include "../doubles/minimal_resource.hpp"
#include "../doubles/mishaps.hpp"
#include "../doubles/page_modes.hpp"
#include "../doubles/small_pages.hpp"
#include "../doubles/streams_at_work.hpp"
#include "../laws/captures_go_on.hpp"
#include "../laws/every_interleaving.hpp"
#include "../laws/platform_faults.hpp"
#include "../laws/random_streams.hpp"
#include "../laws/resource.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

template class vram::pool<doubles::archetype<>>;
template class vram::pool<doubles::minimal_resource<>>;
template class vram::pool<sim_resource>;
template class vram::pool<pool<sim_resource>, device_share_growth>;
template class vram::pool<stream_ordered<sim_resource>, exact_growth>;
template class vram::pool<sim_async_resource, device_share_growth>;
template class vram::pool<doubles::archetype<sim_platform>, fixed_growth>;

namespace {

/// Keeps a stream busy for some time; it writes `memory`.
void use(sim_stream_view s, void* memory, std::size_t bytes, sim_time how_long = 1ms) {
    sim_launch(s, {.name = "use", .writes = {{memory, bytes}}, .duration = how_long});
}

/// A pool that allocates exactly the needed size, so that the tests can count.
template <class Upstream>
pool<Upstream, exact_growth> tight(Upstream upstream, pool_options options = {}) {
    return pool<Upstream, exact_growth>{std::move(upstream), options};
}

} // namespace

TEST_CASE("pool: it keeps the laws of a resource") {
    laws::resource([](auto up) { return pool{std::move(up)}; });
    laws::resource([](auto up) { return tight(std::move(up)); });
    laws::resource([](auto up) { return pool{std::move(up), {.initial_size = 1_MiB}}; });
    laws::resource([](auto up) { return pool{std::move(up), {.events = event_policy::eager}}; });
    laws::resource<doubles::minimal_resource<>>([](auto up) { return std::move(up) | with::pool; });
    laws::resource(
        [](auto up) { return std::move(up) | with::stream_ordered | with::pool(1_MiB); });
    laws::resource_of_many_threads([](auto up) { return std::move(up) | with::pool; });
    laws::resource_of_many_threads([](auto up) { return tight(std::move(up)); });
}

TEST_CASE("pool: it keeps the laws on a device, and every order between streams") {
    for (event_policy const events : {event_policy::lazy, event_policy::eager}) {
        sim_node           node{{.on_report = sim_on_report::collect}};
        pool_options const options{.events = events};
        laws::resource<sim_resource>([&](auto up) { return pool{std::move(up), options}; },
                                     {.room = 4_MiB, .largest_alignment = 2_MiB});
        laws::resource<sim_resource>([&](auto up) { return tight(std::move(up), options); },
                                     {.operations = 5000, .streams = 8, .seed = 2});
        laws::resource<sim_async_resource>([&](auto up) { return tight(std::move(up), options); },
                                           {.streams = 5, .seed = 3});
        laws::resource<sim_resource>(
            [&](auto up) {
                return std::move(up) | with::stream_ordered | with::pool(options) |
                       with::pool(options);
            },
            {.seed = 4});
        laws::resource_of_many_threads<sim_resource>(
            [&](auto up) { return pool{std::move(up), options}; }, {.operations = 300});
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
        CHECK(node.reports().empty());
    }
}

TEST_CASE("pool: no failure loses memory") {
    laws::survives_every_failure([](auto up) { return pool{std::move(up)}; },
                                 [](auto& mr) { laws::block const first{mr, 10}, second{mr, 990}; },
                                 [](auto& mr) { return mr.usage().live; });
    laws::survives_every_failure(
        [](auto up) { return tight(std::move(up)); },
        [](auto& mr) { laws::block const first{mr, 10}, second{mr, 9990}; },
        [](auto& mr) { return mr.usage().live; });
}

TEST_CASE("pool: a stream's own memory is reused at once, without event, wait or host memory") {
    sim_node    node{{.checks = {.races = false, .bounds = false}}}; // they need host memory
    sim_stream  s;
    pool        mr{sim_resource{}};
    void* const first = mr.allocate(s, 1_MiB);
    use(s, first, 1_MiB);
    mr.deallocate(s, first, 1_MiB);
    auto const allocations = doubles::host_allocations();
    auto const calls       = mr.usage().upstream;
    for (int i = 0; i < 100; ++i) {
        void* const p = mr.allocate(s, 1_MiB);
        mr.deallocate(s, p, 1_MiB);
    }
    CHECK(doubles::host_allocations() == allocations);
    CHECK(mr.usage().upstream == calls);
    CHECK(mr.usage().events == 0);
    CHECK(mr.usage().waits == 0);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("pool: another stream waits for the stream that freed, once, and the host does not") {
    sim_node    node;
    sim_stream  a, b;
    auto        mr = tight(sim_resource{});
    void* const p  = mr.allocate(a, 1_MiB);
    void* const q  = mr.allocate(a, 1_MiB);
    use(a, p, 1_MiB);
    mr.deallocate(a, p, 1_MiB);
    mr.deallocate(a, q, 1_MiB);
    auto const  before = node.now();
    void* const r      = mr.allocate(b, 1_MiB);
    use(b, r, 1_MiB);
    CHECK(mr.usage().reserved == 2_MiB);
    CHECK(mr.usage().waits == 1);
    CHECK(mr.usage().events == 1);
    void* const t = mr.allocate(b, 1_MiB); // freed before the same event
    CHECK(mr.usage().waits == 1);
    CHECK(mr.usage().events == 1);
    CHECK(node.now() - before < 1ms);
    mr.deallocate(b, r, 1_MiB);
    mr.deallocate(b, t, 1_MiB);
}

TEST_CASE("pool: memory that is complete when requested adds no dependency") {
    sim_node    node;
    sim_stream  a, b;
    auto        mr = tight(sim_resource{});
    void* const p  = mr.allocate(a, 1_MiB);
    use(a, p, 1_MiB);
    mr.deallocate(a, p, 1_MiB);
    a.synchronize();
    void* const q = mr.allocate(b, 1_MiB);
    CHECK(q == p);
    CHECK(mr.usage().waits == 0);
    mr.deallocate(b, q, 1_MiB);
}

TEST_CASE("pool: the last freed large block is reused as it is, and coalesced for other requests") {
    sim_node                           node;
    sim_stream                         s;
    pool<stream_ordered<sim_resource>> mr{{}, {.initial_size = 64_MiB}};
    void* const                        out  = mr.allocate(s, 2_MiB);
    void* const                        low  = mr.allocate(s, 8_MiB);
    void* const                        high = mr.allocate(s, 4_MiB);
    mr.deallocate(s, low, 8_MiB);
    mr.deallocate(s, high, 4_MiB);
    CHECK(mr.allocate(s, 4_MiB) == high); // the first place that is free is `low`
    mr.deallocate(s, high, 4_MiB);
    CHECK(mr.allocate(s, 62_MiB) == low);
    CHECK(mr.usage().reserved == 64_MiB);
    mr.deallocate(s, low, 62_MiB);
    mr.deallocate(s, out, 2_MiB);
}

TEST_CASE("pool: a cached block that is freed again without a pending use waits for no stream") {
    for (std::size_t const bytes : {64_KiB, 2_MiB}) {
        CAPTURE(bytes);
        sim_node                           node;
        sim_stream                         s, other;
        pool<stream_ordered<sim_resource>> mr;
        void* const                        out = mr.allocate(s, bytes);
        void* const                        p   = mr.allocate(s, bytes);
        use(s, p, bytes);
        mr.deallocate(s, p, bytes);
        CHECK(mr.allocate(s, bytes) == p);
        s.synchronize();
        // The rest of the chunk, which was allocated in its order.
        std::size_t const beside = mr.usage().pending;
        mr.deallocate_sync(p, bytes);
        CHECK(mr.usage().pending == beside);
        use(s, out, bytes);
        CHECK(mr.allocate(other, bytes) == p);
        CHECK(mr.usage().waits == 0);
        CHECK(mr.usage().events == 0);
        mr.deallocate(other, p, bytes);
        mr.deallocate(s, out, bytes);
    }
}

TEST_CASE(
    "pool: after all large blocks are freed they are coalesced, although small ones are live") {
    sim_node                                         node;
    sim_stream                                       s[3];
    pool<stream_ordered<sim_resource>, fixed_growth> mr{{}, {}, fixed_growth{1_GiB}};
    void* const                                      small = mr.allocate(s[0], 256);
    std::vector<void*>                               first;
    for (int round = 0; round < 3; ++round) {
        std::vector<void*> out;
        for (std::size_t i = 0; i < 100; ++i) {
            out.push_back(mr.allocate(s[i % 3], 2_MiB + i % 7 * 1_MiB));
        }
        if (round == 0) { first = out; }
        CHECK(out == first);
        for (std::size_t i = 99; i > 0; --i) { // the first block is freed last
            mr.deallocate(s[i % 3], out[i], 2_MiB + i % 7 * 1_MiB);
        }
        mr.deallocate(s[0], out[0], 2_MiB);
    }
    CHECK(mr.usage().waits == 0);
    mr.deallocate(s[0], small, 256);
}

TEST_CASE("pool: the part of a block without a pending use waits for no stream") {
    sim_node    node;
    sim_stream  a, b;
    pool        mr{sim_resource{}, {.initial_size = 4_MiB}};
    void* const p = mr.allocate(a, 1_MiB);
    use(a, p, 1_MiB);
    mr.deallocate(a, p, 1_MiB); // coalesces with the three blocks without pending uses
    CHECK(mr.usage().largest_free == 4_MiB);
    CHECK(mr.usage().pending == 1_MiB);
    void* const q = mr.allocate(b, 3_MiB);
    CHECK(mr.usage().waits == 0);
    CHECK(mr.usage().events == 0);
    mr.deallocate(b, q, 3_MiB);
    CHECK(mr.usage().reserved == 4_MiB);
}

TEST_CASE(
    "pool: blocks that several streams freed coalesce, and a large one waits for all of them") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream streams[4], last;
    pool       mr{sim_resource{}, {.initial_size = 4_MiB, .max_size = 4_MiB}};
    void*      blocks[4];
    for (int i = 0; i < 4; ++i) {
        blocks[i] = mr.allocate(streams[i], 1_MiB);
        use(streams[i], blocks[i], 1_MiB);
    }
    for (int i = 0; i < 4; ++i) { mr.deallocate(streams[i], blocks[i], 1_MiB); }
    CHECK(mr.usage().largest_free == 4_MiB);
    void* const p = mr.allocate(last, 4_MiB);
    use(last, p, 4_MiB);
    CHECK(mr.usage().waits == 4);
    mr.deallocate(last, p, 4_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE(
    "pool: blocks of more streams than a block can record coalesce when the streams are done") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream streams[16], last;
    pool       mr{sim_resource{}, {.initial_size = 16_MiB, .max_size = 16_MiB}};
    void*      blocks[16];
    for (int i = 0; i < 16; ++i) {
        blocks[i] = mr.allocate(streams[i], 1_MiB);
        use(streams[i], blocks[i], 1_MiB);
    }
    for (int i = 0; i < 16; ++i) { mr.deallocate(streams[i], blocks[i], 1_MiB); }
    CHECK(mr.usage().largest_free < 16_MiB);
    void* const p = mr.allocate(last, 16_MiB); // waits on the host before it refuses
    use(last, p, 16_MiB);
    mr.deallocate(last, p, 16_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("pool: allocate_sync waits on the host for pending uses") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    sim_stream  a;
    auto        mr = tight(sim_resource{});
    void* const p  = mr.allocate(a, 1_MiB);
    use(a, p, 1_MiB, 5ms);
    mr.deallocate(a, p, 1_MiB);
    auto const  before = node.now();
    void* const q      = mr.allocate_sync(1_MiB);
    CHECK(q == p);
    CHECK(node.now() - before >= 5ms);
    sim_stream b;
    use(b, q, 1_MiB);
    b.synchronize();
    mr.deallocate_sync(q, 1_MiB);
    CHECK(mr.usage().pending == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("pool: with eager events a stream waits for the free, and not for later work") {
    sim_node    node{{.compute_slots = 2}};
    sim_stream  a, b;
    auto        mr = tight(sim_resource{}, {.events = event_policy::eager});
    void* const p  = mr.allocate(a, 1_MiB);
    void* const q  = mr.allocate_sync(1_MiB);
    use(a, p, 1_MiB, 1ms);
    mr.deallocate(a, p, 1_MiB);
    use(a, q, 1_MiB, 100ms); // later on the same stream
    auto const  before = node.now();
    void* const r      = mr.allocate(b, 1_MiB);
    use(b, r, 1_MiB, 1ms);
    b.synchronize();
    CHECK(node.now() - before < 10ms);
    mr.deallocate(b, r, 1_MiB);
    a.synchronize();
    mr.deallocate_sync(q, 1_MiB);
}

TEST_CASE(
    "pool: with eager events a stream may be destroyed without retire, and its handle reused") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    auto                   mr = tight(sim_resource{}, {.events = event_policy::eager});
    for (int i = 0; i < 100; ++i) {
        sim_stream  s;
        void* const p = mr.allocate(s, 1_MiB);
        use(s, p, 1_MiB);
        mr.deallocate(s, p, 1_MiB);
    }
    CHECK(mr.usage().reserved == 1_MiB);
    CHECK(told.count() == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("pool: a retired stream may be destroyed, and its frees are still waited for") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    auto                   mr = tight(sim_resource{});
    for (int i = 0; i < 100; ++i) {
        sim_stream  s;
        void* const p = mr.allocate(s, 1_MiB);
        use(s, p, 1_MiB);
        mr.deallocate(s, p, 1_MiB);
        mr.retire(s);
        mr.retire(s); // again: nothing to do
    }
    CHECK(mr.usage().reserved == 1_MiB);
    CHECK(told.count() == 0);
    CHECK(node.reports().empty());
}

TEST_CASE(
    "pool: a stream that is destroyed without retire is reported, and its device waited for") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    auto                   mr = tight(sim_resource{});
    {
        sim_stream const s = doubles::raw_stream();
        void* const      p = mr.allocate(s, 1_MiB);
        use(s, p, 1_MiB);
        mr.deallocate(s, p, 1_MiB);
    }
    sim_stream  other;
    void* const q = mr.allocate(other, 1_MiB);
    use(other, q, 1_MiB);
    mr.deallocate(other, q, 1_MiB);
    CHECK(told.count(error_kind::dead_stream) == 1);
    CHECK(node.reports().empty());
}

TEST_CASE("pool: before a refusal idle chunks are freed, including pending ones") {
    sim_node    node{{.capacity = 8_MiB, .on_report = sim_on_report::collect}};
    sim_stream  a, b;
    auto        mr = tight(sim_resource{});
    void* const p  = mr.allocate(a, 4_MiB);
    void* const q  = mr.allocate(a, 4_MiB);
    use(a, p, 4_MiB);
    use(a, q, 4_MiB);
    mr.deallocate(a, p, 4_MiB);
    mr.deallocate(a, q, 4_MiB);
    void* const r = mr.allocate(b, 8_MiB); // neither of the two chunks is large enough
    use(b, r, 8_MiB);
    mr.deallocate(b, r, 8_MiB);
    CHECK(mr.usage().reserved == 8_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("pool: a refusal has every number") {
    sim_node    node{{.capacity = 8_MiB, .on_report = sim_on_report::collect}};
    sim_stream  s;
    auto        mr = tight(sim_resource{});
    void* const p  = mr.allocate(s, 3_MiB);
    void* const q  = mr.allocate(s, 2_MiB);
    mr.deallocate(s, q, 2_MiB);
    try {
        (void)mr.allocate(s, 5_MiB + 1, 512);
        REQUIRE(false);
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 5_MiB + 1);
        CHECK(e.numbers().rounded == 5_MiB + 256);
        CHECK(e.numbers().alignment == 512);
        CHECK(e.numbers().stream == s.id());
        CHECK(e.numbers().live == 3_MiB);
        CHECK(e.numbers().reserved == 3_MiB);
        CHECK(e.numbers().device_total == 8_MiB);
        CHECK(e.numbers().device_free == 5_MiB);
    }
    CHECK(mr.try_allocate(s, 6_MiB) == nullptr);
    CHECK(mr.try_allocate_sync(6_MiB) == nullptr);
    CHECK(mr.usage().live == 3_MiB);
    mr.deallocate(s, p, 3_MiB);
}

TEST_CASE(
    "pool: a limit of the upstream or the pool bounds the reserved bytes, and is in the refusal") {
    pool        own{host_resource{}, {.max_size = 1_MiB}};
    void* const p = own.allocate_sync(1_MiB);
    try {
        (void)own.allocate_sync(1);
        REQUIRE(false);
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().limit == 1_MiB);
        CHECK(e.numbers().live == 1_MiB);
    }
    own.deallocate_sync(p, 1_MiB);
    CHECK(own.usage().peak_reserved == 1_MiB);

    pool        under{limiting{host_resource{}, 1_MiB}};
    void* const q = under.allocate_sync(1000);
    CHECK_THROWS_AS((void)under.allocate_sync(2_MiB), over_limit);
    under.deallocate_sync(q, 1000);
}

TEST_CASE("pool: trim returns all idle memory beyond the bytes to keep") {
    sim_node   node;
    sim_stream s;
    auto       mr = tight(sim_resource{});
    void*      blocks[8];
    for (auto& p : blocks) { p = mr.allocate(s, 1_MiB); }
    for (auto* const p : blocks) { use(s, p, 1_MiB); }
    for (int i = 1; i < 8; ++i) { mr.deallocate(s, blocks[i], 1_MiB); }
    CHECK(mr.trim(3_MiB) == 4_MiB);
    CHECK(mr.usage().reserved == 4_MiB);
    CHECK(mr.trim(unsatisfiable) == 0);
    CHECK(mr.trim() == 3_MiB);
    CHECK(mr.trim() == 0);
    CHECK(mr.usage().reserved == 1_MiB);
    CHECK(node.figures().used == 1_MiB);
    mr.deallocate(s, blocks[0], 1_MiB);
}

TEST_CASE("pool: foreign pointers, double frees and wrong sizes are reported and ignored") {
    doubles::mishaps const told;
    pool                   mr{host_resource{}};
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
    CHECK(told.count(error_kind::wrong_size) == 1);
    CHECK(told.last().bytes == 999);
    CHECK(told.last().block_bytes == 1000);
    CHECK(told.last().caller.line() == __LINE__ - 4);
    mr.deallocate({}, p, 1000, 512);
    CHECK(told.count(error_kind::wrong_alignment) == 1);
    CHECK(told.last().block_alignment == default_alignment);
    CHECK(mr.usage().live == 1024);
    CHECK(mr.usage().requested == 1000);
    mr.deallocate({}, p, 1000);
    mr.deallocate({}, p, 1000);
    CHECK(told.count(error_kind::double_free) == 1);
    CHECK(told.count() == 5);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("pool: trim_no_wait returns idle memory without pending uses, and waits for nothing") {
    sim_node    node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
    sim_stream  a, b;
    auto        mr = tight(pool{sim_resource{}}); // the device's own free would wait
    void* const p  = mr.allocate(a, 1_MiB);
    void* const q  = mr.allocate(a, 2_MiB);
    void* const r  = mr.allocate(b, 4_MiB);
    void* const t  = mr.allocate(b, 8_MiB);
    use(a, p, 1_MiB, 5ms);
    use(a, q, 2_MiB, 5ms);
    use(b, r, 4_MiB, 1ms);
    mr.deallocate(a, p, 1_MiB);
    mr.deallocate(a, q, 2_MiB);
    mr.deallocate(b, r, 4_MiB);
    b.synchronize();
    auto const before = node.now();
    CHECK(mr.trim_no_wait() == 4_MiB);
    CHECK(mr.trim_no_wait() == 0);
    CHECK(node.now() - before < 1ms);
    a.synchronize();
    CHECK(mr.trim_no_wait() == 3_MiB);
    CHECK(mr.usage().reserved == 8_MiB);
    mr.deallocate(b, t, 8_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("pool: trim_no_wait waits for nothing, also if another device's default stream freed") {
    sim_node         node{{.devices = 2, .on_report = sim_on_report::collect}};
    auto             mr = tight(sim_resource{sim_device{0}});
    void* const      p  = mr.allocate({}, 4_MiB);
    sim_stream const other{sim_device{0}};
    use({}, p, 4_MiB);
    mr.deallocate({}, p, 4_MiB);
    sim_launch(other, {.name = "long", .duration = 1s});
    sim_device{1}.make_current(); // on that device {} means another stream
    auto const before = node.now();
    CHECK(mr.trim_no_wait() == 0);
    CHECK(node.now() == before);
    CHECK(node.figures().host_waits == 0);
    sim_device{0}.make_current();
    CHECK(mr.trim() == 4_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("pool: pending bytes are at most the free bytes, also with unbacked addresses") {
    for (doubles::page_mode const mode : doubles::page_modes) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream s, other;
        pool       mr{sim_virtual_resource{{.handle_size = 2_MiB}}, doubles::in_mode(mode)};
        constexpr std::size_t all   = 10_MiB;
        void* const           later = mr.allocate(s, 256);
        mr.deallocate(other, mr.allocate(other, 256), 256);
        void* const front = mr.allocate(s, all);
        void* const wall  = mr.allocate(s, 2_MiB);
        void* const stays = mr.allocate(s, 2_MiB);
        mr.deallocate_sync(front, all);
        // The request uses the pages of the first block.
        mr.deallocate_sync(mr.allocate(s, all + 2_MiB), all + 2_MiB);
        void* const used = mr.allocate(s, all);
        void* const end  = mr.allocate(s, 2_MiB);
        mr.deallocate_sync(wall, 2_MiB);
        use(s, used, all, 5ms);
        mr.deallocate(s, used, all);
        void* const large = mr.allocate(s, all + 2_MiB); // these too
        CHECK(mr.usage().pending <= mr.free_memory().bytes);
        mr.deallocate(s, large, all + 2_MiB);
        CHECK(mr.usage().pending <= mr.free_memory().bytes);
        for (void* const p : {stays, end}) { mr.deallocate(s, p, 2_MiB); }
        mr.deallocate(s, later, 256);
        CHECK(mr.usage().pending <= mr.free_memory().bytes);
        CHECK(mr.usage().live == 0);
        s.synchronize();
        CHECK(node.reports().empty());
    }
}

TEST_CASE("pool: live blocks at its end are reported, and its chunks are freed") {
    sim_node               node;
    doubles::mishaps const told;
    {
        sim_stream s;
        pool       mr{sim_resource{}};
        use(s, mr.allocate(s, 1_MiB), 1_MiB);
    }
    CHECK(told.count(error_kind::leak) == 1);
    CHECK(node.figures().used == 0);
}

TEST_CASE("pool: a move takes the peak of reserved bytes along, and up to it nothing is returned") {
    sim_node    node;
    sim_stream  s;
    pool        from{sim_resource{}, {}, exact_growth{}};
    void* const ten = from.allocate(s, 10_MiB);
    use(s, ten, 10_MiB);
    from.deallocate(s, ten, 10_MiB);
    void* const twenty = from.allocate(s, 20_MiB); // beside a chunk that is in use
    REQUIRE(from.usage().reserved == 30_MiB);
    from.deallocate(s, twenty, 20_MiB);
    from.trim();
    pool to{sim_resource{}, {}, exact_growth{}};
    to = std::move(from);
    to.deallocate(s, to.allocate(s, 4_MiB), 4_MiB);
    void* const again = to.allocate(s, 20_MiB);
    CHECK(to.usage().reserved == 24_MiB); // less than once, if more than is needed
    to.deallocate(s, again, 20_MiB);
}

TEST_CASE("pool: a move takes its blocks along, and leaves the old pool empty") {
    sim_node    node;
    sim_stream  s;
    pool        a{sim_resource{}};
    void* const p = a.allocate(s, 1_MiB);
    pool        b{std::move(a)};
    CHECK(b.usage().live == 1_MiB);
    CHECK(a.usage().live == 0);
    CHECK(a.usage().peak_live == 0);
    CHECK(a.usage().allocations == 0);
    a             = pool{sim_resource{}};
    void* const q = a.allocate(s, 2_MiB);
    b.deallocate(s, p, 1_MiB);
    a.deallocate(s, q, 2_MiB);
    b = std::move(a);
    CHECK(b.usage().peak_live == 2_MiB);
}

TEST_CASE("pool: a wait of the host is counted, and a failed one leaves the statistics unchanged") {
    sim_node   node{{.capacity = 100_MiB}};
    sim_stream s;
    pool       mr{sim_resource{}, {.max_size = 64_MiB}};
    void*      p = mr.allocate(s, 64_MiB);
    sim_launch(s, {.name = "kernel", .writes = {{p, 64_MiB}}, .duration = 5ms});
    mr.deallocate(s, p, 64_MiB);
    mr.reset_peaks();
    memory_usage const before = mr.usage();
    node.faults().at(sim_call_kind::synchronize, 1);
    CHECK_THROWS_AS((void)mr.allocate_sync(32_MiB), sim_error);
    memory_usage const after = mr.usage();
    CHECK(after.live == 0);
    CHECK(after.peak_live == 0);
    CHECK(after.requested == 0);
    CHECK(after.allocations == before.allocations);
    CHECK(after.waits == before.waits);
    p = mr.allocate_sync(32_MiB);
    CHECK(mr.usage().waits == before.waits + 1);
    CHECK(mr.usage().peak_live == 32_MiB);
    mr.deallocate_sync(p, 32_MiB);
}

TEST_CASE("pool: the growth policy determines the size of chunks") {
    sim_node node{{.capacity = 1_GiB}};
    pool doubling{host_resource{}, {}, geometric_growth{.share = 1, .least = 1_MiB, .unit = 1_MiB}};
    void* blocks[4];
    for (auto& p : blocks) { p = doubling.allocate_sync(1_MiB); }
    CHECK(doubling.usage().reserved == 4_MiB); // 1, 1, 2
    for (auto* const p : blocks) { doubling.deallocate_sync(p, 1_MiB); }

    pool        stepwise{host_resource{}, {}, fixed_growth{.step = 3_MiB}};
    void* const q = stepwise.allocate_sync(1);
    CHECK(stepwise.usage().reserved == 3_MiB);
    void* const r = stepwise.allocate_sync(5_MiB);
    CHECK(stepwise.usage().reserved == 8_MiB);
    stepwise.deallocate_sync(q, 1);
    stepwise.deallocate_sync(r, 5_MiB);

    pool        half{sim_resource{}, {}, device_share_growth{.percent = 50}};
    void* const t = half.allocate_sync(1);
    CHECK(half.usage().reserved == 512_MiB);
    half.deallocate_sync(t, 1);
}

TEST_CASE("pool: if the policy exceeds the limit, the rest of the limit is one chunk") {
    sim_node node{{.capacity = 1_GiB}};
    pool     half{sim_resource{}, {.max_size = 64_MiB}, device_share_growth{}};
    void*    out[100];
    for (auto& p : out) { p = half.allocate_sync(100); }
    CHECK(half.usage().reserved == 64_MiB);
    CHECK(half.usage().upstream == 1);
    for (auto* const p : out) { half.deallocate_sync(p, 100); }

    pool        in_steps{host_resource{}, {.max_size = 5_MiB + 100}, fixed_growth{.step = 3_MiB}};
    void* const a = in_steps.allocate_sync(1);
    void* const b = in_steps.allocate_sync(2_MiB);
    CHECK(in_steps.usage().reserved == 5_MiB);
    CHECK(in_steps.try_allocate_sync(3_MiB) == nullptr);
    in_steps.deallocate_sync(a, 1);
    in_steps.deallocate_sync(b, 2_MiB);

    pool        paged{sim_virtual_resource{{.handle_size = 2_MiB}},
                      {.max_size = 9_MiB},
               fixed_growth{.step = 16_MiB}};
    void* const c = paged.allocate_sync(1);
    CHECK(paged.usage().reserved == 8_MiB); // whole pages
    paged.deallocate_sync(c, 1);
}

TEST_CASE("pool: if the upstream refuses a large chunk, a smaller one is requested") {
    pool        mr{limiting{host_resource{}, 3_MiB}}; // the policy asks for 20
    void* const p = mr.allocate_sync(1_MiB);
    CHECK(mr.usage().reserved >= 1_MiB);
    CHECK(mr.usage().reserved <= 3_MiB);
    mr.deallocate_sync(p, 1_MiB);
}

TEST_CASE("pool: memory that a capture freed is not reused until the graphs are forgotten") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream s, other;
    pool       mr{sim_resource{}, {.initial_size = 2_MiB, .max_size = 2_MiB, .graphs = true}};
    sim_graph::begin(s);
    void* const p = mr.allocate(s, 2_MiB);
    mr.deallocate(s, p, 2_MiB);
    void* const q = mr.allocate(s, 2_MiB); // the capture's own
    CHECK(q == p);
    mr.deallocate(s, q, 2_MiB);
    sim_graph const graph = sim_graph::end(s);
    CHECK(mr.try_allocate(other, 1_MiB) == nullptr);
    CHECK(mr.try_allocate_sync(1_MiB) == nullptr);
    CHECK(mr.trim() == 0);
    mr.forget_captures();
    void* const r = mr.allocate(other, 2_MiB);
    mr.deallocate(other, r, 2_MiB);
}

TEST_CASE("pool: forget_captures waits for uses beside the graph") {
    for (bool const graph_first : {true, false}) {
        sim_node    node{{.on_report = sim_on_report::collect}};
        sim_stream  s, other;
        pool        mr{sim_resource{}, {.initial_size = 2_MiB, .max_size = 2_MiB, .graphs = true}};
        void* const a = mr.allocate(s, 1_MiB);
        void* const b = mr.allocate(s, 1_MiB); // its neighbour
        use(s, a, 1_MiB);
        if (!graph_first) { mr.deallocate(s, a, 1_MiB); }
        sim_graph::begin(s);
        mr.deallocate(s, b, 1_MiB);
        sim_graph const graph = sim_graph::end(s);
        if (graph_first) { mr.deallocate(s, a, 1_MiB); }
        mr.forget_captures();
        void* const c = mr.allocate(other, 1_MiB);
        void* const d = mr.allocate(other, 1_MiB);
        use(other, c, 1_MiB);
        use(other, d, 1_MiB);
        mr.deallocate(other, c, 1_MiB);
        mr.deallocate(other, d, 1_MiB);
        s.synchronize();
        other.synchronize();
        CHECK(node.reports().empty());
    }
}

TEST_CASE("pool: memory that a stream used before a capture can be used after it, behind a wait") {
    for (bool const forgets : {false, true}) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream s, other;
        pool       mr{sim_resource{}, {.initial_size = 2_MiB, .max_size = 2_MiB, .graphs = true}};
        void*      p = mr.allocate(s, 2_MiB);
        use(s, p, 2_MiB);
        mr.deallocate(s, p, 2_MiB);
        sim_graph::begin(s);
        // The progress of a captured stream is unknown.
        CHECK(mr.try_allocate(other, 2_MiB) == nullptr);
        CHECK(mr.try_allocate_sync(2_MiB) == nullptr);
        CHECK(mr.trim() == 0);
        sim_graph const graph = sim_graph::end(s);
        if (forgets) { mr.forget_captures(); } // the block does not belong to a graph
        p = mr.allocate(other, 2_MiB);
        use(other, p, 2_MiB);
        mr.deallocate(other, p, 2_MiB);
        s.synchronize();
        other.synchronize();
        CHECK(node.reports().empty());
    }
}

TEST_CASE("pool: graph-retained memory stays so if a later capture's block is freed outside") {
    for (int const how : {0, 1, 2, 3}) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream s, other, third;
        pool       mr{sim_resource{}, {.initial_size = 4_MiB, .max_size = 4_MiB, .graphs = true}};
        sim_graph::begin(s);
        void* p = mr.allocate(s, 2_MiB);
        mr.deallocate(s, p, 2_MiB);
        sim_graph const first = sim_graph::end(s);
        sim_graph::begin(s);
        p = mr.allocate(s, 3_MiB); // also of memory that no graph uses
        use(s, p, 3_MiB);
        sim_graph second = sim_graph::end(s);
        second.launch(s);
        s.synchronize();
        auto const usual = mr.usage().allocations;
        switch (how) {
        case 0: mr.deallocate(s, p, 3_MiB); break;
        case 1: mr.deallocate(other, p, 3_MiB); break;
        case 2: mr.deallocate_sync(p, 3_MiB); break;
        default: break;
        }
        if (how != 3) {
            CHECK(mr.try_allocate(third, 2_MiB + 256) == nullptr); // the first graph may run again
            // Also on its own stream, which would have to wait.
            CHECK(mr.try_allocate(s, 2_MiB + 256) == nullptr);
            CHECK(mr.try_allocate_sync(2_MiB + 256) == nullptr);
            void* const rest = mr.allocate(third, 2_MiB);
            mr.deallocate(third, rest, 2_MiB);
            sim_graph::begin(s);
            CHECK(mr.try_allocate(s, 2_MiB) == p); // but a capture of that stream may use it
            mr.deallocate(s, p, 2_MiB);
            (void)sim_graph::end(s);
            CHECK(mr.usage().allocations == usual + 2);
        }
        mr.forget_captures();
        if (how == 3) { mr.deallocate(s, p, 3_MiB); }
        p = mr.allocate(third, 4_MiB);
        mr.deallocate(third, p, 4_MiB);
        CHECK(mr.trim() == 4_MiB);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("pool: forget_captures waits for streams that use the graph's memory outside captures") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream s, other, third;
    pool       mr{sim_resource{}, {.initial_size = 2_MiB, .max_size = 2_MiB, .graphs = true}};
    sim_graph::begin(s);
    void* p = mr.allocate(s, 2_MiB);
    mr.deallocate(s, p, 2_MiB);
    sim_graph const first = sim_graph::end(s);
    sim_graph::begin(s);
    p                      = mr.allocate(s, 2_MiB);
    sim_graph const second = sim_graph::end(s);
    use(other, p, 2_MiB);
    mr.deallocate(other, p, 2_MiB);
    sim_graph::begin(s);
    CHECK(mr.try_allocate(s, 1_MiB) == nullptr); // a graph may run before that is done
    (void)sim_graph::end(s);
    mr.forget_captures();
    p = mr.allocate(third, 2_MiB);
    use(third, p, 2_MiB);
    mr.deallocate(third, p, 2_MiB);
    third.synchronize();
    CHECK(node.reports().empty());
}

TEST_CASE("pool: it forwards forget_captures to the upstream") {
    pool mr{doubles::archetype<>{}};
    mr.forget_captures();
    CHECK(mr.upstream().forgotten() == 1);
}

TEST_CASE("pool: it forwards retire to the upstream") {
    pool mr{doubles::archetype<>{}};
    mr.retire({});
    CHECK(mr.upstream().retired() == 1);
}

TEST_CASE("pool: no operation breaks a capture") {
    laws::captures_go_on([](event_policy events, bool graphs) {
        return pool{sim_resource{} | with::stream_ordered,
                    {.max_size = 8_MiB, .events = events, .graphs = graphs},
                    fixed_growth{.step = 2_MiB}};
    });
    laws::captures_go_on([](event_policy events, bool graphs) {
        return tight(sim_resource{}, {.max_size = 8_MiB, .events = events, .graphs = graphs});
    });
}

TEST_CASE("pool: a capture gets no memory that its stream freed before the capture") {
    sim_node   node;
    sim_stream s;
    pool       mr{sim_resource{}, {.initial_size = 6_MiB, .max_size = 6_MiB, .graphs = true}};
    void*      p    = mr.allocate(s, 2_MiB);
    void*      next = mr.allocate(s, 1_MiB);
    use(s, p, 2_MiB);
    mr.deallocate(s, p, 2_MiB);
    sim_graph::begin(s);
    void* const q = mr.allocate(s, 2_MiB); // a graph may run before that is done
    CHECK(q != p);
    mr.deallocate(s, q, 2_MiB);
    sim_graph const graph = sim_graph::end(s);
    mr.deallocate(s, next, 1_MiB);
}

TEST_CASE("pool: a captured stream neither queries other streams nor waits for them") {
    sim_node   node;
    sim_stream s, other;
    pool       mr{sim_resource{},
                  {.max_size = 4_MiB, .events = event_policy::eager, .graphs = true},
            fixed_growth{.step = 2_MiB}};
    void*      p = mr.allocate(other, 2_MiB);
    use(other, p, 2_MiB);
    mr.deallocate(other, p, 2_MiB);
    sim_graph::begin(s, sim_capture_mode::relaxed); // a mode in which queries are permitted
    auto const          before = node.now();
    std::uint64_t const asked  = node.faults().calls(sim_call_kind::query);
    void* const         q      = mr.allocate(s, 2_MiB);
    CHECK(q != p);
    CHECK(mr.try_allocate(s, 2_MiB) == nullptr);
    CHECK(node.faults().calls(sim_call_kind::query) == asked);
    CHECK(node.now() == before);
    mr.deallocate(s, q, 2_MiB);
    sim_graph const graph = sim_graph::end(s);
}

TEST_CASE("pool: a captured stream waits for no other, also with `graphs` off") {
    sim_node   node;
    sim_stream s, other;
    pool       mr{sim_resource{}, {.max_size = 4_MiB}, fixed_growth{.step = 2_MiB}};
    void*      p = mr.allocate(other, 2_MiB);
    use(other, p, 2_MiB);
    mr.deallocate(other, p, 2_MiB);
    sim_graph::begin(s, sim_capture_mode::relaxed);
    void* const q = mr.allocate(s, 2_MiB);
    CHECK(q != p);
    CHECK(mr.usage().waits == 0);
    sim_graph const graph = sim_graph::end(s);
    mr.deallocate(s, q, 2_MiB);
}

TEST_CASE("pool: memory kept for a graph stays kept if its capture reuses and frees it") {
    sim_node    node;
    sim_stream  s, other;
    pool        mr{sim_resource{}, {.initial_size = 2_MiB, .max_size = 2_MiB}};
    void* const kept    = mr.allocate(s, 1_MiB);
    void* const pending = mr.allocate(other, 1_MiB);
    sim_graph::begin(s, sim_capture_mode::relaxed);
    use(s, kept, 1_MiB); // a node of the graph
    mr.deallocate(s, kept, 1_MiB);
    CHECK(mr.try_allocate(other, 1_MiB) == nullptr); // from now on, the block is kept for the graph
    use(other, pending, 1_MiB);
    mr.deallocate(other, pending, 1_MiB);
    CHECK(mr.allocate(s, 1_MiB) == kept);
    mr.deallocate(s, kept, 1_MiB);
    sim_graph const graph = sim_graph::end(s);
    CHECK(mr.allocate(s, 1_MiB) == pending);
    CHECK(mr.try_allocate(s, 1_MiB) == nullptr); // the block belongs to the graph
    mr.forget_captures();
    CHECK(mr.allocate(s, 1_MiB) == kept);
    mr.deallocate(s, kept, 1_MiB);
    mr.deallocate(s, pending, 1_MiB);
}

TEST_CASE(
    "pool: after any failed platform call nothing is lost, and no stream gets memory too early") {
    laws::survives_platform_faults(
        [](event_policy events) { return tight(sim_resource{}, {.events = events}); },
        [](auto& mr, sim_stream_view a, sim_stream_view b) {
            laws::take_turns(mr, a, b, {1_MiB, 1_MiB, 3_MiB, 2_MiB});
        });
}

TEST_CASE("pool: it passes ten thousand random operations on sixteen streams") {
    laws::random_streams({101, 102},
                         {.room = 48_MiB, .largest = 1_MiB, .operations = 5000, .may_refuse = true},
                         [] { return pool{sim_resource{}, {.max_size = 64_MiB}}; });
}

TEST_CASE("pool: an impossible initial size is refused by the constructor") {
    auto* const       somewhere = reinterpret_cast<void*>(std::uintptr_t{1} << 40);
    std::size_t const huge      = std::size_t{1} << 60; // the region has that size, but no bin has
    CHECK_THROWS_AS((pool{region_resource<>{somewhere, huge}, {.initial_size = huge}}),
                    out_of_memory);
}

TEST_CASE("pool: trim returns the bytes that really left, also if the upstream cached them") {
    pool<pool<host_resource>> mr; // not `pool{pool{...}}`, which is a copy of one
    void* const               p = mr.allocate_sync(1_MiB);
    mr.deallocate_sync(p, 1_MiB);
    std::size_t const held = mr.upstream().usage().reserved;
    CHECK(held != 0);
    CHECK(mr.trim() == held);
    CHECK(mr.upstream().usage().reserved == 0);
}

TEST_CASE("pool: it frees idle chunks before a new peak of reserved bytes, and else keeps them") {
    sim_node    node;
    auto        mr = tight(sim_resource{});
    void* const p  = mr.allocate_sync(2_MiB);
    void*       q  = mr.allocate_sync(3_MiB);
    mr.deallocate_sync(q, 3_MiB);
    // Three idle MiB and four new ones would exceed the peak of five.
    void* r = mr.allocate_sync(4_MiB);
    CHECK(mr.usage().reserved == 6_MiB);
    q = mr.allocate_sync(3_MiB);
    CHECK(mr.usage().peak_reserved == 9_MiB);
    mr.deallocate_sync(r, 4_MiB);
    CHECK(mr.trim() == 4_MiB);
    mr.deallocate_sync(q, 3_MiB);
    r = mr.allocate_sync(4_MiB); // nine MiB again, and no more
    CHECK(mr.usage().reserved == 9_MiB);
    mr.deallocate_sync(r, 4_MiB);
    // With one of the two idle chunks it would be ten MiB.
    void* const more = mr.allocate_sync(5_MiB);
    CHECK(mr.usage().reserved == 7_MiB);
    mr.deallocate_sync(more, 5_MiB);
    mr.deallocate_sync(p, 2_MiB);
}

TEST_CASE("pool: up to its peak of reserved bytes it keeps idle chunks, however little is live") {
    sim_node    node;
    auto        mr = tight(sim_resource{});
    void* const p  = mr.allocate_sync(2_MiB);
    void*       q  = mr.allocate_sync(3_MiB);
    void*       r  = mr.allocate_sync(4_MiB); // nine are held
    mr.deallocate_sync(q, 3_MiB);
    mr.deallocate_sync(r, 4_MiB);
    CHECK(mr.trim() == 7_MiB);
    // Otherwise an eighth more than that could stay reserved.
    CHECK(mr.reset_peaks().peak_live == 9_MiB);
    q = mr.allocate_sync(3_MiB);
    mr.deallocate_sync(q, 3_MiB);
    r = mr.allocate_sync(4_MiB);
    CHECK(mr.usage().reserved == 9_MiB);
    mr.deallocate_sync(r, 4_MiB);
    mr.deallocate_sync(p, 2_MiB);
}

TEST_CASE("pool: growth above the peak of reserved bytes waits for no stream") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    sim_stream  a, b;
    auto        mr = tight(sim_resource{});
    void* const p  = mr.allocate(a, 2_MiB);
    use(a, p, 2_MiB);
    mr.deallocate(a, p, 2_MiB);
    void* const q = mr.allocate(b, 3_MiB); // the idle chunk is still in use
    CHECK(mr.usage().reserved == 5_MiB);
    sim_platform::synchronize(a.view());
    void* const r = mr.allocate(b, 4_MiB); // now it is not
    CHECK(mr.usage().reserved == 7_MiB);
    CHECK(node.figures().used == 7_MiB);
    mr.deallocate(b, r, 4_MiB);
    mr.deallocate(b, q, 3_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE(
    "pool: to stay within its peak of reserved bytes, it frees no more idle chunks than needed") {
    sim_node   node;
    sim_stream s;
    auto       mr = tight(sim_resource{});
    void*      out[3];
    for (auto& p : out) { p = mr.allocate(s, 4_MiB); }
    for (void* const p : out) { mr.deallocate(s, p, 4_MiB); }
    s.synchronize();
    void* const large = mr.allocate(s, 8_MiB); // no chunk is that large
    CHECK(mr.usage().reserved == 12_MiB);
    mr.deallocate(s, large, 8_MiB);
}

TEST_CASE("pool: a large block is not split while a better fit of another stream may be complete") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    sim_stream  a, b;
    auto        mr      = tight(sim_resource{});
    void* const tighter = mr.allocate(a, 4_MiB);
    void* const large   = mr.allocate(b, 16_MiB);
    mr.deallocate(a, tighter, 4_MiB);
    mr.deallocate(b, large, 16_MiB);
    void* const first = mr.allocate(b, 3_MiB);
    CHECK(first == tighter); // the work was not known to be complete
    CHECK(mr.usage().waits == 0);
    mr.deallocate(b, first, 3_MiB);
    void* const again = mr.allocate(a, 3_MiB);
    CHECK(again == tighter);
    use(a, again, 3_MiB);
    mr.deallocate(a, again, 3_MiB);
    void* const cut = mr.allocate(b, 3_MiB);
    CHECK(cut == large); // it is ready
    use(b, cut, 3_MiB);
    CHECK(mr.usage().waits == 0);
    mr.deallocate(b, cut, 3_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("pool: a captured stream does not query for a better fit") {
    sim_node    node;
    sim_stream  a, b;
    auto        mr      = tight(sim_resource{});
    void* const tighter = mr.allocate(a, 4_MiB);
    void* const large   = mr.allocate(b, 16_MiB);
    mr.deallocate(a, tighter, 4_MiB);
    mr.deallocate(b, large, 16_MiB);
    sim_graph::begin(b);
    void* const p = mr.allocate(b, 3_MiB);
    CHECK(p == large);
    CHECK(mr.usage().events == 0);
    CHECK(sim_graph::end(b).size() == 0);
    mr.deallocate(b, p, 3_MiB);
}

TEST_CASE("pool: before it grows, it queries several streams") {
    sim_node   node;
    sim_stream streams[16], last;
    auto       mr = tight(sim_resource{}, {.initial_size = 4_MiB});
    void*      pieces[16];
    for (int i = 0; i < 16; ++i) { pieces[i] = mr.allocate(streams[i], 256_KiB); }
    for (int i = 0; i < 16; ++i) { mr.deallocate(streams[i], pieces[i], 256_KiB); }
    void* const all = mr.allocate(last, 4_MiB); // more streams than the uses of one block can name
    CHECK(mr.usage().reserved == 4_MiB);
    CHECK(mr.usage().waits == 0);
    mr.deallocate(last, all, 4_MiB);
}

TEST_CASE("pool: up to an eighth above the peak of live bytes no chunk is freed for another") {
    sim_node   node;
    sim_stream s;
    auto       mr = tight(sim_resource{});
    void*      out[12];
    for (auto& p : out) { p = mr.allocate(s, 4_MiB); }
    mr.deallocate(s, out[0], 4_MiB);
    s.synchronize();
    void* const five = mr.allocate(s, 5_MiB);
    CHECK(mr.usage().reserved == 53_MiB); // of 54
    mr.deallocate(s, out[1], 4_MiB);
    s.synchronize();
    void* const six = mr.allocate(s, 6_MiB);
    CHECK(mr.usage().reserved == 51_MiB); // 53 were reserved before: both idle chunks were freed
    mr.deallocate(s, five, 5_MiB);
    mr.deallocate(s, six, 6_MiB);
    for (int i = 2; i < 12; ++i) { mr.deallocate(s, out[i], 4_MiB); }
}

TEST_CASE("pool: before a refusal it uses small free blocks, coalesced once complete") {
    sim_node    node;
    sim_stream  streams[24], last;
    pool        mr{sim_resource{}, {.max_size = 4_MiB}, fixed_growth{.step = 4_MiB}};
    void* const small = mr.allocate_sync(256);
    void*       pieces[24];
    for (int i = 0; i < 24; ++i) {
        pieces[i] = mr.allocate(streams[i], 128_KiB);
        use(streams[i], pieces[i], 128_KiB);
    }
    for (int i = 0; i < 24; ++i) { mr.deallocate(streams[i], pieces[i], 128_KiB); }
    void* const large = mr.try_allocate(last, 3_MiB);
    CHECK(large != nullptr);
    mr.deallocate(last, large, 3_MiB);
    mr.deallocate_sync(small, 256);
}

TEST_CASE("pool: small and large blocks have separate chunks while memory suffices") {
    pool        mr{host_resource{}, {.max_size = 8_MiB}, fixed_growth{.step = 4_MiB}};
    void* const small = mr.allocate_sync(256);
    void* const large = mr.allocate_sync(2_MiB);
    CHECK(mr.usage().reserved == 8_MiB);
    void* const second = mr.allocate_sync(2_MiB);
    // The chunk for large blocks is full, so one for small blocks is used.
    void* const third = mr.allocate_sync(2_MiB);
    CHECK(mr.usage().reserved == 8_MiB);
    CHECK(mr.try_allocate_sync(2_MiB) == nullptr);
    void* const rest      = mr.allocate_sync(1_MiB); // with the small ones
    void* const tight_fit = mr.allocate_sync(1_MiB - 256);
    CHECK(mr.try_allocate_sync(256) == nullptr);
    mr.deallocate_sync(second, 2_MiB);
    void* const guest = mr.allocate_sync(256); // a small one in a hole of the large ones
    CHECK(guest == second);
    CHECK(mr.usage().reserved == 8_MiB);
    CHECK(mr.usage().live == 6_MiB + 256);
    mr.deallocate_sync(guest, 256);
    CHECK(mr.usage().largest_free == 2_MiB);
    mr.deallocate_sync(small, 256);
    mr.deallocate_sync(large, 2_MiB);
    mr.deallocate_sync(third, 2_MiB);
    mr.deallocate_sync(rest, 1_MiB);
    mr.deallocate_sync(tight_fit, 1_MiB - 256);
    CHECK(mr.trim() == 8_MiB);
}

TEST_CASE("pool: it has numbers for fragmentation, and the peak of a scope") {
    static_assert(resettable_peaks<pool<host_resource>>);
    static_assert(resettable_peaks<pool<sim_virtual_resource>>);
    pool        mr{host_resource{}, {.initial_size = 8_MiB}};
    void* const p = mr.allocate_sync(2_MiB);
    void* const q = mr.allocate_sync(2_MiB - 100);
    mr.deallocate_sync(p, 2_MiB);
    free_pieces const free = mr.free_memory();
    CHECK(free.bytes == 6_MiB);
    CHECK(free.largest == 4_MiB);
    CHECK(free.releasable == 0);
    fragmentation const f{mr.usage(), free};
    CHECK(f.unused == 0.5);
    CHECK(f.scattered == doctest::Approx(1.0 / 3));
    CHECK(f.holes == doctest::Approx((4.0 + 16.0) / 64));
    CHECK(f.stranded == 6_MiB);
    CHECK(f.rounding == 100);
    {
        peak_scope const outer{mr};
        CHECK(outer.live() == 2_MiB);
        mr.deallocate_sync(mr.allocate_sync(1_MiB), 1_MiB);
        {
            peak_scope const inner{mr};
            CHECK(inner.live() == 2_MiB);
        }
        CHECK(outer.live() == 3_MiB);
        {
            peak_scope const inner{mr};
            mr.deallocate_sync(mr.allocate_sync(256), 256);
            CHECK(inner.live() == 2_MiB + 256);
            void* const far = mr.allocate_sync(9_MiB);
            mr.deallocate_sync(far, 9_MiB);
            mr.trim();
            CHECK(inner.reserved() >= 17_MiB);
        }
        CHECK(outer.live() == 11_MiB);
        CHECK(outer.reserved() >= 17_MiB);
    }
    memory_usage const before = mr.reset_peaks();
    CHECK(before.live == 2_MiB);
    CHECK(before.peak_live == 11_MiB);
    CHECK(mr.usage().peak_live == 2_MiB);
    CHECK(mr.usage().peak_reserved == 8_MiB);
    mr.deallocate_sync(q, 2_MiB - 100);
    CHECK(mr.free_memory().releasable == 8_MiB);
}

TEST_CASE("pool: a failed wait loses no memory, even if other threads used up the descriptors") {
    sim_node           node{{.on_report = sim_on_report::collect}};
    sim_stream         a, b;
    pool               mr{sim_resource{}, {.initial_size = 4_MiB, .max_size = 4_MiB}};
    void* const        first  = mr.allocate_sync(1536_KiB);
    void* const        second = mr.allocate_sync(1536_KiB);
    std::vector<void*> pieces; // groups of four: of a, in between, of b, and a separator
    for (int i = 0; i < 800; ++i) { pieces.push_back(mr.allocate_sync(256)); }
    use(a, first, 1536_KiB, 5ms);
    use(b, second, 1536_KiB, 5ms);
    for (std::size_t i = 0; i < pieces.size(); i += 4) {
        mr.deallocate(a, pieces[i], 256);
        mr.deallocate(b, pieces[i + 2], 256);
    }
    mr.deallocate(a, first, 1536_KiB);
    mr.deallocate(b, second, 1536_KiB);
    // The pieces are one block with pending uses of both streams.
    CHECK(mr.usage().largest_free >= 3_MiB);
    node.faults().at(sim_call_kind::synchronize, 2);
    bool failed = false;
    {
        sim_thread waits{sim_device{}, [&] {
                             try {
                                 (void)mr.allocate_sync(3_MiB);
                             } catch (std::exception const&) { failed = true; }
                         }};
        sim_thread joins{sim_device{}, [&] {
                             sim_work(1ms);
                             for (std::size_t i = 1; i < pieces.size(); i += 4) {
                                 mr.deallocate_sync(pieces[i], 256);
                             }
                         }};
    }
    CHECK((failed || !sim_ordered_threads));
    node.faults().clear();
    CHECK(mr.usage().live == 200 * 256);
    CHECK((mr.usage().allocations == 802 || !sim_ordered_threads));
    void* const q = mr.allocate(a, 3_MiB); // the next request waits for the rest
    use(a, q, 3_MiB);
    mr.deallocate(a, q, 3_MiB);
    for (std::size_t i = 3; i < pieces.size(); i += 4) { mr.deallocate_sync(pieces[i], 256); }
    void* const p = mr.allocate_sync(4_MiB);
    use(a, p, 4_MiB);
    mr.deallocate(a, p, 4_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("pool: a captured stream also gets free memory from chunks for other sizes") {
    sim_node node;
    pool     mr{sim_resource{}, {.max_size = 4_MiB, .graphs = true}, fixed_growth{.step = 4_MiB}};
    void* const large = mr.allocate_sync(2_MiB);
    sim_stream  s;
    sim_graph::begin(s);
    void* const small = mr.try_allocate(s, 256);
    CHECK(small != nullptr);
    sim_graph const graph = sim_graph::end(s);
    mr.deallocate_sync(small, 256);
    mr.deallocate_sync(large, 2_MiB);
}

TEST_CASE("pool: chunks with too many pieces to coalesce are freed once the streams are done") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream streams[16], last;
    pool       mr{sim_resource{}, {.initial_size = 16_MiB, .max_size = 20_MiB}};
    void*      blocks[16];
    for (int i = 0; i < 16; ++i) {
        blocks[i] = mr.allocate(streams[i], 1_MiB);
        use(streams[i], blocks[i], 1_MiB);
    }
    for (int i = 0; i < 16; ++i) { mr.deallocate(streams[i], blocks[i], 1_MiB); }
    void* const p = mr.try_allocate(last, 18_MiB); // all is free, in one chunk that is too small
    CHECK(p != nullptr);
    CHECK(mr.usage().reserved == 18_MiB);
    use(last, p, 18_MiB);
    mr.deallocate(last, p, 18_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("pool: it is correct for two streams with six operations each, in every order") {
    for (event_policy const events : {event_policy::lazy, event_policy::eager}) {
        laws::every_interleaving(
            [=] { return pool{sim_resource{}, {.max_size = 12_MiB, .events = events}}; }, 8_MiB);
    }
}

TEST_CASE("pool: it can tell if a stream could get memory without a wait, with its alignment") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    sim_stream  a, b;
    pool        mr{sim_resource{}, {.initial_size = 8_MiB}};
    void* const p = mr.try_allocate_ready(a, 4_MiB, 2_MiB);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 2_MiB == 0);
    void* const q = mr.try_allocate_ready(a, 2_MiB);
    doubles::busy(a, p, 4_MiB, 5ms);
    mr.deallocate(a, p, 4_MiB, 2_MiB);
    CHECK(mr.try_allocate_ready(b, 4_MiB) == nullptr); // which would wait
    CHECK(mr.try_allocate_ready(a, 0) == nullptr);
    CHECK(mr.try_allocate_ready(a, unsatisfiable) == nullptr);
    CHECK(mr.try_allocate_ready(a, 256, 3) == nullptr);
    CHECK(mr.usage().waits == 0);
    CHECK(mr.usage().live == 2_MiB);
    a.synchronize();
    void* const r = mr.try_allocate_ready(b, 4_MiB); // the stream was queried
    CHECK(r != nullptr);
    CHECK(mr.usage().waits == 0);
    mr.deallocate(b, r, 4_MiB);
    mr.deallocate(a, q, 2_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("pool over a pool: it uses ready memory of the upstream before a stream waits") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream a, b, c;
    pool<pool<stream_ordered<sim_resource>>, exact_growth> mr{
        pool{stream_ordered{sim_resource{}}, {.initial_size = 4_MiB, .max_size = 4_MiB}}};
    void* const p = mr.allocate(a, 1_MiB);
    doubles::busy(a, p, 1_MiB, 5ms);
    mr.deallocate(a, p, 1_MiB);
    void* const q = mr.allocate(b, 1_MiB);
    CHECK(q != p);
    CHECK(mr.usage().reserved == 2_MiB);
    CHECK(mr.usage().waits + mr.upstream().usage().waits == 0);
    CHECK(mr.usage().events == 1); // the event by which the stream was queried
    CHECK(mr.upstream().usage().events == 0);
    doubles::busy(b, q, 1_MiB);
    void* const rest = mr.upstream().allocate(b, 2_MiB);
    void* const r    = mr.allocate(c, 1_MiB); // the upstream has no memory left
    CHECK(r == p);
    CHECK(mr.usage().waits == 1);
    doubles::busy(c, r, 1_MiB);
    mr.deallocate(c, r, 1_MiB);
    mr.deallocate(b, q, 1_MiB);
    mr.upstream().deallocate(b, rest, 2_MiB);
    CHECK(mr.trim() == 4_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("pool over a pool: at its limit a stream waits, and so does the host") {
    sim_node                               node{{.on_report = sim_on_report::collect}};
    sim_stream                             a, b;
    pool<pool<sim_resource>, exact_growth> mr{pool{sim_resource{}, {.initial_size = 4_MiB}},
                                              {.max_size = 1_MiB}};
    void* const                            p = mr.allocate(a, 1_MiB);
    doubles::busy(a, p, 1_MiB, 5ms);
    mr.deallocate(a, p, 1_MiB);
    void* const q = mr.allocate(b, 1_MiB);
    CHECK(q == p);
    CHECK(mr.usage().waits == 1);
    CHECK(mr.upstream().usage().allocations == 1);
    doubles::busy(b, q, 1_MiB, 5ms);
    mr.deallocate(b, q, 1_MiB);
    auto const  before = node.now();
    void* const r      = mr.allocate_sync(1_MiB);
    CHECK(r == p);
    CHECK(node.now() - before >= 9ms);
    mr.deallocate_sync(r, 1_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE(
    "pool over a pool: it takes ready memory of the policy's size, or else of the needed size") {
    sim_node                               node{{.on_report = sim_on_report::collect}};
    sim_stream                             streams[3];
    pool<pool<sim_resource>, fixed_growth> mr{
        pool{sim_resource{}, {.initial_size = 5_MiB}}, {}, {.step = 2_MiB}};
    void*             blocks[3];
    std::size_t const held[]{2_MiB, 4_MiB, 5_MiB};
    for (int i = 0; i < 3; ++i) {
        blocks[i] = mr.allocate(streams[i], 1_MiB);
        doubles::busy(streams[i], blocks[i], 1_MiB, 5ms);
        CHECK(mr.usage().reserved == held[i]);
    }
    CHECK(mr.usage().waits == 0);
    for (int i = 0; i < 3; ++i) { mr.deallocate(streams[i], blocks[i], 1_MiB); }
    CHECK(node.reports().empty());
}

TEST_CASE("pool over a pool: it uses completed memory before it grows") {
    sim_node                               node{{.on_report = sim_on_report::collect}};
    sim_stream                             a, b;
    pool<pool<sim_resource>, exact_growth> mr{pool{sim_resource{}, {.initial_size = 4_MiB}}};
    void* const                            p = mr.allocate(a, 1_MiB);
    doubles::busy(a, p, 1_MiB, 5ms);
    mr.deallocate(a, p, 1_MiB);
    a.synchronize();
    void* const q = mr.allocate(b, 1_MiB);
    CHECK(q == p);
    CHECK(mr.usage().waits == 0);
    mr.deallocate(b, q, 1_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("pool over a pool: it loses nothing without host memory for a ready chunk") {
    for (std::uint64_t n = 1;; ++n) {
        sim_node node;
        // Receives the report that an event could not be created.
        doubles::mishaps const                 told;
        sim_stream                             a, b;
        pool<pool<sim_resource>, exact_growth> mr{pool{sim_resource{}, {.initial_size = 4_MiB}}};
        void* const                            p = mr.allocate(a, 1_MiB);
        doubles::busy(a, p, 1_MiB, 5ms);
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

TEST_CASE("pool over a pool: it returns a ready chunk in its stream's order") {
    for (std::uint64_t n = 1;; ++n) {
        sim_node               node{{.on_report = sim_on_report::collect}};
        doubles::mishaps const told;
        sim_stream             a, b, c;
        auto        mr = tight(pool{sim_resource{}, {.initial_size = 2_MiB, .max_size = 2_MiB}});
        void* const p  = mr.allocate(a, 1_MiB);
        void* const q  = mr.upstream().allocate(b, 1_MiB); // all the rest
        use(a, p, 1_MiB, 5ms);
        use(b, q, 1_MiB, 5ms); // unfinished when the block is freed
        mr.deallocate(a, p, 1_MiB);
        mr.upstream().deallocate(b, q, 1_MiB);
        doubles::bombing armed{n};
        void* const      r   = mr.try_allocate(b, 1_MiB);
        bool const       hit = armed.defuse();
        if (mr.usage().reserved == 1_MiB) { // it found no host memory
            void* const t = mr.upstream().allocate(c, 1_MiB);
            use(c, t, 1_MiB);
            mr.upstream().deallocate(c, t, 1_MiB);
        }
        mr.deallocate(b, r, 1_MiB);
        CHECK(node.reports().empty());
        if (!hit) { break; }
        REQUIRE(n < 100);
    }
}

TEST_CASE("pool over a pool: a ready chunk has the requested alignment") {
    sim_node               node;
    doubles::mishaps const told;
    sim_stream             a, b;
    auto                   mr  = tight(pool{sim_resource{}, {.initial_size = 8_MiB}});
    void* const            pad = mr.upstream().allocate(b, 256);
    void* const            p   = mr.allocate(a, 1_MiB, 2_MiB);
    use(a, p, 1_MiB, 5ms);
    mr.deallocate(a, p, 1_MiB, 2_MiB);
    void* const q = mr.allocate(b, 1_MiB, 2_MiB);
    CHECK(q != p);
    CHECK(reinterpret_cast<std::uintptr_t>(q) % 2_MiB == 0);
    mr.deallocate(b, q, 1_MiB, 2_MiB);
    mr.upstream().deallocate(b, pad, 256);
    CHECK(mr.trim() == 8_MiB);
    CHECK(told.count() == 0);
}

TEST_CASE("pool over a pool: a captured stream's frees stay if they meet a request") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    sim_stream  a, b, c;
    auto        mr = tight(pool{sim_resource{}, {.initial_size = 32_MiB}});
    void* const p  = mr.allocate(a, 2_MiB);
    void* const q  = mr.allocate(c, 3_MiB);
    use(c, q, 3_MiB);
    mr.deallocate(c, q, 3_MiB);
    c.synchronize();
    sim_graph::begin(a);
    use(a, p, 2_MiB);
    mr.deallocate(a, p, 2_MiB);            // the graph may use it each time that it runs
    void* const r = mr.allocate(b, 2_MiB); // first finds the block that cannot be waited for
    CHECK(r == q);                         // and then queries the other stream
    CHECK(mr.usage().reserved == 5_MiB);
    sim_graph graph = sim_graph::end(a);
    void*     rest[4];
    for (void*& t : rest) {
        t = mr.allocate(b, 2_MiB);
        CHECK(t != p);
        use(b, t, 2_MiB);
    }
    graph.launch(a);
    a.synchronize();
    for (void* const t : rest) { mr.deallocate(b, t, 2_MiB); }
    mr.deallocate(b, r, 2_MiB);
    b.synchronize();
    mr.forget_captures();
    CHECK(mr.trim() == 32_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("pool over a pool: it frees idle chunks before a ready chunk makes a new peak") {
    sim_node    node{{.on_report = sim_on_report::collect}};
    sim_stream  a, b;
    auto        mr = tight(pool{sim_resource{}, {.initial_size = 32_MiB}});
    void* const p  = mr.allocate(b, 2_MiB);
    void* const q  = mr.allocate(a, 4_MiB);
    mr.deallocate(b, p, 2_MiB);
    b.synchronize();
    use(a, q, 4_MiB, 5ms);
    mr.deallocate(a, q, 4_MiB);
    void* const r = mr.allocate(b, 4_MiB);
    CHECK(mr.usage().reserved == 8_MiB); // the small chunk was returned
    CHECK(mr.usage().waits == 0);
    use(b, r, 4_MiB);
    mr.deallocate(b, r, 4_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE(
    "pool over a pool: it asks once for ready memory of one size, and waits if there is none") {
    for (bool const fails : {false, true}) {
        sim_node    node;
        sim_stream  a, b;
        auto        mr = tight(doubles::lending_resource<pool<sim_resource>>{});
        void* const p  = mr.allocate(a, 2_MiB);
        use(a, p, 2_MiB, 5ms);
        mr.deallocate(a, p, 2_MiB);
        mr.upstream().fails = fails;
        void* const q       = mr.allocate(b, 2_MiB);
        CHECK(q == p);
        CHECK(mr.upstream().asked == 1);
        mr.deallocate(b, q, 2_MiB);
    }
}

TEST_CASE("pool: a block that the host waits for cannot be freed before it is handed out") {
    sim_node               node;
    doubles::mishaps const told;
    sim_stream             a, b;
    pool        mr{doubles::interrupted_memory{}, {.initial_size = 16_MiB}, exact_growth{}};
    void* const wall = mr.allocate_sync(2_MiB);
    void* const p    = mr.allocate_sync(14_MiB);
    use(a, p, 14_MiB, 5ms);
    mr.deallocate(a, p, 14_MiB);
    bool came                                = false;
    doubles::interrupted_platform::meanwhile = [&] {
        came = true;
        mr.deallocate(b, p, 14_MiB);
        CHECK(told.count(error_kind::double_free) == 1);
        CHECK(mr.usage().live == 2_MiB);
        CHECK(mr.usage().requested == 2_MiB);
        CHECK(mr.usage().largest_free == 0); // it is unavailable
        CHECK(mr.usage().pending == 0);
        CHECK(mr.free_memory() == free_pieces{});
    };
    CHECK(mr.allocate_sync(14_MiB) == p);
    CHECK(came);
    CHECK(mr.usage().live == 16_MiB);
    CHECK(mr.usage().allocations == 3);
    mr.deallocate_sync(p, 14_MiB);
    mr.deallocate_sync(wall, 2_MiB);
    CHECK(told.count() == 1);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("pool: try_allocate reuses cached blocks as allocate does") {
    sim_node                           node;
    sim_stream const                   s;
    pool<stream_ordered<sim_resource>> mr;
    void* const                        p = mr.allocate(s, 4096);
    mr.deallocate(s, p, 4096);
    CHECK(mr.try_allocate(s, 4096) == p);
    mr.deallocate(s, p, 4096);
}

// Pools over virtual memory: see also paged_base.cpp.

namespace {

using doubles::in_mode;
using doubles::page_modes;
using doubles::small_page;

template <growth Growth = exact_growth>
pool<sim_virtual_resource, Growth> of_small_pages(pool_options const& options, Growth policy = {}) {
    return pool<sim_virtual_resource, Growth>{
        sim_virtual_resource{{.reserve = 1 << 30, .handle_size = small_page}}, options, policy};
}

/// A policy that asks for no more than is needed, and that can be made to throw.
struct breaking_growth {
    static constexpr bool asks_device = false;

    bool const* broken = nullptr;

    [[nodiscard]] std::size_t operator()(growth_request const& wish) const {
        if (*broken) { throw std::runtime_error{"no policy"}; }
        return wish.needed;
    }
};

} // namespace

TEST_CASE("pool of pages: small and large blocks need two pages more than their bytes") {
    for (auto const mode : page_modes) {
        sim_node                                   node{doubles::small_pages(4096)};
        auto                                       mr = of_small_pages(in_mode(mode));
        std::vector<std::pair<void*, std::size_t>> live;
        std::size_t                                sum = 0;
        for (std::size_t i = 0; i < 400; ++i) {
            std::size_t const bytes = i % 8 == 0 ? 1_MiB + 256 * (i + 1) : 256 * (1 + i % 64);
            sum += bytes;
            live.emplace_back(mr.allocate_sync(bytes), bytes);
        }
        CHECK(mr.usage().reserved < sum + 2 * small_page);
        CHECK(mr.usage().reserved == node.figures().used);
        for (auto const& [p, bytes] : live) { mr.deallocate_sync(p, bytes); }
        CHECK(mr.free_memory().releasable == mr.usage().reserved);
        CHECK(mr.trim() == mr.usage().peak_reserved);
        CHECK(node.figures().used == 0);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("pool of pages: a limit that is no whole number of pages is not exceeded") {
    for (auto const mode : page_modes) {
        sim_node    node{doubles::small_pages(4096)};
        auto        mr = of_small_pages(in_mode(mode, {.max_size = 64 * small_page + 256}));
        void* const a  = mr.allocate_sync(32 * small_page);
        void* const b  = mr.allocate_sync(32 * small_page);
        CHECK(mr.usage().reserved == 64 * small_page);
        CHECK(mr.try_allocate_sync(256) == nullptr);
        CHECK_THROWS_AS((void)mr.allocate_sync(256), out_of_memory);
        CHECK_THROWS_AS((void)mr.allocate_sync(32 * small_page), out_of_memory);
        mr.deallocate_sync(b, 32 * small_page);
        void* const c = mr.allocate_sync(256); // in another chunk: a page of the first one is freed
        void* const d = mr.allocate_sync(31 * small_page);
        CHECK(mr.usage().reserved == 64 * small_page);
        CHECK(mr.usage().peak_reserved == 64 * small_page);
        CHECK(mr.try_allocate_sync(2 * small_page) == nullptr);
        mr.deallocate_sync(a, 32 * small_page);
        mr.deallocate_sync(c, 256);
        mr.deallocate_sync(d, 31 * small_page);
        mr.deallocate_sync(mr.allocate_sync(64 * small_page), 64 * small_page);
    }
}

TEST_CASE("pool of pages: an initial size whose pages exceed the limit is rounded down") {
    for (auto const mode : page_modes) {
        sim_node           node{doubles::small_pages(4096)};
        pool_options const options{.initial_size = small_page + 256, .max_size = small_page + 256};
        CHECK(of_small_pages(in_mode(mode, options)).usage().reserved == small_page);
        pool_options const tiny{.initial_size = 256, .max_size = small_page - 256};
        CHECK_THROWS_AS((void)of_small_pages(in_mode(mode, tiny)), out_of_memory);
        CHECK(node.figures().used == 0);
    }
    pool const plain{host_resource{}, {.initial_size = 1000, .max_size = 1000}};
    CHECK(plain.usage().reserved == 768);
}

TEST_CASE("pool of pages: pending uses of a chunk's end delay no request for the rest of it") {
    for (auto const mode : page_modes) {
        sim_node    node{doubles::small_pages(4096)};
        sim_stream  a, b;
        auto        mr = of_small_pages(in_mode(mode, {.initial_size = 8 * small_page}));
        void* const p  = mr.allocate(a, 2 * small_page);
        use(a, p, 2 * small_page);
        mr.deallocate(a, p, 2 * small_page);
        CHECK(mr.usage().largest_free == 8 * small_page);
        void* const q = mr.allocate(b, 6 * small_page);
        use(b, q, 6 * small_page);
        CHECK(mr.usage().waits == 0);
        CHECK(mr.usage().events == 0);
        CHECK(mr.usage().reserved == 8 * small_page);
        mr.deallocate(b, q, 6 * small_page);
        void* const r = mr.allocate(b, 10 * small_page); // its own pages, and two new ones
        use(b, r, 10 * small_page);
        mr.deallocate(b, r, 10 * small_page);
        CHECK(mr.usage().reserved == 10 * small_page);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("pool of pages: memory that a graph retains stays out of reach until it is forgotten") {
    for (auto const mode : page_modes) {
        sim_node   node{doubles::small_pages(4096)};
        sim_stream s, other;
        auto mr = of_small_pages(in_mode(mode, {.initial_size = 8 * small_page, .graphs = true}));
        sim_graph::begin(s);
        void* const p = mr.allocate(s, 2 * small_page);
        mr.deallocate(s, p, 2 * small_page);
        sim_graph const graph = sim_graph::end(s);
        void* const     q     = mr.allocate(other, 6 * small_page);
        CHECK(mr.usage().reserved == 8 * small_page);
        mr.deallocate(other, q, 6 * small_page);
        CHECK_FALSE((q < static_cast<std::byte*>(p) + 2 * small_page && p <= q));
        void* const r = mr.allocate(other, 8 * small_page); // not the pages of the graph
        CHECK(mr.usage().reserved > 8 * small_page);
        use(other, r, 8 * small_page);
        mr.deallocate(other, r, 8 * small_page);
        mr.forget_captures();
        auto const  reserved = mr.usage().reserved;
        void* const all      = mr.allocate(other, reserved - 8 * small_page);
        CHECK(mr.usage().reserved == reserved);
        mr.deallocate(other, all, reserved - 8 * small_page);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("pool of pages: a captured stream gets new memory rather than wait for another") {
    for (auto const mode : page_modes) {
        for (bool const graphs : {false, true}) {
            sim_node   node{doubles::small_pages(4096)};
            sim_stream s, other;
            auto       mr =
                of_small_pages(in_mode(mode, {.initial_size = 4 * small_page, .graphs = graphs}));
            void* const p = mr.allocate(other, 4 * small_page);
            use(other, p, 4 * small_page);
            mr.deallocate(other, p, 4 * small_page);
            sim_graph::begin(s);
            void* const     q     = mr.allocate(s, 6 * small_page);
            sim_graph const graph = sim_graph::end(s);
            CHECK(mr.usage().reserved == 10 * small_page);
            CHECK(mr.usage().waits == 0);
            mr.deallocate_sync(q, 6 * small_page);
            CHECK(node.reports().empty());
        }
    }
}

TEST_CASE("pool of pages: a growth policy that throws leaves the chunk as it was, free to grow") {
    for (auto const mode : page_modes) {
        if (mode == doubles::page_mode::moved) { continue; } // takes no more than is needed
        sim_node    node{doubles::small_pages(4096)};
        bool        broken = false;
        auto        mr     = of_small_pages(in_mode(mode), breaking_growth{&broken});
        void* const p      = mr.allocate_sync(2_MiB);
        broken             = true;
        CHECK_THROWS_AS((void)mr.allocate_sync(2_MiB), std::runtime_error);
        CHECK(mr.usage().live == 2_MiB);
        broken        = false;
        void* const q = mr.allocate_sync(2_MiB);
        mr.deallocate_sync(p, 2_MiB);
        mr.deallocate_sync(q, 2_MiB);
        CHECK(mr.trim() == 4_MiB);
    }
}

TEST_CASE("pool of pages: trim keeps the bytes that it is asked to keep if others allocate") {
    for (auto const mode : page_modes) {
        sim_node    node{doubles::small_pages(4096)};
        sim_stream  s;
        auto        mr    = of_small_pages(in_mode(mode, {.initial_size = 16 * small_page}));
        void* const hole  = mr.allocate_sync(6 * small_page);
        void* const fixed = mr.allocate_sync(6 * small_page);
        mr.deallocate_sync(hole, 6 * small_page);
        void* const p = mr.allocate_sync(4 * small_page);
        REQUIRE(p < fixed); // in the hole: the end of the chunk is free
        use(s, p, 4 * small_page, 5ms);
        mr.deallocate(s, p, 4 * small_page);
        std::size_t back  = 0;
        void*       taken = nullptr;
        {
            sim_thread trims{sim_device{}, [&] { back = mr.trim(8 * small_page); }};
            sim_thread takes{sim_device{}, [&] {
                                 sim_work(1ms);
                                 taken = mr.allocate_sync(2 * small_page);
                             }};
        }
        CHECK(mr.usage().reserved + back == 16 * small_page);
        if constexpr (sim_ordered_threads) { CHECK(back == 2 * small_page); }
        mr.deallocate_sync(taken, 2 * small_page);
        mr.deallocate_sync(fixed, 6 * small_page);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("pool of pages: trim keeps the bytes that it is asked to keep, also of an idle chunk") {
    sim_node                   node{{.backed = false}};
    pool<sim_virtual_resource> mr;
    auto const                 p = mr.allocate_sync(300_MiB);
    mr.deallocate_sync(p, 300_MiB);
    std::size_t const held = mr.usage().reserved;
    CHECK(mr.trim(100_MiB) == held - 100_MiB);
    CHECK(mr.usage().reserved == 100_MiB);
    CHECK(mr.trim() == 100_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("pool of pages: only memory that is backed counts as free") {
    sim_node                   node{{.backed = false}};
    pool<sim_virtual_resource> mr;
    void* const                low  = mr.allocate_sync(100_MiB);
    void* const                hole = mr.allocate_sync(300_MiB);
    void* const                high = mr.allocate_sync(100_MiB);
    mr.deallocate_sync(hole, 300_MiB);
    CHECK(mr.usage().largest_free == 300_MiB);
    CHECK(mr.trim() == 300_MiB); // the pages between two live blocks
    CHECK(mr.usage().reserved == 200_MiB);
    CHECK(mr.usage().largest_free == 0);
    CHECK(mr.free_memory().bytes == 0);
    mr.deallocate_sync(low, 100_MiB);
    CHECK(mr.free_memory().bytes == 100_MiB);
    mr.deallocate_sync(high, 100_MiB);
    CHECK(mr.free_memory().releasable == 200_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("pool of pages: after every block is freed, the same requests get the same addresses") {
    struct piece {
        void*       at;
        std::size_t bytes;
        std::size_t stream;
    };
    sim_node node;
    {
        sim_stream                 streams[3];
        pool<sim_virtual_resource> mr{{.slack = std::numeric_limits<double>::infinity()}};
        auto const                 again = [&] {
            sim_random         random{7};
            std::vector<void*> all;
            std::vector<piece> out;
            auto const         give = [&](std::size_t i) {
                mr.deallocate(streams[out[i].stream], out[i].at, out[i].bytes);
                out[i] = out.back();
                out.pop_back();
            };
            for (unsigned step = 0; step < 300; ++step) {
                piece p{nullptr, (2 + random.below(9)) * 1_MiB, random.below(3)};
                p.at = mr.allocate(streams[p.stream], p.bytes);
                all.push_back(p.at);
                out.push_back(p);
                if (random.below(3) != 0) { give(random.below(out.size())); }
            }
            while (!out.empty()) { give(0); }
            for (auto& s : streams) { s.synchronize(); }
            return all;
        };
        for (int i = 0; i < 2; ++i) {
            (void)again();
        } // which grow: the second starts with one block
        auto const reserved = mr.usage().reserved;
        auto const places   = again();
        for (int i = 0; i < 3; ++i) { CHECK(again() == places); }
        CHECK(mr.usage().reserved == reserved);
    }
    CHECK(node.reports().empty());
}

TEST_CASE(
    "pool of pages: sixteen small blocks fill holes between large ones before the pool grows") {
    sim_node   node;
    sim_stream stream;
    {
        pool<sim_virtual_resource> mr;
        void*                      wide[20];
        void*                      apart[20];
        for (int i = 0; i < 20; ++i) {
            wide[i]  = mr.allocate(stream, 2560_KiB);
            apart[i] = mr.allocate(stream, 2_MiB);
        }
        for (void* p : wide) { mr.deallocate(stream, p, 2560_KiB); }
        for (void*& p : wide) { p = mr.allocate(stream, 1792_KiB); } // each leaves 768 KiB free
        auto const  held = mr.usage().reserved;
        void*       small[20];
        std::size_t with_more = 0;
        for (void*& p : small) {
            p = mr.allocate(stream, 512_KiB);
            with_more += mr.usage().reserved != held;
        }
        CHECK(with_more == 4);
        for (void* p : small) { mr.deallocate(stream, p, 512_KiB); }
        for (void* p : wide) { mr.deallocate(stream, p, 1792_KiB); }
        for (void* p : apart) { mr.deallocate(stream, p, 2_MiB); }
        stream.synchronize();
        CHECK(mr.usage().live == 0);
        mr.trim();
        CHECK(mr.usage().reserved == 0);
    }
    CHECK(node.reports().empty());
}

TEST_CASE("pool of pages: a small block fills a hole only if the hole is ready for its stream") {
    enum class asker { owner, other, host };
    for (auto const who : {asker::owner, asker::other, asker::host}) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream owner, other;
        {
            pool        mr{sim_virtual_resource{}, {}, exact_growth{}};
            void* const wide  = mr.allocate(owner, 2560_KiB);
            void* const apart = mr.allocate(owner, 1536_KiB); // ends with a page
            use(owner, wide, 2560_KiB, 5ms);
            mr.deallocate(owner, wide, 2560_KiB);
            CHECK(mr.allocate(owner, 1792_KiB) == wide); // and 768 KiB that are still in use
            sim_stream_view const user = who == asker::owner ? owner : other;
            void* const           p =
                who == asker::host ? mr.allocate_sync(512_KiB) : mr.allocate(user, 512_KiB);
            use(user, p, 512_KiB);
            CHECK((p > wide && p < apart) == (who == asker::owner));
            CHECK(mr.usage().waits == 0);
            mr.deallocate(user, p, 512_KiB);
            mr.deallocate(owner, wide, 1792_KiB);
            mr.deallocate(owner, apart, 1536_KiB);
        }
        CHECK(node.reports().empty());
    }
}
