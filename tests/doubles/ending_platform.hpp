// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vram/sim/sim.hpp>

namespace doubles {

/// A platform whose process is ending: its streams must not be queried. Counts the queries.
struct ending_platform : vram::sim_platform {
    [[nodiscard]] static bool ending() noexcept { return true; }
    [[nodiscard]] static bool capturing(stream) {
        ++queries;
        return true;
    }

    static inline int queries = 0;
};

} // namespace doubles
