// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_time` is the time of the simulated device, which advances with queued work and calls.

#include <vram/base/requirements.hpp>

#include <chrono> // nanoseconds
#include <cstddef>
#include <cstdint>

namespace vram {

/// A time since the `sim_node` was created, or a duration, in whole nanoseconds. Sums are exact.
using sim_time = std::chrono::nanoseconds;

/// Returns the duration of a transfer of `bytes` at `bytes_per_second` (not 0), rounded up.
[[nodiscard]] constexpr sim_time sim_transfer_time(std::size_t bytes,
                                                   std::size_t bytes_per_second) noexcept {
    __extension__ using wide = unsigned __int128; // bytes * 1e9 overflows 64 bits at 18 GB
    wide const product       = static_cast<wide>(bytes) * 1000000000U;
    return sim_time{static_cast<std::int64_t>((product + bytes_per_second - 1) / bytes_per_second)};
}

} // namespace vram
