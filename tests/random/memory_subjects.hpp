// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_subjects` are the resources on which memory programs run, by name.

#include "memory_run.hpp" // tested, make_memory

#include <vram/layer/stream_ordered.hpp> // stream_ordered
#include <vram/pool/arena.hpp>           // arena
#include <vram/pool/binned.hpp>          // binned
#include <vram/pool/monotonic.hpp>       // monotonic
#include <vram/pool/pool.hpp>            // pool
#include <vram/pool/slab.hpp>            // slab
#include <vram/sim/sim.hpp>

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <memory>  // unique_ptr, make_unique
#include <string>  // string
#include <utility> // move

namespace trial {

using ordered_device_memory = vram::stream_ordered<vram::sim_resource>;

inline constexpr std::size_t largest_tested = 4096;

template <class Resource>
std::unique_ptr<tested_memory> test(Resource r) {
    return std::make_unique<tested<Resource>>(std::move(r));
}

/// A resource, and its rules.
struct memory_subject {
    char const*  name;
    char const*  what;
    memory_rules rules;
    make_memory  make;
};

inline constexpr memory_rules of_pools{.pooled = true};
inline constexpr memory_rules of_stream_ordered{.anywhere = true, .pooled = true};

inline constexpr vram::arena_options arenas_of_streams{.count = 2, .key = vram::arena_key::stream};

inline constexpr memory_subject memory_subjects[] = {
    {"sim_resource", "sim_resource", {.by_host = true}, [] { return test(vram::sim_resource{}); }},
    {"sim_async_resource",
     "sim_async_resource",
     {},
     [] { return test(vram::sim_async_resource{}); }},
    {"stream_ordered", "stream_ordered<sim_resource>", of_stream_ordered,
     [] { return test(ordered_device_memory{}); }},
    {"pool_lazy", "pool<stream_ordered<sim_resource>>", of_pools,
     [] { return test(vram::pool{ordered_device_memory{}}); }},
    {"pool_eager", "the same with eager events", of_pools,
     [] {
         return test(vram::pool{ordered_device_memory{}, {.events = vram::event_policy::eager}});
     }},
    {"pool_small", "the same, of 64 KiB", of_pools,
     [] { return test(vram::pool{ordered_device_memory{}, {.max_size = 64 * 1024}}); }},
    {"pool_async", "pool<sim_async_resource>", of_pools,
     [] { return test(vram::pool{vram::sim_async_resource{}}); }},
    {"pool_virtual", "pool<sim_virtual_resource>", of_pools,
     [] { return test(vram::pool{vram::sim_virtual_resource{}}); }},
    {"arena", "arena<stream_ordered<sim_resource>>, by stream", of_pools,
     [] { return test(vram::arena{ordered_device_memory{}, arenas_of_streams}); }},
    {"slab", "slab<stream_ordered<sim_resource>>", of_pools,
     [] { return test(vram::slab{ordered_device_memory{}, largest_tested}); }},
    {"binned", "binned<stream_ordered<sim_resource>>", of_pools,
     [] { return test(vram::binned{ordered_device_memory{}}); }},
    {"monotonic", "monotonic<stream_ordered<sim_resource>>", of_pools,
     [] { return test(vram::monotonic{ordered_device_memory{}}); }},
    {"arena_of_pool", "arena<pool<stream_ordered<sim_resource>>>, by stream", of_pools,
     [] { return test(vram::arena{vram::pool{ordered_device_memory{}}, arenas_of_streams}); }},
    {"binned_of_pool", "binned<pool<stream_ordered<sim_resource>>>", of_pools,
     [] { return test(vram::binned{vram::pool{ordered_device_memory{}}}); }},
    {"slab_of_pool", "slab<pool<stream_ordered<sim_resource>>>", of_pools,
     [] { return test(vram::slab{vram::pool{ordered_device_memory{}}, largest_tested}); }},
    {"ordered_pool", "stream_ordered<pool<sim_resource>>", of_stream_ordered,
     [] { return test(vram::stream_ordered{vram::pool{vram::sim_resource{}}}); }},
};

/// Returns the program of a class and a seed.
inline memory_program memory_program_of(memory_subject const& subject, std::size_t of,
                                        std::uint64_t seed) {
    dice d{seed * static_cast<std::size_t>(memory_class::count) + of};
    for (;;) {
        memory_program p{d, largest_tested, subject.rules};
        if (p.become(static_cast<memory_class>(of), d)) { return p; }
    }
}

/// Runs a program of each class. Returns an empty text, or a short program with a disagreement.
inline std::string run_memory(memory_subject const& subject, std::uint64_t seed) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(memory_class::count); ++i) {
        memory_program const program = memory_program_of(subject, i, seed);
        std::string const    what    = run_memory(program, subject.make);
        if (what.empty()) { continue; }
        std::string       text;
        std::string const why = run_memory(shrunk(program, subject.make), subject.make, &text);
        return std::string{memory_classes[i]} + ": " + what + "\n" + text + why;
    }
    return {};
}
inline std::string explained_memory(memory_subject const& subject, std::uint64_t seed) {
    std::string all;
    for (std::size_t i = 0; i < static_cast<std::size_t>(memory_class::count); ++i) {
        std::string       text;
        std::string const what =
            run_memory(memory_program_of(subject, i, seed), subject.make, &text);
        all += std::string{memory_classes[i]} + ":\n" + text + what + "\n";
    }
    return all;
}

} // namespace trial
