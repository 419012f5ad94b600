// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_ring` is where a producer's slots become a consumer's batches, and slots again.

#include <vram/base/error.hpp>                 // report_error
#include <vram/base/gate.hpp>                  // the gate of platforms where time is real
#include <vram/base/worker.hpp>                // their thread
#include <vram/transfer/loader_error.hpp>      // loader_error
#include <vram/transfer/loader_statistics.hpp> // loader_statistics
#include <vram/transfer/platform_clock.hpp>    // platform_clock
#include <vram/transfer/slot.hpp>              // slot
#include <vram/transfer/slot_queue.hpp>        // slot_queue

#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <exception> // rethrow_exception
#include <utility>   // exchange
#include <vector>    // vector

namespace vram {

/// The state that a loader, its producer and the batches in use share. Slots go round: free,
/// filled, ready, held by a batch, free.
///
/// Failure   an exception of the producer travels in its slot and is thrown at its place in the
///           order
/// Threads   one producer, any number of threads that hold batches, one that asks for the next
/// Cost      a step takes the gate twice; nothing is allocated
template <class Platform>
class slot_ring {
public:
    using slot   = vram::slot<Platform>;
    using stream = typename Platform::stream;
    using clock  = platform_clock<Platform>;

    slot_ring(slot_ring const&)            = delete;
    slot_ring& operator=(slot_ring const&) = delete;

    /// The next batch in order, which `s` waits for; null at the end. The host waits for the
    /// producer only.
    slot* take(stream s) {
        if (Platform::capturing(s)) { throw loader_error{loader_error::reason::capturing, next_}; }
        if (ended_) { return nullptr; }
        slot* const got = await_ready();
        if (got->error != nullptr || got->size == 0) {
            ended_             = true;
            auto const problem = std::exchange(got->error, nullptr);
            give(*got);
            if (problem != nullptr) { std::rethrow_exception(problem); }
            return nullptr;
        }
        try {
            Platform::wait(s, got->copied);
        } catch (...) { // the copy's own failure, seen late: it ends the range here
            ended_ = true;
            give(*got);
            throw;
        }
        ++next_;
        return got;
    }

    /// The batch in `s` is done with once `on` and the others that used it are past this place.
    void release(slot& s, stream on) noexcept {
        try {
            Platform::record(s.released, on);
            for (std::size_t i = 0; i < s.others.size(); ++i) {
                Platform::record(s.others_released[i], s.others[i]);
            }
            s.in_use = true;
        } catch (...) { // no event to wait for: wait now
            report_error({.kind = mishap::platform_error, .pointer = s.memory, .bytes = s.size});
            settle(s, on);
        }
        give(s);
    }

    [[nodiscard]] loader_statistics statistics() {
        auto const held = gate_.hold();
        for (slot& s : slots_) {
            if (s.in_flight && Platform::done(s.copied)) { note_copy(s); }
        }
        return figures_;
    }

protected:
    slot_ring()  = default;
    ~slot_ring() = default;

    /// Fills a slot at once, in the consumer's thread; overridden by whoever has the source.
    virtual void produce_inline() = 0;

    /// A slot to be filled; null when the loader stops.
    slot* await_free() {
        auto       held  = gate_.hold();
        auto const since = clock::now();
        gate_.wait(held, [&] { return stopping_ || !free_.empty(); });
        if (stopping_) { return nullptr; }
        figures_.slot_ns += clock::now() - since;
        filling_ = true;
        return free_.pop();
    }
    /// The same, where nobody would make one free: null when there is none.
    slot* free_now() {
        auto const held = gate_.hold();
        filling_        = !free_.empty();
        return free_.pop();
    }
    /// A filled slot, or one with an error, or the end.
    void post(slot& s) noexcept {
        {
            auto const held = gate_.hold();
            ready_.push(s);
            filling_ = false;
        }
        gate_.notify();
    }
    void give(slot& s) noexcept {
        s.size = 0;
        {
            auto const held = gate_.hold();
            free_.push(s);
        }
        gate_.notify();
    }
    void stop() noexcept {
        {
            auto const held = gate_.hold();
            stopping_       = true;
        }
        gate_.notify();
        ended_ = true;
    }

    /// Adds to the figures, with the gate held.
    template <class Note>
    void note(Note note) {
        auto const held = gate_.hold();
        note(figures_);
    }
    void note_copy(slot& s) {
        s.in_flight = false;
        if constexpr (has_timing<Platform>) {
            if (s.timed) {
                figures_.copy_ns +=
                    static_cast<std::uint64_t>(Platform::elapsed(s.begun, s.copied));
            }
        }
    }

    typename Platform::gate gate_;
    std::vector<slot>       slots_;
    loader_statistics       figures_;
    bool                    inline_ = false;
    std::uint64_t           begun_  = 0; ///< when the first fill began

private:
    slot* await_ready() {
        auto const since = clock::now();
        if (inline_) { produce_inline(); }
        auto held = gate_.hold();
        gate_.wait(held, [&] { return !ready_.empty() || all_held(); });
        if (ready_.empty()) {
            throw loader_error{loader_error::reason::all_held, next_, slots_.size(), slots_.size()};
        }
        slot* const got = ready_.pop();
        auto const  now = clock::now();
        figures_.stall_ns += now - since;
        figures_.wall_ns = now - begun_;
        if (got->size != 0 && got->error == nullptr) {
            ++figures_.batches;
            figures_.bytes += got->size;
        }
        return got;
    }
    /// Nothing is ready, nothing is being filled and nothing could be: the asker holds it all.
    [[nodiscard]] bool all_held() const noexcept {
        return ready_.empty() && free_.empty() && !filling_;
    }

    void settle(slot& s, stream on) noexcept {
        try {
            Platform::synchronize(on);
            for (stream other : s.others) { Platform::synchronize(other); }
        } catch (...) { report_error({.kind = mishap::platform_error, .pointer = s.memory}); }
        s.in_use = false;
        s.others.clear();
    }

    slot_queue<slot> free_;
    slot_queue<slot> ready_;
    std::size_t      next_     = 0; ///< index of the batch that is asked for next
    bool             filling_  = false;
    bool             stopping_ = false;
    bool             ended_    = false; ///< the consumer's own
};

} // namespace vram
