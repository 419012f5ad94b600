// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_figures.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("sim_figures: busy and overlap are sums over sets of busy engines") {
    sim_figures f;
    f.together[sim_set()]                                           = sim_time{1000};
    f.together[sim_set(sim_engine::compute)]                        = sim_time{5};
    f.together[sim_set(sim_engine::to_device)]                      = sim_time{7};
    f.together[sim_set(sim_engine::compute, sim_engine::to_device)] = sim_time{11};
    f.together[sim_set(sim_engine::to_host, sim_engine::to_device)] = sim_time{13};
    CHECK(f.busy(sim_engine::compute) == sim_time{16});
    CHECK(f.busy(sim_engine::to_device) == sim_time{31});
    CHECK(f.busy(sim_copy_engines) == sim_time{31});
    CHECK(f.overlap() == sim_time{11});
    CHECK(f.overlap(sim_set(sim_engine::to_host), sim_set(sim_engine::to_device)) == sim_time{13});
}
