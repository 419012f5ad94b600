// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_copier` enqueues a loader's copies to the device, in order, on a separate stream.

#include <vram/base/core/report_caught.hpp>      // report_caught
#include <vram/transfer/core/copy_lane.hpp>      // copy_lane
#include <vram/transfer/core/copy_problem.hpp>   // copy_problem
#include <vram/transfer/core/profiler_range.hpp> // profiler_range
#include <vram/transfer/core/slot_ring.hpp>      // slot_ring

#include <cstdint>   // uint64_t
#include <cstring>   // memset
#include <exception> // exception_ptr, current_exception
#include <optional>  // optional
#include <utility>   // move

namespace vram {
namespace detail {

/// Enqueues a loader's copies. If the loop waits for a batch, its thread enqueues the copy.
/// Otherwise the thread that completes the pair of a filled pinned block and a free device block
/// does: a producer that filled, or a thread that released a batch. The copy stream waits for the
/// last uses of the device block. At the end of a copy, a callback or a completion flag (a word in
/// pinned memory that the device writes) makes the pinned block empty, and no host thread waits.
///
/// Failure   The exception of a copy is thrown when the loop asks for that batch. If a callback
///           cannot be enqueued, the thread that fills the pinned block next waits for the event of
///           the copy instead.
/// Streams   One stream carries the copies, and another one the callbacks.
/// Cost      A copy costs one stream wait, one event, and the wait and the call of the callback.
///           Nothing is allocated.
template <class Platform>
class slot_copier : public slot_ring<Platform> {
    using ring = slot_ring<Platform>;

public:
    using typename ring::clock;
    using typename ring::device;
    using typename ring::pinned;
    using typename ring::slot;
    using typename ring::stream;

    /// Returns the counters and times so far. Must be called on the loop's thread.
    [[nodiscard]] loader_statistics statistics() {
        this->expect_owning_process();
        if (this->options_.timing) { measure_empties(); }
        auto       s = this->note([](auto& f) { return f; });
        auto const t = this->times_.sum();
        s.use_ns     = t;
        return s;
    }

protected:
    /// The byte with which `loader_options::checker` overwrites blocks. As a `float` it reads as
    /// NaN, and as an unsigned integer as the largest number.
    static constexpr unsigned char poison = 0xFF;

    slot_copier(loader_options const& options, device where, std::optional<stream> copies)
        : ring{options, where}, lane_{where, copies, options.priority} {
        for (pinned& p : this->pinned_) { p.owner = this; }
    }
    ~slot_copier() = default;

    /// Prepares the pinned block `p` to be filled: waits for its copy if no callback or flag
    /// reports the end, reads the time of the copy, and overwrites the block if
    /// `loader_options::checker` is set.
    void clear(pinned& p) {
        if (p.in_flight) {
            std::uint64_t const since = clock::now();
            Platform::synchronize(p.copied);
            p.in_flight = false;
            this->note([&](auto& f) {
                f.pinned_ns += clock::now() - since;
                ++f.host_waits;
            });
        }
        measure(p);
        if (this->options_.checker) { std::memset(p.memory, poison, this->options_.batch_bytes); }
    }

    copy_lane<Platform> lane_;

private:
    void copy_all() noexcept final {
        pinned* from = nullptr;
        slot*   to   = nullptr;
        for (bool more = this->claim(from, to); more;) {
            more = this->copied(from, to, copy(*from, *to));
        }
    }

    /// Enqueues the copy of a batch from the pinned block `from` to the device block `to`. Returns
    /// null, or the exception if it failed. `from` becomes empty when the copy is complete,
    /// possibly before this function returns.
    std::exception_ptr copy(pinned& from, slot& to) noexcept {
        profiler_range<Platform> const shown{"vram copy"};
        stream const                   on      = lane_.view();
        bool                           started = false;
        try {
            to.size   = from.size;
            to.filled = from.filled;
            to.asked  = from.asked;
            to.await_users(on);
            if (from.timed) { Platform::record(from.begun, on); }
            Platform::copy(on, to.memory, from.memory, from.size);
            started      = true;
            from.flagged = false;
            if (from.timed) { Platform::record(from.copied, on); }
            if (this->options_.call_back) { lane_.set_flag(from); }
            // With a completion flag, no event is needed.
            bool const unseen = !from.timed && !from.flagged;
            if (unseen) { Platform::record(from.copied, on); }
            Platform::record(to.copied, on);
            from.over      = from.flagged ? &to.copied : &from.copied;
            to.flag        = from.flagged ? from.flag : nullptr;
            to.copy_number = from.copy_number;
            depart(from, to);
            return nullptr;
        } catch (...) {
            std::exception_ptr problem = copy_problem<Platform>(to.index, to.asked);
            if (started) { to.end_unknown = from.end_unknown = !lane_.finish(); }
            return problem;
        }
    }
    /// Arranges that `from` becomes empty when its copy is complete: by its completion flag, by a
    /// callback, or by a wait of the thread that fills the block next.
    void depart(pinned& from, slot& to) noexcept {
        from.unmeasured = from.timed;
        if (from.flagged) { return; }
        if (this->options_.call_back) {
            try {
                return lane_.call_after(to.copied, on_copied, &from);
            } catch (...) {
                report_caught({.kind     = error_kind::platform_error,
                               .pointer  = from.memory,
                               .resource = "loader",
                               .call     = "the callback after a copy"});
            }
        }
        from.in_flight = true;
        this->put_back(from);
    }
    static void on_copied(void* slot) {
        pinned& p = *static_cast<pinned*>(slot);
        static_cast<slot_copier*>(p.owner)->copy_completed(p);
    }

    void released(slot& s) noexcept final {
        if (!this->options_.checker) { return; }
        try {
            s.await_users(lane_.view());
            Platform::fill(lane_.view(), s.memory, std::byte{poison}, this->options_.batch_bytes);
        } catch (...) {
            report_caught({.kind     = error_kind::platform_error,
                           .pointer  = s.memory,
                           .resource = "loader",
                           .call     = "the fill of a released block"});
        }
    }

    void measure(pinned& p) {
        if constexpr (has_timing<Platform>) {
            if (!p.unmeasured) { return; }
            auto const ns = static_cast<std::uint64_t>(Platform::elapsed(p.begun, p.copied));
            p.unmeasured  = false;
            this->note([&](auto& f) { f.copy_ns += ns; });
        }
    }
    void measure_empties() {
        for (auto all = this->take_empties(); pinned* const p = all.pop();) {
            try {
                if (p->unmeasured && Platform::done(p->copied)) { measure(*p); }
            } catch (...) {
                report_caught({.kind     = error_kind::platform_error,
                               .pointer  = p->memory,
                               .resource = "loader",
                               .call     = "the timing of a copy"});
            }
            this->put_back(*p);
        }
    }

    void check_copies() noexcept final {
        for (pinned& p : this->pinned_) {
            try {
                auto const copy = this->copy_of(p);
                if (copy.which == 0 || !Platform::done(*copy.over)) { continue; }
                // The event is complete: this does not wait, and throws if the copy failed.
                Platform::synchronize(*copy.over);
                this->copy_completed_early(p, copy.which);
            } catch (...) { return this->fail(std::current_exception()); }
        }
    }
};

} // namespace detail
} // namespace vram
