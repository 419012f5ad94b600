// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `direct_transfer` is a transfer that several threads make piece by piece, without pinned chunks.

#include <vram/base/core/smaller_of.hpp> // smaller_of
#include <vram/base/requirements.hpp>

#include <atomic>    // atomic
#include <cstddef>   // size_t
#include <exception> // exception_ptr, current_exception

namespace vram {
namespace detail {

/// A transfer of `bytes` bytes in pieces of `piece` bytes without pinned chunks, for example from a
/// file to the device by GPUDirect Storage. Each thread repeatedly takes the next piece and calls
/// `move(offset, bytes)`, until all pieces are moved or one has failed.
///
/// Failure   The first exception is stored: see `failed()`, `cause()` and `whole()`.
/// Threads   All threads of the team call `run` concurrently.
/// Cost      One atomic add for each piece. Nothing is allocated.
template <class Move>
class direct_transfer {
public:
    direct_transfer(std::size_t bytes, std::size_t piece, Move& move) noexcept
        : bytes_{bytes}, piece_{piece}, move_{move} {}

    void run() noexcept {
        while (whole_.load() == all) {
            std::size_t const offset = next_.fetch_add(1) * piece_;
            if (offset >= bytes_) { return; }
            try {
                move_(offset, smaller_of(piece_, bytes_ - offset));
            } catch (...) { return fail(offset); }
        }
    }

    [[nodiscard]] std::size_t pieces() const noexcept { return (bytes_ + piece_ - 1) / piece_; }
    [[nodiscard]] bool        failed() const noexcept { return whole_.load() != all; }
    [[nodiscard]] std::exception_ptr const& cause() const noexcept { return cause_; }
    /// Returns the length of the part, from the beginning, that was moved without a gap. Pieces
    /// begin in order, and each piece that has begun is finished.
    [[nodiscard]] std::size_t whole() const noexcept { return smaller_of(whole_.load(), bytes_); }

private:
    static constexpr std::size_t all = static_cast<std::size_t>(-1);

    /// Records that the piece at `offset` failed: stores the current exception if it is the first
    /// one, and limits `whole()` to `offset`.
    void fail(std::size_t offset) noexcept {
        if (!stored_.exchange(true)) { cause_ = std::current_exception(); }
        std::size_t least = whole_.load();
        while (offset < least && !whole_.compare_exchange_weak(least, offset)) {}
    }

    std::size_t              bytes_;
    std::size_t              piece_;
    Move&                    move_;
    std::atomic<std::size_t> next_{0};
    std::atomic<std::size_t> whole_{all};
    std::atomic<bool>        stored_{false};
    std::exception_ptr       cause_; ///< written by one thread, read after all have returned
};

} // namespace detail
} // namespace vram
