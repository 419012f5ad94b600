// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `wake_rules` decides which thread of a loader enqueues the next copy, and which threads to wake.

#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// Counts of the threads in `wait_for_copies` and `wait_eagerly` of `staged_wait`: producers (with
/// `depth` 0, the loop's thread that waits for an empty block), or the sink's thread. A loop that
/// waits for a batch is not counted.
struct waiting_threads {
    std::size_t idle        = 0; ///< number of waiting threads, polling or asleep
    std::size_t awake       = 0; ///< number of waiting threads that poll, with or without pauses
    bool        polling     = false; ///< true while one thread polls the completion flags of copies
    bool        backing_off = false; ///< true while one thread polls for a free block, with pauses
};

/// The rules by which a loader's threads share the work of copying. A copy is possible once a
/// pinned block is filled and a device block is free. The loop enqueues it if it waits, else the
/// thread that filled the block. A freed block is left to a producer that polls, if any, else to
/// the thread that freed it.
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
    /// Returns true if the loop's thread, which waits for a batch, must enqueue the copy that is
    /// possible (`pair`). If a batch is `ready` and a producer polls, returns false: that producer
    /// copies.
    [[nodiscard]] bool consumer_copies(bool pair, bool ready,
                                       waiting_threads const& others) const noexcept {
        return pair && !(ready && others.awake != 0);
    }

    /// Returns true if a producer that waits for a block must enqueue the copy that is possible
    /// (`pair`). Returns false while the loop waits for a batch, because the loop then copies.
    [[nodiscard]] bool producer_copies(bool pair) const noexcept {
        return pair && !consumer_waits_;
    }

    /// Returns true if waiting threads must wake after the call that enqueues a copy. `flies`: the
    /// copy has not ended; `flagged`: it has a completion flag; `copies`: number of copies in
    /// progress; `failed`: the call failed.
    [[nodiscard]] bool wakes_after_copy(bool flies, bool flagged, std::size_t copies, bool failed,
                                        waiting_threads const& others) const noexcept {
        bool const alone = others.awake == 0 && copies == 1;
        // True if a waiting thread must wake to watch for the end of this copy: no thread polls its
        // flag or, without a flag, all sleep without a time limit (`alone`: it is the only copy).
        bool const unseen = flies && others.idle != 0 && (flagged ? !others.polling : alone);
        bool const wanted = consumer_waits_ && !consumer_works_;
        return wanted || unseen || stopping_ || failed;
    }
    /// Called after a batch is released. Returns true if a copy is possible (`pair`) and a producer
    /// polls, which then enqueues it. Otherwise the caller enqueues the copy, if possible.
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
