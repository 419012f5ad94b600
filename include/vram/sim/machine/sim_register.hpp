// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_register` page-locks existing host memory, as cudaHostRegister does.

#include <vram/base/core/report_caught.hpp>
#include <vram/base/error.hpp> // report_error
#include <vram/sim/sim_node.hpp>

#include <source_location> // source_location
#include <utility>

namespace vram {
namespace detail {

/// Pins `range` as long as this object exists: devices can access the range, copies do not block
/// the host, and accesses are checked.
///
/// Failure   The constructor throws `sim_error`, for example if the range overlaps a registered
///           range.
/// Streams   The destructor waits for all work of device 0.
class sim_register {
public:
    explicit sim_register(sim_range            range,
                          std::source_location where = std::source_location::current())
        : machine_{&sim_node::current().machine()} {
        sim_call call{*machine_, sim_call_kind::pin, 0, where, range.bytes};
        call.admit();
        sim_space&             space  = machine_->memory.space(sim_kind::registered, 0);
        sim_block const* const before = range.bytes == 0 ? nullptr : space.before(range.end() - 1);
        bool const overlaps = before != nullptr && !before->freed && before->end() > range.begin();
        if (range.bytes == 0 || overlaps || machine_->memory.space_of(range.begin()) != nullptr) {
            throw sim_error{sim_status::invalid_value, where};
        }
        block_       = space.insert_at(range.begin(), range.bytes);
        block_->kind = sim_kind::registered;
        try {
            machine_->checker.allocated(*block_, call.host_step("register"));
        } catch (...) {
            space.erase(*block_);
            throw;
        }
    }
    sim_register(sim_register&& other) noexcept
        : machine_{other.machine_}, block_{std::exchange(other.block_, nullptr)} {}
    sim_register& operator=(sim_register&& other) noexcept {
        std::swap(machine_, other.machine_);
        std::swap(block_, other.block_);
        return *this;
    }
    ~sim_register() {
        if (block_ == nullptr) { return; }
        try {
            sim_call call{*machine_, sim_call_kind::free, 0, std::source_location::current()};
            machine_->checker.released(*block_, call.host_step("unregister"), call.host->vclock,
                                       in_resource_call());
            sim_wait{call}.wait_idle(0);
            machine_->memory.space(sim_kind::registered, 0).erase(*block_);
        } catch (...) {
            report_caught({.kind  = error_kind::platform_error,
                           .bytes = block_->bytes,
                           .call  = "unregistering host memory"});
        }
    }

private:
    sim_machine* machine_;
    sim_block*   block_ = nullptr;
};

} // namespace detail
} // namespace vram
