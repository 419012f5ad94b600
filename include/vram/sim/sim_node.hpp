// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_node` is a simulated machine with GPUs inside the process.

#include <vram/sim/machine/sim_call.hpp> // sim_call, sim_machine
#include <vram/sim/machine/sim_change_checks.hpp>
#include <vram/sim/machine/sim_queue.hpp>
#include <vram/sim/machine/sim_wait.hpp>

#include <algorithm> // max
#include <atomic>    // atomic
#include <cstddef>
#include <functional>      // function
#include <mutex>           // mutex, lock_guard
#include <source_location> // source_location
#include <string>          // string, to_string
#include <string_view>     // string_view
#include <utility>
#include <vector> // vector

namespace vram {

/// A simulated machine: its devices, links, memory, simulated time and checks. The current node,
/// for all threads, is the newest `sim_node` that still exists.
///
///     sim_node node{{.devices = 2, .capacity = 1_GiB}};
///     sim_resource memory;                         // of device 0 of that node
///     CHECK(node.reports().empty());
///
/// Streams, events, resources and memory of a node must be destroyed before the node.
///
/// Failure   The constructor throws `std::bad_alloc` if the address ranges cannot be reserved.
/// Threads   Any thread may call, but not while a node is constructed or destroyed.
/// Cost      A few mmap calls. Writing contents commits memory.
class sim_node {
public:
    explicit sim_node(sim_options options = {}) : machine_{std::move(options)} {
        std::lock_guard const held{list()};
        before_ = newest().exchange(this);
    }
    sim_node(sim_node const&)            = delete;
    sim_node& operator=(sim_node const&) = delete;

    /// Runs all queued work and reports leaks. If this `sim_node` is the current one, the previous
    /// one becomes the current one again.
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

    /// Returns the newest `sim_node` that still exists, or creates one with default options.
    [[nodiscard]] static sim_node& current() {
        if (sim_node* const made = newest().load(std::memory_order_acquire)) { return *made; }
        // Creates a node that is never destroyed, because static objects may use it at process end.
        static sim_node* const first = new sim_node;
        static_cast<void>(first);
        return *newest().load(std::memory_order_acquire);
    }

    [[nodiscard]] int                devices() const noexcept { return machine_.options.devices; }
    [[nodiscard]] sim_options const& options() const noexcept { return machine_.options; }

    /// Returns the simulated time of the calling thread. Ordinary threads, which the scheduler does
    /// not run, share one time; with `sim_host_order::checked`, each has its own. With
    /// `sim_order::freely`, all threads are ordinary.
    [[nodiscard]] sim_time now() {
        detail::sim_self const& self = detail::self(machine_.id);
        std::unique_lock const  held{machine_.mutex};
        return self.host != nullptr ? self.host->clock
                                    : std::max(machine_.caller().clock, machine_.schedule.now());
    }

    /// Adds `duration` of work on the host to the simulated time of the calling thread.
    void work(sim_time duration, std::source_location where = std::source_location::current()) {
        detail::sim_call call{machine_, sim_call_kind::other, 0, where};
        call.host->clock += duration;
    }

