// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file `for_every_pool` runs a test on every pool of vram.

#include <vram/base/bytes.hpp>               // operator""_KiB
#include <vram/layer/stream_ordered.hpp>     // stream_ordered
#include <vram/pool/arena.hpp>               // arena
#include <vram/pool/binned.hpp>              // binned
#include <vram/pool/monotonic.hpp>           // monotonic
#include <vram/pool/pool.hpp>                // pool
#include <vram/pool/slab.hpp>                // slab
#include <vram/sim/sim_node.hpp>             // sim_node
#include <vram/sim/sim_virtual_resource.hpp> // sim_virtual_resource
#include <vram/source/host_resource.hpp>     // host_resource

#include "../doubles/resetting.hpp" // resetting

#include <doctest/doctest.h>

#include <string>

namespace tests {

/// Calls `body(memory)` for a new one of each. A slab's blocks are 4 KiB: nothing larger is taken.
template <class Body>
void for_every_pool(Body body) {
    using namespace vram;
    auto const run = [&](std::string const& name, auto memory) {
        CAPTURE(name);
        body(memory);
    };
    run("pool", pool<host_resource>{});
    run("slab", slab<host_resource>{4_KiB});
    run("binned", binned<stream_ordered<host_resource>>{});
    run("monotonic", doubles::resetting{monotonic<host_resource>{}});
    run("arena", arena<host_resource>{});
    sim_node const node; // its memory is used for the next request
    run("pool in place", pool<sim_virtual_resource>{});
}

} // namespace tests
