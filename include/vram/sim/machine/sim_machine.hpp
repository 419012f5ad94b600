// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_machine` is the internal state of a simulated node, protected by one lock.

#include <vram/sim/machine/sim_checker.hpp>
#include <vram/sim/machine/sim_core_caches.hpp>
#include <vram/sim/machine/sim_host.hpp> // sim_host, self
#include <vram/sim/machine/sim_memory.hpp>
#include <vram/sim/machine/sim_resource_call.hpp> // in_resource_call
#include <vram/sim/machine/sim_schedule.hpp>
#include <vram/sim/machine/sim_state.hpp> // sim_stream_state, sim_event_state, sim_device_state
#include <vram/sim/machine/sim_turns.hpp>
#include <vram/sim/sim_error.hpp>
#include <vram/sim/sim_faults.hpp>
#include <vram/sim/sim_options.hpp>

#include <algorithm> // max
#include <atomic>    // atomic
#include <chrono>    // nanoseconds
#include <cstddef>
#include <cstdint>
#include <deque>           // deque
#include <mutex>           // mutex, unique_lock
#include <source_location> // source_location
#include <unordered_map>   // unordered_map
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// The state of a node (simulated machine), with its streams and events. Other headers change the
/// state during a `sim_call`, such as `sim_queue`, `sim_wait` and `sim_heap`.
///
/// Failure   Members throw `std::bad_alloc`.
/// Threads   The caller holds `mutex`.
class sim_machine {
public:
    explicit sim_machine(sim_options given)
        : options{std::move(given)},
          schedule{options},
          memory{options},
          checker{memory, options},
          turns{schedule, options},
          devices(static_cast<std::size_t>(options.devices)) {
        turns.outside.ordinary = true;
        turns.outside.slot     = checker.actor(turns.outside.vclock);
        turns.outside.advance();
        checker.is_past = [this](std::size_t slot, std::uint64_t count) {
            return turns.all_include(slot, count, options.host_threads);
        };
        turns.on_deadlock = [this](std::string waits) {
            checker.report({.kind = sim_mistake::deadlock, .missing = std::move(waits)});
        };
        turns.on_stuck   = [this] { resolve_stuck(); };
        schedule.on_end  = [this](sim_operation& op) { turns.wake_waiters(op); };
        schedule.may_end = [this](sim_operation const& op) { return reached(*op.task.word); };
        for (int i = 0; i < options.devices; ++i) {
            sim_device_state& d = devices[static_cast<std::size_t>(i)];
            d.capacity          = options.capacity;
            d.peers.assign(static_cast<std::size_t>(options.devices), options.peer_access);
            d.legacy         = &make_stream(turns.outside, i, true);
            d.legacy->legacy = true;
            d.unfollowed.clear();
            checker.names.set_default(d.legacy->id, "the default stream");
        }
    }
    sim_machine(sim_machine const&)            = delete;
    sim_machine& operator=(sim_machine const&) = delete;

    sim_stream_state& make_stream(sim_host& creator, int device, bool blocking) {
        sim_device_state& d = at(device);
        for (sim_stream_set* const set : {&d.streams, &d.active, &d.unfollowed}) {
            set->reserve(d.streams.size() + 1);
        }
        if (spare_streams_.empty()) {
            spare_streams_.push_back(&streams_.emplace_back());
            // Reserves room for the `push_back` in `destroy_stream`, which then does not fail.
            reserve(spare_streams_, streams_.size());
        }
        sim_stream_state& s = *spare_streams_.back();
        spare_streams_.pop_back();
        s.machine  = this;
        s.id       = next_id.fetch_add(1, std::memory_order_relaxed);
        s.device   = device;
        s.blocking = blocking;
        s.tail     = {};
        s.waits.clear();
        s.sweep_at    = 16;
        s.slot        = checker.actor(creator.vclock);
        s.vclock      = creator.vclock;
        s.count       = s.vclock.advance(s.slot);
        s.work        = 0;
        s.legacy_seen = 0;
        s.announced   = false;
        s.ended       = false;
        s.shares      = 1;
        d.streams.add(s);
        changed(s);
        return s;
    }

