// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_tags` stores the pending uses of blocks: which streams may still use which part.

#include <vram/pool/core/block.hpp> // block, use_node
#include <vram/pool/core/node_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// Stores the pending uses of blocks: the streams that may still access freed memory. One use of a
/// whole block is stored in the block itself; several uses, or uses of parts of it, in a
/// `use_node`.
///
/// Failure   Only `reserve` can fail: it throws `std::bad_alloc`.
/// Threads   One thread at a time.
class block_tags {
public:
    /// `reserve` makes sure that `notes` unused `use_node`s exist. `has` returns true if they do.
    void               reserve(std::size_t notes) { notes_.reserve(notes); }
    [[nodiscard]] bool has(std::size_t notes) const noexcept { return notes_.has(notes); }
    [[nodiscard]] bool empty() const noexcept { return notes_.empty(); }

    /// Replaces the pending uses of a block by `held`. Requires `reserve`, unless `held` is empty
    /// or one use of the whole block.
    void hold(block* b, tags const& held) noexcept {
        release(b);
        if (held.empty()) { return; }
        tag const* const only = held.begin();
        if (only + 1 == held.end() && only->begin <= b->address && only->end >= b->end()) {
            return hold(b, *only);
        }
        note(b, held);
    }
    static void hold(block* b, tag const& whole) noexcept {
        b->slot  = static_cast<std::uint32_t>(whole.slot);
        b->epoch = whole.epoch;
    }

    /// Records `kept`, the parts of the new block `b` that captured graphs may still use. After a
    /// free of `b`, these parts stay kept for the graphs. Requires an earlier call of `reserve`.
    void keep(block* b, tags const& kept) noexcept {
        if (!kept.empty()) { note(b, kept); }
    }
    /// Keeps memory of `b` for a captured graph until `forget_captures`. Pending uses by the stream
    /// with the index `slot` become uses by the graph, if they end with the epoch `from` (a part of
    /// the stream's work) or a later one.
    static void keep_for_capture(block* b, std::size_t slot, std::uint64_t from) noexcept {
        if (b->slot == block::several) {
            b->note->what.keep_for_capture(slot, from);
        } else if (b->slot == slot && b->epoch >= from) {
            b->epoch = tag::captured;
        }
    }
    void release(block* b) noexcept {
        if (b->slot == block::several) { notes_.put_back(b->note); }
        b->slot = block::nobody;
    }
    /// Drops the pending uses of a block (streams that may still access the block) for which
    /// `is_complete(use)` returns true.
    template <class IsComplete>
    void refresh(block* b, IsComplete const& is_complete) noexcept {
        if (b->slot == block::nobody) { return; }
        if (b->slot == block::several) {
            b->note->what.drop(is_complete);
            if (b->note->what.empty()) { release(b); }
        } else if (is_complete({b->address, b->end(), b->epoch, b->slot})) {
            b->slot = block::nobody;
        }
    }
    /// Called after the front of `rest` became a separate block. Removes the pending uses of this
    /// front from `rest`. A use of both blocks is shortened to the addresses of `rest`.
    void drop_front(block* rest) noexcept {
        if (rest->slot != block::several) { return; }
        rest->note->what.drop_before(rest->address);
        simplify(rest, rest->address, rest->end());
    }

