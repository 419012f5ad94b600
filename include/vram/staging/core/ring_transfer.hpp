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

/// One transfer of a `staging` between the device and the host. Moves the pieces of `plan` through
/// the pinned chunks of the ring; each thread of the ring has its own chunks. For an upload, `Host`
/// has `fill(chunk, offset, bytes)`, which writes a piece into the chunk at the address `chunk`;
/// for a download, `empty(chunk, offset, bytes)`, which reads the piece from there. Any thread of
/// the ring calls these functions.
///
/// A thread takes the next piece when one of its chunks is free, so pieces begin in order. After a
/// failure no further piece begins, and the threads wait for the copies in progress.
///
/// Failure   The first exception is stored: see `failed()`, `cause()` and `whole()`.
/// Threads   All threads of the ring call `run` concurrently; for a small transfer, one thread
///           calls it.
/// Streams   Copies run on the ring's stream, and are complete when all threads have returned.
/// Cost      One copy, one event and at most one host wait for each piece. Nothing is allocated.
template <class Ring, class Platform, class Host>
class ring_transfer {
    using chunk = typename Ring::chunk;

public:
    ring_transfer(Ring& over, piece_plan const& plan, std::byte* device, Host& host) noexcept
        : ring_{over}, plan_{plan}, device_{device}, host_{host}, progress_{plan.pieces()} {}

    /// Moves pieces of the transfer on the calling thread, which has the number `thread`, until
    /// none is left or the transfer has failed. Then waits for the copies of this thread's chunks.
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

    /// Returns the number of bytes at the beginning of the transfer that were moved, up to the
    /// first piece that was not. To be called when all threads have returned from `run`.
    [[nodiscard]] std::size_t whole() const noexcept {
        std::size_t const first = progress_.whole();
        return first < plan_.pieces() ? plan_[first].offset : plan_.bytes();
    }

private:
    static constexpr std::size_t none = transfer_progress::none;

    /// The upload loop of one thread: waits until a chunk of its `lane` (the pinned chunks of this
    /// thread) is free, fills it with the next piece, and enqueues its copy.
    void upload(std::span<chunk> lane) noexcept {
        for (std::size_t k = 0;; k = (k + 1) % lane.size()) {
            chunk& c = lane[k];
            if (!await_copy(c)) { return; }
            c.piece = progress_.take();
            if (c.piece == none) { return; }
            auto const [offset, bytes] = plan_[c.piece];
            try {
                host_.fill(c.memory, offset, bytes);
            } catch (...) { return progress_.fail(c.piece, transfer_progress::the_host); }
            if (!send(c, device_ + offset, c.memory, bytes)) { return; }
        }
    }

    /// The download loop of one thread: keeps a copy from the device in progress in each chunk of
    /// its `lane` (the pinned chunks of this thread), and passes the content of the oldest one to
    /// the host when its copy is complete.
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
        // If the device has failed, the content of the chunk is not known: it is not passed to the
        // host, and the piece counts as not moved (`undo`).
        if (progress_.device_failed()) { return progress_.undo(c.piece); }
        auto const [offset, bytes] = plan_[c.piece];
        try {
            host_.empty(c.memory, offset, bytes);
        } catch (...) { progress_.fail(c.piece, transfer_progress::the_host); }
    }

    bool send(chunk& c, void* to, void const* from, std::size_t bytes) noexcept {
        try {
            Platform::copy(ring_.copies(), to, from, bytes);
            c.in_flight = true;
            Platform::record(c.copied, ring_.copies());
            c.recorded = true;
            return true;
        } catch (...) {
            progress_.fail(c.piece, transfer_progress::the_device);
            return false;
        }
    }

    /// Blocks the calling thread until the copy of the chunk `c`, if any, is complete. Returns
    /// false if the copy failed, or if it is not known to be complete.
    bool await_copy(chunk& c) noexcept {
        if (!c.in_flight || !c.recorded) { return !c.in_flight; }
        try {
            Platform::synchronize(c.copied);
        } catch (...) {
            progress_.fail(c.piece, transfer_progress::the_device);
            return false;
        }
        c.in_flight = c.recorded = false;
        // If another thread found during this wait that the device has failed, this copy may have
        // failed too: the piece then counts as not moved (`undo`). The copy is over in any case.
        if (progress_.device_failed()) { progress_.undo(c.piece); }
        return true;
    }

    /// Blocks the calling thread until the copy of the chunk `c` is complete, because the next
    /// transfer uses the chunk. If the wait for its event fails, waits for the ring's stream, and
    /// if that fails too, for the device. If every wait fails, the ring's pinned memory is never
    /// freed.
    void await_copy_for_sure(chunk& c) noexcept {
        if (await_copy(c)) { return; }
        auto const waited = [&](auto const& place) {
            try {
                Platform::synchronize(place);
                return true;
            } catch (...) { return false; }
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
