// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `wake_rules` decides which thread of a loader enqueues the next copy, and which threads to wake.

#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// Counts of the threads of a loader or unloader that wait in `staged_wait` until a copy is
/// complete or a block is free. The thread of a loop that waits for its next batch is not counted.
struct waiting_threads {
    std::size_t idle        = 0;     ///< number of waiting threads, polling or asleep
    std::size_t awake       = 0;     ///< number of waiting threads that poll instead of sleeping
    bool        polling     = false; ///< true while one thread polls the completion flags of copies
    bool        backing_off = false; ///< true while one thread polls for a free block, with pauses
};

/// The rules by which a loader's threads share the work of copying. A copy can begin if a pair of a
/// filled pinned block and a free device block exists (`pair`). The thread that enqueues it is
///
///  - the consumer (the thread of the loop), if it waits for a batch, because the producer has the
///    next batch to fill. If a batch is ready for it already, a producer that is awake (polls
///    instead of sleeping) copies instead;
///  - else a waiting producer, if one is awake when a batch is released;
///  - else the thread that completed the pair by filling or releasing a block.
///
/// Threads are woken only if one of them can proceed, because a wake-up takes longer than a small
/// copy.
///
/// Threads   One thread at a time; the caller holds the loader's lock.
/// Cost      A few comparisons.
class wake_rules {
public:
    void               start() noexcept { stopping_ = false; }
    void               stop() noexcept { stopping_ = true; }
    [[nodiscard]] bool stopping() const noexcept { return stopping_; }

    // The next functions are for the consumer (the thread of the loop).
    void consumer_waits(bool waits) noexcept { consumer_waits_ = waits; }
    /// Called with true before the consumer (the thread of the loop), while it waits for a batch,
    /// itself enqueues a copy or fills a block; called with false afterwards.
    void               consumer_works(bool works) noexcept { consumer_works_ = works; }
    [[nodiscard]] bool consumer_waits() const noexcept { return consumer_waits_; }
    /// Returns true if the waiting consumer (the thread of the loop) enqueues the next copy: if
    /// `pair` is true (a pinned block is filled, and a device block is free), except if a batch is
    /// `ready` for the consumer and a waiting producer (a thread that fills batches) polls
    /// (`others.awake`). That producer then enqueues the copy.
    [[nodiscard]] bool consumer_copies(bool pair, bool ready,
                                       waiting_threads const& others) const noexcept {
        return pair && !(ready && others.awake != 0);
    }

    /// Returns true if a waiting producer (a thread that fills batches) enqueues the next copy: if
    /// `pair` is true (a pinned block is filled, and a device block is free) and the consumer (the
    /// thread of the loop) does not wait for a batch. A waiting consumer enqueues the copy itself.
    [[nodiscard]] bool producer_copies(bool pair) const noexcept {
        return pair && !consumer_waits_;
    }

    /// Called after a thread has tried to enqueue a copy. Returns true if it must wake all waiting
    /// threads: because the copy was not enqueued (`failed`), the loader stops, the consumer (the
    /// thread of the loop) waits for a batch, or the copy has not ended (`flies`) and no waiting
    /// thread would notice its end. With a completion flag (`flagged`), only a thread that polls
    /// the flags notices it. Without one, a thread notices it if it is awake or if other copies
    /// were in progress before (`copies`: their number with this one).
    [[nodiscard]] bool wakes_after_copy(bool flies, bool flagged, std::size_t copies, bool failed,
                                        waiting_threads const& others) const noexcept {
        bool const alone = others.awake == 0 && copies == 1;
        // True if the copy is not complete (`flies`), and no waiting thread would notice its end:
        // with a completion flag, because no thread polls the flags; without one, because all
        // waiting threads sleep without a time limit (`alone`).
        bool const unseen = flies && others.idle != 0 && (flagged ? !others.polling : alone);
        bool const wanted = consumer_waits_ && !consumer_works_;
        return wanted || unseen || stopping_ || failed;
    }
    /// Called by a thread that has released a batch. Returns true if a copy is possible (`pair`: a
    /// pinned block is filled, and a device block is free) and a waiting producer (a thread that
    /// fills batches) polls: that producer enqueues the copy. Otherwise returns false: the calling
    /// thread enqueues a possible copy itself, because waking a sleeping producer would take
    /// longer.
    [[nodiscard]] static bool left_to_producer(bool pair, waiting_threads const& others) noexcept {
        return pair && others.awake != 0;
    }

private:
    bool consumer_waits_ = false; ///< true while the consumer waits for a batch
    /// True while the consumer (the thread of the loop), which waits for a batch, itself enqueues a
    /// copy or fills a block. It is awake then, so `wakes_after_copy` does not wake it.
    bool consumer_works_ = false;
    bool stopping_       = false;
};

} // namespace detail
} // namespace vram
