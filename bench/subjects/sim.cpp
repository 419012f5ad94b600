// SPDX-License-Identifier: Apache-2.0
// The stacks on the simulated device, without the simulator's own cost.

#include "../support/address_resource.hpp"
#include "../support/address_virtual.hpp"
#include "found.hpp"
#include "stacks.hpp"

namespace bench {

/// Names the stand-in as the simulated device; the head of the output explains it.
template <>
std::string type_name<address_resource<streams_are::idle>>() {
    return "sim_resource";
}

template <>
std::string type_name<address_virtual<streams_are::idle>>() {
    return "sim_virtual_resource";
}

template <streams_are Pace>
using sim_stacks = stacks<address_resource<Pace>, address_virtual<Pace>>;

void add_sim(found& all) {
    add_stacks<sim_stacks<streams_are::idle>, sim_stacks<streams_are::busy>>(
        all.subjects, "on addresses alone; where streams rotate they are never done");
}

} // namespace bench
