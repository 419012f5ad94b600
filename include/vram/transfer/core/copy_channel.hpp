// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `copy_channel` enqueues copies between pinned and device blocks, and detects when they end.

#include <vram/base/core/report_caught.hpp>
#include <vram/base/error_kind.hpp>
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/core/user_line.hpp> // user_line, remembered_line, name_stream
#include <vram/transfer/core/copies_in_progress.hpp>
#include <vram/transfer/core/copy_lane.hpp>
#include <vram/transfer/core/copy_problem.hpp>
#include <vram/transfer/core/pinned_slot.hpp>
#include <vram/transfer/core/profiler_range.hpp>
#include <vram/transfer/core/slot.hpp>
#include <vram/transfer/core/staged_wait.hpp>
#include <vram/transfer/loader_error.hpp>

#include <cstddef>
#include <exception> // exception_ptr, current_exception, make_exception_ptr
#include <optional>  // optional
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// The functions that a `copy_channel` calls in its owner (a loader or an unloader) if a copy is
/// complete or the device has failed. The owner's lock is held during these calls.
template <class Platform>
struct copy_owner {
    /// Called when the copy of the pinned block `p` is complete: a loader fills the block again,
    /// and an unloader passes it to the sink. Also called if no callback and no flag reports the
    /// end of the copy: then `p.in_flight` is true, and the thread that uses the block next first
    /// waits for the event `p.copied`.
    virtual void copy_ended(pinned_slot<Platform>& p) noexcept = 0;
    /// Called with the lock held if the end of the enqueued copies cannot be awaited: `why` is the
    /// error that the event of a copy returned, because the device failed, or
    /// `loader_error{ended}`, because the process is ending (only for an unloader). The owner
    /// passes `why` to the program.
    virtual void device_failed(std::exception_ptr why) noexcept = 0;

protected:
    ~copy_owner() = default;
};

/// Enqueues the copies between the pinned and the device blocks of a loader (`upload`) or of an
/// unloader (`download`) on one copy stream. This stream first waits for the last uses of the
/// device block. A callback or a completion flag (a word in pinned memory that the device writes)
/// reports the end of a copy, so that no host thread waits for it. If `settings::call_back` is
/// false, neither is used.
///
/// Failure   `upload` and `download` return the exception of a copy that cannot be enqueued. If a
///           callback cannot be enqueued, the copy counts as ended, and the thread that uses the
///           pinned block next waits for its event (`pinned_slot::in_flight`). The error of a
///           device that fails later is found by `check_copies` and passed to the owner.
/// Threads   One thread at a time copies. Functions that say so are called with the lock held. No
///           stream or event is used while the lock is held, because a callback may need the lock.
/// Streams   One stream carries the copies, and another one the callbacks.
/// Cost      A copy costs one event, and one stream wait for each stream that used the device
///           block. Without a completion flag it also costs a second event, and the wait and the
///           call of the callback. Nothing is allocated.
template <class Platform>
class copy_channel {
public:
    using slot   = detail::slot<Platform>;
    using pinned = pinned_slot<Platform>;
    using stream = typename Platform::stream;
    using device = typename Platform::device;

    struct settings {
        bool downloads = false; ///< true if the copies go from the device to the host (unloader)
        int  priority  = 0;     ///< priority of the copy stream, if the channel creates it
        /// If false, neither a callback nor a flag reports the end of a copy: the thread that uses
        /// a pinned block next waits for the event of its copy.
        bool call_back = true;
    };

    /// Creates a channel that copies between the pinned blocks `blocks` and blocks of the device
    /// `where`: on the stream `given`, or else on a new one. `owner` learns the end of each copy.
    /// The lock of `threads` guards `blocks`. These three references must outlive the channel.
    copy_channel(copy_owner<Platform>& owner, staged_wait<Platform>& threads,
                 std::vector<pinned>& blocks, device where, std::optional<stream> given,
                 settings const& how)
        : owner_{owner},
          threads_{threads},
          blocks_{blocks},
          copies_{blocks},
          lane_{where, given, how.priority},
          how_{how} {
        if (given) { return; }
        name_stream<Platform>(lane_.view(), how.downloads ? "unloader copies" : "loader copies");
    }
    copy_channel(copy_channel&&) = delete;

    /// Returns the copy stream.
    [[nodiscard]] stream view() const { return lane_.view(); }

