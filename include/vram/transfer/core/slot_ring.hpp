// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_ring` passes filled blocks to a loader's loop as batches, and takes them back.

#include <vram/base/core/report_caught.hpp>
#include <vram/transfer/core/profiler_range.hpp>
#include <vram/transfer/core/slot_supply.hpp>
#include <vram/transfer/core/use_times.hpp>
#include <vram/transfer/loader_error.hpp>
#include <vram/transfer/loader_statistics.hpp>

#include <cstddef>
#include <cstdint>
#include <exception> // rethrow_exception
#include <memory>    // enable_shared_from_this
#include <optional>  // optional
#include <utility>

namespace vram {
namespace detail {

/// The part of a loader that its loop uses. Passes filled device blocks to the loop as batches, and
/// takes the blocks back when the batches are released. The loader and each batch in use share the
/// ownership of one `slot_ring`.
///
/// Threads   Any number of threads may release batches; the loop's thread asks for the next batch.
template <class Platform>
class slot_ring : public slot_supply<Platform>,
                  public std::enable_shared_from_this<slot_ring<Platform>> {
    using supply = slot_supply<Platform>;

public:
    using typename supply::clock;
    using typename supply::device;
    using typename supply::slot;
    using typename supply::stream;

    /// Waits for the next batch, makes the stream `s` wait for the copy of that batch, and returns
    /// the device block of the batch. Returns null after the last batch. Throws if the batch
    /// failed.
    slot* take(stream s) {
        this->expect_owning_process(taken_);
        if (ended_) { return nullptr; }
        if (Platform::capturing(s)) { throw loader_error{loader_error::reason::capturing, taken_}; }
        slot* const got = await_ready();
        if (got == nullptr) { return nullptr; }
        try {
            got->await_copy(s);
            times_.begin(*got, s);
        } catch (...) { // the error of a copy may be detected only here; no further batch follows
            ended_ = true;
            this->note([got](auto& f) { // the statistics count only batches that the loop got
                --f.batches;
                f.bytes -= got->size;
            });
            give(*got);
            throw;
        }
        ++taken_;
        got->range = profiler_range<Platform>::begin("vram use");
        return got;
    }

    /// Releases the batch in the device block `s`. The loader may overwrite the block after the
    /// work that is now enqueued on the stream `on` and on the streams added by `slot::add_user`.
    /// `other`: true if `on` is not the stream of the loop, and may be one of another device.
    void release(slot& s, stream on, bool other = false) noexcept {
        // Does nothing in a forked child process, because the block belongs to the parent process.
        if (!this->in_owning_process()) { return; }
        profiler_range<Platform>::end(s.range);
        try {
            if (s.captured(on)) { throw loader_error{loader_error::reason::capturing, s.index}; }
            bool const elsewhere = other && !(Platform::device_of(on) == where_);
            elsewhere ? times_.leave_out(s) : times_.end(s, on);
            s.record_users(on, elsewhere);
        } catch (...) { // without an event to wait for later, wait now
            report_caught({.kind     = error_kind::platform_error,
                           .pointer  = s.memory,
                           .bytes    = s.size,
                           .resource = "loader",
                           .call     = "the record of a released batch"});
            times_.leave_out(s);
            // No event is recorded, so the host waits for the streams that use the block. If this
            // wait fails, the block is not used again, because the streams may still access it.
            if (!s.finish_users(on)) { return; }
        }
        if (this->options_.checker) { overwrite(s); }
        give(s);
    }

    /// Returns the counters and times so far. Must be called on the loop's thread.
    [[nodiscard]] loader_statistics statistics() {
        this->expect_owning_process();
        if (this->options_.timing) { this->measure_empties(); }
        auto s   = this->note([](auto& f) { return f; });
        s.use_ns = times_.sum();
        return s;
    }

protected:
    using typename supply::guard;

    slot_ring(loader_options const& options, device where, std::optional<stream> copies)
        : supply{options, where, copies},
          where_{where},
          times_{where, options.timing ? options.pinned_depth + 2 * options.device_depth + 2 : 0} {}
    ~slot_ring() = default;

    /// If the loader has no producer threads, fills the next batch on the calling thread. Does
    /// nothing if the loader has producers, or if a batch is already filled or ready for the loop.
    virtual void produce_inline() = 0;

    /// Starts a pass over the source. `batches`: number of batches to request, or `none` if it is
    /// unknown. `order`: the source's indices of these batches. Before the call, all filling,
    /// copies and callbacks must have ended. During the call, other threads may release batches.
    void begin(std::size_t batches, index_order order) noexcept {
        auto const held = this->threads_.hold();
        this->channel_.end_all();
        this->table_.begin(batches, std::move(order));
        taken_     = 0;
        passed_ns_ = this->figures_.wall_ns;
        ended_     = false;
        this->rules_.start();
    }
    void stop() noexcept {
        {
            auto const held = this->threads_.hold();
            this->rules_.stop();
        }
        this->threads_.notify();
        ended_ = true;
    }
    [[nodiscard]] bool at_end() const noexcept { return ended_; }

    device              where_; ///< device of the blocks
    use_times<Platform> times_;

private:
    slot* await_ready() {
        auto const since = clock::now();
        produce_inline();
        std::uint64_t spare = 0;
        auto          held  = this->threads_.hold();
        this->rules_.consumer_waits(true);
        bool const came = copy_or_wait(held, spare);
        this->rules_.consumer_waits(false);
        if (this->can_copy()) { this->threads_.notify_awake(); }
        auto const now = clock::now();
        this->figures_.stall_ns += now - since - spare;
        if (!came) {
            throw loader_error{loader_error::reason::timed_out, taken_, 0, 0, this->count_states()};
        }
        if (this->table_.begun()) { this->figures_.wall_ns = passed_ns_ + (now - this->begun_); }
        if (slot* const s = this->table_.take()) {
            ++this->figures_.batches;
            this->figures_.bytes += s->size;
            return s;
        }
        if (!this->rules_.stopping() && !this->table_.exhausted()) {
            throw loader_error{loader_error::reason::all_held, taken_, this->slots_.size(),
                               this->slots_.size()};
        }
        ended_ = true;
        if (auto const problem = this->table_.error();
            problem != nullptr && !this->rules_.stopping()) {
            std::rethrow_exception(problem);
        }
        return nullptr;
    }
    /// Waits until a batch is ready for the loop or none can come. During the wait, enqueues copies
    /// or fills batches. Adds the time of such work to `spare`, if a batch was ready before the
    /// work. Returns false if one wait lasts longer than `loader_options::timeout`.
    bool copy_or_wait(guard& held, std::uint64_t& spare) {
        for (;;) {
            bool const came  = this->threads_.wait_at_most(held, this->options_.timeout, [&] {
                return this->table_.ready() || this->can_copy() || can_fill_here() ||
                       this->rules_.stopping() || this->table_.exhausted() ||
                       this->table_.all_held();
            });
            bool const there = this->table_.ready();
            bool const fills = can_fill_here();
            bool const mine =
                this->rules_.consumer_copies(this->can_copy(), there, this->threads_.waiting());
            if (!fills && !mine) { return came; }
            auto const since = clock::now();
            this->rules_.consumer_works(true);
            held.unlock();
            fills ? produce_inline() : this->copy_all();
            held = this->threads_.hold();
            this->rules_.consumer_works(false);
            // If a batch was ready, the time of this work is not waiting time (`stall_ns`).
            if (there) { spare += clock::now() - since; }
        }
    }
    /// Returns true if the loop's thread must fill a device block itself: the loader has no
    /// producers and no pinned blocks, and no batch is ready.
    [[nodiscard]] bool can_fill_here() const noexcept {
        auto const& b = this->table_;
        return this->options_.depth == 0 && this->pinned_.empty() && b.can_fill_slot() &&
               !b.ready() && !b.no_more() && !this->rules_.stopping();
    }
    /// For `loader_options::checker`: enqueues a fill of the device block with 0xFF, to be executed
    /// after the uses of the released batch. Later accesses to the batch then read wrong values.
    void overwrite(slot& s) noexcept {
        try {
            stream const on = this->channel_.view();
            s.await_users(on);
            Platform::fill(on, s.memory, std::byte{supply::poison}, this->options_.batch_bytes);
        } catch (...) {
            report_caught({.kind     = error_kind::platform_error,
                           .pointer  = s.memory,
                           .resource = "loader",
                           .call     = "the fill of a released block"});
        }
    }
    /// Makes the device block `s` free, so that a filled batch can be copied into it. If a
    /// producer polls for work, this copy is left to other threads. If no producer polls, the
    /// calling thread enqueues the copy.
    void give(slot& s) noexcept {
        bool mine = false, theirs = false, fills = false;
        {
            auto const held = this->threads_.hold();
            this->table_.give(s);
            auto const& others = this->threads_.waiting();
            fills              = others.idle != 0 && this->pinned_.empty();
            theirs             = this->rules_.left_to_producer(this->can_copy(), others);
            mine               = !theirs && this->can_copy();
        }
        if (fills) { this->threads_.notify(); }
        if (theirs) { this->threads_.notify_awake(); }
        if (mine) { this->copy_all(); }
    }

    /// Number of batches that the loop has taken in the current pass over the source. Errors
    /// contain this number as the index of the next batch.
    std::size_t taken_ = 0;
    /// Total time of all earlier passes over the source: the value of `loader_statistics::wall_ns`
    /// when the current pass began.
    std::uint64_t passed_ns_ = 0;
    bool          ended_     = false;
};

} // namespace detail
} // namespace vram
