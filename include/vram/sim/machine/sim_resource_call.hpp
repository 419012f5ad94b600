// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `in_resource_call` tells the calls of a resource from those of the program.

#include <vram/base/requirements.hpp>

#include <utility>

namespace vram {
namespace detail {

/// Number of calls of resources that the calling thread is in, one for each level of a stack that
/// notifies observers.
inline constinit thread_local unsigned resource_depth = 0;

/// Returns true in a call of a resource, such as a pool: waits are then those of the resource, not
/// of the program.
[[nodiscard]] inline bool in_resource_call() noexcept { return resource_depth != 0; }

/// While this object exists, the thread does not count as in a call of a resource. Used around
/// functions of the program.
class sim_program_call {
public:
    sim_program_call() noexcept : depth_{std::exchange(resource_depth, 0)} {}
    sim_program_call(sim_program_call const&)            = delete;
    sim_program_call& operator=(sim_program_call const&) = delete;
    ~sim_program_call() { resource_depth = depth_; }

private:
    unsigned depth_;
};

} // namespace detail
} // namespace vram
