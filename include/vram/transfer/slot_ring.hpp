// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_ring` is the consumer's side of a loader's ring: it hands out filled slots as batches and
/// takes released ones back.

#include <vram/base/durations.hpp>        // nanoseconds
#include <vram/base/report_caught.hpp>    // report_caught
#include <vram/layer/sure_wait.hpp>       // sure_wait
#include <vram/transfer/loader_error.hpp> // loader_error
#include <vram/transfer/slot_supply.hpp>  // slot_supply
#include <vram/transfer/stage.hpp>        // stage
#include <vram/transfer/use_times.hpp>    // use_times

#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <exception> // rethrow_exception
#include <memory>    // enable_shared_from_this
#include <utility>   // move

namespace vram {

/// State that a loader, its producers and the batches in use share.
///
/// Failure   An exception of a producer or of a copy is stored, and thrown at the batch that
///           failed.
/// Threads   Any number of threads may release batches. One thread, the consumer, asks for the next
///           batch.
/// Cost      A step of the consumer takes the lock `gate_` twice. Nothing is allocated.
template <class Platform>
class slot_ring : public slot_supply<Platform>,
                  public std::enable_shared_from_this<slot_ring<Platform>> {
    using supply = slot_supply<Platform>;

public:
    using typename supply::clock;
    using typename supply::device;
    using typename supply::slot;
    using typename supply::stream;

    /// Returns the next batch in order, after making the stream `s` wait for its copy. Returns null
    /// at the end of the range. The host waits only for producers, not for the device.
    slot* take(stream s) {
        this->expect_owning_process(taken_);
        if (ended_) { return nullptr; }
        if (Platform::capturing(s)) { throw loader_error{loader_error::reason::capturing, taken_}; }
        slot* const got = await_ready();
        if (got == nullptr) { return nullptr; }
        try {
            got->await_copy(s);
            times_.begin(*got, s);
        } catch (...) { // a failed copy may be noticed only here: the range ends
            ended_ = true;
            give(*got);
            throw;
        }
        ++taken_;
        got->range = stage<Platform>::begin("vram use");
        return got;
    }

    /// Releases the batch in slot `s`. The slot is reused after the work that the stream `on` and
    /// the batch's further streams have received so far.
    void release(slot& s, stream on) noexcept {
        // In a forked child, the slot belongs to the parent.
        if (!this->in_owning_process()) { return; }
        stage<Platform>::end(s.range);
        try {
            times_.end(s, on);
            s.record_users(on);
        } catch (...) { // there is no event to wait for later, so wait now
            report_caught({.kind     = error_kind::platform_error,
                           .pointer  = s.memory,
                           .bytes    = s.size,
                           .resource = "loader",
                           .call     = "the record of a released batch"});
            // If the slot is not known to be free, it is never used again.
            if (!await_users_of(s, on)) { return; }
        }
        released(s);
        give(s);
    }

protected:
    using typename supply::guard;

    slot_ring(loader_options const& options, device where)
        : supply{options, where},
          times_{where, options.timing ? options.pinned_depth + 2 * options.device_depth + 2 : 0} {}
    ~slot_ring() = default;

    /// Fills a slot on the consumer's thread. Does nothing if the loader has producer threads.
    virtual void produce_inline() = 0;
    /// Called when the events of all users of `s` have been recorded, before `s` is reused.
    virtual void released(slot& s) noexcept = 0;

    /// Starts an epoch. No producer is running and no copy is in progress. Batches of an earlier
    /// epoch may be released concurrently.
    void begin(std::size_t batches, index_order order) noexcept {
        auto const held = this->gate_.hold();
        // Each callback has come or never will.
        for (auto& p : this->pinned_) { p.completed_early = 0; }
        this->books_.begin(batches, std::move(order));
        taken_          = 0;
        passed_ns_      = this->figures_.wall_ns;
        this->stopping_ = ended_ = false;
    }
    void stop() noexcept {
        {
            auto const held = this->gate_.hold();
            this->stopping_ = true;
        }
        this->gate_.notify();
        ended_ = true;
    }
    [[nodiscard]] bool at_end() const noexcept { return ended_; }

    use_times<Platform> times_;

private:
    static constexpr bool bounds_real_time =
        requires(typename Platform::gate& g, guard& held, std::chrono::nanoseconds most,
                 bool (*ready)()) { g.wait_at_most(held, most, ready); };

    slot* await_ready() {
        auto const since = clock::now();
        produce_inline();
        std::uint64_t spare   = 0;
        auto          held    = this->gate_.hold();
        this->consumer_waits_ = true;
        bool const came       = copy_or_wait(held, spare);
        this->consumer_waits_ = false;
        if (this->can_copy()) { this->notify_awake(); }
        auto const now = clock::now();
        this->figures_.stall_ns += now - since - spare;
        if (!came) {
            throw loader_error{loader_error::reason::timed_out, taken_, 0, 0, this->count_states()};
        }
        if (this->books_.begun()) { this->figures_.wall_ns = passed_ns_ + (now - this->begun_); }
        if (slot* const s = this->books_.take()) {
            ++this->figures_.batches;
            this->figures_.bytes += s->size;
            return s;
        }
        if (!this->stopping_ && !this->books_.exhausted()) {
            throw loader_error{loader_error::reason::all_held, taken_, this->slots_.size(),
                               this->slots_.size()};
        }
        ended_ = true;
        if (auto const problem = this->books_.error(); problem != nullptr && !this->stopping_) {
            std::rethrow_exception(problem);
        }
        return nullptr;
    }
    /// Waits until a batch is ready, or until none can come. If a filled pinned slot and a free
    /// device slot exist, the consumer enqueues the copy itself, because the producer has the next
    /// batch to fill. If a batch is ready already, a producer that is awake enqueues the copy.
    /// Returns false after `timeout`. Adds to `spare` the time of copies that were made while a
    /// batch was ready.
    bool copy_or_wait(guard& held, std::uint64_t& spare) {
        for (;;) {
            bool const came = wait(held, [&] {
                return this->books_.ready() || this->can_copy() || can_fill_here() ||
                       this->stopping_ || this->books_.exhausted() || this->books_.all_held();
            });
            // If so, the consumer does not depend on the copy.
            bool const there = this->books_.ready();
            bool const fills = can_fill_here();
            bool const mine  = this->can_copy() && !(there && this->awake_ != 0);
            if (!fills && !mine) { return came; }
            auto const since       = clock::now();
            this->consumer_copies_ = true;
            held.unlock();
            fills ? produce_inline() : this->copy_all();
            held                   = this->gate_.hold();
            this->consumer_copies_ = false;
            if (there) { spare += clock::now() - since; }
        }
    }
    /// Returns true if the consumer must fill a free device slot itself: there are no producer
    /// threads and no pinned slots, and no batch is ready.
    [[nodiscard]] bool can_fill_here() const noexcept {
        auto const& b = this->books_;
        return this->options_.depth == 0 && this->pinned_.empty() && b.can_fill_slot() &&
               !b.ready() && !b.no_more() && !this->stopping_;
    }
    template <class Ready>
    bool wait(guard& held, Ready ready) {
        if constexpr (supply::stays_awake) {
            if (this->gate_.wait_awake(held, supply::awake, ready)) { return true; }
        }
        auto const most = this->options_.timeout;
        if (most.count() != 0) {
            if constexpr (bounds_real_time) { // virtual time, and a limit in real time
                return this->gate_.wait_at_most(held, most, ready);
            } else {
                return this->gate_.wait_for(held, most, ready);
            }
        }
        this->gate_.wait(held, ready);
        return true;
    }

    void give(slot& s) noexcept {
        bool mine = false, theirs = false, fills = false;
        {
            auto const held = this->gate_.hold();
            this->books_.give(s);
            fills = this->idle_ != 0 && this->pinned_.empty();
            // To wake a sleeping producer would take longer than to copy on this thread.
            theirs = this->awake_ != 0 && this->can_copy();
            mine   = !theirs && this->can_copy();
        }
        if (fills) { this->gate_.notify(); }
        if (theirs) { this->notify_awake(); }
        if (mine) { this->copy_all(); }
    }
    /// Blocks the host until all users of `s` are done: the stream `on` and the further streams.
    /// Returns false if a wait failed, so that the slot must not be reused.
    static bool await_users_of(slot& s, stream on) noexcept {
        auto const device_of = [](stream of) { return [of] { return Platform::device_of(of); }; };
        s.end_unknown        = !sure_wait<Platform>(on, device_of(on));
        for (stream other : s.others) {
            s.end_unknown = !sure_wait<Platform>(other, device_of(other)) || s.end_unknown;
        }
        s.forget_users();
        return !s.end_unknown;
    }

    std::size_t   taken_     = 0; ///< number of batches that the consumer took in this epoch
    std::uint64_t passed_ns_ = 0; ///< `wall_ns` of earlier epochs
    bool          ended_     = false;
};

} // namespace vram