    /// Adds the pending uses of the neighbour `gone` (streams that may still access it) to those of
    /// `b`. Returns false if one descriptor cannot store all of them: each block then keeps its
    /// own. May drop uses for which `is_complete(use)` returns true.
    template <class IsComplete>
    [[gnu::always_inline]] bool merge_uses(block* b, block* gone,
                                           IsComplete const& is_complete) noexcept {
        if (!same_use(*b, *gone)) [[unlikely]] { return merge_other_uses(b, gone, is_complete); }
        b->epoch = b->epoch > gone->epoch ? b->epoch : gone->epoch;
        return true;
    }

private:
    /// Slow path of `merge_uses`, for blocks with different or several pending uses (streams that
    /// may still access the memory). Returns false if one descriptor cannot store the uses of both.
    template <class IsComplete>
    [[gnu::noinline]] bool merge_other_uses(block* b, block* gone,
                                            IsComplete const& is_complete) noexcept {
        // A last block of 0 bytes, in a chunk that can grow, has no pending uses. It takes over the
        // uses of `gone`.
        if (b->bytes == 0) {
            if (gone->slot == block::several) {
                b->note = gone->note;
            } else {
                b->epoch = gone->epoch;
            }
            b->slot = std::exchange(gone->slot, block::nobody);
            return true;
        }
        return gone->bytes == 0 || join_tags(b, gone, is_complete);
    }
    /// Stores the pending uses `held` in a new `use_node` of `b`, which must have none.
    void note(block* b, tags const& held) noexcept {
        b->slot       = block::several;
        b->note       = notes_.make();
        b->note->what = held;
    }
    /// Returns true if neither block has a pending use, or if each block has one use by the same
    /// stream. The epochs (parts of the stream's work) may differ. A captured graph of the stream
    /// counts as another user.
    [[nodiscard]] static bool same_use(block const& a, block const& b) noexcept {
        if (a.slot != b.slot || a.slot == block::several) { return false; }
        return (a.epoch == tag::captured) == (b.epoch == tag::captured) || a.slot == block::nobody;
    }
    /// Slow path of `merge_other_uses`: adds the pending uses (by streams) of the neighbour `gone`
    /// to those of `b`. Returns false if one list has no room for all uses, or if no unused
    /// `use_node` is left for a new list.
    template <class IsComplete>
    bool join_tags(block* b, block* gone, IsComplete const& is_complete) noexcept {
        refresh(b, is_complete);
        refresh(gone, is_complete);
        if (b->slot == block::nobody && gone->slot == block::nobody) { return true; }
        if (b->slot == block::several) {
            if (!add(b->note->what, *gone, is_complete)) { return false; }
            release(gone);
        } else if (gone->slot == block::several) {
            if (!add(gone->note->what, *b, is_complete)) { return false; }
            b->note = gone->note;
            b->slot = std::exchange(gone->slot, block::nobody);
        } else {
            if (notes_.empty()) { return false; }
            use_node* const both = notes_.make();
            // The new list has room for one use of each block, so `add` does not fail.
            (void)add(both->what, *b, is_complete);
            (void)add(both->what, *gone, is_complete);
            b->slot    = block::several;
            b->note    = both;
            gone->slot = block::nobody;
        }
        std::uintptr_t const from = b->address < gone->address ? b->address : gone->address;
        simplify(b, from, from + b->bytes + gone->bytes);
        return true;
    }
    /// Frees the `use_node` of `b` (its list of pending uses) if the list is empty, or if its only
    /// use covers all addresses [from, to). In the second case, stores this use in `b` itself.
    void simplify(block* b, std::uintptr_t from, std::uintptr_t to) noexcept {
        tags const& held = b->note->what;
        if (held.empty()) { return release(b); }
        tag const only = *held.begin();
        if (held.begin() + 1 != held.end() || only.begin > from || only.end < to) { return; }
        release(b);
        hold(b, only);
    }
    /// Adds the pending uses of `b` to the list `to`. Returns false if the list has no room. Uses
    /// for which `is_complete(use)` returns true may be left out.
    template <class IsComplete>
    [[nodiscard]] static bool add(tags& to, block const& b,
                                  IsComplete const& is_complete) noexcept {
        if (b.slot == block::nobody) { return true; }
        if (b.slot == block::several) { return to.merge(b.note->what, is_complete); }
        return to.merge(tags{{b.address, b.end(), b.epoch, b.slot}}, is_complete);
    }

    node_pool<use_node> notes_;
};

} // namespace detail
} // namespace vram
