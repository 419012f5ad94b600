// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_route` is the way of a copy through the simulated machine: its engine, speed and latency.

#include <vram/sim/machine/sim_machine.hpp>     // sim_machine, sim_kind
#include <vram/sim/machine/sim_shared_link.hpp> // sim_link_number

#include <algorithm> // max
#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

inline std::uintptr_t sim_address(void const* p) noexcept {
    return reinterpret_cast<std::uintptr_t>(p);
}

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
    /// Returns the name of this copy for reports, with the direction.
    [[nodiscard]] char const* name() const noexcept {
        bool const to = on_device(to_kind), from = on_device(from_kind);
        if (to && from) { return engine == sim_engine::peer ? "peer copy" : "copy on the device"; }
        if (to) { return "copy host to device"; }
        return from ? "copy device to host" : "copy host to host";
    }
    static bool on_device(sim_kind kind) noexcept {
        return kind == sim_kind::device || kind == sim_kind::managed;
    }

    /// Declared before `to_kind` and `from_kind`: the initializers of these members call `kind_of`,
    /// which sets `to_device` and `from_device`.
    int         to_device = 0, from_device = 0;
    sim_kind    to_kind, from_kind;
    int         device = 0;
    sim_engine  engine{};
    std::size_t bandwidth = 0;
    sim_time    latency{};
    bool        reachable = true;
    std::size_t shared    = 0; ///< number of the link that the copy uses, see `sim_link_number`

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

} // namespace detail
} // namespace vram
