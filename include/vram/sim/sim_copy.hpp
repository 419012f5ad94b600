// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_copy` copies bytes in stream order, with CUDA's rules for waits of the host.

#include <vram/concepts/pitched_copy.hpp>
#include <vram/sim/machine/enqueue_copy.hpp> // enqueue_copy, sim_route
#include <vram/sim/machine/expect_disjoint.hpp>
#include <vram/sim/sim_device.hpp>
#include <vram/sim/sim_stream_view.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>         // memset
#include <source_location> // source_location
#include <span>            // span
#include <utility>
#include <vector> // vector

namespace vram {

namespace detail {

/// Returns the description of a copy of `bytes` contiguous bytes.
inline pitched_copy contiguous(void* to, void const* from, std::size_t bytes) noexcept {
    return {.to         = to,
            .to_pitch   = bytes,
            .to_slice   = bytes,
            .from       = from,
            .from_pitch = bytes,
            .from_slice = bytes,
            .width      = bytes};
}
/// Queues a copy of `bytes` bytes on `stream`.
inline void copy_range(sim_stream_view stream, void* to, void const* from, std::size_t bytes,
                       sim_copy_kind kind, std::source_location where) {
    sim_stream_state& s = stream.state();
    sim_call          call{*s.machine, sim_call_kind::copy, s.device, where, bytes};
    call.admit();
    if (bytes != 0) { enqueue_copy(call, s, contiguous(to, from, bytes), false, kind); }
    call.throw_report();
}

} // namespace detail

/// Copies `bytes` bytes in the order of `stream`; the addresses determine the direction. The call
/// waits in the cases in which cudaMemcpyAsync waits. If the memory is from a pool or a mapping,
/// the device of `stream` needs access to it. This is not checked if another device is current.
///
/// Failure   Throws `sim_error` or `sim_race`.
/// Streams   The source must not change until the copy is complete.
inline void sim_copy(sim_stream_view stream, void* to, void const* from, std::size_t bytes,
                     std::source_location where = std::source_location::current()) {
    detail::copy_range(stream, to, from, bytes, detail::sim_copy_kind::copy, where);
}
/// Copies `bytes` bytes from one device to another, as cudaMemcpyPeerAsync does. Needs no access to
/// the memory, also if it is from a pool or a mapping. Throws `sim_error{invalid_value}` for
/// pageable memory. As in CUDA, the addresses determine the devices, and one of them may be pinned
/// host memory.
inline void sim_copy(sim_stream_view stream, void* to, sim_device to_device, void const* from,
                     sim_device from_device, std::size_t bytes,
                     std::source_location where = std::source_location::current()) {
    static_cast<void>(to_device);
    static_cast<void>(from_device);
    detail::copy_range(stream, to, from, bytes, detail::sim_copy_kind::peer_copy, where);
}

/// Copies rows and slices of bytes (a 2-D or 3-D copy) in the order of `stream`. `box` describes
/// the source, the destination and the distances between rows and slices.
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
    if (bytes == 0) { return call.throw_report(); }
    call.unsafe();
    if (s.capture) { detail::sim_wait{call}.synchronize(s); } // refuses the copy
    detail::sim_route const route{*s.machine, detail::sim_address(to), detail::sim_address(from),
                                  s.device};
    if (route.from_kind == detail::sim_kind::pageable &&
        detail::sim_route::on_device(route.to_kind)) {
        detail::sim_wait{call}.synchronize(s);
    }
    detail::enqueue_copy(call, s, detail::contiguous(to, from, bytes));
    bool const within = route.engine == sim_engine::compute || route.engine == sim_engine::peer;
    bool const staged =
        route.from_kind == detail::sim_kind::pageable && !s.machine->options.host_page_tables;
    if (!within && !staged) {
        detail::sim_wait{call}.synchronize(s);
    } else if (staged && bytes > 65536) {
        // This simulated call returns at the end of the copy. The call of CUDA may return earlier,
        // after the source has been read. Thus the race check does not order the host after the
        // copy.
        detail::sim_wait{call}.await(s.tail);
    }
    call.throw_report();
}

