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

/// The functions of the owner (a loader or an unloader) that its `copy_channel` calls, with the
/// owner's lock held.
template <class Platform>
struct copy_owner {
    /// Called when the block `p` may go to its next user. If `p.in_flight` is true, the copy may
    /// still run, and this user must wait for `p.copied`.
    virtual void copy_ended(pinned_slot<Platform>& p) noexcept = 0;
    /// Called if the ends of the enqueued copies cannot be observed, because of `why`: a device
    /// error, or the end of the process. The owner passes `why` to the program.
    virtual void device_failed(std::exception_ptr why) noexcept = 0;

protected:
    ~copy_owner() = default;
};

/// Enqueues the copies between pinned and device blocks of a loader (`upload`) or an unloader
/// (`download`). With `settings::call_back`, a callback or a completion flag (a word in pinned
/// memory that the device writes) reports the end of a copy. Without it, or if no callback is
/// possible, the next user of the pinned block waits for the event of the copy.
///
/// Threads   One thread at a time calls `upload` or `download`, without the owner's lock, because
///           callbacks may need this lock.
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
        /// If false, no callback or completion flag reports the end of a copy. The thread that next
        /// uses the pinned block then waits for the event of the copy.
        bool call_back = true;
    };

    /// Creates a channel for copies between the pinned blocks `blocks` and device blocks of
    /// `where`. The copies run on the stream `given`, or on a new stream. The channel tells `owner`
    /// when a copy ends, and wakes waiting `threads`. The references must outlive the channel.
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
    /// Records that the copy of the pinned block `p` is enqueued. Returns false if the copy has
    /// already ended, because its callback may run before this call. The caller holds the lock.
    bool enqueued(pinned& p) noexcept {
        copies_.enqueued(p);
        return p.enqueued;
    }

    /// Enqueues the copy of a batch from the pinned block `from` to the device block `to`. Returns
    /// null or an exception. On return, another thread may already be refilling `from`.
    [[nodiscard]] std::exception_ptr upload(pinned& from, slot& to) noexcept {
        to.size   = from.size;
        to.filled = from.filled;
        to.asked  = from.asked;
        return enqueue(from, to, to.memory, from.memory, to.asked);
    }
    /// Enqueues the copy of a result from the device block `from` to the pinned block `to`. Returns
    /// null on success, otherwise the exception. If the process is ending, enqueues nothing and
    /// returns `loader_error{ended}`.
    [[nodiscard]] std::exception_ptr download(slot& from, pinned& to) noexcept {
        to.size  = from.size;
        to.index = from.index;
        if (is_ending<Platform>()) { return ended(to.index); }
        return enqueue(to, from, to.memory, from.memory, loader_error::unknown);
    }

    // Called by `staged_wait` with the lock held. `in_progress`: number of copies in progress.
    // `oldest_flagged`: block of the oldest copy with a completion flag, or null.
    [[nodiscard]] std::size_t in_progress() const noexcept { return copies_.count(); }
    [[nodiscard]] pinned*     oldest_flagged() noexcept { return copies_.oldest_flagged(); }
    /// Tells the owner that the pinned block `p` may go to its next user. If the copy may still
    /// run, `p.in_flight` is true, and the next user waits for the copy. The caller holds the lock.
    void complete(pinned& p) noexcept {
        copies_.end(p);
        owner_.copy_ended(p);
    }
    /// Records the end of each copy that is complete according to its completion flag (a word that
    /// the device writes after the copy). The caller holds the lock.
    void complete_flagged() noexcept {
        if constexpr (completion_flags<Platform>) {
            for (;;) {
                pinned* const p = copies_.oldest_flagged();
                if (p == nullptr || !pinned::flag_reached(p->flag, p->copy_number)) { return; }
                complete(*p);
            }
        }
    }
    /// Queries the event of each enqueued copy, because a failed device runs no callback. Records
    /// the end of each complete copy, and passes an error to the owner. Called without the lock.
    void check_copies() noexcept {
        if (how_.downloads && is_ending<Platform>()) { return fail(ended(0)); }
        for (pinned& p : blocks_) {
            try {
                auto const copy = copy_of(p);
                if (copy.which == 0 || !Platform::done(*copy.over)) { continue; }
                // The event is complete, so this call does not wait. It throws if the copy failed.
                Platform::synchronize(*copy.over);
                end_before_callback(p, copy.which);
            } catch (...) { return fail(std::current_exception()); }
        }
    }

    /// Records that all copies of this channel have ended. The caller holds the lock, and knows
    /// that no callback can run any more.
    void end_all() noexcept { copies_.end_all(); }
    /// Blocks the calling thread until all enqueued copies are complete. Returns false if the waits
    /// for the stream and the device fail.
    [[nodiscard]] bool finish() noexcept { return lane_.finish(); }
    /// Blocks the calling thread until all callbacks have returned and, with `flags`, all
    /// completion flags are written. Returns false if the wait fails.
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
        // Reports name the line of the program that created the loader or unloader. `outside` hides
        // the line of the present call, because it is unrelated: any thread may enqueue the copy.
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
            // Records an event after the copy, unless a completion flag (a word that the device
            // writes) shows the end of the copy. For timed copies, the event is already recorded.
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
    /// Makes a callback report the end of the copy of `p`, unless a completion flag reports it. If
    /// no callback is possible, sets `p.in_flight`: the next user of `p` then waits for the copy.
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
