// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_ring` is the consumer's side of a ring: where filled slots become batches, and slots
/// again.

#include <vram/base/report_caught.hpp>    // report_caught
#include <vram/layer/sure_wait.hpp>       // sure_wait
#include <vram/transfer/loader_error.hpp> // loader_error
#include <vram/transfer/slot_supply.hpp>  // slot_supply
#include <vram/transfer/stage.hpp>        // stage
#include <vram/transfer/use_times.hpp>    // use_times

#include <chrono>    // nanoseconds
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <exception> // rethrow_exception
#include <memory>    // enable_shared_from_this
#include <utility>   // move

namespace vram {

/// The state that a loader, its producers and the batches in use share.
///
/// Failure   an exception of a producer or of a copy is thrown at its place in the order
/// Threads   any number that hold batches, one that asks for the next
/// Cost      a step of the consumer takes the gate twice; nothing is allocated
template <class Platform>
class slot_ring : public slot_supply<Platform>,
                  public std::enable_shared_from_this<slot_ring<Platform>> {
    using supply = slot_supply<Platform>;

public:
    using typename supply::clock;
    using typename supply::device;
    using typename supply::slot;
    using typename supply::stream;

    /// The next batch in order, which `s` waits for; null at the end. The host waits for producers
    /// only.
    slot* take(stream s) {
        this->expect_home(taken_);
        if (ended_) { return nullptr; }
        if (Platform::capturing(s)) { throw loader_error{loader_error::reason::capturing, taken_}; }
        slot* const got = await_ready();
        if (got == nullptr) { return nullptr; }
        try {
            got->await_copy(s);
            times_.begin(*got, s);
        } catch (...) { // the copy's own failure, seen late: it ends the range here
            ended_ = true;
            give(*got);
            throw;
        }
        ++taken_;
        got->range = stage<Platform>::begin("vram use");
        return got;
    }

    /// The batch in `s` is done with once `on` and the others that used it are past this place.
    void release(slot& s, stream on) noexcept {
        if (!this->at_home()) { return; } // the parent has it
        stage<Platform>::end(s.range);
        try {
            times_.end(s, on);
            s.record_users(on);
        } catch (...) { // no event to wait for: wait now
            report_caught({.kind     = error_kind::platform_error,
                           .pointer  = s.memory,
                           .bytes    = s.size,
                           .resource = "loader",
                           .call     = "the record of a released batch"});
            if (!settle(s, on)) { return; } // nobody gets it any more
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

    /// Fills a slot at once, in the consumer's thread, where there are no producers.
    virtual void produce_inline() = 0;
    /// The users of `s` are named by its events.
    virtual void released(slot& s) noexcept = 0;

    /// The beginning of an epoch; no producer is there and no copy is under way, but batches of an
    /// earlier epoch may end meanwhile.
    void begin(std::size_t batches, index_order order) noexcept {
        auto const held = this->gate_.hold();
        for (auto& p : this->pinned_) {
            p.landed = 0;
        } // every call-back was made, or never will be
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
        std::uint64_t spare = 0;
        auto          held  = this->gate_.hold();
        this->asking_       = true;
        bool const came     = copy_or_wait(held, spare);
        this->asking_       = false;
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
    /// Waits for a batch, or until there can be none. Who waits for a batch also enqueues its copy:
    /// the producer has the next one to fill. Where a batch is there, a producer that is awake
    /// does. False: it took too long. `spare` grows by the time of copies when a batch was there.
    bool copy_or_wait(guard& held, std::uint64_t& spare) {
        for (;;) {
            bool const came  = wait(held, [&] {
                return this->books_.ready() || this->can_copy() || can_fill_here() ||
                       this->stopping_ || this->books_.exhausted() || this->books_.all_held();
            });
            bool const there = this->books_.ready(); // then it is not waited for
            bool const fills = can_fill_here();
            bool const mine  = this->can_copy() && !(there && this->awake_ != 0);
            if (!fills && !mine) { return came; }
            auto const since = clock::now();
            this->helping_   = true;
            held.unlock();
            fills ? produce_inline() : this->copy_all();
            held           = this->gate_.hold();
            this->helping_ = false;
            if (there) { spare += clock::now() - since; }
        }
    }
    /// Whether a slot on the device that nobody else fills was given back since there was none.
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
            if constexpr (bounds_real_time) { // of a gate whose time is virtual
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
            fills  = this->idle_ != 0 && this->pinned_.empty();
            theirs = this->awake_ != 0 && this->can_copy(); // to wake one up takes longer
            mine   = !theirs && this->can_copy();
        }
        if (fills) { this->gate_.notify(); }
        if (theirs) { this->notify_awake(); }
        if (mine) { this->copy_all(); }
    }
    /// Whether all users of `s` are done now.
    static bool settle(slot& s, stream on) noexcept {
        auto const device_of = [](stream of) { return [of] { return Platform::device_of(of); }; };
        s.unsure             = !sure_wait<Platform>(on, device_of(on));
        for (stream other : s.others) {
            s.unsure = !sure_wait<Platform>(other, device_of(other)) || s.unsure;
        }
        s.forget_users();
        return !s.unsure;
    }

    std::size_t   taken_     = 0; ///< batches that the consumer got
    std::uint64_t passed_ns_ = 0; ///< in earlier epochs
    bool          ended_     = false;
};

} // namespace vram
