// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `numa_local` keeps a host thread and its memory on the NUMA node of a device.

#include <vram/base/requirements.hpp>

#include <concepts> // constructible_from
#include <optional> // optional

namespace vram {
namespace detail {

/// A platform that knows the NUMA node of a device: `P::numa_local{device}` is a guard that keeps
/// the calling thread on that node.
template <class P>
concept has_near_device = std::constructible_from<typename P::numa_local, typename P::device>;

/// If `wanted` is true, the calling thread runs and allocates on the NUMA node of the device
/// `where` for the scope of this guard. Does nothing if the platform does not know the node.
///
/// Threads   Affects only the calling thread.
template <class Platform>
class numa_local {
public:
    numa_local([[maybe_unused]] typename Platform::device where, [[maybe_unused]] bool wanted) {
        if constexpr (has_near_device<Platform>) {
            if (wanted) { guard_.emplace(where); }
        }
    }
    numa_local(numa_local&&) = delete;

private:
    struct nothing {};
    template <class P>
    struct guard_of {
        using type = nothing;
    };
    template <has_near_device P>
    struct guard_of<P> {
        using type = typename P::numa_local;
    };

    std::optional<typename guard_of<Platform>::type> guard_;
};

} // namespace detail
} // namespace vram
