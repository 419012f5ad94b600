// SPDX-License-Identifier: Apache-2.0
// refuse: deleted
// A null pointer is not a stream: the default stream has a name, and 0 is a size.
#include <vram/sim/sim.hpp>

vram::sim_stream_view const stream{nullptr};
