// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `in_resource_call` tells the calls of a resource from those of the program.

#include <vram/base/requirements.hpp>

#include <utility>

namespace vram {
namespace detail {

/// Number of calls of resources (such as pools) that the calling thread is in; nested calls of a
/// stack count separately. In a callback of the program, counts from 0 again.
inline constinit thread_local unsigned resource_depth = 0;

/// Returns true if the calling thread is in a call of a resource, such as a pool. The program must
/// not rely on waits in such a call, so they count only in the full order.
[[nodiscard]] inline bool in_resource_call() noexcept { return resource_depth != 0; }

/// Used around a function of the program that runs inside a call of a resource: the waits of the
/// function count as those of the program.
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
