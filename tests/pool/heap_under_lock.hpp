// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file `heap_under_lock` is a heap with stream timelines, and the lock that its owner would have.

#include <vram/concepts/core/platform_lock.hpp> // platform_lock
#include <vram/pool/core/quick_lists.hpp>       // quick_lists
#include <vram/sim/sim.hpp>                     // sim_node, sim_platform

#include <doctest/doctest.h>

#include <cstddef> // size_t

namespace tests {

/// On a simulated device of its own.
template <class Heap>
struct heap_under_lock {
    heap_under_lock(vram::event_policy events, bool apart,
                    std::size_t large_limit = vram::detail::quick_lists::large_limit)
        : heap{events, false, apart, large_limit} {}

    void* take(vram::sim_stream_view s, std::size_t bytes) {
        auto held = lock.hold();
        return heap.take({.asked = bytes, .on = &s}, held, false);
    }
    void give(vram::sim_stream_view s, void* p, std::size_t bytes) {
        auto const held = lock.hold();
        CHECK(heap.give(heap.live(p, bytes), bytes, 256, &s));
    }

    vram::sim_node                                  node;
    vram::detail::platform_lock<vram::sim_platform> lock;
    Heap                                            heap;
};

} // namespace tests
