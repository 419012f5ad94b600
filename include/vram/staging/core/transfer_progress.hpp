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

/// Distributes the pieces of a transfer among threads, by their indices. After a piece has failed,
/// no thread gets another piece. The first exception is stored.
///
/// Threads   Any thread may call. Call `cause` and `whole` only after all threads have finished.
class transfer_progress {
public:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    explicit transfer_progress(std::size_t pieces) noexcept : pieces_{pieces} {}

    /// Returns the index of the next piece, or `none` if no piece is left or a piece has failed.
    [[nodiscard]] std::size_t take() noexcept {
        if (failed()) { return none; }
        std::size_t const i = next_.fetch_add(1, std::memory_order_relaxed);
        return i < pieces_ ? i : none;
    }
    /// Marks the transfer as failed: `whole()` then returns at most `piece`. Call in a `catch`
    /// block: stores the exception of the first failure.
    void fail(std::size_t piece) noexcept {
        std::size_t first = undone_.load();
        while (piece < first && !undone_.compare_exchange_weak(first, piece)) {}
        if (!failed_.exchange(true)) { cause_ = std::current_exception(); }
    }

    [[nodiscard]] bool                      failed() const noexcept { return failed_.load(); }
    [[nodiscard]] std::exception_ptr const& cause() const noexcept { return cause_; }
    /// Returns the index of the first piece that was not moved, or the number of pieces if all were
    /// moved. Call only after all threads have finished their pieces.
    [[nodiscard]] std::size_t whole() const noexcept {
        return smaller_of(smaller_of(undone_.load(), next_.load()), pieces_);
    }

private:
    std::size_t              pieces_;
    std::atomic<std::size_t> next_{0};
    std::atomic<std::size_t> undone_{none}; ///< lowest index of a piece not moved, or `none`
    std::atomic<bool>        failed_{false};
    /// Exception of the first failure, or null. One thread writes this exception, and others read
    /// it only after all threads have finished.
    std::exception_ptr cause_;
};

} // namespace detail
} // namespace vram
