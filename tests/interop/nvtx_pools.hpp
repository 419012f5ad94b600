// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Random operations on every pool, with an observer beneath.

#include "../doubles/nvtx/tool.hpp" // nvtx_tool

#include <vram/base/bytes.hpp>               // literals
#include <vram/base/tag.hpp>                 // tagged
#include <vram/concepts/observer.hpp>        // memory_event, memory_event_kind
#include <vram/layer/observed.hpp>           // observed
#include <vram/layer/stream_ordered.hpp>     // stream_ordered
#include <vram/pool/arena.hpp>               // arena
#include <vram/pool/binned.hpp>              // binned
#include <vram/pool/fixed_growth.hpp>        // fixed_growth
#include <vram/pool/monotonic.hpp>           // monotonic
#include <vram/pool/pool.hpp>                // pool
#include <vram/pool/slab.hpp>                // slab
#include <vram/sim/sim.hpp>                  // sim_resource, sim_stream
#include <vram/sim/sim_virtual_resource.hpp> // sim_virtual_resource

#include <doctest/doctest.h>

#include <cstddef>     // size_t
#include <cstdint>     // uintptr_t
#include <functional>  // ref
#include <iterator>    // advance
#include <map>         // map
#include <random>      // minstd_rand
#include <string>      // string
#include <type_traits> // is_nothrow_move_constructible_v
#include <utility>     // move
#include <vector>      // vector

namespace nvtx_tests {

using namespace vram::literals;

/// The live blocks by address.
using blocks = std::map<std::uintptr_t, std::size_t>;

inline std::size_t sum_of(blocks const& all) {
    std::size_t sum = 0;
    for (auto const& [at, bytes] : all) { sum += bytes; }
    return sum;
}

/// Memory of which the tool hears when it is freed, as it does for memory of CUDA.
struct told_resource : vram::sim_resource {
    using sim_resource::sim_resource;

    void deallocate_sync(void* p, std::size_t bytes,
                         std::size_t     alignment = vram::default_alignment,
                         vram::call_site from      = vram::call_site::current()) noexcept {
        doubles::nvtx_tool::get().freed(p, bytes);
        sim_resource::deallocate_sync(p, bytes, alignment, from);
    }
};

/// Calls `body(name, make)` for each pool; `make(observer)` creates one. `name` is that of the
/// pool's events.
template <class Body>
void for_pools(Body body) {
    using namespace vram;
    auto const over = [](auto& seen) {
        return observed{stream_ordered{told_resource{}}, std::ref(seen)};
    };
    auto const pages = [](auto& seen) {
        return observed{sim_virtual_resource{{.handle_size = 2_MiB}}, std::ref(seen)};
    };
    auto const run = [&](std::string const& what, char const* name, auto make) {
        CAPTURE(what);
        body(std::string{name}, make);
    };
    run("pool", "pool", [=](auto& seen) { return pool{over(seen), {}, fixed_growth{1_MiB}}; });
    run("arena", "arena",
        [=](auto& seen) { return arena{over(seen), {.count = 2}, fixed_growth{1_MiB}}; });
    run("slab", "slab", [=](auto& seen) { return slab{over(seen), 256_KiB}; });
    run("binned", "binned", [=](auto& seen) { return binned{over(seen), {.largest = 64_KiB}}; });
    run("monotonic", "monotonic",
        [=](auto& seen) { return monotonic{over(seen), {}, fixed_growth{1_MiB}}; });
    run("pool of pages", "pool", [=](auto& seen) { return pool{pages(seen)}; });
    run("pool that moves pages", "pool",
        [=](auto& seen) { return pool{pages(seen), {.remap = true}}; });
    run("pool, its upstream notifies too", "pool", [=](auto& seen) {
        return pool{
            stream_ordered{observed{told_resource{}, std::ref(seen)}}, {}, fixed_growth{1_MiB}};
    });
    run("binned over a pool", "binned", [=](auto& seen) {
        return binned{pool{over(seen), {}, fixed_growth{4_MiB}}, {.largest = 64_KiB}};
    });
    run("slab over a pool", "slab",
        [=](auto& seen) { return slab{pool{over(seen), {}, fixed_growth{4_MiB}}, 256_KiB}; });
}

/// Allocates, frees, trims and resets at random. `step(live, memory)` is called after each
/// operation, with the live blocks.
template <class R, class Step>
void play(R& memory, unsigned seed, unsigned operations, Step const& step) {
    std::minstd_rand draw{seed};
    vram::sim_stream s, t;
    blocks           live;
    auto const       below = [&](std::size_t n) { return draw() % n; };
    std::map<std::uintptr_t, vram::sim_stream_view> allocated_on;

    auto const free = [&](blocks::iterator at) {
        auto const [p, n] = *at;
        live.erase(at);
        auto const of = allocated_on.find(p);
        if (of != allocated_on.end() && below(4) != 0) {
            memory.deallocate(of->second, reinterpret_cast<void*>(p), n);
        } else { // the streams and the host are ordered, so that any of them may free
            s.synchronize();
            t.synchronize();
            if (below(2) == 0) {
                memory.deallocate_sync(reinterpret_cast<void*>(p), n);
            } else {
                memory.deallocate(t, reinterpret_cast<void*>(p), n);
            }
        }
    };
    for (unsigned i = 0; i != operations; ++i) {
        std::size_t const side = below(100);
        if (side == 0) {
            memory.trim();
        } else if (side == 1) {
            if constexpr (requires { memory.reset_sync(); }) {
                live.clear();
                s.synchronize();
                t.synchronize();
                memory.reset_sync();
            }
        } else if (live.size() < 40 && (side < 55 || live.empty())) {
            std::size_t const n = 1 + below(below(4) == 0 ? 256_KiB : 8_KiB);
            void*             p = nullptr;
            if (below(3) != 0) {
                vram::tagged const scope{below(2) == 0 ? "nvtx odd" : "nvtx even"};
                auto const         on = below(2) == 0 ? s.view() : t.view();
                p                     = memory.allocate(on, n);
                allocated_on.insert_or_assign(reinterpret_cast<std::uintptr_t>(p), on);
            } else {
                p = memory.allocate_sync(n);
                allocated_on.erase(reinterpret_cast<std::uintptr_t>(p));
            }
            live[reinterpret_cast<std::uintptr_t>(p)] = n;
        } else {
            auto at = live.begin();
            std::advance(at, below(live.size()));
            free(at);
        }
        step(live, memory);
    }
    while (!live.empty()) { free(live.begin()); }
    step(live, memory);
}

/// An observer of NVTX that was moved from may still be called, and still registers chunks.
template <class Observer>
void observer_after_a_move() {
    static_assert(std::is_nothrow_move_constructible_v<Observer> &&
                  std::is_nothrow_move_assignable_v<Observer>);
    doubles::nvtx_tool& tool = doubles::nvtx_tool::get();
    tool.clear();
    Observer                                  seen, other;
    Observer const                            first{std::move(seen)};
    vram::memory_event<vram::sim_stream_view> e{};
    e.kind   = vram::memory_event_kind::chunk_added;
    e.name   = "moved";
    e.memory = reinterpret_cast<void*>(0x1000);
    e.bytes  = 0x1000;
    CHECK_FALSE(seen.skips(e.kind));
    seen.observe(e);
    CHECK(seen.attached());
    CHECK(first.attached());
    other  = std::move(seen);
    e.kind = vram::memory_event_kind::chunk_removed;
    seen.observe(e);
    CHECK(tool.wrong == std::vector<std::string>{});
}

} // namespace nvtx_tests
