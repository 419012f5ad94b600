// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `over_aligned` remembers the blocks that begin before the address that was handed out.

#include <vram/base/align.hpp>     // align_address, saturating_add
#include <vram/base/call_site.hpp> // call_site
#include <vram/base/error.hpp>     // report_error

#include <atomic>        // atomic
#include <cstddef>       // size_t
#include <mutex>         // mutex, scoped_lock
#include <unordered_map> // unordered_map

namespace vram {

/// CUDA aligns to 256 bytes. Whoever asks for more gets an address inside a larger block, and the
/// block's own address is kept here, out of the way: device memory is not the host's to write notes
/// into. One book for the process, since any two resources of a device take back each other's
/// memory.
///
/// Failure   where there is no room for a note, `hand_out` gives `nullptr`
/// Threads   any
/// Cost      one load while nothing is over-aligned; else a lock and a search by hash
class over_aligned {
public:
    /// The size of the block to ask CUDA for.
    [[nodiscard]] static constexpr std::size_t size(std::size_t bytes,
                                                    std::size_t alignment) noexcept {
        return alignment <= default_alignment
                   ? bytes
                   : saturating_add(bytes, alignment - default_alignment);
    }

    /// The address in `block`, of `size` bytes, to hand out.
    [[nodiscard]] static void* hand_out(void* block, std::size_t alignment) noexcept {
        if (alignment <= default_alignment) { return block; }
        void* const p = align_address(block, alignment);
        try {
            auto&                  book = all();
            std::scoped_lock const held{book.mutex};
            book.blocks.insert_or_assign(p, block);
            count_ = book.blocks.size();
        } catch (...) { return nullptr; }
        return p;
    }

    /// The block that `p` was handed out of. One that comes back with another alignment than it was
    /// asked with is told to the error sink, and yet found: its memory is not lost.
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
                          .advice    = "Free a block with the alignment that it was allocated "
                                       "with; this block was found and freed."});
        }
        return block != nullptr ? block : p;
    }

    /// How many are out.
    [[nodiscard]] static std::size_t count() noexcept { return count_; }

private:
    static constexpr char const* over  = "it was allocated with an alignment above 256";
    static constexpr char const* under = "it was allocated with an alignment of 256 or less";

    static void* take(void const* p) noexcept {
        if (count_ == 0) { return nullptr; }
        auto&                  book = all();
        std::scoped_lock const held{book.mutex};
        auto const             found = book.blocks.find(p);
        if (found == book.blocks.end()) { return nullptr; }
        void* const block = found->second;
        book.blocks.erase(found);
        count_ = book.blocks.size();
        return block;
    }

    struct book {
        std::mutex                             mutex;
        std::unordered_map<void const*, void*> blocks;
    };

    // Never destroyed: resources in static storage may outlive any object here.
    static book& all() {
        static book& only = *new book;
        return only;
    }

    static inline constinit std::atomic<std::size_t> count_{0}; ///< for looking without the lock
};

} // namespace vram
