// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file `subjects` are the pools on which random operations are run, by name.

#include "../doubles/interrupted_platform.hpp" // interrupted_memory
#include "../doubles/interrupted_source.hpp"   // interrupted_source
#include "play.hpp"                            // play, round

#include <vram/layer/stream_ordered.hpp> // stream_ordered
#include <vram/pool/arena.hpp>           // arena
#include <vram/pool/binned.hpp>          // binned
#include <vram/pool/monotonic.hpp>       // monotonic
#include <vram/pool/pool.hpp>            // pool
#include <vram/pool/slab.hpp>            // slab

#include <cstddef> // size_t
#include <limits>  // numeric_limits
#include <string>  // string

namespace trial {

using ordered = vram::stream_ordered<doubles::interrupted_memory>;

inline doubles::interrupted_source pages(round const& r) {
    return doubles::interrupted_source{{.handle_size = r.handle}};
}
inline vram::pool_options options(round const& r) {
    return {.max_size = r.max_size, .events = r.events, .graphs = r.graphs};
}

inline std::string pool(round const& plan) {
    return play(plan, [](round const& r) { return vram::pool{ordered{}, options(r)}; });
}
inline std::string pool_paged(round const& plan) {
    return play(plan, [](round const& r) {
        vram::pool_options apart = options(r);
        apart.slack              = std::numeric_limits<double>::infinity();
        return vram::pool{pages(r), apart};
    });
}
inline std::string pool_shared(round const& planned) {
    round plan         = planned;
    plan.node.capacity = 128_MiB; // of a larger one nothing would be shared
    return play(plan, [](round const& r) {
        vram::pool_options sharing = options(r);
        sharing.slack              = r.seed % 2 == 0 ? 0 : 1.0 / 8;
        return vram::pool{pages(r), sharing};
    });
}
inline std::string pool_remap(round const& plan) {
    return play(plan, [](round const& r) {
        vram::pool_options remapping = options(r);
        remapping.remap              = true;
        return vram::pool{pages(r), remapping};
    });
}
inline vram::arena_options arena_of(round const& r) {
    return {.max_size   = r.max_size,
            .count      = 1 + r.streams / 2,
            .key        = r.seed % 2 == 0 ? vram::arena_key::stream : vram::arena_key::thread,
            .events     = r.events,
            .graphs     = r.graphs,
            .trim_above = r.max_size / 2};
}
inline std::string arena(round const& plan) {
    return play(plan, [](round const& r) { return vram::arena{ordered{}, arena_of(r)}; });
}
inline std::string arena_of_pool(round const& plan) {
    return play(plan, [](round const& r) {
        return vram::arena{vram::pool{ordered{}, {.events = r.events, .graphs = r.graphs}},
                           arena_of(r)};
    });
}
inline std::string slab(round const& plan) {
    return play(plan, [](round const& r) { return vram::slab{ordered{}, r.largest, options(r)}; });
}
inline vram::binned_options binned_of(round const& r) {
    return {
        .largest = r.largest / 4, .max_size = r.max_size, .events = r.events, .graphs = r.graphs};
}
inline std::string binned(round const& plan) {
    return play(plan, [](round const& r) { return vram::binned{ordered{}, binned_of(r)}; });
}
inline std::string binned_of_pool(round const& plan) {
    return play(plan, [](round const& r) {
        return vram::binned{vram::pool{ordered{}, {.events = r.events, .graphs = r.graphs}},
                            binned_of(r)};
    });
}
inline std::string monotonic(round const& plan) {
    return play(plan, [](round const& r) { return vram::monotonic{ordered{}, options(r)}; });
}

/// A pool, and how a round of it is run.
struct subject {
    char const* name;
    char const* what;
    std::string (*run)(round const&);
};

inline constexpr subject subjects[] = {
    {"pool", "pool<stream_ordered<sim_resource>>", pool},
    {"pool_paged", "pool<sim_virtual_resource>", pool_paged},
    {"pool_shared", "pool<sim_virtual_resource>, free pages get second addresses", pool_shared},
    {"pool_remap", "pool<sim_virtual_resource>, pages move under large requests", pool_remap},
    {"arena", "arena<stream_ordered<sim_resource>>, by thread and by stream", arena},
    {"arena_of_pool", "arena<pool<stream_ordered<sim_resource>>>", arena_of_pool},
    {"slab", "slab<stream_ordered<sim_resource>>", slab},
    {"binned", "binned<stream_ordered<sim_resource>>", binned},
    {"binned_of_pool", "binned<pool<stream_ordered<sim_resource>>>", binned_of_pool},
    {"monotonic", "monotonic<stream_ordered<sim_resource>>, with marks", monotonic},
};

} // namespace trial
