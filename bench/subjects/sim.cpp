// SPDX-License-Identifier: Apache-2.0
// The stacks on the simulated device, without the simulator's own cost.

#include "../support/address_resource.hpp"
#include "found.hpp"
#include "stacks.hpp"

namespace bench {

/// What stands for the simulated device is printed by its name; the head of the output says so.
template <>
std::string type_name<address_resource<streams_are::idle>>() {
    return "sim_resource";
}

void add_sim(found& all) {
    add_stacks<stacks<address_resource<streams_are::idle>>,
               stacks<address_resource<streams_are::busy>>>(
        all.subjects, "on addresses alone; where streams rotate they are never done");
}

} // namespace bench