    /// Returns the mistakes reported so far, oldest first. Repeated mistakes at the same lines are
    /// one report (see `sim_options::merge_reports`).
    [[nodiscard]] std::vector<sim_report> reports() const {
        std::lock_guard const held{machine_.mutex};
        return machine_.checker.log.all();
    }
    /// Returns the mistakes reported so far and removes them. With `sim_on_report::print`, first
    /// prints the total count of each mistake that was repeated since it was last printed.
    [[nodiscard]] std::vector<sim_report> take_reports() {
        std::lock_guard const held{machine_.mutex};
        return machine_.checker.log.take();
    }
    /// From now on, reports with this key (`sim_report::key`) are only counted (`unchecked`).
    void ignore(std::string key) {
        std::lock_guard const held{machine_.mutex};
        machine_.checker.log.ignore(std::move(key));
    }
    /// From now on, suppresses the reports for which `predicate` returns true. `predicate` must not
    /// call the simulated device.
    void ignore(std::function<bool(sim_report const&)> predicate) {
        std::lock_guard const held{machine_.mutex};
        machine_.checker.log.ignore(std::move(predicate));
    }
    /// Returns the numbers of accesses that were not checked, and of suppressed reports.
    [[nodiscard]] sim_unchecked unchecked() const {
        std::lock_guard const held{machine_.mutex};
        sim_unchecked         numbers = machine_.checker.unchecked;
        numbers.ignored               = machine_.checker.log.ignored();
        numbers.unused_keys           = machine_.checker.log.unused_keys();
        return numbers;
    }
    /// Selects the mistakes to detect from now on. If this switches `races` on, all operations
    /// before the call count as ordered before those after it.
    void set_checks(sim_checks const& checks) {
        std::lock_guard const held{machine_.mutex};
        detail::sim_change_checks(machine_, checks);
    }

    [[nodiscard]] sim_faults& faults() noexcept { return machine_.faults; }

    /// Simulates another process that allocates `bytes` bytes of the memory of `device`.
    /// `give_back` simulates that this process frees such memory.
    void take(int device, std::size_t bytes) {
        std::lock_guard const held{machine_.mutex};
        machine_.at(device).taken += bytes;
    }
    void give_back(int device, std::size_t bytes) {
        std::lock_guard const held{machine_.mutex};
        std::size_t&          taken = machine_.at(device).taken;
        taken -= std::min(taken, bytes);
    }

    /// Returns the counters and busy times of a device since the construction or `reset_figures`.
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

    /// Returns all completed copies, fills, kernels and host functions in the order of their end.
    /// Returns nothing unless `sim_options::trace` is set.
    [[nodiscard]] std::vector<sim_trace> trace() const {
        std::lock_guard const held{machine_.mutex};
        return machine_.schedule.trace();
    }

    /// Runs all queued work and reports leaks. A second call does nothing. If the calling thread is
    /// in simulated time (a `sim_thread`, or a thread that started one), it leaves simulated time.
    void finish() {
        if (std::exchange(finished_, true)) { return; }
        std::unique_lock held{machine_.mutex};
        if (detail::sim_host* const self = detail::self(machine_.id).host) {
            machine_.make_ordinary(held, *self);
        }
        while (machine_.schedule.next() != sim_time::max() || machine_.schedule.executing()) {
            detail::sim_outside_step(machine_, held);
            bool const last = machine_.schedule.next() == sim_time::max();
            if (last && !machine_.schedule.executing() && machine_.schedule.stuck()) {
                machine_.resolve_stuck();
            }
        }
        if (machine_.checker.on().leaks) { report_leaks(); }
        machine_.checker.log.print_totals();
    }

