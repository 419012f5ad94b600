// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `soak_options` holds the duration and size of a soak, and `soak_figures` its counts.

#include <vram/base/bytes.hpp> // size literals

#include <chrono>  // milliseconds
#include <cstddef> // size_t
#include <cstdint> // uint64_t

namespace laws {

using namespace vram::literals;

/// A deliberate error, to show that the soak detects it.
enum class soak_flaw : unsigned char {
    none,
    /// All streams are passed to the memory resource as one, so it orders nothing.
    one_stream,
    no_wait, ///< blocks are handed to another stream without an event
};

struct soak_options {
    std::chrono::milliseconds time{0};             ///< duration of the run
    std::size_t               operations = 0;      ///< least number of operations, for each thread
    std::size_t               least      = 256;    ///< least size of a block in bytes
    std::size_t               most       = 64_MiB; ///< largest size of a block in bytes
    std::size_t               live       = 3_GiB;  ///< approximate live bytes
    unsigned                  streams    = 8;
    unsigned                  threads    = 1;
    std::uint64_t             seed       = 1;
    soak_flaw                 flaw       = soak_flaw::none;
};

struct soak_figures {
    std::uint64_t blocks = 0; ///< blocks allocated and freed
    std::uint64_t bytes  = 0; ///< bytes of these blocks
    std::uint64_t handed = 0; ///< blocks handed to another stream

    soak_figures& operator+=(soak_figures const& more) noexcept {
        blocks += more.blocks;
        bytes += more.bytes;
        handed += more.handed;
        return *this;
    }
};

/// Differences between the contents of blocks and the written pattern.
struct soak_wrongs {
    std::uint64_t words  = 0; ///< number of wrong words
    std::uint64_t number = 0; ///< block of the first wrong word
    std::uint64_t place  = 0; ///< index of that word in the block
    std::uint64_t found  = 0; ///< value of that word
};

/// Returns the word at index `place` of the block `number`. All words of all blocks differ.
[[nodiscard]] constexpr std::uint64_t soak_word(std::uint64_t number,
                                                std::uint64_t place) noexcept {
    return number << 32 | place;
}

} // namespace laws
