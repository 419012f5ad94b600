// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/whole_chunks.hpp> // first: the header stands alone

#include <vram/pool/core/pool_core.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/sim/sim.hpp>

#include "../../doubles/contracts_throw.hpp"

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

template class vram::detail::whole_chunks<sim_resource>;

TEST_CASE("whole_chunks: a chunk has the requested size, and all of it is resident") {
    using chunks = whole_chunks<sim_resource>;
    sim_node node;
    chunks   growth{sim_resource{}, {}};
    CHECK(chunks::chunk_size(1000) == 1000);
    CHECK(growth.remove({.base = nullptr, .bytes = 1000}) == 1000);
    block b;
    b.bytes = 512;
    CHECK(chunks::resident(b) == 512);
    doubles::contracts_throw const guard;
    CHECK_THROWS_AS((chunks{sim_resource{}, {.remap = true}}), doubles::broken_contract);
}
