// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_faults` makes chosen calls of the simulated device fail.

#include <vram/base/contract.hpp>           // expects
#include <vram/sim/machine/sim_choices.hpp> // sim_random
#include <vram/sim/sim_error.hpp>           // sim_status
#include <vram/sim/sim_time.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <functional> // function
#include <mutex>      // mutex, lock_guard
#include <optional>   // optional
#include <utility>
#include <vector> // vector

namespace vram {

/// The kinds of calls of the simulated device, for which faults can be injected.
enum class sim_call_kind : unsigned char {
    allocate,      ///< allocation of device memory, with or without a stream
    allocate_host, ///< allocation of pinned or managed memory
    pin,           ///< pinning of existing host memory (`sim_register`)
    free,          ///< free of any kind of memory; a call that fails frees nothing
    reserve,       ///< reserving virtual addresses (`cuMemAddressReserve`)
    create,        ///< creating physical memory (`cuMemCreate`)
    map,           ///< mapping physical memory to reserved addresses (`cuMemMap`)
    set_access,
    unmap,
    copy,   ///< copies and fills
    launch, ///< kernels, host functions and graph launches
    create_stream,
    create_event,
    record,
    wait,        ///< waits of a stream for an event (`cudaStreamWaitEvent`)
    query,       ///< queries of a stream or event (`cudaEventQuery`)
    synchronize, ///< waits of a host thread for a stream, event or device
    other,
};

/// The properties of one call of the simulated device, for the predicate of an injected fault.
struct sim_call_info {
    sim_call_kind kind   = sim_call_kind::other;
    int           device = 0;
    std::size_t   bytes  = 0; ///< bytes of the memory that the call concerns, otherwise 0
    std::uint64_t number = 0; ///< number of calls of the kind `kind` so far, this call included
};

/// The effect of an injected fault on the call into which it is injected.
struct sim_fault {
    /// The error code that a call with this fault throws. An allocation throws `out_of_memory`
    /// instead.
    sim_status status = sim_status::refused;
    /// If true, a copy or launch succeeds but has no effect, and the next synchronisation of its
    /// device throws `status`.
    bool later = false;
    /// If true, and `later` is true, all following synchronisations throw, not only the next one.
    bool sticky = false;
    /// If true, the device is lost: this call and later ones on it throw `device_lost`, as do
    /// operations of other devices that use its memory. Its memory is not reported as a leak.
    bool lost = false;
    /// Extra duration of the copy or kernel. If it is not zero, the call does not throw `status`.
    sim_time slow{};
    /// Simulated time that the calling thread loses in the call. If it is not zero, the call does
    /// not throw `status`.
    sim_time stall{};
};

/// The injected faults of a simulated node, which are compared with each call of a device.
///
///     node.faults().at(sim_call_kind::allocate, 3);                        // the third allocation
///     node.faults().randomly(sim_call_kind::copy, 0.01, 42, {.slow = 5ms}); // from a seed
///     node.faults().when([](sim_call_info const& c) { return c.bytes > 1_GiB; });
///
/// Calls are counted for each `sim_call_kind`, from the node's construction or the last `clear`.
///
/// Threads   Any thread may call. A predicate must not call the simulated device.
/// Cost      One comparison for each call of the device, if no fault is injected.
class sim_faults {
public:
    using predicate = std::function<bool(sim_call_info const&)>;

    /// Injects `fault` into `times` successive calls of the kind `kind`. The first of them is the
    /// `nth` such call from now on (1 is the next call).
    void at(sim_call_kind kind, std::uint64_t nth, sim_fault fault = {}, std::uint64_t times = 1) {
        expects(nth != 0, "sim_faults: the next call has the number 1, so 0 is never reached");
        std::lock_guard const held{mutex_};
        std::uint64_t const   first = calls(kind) + nth;
        add(
            [=](sim_call_info const& c) {
                return c.kind == kind && c.number >= first && c.number - first < times;
            },
            fault);
    }

    /// Injects `fault` into calls of `kind` with this probability. The same seed selects the same
    /// calls.
    void randomly(sim_call_kind kind, double probability, std::uint64_t seed,
                  sim_fault fault = {}) {
        std::lock_guard const held{mutex_};
        add(
            [=, random = detail::sim_random{seed}](sim_call_info const& c) mutable {
                return c.kind == kind && static_cast<double>(random.below(1U << 30U)) <
                                             probability * static_cast<double>(1U << 30U);
            },
            fault);
    }

    /// Injects `fault` into each call for which `chosen` returns true.
    void when(predicate chosen, sim_fault fault = {}) {
        std::lock_guard const held{mutex_};
        add(std::move(chosen), fault);
    }

    /// Removes all injected faults and sets the counts of calls to zero.
    void clear() {
        std::lock_guard const held{mutex_};
        plan_.clear();
        planted_ = false;
        for (auto& count : calls_) { count = 0; }
    }

    /// Returns the number of calls of `kind` since the `sim_node` was constructed or the last
    /// `clear`.
    [[nodiscard]] std::uint64_t calls(sim_call_kind kind) const {
        return calls_[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
    }

    /// Counts one call. Returns the fault that is injected into this call, or nothing. If several
    /// faults match the call, returns the one that was added first.
    [[nodiscard]] std::optional<sim_fault> next(sim_call_kind kind, int device, std::size_t bytes) {
        std::uint64_t const number =
            calls_[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed) + 1;
        if (!planted_.load(std::memory_order_relaxed)) { return std::nullopt; }
        std::lock_guard const held{mutex_};
        for (auto& [chosen, fault] : plan_) {
            if (chosen({kind, device, bytes, number})) { return fault; }
        }
        return std::nullopt;
    }

private:
    struct planted {
        predicate chosen;
        sim_fault fault;
    };

    void add(predicate chosen, sim_fault fault) {
        plan_.push_back({std::move(chosen), fault});
        planted_ = true;
    }

    mutable std::mutex         mutex_;
    std::vector<planted>       plan_;
    std::atomic<bool>          planted_{false};
    std::atomic<std::uint64_t> calls_[static_cast<std::size_t>(sim_call_kind::other) + 1] = {};
};

} // namespace vram
