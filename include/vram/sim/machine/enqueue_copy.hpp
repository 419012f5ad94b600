// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `enqueue_copy` adds a copy to a stream, with CUDA's rules for waits of the host.

#include <vram/concepts/pitched_copy.hpp>
#include <vram/sim/machine/expect_disjoint.hpp>
#include <vram/sim/machine/sim_queue.hpp>
#include <vram/sim/machine/sim_route.hpp>
#include <vram/sim/machine/sim_wait.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring> // memcpy, memmove
#include <memory>  // shared_ptr
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// Adds `bytes` to the number of bytes copied in the direction of `engine`.
inline void count(sim_figures& f, sim_engine engine, std::size_t bytes) {
    switch (engine) {
    case sim_engine::to_device: f.bytes_to_device += bytes; break;
    case sim_engine::to_host: f.bytes_to_host += bytes; break;
    case sim_engine::peer: f.bytes_peer += bytes; break;
    default: f.bytes_within += bytes; break;
    }
}

/// The largest copy from pageable memory for which the host does not wait for earlier work of the
/// stream. Measured on an H100.
inline constexpr std::size_t most_staged = std::size_t{1} << 20U;

/// Returns by how much the copy `c` takes longer because some of its pinned memory is in caches of
/// the host, from which it is removed. Returns 0 for several rows and in captures.
inline sim_time delay_by_caches(sim_stream_state const& s, sim_route const& route,
                                pitched_copy const& c) {
    bool const        up   = route.engine == sim_engine::to_device;
    bool const        link = up || route.engine == sim_engine::to_host;
    std::size_t const slow = s.machine->options.cached_bandwidth;
    if (slow == 0 || slow >= route.bandwidth || !link || route.pageable() || s.capture ||
        c.height * c.depth != 1) {
        return {};
    }
    std::size_t const held = s.machine->caches.take(sim_address(up ? c.from : c.to), c.width);
    return sim_transfer_time(held, slow) - sim_transfer_time(held, route.bandwidth);
}

