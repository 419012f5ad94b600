// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_virtual_memory.hpp> // first: the header must stand alone

#include "../../doubles/collecting.hpp"
#include "../../doubles/mishaps.hpp"
#include "../../doubles/small_pages.hpp"

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;
using doubles::small_page;
using doubles::small_pages;

namespace {

/// A reserved range of eight pages, and the pages made for it.
struct mapped_scene {
    explicit mapped_scene(sim_options const& o = small_pages()) : node{o} {
        base = static_cast<std::byte*>(memory.reserve(8 * small_page, small_page));
    }
    ~mapped_scene() {
        sim_device{}.synchronize();
        for (std::size_t i = 0; i < 8; ++i) {
            try {
                memory.unmap(at(i), small_page);
            } catch (sim_error const&) {} // nothing is there
        }
        memory.release(base, 8 * small_page);
        for (auto const page : pages) { memory.destroy(page, small_page); }
    }

    [[nodiscard]] std::byte* at(std::size_t page) const { return base + page * small_page; }
    std::uint64_t            make() {
        pages.push_back(memory.create(small_page));
        return pages.back();
    }
    void put(std::size_t i, std::uint64_t page) const {
        memory.map(at(i), page, small_page);
        memory.set_access(at(i), small_page);
    }
    [[nodiscard]] sim_mistake one() {
        auto const all = node.take_reports();
        REQUIRE(all.size() == 1);
        return all[0].kind;
    }

    sim_node                   node;
    sim_virtual_memory         memory;
    std::byte*                 base = nullptr;
    std::vector<std::uint64_t> pages;
    sim_stream                 s;
};

} // namespace

TEST_CASE(
    "sim_virtual_memory: physical memory counts as used when created, and addresses never do") {
    mapped_scene t;
    CHECK(t.memory.granularity() == small_page);
    CHECK(t.memory.memory() == memory_info{64 * small_page, 64 * small_page});
    auto const page = t.make();
    CHECK(t.memory.memory().free == 63 * small_page);
    CHECK(t.node.figures().allocations == 1);
    t.put(0, page);
    CHECK(t.memory.memory().free == 63 * small_page);
    t.memory.destroy(page, small_page); // still mapped
    CHECK(t.memory.memory().free == 63 * small_page);
    t.memory.unmap(t.at(0), small_page);
    CHECK(t.memory.memory().free == 64 * small_page);
    CHECK(t.node.figures().frees == 1);
    t.pages.clear();
}

TEST_CASE("sim_virtual_memory: contents move with the physical memory to another address") {
    mapped_scene t;
    auto const   page = t.make();
    t.put(0, page);
    sim_fill(t.s, t.at(0), std::byte{42}, small_page);
    t.s.synchronize();
    t.memory.unmap(t.at(0), small_page);
    t.put(5, page);
    std::vector<std::byte> back(small_page);
    sim_copy(t.s, back.data(), t.at(5), small_page);
    t.s.synchronize();
    CHECK(back.front() == std::byte{42});
    CHECK(back.back() == std::byte{42});
    t.put(6, page); // in two places at once
    CHECK(*sim_view(t.at(6)) == std::byte{42});
    CHECK(t.node.reports().empty());
}

TEST_CASE("sim_virtual_memory: one access may span many mappings") {
    mapped_scene t;
    for (std::size_t i = 0; i < 4; ++i) { t.memory.map(t.at(i), t.make(), small_page); }
    t.memory.set_access(t.base, 4 * small_page);
    sim_fill(t.s, t.base + 100, std::byte{1}, 4 * small_page - 100);
    sim_launch(t.s, {.reads = {{t.base, 4 * small_page}}, .writes = {{t.at(1), small_page}}});
    t.s.synchronize();
    CHECK(t.node.reports().empty());
    sim_stream other;
    sim_fill(t.s, t.at(3), std::byte{1}, 10);
    sim_launch(other, {.reads = {{t.base, 4 * small_page}}});
    CHECK(t.one() == sim_mistake::race);
}

TEST_CASE(
    "sim_virtual_memory: an access to memory that is not mapped, or not granted, is reported") {
    mapped_scene t;
    sim_fill(t.s, t.at(0), std::byte{1}, 8);
    CHECK(t.one() == sim_mistake::unmapped_access);
    t.memory.map(t.at(0), t.make(), small_page);
    sim_fill(t.s, t.at(0), std::byte{1}, 8);
    CHECK(t.one() == sim_mistake::unmapped_access);
    t.memory.set_access(t.at(0), small_page);
    sim_fill(t.s, t.at(0), std::byte{1}, 8);
    CHECK(t.node.reports().empty());
    sim_fill(t.s, t.at(0), std::byte{1}, small_page + 1); // its end lies in the next page
    CHECK(t.one() == sim_mistake::unmapped_access);
    sim_touch({t.at(0), 8}, sim_access::read);
    CHECK(t.one() == sim_mistake::host_access);
}

