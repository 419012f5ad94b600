// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `ring_transfer` is one transfer of a `staging`, by several threads through pinned chunks.

#include <vram/staging/core/piece_plan.hpp>
#include <vram/staging/core/ring.hpp>
#include <vram/staging/core/transfer_progress.hpp>

#include <cstddef>
#include <exception> // exception_ptr
#include <span>      // span

namespace vram {
namespace detail {

/// One transfer of a `staging` between host and device, in pieces that pass through pinned chunks.
/// For an upload, `host.fill` writes each piece into a chunk. For a download, `host.empty` stores
/// the piece that a chunk contains.
///
/// Failure   The first exception is stored in `cause()`, and no further piece begins.
/// Threads   All threads of the ring call `run` concurrently. For a small transfer, one thread
///           calls it.
/// Streams   Copies run on the ring's stream. They are complete when `run` has returned on all
///           threads.
template <class Ring, class Platform, class Host>
class ring_transfer {
    using chunk = typename Ring::chunk;

public:
    ring_transfer(Ring& over, piece_plan const& plan, std::byte* device, Host& host) noexcept
        : ring_{over}, plan_{plan}, device_{device}, host_{host}, progress_{plan.pieces()} {}

    /// Moves pieces of the transfer on the calling thread, which has the index `thread`. Ends if no
    /// piece is left or a piece of any thread failed. Then waits for this thread's copies.
    void run(unsigned thread) noexcept {
        std::span<chunk> const lane = ring_.lane(thread);
        if constexpr (requires(Host& h, std::byte* p) { h.fill(p, 0U, 0U); }) {
            upload(lane);
        } else {
            download(lane);
        }
        for (chunk& c : lane) { await_copy_for_sure(c); }
    }

    [[nodiscard]] bool                      failed() const noexcept { return progress_.failed(); }
    [[nodiscard]] std::exception_ptr const& cause() const noexcept { return progress_.cause(); }

    /// Returns the number of bytes from the beginning of the transfer up to the first piece that
    /// was not moved. Call when all threads have returned from `run`.
    [[nodiscard]] std::size_t whole() const noexcept {
        std::size_t const first = progress_.whole();
        return first < plan_.pieces() ? plan_[first].offset : plan_.bytes();
    }

private:
    static constexpr std::size_t none = transfer_progress::none;

    /// Uploads pieces until none is left or a piece of any thread has failed. `lane` contains the
    /// pinned chunks of the calling thread.
    void upload(std::span<chunk> lane) noexcept {
        for (std::size_t k = 0;; k = (k + 1) % lane.size()) {
            chunk& c = lane[k];
            if (!await_copy(c)) { return; }
            c.piece = progress_.take();
            if (c.piece == none) { return; }
            auto const [offset, bytes] = plan_[c.piece];
            try {
                host_.fill(c.memory, offset, bytes);
            } catch (...) { return progress_.fail(c.piece); }
            if (!send(c, device_ + offset, c.memory, bytes)) { return; }
        }
    }

    /// Downloads pieces through `lane`, the pinned chunks of the calling thread. While the host
    /// empties one chunk, the device can copy into the other chunks.
    void download(std::span<chunk> lane) noexcept {
        std::size_t oldest = 0, under_way = 0;
        for (bool more = true;;) {
            while (more && under_way < lane.size()) {
                chunk& c = lane[(oldest + under_way) % lane.size()];
                c.piece  = progress_.take();
                more     = c.piece != none;
                if (!more) { break; }
                auto const [offset, bytes] = plan_[c.piece];
                more                       = send(c, c.memory, device_ + offset, bytes);
                under_way += more ? 1 : 0;
            }
            if (under_way == 0) { return; }
            chunk& c = lane[oldest];
            if (await_copy(c)) { empty(c); }
            oldest = (oldest + 1) % lane.size();
            --under_way;
        }
    }

    void empty(chunk& c) noexcept {
        auto const [offset, bytes] = plan_[c.piece];
        try {
            host_.empty(c.memory, offset, bytes);
        } catch (...) { progress_.fail(c.piece); }
    }

    bool send(chunk& c, void* to, void const* from, std::size_t bytes) noexcept {
        try {
            auto const held = ring_.queueing().hold();
            Platform::copy(ring_.copies(), to, from, bytes);
            c.in_flight = true;
            Platform::record(c.copied, ring_.copies());
            c.recorded = true;
            return true;
        } catch (...) {
            progress_.fail(c.piece);
            return false;
        }
    }

    /// Waits for the copy of the chunk `c`, if one is in progress. Returns false if the wait
    /// failed, or if no event was recorded after this copy.
    bool await_copy(chunk& c) noexcept {
        if (!c.in_flight || !c.recorded) { return !c.in_flight; }
        try {
            Platform::synchronize(c.copied);
        } catch (...) {
            // The error may belong to any earlier copy, even to one for which another thread has
            // waited without an error. So no piece counts as moved.
            progress_.fail(0);
            return false;
        }
        c.in_flight = c.recorded = false;
        return true;
    }

    /// Waits for the copy of the chunk `c` by its event. If that fails, waits for the stream, and
    /// if that fails, for the device. If all these waits fail, the ring's pinned memory is never
    /// freed.
    void await_copy_for_sure(chunk& c) noexcept {
        if (await_copy(c)) { return; }
        auto const waited = [&](auto const& place) {
            try {
                Platform::synchronize(place);
                return true;
            } catch (...) { progress_.fail(0); } // as in `await_copy`
            return false;
        };
        if (!waited(ring_.copies()) && !waited(ring_.where())) { ring_.leak_memory(); }
        c.in_flight = c.recorded = false;
    }

    Ring&             ring_;
    piece_plan const& plan_;
    std::byte*        device_;
    Host&             host_;
    transfer_progress progress_;
};

} // namespace detail
} // namespace vram
