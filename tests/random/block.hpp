// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block` is memory that a player has, and the kernels that use it.

#include <vram/sim/sim.hpp> // sim_launch, sim_view

#include <array>   // array
#include <atomic>  // atomic
#include <cstddef> // size_t, byte
#include <cstdint> // uint64_t, uintptr_t
#include <cstring> // memcpy, memcmp

namespace trial {

/// A live block.
struct block {
    std::uintptr_t at        = 0;
    std::size_t    bytes     = 0;
    std::size_t    alignment = 0;
    unsigned       user      = 0;     ///< the stream that used it last
    std::uint64_t  number    = 0;     ///< the number written into it, if it is used at all
    std::uint64_t  born      = 0;     ///< number of blocks that its player allocated before it
    bool           captured  = false; ///< true if graphs may still use the memory

    [[nodiscard]] void* pointer() const noexcept { return reinterpret_cast<void*>(at); }

    /// A kernel writes the number into the block.
    void write(vram::sim_stream_view s, vram::sim_time duration) const {
        vram::sim_launch(s, {.name = "write", .writes = {{pointer(), bytes}}, .duration = duration},
                         [b = *this] {
                             for (std::byte* const end : b.ends()) {
                                 std::memcpy(vram::sim_view(end), &b.number, b.length());
                             }
                         });
    }
    /// A kernel reads the block, and increments `stale` if the number is missing.
    void read(vram::sim_stream_view s, vram::sim_time duration,
              std::atomic<std::size_t>& stale) const {
        vram::sim_launch(s, {.name = "read", .reads = {{pointer(), bytes}}, .duration = duration},
                         [b = *this, &stale] {
                             for (std::byte* const end : b.ends()) {
                                 if (std::memcmp(vram::sim_view(end), &b.number, b.length()) != 0) {
                                     ++stale;
                                 }
                             }
                         });
    }

private:
    /// The positions of the number: at the beginning and before the end.
    [[nodiscard]] std::array<std::byte*, 2> ends() const noexcept {
        auto* const p = static_cast<std::byte*>(pointer());
        return {p, p + bytes - length()};
    }
    [[nodiscard]] std::size_t length() const noexcept {
        return bytes >= 16 ? sizeof number : bytes > 1 ? bytes / 2 : 1;
    }
};

} // namespace trial
