// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_device_guard` makes a device current for a scope.

#include <vram/sim/sim_device.hpp> // sim_device

namespace vram {

/// Makes `device` the calling thread's current device as long as the guard exists.
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
