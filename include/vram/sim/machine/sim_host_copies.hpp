// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_host_copies` declares a copy by the host, which takes simulated time.

#include <vram/sim/machine/sim_route.hpp> // sim_address
#include <vram/sim/sim_touch.hpp>         // sim_touch, sim_work

#include <cstddef>
#include <mutex>           // lock_guard
#include <source_location> // source_location
#include <thread>          // this_thread

namespace vram {
namespace detail {

/// Declares that the calling thread copies `bytes` bytes from `from` to `to`. An address is null if
/// that end of the copy is a file. Adds the time of the copy to the simulated time of the thread.
/// `past_caches`: true if the copy writes `to` without storing it in the cache.
///
/// With `sim_options::cached_bandwidth`, also records that the pinned memory of the copy is now in
/// the cache of the thread's core.
inline void sim_host_copies(void* to, void const* from, std::size_t bytes, bool past_caches = false,
                            std::source_location where = std::source_location::current()) {
    if (from != nullptr) { sim_touch({from, bytes}, sim_access::read, where); }
    if (to != nullptr) { sim_touch({to, bytes}, sim_access::write, where); }
    sim_node&          node      = sim_node::current();
    sim_options const& o         = node.options();
    bool const         pinned    = from != nullptr && node.machine().is_pinned(from);
    std::size_t const  special   = from == nullptr ? o.file_read_bandwidth
                                   : pinned        ? o.pinned_read_bandwidth
                                                   : 0;
    std::size_t const  bandwidth = special != 0 ? special : o.host_copy_bandwidth;
    if (bandwidth != 0) { sim_work(sim_transfer_time(bytes, bandwidth), where); }
    if (o.cached_bandwidth == 0) { return; }
    sim_machine&          m         = node.machine();
    bool const            to_pinned = to != nullptr && m.is_pinned(to);
    std::lock_guard const held{m.mutex};
    // Records that the bytes at `p` are in the cache of the calling thread. `times` is 2 if the
    // other end of the copy is in the cache, too, but is not recorded because it is not pinned.
    auto const note = [&](void const* p, std::size_t times) {
        m.caches.copied(std::this_thread::get_id(), sim_address(p), bytes, times, o.core_cache);
    };
    if (pinned) { note(from, to_pinned || past_caches ? 1 : 2); }
    if (to_pinned) {
        if (past_caches) {
            (void)m.caches.take(sim_address(to), bytes);
        } else {
            note(to, pinned ? 1 : 2);
        }
    }
}

} // namespace detail
} // namespace vram