    /// Called when the owner of the stream `s` is destroyed. Ends a capture that began on `s`.
    /// Increments `ends`, unless `s` was created with `raw`.
    void end_stream(sim_stream_state& s) noexcept {
        end_capture_of(s);
        if (s.announced) {
            s.ended = true;
            ends.fetch_add(1, std::memory_order_release);
        }
        release_stream(s);
    }
    /// Removes one reference to a stream: that of its owner or of a `sim_stream_hold`. Destroys the
    /// stream if it was the last reference.
    void release_stream(sim_stream_state& s) noexcept {
        if (s.shares.fetch_sub(1, std::memory_order_acq_rel) == 1) { destroy_stream(s); }
    }

    /// Destroys a stream. Its queued work still runs, and later waits for the device include that
    /// work. A new stream may reuse the state.
    void destroy_stream(sim_stream_state& s) noexcept {
        sim_device_state& d = at(s.device);
        end_capture_of(s);
        s.id                    = 0;
        s.ended                 = false;
        auto const leave_behind = [&](sim_moments& orphans, vector_clock& vclock) {
            orphans.add(s.tail);
            for (sim_moment const& m : s.waits) { orphans.add(m); }
            vclock.join(s.vclock);
        };
        try {
            if (s.vclock.joined()) { s.count = s.vclock.advance(s.slot); }
            leave_behind(d.orphans, d.past_vclock);
            if (s.blocking) { leave_behind(d.blocking_orphans, d.blocking_orphans_vclock); }
        } catch (...) { return; }
        checker.retire(s.slot, s.count);
        if (s.waits_so_far != 0) { checker.retire(s.wait_slot, s.waits_so_far); }
        s.waits_so_far = 0;
        for (std::size_t const slot : s.branch_slots) { checker.retire(slot, s.vclock[slot]); }
        s.branch_slots.clear();
        for (sim_stream_set* const set : {&d.streams, &d.active, &d.unfollowed}) { set->remove(s); }
        spare_streams_.push_back(&s);
    }

    sim_event_state& make_event(int device, bool timed) {
        if (spare_events_.empty()) {
            spare_events_.push_back(&events_.emplace_back());
            reserve(spare_events_, events_.size());
        }
        sim_event_state& e = *spare_events_.back();
        spare_events_.pop_back();
        e.machine          = this;
        e.device           = device;
        e.timed            = timed;
        e.recorded         = false;
        e.place            = {};
        e.when             = {};
        e.recorded_by.what = sim_event_of::kind::none;
        return e;
    }
    void destroy_event(sim_event_state& e) noexcept {
        e.capture.reset();
        spare_events_.push_back(&e);
    }

    // Order between streams and host threads (the happens-before relation). A call of a resource
    // adds only to the full order (with resources' waits): the program must not rely on it.

    /// Orders the next step of the owner of `clock` after everything in `then`. The program must
    /// not rely on an order that a call of a resource, such as a pool, adds.
    static void take_over(vector_clock& clock, vector_clock const& then) {
        in_resource_call() ? clock.join_by_resource(then) : clock.join(then);
    }
    /// Returns true if `clock` includes step `count` of the stream or thread with index `slot`.
    [[nodiscard]] static bool follows(vector_clock const& clock, std::size_t slot,
                                      std::uint64_t count) noexcept {
        return in_resource_call() ? clock.includes_fully(slot, count) : clock.includes(slot, count);
    }

    /// Must be called after each change of the vector clock or queued work of `s`. Otherwise later
    /// waits for the device, or by the legacy default stream, could miss the change.
    void changed(sim_stream_state& s) {
        sim_device_state& d = at(s.device);
        s.in_past           = false;
        d.active.add(s);
        if (s.blocking && !s.legacy) { d.unfollowed.add(s); }
    }

    /// Makes everything in the vector clock `then` happen before the next step of the host thread
    /// `h`.
    void acquire(sim_host& h, vector_clock const& then) noexcept {
        if (!checker.on().races) { return; }
        try {
            take_over(h.vclock, then);
            h.advance();
        } catch (...) { checker.lose_order(); } // or a correct program would be reported
    }
    /// Makes everything that the host thread `h` did happen before the next work of the stream `s`.
    /// Throws `sim_error{invalid_handle}` if `s` was destroyed.
    void acquire(sim_stream_state& s, sim_host const& h,
                 std::source_location where = std::source_location::current()) {
        if (s.id == 0) { throw sim_error{sim_status::invalid_handle, where}; }
        if (!checker.on().races || s.vclock.includes(h.slot, h.vclock[h.slot])) { return; }
        take_over(s.vclock, h.vclock);
        s.count = s.vclock.advance(s.slot);
    }

