// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_space` is a reserved range of addresses with the blocks allocated in it.

#include <vram/base/align.hpp> // align, align_down
#include <vram/sim/machine/sim_block.hpp>
#include <vram/sim/machine/sorted_map.hpp>

#include <sys/mman.h> // mmap, munmap, madvise

#include <bit> // bit_width
#include <cstddef>
#include <cstdint>
#include <deque>    // deque
#include <iterator> // prev
#include <map>      // map
#include <new>      // bad_alloc
#include <vector>   // vector

namespace vram {
namespace detail {

/// A reserved address range. New blocks are placed behind the previous one, so that a freed address
/// is not reused soon. If there are several zones, each has blocks of similar sizes, against
/// fragmentation.
class sim_space {
public:
    /// Reserves `bytes` bytes of addresses in `zones` zones of equal size, each for blocks of
    /// similar sizes. If `accessible`, the program can access memory there.
    sim_space(std::size_t bytes, bool accessible, std::size_t zones = 1)
        : size_{bytes}, next_(zones) {
        begin_ = map(bytes, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
        if (accessible) { view_ = begin_; }
        for (std::size_t i = 0; i < zones; ++i) { next_[i] = zone(i).begin; }
    }
    sim_space(sim_space const&)            = delete;
    sim_space& operator=(sim_space const&) = delete;
    ~sim_space() {
        ::munmap(reinterpret_cast<void*>(begin_), size_);
        if (view_ != 0 && view_ != begin_) { ::munmap(reinterpret_cast<void*>(view_), size_); }
    }

    /// Allocates memory for the contents of the range at other addresses, which `view` returns.
    /// Called if the program cannot access the range itself.
    void                         back() { view_ = map(size_, PROT_READ | PROT_WRITE); }
    [[nodiscard]] std::uintptr_t view(std::uintptr_t p) const noexcept {
        return view_ + (p - begin_);
    }
    [[nodiscard]] bool backed() const noexcept { return view_ != 0; }

    [[nodiscard]] std::uintptr_t begin() const noexcept { return begin_; }

    [[nodiscard]] bool holds(std::uintptr_t p) const noexcept { return p - begin_ < size_; }

    /// Allocates a block. Returns null if no gap between blocks is large enough.
    sim_block* insert(std::size_t bytes, std::size_t alignment) {
        // The first zone is for blocks of up to 512 bytes, the second for up to 1024 bytes, and so
        // on. If the alignment is larger than the size, it selects the zone.
        std::size_t const large = bytes > alignment ? bytes : alignment;
        std::size_t const size  = static_cast<std::size_t>(std::bit_width((large - 1) / 512));
        std::size_t const index = size < next_.size() ? size : next_.size() - 1;
        sim_block* const  block = insert(zone(index), next_[index], bytes, alignment);
        if (block != nullptr || next_.size() == 1) { return block; }
        std::uintptr_t anywhere = begin_;
        return insert({begin_, begin_ + size_}, anywhere, bytes, alignment);
    }

    /// Adds a block at a given address: a mapping of physical memory, or registered host memory.
    sim_block* insert_at(std::uintptr_t at, std::size_t bytes) {
        sim_block& block = blocks_[at];
        block            = {};
        block.begin      = at;
        block.bytes      = bytes;
        return &block;
    }

    /// Erases a block: later accesses are not reported as use after free, but as outside any block.
    void erase(sim_block& block) { blocks_.erase(block.begin); }

    /// Marks a block as freed, so that later accesses are reported as use after free. Only the
    /// newest 4096 freed blocks are remembered.
    void retire(sim_block& block) {
        block.freed   = true;
        block.busy    = false;
        block.history = {};
        block.parts   = nullptr;
        release_pages(block);
        block.retired = ++retirements_;
        try {
            retired_.push_back({block.begin, block.retired});
        } catch (std::bad_alloc const&) {
            // Erases the freed block, because there is no host memory to remember it. Later
            // accesses are then reported as out of bounds.
            if (block.reusable()) { blocks_.erase(block.begin); }
        }
        if (retired_.size() > remembered) {
            auto const [begin, number] = retired_.front();
            retired_.pop_front();
            // A newer block may begin at this address now, so the numbers are compared.
            auto const oldest = blocks_.find(begin);
            bool const same   = oldest != blocks_.end() && oldest->retired == number;
            if (same && oldest->reusable()) { blocks_.erase(oldest); }
        }
    }

    /// Returns the last block that begins at `p` or before it, or null if there is none.
    [[nodiscard]] sim_block* before(std::uintptr_t p) { return blocks_.before(p); }

    [[nodiscard]] sorted_map<sim_block>& blocks() noexcept { return blocks_; }

private:
    /// Smallest distance in bytes between allocated blocks, so that an access just past the end
    /// hits no other block.
    static constexpr std::size_t gap        = 256;
    static constexpr std::size_t remembered = 4096; ///< number of freed blocks that are remembered
    static constexpr std::size_t page       = 4096;

    struct part {
        std::uintptr_t begin, end;
    };
    struct retirement {
        std::uintptr_t begin;
        std::uint64_t  number;
    };
    [[nodiscard]] part zone(std::size_t index) const noexcept {
        std::size_t const each = align_down(size_ / next_.size(), page);
        if (index + 1 == next_.size()) { return {begin_ + index * each, begin_ + size_}; }
        return {begin_ + index * each, begin_ + (index + 1) * each};
    }
    /// Allocates a block in the address range `in`. Searches from the address `next` to the end of
    /// the range, and then the whole range. Sets `next` to an address after the new block. Returns
    /// null if there is no room for the block.
    sim_block* insert(part in, std::uintptr_t& next, std::size_t bytes, std::size_t alignment) {
        for (int round = 0; round < 2; ++round) {
            std::uintptr_t at = align(round == 0 ? next : in.begin, alignment);
            auto           it = blocks_.upper_bound(at);
            if (auto last = it; it != blocks_.begin() && (--last)->end() + gap > at) { it = last; }
            while (at < in.end && bytes <= in.end - at) {
                while (it != blocks_.end() && it->reusable() && it.key() < at + bytes + gap) {
                    it = blocks_.erase(it);
                }
                if (it == blocks_.end() || it.key() >= at + bytes + gap) {
                    next             = at + bytes + gap;
                    sim_block& block = blocks_[at];
                    block            = {};
                    block.begin      = at;
                    block.bytes      = bytes;
                    return &block;
                }
                at = align(it->end() + gap, alignment);
                ++it;
            }
        }
        return nullptr;
    }

    static std::uintptr_t map(std::size_t bytes, int protection) {
        void* const p =
            ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) { throw std::bad_alloc{}; }
        return reinterpret_cast<std::uintptr_t>(p);
    }

    /// Returns the memory pages of a freed block to the operating system. Keeps pages that are only
    /// partly in the block. Does nothing if the block has less than 64 KiB.
    void release_pages(sim_block const& block) noexcept {
        if (view_ == 0 || block.bytes < 16 * page) { return; }
        std::uintptr_t const first = align(view(block.begin), page);
        std::uintptr_t const last  = align_down(view(block.end()), page);
        ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
    }

    std::size_t size_;
    /// For each zone (blocks of similar sizes), the address at which the next search starts.
    std::vector<std::uintptr_t> next_;
    std::uintptr_t              begin_ = 0;
    std::uintptr_t              view_  = 0;
    sorted_map<sim_block>       blocks_;
    std::deque<retirement>      retired_; ///< the newest frees
    std::uint64_t               retirements_ = 0;
};

} // namespace detail
} // namespace vram
