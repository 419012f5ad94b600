// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `copies_in_progress` records which pinned blocks have a copy that is not known to be complete.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>
#include <vector> // vector

namespace vram {
namespace detail {

/// The pinned blocks of a loader or unloader with a copy in progress. The end of a copy is found by
/// a completion flag (a word that the device writes), a callback, or the query of an event.
///
/// Threads   One thread at a time; the caller holds the lock of the blocks.
template <class Pinned>
class copies_in_progress {
public:
    using event = typename Pinned::event;

    /// Creates a record without copies. `blocks` must outlive this object, and must not move or
    /// grow after the first copy has begun.
    explicit copies_in_progress(std::vector<Pinned>& blocks) : blocks_{blocks} {}

    /// Records that a copy of the pinned block `p` begins. Called before the copy is enqueued.
    void begin(Pinned& p) noexcept {
        p.now      = Pinned::state::copying;
        p.enqueued = false;
        ++p.copy_number;
        p.sequence = ++sequence_;
        ++count_;
    }
    /// Records that the copy of the block `p` is enqueued. Does nothing if the copy has already
    /// ended: the callback of a fast copy may run before this call.
    void enqueued(Pinned& p) noexcept { p.enqueued = p.now == Pinned::state::copying; }
    /// Marks the pinned block `p` as empty: its copy is complete, was not enqueued, or may still
    /// run (`p.in_flight`: the next user of the block waits).
    void end(Pinned& p) noexcept {
        --count_;
        p.now      = Pinned::state::empty;
        p.enqueued = false;
    }
    /// Records the end of copy number `which` of the block `p`, so that its callback does nothing.
    /// Returns false if the end is recorded already.
    [[nodiscard]] bool end_before_callback(Pinned& p, std::uint64_t which) noexcept {
        if (p.now != Pinned::state::copying || p.copy_number != which) { return false; }
        if (!p.flagged) { ++p.completed_early; }
        end(p);
        return true;
    }
    /// Called by the callback of a copy of the block `p`: records that the copy has ended. Returns
    /// false if `end_before_callback` has recorded this before.
    [[nodiscard]] bool end_by_callback(Pinned& p) noexcept {
        if (p.completed_early != 0) {
            --p.completed_early;
            return false;
        }
        end(p);
        return true;
    }
    /// Records that all copies have ended. The caller knows that no callback will run any more.
    void end_all() noexcept {
        for (Pinned& p : blocks_) {
            p.completed_early = 0;
            if (p.now == Pinned::state::copying) { end(p); }
        }
    }

    /// Returns the number of copies that have begun (`begin`) and not ended (`end`). A copy that
    /// could not be enqueued counts until `end_all` ends it.
    [[nodiscard]] std::size_t count() const noexcept { return count_; }

    /// Returns the block of the oldest enqueued copy with a completion flag, or null.
    [[nodiscard]] Pinned* oldest_flagged() noexcept {
        Pinned* first = nullptr;
        for (Pinned& p : blocks_) {
            bool const flies = p.enqueued && p.flagged;
            if (flies && (first == nullptr || p.sequence < first->sequence)) { first = &p; }
        }
        return first;
    }

    /// A copy that is enqueued and has not ended. `which`: number of the copy (`copy_number` of its
    /// pinned block), or 0 if there is no such copy. `over`: event that is recorded after the copy.
    struct enqueued_copy {
        std::uint64_t which = 0;
        event const*  over  = nullptr;
    };
    [[nodiscard]] static enqueued_copy copy_of(Pinned const& p) noexcept {
        return p.enqueued ? enqueued_copy{p.copy_number, p.over} : enqueued_copy{};
    }

private:
    std::vector<Pinned>& blocks_;
    std::size_t          count_ = 0;
    /// Number of copies begun so far, of all blocks. Each new copy gets the increased value as its
    /// `pinned_slot::sequence`.
    std::uint64_t sequence_ = 0;
};

} // namespace detail
} // namespace vram
