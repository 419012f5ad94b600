// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `wake_rules` decides which thread of a loader enqueues the next copy, and which threads to wake.

#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// Counts of the threads in `wait_for_copies` and `wait_eagerly` of `staged_wait`: producers, or
/// the sink's thread. A loop that waits for a batch is not counted.
struct waiting_threads {
    std::size_t idle        = 0;     ///< number of waiting threads, polling or asleep
    std::size_t awake       = 0;     ///< number of waiting threads that poll instead of sleeping
    bool        polling     = false; ///< true while one thread polls the completion flags of copies
    bool        backing_off = false; ///< true while one thread polls for a free block, with pauses
};

/// The rules by which a loader's threads share the work of copying. A copy is possible once a
/// pinned block is filled and a device block is free. The loop enqueues it if it waits, else a
/// producer that polls, else the thread that filled or freed the block.
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
    /// fills, and with false afterwards.
    void               consumer_works(bool works) noexcept { consumer_works_ = works; }
    [[nodiscard]] bool consumer_waits() const noexcept { return consumer_waits_; }
    /// Returns true if the waiting loop enqueues a copy (`pair`: one is possible). If a batch is
    /// `ready`, a producer that polls does so instead.
    [[nodiscard]] bool consumer_copies(bool pair, bool ready,
                                       waiting_threads const& others) const noexcept {
        return pair && !(ready && others.awake != 0);
    }

    /// Returns true if a waiting producer enqueues a copy (`pair`: one is possible). While the loop
    /// waits for a batch, the loop does so.
    [[nodiscard]] bool producer_copies(bool pair) const noexcept {
        return pair && !consumer_waits_;
    }

    /// Returns true if waiting threads must wake after a copy. `flies`: not ended; `flagged`: has a
    /// completion flag; `copies`: number in progress; `failed`: threw.
    [[nodiscard]] bool wakes_after_copy(bool flies, bool flagged, std::size_t copies, bool failed,
                                        waiting_threads const& others) const noexcept {
        bool const alone = others.awake == 0 && copies == 1;
        // No waiting thread would notice the end of the copy: with a flag, none polls flags;
        // without, all sleep without a time limit (`alone`).
        bool const unseen = flies && others.idle != 0 && (flagged ? !others.polling : alone);
        bool const wanted = consumer_waits_ && !consumer_works_;
        return wanted || unseen || stopping_ || failed;
    }
    /// Called by a thread that released a batch. Returns true if a producer that polls enqueues the
    /// copy, so that the caller need not (`pair`: one is possible).
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