/// Queues the copy `c` on the stream `s`, or adds it to the graph being captured. As in CUDA, the
/// host waits for copies to pageable or within host memory, and for large ones from pageable
/// memory. `of_batch`: one of a batched call.
inline void enqueue_copy(sim_call& call, sim_stream_state& s, pitched_copy const& c,
                         bool of_batch = false) {
    sim_machine&      m     = call.machine;
    std::size_t const rows  = c.height * c.depth;
    std::size_t const bytes = c.width * rows;
    sim_route const   route{m, sim_address(c.to), sim_address(c.from), s.device};
    if (!route.reachable) { throw sim_error{sim_status::peer_not_reachable, call.where}; }
    sim_costs const& costs = m.options.costs;
    call.pay(of_batch                              ? costs.copy_batched
             : route.engine == sim_engine::compute ? costs.copy_within
                                                   : costs.copy);

    sim_cost const& known =
        route.engine == sim_engine::to_host ? costs.pageable_to_host : costs.pageable_to_device;
    bool const     listed = route.pageable() && route.engine != sim_engine::host && !known.empty();
    sim_time const transfer =
        listed ? known.of(bytes)
               : sim_transfer_time(bytes, route.bandwidth) + delay_by_caches(s, route, c);
    sim_task task{.name     = route.name(),
                  .engine   = route.engine,
                  .device   = route.device,
                  .duration = route.latency + transfer,
                  .transfer = transfer,
                  .link     = route.shared,
                  .copy     = true,
                  .bytes    = bytes,
                  .where    = call.where};
    // Declares one range for each row, or for each slice if neither source nor destination has gaps
    // between rows.
    for (std::size_t z = 0; z < c.depth; ++z) {
        bool const solid = c.to_pitch == c.width && c.from_pitch == c.width;
        for (std::size_t y = 0; y < (solid ? 1 : c.height); ++y) {
            std::size_t const n = solid ? c.width * c.height : c.width;
            task.uses.push_back(
                {{static_cast<std::byte const*>(c.from) + z * c.from_slice + y * c.from_pitch, n},
                 sim_access::read});
            task.uses.push_back(
                {{static_cast<std::byte*>(c.to) + z * c.to_slice + y * c.to_pitch, n},
                 sim_access::write});
        }
    }
    expect_disjoint(call, s, task.uses, sim_mistake::overlapping_copy,
                    "the result is undefined; copy through other memory");
    std::uintptr_t const to   = m.memory.view(sim_address(c.to));
    std::uintptr_t       from = m.memory.view(sim_address(c.from));
    bool const           host_read =
        route.from_kind == sim_kind::pageable && route.engine == sim_engine::to_device;
    std::shared_ptr<std::byte[]> staged;
    pitched_copy                 moved = c;
    if (host_read && !s.capture && to != 0) {
        // As in CUDA, pageable source memory has been read when the call returns. For a large copy,
        // the host first waits for the earlier work of the stream.
        if (bytes > most_staged) {
            std::vector<sim_moment> before = s.waits;
            before.push_back(s.tail);
            for (sim_moment const& moment : before) { sim_wait{call}.await(moment); }
        }
        staged = std::shared_ptr<std::byte[]>{new std::byte[bytes]};
        for (std::size_t z = 0, at = 0; z < c.depth; ++z) {
            for (std::size_t y = 0; y < c.height; ++y, at += c.width) {
                std::memcpy(staged.get() + at,
                            static_cast<std::byte const*>(c.from) + z * c.from_slice +
                                y * c.from_pitch,
                            c.width);
            }
        }
        from             = sim_address(staged.get());
        moved.from_pitch = c.width;
        moved.from_slice = c.width * c.height;
    }
    if (to != 0 && from != 0) {
        task.effect = [moved, to, from, staged] {
            for (std::size_t z = 0; z < moved.depth; ++z) {
                for (std::size_t y = 0; y < moved.height; ++y) {
                    std::memmove(reinterpret_cast<std::byte*>(to) + z * moved.to_slice +
                                     y * moved.to_pitch,
                                 reinterpret_cast<std::byte const*>(from) + z * moved.from_slice +
                                     y * moved.from_pitch,
                                 moved.width);
                }
            }
        };
    }
    count(m.schedule.figures(route.device), route.engine, bytes);
    sim_stream_state* const others[] = {m.at(route.to_device).legacy,
                                        m.at(route.from_device).legacy};
    bool const              serial   = s.legacy && route.engine == sim_engine::peer && !s.capture;
    // A copy between devices in the NULL stream of one device first waits for the NULL stream of
    // the other one.
    for (sim_stream_state* const other : others) {
        if (serial && other != &s) { sim_queue{call}.join(s, *other); }
    }
    detail::sim_operation* const op = detail::sim_queue{call}.enqueue(s, std::move(task));
    // No operation was queued if the stream is being captured: the copy is a node of its graph.
    if (op == nullptr) { return; }
    for (sim_stream_state* const other : others) {
        if (serial && other != &s) { sim_queue{call}.join(*other, s); }
    }
    bool const host_end = route.to_kind == sim_kind::pageable || route.engine == sim_engine::host;
    if (host_end || (host_read && bytes > most_staged)) {
        vector_clock const then = s.vclock;
        detail::sim_wait{call}.await(s.tail);
        // With `host_page_tables`, CUDA's call may return before a device's copy to pageable memory
        // is complete: the host is not ordered after it.
        bool const direct = route.engine == sim_engine::to_host && m.options.host_page_tables;
        // Nor is the host ordered after a copy from pageable memory to a device, because CUDA's
        // copy may still be under way.
        if (host_end && !direct) { m.acquire(*call.host, then); }
    }
}

} // namespace detail
} // namespace vram
