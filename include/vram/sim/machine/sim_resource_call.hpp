// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `in_resource_call` tells the calls of a resource from those of the program.

#include <vram/base/requirements.hpp>

#include <utility>

namespace vram {
namespace detail {

/// Number of calls of resources (such as pools) in which the calling thread is now. A call by one
/// resource of another counts separately. While a function of the program runs inside such a call,
/// the number starts again at 0.
inline constinit thread_local unsigned resource_depth = 0;

/// Returns true if the calling thread is in a call of a resource, such as a pool. The program must
/// not rely on waits in such a call. Therefore, they count only in the full order of a
/// `vector_clock`.
[[nodiscard]] inline bool in_resource_call() noexcept { return resource_depth != 0; }

/// While an object of this class exists, waits count as waits of the program, even inside a call of
/// a resource. Used around functions of the program that run inside such a call.
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
