// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `split_on_oom` does in pieces what does not fit in one.

#include <vram/base/contract.hpp>      // expects
#include <vram/base/out_of_memory.hpp> // out_of_memory

#include <algorithm> // min, max
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t

namespace vram {

/// How small the pieces may become, and when they grow again.
struct split_options {
    std::size_t granule    = 1; ///< pieces are multiples of this, but for the last of a call
    std::size_t least      = 1; ///< the smallest piece worth trying, rounded up to a granule
    unsigned    grow_after = 0; ///< pieces in a row after which a larger one is tried; 0: never
};

/// Runs work over `count` items in order; when a piece runs out of memory, it tries half of it.
///
///     split_on_oom split{{.granule = 4_KiB}};
///     split(batch.size(), [&](std::size_t first, std::size_t count) { ... });
///
/// Pieces that were finished stay finished: only the one that failed is done again, smaller. The
/// size that fits is remembered from call to call, so the next batch does not fail first. A piece
/// that throws must have left nothing behind. The halving is done after the exception is gone:
/// whatever it kept alive is back before the next try.
///
/// Failure   the `out_of_memory` of a piece that cannot be halved; any other exception at once.
///           Either way `done()` says how many items of the call are finished
/// Threads   one at a time
/// Cost      nothing beyond the calls of the work
class split_on_oom {
public:
    split_on_oom() = default;
    explicit split_on_oom(split_options const& options) : options_{options} {
        expects(options.granule != 0, "split_on_oom: a granule is at least one item");
    }

    /// Calls `work(first, count)` for pieces that follow each other and end at `count`.
    template <class Work>
    void operator()(std::size_t count, Work&& work) {
        done_ = 0;
        while (done_ < count) {
            std::size_t const piece = std::min(size_, count - done_);
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

    /// Items finished by the call that is running, or by the last one.
    [[nodiscard]] std::size_t done() const noexcept { return done_; }

    /// The size of the pieces now: `unlimited` until something was split.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// How many pieces were finished, and how many had to be halved, in all calls.
    [[nodiscard]] std::uint64_t pieces() const noexcept { return pieces_; }
    [[nodiscard]] std::uint64_t splits() const noexcept { return splits_; }

    static constexpr std::size_t unlimited = static_cast<std::size_t>(-1);

private:
    template <class Work>
    bool attempt(Work& work, std::size_t piece) {
        try {
            work(done_, piece);
            return true;
        } catch (out_of_memory const&) {
            if (half(piece) >= piece) { throw; } // as small as it may be
        }
        return false;
    }

    /// Half of a piece in whole granules, and not less than the least.
    [[nodiscard]] std::size_t half(std::size_t piece) const noexcept {
        std::size_t const least = granules(std::max<std::size_t>(options_.least, 1));
        std::size_t const lower = piece / 2 - piece / 2 % options_.granule;
        return std::max(least, lower);
    }
    [[nodiscard]] std::size_t granules(std::size_t n) const noexcept {
        return n + (options_.granule - n % options_.granule) % options_.granule;
    }

    void succeeded(std::size_t piece) noexcept {
        ++pieces_;
        if (piece < size_ || options_.grow_after == 0) { return; } // a remainder proves nothing
        if (++run_ < options_.grow_after) { return; }
        run_  = 0;
        size_ = size_ > unlimited / 2 ? unlimited : size_ * 2;
    }

    split_options options_{};
    std::size_t   size_   = unlimited;
    std::size_t   done_   = 0;
    unsigned      run_    = 0; ///< full pieces in a row
    std::uint64_t pieces_ = 0;
    std::uint64_t splits_ = 0;
};

} // namespace vram