TEST_CASE("sim_virtual_memory: unmap waits for nothing, and work that still uses the memory is "
          "reported") {
    using namespace std::chrono_literals;
    mapped_scene t;
    t.put(0, t.make());
    sim_launch(t.s, {.name = "late", .writes = {{t.at(0), 64}}, .duration = 1ms},
               [p = t.at(0)] { *sim_view(p) = std::byte{1}; }); // writes to unmapped memory by then
    t.memory.unmap(t.at(0), small_page);
    CHECK(t.node.now() < 1ms);
    auto const all = t.node.take_reports();
    REQUIRE(all.size() == 1);
    CHECK(all[0].kind == sim_mistake::free_before_last_use);
    CHECK(std::string{all[0].first.name} == "late");
    CHECK(std::string{all[0].second.name} == "unmap");
    t.s.synchronize();
    t.put(0, t.pages[0]);
    sim_launch(t.s, {.writes = {{t.at(0), 64}}});
    t.s.synchronize(); // now the host is ordered after the kernel
    t.memory.unmap(t.at(0), small_page);
    CHECK(t.node.reports().empty());
}

TEST_CASE("sim_virtual_memory: set_access on an accessible mapping adds no order") {
    mapped_scene t;
    t.put(0, t.make());
    sim_stream other;
    sim_launch(t.s, {.writes = {{t.at(0), 64}}});
    t.memory.set_access(t.at(0), small_page);
    sim_launch(other, {.reads = {{t.at(0), 64}}});
    CHECK(t.one() == sim_mistake::race);
}

TEST_CASE("sim_virtual_memory: another device has no access") {
    sim_options o = small_pages();
    o.devices     = 2;
    mapped_scene t{o};
    t.put(0, t.make());
    sim_stream there{sim_device{1}};
    sim_launch(there, {.reads = {{t.at(0), 8}}});
    CHECK(t.one() == sim_mistake::peer_access);
}

TEST_CASE("sim_virtual_memory: a call that breaks a rule is refused and changes nothing") {
    mapped_scene t;
    auto const   refused = [](auto call) {
        return doubles::status_of(call) == sim_status::invalid_value;
    };
    auto const&         m    = t.memory;
    std::uint64_t const page = t.make();
    CHECK(refused([&] { (void)m.reserve(small_page + 1, small_page); }));
    CHECK(refused([&] { (void)m.reserve(0, small_page); }));
    CHECK(refused([&] { (void)m.reserve(small_page, 3); }));
    CHECK(refused([&] { (void)m.create(small_page / 2); }));
    CHECK(refused([&] { m.map(t.at(0), 12345, small_page); }));
    CHECK(refused([&] { m.map(t.at(0), page, 2 * small_page); }));   // another size
    CHECK(refused([&] { m.map(t.at(0) + 512, page, small_page); })); // not on a page
    CHECK(refused([&] { m.map(t.at(8), page, small_page); }));       // behind the range
    CHECK(refused([&] { m.set_access(t.at(0), small_page); }));      // nothing is there
    CHECK(refused([&] { m.unmap(t.at(0), small_page); }));
    std::uint64_t const wide = m.create(2 * small_page);
    m.map(t.at(2), wide, 2 * small_page);
    CHECK(refused([&] { m.map(t.at(3), page, small_page); })); // taken
    CHECK(refused([&] { m.unmap(t.at(2), small_page); }));     // half of it
    CHECK(refused([&] { m.unmap(t.at(3), small_page); }));
    CHECK(refused([&] { m.set_access(t.at(2), 3 * small_page); })); // a hole at its end
    CHECK(refused([&] { m.set_access(t.at(2), small_page); }));     // half of it
    CHECK(refused([&] { m.set_access(t.at(3), small_page); }));
    sim_fill(t.s, t.at(3), std::byte{1}, 8);
    CHECK(t.one() == sim_mistake::unmapped_access);
    m.map(t.at(4), page, small_page);
    CHECK(refused([&] { m.set_access(t.at(3), 2 * small_page); })); // half of the first
    m.set_access(t.at(2), 3 * small_page);
    m.unmap(t.at(4), small_page);
    m.set_access(t.at(2), 2 * small_page);
    m.unmap(t.at(2), 2 * small_page);
    m.destroy(wide, 2 * small_page);

    doubles::mishaps const told;
    m.destroy(wide, 2 * small_page);
    m.release(t.at(0), small_page); // not all of it
    t.put(0, page);
    m.release(t.base, 8 * small_page); // something is mapped there
    CHECK(told.count(error_kind::platform_error) == 3);
    sim_fill(t.s, t.at(0), std::byte{1}, 8);
    CHECK(t.node.reports().empty());
}

