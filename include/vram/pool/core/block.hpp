// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block` is the descriptor of one piece of a pool's memory.

#include <vram/order/core/tags.hpp>

#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// A list of the pending uses (streams that may still access the memory) of one block. A block
/// needs a list if it has several pending uses, or one that covers only a part of the block.
struct use_node {
    tags      what;
    use_node* next = nullptr; ///< the next node in the list of unused nodes
};

struct links {
    links* next     = nullptr;
    links* previous = nullptr;
};

/// The descriptor, in host memory, of a block: a live, cached or free piece of a chunk. It stores
/// one pending use (a stream that may still access the freed block). A `use_node` stores several
/// pending uses. With the links of the base class, a block is in a free list or in the table of
/// live blocks.
struct block : links {
    enum class state : std::uint8_t {
        live, ///< allocated and not yet freed
        /// The block was chosen for a request that must still wait for streams or for physical
        /// memory. The block does not count as live, and a free of the block is rejected.
        reserved,
        /// The block was freed, and is kept for the next request of its size on the same stream.
        /// `set_aside` gives this state to a free block, so that no request uses the block.
        cached,
        free, ///< the block is in a free list; streams or captured graphs may still use it
    };
    /// Value of `slot` if no stream may still use the block.
    static constexpr std::uint32_t nobody = ~std::uint32_t{0};
    /// Value of `slot` if the pending uses of the block are in a `use_node`, because the descriptor
    /// has no room for them.
    static constexpr std::uint32_t several = ~std::uint32_t{0} - 1;
    // A live block with this value has parts that are kept for captured graphs.

    std::uintptr_t address = 0;
    std::size_t    bytes   = 0;
    /// The neighbour at lower addresses in the same chunk, or null.
    block* before = nullptr;
    /// The neighbour at higher addresses in the same chunk, or null.
    block* after = nullptr;
    union {
        /// The stream with the index `slot` may use the block until it has completed this epoch. An
        /// epoch is the part of a stream's work between two of its events.
        std::uint64_t epoch = 0;
        use_node*     note;
    };
    /// Index of the only stream that may still use this free or cached block. The value is `nobody`
    /// if there is no such stream. It is `several` if a `use_node` stores the pending uses.
    std::uint32_t slot = nobody;
    union {
        std::uint16_t slack = 0; ///< of a live block: its bytes beyond the requested size
        std::uint16_t bin;       ///< of a free block: index of its free list
    };
    std::uint8_t alignment : 6 = 0; ///< binary logarithm of the requested alignment
    /// True if some pages of the block may have no physical memory; false for a live block.
    bool  unbacked : 1 = false;
    bool  apart : 1    = false; ///< true if the block belongs to the heap of small blocks
    state now          = state::live;

    [[nodiscard]] std::uintptr_t end() const noexcept { return address + bytes; }
    [[nodiscard]] void* pointer() const noexcept { return reinterpret_cast<void*>(address); }

    /// Returns the pending uses of the block: the streams that may still use it, and which parts.
    [[nodiscard]] tags waits_for() const noexcept {
        if (slot == nobody) { return {}; }
        if (slot == several) { return note->what; }
        return tags{{address, address + bytes, epoch, slot}};
    }
};

static_assert(sizeof(block) == 64);

} // namespace detail
} // namespace vram
