// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `soak_options` says how long and how large a soak is, and `soak_figures` what it did.

#include <vram/base/bytes.hpp> // size literals

#include <chrono>  // milliseconds
#include <cstddef> // size_t
#include <cstdint> // uint64_t

namespace laws {

using namespace vram::literals;

/// What is done wrong, to see that it is noticed.
enum class soak_flaw : unsigned char {
    none,
    one_stream, ///< the memory is told that all streams are one, and makes nobody wait
    no_wait,    ///< blocks are handed to another stream without an event
};

struct soak_options {
    std::chrono::milliseconds time{0};             ///< it goes on for so long
    std::size_t               operations = 0;      ///< and does at least so many, in each thread
    std::size_t               least      = 256;    ///< bytes of a block
    std::size_t               most       = 64_MiB; ///< bytes of a block
    std::size_t               live       = 3_GiB;  ///< bytes that are out at once, about
    unsigned                  streams    = 8;
    unsigned                  threads    = 1;
    std::uint64_t             seed       = 1;
    soak_flaw                 flaw       = soak_flaw::none;
};

struct soak_figures {
    std::uint64_t blocks = 0; ///< that came and went
    std::uint64_t bytes  = 0; ///< of them
    std::uint64_t handed = 0; ///< times that one was handed to another stream

    soak_figures& operator+=(soak_figures const& more) noexcept {
        blocks += more.blocks;
        bytes += more.bytes;
        handed += more.handed;
        return *this;
    }
};

/// What was found in blocks that was not written there.
struct soak_wrongs {
    std::uint64_t words  = 0; ///< how many
    std::uint64_t number = 0; ///< the block of one of them,
    std::uint64_t place  = 0; ///< the word in it,
    std::uint64_t found  = 0; ///< and what was there
};

/// The word at `place` of the block `number`: no other word of any block is the same.
[[nodiscard]] constexpr std::uint64_t soak_word(std::uint64_t number,
                                                std::uint64_t place) noexcept {
    return number << 32 | place;
}

} // namespace laws
