// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_node` is a simulated machine with devices, inside this process.

#include <vram/sim/sim_call.hpp>  // sim_call, sim_machine
#include <vram/sim/sim_queue.hpp> // sim_queue
#include <vram/sim/sim_wait.hpp>  // sim_wait

#include <atomic>  // atomic
#include <cstddef> // size_t
#include <mutex>   // mutex, lock_guard
#include <string>  // string, to_string
#include <utility> // move
#include <vector>  // vector

namespace vram {

/// A simulated node: devices, links, memory, time, and the checks. The node that was made last and
/// still lives is the current one, for every thread; before any is made there is one with the
/// default options.
///
///     sim_node node{{.devices = 2, .capacity = 1_GiB}};
///     sim_resource memory;                         // of device 0 of that node
///     CHECK(node.reports().empty());
///
/// Whatever refers to a node (streams, events, resources, memory) ends before it does.
///
/// Failure   `std::bad_alloc` where the addresses cannot be reserved
/// Threads   any; making and ending one while other threads use the current node is the caller's to
///           order
/// Cost      a few mmap calls; contents are committed when they are written
class sim_node {
public:
    explicit sim_node(sim_options options = {}) : machine_{std::move(options)} {
        std::lock_guard const held{list()};
        before_ = newest().exchange(this);
    }
    sim_node(sim_node const&)            = delete;
    sim_node& operator=(sim_node const&) = delete;

    /// Lets all queued work happen, looks for leaks, and makes the node before it the current one.
    ~sim_node() {
        finish();
        std::lock_guard const held{list()};
        sim_node*             at = newest().load();
        if (at == this) {
            newest() = before_;
        } else {
            while (at->before_ != this) { at = at->before_; }
            at->before_ = before_;
        }
    }

    /// The node that was made last.
    [[nodiscard]] static sim_node& current() {
        if (sim_node* const made = newest().load(std::memory_order_acquire)) { return *made; }
        static sim_node* const first = new sim_node; // never ended: static objects may still use it
        static_cast<void>(first);
        return *newest().load(std::memory_order_acquire);
    }

    [[nodiscard]] int                devices() const noexcept { return machine_.options.devices; }
    [[nodiscard]] sim_options const& options() const noexcept { return machine_.options; }

    /// The calling host thread's moment. Ordinary threads share one.
    [[nodiscard]] sim_time now() {
        detail::sim_self const& self = detail::self(machine_.id);
        std::unique_lock const  held{machine_.mutex};
        return self.host != nullptr
                   ? self.host->clock
                   : std::max(machine_.turns.outside.clock, machine_.schedule.now());
    }

    /// The calling host thread works for `duration`.
    void work(sim_time duration, std::source_location where = std::source_location::current()) {
        sim_call call{machine_, sim_call_kind::other, 0, where};
        call.host->clock += duration;
    }

    /// What was seen so far, in the order of the calls.
    [[nodiscard]] std::vector<sim_report> reports() const {
        std::lock_guard const held{machine_.mutex};
        return machine_.checker.reports();
    }
    /// The same, which are then forgotten.
    [[nodiscard]] std::vector<sim_report> take_reports() {
        std::lock_guard const held{machine_.mutex};
        return std::exchange(machine_.checker.reports(), {});
    }
    /// Changes what is looked for from now on. `races` may be switched off, not on again.
    void set_checks(sim_checks const& checks) {
        std::lock_guard const held{machine_.mutex};
        machine_.checker.set(checks);
    }

    [[nodiscard]] sim_faults& faults() noexcept { return machine_.faults; }

    /// Another process takes `bytes` of a device, or gives them back: less than nothing is never
    /// taken.
    void take(int device, std::size_t bytes) {
        std::lock_guard const held{machine_.mutex};
        machine_.at(device).taken += bytes;
    }
    void give_back(int device, std::size_t bytes) {
        std::lock_guard const held{machine_.mutex};
        std::size_t&          taken = machine_.at(device).taken;
        taken -= std::min(taken, bytes);
    }

    /// What a device did so far.
    [[nodiscard]] sim_figures figures(int device = 0) {
        std::lock_guard const held{machine_.mutex};
        sim_figures           f = machine_.schedule.figures(device);
        f.used                  = machine_.at(device).used;
        return f;
    }
    void reset_figures(int device = 0) {
        std::lock_guard const held{machine_.mutex};
        std::size_t const     used                  = machine_.at(device).used;
        machine_.schedule.figures(device)           = {};
        machine_.schedule.figures(device).peak_used = used;
    }

    /// Every finished operation in the order of their ends, where `options.trace` is set.
    [[nodiscard]] std::vector<sim_trace> trace() const {
        std::lock_guard const held{machine_.mutex};
        return machine_.schedule.trace();
    }

    /// Runs everything that is queued and looks for leaks, once. The destructor does it too. The
    /// calling thread takes no part in virtual time afterwards.
    void finish() {
        if (std::exchange(finished_, true)) { return; }
        std::unique_lock held{machine_.mutex};
        if (sim_host* const self = detail::self(machine_.id).host) {
            machine_.make_ordinary(held, *self);
        }
        while (machine_.schedule.next() != sim_time::max() || machine_.schedule.executing()) {
            machine_.outside_step(held);
        }
        if (!machine_.checker.on().leaks) { return; }
        machine_.memory.for_each([&](sim_block const& block) {
            if (block.freed || block.kind == sim_kind::registered) { return; }
            machine_.checker.tell({sim_mistake::leak,
                                   {},
                                   block.allocated,
                                   block.begin,
                                   block.bytes,
                                   "it was never given back"});
        });
        for (auto const& [handle, memory] : machine_.memory.physical) {
            if (!memory.handle) { continue; } // then its mapping is what was forgotten
            machine_.checker.tell({sim_mistake::leak,
                                   {},
                                   memory.created,
                                   0,
                                   memory.bytes,
                                   "its handle was never destroyed"});
        }
        for (auto const& [begin, range] : machine_.memory.reservations) {
            machine_.checker.tell({sim_mistake::leak,
                                   {},
                                   range->reserved,
                                   begin,
                                   range->bytes,
                                   "the addresses were never given back"});
        }
    }

    /// The inside, for the parts of `sim/`.
    [[nodiscard]] sim_machine& machine() noexcept { return machine_; }

private:
    static std::atomic<sim_node*>& newest() noexcept {
        static std::atomic<sim_node*> node{nullptr};
        return node;
    }
    static std::mutex& list() noexcept {
        static std::mutex mutex;
        return mutex;
    }

    sim_machine machine_;
    sim_node*   before_   = nullptr;
    bool        finished_ = false;
};

} // namespace vram
