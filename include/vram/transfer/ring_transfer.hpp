// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `ring_transfer` is one transfer through a ring: threads take piece after piece until all are
/// moved.

#include <vram/transfer/piece_plan.hpp> // piece_plan
#include <vram/transfer/ring.hpp>       // ring

#include <algorithm> // min
#include <atomic>    // atomic
#include <cstddef>   // size_t, byte
#include <exception> // exception_ptr, current_exception
#include <span>      // span

namespace vram {

/// Moves the pieces of a plan between the device and the host's end, which `Host` is. Upward it has
/// `fill(chunk, offset, bytes)`, downward `empty(chunk, offset, bytes)`; any thread calls them.
///
/// A thread takes the next piece when one of its chunks is free, so pieces are begun in order. When
/// something fails, no further piece is begun, and those under way are finished.
///
/// Failure   kept: `failed()`, `cause()`, `whole()`
/// Threads   `run` is for all threads of the ring at once
/// Streams   copies are in the ring's stream; when the last thread returns none is under way
/// Cost      for a piece one copy, one event and at most one wait; nothing is allocated
template <class Ring, class Platform, class Host>
class ring_transfer {
    using chunk = typename Ring::chunk;

public:
    ring_transfer(Ring& over, piece_plan const& plan, std::byte* device, Host& host) noexcept
        : ring_{over}, plan_{plan}, device_{device}, host_{host} {}

    /// What thread `thread` does of it.
    void run(unsigned thread) noexcept {
        std::span<chunk> const lane = ring_.lane(thread);
        if constexpr (requires(Host& h, std::byte* p) { h.fill(p, 0U, 0U); }) {
            go_up(lane);
        } else {
            go_down(lane);
        }
        for (chunk& c : lane) { settle_for_sure(c); }
    }

    [[nodiscard]] bool failed() const noexcept { return failed_.load() != nobody; }
    [[nodiscard]] std::exception_ptr const& cause() const noexcept { return cause_; }

    /// Bytes from the beginning that are moved: those before the first piece that is not.
    [[nodiscard]] std::size_t whole() const noexcept {
        std::size_t const first = std::min(undone_.load(), next_.load());
        return first < plan_.pieces() ? plan_[first].offset : plan_.bytes();
    }

private:
    enum culprit : int { nobody, the_host, the_machine };

    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    /// The next piece that nobody has; none at the end and after a failure.
    std::size_t take() noexcept {
        if (failed()) { return none; }
        std::size_t const i = next_.fetch_add(1, std::memory_order_relaxed);
        return i < plan_.pieces() ? i : none;
    }

    /// A free chunk, the next piece into it, and on its way; and again.
    void go_up(std::span<chunk> lane) noexcept {
        for (std::size_t k = 0;; k = (k + 1) % lane.size()) {
            chunk& c = lane[k];
            if (!settle(c)) { return; }
            c.piece = take();
            if (c.piece == none) { return; }
            auto const [offset, bytes] = plan_[c.piece];
            try {
                host_.fill(c.memory, offset, bytes);
            } catch (...) { return fail(c.piece, the_host); }
            if (!send(c, device_ + offset, c.memory, bytes)) { return; }
        }
    }

    /// As many pieces on their way as there are chunks, then the oldest to its place; and again.
    void go_down(std::span<chunk> lane) noexcept {
        std::size_t oldest = 0, under_way = 0;
        for (bool more = true;;) {
            while (more && under_way < lane.size()) {
                chunk& c = lane[(oldest + under_way) % lane.size()];
                c.piece  = take();
                more     = c.piece != none;
                if (!more) { break; }
                auto const [offset, bytes] = plan_[c.piece];
                more                       = send(c, c.memory, device_ + offset, bytes);
                under_way += more ? 1 : 0;
            }
            if (under_way == 0) { return; }
            chunk& c = lane[oldest];
            if (settle(c)) { empty(c); }
            oldest = (oldest + 1) % lane.size();
            --under_way;
        }
    }

    void empty(chunk& c) noexcept {
        if (failed_.load() == the_machine) { return undo(c.piece); } // nobody knows what lies there
        auto const [offset, bytes] = plan_[c.piece];
        try {
            host_.empty(c.memory, offset, bytes);
        } catch (...) { fail(c.piece, the_host); }
    }

    bool send(chunk& c, void* to, void const* from, std::size_t bytes) noexcept {
        try {
            Platform::copy(ring_.copies(), to, from, bytes);
            c.in_flight = true;
            Platform::record(c.copied, ring_.copies());
            c.recorded = true;
            return true;
        } catch (...) {
            fail(c.piece, the_machine);
            return false;
        }
    }

    /// The host waits until the copy of `c` is over. False: it failed, or nobody knows.
    bool settle(chunk& c) noexcept {
        if (!c.in_flight || !c.recorded) { return !c.in_flight; }
        try {
            Platform::synchronize(c.copied);
        } catch (...) {
            fail(c.piece, the_machine);
            return false;
        }
        c.in_flight = c.recorded = false;
        // A machine that failed meanwhile may have failed at this copy too.
        if (failed_.load() == the_machine) { undo(c.piece); }
        return true;
    }

    /// The same at the end, in whatever way: the chunk belongs to the next transfer.
    void settle_for_sure(chunk& c) noexcept {
        if (settle(c)) { return; }
        auto const waited = [&](auto const& place) {
            try {
                Platform::synchronize(place);
                return true;
            } catch (...) { return false; }
        };
        if (!waited(ring_.copies()) && !waited(ring_.where())) { ring_.lose(); }
        c.in_flight = c.recorded = false;
    }

    /// Piece `i` is not moved.
    void undo(std::size_t i) noexcept {
        std::size_t first = undone_.load();
        while (i < first && !undone_.compare_exchange_weak(first, i)) {}
    }

    /// The first failure is the one that is told.
    void fail(std::size_t piece, culprit by) noexcept {
        undo(piece);
        int expected = nobody;
        if (failed_.compare_exchange_strong(expected, by)) {
            cause_ = std::current_exception();
        } else if (by == the_machine) {
            failed_.store(by);
        }
    }

    Ring&                    ring_;
    piece_plan const&        plan_;
    std::byte*               device_;
    Host&                    host_;
    std::atomic<std::size_t> next_{0};
    std::atomic<std::size_t> undone_{none};
    std::atomic<int>         failed_{nobody};
    std::exception_ptr       cause_; ///< written by one, read when all have returned
};

} // namespace vram
