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

/// Adds `bytes` to the number of copied bytes in the direction of `engine`, in the statistics `f`.
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

/// Returns how much longer the copy `c` takes because a part of its pinned memory is in simulated
/// CPU caches, and removes this part from the caches. Returns 0 and removes nothing for a copy of
/// several rows, in a capture, and if the caches are not slower than the link.
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

/// Queues the copy `c` on the stream `s`, or adds the copy to the graph that `s` is being captured
/// into. Outside of captures, the host waits for some copies as in CUDA, for example for a copy to
/// pageable memory. `of_batch`: true if the copy is one of a batched call (`cudaMemcpyBatchAsync`).
inline void enqueue_copy(sim_call& call, sim_stream_state& s, pitched_copy const& c,
                         bool of_batch = false, sim_copy_kind kind = sim_copy_kind::copy) {
    sim_machine&      m     = call.machine;
    std::size_t const rows  = c.height * c.depth;
    std::size_t const bytes = c.width * rows;
    sim_route const   route{m, sim_address(c.to), sim_address(c.from), s.device};
    if (!route.reachable) { throw sim_error{sim_status::peer_not_reachable, call.where}; }
    if (kind == sim_copy_kind::peer_copy && route.pageable() && !m.options.host_page_tables) {
        throw sim_error{sim_status::invalid_value, call.where}; // as cudaMemcpyPeerAsync (measured)
    }
    call.admit_memory(route.to_kind, route.to_device);
    call.admit_memory(route.from_kind, route.from_device);
    sim_costs const& costs = m.options.costs;
    call.pay(of_batch                              ? costs.copy_batched
             : route.engine == sim_engine::compute ? costs.copy_within
                                                   : costs.copy);

    // CUDA checks the access of the current device. If it is not that of the stream, the access is
    // not checked here, because `cuda_copy` tries both.
    bool const      elsewhere = !of_batch && self(m.id).device != s.device;
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
                  .copy     = elsewhere ? sim_copy_kind::peer_copy : kind,
                  .caller   = s.device,
                  .bytes    = bytes,
                  .where    = call.where};
    // Lists in `task.uses` the ranges that the copy reads or writes, one for each row. If neither
    // array has gaps between rows, lists one range for each slice (2-D part of a copy).
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
        // Reads the pageable source now. In CUDA, too, the source has been read when the call
        // returns. Before a large copy, the host waits for the earlier work of the stream.
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
    // A copy between two devices in the NULL stream of one device first waits for the NULL stream
    // of the other device.
    for (sim_stream_state* const other : others) {
        if (serial && other != &s) { sim_queue{call}.join(s, *other); }
    }
    detail::sim_operation* const op = detail::sim_queue{call}.enqueue(s, std::move(task));
    // In a capture, the copy became a node of the graph, and there is no operation.
    if (op == nullptr) { return; }
    for (sim_stream_state* const other : others) {
        if (serial && other != &s) { sim_queue{call}.join(*other, s); }
    }
    bool const host_end = route.to_kind == sim_kind::pageable || route.engine == sim_engine::host;
    if (host_end || (host_read && bytes > most_staged)) {
        vector_clock const then = s.vclock;
        detail::sim_wait{call}.await(s.tail);
        // True for a copy from a device to pageable memory, if devices use the host's page tables.
        // CUDA's call may then return before the copy is complete.
        bool const direct = route.engine == sim_engine::to_host && m.options.host_page_tables;
        // In the race check, later work of the host happens after a copy that is complete here.
        if (host_end && !direct) { m.acquire(*call.host, then); }
    }
}

} // namespace detail
} // namespace vram
