// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_shards` stores a record of each live block, and of the last freed ones.

#include <vram/base/call_site.hpp>
#include <vram/base/call_stack.hpp>
#include <vram/base/core/address_map.hpp> // address_map, shard_of_64
#include <vram/probe/core/brief_lock.hpp>
#include <vram/probe/core/owner_accounts.hpp> // site_sums
#include <vram/probe/core/tick_clock.hpp>

#include <cstddef>
#include <cstdint>
#include <new>      // bad_alloc
#include <optional> // optional
#include <utility>

namespace vram {
namespace detail {

template <class Stream>
struct block_record {
    void*                 memory    = nullptr;
    std::size_t           bytes     = 0;
    std::size_t           alignment = 0;
    site_sums*            owner     = nullptr;
    tick_clock::ticks     since     = 0;
    call_stack            stack{};
    std::optional<Stream> stream{};
};

struct freed_record {
    void const*      memory = nullptr;
    std::size_t      bytes  = 0;
    site_sums const* owner  = nullptr;
    call_site        freed_at{};
};

/// Records of live blocks, divided by address into 64 shards (parts, each with a lock). A shard
/// also stores records of its last 16 freed blocks. Any thread may call any function.
template <class Stream>
class block_shards {
public:
    using record = block_record<Stream>;

    block_shards()               = default;
    block_shards(block_shards&&) = delete;
    ~block_shards() {
        for (shard& each : shards_) {
            each.live.for_each([](std::uint64_t, node* n) { delete n; });
            while (node* const n = each.unused) { each.unused = n->next, delete n; }
        }
    }

    /// Adds the record of a new live block at `p`. `fill(record)` must set all members except
    /// `memory`, because a reused record has the values of an earlier block.
    template <class Fill>
    void insert(void* p, Fill const& fill) {
        shard&     s    = shard_of(p);
        auto const held = s.lock.hold();
        s.live.reserve(1);
        node* n = s.unused;
        if (n != nullptr) [[likely]] {
            s.unused = n->next;
        } else {
            n = new node;
        }
        n->is.memory = p;
        fill(n->is);
        s.live.insert(key(p), n);
    }

    /// Removes the record of the live block at `p` if `accept(record)` is true. Returns the
    /// counters of the tag and program line of the block, or null if nothing was removed.
    template <class Accept>
    [[nodiscard]] site_sums* take(void* p, call_site freed_at, Accept const& accept) noexcept {
        shard&      s    = shard_of(p);
        auto const  held = s.lock.hold();
        node* const n    = s.live.find(key(p));
        if (n == nullptr || !accept(n->is)) [[unlikely]] { return nullptr; }
        s.live.erase(key(p));
        s.freed[s.next++ % recent] = {p, n->is.bytes, n->is.owner, freed_at};
        n->next                    = std::exchange(s.unused, n);
        return n->is.owner;
    }

    /// Returns the record of the live block that contains the address `p`, or nothing. Searches the
    /// records of all live blocks.
    [[nodiscard]] std::optional<record> containing(void const* p) const noexcept {
        std::optional<record> found;
        for_each([&](record const& r) {
            auto const* const begin = static_cast<std::byte const*>(r.memory);
            if (p >= begin && p < begin + r.bytes) { found = r; }
        });
        return found;
    }
    /// Returns the record of the last free of a block at `p`. Returns nothing if that free is not
    /// among the last 16 frees in the same shard, or there was none.
    [[nodiscard]] std::optional<freed_record> last_free(void const* p) const noexcept {
        shard const& s    = shard_of(p);
        auto const   held = s.lock.hold();
        for (unsigned i = 1; i <= recent; ++i) {
            freed_record const& each = s.freed[(s.next - i) % recent];
            if (each.memory == p) { return each; }
        }
        return {};
    }

    /// Calls `visit(record)` for the record of each live block, in any order. Holds the lock of the
    /// shard (the part of the records) during the call.
    template <class Visit>
    void for_each(Visit const& visit) const {
        for (shard const& each : shards_) {
            auto const held = each.lock.hold();
            each.live.for_each([&](std::uint64_t, node const* n) { visit(n->is); });
        }
    }
    [[nodiscard]] std::size_t size() const noexcept {
        std::size_t sum = 0;
        for (shard const& each : shards_) {
            auto const held = each.lock.hold();
            sum += each.live.size();
        }
        return sum;
    }

private:
    static constexpr unsigned recent = 16;

    struct node {
        record is{};
        node*  next = nullptr; ///< next node in the list `shard::unused`
    };
    struct alignas(64) shard {
        mutable brief_lock lock;
        address_map<node>  live;
        node*              unused = nullptr;
        /// Number of frees in this shard so far. The next free is stored in `freed[next % 16]`.
        unsigned     next = 0;
        freed_record freed[recent]{};
    };

    [[nodiscard]] static std::uint64_t key(void const* p) noexcept {
        return reinterpret_cast<std::uintptr_t>(p);
    }
    [[nodiscard]] shard& shard_of(void const* p) noexcept { return shards_[shard_of_64(key(p))]; }
    [[nodiscard]] shard const& shard_of(void const* p) const noexcept {
        return shards_[shard_of_64(key(p))];
    }

    shard shards_[64];
};

} // namespace detail
} // namespace vram
