// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `survives_oom_options` holds the options of `survives_oom`.

#include <vram/base/requirements.hpp>

#include <cstdint> // uint64_t

namespace vram {

/// Options of `survives_oom`.
struct survives_oom_options {
    /// If not 0, only this request is refused, to repeat a failure in a debugger.
    std::uint64_t only = 0;
    /// If true, each request is also refused together with all later ones of the run.
    bool for_good = true;
    /// Number of refusals in a run after which requests succeed again: the code repeats the request
    /// without an end.
    std::uint64_t most_refusals = 1000;
    /// Number of requests of a run from which the check gives up.
    std::uint64_t most_requests = 10'000;
};

} // namespace vram
