// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/pool_options.hpp> // first: the header stands alone

#include "../doubles/contracts_throw.hpp"

#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <string> // string

using namespace vram;

TEST_CASE("pool_options: the defaults are no initial size and no limit") {
    pool_options const o;
    CHECK(o.initial_size == 0);
    CHECK(o.max_size == unsatisfiable);
    CHECK_FALSE(o.graphs);
}

namespace {

template <class Make>
void rejects_page_options(Make make) {
    for (pool_options const& o :
         {pool_options{.remap = true}, pool_options{.slack = 0}, pool_options{.slack = 0.07}}) {
        try {
            make(o);
            FAIL("the option has no effect");
        } catch (doubles::broken_contract const& broken) {
            CHECK(broken.what.find("`remap` and `slack`") != std::string::npos);
        }
    }
    make(pool_options{});
}

} // namespace

TEST_CASE("pool_options: an option that has no effect on the stack is a broken contract") {
    sim_node                       node{{.capacity = 64_MiB}};
    doubles::contracts_throw const guard;
    rejects_page_options([](pool_options const& o) { pool{sim_resource{}, o}; });
    rejects_page_options([](pool_options const& o) { pool{sim_async_resource{}, o}; });
    rejects_page_options([](pool_options const& o) { slab{sim_resource{}, 512, o}; });
    rejects_page_options([](pool_options const& o) { monotonic{sim_resource{}, o}; });
    pool{sim_virtual_resource{}, {.remap = true}};
    pool{sim_virtual_resource{}, {.slack = 0.07}};
}
