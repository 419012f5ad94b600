// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `over_aligned` remembers the original addresses of blocks with an alignment above 256 bytes.

#include <vram/base/align.hpp> // align_address, saturating_add
#include <vram/base/call_site.hpp>
#include <vram/base/core/address_map.hpp>
#include <vram/base/error.hpp> // report_error

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <mutex> // mutex, scoped_lock

namespace vram {
namespace detail {

/// A table of the blocks with an alignment above 256 bytes, which CUDA does not offer. The program
/// gets an address inside a larger block; the table stores the address of that larger block. One
/// table serves all resources, because a resource may free another's blocks.
///
/// Threads   Any thread may call.
class over_aligned {
public:
    /// Returns the number of bytes to allocate from CUDA for a request: `bytes`, and if the
    /// alignment is above 256, `alignment - 256` more.
    [[nodiscard]] static constexpr std::size_t size(std::size_t bytes,
                                                    std::size_t alignment) noexcept {
        return alignment <= default_alignment
                   ? bytes
                   : saturating_add(bytes, alignment - default_alignment);
    }

    /// Returns the address that the program gets: the first address in `block` that has this
    /// alignment. If `alignment` is above 256, stores `block` in the table, for `take_back`.
    /// Returns null if there is no host memory for the entry of the table.
    [[nodiscard]] static void* hand_out(void* block, std::size_t alignment) noexcept {
        if (alignment <= default_alignment) {
            // Removes the entry of an older block at this address, which a device reset has freed.
            (void)take(block);
            return block;
        }
        void* const p = align_address(block, alignment);
        try {
            auto&                  book = all();
            std::scoped_lock const held{book.mutex};
            if (book.blocks.find(key_of(p)) != nullptr) { book.blocks.erase(key_of(p)); }
            book.blocks.reserve(1);
            book.blocks.insert(key_of(p), block);
            count_ = book.blocks.size();
        } catch (...) { return nullptr; }
        return p;
    }

    /// Called when the program frees `p`. If the table contains `p`, removes it and returns the
    /// start of the larger block around it. Otherwise returns `p`. Reports an error if `alignment`
    /// is wrong: it must be above 256 if the table contains `p`, and at most 256 if not.
    [[nodiscard]] static void* take_back(void* p, std::size_t bytes, std::size_t alignment,
                                         call_site at = {}) noexcept {
        void* const block = take(p);
        if ((block != nullptr) != (alignment > default_alignment)) {
            report_error({.kind      = error_kind::wrong_alignment,
                          .pointer   = p,
                          .bytes     = bytes,
                          .caller    = at,
                          .alignment = alignment,
                          .cause     = block != nullptr ? over : under,
                          .advice    = "Free a block with the alignment of its allocation; "
                                       "this block was freed."});
        }
        return block != nullptr ? block : p;
    }

    /// Returns the number of live blocks of the process with an alignment above 256 bytes.
    [[nodiscard]] static std::size_t count() noexcept { return count_; }

private:
    static constexpr char const* over  = "it was allocated with an alignment above 256";
    static constexpr char const* under = "it was allocated with an alignment of 256 or less";

    static void* take(void const* p) noexcept {
        if (count_ == 0) { return nullptr; }
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        void* const            block = book.blocks.find(key_of(p));
        if (block == nullptr) { return nullptr; }
        book.blocks.erase(key_of(p));
        count_ = book.blocks.size();
        return block;
    }

    struct book {
        std::mutex        mutex;
        address_map<void> blocks;
    };

    static std::uint64_t key_of(void const* p) noexcept {
        return reinterpret_cast<std::uintptr_t>(p);
    }

    // The table of blocks is never destroyed, because resources in static storage may free blocks
    // while other static objects are already destroyed.
    static book& all() {
        static book& only = *new book;
        return only;
    }

    /// Number of blocks in the table. If not 0, each allocation and each free locks the table.
    static inline constinit std::atomic<std::size_t> count_{0};
};

} // namespace detail
} // namespace vram
