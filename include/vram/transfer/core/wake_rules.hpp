// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `wake_rules` decides which thread of a loader enqueues the next copy, and which threads to wake.

#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// Numbers of threads that wait for a free block or for a copy: the producers of a loader (without
/// them, the loop's thread while it waits for an empty block), or an unloader's sink thread.
struct waiting_threads {
    std::size_t idle        = 0; ///< number of waiting threads, polling or asleep
    std::size_t awake       = 0; ///< number of waiting threads that poll, with or without pauses
    bool        polling     = false; ///< true while one thread polls the completion flags of copies
    bool        backing_off = false; ///< true while one thread polls for a free block, with pauses
};

/// Decides which thread of a loader enqueues a copy, and which threads are woken. A copy is
/// possible once a pinned block is filled and a device block is free. The loop's thread enqueues it
/// while it waits for a batch; otherwise a producer does, for example the one that filled the
/// block. If a release makes a copy possible, a producer that polls enqueues it, or else the thread
/// that released the batch.
///
/// Threads   One thread at a time; the caller holds the loader's lock.
class wake_rules {
public:
    void               start() noexcept { stopping_ = false; }
    void               stop() noexcept { stopping_ = true; }
    [[nodiscard]] bool stopping() const noexcept { return stopping_; }

    /// Called with true before the consumer (the thread of the loop) waits for a batch, and with
    /// false afterwards.
    void consumer_waits(bool waits) noexcept { consumer_waits_ = waits; }
    /// Called with true before the waiting consumer (the thread of the loop) itself copies or
    /// fills, and with false afterwards. Meanwhile the thread need not be woken.
    void               consumer_works(bool works) noexcept { consumer_works_ = works; }
    [[nodiscard]] bool consumer_waits() const noexcept { return consumer_waits_; }
    /// Returns true if the loop's thread, which waits for a batch, must enqueue the copy that is
    /// possible (`pair`). Returns false if a batch is `ready` and a producer polls: the producer
    /// then copies.
    [[nodiscard]] bool consumer_copies(bool pair, bool ready,
                                       waiting_threads const& others) const noexcept {
        return pair && !(ready && others.awake != 0);
    }

    /// Returns true if a waiting producer must enqueue the copy that is possible (`pair`); false
    /// while the loop waits for a batch, because the loop then enqueues it.
    [[nodiscard]] bool producer_copies(bool pair) const noexcept {
        return pair && !consumer_waits_;
    }

    /// Returns true if waiting threads must be notified after a copy was enqueued (`flies`: it is
    /// still in progress, one of `copies`) or `failed`: the loop waits, or no thread watches for
    /// the copy's end. `flagged`: a completion flag reports the end.
    [[nodiscard]] bool wakes_after_copy(bool flies, bool flagged, std::size_t copies, bool failed,
                                        waiting_threads const& others) const noexcept {
        bool const alone = others.awake == 0 && copies == 1;
        // True if a thread must wake to watch for this copy's end. With a flag: no thread polls
        // flags. Without: all sleep without a time limit, because no other copy is in progress.
        bool const unseen = flies && others.idle != 0 && (flagged ? !others.polling : alone);
        bool const wanted = consumer_waits_ && !consumer_works_;
        return wanted || unseen || stopping_ || failed;
    }
    /// Called after a batch is released. Returns true if a copy is possible (`pair`) and a producer
    /// that polls will enqueue it. If false, the releasing thread enqueues a possible copy.
    [[nodiscard]] static bool left_to_producer(bool pair, waiting_threads const& others) noexcept {
        return pair && others.awake != 0;
    }

private:
    bool consumer_waits_ = false; ///< true while the consumer waits for a batch
    /// True while the waiting consumer (the thread of the loop) itself copies or fills. It is
    /// awake, and so need not be woken.
    bool consumer_works_ = false;
    bool stopping_       = false;
};

} // namespace detail
} // namespace vram
