// SPDX-License-Identifier: Apache-2.0
// Every way to end a process with every kind of object, on the simulated device.

#include "kinds.hpp"

#include <vram/sim/sim.hpp>

using namespace vram;

struct sim_world {
    using platform = sim_platform;
    using resource = sim_resource;
    using pinned   = sim_pinned_resource;
    using managed  = sim_managed_resource;
    using space    = sim_virtual_resource;
    using async    = sim_async_resource;
    using stream   = sim_stream;
};

int main(int argc, char** argv) {
    using namespace tests::exits;
    // A thread that takes part in simulated time and sleeps stops all others.
    auto const sleeps = [](way const& w, kind const& k) {
        std::string const name = k.name;
        bool const threads = name == "loader" || name == "staging" || name.ends_with("unloader");
        return threads && w.run == exit_of_another_thread;
    };
    return tests::exits::main(argc, argv, common_ways(), kinds<sim_world>(), sleeps);
}
