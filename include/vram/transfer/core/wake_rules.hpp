// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `wake_rules` decides which thread of a loader enqueues the next copy, and which threads to wake.

#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// Numbers of threads that wait for a free block or for a copy. In a loader, these are the
/// producers. If there are no producers, the loop's thread is counted while it waits for an empty
/// pinned block. In an unloader, the sink's thread is counted.
struct waiting_threads {
    std::size_t idle        = 0;     ///< number of threads that wait for a free block or for a copy
    std::size_t awake       = 0;     ///< number of waiting threads that poll or pause between polls
    bool        polling     = false; ///< true while a waiting thread polls completion flags
    bool        backing_off = false; ///< true while a waiting thread sleeps between two polls
};

/// Decides which thread of a loader enqueues the copy from a filled pinned block to a free device
/// block, and which threads are woken. While the loop's thread waits for a batch, this thread
/// usually enqueues the copy. At other times, a producer enqueues the copy. If no producer polls
/// for work when a batch is released, the releasing thread enqueues the copy.
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
    /// Returns true if the loop's thread, which waits for a batch, must enqueue a copy. `pair`:
    /// true if a filled pinned block and a free device block exist. `ready`: true if a batch is
    /// ready for the loop. If `ready` is true, a producer that polls for work enqueues the copy
    /// instead.
    [[nodiscard]] bool consumer_copies(bool pair, bool ready,
                                       waiting_threads const& others) const noexcept {
        return pair && !(ready && others.awake != 0);
    }

    /// Returns true if a waiting producer must enqueue a copy. `pair`: true if a filled pinned
    /// block and a free device block exist. While the loop's thread waits for a batch, returns
    /// false, because that thread then enqueues the copy.
    [[nodiscard]] bool producer_copies(bool pair) const noexcept {
        return pair && !consumer_waits_;
    }

    /// Called after a thread has tried to enqueue a copy. Returns true if waiting threads must be
    /// notified. `flies`: true if the copy is in progress. `flagged`: true if a completion flag
    /// reports the end of the copy. `copies`: number of copies in progress. `failed`: true if the
    /// copy could not be enqueued.
    [[nodiscard]] bool wakes_after_copy(bool flies, bool flagged, std::size_t copies, bool failed,
                                        waiting_threads const& others) const noexcept {
        bool const alone = others.awake == 0 && copies == 1;
        // True if threads wait, but none of them watches for the end of this copy yet.
        bool const unseen = flies && others.idle != 0 && (flagged ? !others.polling : alone);
        bool const wanted = consumer_waits_ && !consumer_works_;
        return wanted || unseen || stopping_ || failed;
    }
    /// Called after the release of a batch. `pair`: true if a filled pinned block and a free device
    /// block exist, so that a copy can begin. Returns true if the copy can begin and a producer
    /// polls for work. The releasing thread then leaves the copy to other threads. If no producer
    /// polls for work, the releasing thread enqueues the copy.
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
