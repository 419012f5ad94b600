// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `host_work` reports copies made by the host to a platform that observes them.

#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// A platform that observes host copies through `P::host_copies(to, from, bytes)`. The simulated
/// platform reports a copy that races with work of its devices, and advances the simulated time by
/// the duration of the copy.
template <class P>
concept hears_host_work =
    requires(void* to, void const* from, std::size_t bytes) { P::host_copies(to, from, bytes); };

/// `copies` notifies the platform that the calling thread is about to copy `bytes` bytes from
/// `from` to `to`. If one end is a file or a socket instead of memory, its address is null.
///
/// Cost      Nothing if the platform does not observe host copies.
template <class P>
struct host_work {
    static void copies(void* to, void const* from, std::size_t bytes) {
        if constexpr (hears_host_work<P>) {
            P::host_copies(to, from, bytes);
        } else {
            (void)to, (void)from, (void)bytes;
        }
    }
};

} // namespace detail
} // namespace vram