    /// Records that a copy of the block `p` begins. The caller holds the lock, and calls `upload`
    /// or `download` next, without the lock.
    void begin(pinned& p) noexcept {
        p.owner = this;
        copies_.begin(p);
    }
    /// Records that the copy of the pinned block `p` is enqueued; called if `upload` or `download`
    /// returned no exception. Returns false if the end of the copy was recorded before this call,
    /// else true. The caller holds the lock.
    bool enqueued(pinned& p) noexcept {
        copies_.enqueued(p);
        return p.enqueued;
    }

    /// Enqueues the copy of a batch from the pinned block `from` to the device block `to`. Returns
    /// null, or the exception if that failed. If the copy is complete before this function returns,
    /// another thread may already fill `from` with another batch.
    [[nodiscard]] std::exception_ptr upload(pinned& from, slot& to) noexcept {
        to.size   = from.size;
        to.filled = from.filled;
        to.asked  = from.asked;
        return enqueue(from, to, to.memory, from.memory, to.asked);
    }
    /// Enqueues the copy of an unloader's result from the device block `from` to the pinned block
    /// `to`. Returns null, or the exception if the copy could not be enqueued:
    /// `loader_error{ended}` if the process is ending.
    [[nodiscard]] std::exception_ptr download(slot& from, pinned& to) noexcept {
        to.size  = from.size;
        to.index = from.index;
        if (is_ending<Platform>()) { return ended(to.index); }
        return enqueue(to, from, to.memory, from.memory, loader_error::unknown);
    }

    // `staged_wait`, in which threads wait for copies, calls the functions from here to
    // `check_copies`. With the lock held: `in_progress` returns the number of copies that have not
    // ended, and `oldest_flagged` the block of the oldest with a completion flag, or null.
    [[nodiscard]] std::size_t in_progress() const noexcept { return copies_.count(); }
    [[nodiscard]] pinned*     oldest_flagged() noexcept { return copies_.oldest_flagged(); }
    /// Records the end of the copy of the pinned block `p`, and calls the owner's `copy_ended`: a
    /// loader then fills the block again, and an unloader passes it to the sink. The copy is
    /// complete, or `p.in_flight` is true: then the thread that uses the block next waits for the
    /// copy first. The caller holds the lock.
    void complete(pinned& p) noexcept {
        copies_.end(p);
        owner_.copy_ended(p);
    }
    /// Ends the copies that their completion flags show to be complete. The caller holds the lock.
    void complete_flagged() noexcept {
        if constexpr (completion_flags<Platform>) {
            for (;;) {
                pinned* const p = copies_.oldest_flagged();
                if (p == nullptr || !pinned::flag_reached(p->flag, p->copy_number)) { return; }
                complete(*p);
            }
        }
    }
    /// Detects a failed device, which calls no callbacks and writes no flags: queries the event of
    /// each enqueued copy, without the lock. Records the ends of complete copies, and passes an
    /// error to the owner. If the process is ending, an unloader's copies may never end: the
    /// unloader gets `loader_error{ended}`, without a query.
    void check_copies() noexcept {
        if (how_.downloads && is_ending<Platform>()) { return fail(ended(0)); }
        for (pinned& p : blocks_) {
            try {
                auto const copy = copy_of(p);
                if (copy.which == 0 || !Platform::done(*copy.over)) { continue; }
                // The event is complete: this call does not wait, but throws if the copy failed.
                Platform::synchronize(*copy.over);
                end_before_callback(p, copy.which);
            } catch (...) { return fail(std::current_exception()); }
        }
    }

    /// Records that all copies have ended. The caller holds the lock, and knows that every callback
    /// has run or will never run.
    void end_all() noexcept { copies_.end_all(); }
    /// Blocks the calling thread until all enqueued copies are complete. Returns false if the wait
    /// for the copy stream fails and then a wait for the device fails too. Returns true without a
    /// wait if the process is ending.
    [[nodiscard]] bool finish() noexcept { return lane_.finish(); }
    /// Blocks the calling thread until all callbacks have returned and, if `flags` is true, all
    /// completion flags are written. Returns false if no wait guarantees this: the memory that they
    /// access must then stay allocated. Returns true without a wait if the process is ending.
    [[nodiscard]] bool drain(bool flags) noexcept {
        return lane_.drain() && (!flags || lane_.finish());
    }

