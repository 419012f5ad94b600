// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_device` names one device of a simulated node. `sim_device_guard` makes it current.

#include <vram/concepts/memory_info.hpp>
#include <vram/sim/sim_node.hpp>

#include <source_location> // source_location

namespace vram {

/// One device of a simulated node, as a plain value. `sim_device{}` is the device with index 0 of
/// the current node.
///
/// Failure   The constructors throw `sim_error{invalid_device}` if there is no such device.
/// Threads   Any thread may call.
class sim_device {
public:
    sim_device() : sim_device{0} {}
    explicit sim_device(int index, std::source_location where = std::source_location::current())
        : sim_device{sim_node::current().machine(), index, where} {}
    sim_device(detail::sim_machine& machine, int index,
               std::source_location where = std::source_location::current())
        : machine_{&machine}, index_{index} {
        if (index < 0 || index >= machine.options.devices) {
            throw sim_error{sim_status::invalid_device, where};
        }
    }

    /// Returns the calling thread's current device, on the current `sim_node`.
    [[nodiscard]] static sim_device current() {
        detail::sim_machine& machine = sim_node::current().machine();
        return {machine, detail::self(machine.id).device};
    }
    /// Makes this device the calling thread's current device.
    void make_current() const { detail::self(machine_->id).device = index_; }

    [[nodiscard]] int index() const noexcept { return index_; }

    /// Returns the free and total bytes of the device, as cudaMemGetInfo does. Memory that
    /// `sim_node::take` allocated for another process is not free.
    [[nodiscard]] memory_info
    memory(std::source_location where = std::source_location::current()) const {
        detail::sim_call call{*machine_, sim_call_kind::other, index_, where};
        call.admit();
        detail::sim_device_state const& d = machine_->at(index_);
        return {d.free(), d.capacity};
    }

    /// Blocks until all work queued on the device is complete. A capture on the device becomes
    /// invalid: throws `sim_error{stream_capturing}`.
    void synchronize(std::source_location where = std::source_location::current()) const {
        detail::sim_call call{*machine_, sim_call_kind::synchronize, index_, where};
        detail::sim_wait{call}.synchronize(index_);
        call.throw_report();
    }

    /// Blocks until all work queued on the device is complete, as cudaFree does. Unlike
    /// `synchronize`, does not invalidate captures.
    void await_all(std::source_location where = std::source_location::current()) const {
        detail::sim_call call{*machine_, sim_call_kind::synchronize, index_, where};
        detail::sim_wait{call}.await_all(index_);
        call.throw_report();
    }

    /// Permits (`allowed` is true) or forbids kernels and fills of this device to access the memory
    /// of `other`. Copies need no permission. Does not apply to memory of stream-ordered pools
    /// (`sim_async_resource`). Throws `sim_error{invalid_device}` if `other` belongs to another
    /// node.
    void set_peer_access(sim_device other, bool allowed,
                         std::source_location where = std::source_location::current()) const {
        detail::sim_call const call{*machine_, sim_call_kind::other, index_, where};
        call.admit();
        if (other.machine_ != machine_) { throw sim_error{sim_status::invalid_device, where}; }
        machine_->at(index_).peers[static_cast<std::size_t>(other.index_)] = allowed;
    }

    [[nodiscard]] detail::sim_machine& machine() const noexcept { return *machine_; }

    friend bool operator==(sim_device, sim_device) = default;

private:
    detail::sim_machine* machine_;
    int                  index_;
};

/// Makes `device` the calling thread's current device as long as the guard exists. The destructor
/// restores the previous one.
///
/// Failure   None.
/// Cost      None.
class sim_device_guard {
public:
    [[nodiscard]] explicit sim_device_guard(sim_device device)
        : machine_{device.machine()}, before_{detail::self(machine_.id).device} {
        device.make_current();
    }
    sim_device_guard(sim_device_guard const&)            = delete;
    sim_device_guard& operator=(sim_device_guard const&) = delete;
    ~sim_device_guard() { detail::self(machine_.id).device = before_; }

private:
    detail::sim_machine& machine_;
    int                  before_;
};

} // namespace vram
