// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_touch` declares a memory access of the calling host thread to the checker, `sim_work` a
/// duration of its work. `sim_happens_before` and `sim_happens_after` declare an order of threads.

#include <vram/sim/machine/sim_declared.hpp> // expect_declared
#include <vram/sim/sim_node.hpp>
#include <vram/sim/sim_range.hpp> // sim_range, sim_access

#include <source_location> // source_location

namespace vram {

/// Declares that the calling host thread reads or writes `range` now. The access is reported if it
/// conflicts with another access, or if the memory is device memory or was freed.
///
///     sim_touch({staging, n}, sim_access::write);
///     std::memcpy(staging, source, n);
///
/// In a kernel or host function, the call only checks that the access was declared when the kernel
/// or function was enqueued.
///
/// Threads   Any thread may call it.
inline void sim_touch(sim_range range, sim_access access,
                      std::source_location where = std::source_location::current()) {
    detail::sim_machine& m = sim_node::current().machine();
    if (detail::inside_effect) { return detail::expect_declared(m, range, access, false, where); }
    detail::sim_call   call{m, sim_call_kind::other, 0, where};
    sim_event_of const step = call.host_step("host");
    while (range.bytes != 0) {
        sim_range const part = m.memory.take_alike(range);
        m.checker.touch(step, call.host->vclock, part, access, detail::sim_copy_kind::none, true);
    }
    call.throw_report();
}

/// Adds `duration` of work on the host to the simulated time of the calling thread.
inline void sim_work(sim_time             duration,
                     std::source_location where = std::source_location::current()) {
    sim_node::current().work(duration, where);
}

/// Declares that earlier work of the calling thread happens before later `sim_happens_after` calls
/// with the same token. Use it if the simulated device cannot see how threads are ordered.
///
///     sim_happens_before(&ready); // before the store
///     ready = true;
///     ...
///     if (ready) {
///         sim_happens_after(&ready); // after the load
///         event.wait(stream);
///     }
///
/// Failure   Throws `sim_error{not_permitted}` inside a kernel or a host function.
/// Threads   Any thread may call it.
/// Cost      The node stores one vector clock for each token.
inline void sim_happens_before(void const*          token,
                               std::source_location where = std::source_location::current()) {
    detail::sim_machine& m = sim_node::current().machine();
    detail::sim_call     call{m, sim_call_kind::other, 0, where};
    if (!m.checker.on().races) { return; }
    m.tokens[token].join(call.host->vclock);
    call.host->advance();
}

/// Declares that everything before the earlier calls of `sim_happens_before` with the same token
/// happens before the later work of the calling thread. See `sim_happens_before`.
inline void sim_happens_after(void const*          token,
                              std::source_location where = std::source_location::current()) {
    detail::sim_machine& m = sim_node::current().machine();
    detail::sim_call     call{m, sim_call_kind::other, 0, where};
    auto const           found = m.tokens.find(token);
    if (found != m.tokens.end()) { m.acquire(*call.host, found->second); }
}

} // namespace vram