    /// Adds the allocations by pools on the legacy default stream to its vector clock. Called
    /// before other work of the stream, and before waits for the stream.
    static void include_allocations(sim_stream_state& legacy) {
        if (legacy.allocations != 0) { take_over(legacy.vclock, legacy.allocated); }
    }
    /// Counts an allocation by a pool on the legacy default stream, with a counter of its own.
    void add_allocation(sim_stream_state& legacy) {
        if (legacy.allocations == 0) {
            legacy.allocation_slot = checker.actor(legacy.vclock);
            legacy.allocations     = legacy.vclock[legacy.allocation_slot];
        }
        legacy.allocated.raise(legacy.allocation_slot, ++legacy.allocations);
    }

    /// Makes the calling thread `me` an ordinary thread, outside simulated time. By default, its
    /// earlier work then happens before later calls of all ordinary threads.
    void make_ordinary(std::unique_lock<std::mutex>& held, sim_host& me) {
        turns.outside.clock = std::max(turns.outside.clock, me.clock);
        acquire(turns.outside, me.vclock);
        checker.retire(me.slot, me.vclock[me.slot]);
        turns.leave(me);
        detail::self(id).host = nullptr;
        turns.hand_off(held); // first: other threads must continue even if `caller` throws
        if (options.host_threads == sim_host_order::checked) { acquire(caller(), me.vclock); }
    }

    /// Returns the state of the calling thread. Ordinary threads share one state, unless
    /// `sim_host_order::checked` is set.
    [[nodiscard]] sim_host& caller() { return caller(detail::self(id)); }
    /// Returns the state of the calling thread, which has the entry `self` for this node.
    [[nodiscard]] sim_host& caller(sim_self& self) {
        if (self.host != nullptr) { return *self.host; }
        if (options.host_threads != sim_host_order::checked) { return turns.outside; }
        if (self.own == nullptr) {
            vector_clock none;
            self.own = &turns.ordinary(checker.actor(none));
        }
        return *self.own;
    }
    /// Orders the next call of `h` after the earlier calls of other threads, as far as
    /// `sim_options::host_threads` assumes such an order.
    void order_caller(sim_host& h) {
        sim_host_order const order = options.host_threads;
        if (order == sim_host_order::checked || !checker.on().races) { return; }
        bool const all = order == sim_host_order::ordered;
        if (h.child && !all) { return; }
        bool       changed = false;
        auto const follow  = [&](sim_host const& other) {
            if ((other.child && !all) || h.vclock.includes(other.slot, other.vclock[other.slot])) {
                return;
            }
            h.vclock.join(other.vclock);
            changed = true;
        };
        turns.for_each(follow);
        follow(turns.outside);
        if (changed) { h.advance(); }
    }
    /// Called when the `sim_thread` `h` has ended. With `sim_host_order::ordered`, everything that
    /// it did happens before later calls of other threads.
    void thread_ended(sim_host const& h) {
        if (options.host_threads == sim_host_order::ordered) { acquire(turns.outside, h.vclock); }
    }

    // Words that streams write and wait for.

