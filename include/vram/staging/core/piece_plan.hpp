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

/// Sizes and offsets of a transfer's pieces, in order. In long transfers they grow by about an
/// eighth, in steps of 4 KiB, from `first` to at most `largest`, and shrink likewise at the end.
///
///     piece_plan plan{1_GiB, 4_MiB, 256_KiB};
///     auto const [offset, bytes] = plan[i];      // i < plan.pieces()
///
/// Host and device work on different pieces at the same time. Small pieces at both ends shorten the
/// time in which one of them waits for the other.
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

    /// Divides a transfer of `bytes` bytes into pieces that grow from `first` to at most `largest`
    /// bytes, both rounded up to multiples of `unit`.
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

    /// Returns the size of the largest piece of a transfer of `bytes` bytes: `largest`, halved
    /// while it exceeds both 8 KiB and about sqrt(32 KiB * `bytes`).
    [[nodiscard]] static constexpr std::size_t fitting(std::size_t bytes,
                                                       std::size_t largest) noexcept {
        // Pieces of sqrt(`even` * `bytes`) bytes balance two costs: 2 us for each copy, and the
        // idle time of the link to the device until a piece is filled.
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
    /// Largest number of pieces that grow, each by an eighth. 63 multiply the size by 1600.
    static constexpr std::size_t steps = 63;

    [[nodiscard]] constexpr std::size_t begin_of(std::size_t i) const noexcept {
        if (i <= ramp_) { return ends_[i]; }
        if (i >= pieces_ - ramp_) { return all_ - ends_[pieces_ - i]; }
        return ends_[ramp_] + (i - ramp_) * middle_;
    }

    std::size_t bytes_ = 0;
    /// Number of bytes of the transfer, rounded up to a multiple of `unit`.
    std::size_t all_    = 0;
    std::size_t pieces_ = 0;
    /// Number of pieces at the beginning, each larger than the one before. As many shrink at the
    /// end.
    std::size_t ramp_ = 0;
    /// Bytes of a piece between those that grow and those that shrink; the last of these may have
    /// fewer.
    std::size_t middle_ = unit;
    /// `ends_[k]` is the number of bytes of the first `k` pieces, for `k` up to `ramp_`. The last
    /// `k` pieces have as many, if the last one is rounded up to `unit`.
    std::array<std::size_t, steps + 1> ends_{};
};

} // namespace detail
} // namespace vram
