// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `wake_rules` decides which thread of a loader enqueues the next copy, and which threads to wake.

#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// Counts of the threads that wait in `staged_wait` for a free block or a copy: a loader's
/// producers, or an unloader's sink thread. Without producers, the loop's thread counts while it
/// waits for an empty block; a loop that waits for a batch does not count.
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
    /// Returns true if the loop's thread, which waits for a batch, must enqueue a possible copy
    /// (`pair`: a pinned block is filled and a device block free). Returns false if a batch is
    /// `ready` and a producer polls, which can copy instead.
    [[nodiscard]] bool consumer_copies(bool pair, bool ready,
                                       waiting_threads const& others) const noexcept {
        return pair && !(ready && others.awake != 0);
    }

    /// Returns true if a producer that waits for a block must enqueue the copy that is possible
    /// (`pair`). Returns false while the loop waits for a batch, because the loop then copies.
    [[nodiscard]] bool producer_copies(bool pair) const noexcept {
        return pair && !consumer_waits_;
    }

    /// Returns true if waiting threads must be notified after a copy was enqueued or `failed`, for
    /// example because the loop waits or no thread watches for the copy's end. `flies`: the copy
    /// has not ended; `flagged`: it has a completion flag; `copies`: number of copies in progress.
    [[nodiscard]] bool wakes_after_copy(bool flies, bool flagged, std::size_t copies, bool failed,
                                        waiting_threads const& others) const noexcept {
        bool const alone = others.awake == 0 && copies == 1;
        // True if a waiting thread must wake to watch for the end of this copy: none polls its flag
        // or, without a flag, all sleep without a time limit, as no other copy is in progress.
        bool const unseen = flies && others.idle != 0 && (flagged ? !others.polling : alone);
        bool const wanted = consumer_waits_ && !consumer_works_;
        return wanted || unseen || stopping_ || failed;
    }
    /// Returns true if, after a batch is released, a copy is possible (`pair`) and a producer
    /// polls, which then enqueues it. If false, the thread that released the batch enqueues the
    /// copy, if possible.
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
