// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The description of a GPU that the simulated device takes in a run with `--profile`.

#include <vram/sim/sim_options.hpp>

#include <CLI/CLI.hpp>

#include <string>

namespace bench {

/// The profile that the user requested, or an empty text: round numbers, and calls cost nothing.
inline std::string& profile() {
    static std::string name;
    return name;
}
inline void add_profile(CLI::App& app) {
    app.add_option("--profile", profile(),
                   "on the simulated device: bandwidths and costs of calls of this GPU")
        ->check(CLI::IsMember({"h100", "h200"}));
}

/// Returns the options of the requested profile, without contents and checks, or else `plain`.
inline vram::sim_options profiled(vram::sim_options const& plain) {
    if (profile().empty()) { return plain; }
    vram::sim_options o =
        profile() == "h100" ? vram::sim_options::h100() : vram::sim_options::h200();
    o.backed = false;
    o.trace  = plain.trace;
    return o;
}

} // namespace bench
