// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_copy` copies bytes in stream order, with CUDA's rules for waits of the host.

#include <vram/concepts/pitched_copy.hpp> // pitched_copy
#include <vram/sim/sim_stream_view.hpp>   // sim_stream_view

#include <algorithm>       // max, min, sort
#include <cstddef>         // size_t, byte
#include <cstdint>         // uintptr_t
#include <cstring>         // memcpy, memset
#include <memory>          // shared_ptr
#include <source_location> // source_location
#include <span>            // span
#include <utility>         // move
#include <vector>          // vector

namespace vram {

namespace detail {

/// The engine, speed and latency of a copy, derived from the kinds of memory at its two addresses.
struct sim_route {
    sim_route(sim_machine& m, std::uintptr_t to, std::uintptr_t from, int stream_device)
        : to_kind{m.memory.kind_of(to, to_device)}, from_kind{m.memory.kind_of(from, from_device)} {
        bool const         to_dev = on_device(to_kind), from_dev = on_device(from_kind);
        sim_options const& o = m.options;
        device               = stream_device;
        if (to_dev && from_dev) {
            engine    = to_device == from_device ? sim_engine::compute : sim_engine::peer;
            device    = from_device;
            bandwidth = o.device_bandwidth;
            latency   = o.copy_latency;
            shared    = sim_link_number(sim_link_kind::memory, device);
            if (engine == sim_engine::peer) { link(o); }
        } else if (to_dev || from_dev) {
            engine          = to_dev ? sim_engine::to_device : sim_engine::to_host;
            device          = to_dev ? to_device : from_device;
            bandwidth       = pageable() ? o.pageable_bandwidth : o.host_bandwidth;
            latency         = o.copy_latency;
            using kind      = sim_link_kind;
            kind const up   = pageable() ? kind::pageable_to_device : kind::to_device;
            kind const down = pageable() ? kind::pageable_to_host : kind::to_host;
            shared = sim_link_number(to_dev ? up : down, device / std::max(o.devices_per_root, 1));
        } else {
            engine    = sim_engine::host;
            bandwidth = o.host_bandwidth;
        }
    }

    [[nodiscard]] bool pageable() const noexcept {
        return to_kind == sim_kind::pageable || from_kind == sim_kind::pageable;
    }
    /// Returns the name that reports give to such a copy, with its direction.
    [[nodiscard]] char const* name() const noexcept {
        bool const to = on_device(to_kind), from = on_device(from_kind);
        if (to && from) { return engine == sim_engine::peer ? "peer copy" : "copy on the device"; }
        if (to) { return "copy host to device"; }
        return from ? "copy device to host" : "copy host to host";
    }
    static bool on_device(sim_kind kind) noexcept {
        return kind == sim_kind::device || kind == sim_kind::managed;
    }

