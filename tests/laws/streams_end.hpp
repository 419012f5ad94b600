// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `streams_end` requires that a resource outlives streams that notify of their end, without an
/// error report and without a call of `retire`.

#include "../doubles/mishaps.hpp"         // mishaps
#include "../doubles/streams_at_work.hpp" // busy

#include <vram/handle/buffer.hpp> // buffer
#include <vram/sim/sim.hpp>       // sim_node, sim_stream

#include <doctest/doctest.h>

#include <chrono>   // chrono literals
#include <cstddef>  // size_t
#include <optional> // optional
#include <utility>  // in_place

namespace laws {

/// `make()` creates a resource with memory for two blocks of `bytes`. Streams are destroyed with
/// unfinished work: after the free of a block, before the end of the resource, before the end of a
/// buffer, and in large numbers.
template <class Make>
void streams_end(Make make, std::size_t bytes = std::size_t{1} << 20) {
    using namespace vram;
    using namespace std::chrono_literals;
    using doubles::busy;
    doubles::mishaps const told;
    sim_node               node{{.compute_slots = 4, .on_report = sim_on_report::collect}};
    {
        auto       mr   = make();
        auto const turn = [&](sim_stream_view s) {
            void* const p = mr.allocate(s, bytes);
            busy(s, p, bytes);
            mr.deallocate(s, p, bytes);
        };
        std::optional<sim_stream> s{std::in_place};
        turn(*s);
        s.reset();
        sim_stream other;
        turn(other); // waits for that work if it uses the same block
        for (int i = 0; i != 40; ++i) {
            sim_stream const brief;
            turn(brief);
        }
        s.emplace();
        std::optional<buffer<decltype(mr)&>> late{std::in_place, mr, *s, bytes};
        busy(*s, late->data(), bytes, 3ms);
        s.reset();
        turn(other);
        late.reset(); // frees on a stream that has ended
        turn(other);
        turn(other);
        turn(sim_stream{});
    }
    {
        auto       mr = make();
        sim_stream s; // destroyed before the resource
        void*      p = mr.allocate(s, bytes);
        busy(s, p, bytes, 5ms);
        mr.deallocate(s, p, bytes);
        p = mr.allocate(s, bytes);
        busy(s, p, bytes, 5ms);
        mr.deallocate(s, p, bytes);
    }
    sim_device{}.synchronize(); // stream-ordered frees are complete after this
    CHECK(told.count() == 0);
    for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    CHECK(node.reports().empty());
    CHECK(node.figures().used == 0);
}

} // namespace laws
