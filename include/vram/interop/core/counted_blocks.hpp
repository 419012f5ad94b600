// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `counted_blocks` knows the size and the owner of each live block of a resource.

#include <vram/base/core/address_map.hpp> // address_map, shard_of_64
#include <vram/probe/core/brief_lock.hpp>

#include <cstddef>
#include <cstdint>
#include <new> // bad_alloc
#include <utility>

namespace vram {
namespace detail {

/// A table of the live blocks of a resource: the size of each block, and its owner (such as the
/// counters of a tag). The functions follow the events of an observer. If the live bytes of an
/// owner change, a function calls `change(owner, bytes)`. No lock is held during this call. A block
/// is not counted if there is no host memory for its record. Any thread may call any function.
template <class Owner>
class counted_blocks {
public:
    counted_blocks()                 = default;
    counted_blocks(counted_blocks&&) = delete;
    ~counted_blocks() {
        for (shard& each : shards_) {
            each.blocks.for_each([](std::uint64_t, node* n) { delete n; });
            each.areas.for_each([](std::uint64_t, area* a) { delete a; });
            while (node* const n = each.unused) { each.unused = n->next, delete n; }
        }
    }

    /// Adds a live block at `p` and calls `change(owner, bytes)` with no lock held. If the table
    /// still has a live block at this address, first calls `change` to subtract the bytes of the
    /// old block.
    template <class Change>
    void add(void* p, std::size_t bytes, Owner* owner, Change const& change) noexcept {
        std::int64_t before = 0;
        Owner*       whose  = nullptr;
        try {
            shard&     s    = shard_of(key(p));
            auto const held = s.lock.hold();
            node*      n    = s.blocks.find(key(p));
            if (n != nullptr) {
                if (n->frees == 0) { before = n->bytes; }
                whose = n->owner;
                s.forget_free(n);
            } else {
                s.blocks.reserve(1);
                area& in = s.area_of(key(p));
                n        = s.unused;
                if (n != nullptr) [[likely]] {
                    s.unused = n->next;
                } else {
                    n = new node;
                }
                n->at = key(p);
                s.blocks.insert(n->at, n);
                in.link(n);
            }
            n->bytes = static_cast<std::int64_t>(bytes);
            n->owner = owner;
            n->frees = 0;
        } catch (std::bad_alloc const&) { return; }
        if (before != 0) [[unlikely]] { change(whose, -before); }
        change(owner, static_cast<std::int64_t>(bytes));
    }
    /// If the block at `p` is live, counts it as freed and calls `change(owner, -size)`. The table
    /// keeps its record for some time, because the resource may still refuse the free.
    template <class Change>
    void free(void* p, std::size_t bytes, Change const& change) noexcept {
        std::int64_t freed = 0;
        Owner*       whose = nullptr;
        {
            shard&      s    = shard_of(key(p));
            auto const  held = s.lock.hold();
            node* const n    = s.blocks.find(key(p));
            if (n == nullptr || n->frees++ != 0) { return; }
            freed = n->bytes;
            whose = n->owner;
            if (freed == static_cast<std::int64_t>(bytes)) [[likely]] { s.note_free(n); }
        }
        if (freed != 0) { change(whose, -freed); }
    }
    /// Undoes one `free` of the block at `p`, which the resource refused. The block then counts as
    /// live again, unless another free of it remains (after a double free).
    template <class Change>
    void refuse(void* p, Change const& change) noexcept {
        std::int64_t back  = 0;
        Owner*       whose = nullptr;
        {
            shard&      s    = shard_of(key(p));
            auto const  held = s.lock.hold();
            node* const n    = s.blocks.find(key(p));
            if (n == nullptr || n->frees == 0 || --n->frees != 0) { return; }
            s.forget_free(n);
            back  = n->bytes;
            whose = n->owner;
        }
        change(whose, back);
    }
    /// Removes all blocks that begin in [p, p + bytes) from the table. For each live block among
    /// them, calls `change(owner, -size)` with no lock held.
    template <class Change>
    void end(void* p, std::size_t bytes, Change const& change) noexcept {
        if (bytes == 0) { return; }
        std::uint64_t const first = number_of(key(p)), last = number_of(key(p) + (bytes - 1));
        if (last - first < 1024) {
            for (std::uint64_t i = first; i <= last; ++i) {
                end_areas(shards_[shard_of_64(i)], key(p), bytes, change,
                          [&](shard& s, auto const& visit) {
                              if (area* const a = s.areas.find(i)) { visit(a); }
                          });
            }
            return;
        }
        for (shard& each : shards_) {
            end_areas(each, key(p), bytes, change, [&](shard& s, auto const& visit) {
                s.areas.for_each([&](std::uint64_t i, area* a) {
                    if (first <= i && i <= last) { visit(a); }
                });
            });
        }
    }

private:
    struct node {
        std::int64_t bytes = 0;
        Owner*       owner = nullptr;
        /// Number of frees of the block, without the frees that were refused. It is 0 if the block
        /// is live, and 2 after a double free.
        unsigned      frees = 0;
        unsigned      place = 0; ///< 0 if not in `shard::recent`; otherwise 1 + the index there
        std::uint64_t at    = 0;
        /// Next block of the same area (64 KiB of addresses), or next unused node.
        node* next = nullptr;
        /// The address of the pointer to this node: that of `area::first`, or of `next` in the node
        /// before.
        node** from = nullptr;

