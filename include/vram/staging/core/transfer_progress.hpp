// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `transfer_progress` distributes the pieces of a transfer among threads, and stores its failure.

#include <vram/base/core/smaller_of.hpp>
#include <vram/base/requirements.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <exception> // exception_ptr, current_exception

namespace vram {
namespace detail {

/// Distributes the numbers of the pieces of a transfer among threads. After a failure of a piece,
/// no further one is taken, and the first exception is stored.
///
/// Threads   Any thread may call; `cause` and `whole` only when all taken pieces have ended.
class transfer_progress {
public:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    /// The side of a transfer that failed. A failure of the host affects one piece; after one of
    /// the device, all pieces in progress may be wrong.
    enum part : int { no_failure, the_host, the_device };

    explicit transfer_progress(std::size_t pieces) noexcept : pieces_{pieces} {}

    /// Takes the next piece of the transfer. Returns the number of the piece, or `none` if all were
    /// taken or one failed.
    [[nodiscard]] std::size_t take() noexcept {
        if (failed()) { return none; }
        std::size_t const i = next_.fetch_add(1, std::memory_order_relaxed);
        return i < pieces_ ? i : none;
    }
    /// Records that piece number `piece` was not moved: `whole()` then returns at most `piece`.
    void undo(std::size_t piece) noexcept {
        std::size_t first = undone_.load();
        while (piece < first && !undone_.compare_exchange_weak(first, piece)) {}
    }
    /// Records that piece number `piece` failed on the side `by`; must be called in a `catch`
    /// block. Only the exception of the first failure is stored.
    void fail(std::size_t piece, part by) noexcept {
        undo(piece);
        int expected = no_failure;
        if (failed_.compare_exchange_strong(expected, by)) {
            cause_ = std::current_exception();
        } else if (by == the_device) {
            failed_.store(by);
        }
    }

    [[nodiscard]] bool failed() const noexcept { return failed_.load() != no_failure; }
    [[nodiscard]] bool device_failed() const noexcept { return failed_.load() == the_device; }
    /// Returns the exception of the first failure, or null if there was none.
    [[nodiscard]] std::exception_ptr const& cause() const noexcept { return cause_; }
    /// Returns the number of the first piece that was not moved, or the number of all pieces if
    /// none is missing. Valid only when all pieces taken have ended.
    [[nodiscard]] std::size_t whole() const noexcept {
        return smaller_of(smaller_of(undone_.load(), next_.load()), pieces_);
    }

private:
    std::size_t              pieces_;
    std::atomic<std::size_t> next_{0};
    std::atomic<std::size_t> undone_{none}; ///< lowest number of a piece not moved, or `none`
    std::atomic<int>         failed_{no_failure};
    /// Exception of the first failure, or null. Written by one thread, and read when all have
    /// ended.
    std::exception_ptr cause_;
};

} // namespace detail
} // namespace vram
