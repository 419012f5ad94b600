// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `piece_plan` divides a transfer into pieces: small ones first and last, large ones between.

#include <vram/base/align.hpp>
#include <vram/base/core/smaller_of.hpp> // larger_of, smaller_of

#include <array> // array
#include <cstddef>

namespace vram {
namespace detail {

/// Divides a transfer into pieces, and states the offset and size of each. In a long transfer, the
/// pieces grow from `first` to at most `largest` bytes, and shrink again at the end. Each growing
/// piece is about an eighth larger than the piece before, in steps of 4 KiB.
///
///     piece_plan plan{1_GiB, 4_MiB, 256_KiB};
///     auto const [offset, bytes] = plan[i];      // i < plan.pieces()
///
/// Host and device work on different pieces at the same time. Small pieces at both ends of the
/// transfer shorten the time in which the host or the device waits for the other.
class piece_plan {
public:
    /// Each piece (part of a transfer) begins at a multiple of this many bytes, relative to the
    /// beginning of the transfer.
    static constexpr std::size_t unit = 4096;

    struct piece {
        std::size_t offset = 0;
        std::size_t bytes  = 0;

        friend bool operator==(piece, piece) = default;
    };

    constexpr piece_plan() noexcept = default;

    /// Divides a transfer of `bytes` bytes into pieces. In a long transfer, they grow from `first`
    /// to at most `largest` bytes, and shrink again at the end. Both sizes are rounded up to
    /// multiples of `unit` (at least one), and `first` is at most `largest`.
    constexpr piece_plan(std::size_t bytes, std::size_t largest, std::size_t first) noexcept
        : bytes_{bytes} {
        std::size_t const most = align(larger_of(largest, unit), unit);
        std::size_t const all  = bytes / unit * unit + (bytes % unit != 0 ? unit : 0);
        middle_                = smaller_of(align(larger_of(first, unit), unit), most);
        while (middle_ < most && ramp_ < steps && all - 2 * ends_[ramp_] >= 4 * middle_) {
            ends_[ramp_ + 1] = ends_[ramp_] + middle_;
            ++ramp_;
            middle_ = smaller_of(align(middle_ + middle_ / 8, unit), most);
        }
        std::size_t const between = all - 2 * ends_[ramp_];
        pieces_ = 2 * ramp_ + between / middle_ + (between % middle_ != 0 ? 1 : 0);
        all_    = all;
    }

    /// Returns the size of the largest piece of a transfer of `bytes` bytes. Begins with `largest`,
    /// and halves it while it is above 8 KiB and above about sqrt(32 KiB * `bytes`).
    [[nodiscard]] static constexpr std::size_t fitting(std::size_t bytes,
                                                       std::size_t largest) noexcept {
        // The best size of a piece is about sqrt(`even` * `bytes`). If pieces are larger, the
        // device waits longer for a filled piece. If pieces are smaller, there are more copies, and
        // each copy takes about 2 us in addition to its transfer.
        constexpr std::size_t even = std::size_t{32} << 10;
        while (largest > 2 * unit && largest / even > bytes / largest) { largest /= 2; }
        return largest;
    }

    [[nodiscard]] constexpr std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] constexpr std::size_t pieces() const noexcept { return pieces_; }

    [[nodiscard]] constexpr piece operator[](std::size_t i) const noexcept {
        std::size_t const from = begin_of(i);
        return {from, smaller_of(begin_of(i + 1), bytes_) - from};
    }

private:
    /// Largest number of growing pieces. After 63 steps, a piece is at least 1600 times the first.
    static constexpr std::size_t steps = 63;

    [[nodiscard]] constexpr std::size_t begin_of(std::size_t i) const noexcept {
        if (i <= ramp_) { return ends_[i]; }
        if (i >= pieces_ - ramp_) { return all_ - ends_[pieces_ - i]; }
        return ends_[ramp_] + (i - ramp_) * middle_;
    }

    std::size_t bytes_ = 0;
    /// Number of bytes of the transfer, rounded up to a multiple of `unit` (4 KiB).
    std::size_t all_    = 0;
    std::size_t pieces_ = 0;
    /// Number of growing pieces at the beginning, and also of shrinking pieces at the end.
    std::size_t ramp_ = 0;
    /// Size in bytes of each piece between the growing pieces and the shrinking pieces. The last of
    /// these pieces may be smaller.
    std::size_t middle_ = unit;
    /// `ends_[k]` is the total number of bytes of the first `k` pieces, for `k` up to `ramp_`. The
    /// last `k` pieces have the same total, if the transfer is rounded up to `all_` bytes.
    std::array<std::size_t, steps + 1> ends_{};
};

} // namespace detail
} // namespace vram