        void unlink() const noexcept {
            *from = next;
            if (next != nullptr) { next->from = from; }
        }
    };
    /// A list of the blocks that begin in one range of 64 KiB of addresses.
    struct area {
        std::uint64_t number = 0;
        node*         first  = nullptr;
        area*         next   = nullptr; ///< next area in a temporary list of `end_areas`

        void link(node* n) noexcept {
            n->next = first;
            n->from = &first;
            if (first != nullptr) { first->from = &n->next; }
            first = n;
        }
    };
    struct alignas(64) shard {
        brief_lock        lock;
        unsigned          oldest = 0; ///< index in `recent` that the next freed block gets
        address_map<node> blocks;
        address_map<area> areas;
        node*             unused = nullptr;
        /// The last freed blocks of this shard, in a ring. Their records are kept for some time,
        /// because the resource may still refuse the frees.
        node* recent[32] = {};

        /// Returns the area of 64 KiB that contains the address `at`, and adds it if necessary.
        /// Throws `std::bad_alloc`.
        [[nodiscard]] area& area_of(std::uint64_t at) {
            std::uint64_t const number = number_of(at);
            area*               found  = areas.find(number);
            if (found == nullptr) [[unlikely]] {
                areas.reserve(1);
                found = new area{.number = number};
                areas.insert(number, found);
            }
            return *found;
        }
        /// Adds the freed block `n` to the ring `recent`. If an older block had this place in the
        /// ring, removes the record of the older block.
        void note_free(node* n) noexcept {
            if (node* const old = recent[oldest]) {
                blocks.erase(old->at);
                old->unlink();
                old->place = 0;
                old->next  = std::exchange(unused, old);
            }
            recent[oldest] = n;
            n->place       = oldest + 1;
            oldest         = (oldest + 1) % 32;
        }
        /// Removes the block `n` from the ring of recent frees, if it is there.
        void forget_free(node* n) noexcept {
            if (n->place != 0) { recent[std::exchange(n->place, 0U) - 1] = nullptr; }
        }
    };

    [[nodiscard]] static std::uint64_t key(void const* p) noexcept {
        return reinterpret_cast<std::uintptr_t>(p);
    }
    /// Returns the number of the area (64 KiB of the address space) that contains the address `at`.
    [[nodiscard]] static constexpr std::uint64_t number_of(std::uint64_t at) noexcept {
        return at >> 16;
    }
    [[nodiscard]] shard& shard_of(std::uint64_t at) noexcept {
        return shards_[shard_of_64(number_of(at))];
    }
    /// Removes the blocks that begin in [begin, begin + bytes) from the shard `s`, and calls
    /// `change` for each live one. `for_areas(s, visit)` must call `visit(area)` for each area of
    /// the shard that may have such blocks.
    template <class Change, class ForAreas>
    static void end_areas(shard& s, std::uint64_t begin, std::size_t bytes, Change const& change,
                          ForAreas const& for_areas) noexcept {
        node* ended = nullptr;
        {
            auto const held    = s.lock.hold();
            area*      visited = nullptr;
            for_areas(s, [&](area* a) { a->next = std::exchange(visited, a); });
            while (area* const a = visited) {
                visited = a->next;
                for (node *n = a->first, *after = nullptr; n != nullptr; n = after) {
                    after = n->next;
                    if (n->at - begin >= bytes) { continue; }
                    n->unlink();
                    s.blocks.erase(n->at);
                    s.forget_free(n);
                    n->next = std::exchange(ended, n);
                }
                if (a->first == nullptr) {
                    s.areas.erase(a->number);
                    delete a;
                }
            }
        }
        while (node* const n = ended) {
            ended = n->next;
            if (n->frees == 0) { change(n->owner, -n->bytes); }
            auto const held = s.lock.hold();
            n->next         = std::exchange(s.unused, n);
        }
    }

    shard shards_[64];
};

} // namespace detail
} // namespace vram