    /// Calls `visit(machine)` with the internal state of each existing `sim_node`, the newest
    /// first, until `visit` returns true. Only for the headers of `sim/`.
    template <class Visit>
    static void find(Visit visit) {
        sim_node* at = newest().load(std::memory_order_acquire);
        while (at != nullptr && !visit(at->machine_)) { at = at->before_; }
    }
    /// Returns the internal state of the simulated machine, for the headers of `sim/` alone.
    [[nodiscard]] detail::sim_machine& machine() noexcept { return machine_; }

private:
    void report_leaks() {
        // Leaks of memory that the library allocated for itself: one report for each source line.
        std::vector<sim_report> own;
        auto const add = [&](int device, sim_event_of const& allocated, std::uintptr_t begin,
                             std::size_t bytes, char const* users) {
            if (machine_.at(device).lost) { return; } // no call can free this memory
            bool const users_own = detail::sim_part_of(allocated.where).name == nullptr;
            for (sim_report& each : own) {
                if (users_own || each.first.where.line() != allocated.where.line() ||
                    std::string_view{each.first.where.file_name()} != allocated.where.file_name()) {
                    continue;
                }
                each.bytes += bytes;
                ++each.blocks;
                return;
            }
            sim_report leak{sim_mistake::leak, {}, allocated, begin, bytes, users_own ? users : ""};
            if (users_own) {
                machine_.checker.report(std::move(leak));
            } else {
                own.push_back(std::move(leak));
            }
        };
        machine_.memory.for_each([&](detail::sim_block const& block) {
            if (block.freed || block.kind == detail::sim_kind::registered) { return; }
            add(block.device, block.allocated, block.begin, block.bytes, block.leak_advice());
        });
        for (auto const& [handle, memory] : machine_.memory.physical) {
            // Memory without a handle is still mapped. The loop below reports the mapping's range.
            if (!memory.handle) { continue; }
            add(memory.device, memory.created, 0, memory.bytes, "its handle was never destroyed");
        }
        for (auto const& [begin, r] : machine_.memory.reservations) {
            add(r->device, r->reserved, begin, r->bytes, "the addresses were never released");
        }
        for (sim_report& each : own) { machine_.checker.report(std::move(each)); }
    }

    static std::atomic<sim_node*>& newest() noexcept {
        static std::atomic<sim_node*> node{nullptr};
        return node;
    }
    static std::mutex& list() noexcept {
        static std::mutex mutex;
        return mutex;
    }

    detail::sim_machine machine_;
    sim_node*           before_   = nullptr;
    bool                finished_ = false;
};

/// Expects a mistake while this object exists. Reports of the expected kind, or with the expected
/// key (`sim_report::key`), are counted and not stored. If several objects match a report, the
/// newest one counts it. If the count is 0, the destructor reports `sim_mistake::not_reported`.
///
///     {
///         sim_expect const race{sim_mistake::race};
///         read_without_a_wait();
///     }
///
/// Threads   Any thread may make the mistake.
/// Cost      While the object exists, each report is compared with it.
class sim_expect {
public:
    /// Counts reports of the kind `kind` until the destructor, instead of storing them. If there
    /// was no such report, the destructor reports `sim_mistake::not_reported`.
    explicit sim_expect(sim_mistake          kind,
                        std::source_location where = std::source_location::current())
        : sim_expect{detail::sim_expected{.kind = kind}, where} {}
    /// Does the same for reports with the key `key` (`sim_report::key`).
    explicit sim_expect(std::string          key,
                        std::source_location where = std::source_location::current())
        : sim_expect{detail::sim_expected{.key = std::move(key)}, where} {}
    sim_expect(sim_expect const&)            = delete;
    sim_expect& operator=(sim_expect const&) = delete;
    ~sim_expect() {
        std::lock_guard const held{machine_.mutex};
        machine_.checker.log.forget(expected_);
        if (expected_.count != 0) { return; }
        try {
            machine_.checker.report(
                {.kind    = sim_mistake::not_reported,
                 .second  = {.host = true, .where = where_},
                 .missing = "expected at " + std::string{where_.file_name()} + ":" +
                            std::to_string(where_.line()) + ": " +
                            (expected_.kind ? name(*expected_.kind) : expected_.key.c_str())});
        } catch (...) {} // without host memory there is no report
    }

    /// Returns the number of reports that this object has matched and suppressed so far.
    [[nodiscard]] std::size_t count() const {
        std::lock_guard const held{machine_.mutex};
        return expected_.count;
    }

private:
    sim_expect(detail::sim_expected expected, std::source_location where)
        : machine_{sim_node::current().machine()}, expected_{std::move(expected)}, where_{where} {
        std::lock_guard const held{machine_.mutex};
        machine_.checker.log.add_expected(expected_);
    }

    detail::sim_machine& machine_;
    detail::sim_expected expected_;
    std::source_location where_;
};

} // namespace vram
