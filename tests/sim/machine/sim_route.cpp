// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_route.hpp> // first: the header stands alone

#include <vram/sim/machine/sim_call.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_route: the kinds of memory at both ends determine the engine and the name") {
    sim_node            node;
    sim_resource        device;
    sim_pinned_resource pinned;
    int                 plain = 0;
    void* const         d     = device.allocate_sync(64);
    void* const         p     = pinned.allocate_sync(64);
    {
        sim_call   call{node.machine(), sim_call_kind::other, 0, std::source_location::current()};
        auto const route = [&](void* to, void* from) {
            return sim_route{call.machine, sim_address(to), sim_address(from), 0};
        };
        CHECK(route(d, p).engine == sim_engine::to_device);
        CHECK(std::string{route(d, p).name()} == "copy host to device");
        CHECK_FALSE(route(d, p).pageable());
        CHECK(route(d, &plain).pageable());
        CHECK(route(d, &plain).bandwidth == call.machine.options.pageable_bandwidth);
        CHECK(route(p, d).engine == sim_engine::to_host);
        CHECK(route(d, d).engine == sim_engine::compute);
        CHECK(route(p, &plain).engine == sim_engine::host);
    }
    pinned.deallocate_sync(p, 64);
    device.deallocate_sync(d, 64);
}
