// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `wake_rules` decides which thread of a loader enqueues the next copy, and which threads to wake.

#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// Counts of a loader's or unloader's threads that wait in `staged_wait`. The thread of a loop that
/// waits is not counted.
struct waiting_threads {
    std::size_t idle        = 0;     ///< number of waiting threads, polling or asleep
    std::size_t awake       = 0;     ///< number of waiting threads that poll instead of sleeping
    bool        polling     = false; ///< true while one thread polls the completion flags of copies
    bool        backing_off = false; ///< true while one thread polls for a free block, with pauses
};

/// The rules by which a loader's threads share the work of copying. A possible copy is enqueued by
/// the waiting loop, or by a waiting producer that polls, or else by the thread that made the copy
/// possible.
///
/// Threads   One thread at a time; the caller holds the loader's lock.
class wake_rules {
public:
    void               start() noexcept { stopping_ = false; }
    void               stop() noexcept { stopping_ = true; }
    [[nodiscard]] bool stopping() const noexcept { return stopping_; }

    // The next functions are for the consumer (the thread of the loop).
    void consumer_waits(bool waits) noexcept { consumer_waits_ = waits; }
    /// Called with true before the waiting consumer (the thread of the loop) itself copies or
    /// fills, and with false afterwards.
    void               consumer_works(bool works) noexcept { consumer_works_ = works; }
    [[nodiscard]] bool consumer_waits() const noexcept { return consumer_waits_; }
    /// Returns true if the waiting loop enqueues a possible copy (`pair`). If a batch is `ready`, a
    /// polling producer does so instead.
    [[nodiscard]] bool consumer_copies(bool pair, bool ready,
                                       waiting_threads const& others) const noexcept {
        return pair && !(ready && others.awake != 0);
    }

    /// Returns true if a waiting producer enqueues a possible copy (`pair`): the loop does not wait
    /// for a batch.
    [[nodiscard]] bool producer_copies(bool pair) const noexcept {
        return pair && !consumer_waits_;
    }

    /// Called after a thread tried to enqueue a copy. Returns true if all waiting threads must be
    /// woken. `flies`: the copy has not ended.
    [[nodiscard]] bool wakes_after_copy(bool flies, bool flagged, std::size_t copies, bool failed,
                                        waiting_threads const& others) const noexcept {
        bool const alone = others.awake == 0 && copies == 1;
        // No waiting thread would notice the end of the copy: none polls its flag, or all sleep
        // without a time limit.
        bool const unseen = flies && others.idle != 0 && (flagged ? !others.polling : alone);
        bool const wanted = consumer_waits_ && !consumer_works_;
        return wanted || unseen || stopping_ || failed;
    }
    /// Called by a thread that has released a batch. Returns true if a polling producer enqueues
    /// the possible copy (`pair`).
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
