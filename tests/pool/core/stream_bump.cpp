// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/stream_bump.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "../../doubles/at.hpp"
#include "../../doubles/bombing.hpp"
#include "../../doubles/mishaps.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;
using doubles::at;

using sim_bump = stream_bump<sim_platform>;
template class vram::detail::stream_bump<sim_platform>;

namespace {

/// The state with a lock, and streams by handle.
template <class Platform>
struct desk_of {
    stream_bump<Platform>   books{event_policy::lazy, false};
    platform_lock<Platform> lock;

    void* take(sim_stream const& s, std::size_t bytes) {
        auto                  held = lock.hold();
        sim_stream_view const on   = s;
        return books.take({bytes, 256, &on}, held);
    }
    /// Frees all blocks.
    std::size_t unwind() {
        return books.unwind(0, nullptr, [](void*, std::size_t) {});
    }
};
using bump_desk = desk_of<sim_platform>;

/// A captured stream has no id, as with CUDA.
struct shy_platform : sim_platform {
    static std::uint64_t id(stream s) {
        if (s.capturing()) { throw std::runtime_error{"busy"}; }
        return s.id();
    }
};

} // namespace

TEST_CASE("stream_bump: without host memory for a chunk nothing has changed") {
    sim_node        node;
    bump_desk       desk;
    sim_stream      s;
    sim_stream_view on = s;
    for (std::uint64_t n = 1;; ++n) {
        bool             threw = false;
        doubles::bombing armed{n};
        try {
            (void)desk.books.add({at(0x1000), 0x400, 256}, &on, {0x100, 256, &on});
        } catch (std::bad_alloc const&) { threw = true; }
        bool const hit = armed.defuse();
        CHECK(threw == hit);
        if (!hit) { break; }
        CHECK(desk.books.stack().chunks().size() == 0);
    }
    CHECK(desk.books.stack().chunks().size() == 1);
    CHECK(desk.books.stack().free_memory().bytes == 0x300);
}

TEST_CASE(
    "stream_bump: the stream of a block is known though many came later, also during a capture") {
    sim_node              node;
    desk_of<shy_platform> desk;
    doubles::mishaps      told;
    sim_stream            s, others[16];
    desk.books.add({at(0x1000), 0x2000, 256});
    CHECK(desk.take(s, 0x100) == at(0x1000));
    for (sim_stream const& each : others) { // none of them has the timeline of `s`, which lives
        (void)desk.take(each, 0x100);
    }
    sim_graph::begin(s, sim_capture_mode::relaxed);
    CHECK(desk.unwind() == 0x1100);
    CHECK_NOTHROW((void)sim_graph::end(s)); // which a wait for the device would have broken
    CHECK(told.count() == 0);
    auto held = desk.lock.hold();
    CHECK(desk.books.remove_idle(held).bytes() == 0x2000);
}

TEST_CASE("stream_bump: a retired stream is not queried when others have its timeline") {
    sim_node               node;
    bump_desk              desk;
    doubles::mishaps const told;
    desk.books.add({at(0x1000), 0x2000, 256});
    {
        sim_stream const s;
        CHECK(desk.take(s, 0x100) == at(0x1000));
        desk.books.uses().retire(s);
    }
    sim_stream others[16];
    for (sim_stream const& each : others) { (void)desk.take(each, 0x100); }
    CHECK(desk.unwind() == 0x1100);
    CHECK(told.count() == 0);
}