/// Queues several copies on `stream`, as cudaMemcpyBatchAsync does. The copies have no order among
/// themselves. If `stream` is captured or the legacy default stream, returns false and queues
/// nothing. Otherwise, or if there are no copies, returns true.
///
///     sim_copy_batch(stream, to, from, bytes); // three spans of equal size
///
/// Failure   Throws `sim_error` or `sim_race`. Some of the copies may then be queued. If the sizes
///           of the spans differ, throws `sim_error{invalid_value}` and queues nothing.
inline bool sim_copy_batch(sim_stream_view stream, std::span<void* const> to,
                           std::span<void const* const> from, std::span<std::size_t const> bytes,
                           std::source_location where = std::source_location::current()) {
    if (from.size() != to.size() || bytes.size() != to.size()) {
        throw sim_error{sim_status::invalid_value, where};
    }
    if (to.empty()) { return true; }
    detail::sim_stream_state& s = stream.state();
    if (s.legacy || s.capture != nullptr) { return false; }
    detail::sim_call call{*s.machine, sim_call_kind::copy, s.device, where, bytes.front()};
    call.admit();
    // The source and destination ranges of all copies. The copies have no order, so it is a race if
    // one copy writes bytes that another copy uses.
    std::vector<detail::sim_task::use> uses;
    for (std::size_t i = 0; i < to.size(); ++i) {
        detail::sim_task::use const read{{from[i], bytes[i]}, sim_access::read};
        detail::sim_task::use const write{{to[i], bytes[i]}, sim_access::write};
        // If the source and destination of one copy overlap, `enqueue_copy` below reports the
        // mistake, so the copy is left out here.
        if (detail::first_overlap(detail::mapped_uses(s.machine->memory, {read, write})).bytes !=
            0) {
            continue;
        }
        uses.insert(uses.end(), {read, write});
    }
    detail::expect_disjoint(call, s, uses, sim_mistake::race,
                            "the copies of a batch have no order among themselves");
    for (std::size_t i = 0; i < to.size(); ++i) {
        if (bytes[i] == 0) { continue; }
        detail::enqueue_copy(call, s, detail::contiguous(to[i], from[i], bytes[i]), true);
    }
    call.throw_report();
    return true;
}

/// Fills `bytes` bytes with `value` in the order of `stream`. A fill of pageable memory is a
/// mistake unless `sim_options::host_page_tables` is true. Such a fill blocks the host until it is
/// complete, except in a capture.
inline void sim_fill(sim_stream_view stream, void* to, std::byte value, std::size_t bytes,
                     std::source_location where = std::source_location::current()) {
    detail::sim_stream_state& s = stream.state();
    detail::sim_machine&      m = *s.machine;
    detail::sim_call          call{m, sim_call_kind::copy, s.device, where, bytes};
    call.admit();
    if (bytes == 0) { return call.throw_report(); }
    detail::sim_route const route{m, detail::sim_address(to), detail::sim_address(to), s.device};
    call.admit_memory(route.to_kind, route.to_device);
    call.pay(m.options.costs.fill);
    bool const     accessible = route.to_kind != detail::sim_kind::pageable;
    sim_time const transfer =
        sim_transfer_time(bytes, m.options.fill_bandwidth != 0 ? m.options.fill_bandwidth
                                                               : m.options.device_bandwidth);
    detail::sim_task task{.name     = "fill",
                          .engine   = sim_engine::compute,
                          .device   = s.device,
                          .duration = transfer,
                          .transfer = transfer,
                          .link = detail::sim_link_number(detail::sim_link_kind::memory, s.device),
                          .copy = accessible || m.options.host_page_tables
                                      ? detail::sim_copy_kind::fill
                                      : detail::sim_copy_kind::none,
                          .caller = s.device,
                          .uses   = {{{to, bytes}, sim_access::write}},
                          .where  = call.where};
    if (std::uintptr_t const at = m.memory.view(detail::sim_address(to))) {
        task.effect = [at, value, bytes] {
            std::memset(reinterpret_cast<void*>(at), static_cast<int>(value), bytes);
        };
    }
    detail::sim_operation* const op = detail::sim_queue{call}.enqueue(s, std::move(task));
    if (op != nullptr && route.to_kind == detail::sim_kind::pageable) {
        detail::vector_clock const then = s.vclock;
        detail::sim_wait{call}.await(s.tail);
        // For the race check, orders the host after the fill. Adds no order with
        // `host_page_tables`, because CUDA may then return before the fill is complete.
        if (!m.options.host_page_tables) { m.acquire(*call.host, then); }
    }
    call.throw_report();
}

} // namespace vram
