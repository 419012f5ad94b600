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

/// The numbers of the pieces of a transfer. Threads take them in order, and each piece that was
/// taken is finished or fails. After a failure no further piece is taken.
///
/// Failure   No function throws. The first exception of a piece is stored.
/// Threads   Any thread may call. `cause` and `whole` need the end of all pieces that were taken.
/// Cost      One atomic add for each piece. Nothing is allocated.
class transfer_progress {
public:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    /// The parts of a transfer that can fail: the host and the device. After a failure of the
    /// device, the content of every piece that is not known to be finished is unknown. A failure of
    /// the host does not affect other pieces.
    enum part : int { no_failure, the_host, the_device };

    explicit transfer_progress(std::size_t pieces) noexcept : pieces_{pieces} {}

    /// Takes the next piece of the transfer, so that no other call gets it. Returns the number of
    /// the piece, or `none` if all pieces were taken or one has failed.
    [[nodiscard]] std::size_t take() noexcept {
        if (failed()) { return none; }
        std::size_t const i = next_.fetch_add(1, std::memory_order_relaxed);
        return i < pieces_ ? i : none;
    }
    /// Records that piece number `piece` of the transfer did not reach its destination: `whole()`,
    /// the number of pieces moved without a gap, is then at most `piece`. Moves no bytes.
    void undo(std::size_t piece) noexcept {
        std::size_t first = undone_.load();
        while (piece < first && !undone_.compare_exchange_weak(first, piece)) {}
    }
    /// Records that piece number `piece` failed, by a failure of the host or the device (`by`). To
    /// be called in a `catch` block: stores the exception if no piece has failed before. If only
    /// the host has failed before, a failure of the device is recorded too, without its exception.
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
    /// Returns the number of pieces at the beginning of the transfer that were moved: the number of
    /// the first piece that was not. To be called when all pieces that were taken have ended.
    [[nodiscard]] std::size_t whole() const noexcept {
        return smaller_of(smaller_of(undone_.load(), next_.load()), pieces_);
    }

private:
    std::size_t              pieces_;
    std::atomic<std::size_t> next_{0};
    std::atomic<std::size_t> undone_{none}; ///< number of the first piece that was not copied
    std::atomic<int>         failed_{no_failure};
    /// Exception of the first failure, or null. Written by one thread, and read when all have
    /// ended.
    std::exception_ptr cause_;
};

} // namespace detail
} // namespace vram
