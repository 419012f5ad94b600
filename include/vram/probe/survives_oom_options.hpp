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
    /// If true, each request is refused in two runs of the tested code. In one run only this
    /// request is refused, in the other all later requests are refused too (up to `most_refusals`).
    /// If false, the second of these runs is omitted.
    bool for_good = true;
    /// Largest number of requests that are refused in one run (call of the tested code). If a run
    /// has this number of refusals, its later requests succeed, and `survives_oom` reports
    /// `oom_fault::endless_retry`: the code seems to repeat a request forever. If `for_good` is
    /// true, must be at least 2.
    std::uint64_t most_refusals = 1000;
    /// Largest number of requests in one run (call of the tested code). If a run makes more
    /// requests, `survives_oom` ends and reports `oom_fault::too_many_requests`.
    std::uint64_t most_requests = 10'000;
};

} // namespace vram
