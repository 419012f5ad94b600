// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `trial_of_thread` is the number of the trial of `survives_oom` to which the calling thread
/// belongs.

#include <vram/base/requirements.hpp>

#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// Identifier of the trial to which the thread belongs; 0 if none. A trial is one call of
/// `survives_oom`, which refuses allocations to test a function of the program.
inline constinit thread_local std::uint64_t trial_of_thread = 0;

/// While the object exists, its thread belongs to the trial `number` (one call of `survives_oom`),
/// which may refuse the thread's allocations. The destructor restores the trial before it.
class [[maybe_unused]] trial_scope {
public:
    explicit trial_scope(std::uint64_t number) noexcept
        : before_{std::exchange(trial_of_thread, number)} {}
    trial_scope(trial_scope&&) = delete;
    ~trial_scope() { trial_of_thread = before_; }

private:
    std::uint64_t before_;
};

} // namespace detail
} // namespace vram
