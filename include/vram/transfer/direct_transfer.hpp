// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `direct_transfer` is one transfer in which each thread moves piece after piece by itself.

#include <vram/base/requirements.hpp> // C++20

#include <algorithm> // min
#include <atomic>    // atomic
#include <cstddef>   // size_t
#include <exception> // exception_ptr, current_exception

namespace vram {

/// Pieces of `piece` bytes, of which each thread takes the next and calls `move(offset, bytes)`,
/// until all are moved or one has failed: for what needs no ring, such as storage that reaches the
/// device.
///
/// Failure   kept: `failed()`, `cause()`, `whole()`
/// Threads   `run` is for all threads at once
/// Cost      one atomic add for a piece; nothing is allocated
template <class Move>
class direct_transfer {
public:
    direct_transfer(std::size_t bytes, std::size_t piece, Move& move) noexcept
        : bytes_{bytes}, piece_{piece}, move_{move} {}

    /// What one thread does of it.
    void run() noexcept {
        while (whole_.load() == all) {
            std::size_t const offset = next_.fetch_add(1) * piece_;
            if (offset >= bytes_) { return; }
            try {
                move_(offset, std::min(piece_, bytes_ - offset));
            } catch (...) { return fail(offset); }
        }
    }

    [[nodiscard]] std::size_t pieces() const noexcept { return (bytes_ + piece_ - 1) / piece_; }
    [[nodiscard]] bool        failed() const noexcept { return whole_.load() != all; }
    [[nodiscard]] std::exception_ptr const& cause() const noexcept { return cause_; }
    /// Bytes from the beginning that are moved: pieces are begun in order, and finished.
    [[nodiscard]] std::size_t whole() const noexcept { return std::min(whole_.load(), bytes_); }

private:
    static constexpr std::size_t all = static_cast<std::size_t>(-1);

    /// The first failure is told; the least place at which one failed is where the whole ends.
    void fail(std::size_t offset) noexcept {
        if (!told_.exchange(true)) { cause_ = std::current_exception(); }
        std::size_t least = whole_.load();
        while (offset < least && !whole_.compare_exchange_weak(least, offset)) {}
    }

    std::size_t              bytes_;
    std::size_t              piece_;
    Move&                    move_;
    std::atomic<std::size_t> next_{0};
    std::atomic<std::size_t> whole_{all};
    std::atomic<bool>        told_{false};
    std::exception_ptr       cause_; ///< written by one, read when all have returned
};

} // namespace vram