    /// Returns the value that the 32-bit word at `where` has now.
    [[nodiscard]] std::uint32_t value_at(std::uintptr_t where) {
        if (std::uintptr_t const at = memory.view(where)) {
            return std::atomic_ref{*reinterpret_cast<std::uint32_t*>(at)}.load(
                std::memory_order_acquire);
        }
        // For memory without contents, returns the last value that a stream wrote, or 0.
        return words[where].value;
    }
    [[nodiscard]] bool reached(sim_word_use const& use) {
        return !use.waits || use.ends_at(value_at(use.where));
    }
    /// Writes a word in memory for the operation `number`, and wakes all that wait for the word.
    void write_word(sim_word_use const& use, std::uint64_t number) {
        sim_word& word = words[use.where];
        word.executed(number, value_at(use.where));
        word.value = use.value;
        if (std::uintptr_t const at = memory.view(use.where)) {
            std::atomic_ref{*reinterpret_cast<std::uint32_t*>(at)}.store(use.value,
                                                                         std::memory_order_release);
        }
        schedule.retry();
        for (std::atomic<std::uint64_t>* const notices : word.gates) {
            ++*notices;
            turns.wake_waiters(notices, schedule.now());
        }
        turns.progress.notify_all();
    }
    /// Called for the race check after a write of `word` was queued. Ends the open waits of streams
    /// that the written value satisfies, and orders these streams after the write.
    void written(sim_word& word) {
        sim_word::write const& last = word.queued.back();
        for (sim_word::wait& w : word.waits) {
            checker.unchecked.values += !w.open && w.may_end_at(last);
            if (!w.open || !w.use.ends_at(last.value)) { continue; }
            checker.end_wait(w.slot, w.count, last.vclock);
            w.end(last);
            if (w.stream->id != w.id) { continue; }
            w.stream->vclock.join(last.vclock);
            changed(*w.stream);
        }
        word.forget_waits();
    }
    /// Called after the host thread `h` read the word at `where`. Orders `h` after the work that
    /// happens before each of the writes that may have stored the value.
    void word_read(sim_host& h, std::uintptr_t where) {
        auto const found = words.find(where);
        if (found == words.end() || !checker.on().races) { return; }
        auto const end = found->second.before_read(value_at(where), h.vclock);
        if (end) { acquire(h, end->clock); }
    }

    /// Reports a deadlock: operations wait for each other, or for a value that nothing writes. Ends
    /// their waits, so that these operations continue.
    void resolve_stuck() {
        checker.report({.kind = sim_mistake::deadlock, .missing = schedule.stuck_text()});
        schedule.release_stuck();
    }
    /// Returns true if `p` is in pinned host memory. Locks the machine.
    [[nodiscard]] bool is_pinned(void const* p) {
        std::lock_guard const held{mutex};
        int                   device = 0;
        sim_kind const        kind   = memory.kind_of(reinterpret_cast<std::uintptr_t>(p), device);
        return kind == sim_kind::pinned || kind == sim_kind::registered;
    }

    [[nodiscard]] sim_device_state& at(int device) {
        return devices[static_cast<std::size_t>(device)];
    }

    /// The next id of a stream or node (simulated machine), unique in the process.
    inline static std::atomic<std::uint64_t> next_id{1};
    /// Number of `sim_stream`s destroyed so far in the process, without those created with `raw`.
    /// Resources read the number to notice that streams were destroyed.
    inline static std::atomic<std::uint64_t> ends{0};

    std::uint64_t const           id = next_id.fetch_add(1);
    sim_options const             options;
    mutable std::mutex            mutex;
    sim_core_caches               caches;
    sim_schedule                  schedule;
    sim_memory                    memory;
    sim_checker                   checker;
    sim_turns                     turns;
    sim_faults                    faults;
    std::vector<sim_device_state> devices;
    std::vector<sim_graph_state*> captures; ///< the stream captures that have begun and not ended

    sim_words words;
    /// Real time that an ordinary thread waits for a stream that cannot continue, before the wait
    /// is reported as a deadlock.
    std::chrono::nanoseconds stuck_patience = std::chrono::seconds{10};

    /// For each token of `sim_happens_before`: vector clock of the work before these calls.
    std::unordered_map<void const*, vector_clock> tokens;

    /// Live bytes of pinned host memory, rounded up to the granularity.
    std::size_t pinned_used  = 0;
    std::size_t managed_used = 0;

private:
    void end_capture_of(sim_stream_state& s) noexcept {
        if (!s.capture) { return; }
        std::shared_ptr<sim_graph_state> const graph = s.capture;
        if (graph->origin != &s) { return leave_capture(s, at(s.device)); }
        end_capture(*graph, captures, devices);
    }
    /// If `v` has room for fewer than `n` elements, reserves `2 * n`, so that few calls allocate.
    template <class Type>
    static void reserve(std::vector<Type>& v, std::size_t n) {
        if (n > v.capacity()) { v.reserve(2 * n); }
    }

    std::deque<sim_stream_state>   streams_;
    std::vector<sim_stream_state*> spare_streams_;
    std::deque<sim_event_state>    events_;
    std::vector<sim_event_state*>  spare_events_;
};

} // namespace detail
} // namespace vram
