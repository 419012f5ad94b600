// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `split_on_oom` runs work in smaller pieces if it runs out of memory.

#include <vram/base/align.hpp>           // saturating_add
#include <vram/base/contract.hpp>        // expects
#include <vram/base/core/smaller_of.hpp> // larger_of, smaller_of
#include <vram/base/out_of_memory.hpp>

#include <cstddef>
#include <cstdint>

namespace vram {

/// Options of `split_on_oom`.
struct split_options {
    /// The number of items in a piece (the items of one call of the work) is a multiple of this,
    /// except in the last piece.
    std::size_t granule = 1;
    /// Smallest number of items in a piece that is tried after a piece ran out of memory. The
    /// number is rounded up to a multiple of `granule`.
    std::size_t least = 1;
    /// `size()`, the largest number of items in a piece, doubles after this number of pieces of
    /// that size has finished. If 0, `size()` never grows.
    unsigned grow_after = 0;
};

/// Runs work over `count` items in order, in pieces (ranges of items). If the work throws
/// `out_of_memory` for a piece, a piece with half as many items is tried next.
///
///     split_on_oom split{{.granule = 4_KiB}};
///     split(batch.size(), [&](std::size_t first, std::size_t count) { ... });
///
/// Finished pieces are not repeated. The work must undo the effects of a piece before it throws.
/// The next call begins with the `size()` that this call found.
///
/// Failure   If a piece cannot be halved, its `out_of_memory` is rethrown; other exceptions are not
///           caught.
/// Threads   One thread at a time.
/// Cost      Only the calls of the work.
class split_on_oom {
public:
    split_on_oom() = default;
    explicit split_on_oom(split_options const& options) : options_{options} {
        expects(options.granule != 0, "split_on_oom: granule must be at least 1");
    }

    /// Calls `work(first, n)` for one piece of the `count` items after another. `first` is the
    /// index of the first item of the piece, and `n` is the number of its items. If a call throws
    /// `out_of_memory`, tries a piece with half as many items next.
    template <class Work>
    void operator()(std::size_t count, Work&& work) {
        done_ = 0;
        while (done_ < count) {
            std::size_t const piece = detail::smaller_of(size_, count - done_);
            if (attempt(work, piece)) {
                done_ += piece;
                succeeded(piece);
            } else {
                ++splits_;
                size_ = half(piece);
                run_  = 0;
            }
        }
    }

    /// Returns the number of items for which the work is finished in the current or last call.
    [[nodiscard]] std::size_t done() const noexcept { return done_; }

    /// Returns the largest number of items that the next piece may have. The next call of this
    /// object begins with this number. Returns `unlimited` if no piece has run out of memory yet.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// `pieces()` returns how many pieces have finished, and `splits()` how many ran out of memory
    /// and were tried with fewer items.
    [[nodiscard]] std::uint64_t pieces() const noexcept { return pieces_; }
    [[nodiscard]] std::uint64_t splits() const noexcept { return splits_; }

    /// The value of `size()` if the number of items in a piece has no limit.
    static constexpr std::size_t unlimited = static_cast<std::size_t>(-1);

private:
    template <class Work>
    bool attempt(Work& work, std::size_t piece) {
        try {
            work(done_, piece);
            return true;
        } catch (out_of_memory const&) {
            if (half(piece) >= piece) { throw; } // a piece of the smallest size cannot be halved
        }
        return false;
    }

    /// Returns the number of items to try after a piece of `piece` items ran out of memory: half of
    /// `piece` in whole granules, but at least `options_.least`.
    [[nodiscard]] std::size_t half(std::size_t piece) const noexcept {
        std::size_t const least = granules(detail::larger_of<std::size_t>(options_.least, 1));
        std::size_t const lower = piece / 2 - piece / 2 % options_.granule;
        return detail::larger_of(least, lower);
    }
    [[nodiscard]] std::size_t granules(std::size_t n) const noexcept {
        return saturating_add(n, (options_.granule - n % options_.granule) % options_.granule);
    }

    void succeeded(std::size_t piece) noexcept {
        ++pieces_;
        if (piece < size_ || options_.grow_after == 0) {
            return;
        } // a piece that is shorter than the size does not show that the size fits
        if (++run_ < options_.grow_after) { return; }
        run_  = 0;
        size_ = size_ > unlimited / 2 ? unlimited : size_ * 2;
    }

    split_options options_{};
    std::size_t   size_ = unlimited;
    std::size_t   done_ = 0;
    /// Number of pieces that finished with `size_` items since `size_` last changed.
    unsigned      run_    = 0;
    std::uint64_t pieces_ = 0;
    std::uint64_t splits_ = 0;
};

} // namespace vram
