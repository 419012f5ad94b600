// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `host_work` tells a machine what the host itself is about to do with memory.

#include <cstddef> // size_t

namespace vram {

/// Whether the machine wants to hear of it: `P::host_copies(to, from, bytes)`. A simulated one
/// holds it against what its devices do, and lets its time pass.
template <class P>
concept hears_host_work =
    requires(void* to, void const* from, std::size_t bytes) { P::host_copies(to, from, bytes); };

/// Says so before the calling thread copies `bytes` from one place of the host to another. Either
/// is null where it is not memory: a file, a socket.
///
/// Cost      nothing where the machine does not want to hear of it
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

} // namespace vram
