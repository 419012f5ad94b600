// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_refused.hpp> // first: the header stands alone

#include "../../doubles/mishaps.hpp"

#include <vram/layer/fallback.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace refusals {
using device = stream_ordered<sim_resource>;

/// The mistakes that the node reports for `act` on a resource.
template <class Memory, class Act>
std::vector<sim_mistake> of(Memory memory, Act act) {
    sim_node& node = sim_node::current();
    (void)node.take_reports();
    act(memory);
    std::vector<sim_mistake> kinds;
    for (sim_report const& r : node.take_reports()) {
        CHECK(r.second.host);
        CHECK(r.text().find("vram: ") != std::string::npos);
        kinds.push_back(r.kind);
    }
    return kinds;
}
/// Frees a block of 1 KiB twice, and another one with another size.
template <class Memory>
void frees_twice(Memory& memory) {
    void* const p = memory.allocate_sync(1_KiB);
    memory.deallocate_sync(p, 1_KiB);
    memory.deallocate_sync(p, 1_KiB);
}
template <class Memory>
void frees_with_another_size(Memory& memory) {
    void* const p = memory.allocate_sync(1_KiB);
    memory.deallocate_sync(p, 512);
    memory.deallocate_sync(p, 1_KiB);
}
template <class Memory>
void frees_what_is_not_its_own(Memory& memory) {
    char here = 0;
    memory.deallocate_sync(&here, 1);
}
} // namespace refusals

TEST_CASE("sim: a double free through a pool is a report of the node") {
    sim_node const         node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const sink;
    using kinds = std::vector<sim_mistake>;
    kinds const twice{sim_mistake::double_free};
    auto const  check = [](auto& memory) { refusals::frees_twice(memory); };
    CHECK(refusals::of(pool<refusals::device>{}, check) == twice);
    CHECK(refusals::of(slab<refusals::device>{refusals::device{}, 1_KiB}, check) == twice);
    CHECK(refusals::of(arena<pool<refusals::device>>{}, check).size() == 1);
    CHECK(sink.count() == 3); // and of the error sink
}

TEST_CASE("sim: a free with a wrong size through a pool is a report of the node") {
    sim_node const                 node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const         sink;
    std::vector<sim_mistake> const wrong{sim_mistake::wrong_size};
    auto const check = [](auto& memory) { refusals::frees_with_another_size(memory); };
    CHECK(refusals::of(pool<refusals::device>{}, check) == wrong);
    CHECK(sink.count() == 1);
}

TEST_CASE("sim: a free of foreign memory through any pool is a report of the node") {
    sim_node const                 node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const         sink;
    std::vector<sim_mistake> const foreign{sim_mistake::foreign_free};
    auto const check = [](auto& memory) { refusals::frees_what_is_not_its_own(memory); };
    CHECK(refusals::of(pool<refusals::device>{}, check) == foreign);
    CHECK(refusals::of(slab<refusals::device>{refusals::device{}, 1_KiB}, check) == foreign);
    CHECK(refusals::of(binned<pool<refusals::device>>{}, check) == foreign);
    CHECK(refusals::of(monotonic<pool<refusals::device>>{}, check) == foreign);
    CHECK(refusals::of(arena<pool<refusals::device>>{}, check) == foreign);
    CHECK(refusals::of(refusals::device{}, check) == foreign);
}

TEST_CASE("sim: a report of a refused free has the source line of the free") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const sink;
    pool<refusals::device> memory;
    void* const            p = memory.allocate_sync(64);
    memory.deallocate_sync(p, 64);
    memory.deallocate_sync(p, 64); // this one
    unsigned const line = __LINE__ - 1;
    auto const     all  = node.reports();
    REQUIRE(all.size() == 1);
    CHECK(all[0].second.where.line() == line);
    CHECK(all[0].bytes == 64);
}

TEST_CASE("sim: a second free is a double free, also if the pool has returned the chunk") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const sink;
    auto const             check = [&](auto memory) {
        void* const p = memory.allocate_sync(4_KiB);
        void* const q = memory.allocate_sync(4_KiB);
        memory.deallocate_sync(p, 4_KiB);
        memory.deallocate_sync(q, 4_KiB);
        memory.trim(0);
        memory.deallocate_sync(q, 4_KiB); // not the first block of the chunk
        auto const all = node.take_reports();
        REQUIRE(all.size() == 1);
        CHECK(all[0].kind == sim_mistake::double_free);
        CHECK(all[0].missing == "it was freed before");
    };
    check(pool{sim_resource{}});
    check(pool{refusals::device{}});
    check(slab{refusals::device{}, 4_KiB});
    check(pool{sim_async_resource{}});
}

TEST_CASE("sim: a second free is a double free, also if a layer passes it to another resource") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const sink;
    fallback         memory{limiting{pool<refusals::device>{}, 1_KiB}, pool<refusals::device>{}};
    sim_stream const s;
    void* const      p = memory.allocate(s, 4_KiB); // of the second pool
    memory.deallocate(s, p, 4_KiB);
    memory.deallocate(s, p, 4_KiB); // to the first pool
    auto const all = node.take_reports();
    REQUIRE(all.size() == 1);
    CHECK(all[0].kind == sim_mistake::double_free);
    CHECK(all[0].block.bytes == 4_KiB);
}
