// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_lock` is a lock whose hand-overs the simulated machine sees.

#include <vram/base/error.hpp>   // report_error
#include <vram/base/lock.hpp>    // lock
#include <vram/sim/sim_node.hpp> // sim_node

#include <mutex>   // unique_lock
#include <utility> // exchange

namespace vram {

/// As `vram::lock`, and what was done before it was let go happened before what is done by the next
/// who holds it. It belongs to the node that was current when it was made.
///
/// Threads   any; nobody who holds it waits in virtual time
/// Cost      two locks of the node per hold
class sim_lock {
public:
    /// Holds the lock until it ends.
    class [[nodiscard]] guard {
    public:
        explicit guard(sim_lock const& owner) : owner_{&owner}, held_{owner.lock_.hold()} {
            owner.hear();
        }
        guard(guard&& other) noexcept
            : owner_{std::exchange(other.owner_, nullptr)}, held_{std::move(other.held_)} {}
        ~guard() {
            if (owner_ != nullptr && held_.owns_lock()) { owner_->tell(); }
        }

        void lock() {
            held_.lock();
            owner_->hear();
        }
        void unlock() noexcept {
            owner_->tell();
            held_.unlock();
        }
        [[nodiscard]] bool owns_lock() const noexcept { return held_.owns_lock(); }

    private:
        sim_lock const*   owner_;
        vram::lock::guard held_;
    };

    sim_lock() : machine_{&sim_node::current().machine()} {}
    sim_lock(sim_lock&& other) noexcept : machine_{other.machine_} {} // the new place is fresh
    sim_lock& operator=(sim_lock&&) noexcept { return *this; }

    [[nodiscard]] guard hold() const { return guard{*this}; }

private:
    /// The calling thread, or all the ordinary ones together. Code inside an operation is nobody's.
    sim_host& me() const {
        sim_host* const self = detail::inside_effect ? nullptr : detail::self(machine_->id).host;
        return self != nullptr ? *self : machine_->turns.outside;
    }
    void hear() const {
        if (detail::inside_effect) { return; }
        std::unique_lock const held{machine_->mutex};
        machine_->hear(me(), knows_);
    }
    void tell() const noexcept {
        std::unique_lock const held{machine_->mutex};
        try {
            knows_.join(me().knows);
            me().advance();
        } catch (...) { // no memory for what the next holder should hear
            report_error({.kind = mishap::platform_error, .pointer = this});
        }
    }

    vram::lock           lock_;
    sim_machine*         machine_;
    mutable vector_clock knows_;
};

} // namespace vram
