// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `survives_oom_options` holds the options of `survives_oom`.

#include <vram/base/requirements.hpp>

#include <cstdint>

namespace vram {

/// Options of `survives_oom`.
struct survives_oom_options {
    /// If not 0, tests only the refusal of the request with this number (from 1), so that one
    /// failure can be repeated in a debugger.
    std::uint64_t only = 0;
    /// If true, each request is tested in two runs: the first refuses it alone, the second refuses
    /// it and all later ones (see `most_refusals`). If false, there is no second run.
    bool for_good = true;
    /// Largest number of refused requests in a run. Later requests succeed, and the run counts as a
    /// retry without an end (`oom_fault::endless_retry`).
    std::uint64_t most_refusals = 1000;
    /// Largest number of requests of a run; with more, the check ends
    /// (`oom_fault::too_many_requests`).
    std::uint64_t most_requests = 10'000;
};

} // namespace vram
