// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_copy` copies bytes in stream order, with CUDA's rules for waits of the host.

#include <vram/concepts/pitched_copy.hpp>
#include <vram/sim/machine/enqueue_copy.hpp> // enqueue_copy, sim_route
#include <vram/sim/machine/expect_disjoint.hpp>
#include <vram/sim/sim_stream_view.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>         // memset
#include <source_location> // source_location
#include <span>            // span
#include <utility>
#include <vector> // vector

namespace vram {

/// Copies `bytes` bytes in the order of `stream`; the addresses determine the direction. The call
/// waits in the cases in which cudaMemcpyAsync waits.
///
/// Failure   Throws `sim_error` or `sim_race`.
/// Streams   The source must not change until the copy is complete.
inline void sim_copy(sim_stream_view stream, void* to, void const* from, std::size_t bytes,
                     std::source_location where = std::source_location::current()) {
    detail::sim_stream_state& s = stream.state();
    detail::sim_call          call{*s.machine, sim_call_kind::copy, s.device, where, bytes};
    call.admit();
    if (bytes != 0) {
        detail::enqueue_copy(call, s,
                             {.to         = to,
                              .to_pitch   = bytes,
                              .to_slice   = bytes,
                              .from       = from,
                              .from_pitch = bytes,
                              .from_slice = bytes,
                              .width      = bytes});
    }
    call.throw_report();
}

/// Copies a box of bytes between two pitched layouts, in the order of `stream`.
inline void sim_copy(sim_stream_view stream, pitched_copy const& box,
                     std::source_location where = std::source_location::current()) {
    detail::sim_stream_state& s = stream.state();
    detail::sim_call          call{*s.machine, sim_call_kind::copy, s.device, where,
                          box.width * box.height * box.depth};
    call.admit();
    if (box.width * box.height * box.depth != 0) { detail::enqueue_copy(call, s, box); }
    call.throw_report();
}

/// A copy that blocks the calling thread as cudaMemcpy does, in the order of the default stream.
inline void sim_copy_sync(void* to, void const* from, std::size_t bytes,
                          std::source_location where = std::source_location::current()) {
    detail::sim_stream_state& s = sim_stream_view{}.state();
    detail::sim_call          call{*s.machine, sim_call_kind::copy, s.device, where, bytes};
    call.admit();
    if (bytes == 0) { return; }
    call.unsafe();
    detail::sim_route const route{*s.machine, detail::sim_address(to), detail::sim_address(from),
                                  s.device};
    if (route.from_kind == detail::sim_kind::pageable &&
        detail::sim_route::on_device(route.to_kind)) {
        detail::sim_wait{call}.synchronize(s);
    }
    detail::enqueue_copy(call, s,
                         {.to         = to,
                          .to_pitch   = bytes,
                          .to_slice   = bytes,
                          .from       = from,
                          .from_pitch = bytes,
                          .from_slice = bytes,
                          .width      = bytes});
    bool const within = route.engine == sim_engine::compute || route.engine == sim_engine::peer;
    bool const staged =
        route.from_kind == detail::sim_kind::pageable && !s.machine->options.host_page_tables;
    if (!within && !staged) {
        detail::sim_wait{call}.synchronize(s);
    } else if (staged && bytes > 65536) {
        // Adds the time of CUDA's copy from the source to a buffer. In CUDA, the copy to the device
        // may still run then, so the host is not ordered after it.
        detail::sim_wait{call}.await(s.tail);
    }
    call.throw_report();
}

/// Queues copies without an order among them, as cudaMemcpyBatchAsync does. Returns false, and
/// queues nothing, if `stream` is captured or the legacy default stream and the batch is not empty.
///
///     sim_copy_batch(stream, to, from, bytes); // three spans of equal size
///
/// Failure   Throws `sim_error` or `sim_race`; copies of the batch may be queued.
inline bool sim_copy_batch(sim_stream_view stream, std::span<void* const> to,
                           std::span<void const* const> from, std::span<std::size_t const> bytes,
                           std::source_location where = std::source_location::current()) {
    if (to.empty()) { return true; }
    detail::sim_stream_state& s = stream.state();
    if (s.legacy || s.capture != nullptr) { return false; }
    detail::sim_call call{*s.machine, sim_call_kind::copy, s.device, where, bytes.front()};
    call.admit();
    // The accesses of all copies of the batch. The copies have no order among themselves.
    std::vector<detail::sim_task::use> uses;
    for (std::size_t i = 0; i < to.size(); ++i) {
        detail::sim_task::use const read{{from[i], bytes[i]}, sim_access::read};
        detail::sim_task::use const write{{to[i], bytes[i]}, sim_access::write};
        // A copy whose own source and destination overlap is reported by `enqueue_copy` below.
        if (detail::first_overlap({read, write}).bytes != 0) { continue; }
        uses.insert(uses.end(), {read, write});
    }
    detail::expect_disjoint(call, s, uses, sim_mistake::race,
                            "the copies of a batch have no order among themselves");
    for (std::size_t i = 0; i < to.size(); ++i) {
        if (bytes[i] == 0) { continue; }
        detail::enqueue_copy(call, s,
                             {.to         = to[i],
                              .to_pitch   = bytes[i],
                              .to_slice   = bytes[i],
                              .from       = from[i],
                              .from_pitch = bytes[i],
                              .from_slice = bytes[i],
                              .width      = bytes[i]},
                             true);
    }
    call.throw_report();
    return true;
}

/// Fills `bytes` bytes with `value` in the order of `stream`. A fill of pageable memory blocks the
/// host, except in a capture, and is a mistake unless `sim_options::host_page_tables` is true.
inline void sim_fill(sim_stream_view stream, void* to, std::byte value, std::size_t bytes,
                     std::source_location where = std::source_location::current()) {
    detail::sim_stream_state& s = stream.state();
    detail::sim_machine&      m = *s.machine;
    detail::sim_call          call{m, sim_call_kind::copy, s.device, where, bytes};
    call.admit();
    if (bytes == 0) { return; }
    call.pay(m.options.costs.fill);
    detail::sim_route const route{m, detail::sim_address(to), detail::sim_address(to), s.device};
    bool const              accessible = route.to_kind != detail::sim_kind::pageable;
    sim_time const          transfer =
        sim_transfer_time(bytes, m.options.fill_bandwidth != 0 ? m.options.fill_bandwidth
                                                               : m.options.device_bandwidth);
    detail::sim_task task{.name     = "fill",
                          .engine   = sim_engine::compute,
                          .device   = s.device,
                          .duration = transfer,
                          .transfer = transfer,
                          .link  = detail::sim_link_number(detail::sim_link_kind::memory, s.device),
                          .copy  = accessible || m.options.host_page_tables,
                          .uses  = {{{to, bytes}, sim_access::write}},
                          .where = where};
    if (std::uintptr_t const at = m.memory.view(detail::sim_address(to))) {
        task.effect = [at, value, bytes] {
            std::memset(reinterpret_cast<void*>(at), static_cast<int>(value), bytes);
        };
    }
    detail::sim_operation* const op = detail::sim_queue{call}.enqueue(s, std::move(task));
    if (op != nullptr && route.to_kind == detail::sim_kind::pageable) {
        detail::vector_clock const then = s.vclock;
        detail::sim_wait{call}.await(s.tail);
        // With `host_page_tables`, CUDA may return before the fill is complete. The race check then
        // must not order the host after it.
        if (!m.options.host_page_tables) { m.acquire(*call.host, then); }
    }
    call.throw_report();
}

} // namespace vram