    /// Blocks the calling thread until all copies are complete and all callbacks have returned.
    /// Throws errors of the platform.
    void await_all() { lane_.await_all(); }

private:
    static std::exception_ptr ended(std::size_t index) noexcept {
        return std::make_exception_ptr(loader_error{loader_error::reason::ended, index});
    }
    std::exception_ptr enqueue(pinned& p, slot& s, std::byte* to, std::byte const* from,
                               std::size_t asked) noexcept {
        profiler_range<Platform> const shown{"vram copy"};
        // Reports about this copy name the line that created the loader or unloader. Any thread may
        // enqueue the copy, so `user_code` hides the line that the calling thread executes: it
        // would differ from run to run.
        user_code<Platform> const outside;
        user_line<Platform> const here{
            made_.at(), how_.downloads
                            ? s.last.work(part_kind::unloader, "unloader copy of result", p.index)
                            : s.last.work(part_kind::loader, "loader copy of batch", p.index)};
        bool started = false;
        try {
            stream const on = view();
            s.await_users(on);
            if (p.timed) { Platform::record(p.begun, on); }
            if (p.size != 0) { Platform::copy(on, to, from, p.size); }
            started   = true;
            p.flagged = false;
            if (p.timed) { Platform::record(p.copied, on); }
            if (how_.call_back) { lane_.set_flag(p); }
            // The event shows the end of the copy if no completion flag does. If copies are timed,
            // it is recorded above already.
            if (!p.timed && !p.flagged) { Platform::record(p.copied, on); }
            Platform::record(s.copied, on);
            p.over        = p.flagged ? &s.copied : &p.copied;
            s.flag        = p.flagged ? p.flag : nullptr;
            s.copy_number = p.copy_number;
            p.unmeasured  = p.timed;
            arrange_end(p, s);
            return nullptr;
        } catch (...) {
            std::exception_ptr problem = copy_problem<Platform>(p.index, asked);
            if (started) { s.end_unknown = p.end_unknown = !lane_.finish(); }
            return problem;
        }
    }
    /// Called after the copy between the pinned block `p` and the device block `s` is enqueued:
    /// arranges that its end is reported. Does nothing if the copy has a completion flag. Otherwise
    /// enqueues a callback. If that fails, or if `settings::call_back` is false, the thread that
    /// uses `p` next waits for the copy (`in_flight`).
    void arrange_end(pinned& p, slot& s) noexcept {
        if (p.flagged) { return; }
        if (how_.call_back) {
            try {
                return lane_.call_after(s.copied, on_copied, &p);
            } catch (...) {
                report_caught({.kind     = error_kind::platform_error,
                               .pointer  = p.memory,
                               .resource = how_.downloads ? "unloader" : "loader",
                               .call     = "the callback after a copy"});
            }
        }
        p.in_flight = true;
        {
            auto const held = threads_.hold();
            complete(p);
        }
        threads_.notify();
    }
    static void on_copied(void* block) {
        pinned& p = *static_cast<pinned*>(block);
        static_cast<copy_channel*>(p.owner)->called_back(p);
    }
    void called_back(pinned& p) {
        bool wake = false;
        {
            auto const held = threads_.hold();
            if (!copies_.end_by_callback(p)) { return; }
            owner_.copy_ended(p);
            wake = threads_.waiting().idle != 0;
        }
        if (wake) { threads_.notify(); }
    }
    void end_before_callback(pinned& p, std::uint64_t which) noexcept {
        {
            auto const held = threads_.hold();
            if (!copies_.end_before_callback(p, which)) { return; }
            owner_.copy_ended(p);
        }
        threads_.notify();
    }
    auto copy_of(pinned const& p) {
        auto const held = threads_.hold();
        return copies_.copy_of(p);
    }
    void fail(std::exception_ptr why) noexcept {
        {
            auto const held = threads_.hold();
            owner_.device_failed(std::move(why));
        }
        threads_.notify();
    }

    copy_owner<Platform>&      owner_;
    staged_wait<Platform>&     threads_;
    std::vector<pinned>&       blocks_;
    copies_in_progress<pinned> copies_;
    copy_lane<Platform>        lane_;
    settings                   how_;
    /// The line of the program that made the loader or unloader, for reports.
    [[no_unique_address]] remembered_line<Platform> made_;
};

} // namespace detail
} // namespace vram
