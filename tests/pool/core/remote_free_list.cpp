// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/remote_free_list.hpp> // first: the header stands alone

#include <vram/base/core/worker.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <vector>

using namespace vram;
using namespace vram::detail;

template class vram::detail::remote_free_list<host_platform>;
template class vram::detail::remote_free_list<sim_platform>;

namespace {

using left_blocks = remote_free_list<host_platform>;

left_blocks::remote_free note_of(std::size_t n) {
    return {.p = nullptr, .bytes = n, .alignment = 256};
}

std::vector<std::size_t> bytes_left(left_blocks& from) {
    std::vector<std::size_t> bytes;
    from.drain([&](left_blocks::remote_free const& n) { bytes.push_back(n.bytes); });
    return bytes;
}

} // namespace

TEST_CASE("remote_free_list: each queued block comes out once and unchanged, first in, first out") {
    left_blocks mr;
    CHECK_FALSE(mr.any());
    CHECK(bytes_left(mr).empty());
    int place = 0;
    CHECK(mr.push({&place, 4, 512, {}, true, {}}));
    CHECK(mr.any());
    mr.drain([&](left_blocks::remote_free const& n) {
        CHECK(n.p == &place);
        CHECK(n.bytes == 4);
        CHECK(n.alignment == 512);
        CHECK(n.in_use);
    });
    CHECK_FALSE(mr.any());
    CHECK(mr.push(note_of(0)));
    CHECK(bytes_left(mr).size() == 1);
    for (std::size_t const count : {31u, 32u, 33u, 64u, 100u}) { // around the batch size
        for (std::size_t i = 0; i < count; ++i) { CHECK(mr.push(note_of(i))); }
        std::vector<std::size_t> const found = bytes_left(mr);
        REQUIRE(found.size() == count);
        for (std::size_t i = 0; i < count; ++i) { CHECK(found[i] == i); }
        CHECK_FALSE(mr.any());
    }
}

TEST_CASE(
    "remote_free_list: the oldest free of a block can be removed, and the others stay in order") {
    left_blocks              mr;
    left_blocks::remote_free out;
    int                      places[3];
    CHECK_FALSE(mr.remove(&places[0], out));
    for (std::size_t i = 0; i < left_blocks::most - 2; ++i) { CHECK(mr.push(note_of(i))); }
    CHECK(bytes_left(mr).size() == left_blocks::most - 2); // the next ones wrap around
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(mr.push({.p = &places[i % 3], .bytes = i, .alignment = 256}));
    }
    CHECK(mr.remove(&places[0], out));
    CHECK(out.bytes == 0);
    CHECK(mr.remove(&places[2], out));
    CHECK(out.bytes == 2);
    CHECK_FALSE(mr.remove(&places[2], out));
    CHECK(bytes_left(mr) == std::vector<std::size_t>{1, 3});
    CHECK_FALSE(mr.any());
}

TEST_CASE("remote_free_list: the queue has a fixed capacity, and none without host memory") {
    left_blocks mr;
    {
        doubles::bombing armed{1};
        bool const       left = mr.push(note_of(0));
        CHECK(armed.defuse());
        CHECK_FALSE(left);
    }
    CHECK_FALSE(mr.any());
    CHECK(mr.push(note_of(0)));
    auto const before = doubles::host_allocations();
    bool       all    = true;
    for (std::size_t i = 1; i < left_blocks::most; ++i) { all = all && mr.push(note_of(i)); }
    CHECK(doubles::host_allocations() == before);
    CHECK(all);
    CHECK_FALSE(mr.push(note_of(0)));
    CHECK(bytes_left(mr).size() == left_blocks::most);
    CHECK(mr.push(note_of(0)));
    CHECK(bytes_left(mr).size() == 1);
    for (std::size_t i = 0; i < left_blocks::most; ++i) { all = all && mr.push(note_of(i)); }
    CHECK(all); // the last one is at the position of the first
    CHECK_FALSE(mr.push(note_of(0)));
    std::vector<std::size_t> const found = bytes_left(mr);
    REQUIRE(found.size() == left_blocks::most);
    for (std::size_t i = 0; i < found.size(); ++i) { CHECK(found[i] == i); }
}

TEST_CASE("remote_free_list: concurrent pushes and drains lose and duplicate nothing") {
    constexpr std::size_t count = 20'000;
    left_blocks           mr;
    std::set<std::size_t> found[2];
    {
        std::atomic<int> leaving{2};
        auto const       leave = [&](std::size_t first) {
            return [&, first] {
                for (std::size_t i = first; i < count; i += 2) {
                    while (!mr.push(note_of(i))) {}
                }
                --leaving;
            };
        };
        auto const collect = [&](std::set<std::size_t>& into) {
            return [&] {
                for (bool last = false; !last;) {
                    last = leaving == 0;
                    mr.drain([&](left_blocks::remote_free const& n) { into.insert(n.bytes); });
                }
            };
        };
        worker const a{0, leave(0)}, b{0, leave(1)};
        worker const c{0, collect(found[0])}, d{0, collect(found[1])};
    }
    CHECK(found[0].size() + found[1].size() == count); // none twice
    found[0].merge(found[1]);
    CHECK(found[0].size() == count);
}