TEST_CASE("sim_virtual_memory: a refusal of the device has numbers") {
    mapped_scene t{small_pages(2)};
    t.make();
    t.make();
    try {
        t.make();
        FAIL("there were two pages");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == small_page);
        CHECK(e.numbers().device_free == 0);
        CHECK(e.numbers().device_total == 2 * small_page);
    }
    CHECK(t.node.figures().refused == 1);
}

TEST_CASE("sim_virtual_memory: every call can be made to fail, and then has no effect") {
    mapped_scene t;
    auto&        faults = t.node.faults();
    auto const   fails  = [](auto call) { return doubles::status_of(call) == sim_status::refused; };
    auto const   page   = t.make();
    faults.at(sim_call_kind::reserve, 1);
    CHECK(fails([&] { (void)t.memory.reserve(small_page, small_page); }));
    faults.at(sim_call_kind::create, 1);
    CHECK_THROWS_AS((void)t.memory.create(small_page), out_of_memory);
    CHECK(t.memory.memory().free == 63 * small_page);
    faults.at(sim_call_kind::map, 1);
    CHECK(fails([&] { t.memory.map(t.at(0), page, small_page); }));
    t.memory.map(t.at(0), page, small_page);
    faults.at(sim_call_kind::set_access, 1);
    CHECK(fails([&] { t.memory.set_access(t.at(0), small_page); }));
    sim_fill(t.s, t.at(0), std::byte{1}, 8);
    CHECK(t.one() == sim_mistake::unmapped_access);
    faults.at(sim_call_kind::unmap, 1);
    CHECK(fails([&] { t.memory.unmap(t.at(0), small_page); }));
    t.memory.unmap(t.at(0), small_page);
    doubles::mishaps const told;
    faults.at(sim_call_kind::free, 1, {}, 2);
    t.memory.destroy(page, small_page);
    t.memory.release(t.base, 8 * small_page);
    CHECK(told.count(error_kind::platform_error) == 2);
    CHECK(t.memory.memory().free == 63 * small_page);
}

TEST_CASE("sim_virtual_memory: memory that is never destroyed is a leak") {
    sim_node                 node{small_pages()};
    sim_virtual_memory const memory;
    (void)memory.reserve(small_page, small_page);
    (void)memory.create(small_page);
    node.finish();
    auto const all = node.take_reports();
    REQUIRE(all.size() == 2);
    CHECK(all[0].kind == sim_mistake::leak);
    CHECK(std::string{all[0].first.name} == "create");
    CHECK(all[1].kind == sim_mistake::leak);
    CHECK(std::string{all[1].first.name} == "reserve");
    CHECK(all[0].text().find("its handle was never destroyed") != std::string::npos);
    CHECK(all[0].text().find("allocated by `create`") != std::string::npos);
}

TEST_CASE("sim_virtual_memory: an unbacked node has addresses of any size, and no contents") {
    sim_node           node{{.capacity = 80_GiB, .backed = false}};
    sim_virtual_memory memory;
    void* const        p    = memory.reserve(320_GiB, 2_MiB);
    auto const         page = memory.create(79_GiB);
    memory.map(p, page, 79_GiB);
    memory.set_access(p, 79_GiB);
    CHECK_THROWS_AS((void)sim_view(p), sim_error);
    memory.unmap(p, 79_GiB);
    memory.destroy(page, 79_GiB);
    memory.release(p, 320_GiB);
}

TEST_CASE("sim_virtual_memory: accesses through different addresses of one memory race") {
    for (bool const ordered : {false, true}) {
        mapped_scene t;
        sim_stream   other;
        auto const   page = t.make();
        t.put(0, page);
        t.put(3, page);
        sim_fill(t.s, t.at(0), std::byte{1}, small_page);
        if (ordered) {
            sim_event e;
            sim_platform::record(e, t.s);
            sim_platform::wait(other, e);
        }
        sim_fill(other, t.at(3) + small_page / 2, std::byte{2}, 256);
        if (!ordered) { CHECK(t.one() == sim_mistake::race); }
        CHECK(t.node.take_reports().empty());
        other.synchronize();
        t.s.synchronize();
        sim_fill(other, t.at(0), std::byte{3}, small_page); // the host is ordered after both
        CHECK(t.node.take_reports().empty());
    }
}

TEST_CASE(
    "sim_virtual_memory: one mapping can be removed while another of the same memory is in use") {
    mapped_scene t;
    auto const   page = t.make();
    t.put(0, page);
    t.put(3, page);
    sim_fill(t.s, t.at(0), std::byte{1}, small_page);
    t.memory.unmap(t.at(3), small_page);
    CHECK(t.node.take_reports().empty());
    t.memory.unmap(t.at(0), small_page);
    CHECK(t.one() == sim_mistake::free_before_last_use);
}
