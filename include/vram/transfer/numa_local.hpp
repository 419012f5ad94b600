// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `numa_local` keeps a host thread and the memory that it touches near a device, where that can
/// be done.

#include <vram/base/requirements.hpp> // C++20

#include <concepts> // constructible_from
#include <optional> // optional

namespace vram {

/// Whether a platform knows where near is: `P::numa_local{device}` is a guard of this thread.
template <class P>
concept has_near_device = std::constructible_from<typename P::numa_local, typename P::device>;

/// For its scope this thread runs, and takes memory, on the node of `where`, if `wanted`. On a
/// platform that does not know where that is, nothing.
///
/// Threads   of this thread alone
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

} // namespace vram
