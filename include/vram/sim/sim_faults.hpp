// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_faults` plants failures of the simulated machine at chosen calls.

#include <vram/sim/sim_choices.hpp> // sim_random
#include <vram/sim/sim_error.hpp>   // sim_status
#include <vram/sim/sim_time.hpp>    // sim_time

#include <atomic>     // atomic
#include <cstddef>    // size_t
#include <cstdint>    // uint64_t
#include <functional> // function
#include <mutex>      // mutex, lock_guard
#include <optional>   // optional
#include <utility>    // move
#include <vector>     // vector

namespace vram {

/// The calls that can be made to fail.
enum class sim_call_kind : unsigned char {
    allocate,      ///< device memory, synchronously (cudaMalloc) or in stream order
    allocate_host, ///< pinned and managed memory
    pin,           ///< pinning what is there already
    free,          ///< of any kind; a failing free frees nothing
    reserve,       ///< addresses without memory
    create,        ///< physical memory without an address
    map,           ///< one to the other
    set_access,
    unmap,
    copy,   ///< copies and fills
    launch, ///< kernels and host callbacks
    create_stream,
    create_event,
    record,
    wait,        ///< a stream waits
    query,       ///< done or not?
    synchronize, ///< the host waits
    other,
};

/// What a call looks like to a predicate.
struct sim_call_info {
    sim_call_kind kind   = sim_call_kind::other;
    int           device = 0;
    std::size_t   bytes  = 0; ///< of an allocation or a copy
    std::uint64_t number = 0; ///< which call of its kind, counted from 1
};

/// What a fault does.
struct sim_fault {
    sim_status status = sim_status::refused; ///< what the call answers
    bool       later  = false; ///< copy, launch: the call is fine, the next synchronise fails
    bool       sticky = false; ///< `later`: every synchronise from then on fails
    bool       lost   = false; ///< the device is lost: every later call on it fails
    sim_time   slow{};         ///< nothing fails; the copy or kernel takes so much longer
    sim_time   stall{};        ///< nothing fails; the calling thread is so much later
};

/// The list of planted faults of a node.
///
///     node.faults().at(sim_call_kind::allocate, 3);                        // the third allocation
///     node.faults().randomly(sim_call_kind::copy, 0.01, 42, {.slow = 5ms}); // from a seed
///     node.faults().when([](sim_call_info const& c) { return c.bytes > 1_GiB; });
///
/// Calls are counted from the moment the list was made or cleared.
/// Threads   any; a predicate is called with the machine's lock held and may call nothing of it
/// Cost      one comparison per call while nothing is planted
class sim_faults {
public:
    using predicate = std::function<bool(sim_call_info const&)>;

    /// The `nth` call of a kind from now on (1: the next one), and `times - 1` after it.
    void at(sim_call_kind kind, std::uint64_t nth, sim_fault fault = {}, std::uint64_t times = 1) {
        std::lock_guard const held{mutex_};
        std::uint64_t const   first = calls(kind) + nth;
        add(
            [=](sim_call_info const& c) {
                return c.kind == kind && c.number >= first && c.number - first < times;
            },
            fault);
    }

    /// Each call of a kind with the given probability.
    void randomly(sim_call_kind kind, double probability, std::uint64_t seed,
                  sim_fault fault = {}) {
        std::lock_guard const held{mutex_};
        add(
            [=, random = sim_random{seed}](sim_call_info const& c) mutable {
                return c.kind == kind && static_cast<double>(random.below(1U << 30U)) <
                                             probability * static_cast<double>(1U << 30U);
            },
            fault);
    }

    /// Each call for which `chosen` says yes.
    void when(predicate chosen, sim_fault fault = {}) {
        std::lock_guard const held{mutex_};
        add(std::move(chosen), fault);
    }

    /// Nothing is planted any more; counting starts anew.
    void clear() {
        std::lock_guard const held{mutex_};
        plan_.clear();
        planted_ = false;
        for (auto& count : calls_) { count = 0; }
    }

    /// How many calls of a kind were made.
    [[nodiscard]] std::uint64_t calls(sim_call_kind kind) const {
        return calls_[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
    }

    /// Counts a call and says what is to happen to it.
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
