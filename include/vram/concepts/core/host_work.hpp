// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `host_work` reports copies made by the host to a platform that observes them.

#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// A platform with the function `P::host_copies(to, from, bytes, past_caches)`, which vram calls
/// before a host thread copies memory. The simulated platform checks these copies for races.
template <class P>
concept hears_host_work = requires(void* to, void const* from, std::size_t bytes) {
    P::host_copies(to, from, bytes, true);
};

/// Tells a platform that checks copies by the host that the calling thread is about to copy `bytes`
/// bytes. A null address stands for a file or socket. If `past_caches` is true, the copy's stores
/// bypass the CPU's caches.
template <class P>
struct host_work {
    static void copies(void* to, void const* from, std::size_t bytes, bool past_caches = false) {
        if constexpr (hears_host_work<P>) {
            P::host_copies(to, from, bytes, past_caches);
        } else {
            (void)to, (void)from, (void)bytes, (void)past_caches;
        }
    }
};

} // namespace detail
} // namespace vram