    /// Declared before the kinds, because the initializers of the kinds set these two members.
    int         to_device = 0, from_device = 0;
    sim_kind    to_kind, from_kind;
    int         device = 0;
    sim_engine  engine{};
    std::size_t bandwidth = 0;
    sim_time    latency{};
    bool        reachable = true;
    std::size_t shared    = 0; ///< number of the link that copies of this route share

private:
    void link(sim_options const& o) {
        reachable = o.links.empty();
        sim_link used;
        for (sim_link const& l : o.links) {
            if (l.from == from_device && l.to == to_device) {
                used      = l;
                reachable = true;
            }
        }
        bandwidth = used.bandwidth;
        latency   = used.latency;
        shared    = sim_link_number(sim_link_kind::peer, from_device, to_device);
    }
};

inline std::uintptr_t sim_address(void const* p) noexcept {
    return reinterpret_cast<std::uintptr_t>(p);
}

/// Adds the bytes of a copy to the counters of its engine.
inline void count(sim_figures& f, sim_engine engine, std::size_t bytes) {
    switch (engine) {
    case sim_engine::to_device: f.bytes_to_device += bytes; break;
    case sim_engine::to_host: f.bytes_to_host += bytes; break;
    case sim_engine::peer: f.bytes_peer += bytes; break;
    default: f.bytes_within += bytes; break;
    }
}

/// Returns a range that one of `uses` writes and another accesses; empty if there is none.
inline sim_range first_overlap(std::vector<sim_task::use> uses) {
    std::sort(uses.begin(), uses.end(), [](sim_task::use const& a, sim_task::use const& b) {
        return a.range.begin() < b.range.begin();
    });
    std::uintptr_t read_until = 0, written_until = 0;
    for (sim_task::use const& u : uses) {
        bool const           reads = u.access == sim_access::read;
        std::uintptr_t const other = reads ? written_until : std::max(read_until, written_until);
        if (u.range.bytes != 0 && other > u.range.begin()) {
            return {reinterpret_cast<void const*>(u.range.begin()),
                    std::min(other, u.range.end()) - u.range.begin()};
        }
        std::uintptr_t& mine = reads ? read_until : written_until;
        mine                 = std::max(mine, u.range.end());
    }
    return {};
}

/// Reports the mistake `kind` if one of `uses` writes a range that another one accesses. These
/// accesses have no order among themselves.
inline void expect_disjoint(sim_call& call, sim_stream_state const& s,
                            std::vector<sim_task::use> const& uses, sim_mistake kind,
                            char const* advice) {
    if (!call.machine.checker.on().races) { return; }
    auto const apart = [](sim_range const& a, sim_range const& b) {
        return a.end() <= b.begin() || b.end() <= a.begin();
    };
    // The usual case: one copy, with a source and a destination that do not overlap.
    if (uses.size() == 2 && apart(uses[0].range, uses[1].range)) { return; }
    sim_range const both = first_overlap(uses);
    if (both.bytes == 0) { return; }
    call.machine.checker.report({kind,
                                 {.name   = "copy",
                                  .what   = sim_event_of::kind::write,
                                  .number = call.machine.schedule.count() + 1,
                                  .actor  = s.id.load(),
                                  .device = s.device,
                                  .time   = call.host->clock,
                                  .where  = call.where,
                                  .slot   = s.slot,
                                  .count  = s.count},
                                 {},
                                 both.begin(),
                                 both.bytes,
                                 advice});
}

/// Queues the copy `c` on stream `s`. Then the calling thread waits, if CUDA does so for these
/// kinds of memory.
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
    sim_time const transfer = listed ? known.of(bytes) : sim_transfer_time(bytes, route.bandwidth);
    sim_task       task{.name     = route.name(),
                        .engine   = route.engine,
                        .device   = route.device,
                        .duration = route.latency + transfer,
                        .transfer = transfer,
                        .link     = route.shared,
                        .copy     = true,
                        .bytes    = bytes,
                        .where    = call.where};
    // Rows without a gap between them are declared as one range.
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
        // A pageable source has been read when the call returns: immediately if it is small,
        // otherwise after earlier work of the stream.
        if (bytes > 65536) {
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
    // For a copy between devices in the NULL stream, `s` first waits for that of the other device.
    for (sim_stream_state* const other : others) {
        if (serial && other != &s) { sim_queue{call}.join(s, *other); }
    }
    detail::sim_operation* const op = detail::sim_queue{call}.enqueue(s, std::move(task));
    // Null: the stream is being captured, and the copy is a node of its graph.
    if (op == nullptr) { return; }
    for (sim_stream_state* const other : others) {
        if (serial && other != &s) { sim_queue{call}.join(*other, s); }
    }
    bool const host_end = route.to_kind == sim_kind::pageable || route.engine == sim_engine::host;
    if (host_end || (host_read && bytes > 65536)) {
        vector_clock const then = s.vclock;
        detail::sim_wait{call}.await(s.tail);
        if (host_end) { m.acquire(*call.host, then); }
        // If only the source is pageable, the host does not acquire the vector clock: the copy to
        // the device may still be under way.
    }
}

} // namespace detail

/// Copies `bytes` bytes in the order of `stream`; the addresses determine the direction. The call
/// does not wait for the copy, with these exceptions. A pageable source has been read when the call
/// returns; for up to 64 KiB without a wait for earlier work of the stream. A copy to pageable
/// memory, or between host memory, is complete when the call returns.
///
/// Failure   Throws `sim_error`.
/// Streams   The copy is stream-ordered. The source must not change until the copy is complete; the
///           checker reports a declared write before that.
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

/// Copies a box of bytes between two pitched layouts, in the order of `stream`. The calling thread
/// waits in the same cases as for a contiguous copy.
inline void sim_copy(sim_stream_view stream, pitched_copy const& box,
                     std::source_location where = std::source_location::current()) {
    detail::sim_stream_state& s = stream.state();
    detail::sim_call          call{*s.machine, sim_call_kind::copy, s.device, where,
                          box.width * box.height * box.depth};
    call.admit();
    if (box.width * box.height * box.depth != 0) { detail::enqueue_copy(call, s, box); }
    call.throw_report();
}

/// A copy that blocks the calling thread (`cudaMemcpy`), in the order of the default stream. From
/// device memory to device memory it does not block. If the source is pageable, the call first
/// waits for the default stream, and returns when the source has been read; the copy to the device
/// may still be under way. A copy between two devices is also ordered with the default stream of
/// the other device.
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
    if (!within && route.from_kind != detail::sim_kind::pageable) {
        detail::sim_wait{call}.synchronize(s);
    }
    call.throw_report();
}

/// Queues copies of `bytes[i]` bytes from `from[i]` to `to[i]` in the order of `stream`, at the
/// host cost of one call. Within the batch the copies have no order. Returns false, and queues
/// nothing, on a default stream or during a capture, as CUDA does.
///
///     sim_copy_batch(stream, to, from, bytes); // three spans of equal size
///
/// Failure   Throws `sim_error` before any copy is queued.
inline bool sim_copy_batch(sim_stream_view stream, std::span<void* const> to,
                           std::span<void const* const> from, std::span<std::size_t const> bytes,
                           std::source_location where = std::source_location::current()) {
    if (to.empty()) { return true; }
    detail::sim_stream_state& s = stream.state();
    if (s.legacy || s.capture != nullptr) { return false; }
    detail::sim_call call{*s.machine, sim_call_kind::copy, s.device, where, bytes.front()};
    call.admit();
    std::vector<detail::sim_task::use> uses; // of all copies: within a batch they have no order
    for (std::size_t i = 0; i < to.size(); ++i) {
        detail::sim_task::use const read{{from[i], bytes[i]}, sim_access::read};
        detail::sim_task::use const write{{to[i], bytes[i]}, sim_access::write};
        // A copy that overlaps itself is reported by `enqueue_copy`.
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

/// Fills `bytes` bytes with `value` in the order of `stream`. The call does not wait for the fill
/// (measured on an H100 for device, pinned and managed memory). Pageable memory is reported unless
/// devices use the host's page tables; the call waits for a fill of pageable memory.
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
        m.acquire(*call.host, then);
    }
    call.throw_report();
}

} // namespace vram
