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

/// Stores the pending uses of blocks: the streams that may still access freed memory. Nearly every
/// block has none, or one use of the whole block, which is stored in the block itself. More uses
/// are in a separate `use_node`. `is_complete(use)` returns true if a use is complete.
///
/// Failure   `reserve` throws `std::bad_alloc`. No other function fails.
/// Threads   One thread at a time.
/// Cost      A few instructions for a block without a `use_node`.
class block_tags {
public:
    /// `reserve` makes sure that `notes` unused `use_node`s exist. `has` returns true if they do.
    void               reserve(std::size_t notes) { notes_.reserve(notes); }
    [[nodiscard]] bool has(std::size_t notes) const noexcept { return notes_.has(notes); }
    [[nodiscard]] bool empty() const noexcept { return notes_.empty(); }

    /// Sets the pending uses by streams of a block that is not in a bin (free list by size). A list
    /// with more than one use, or with a use of a part, requires `reserve` before.
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

    /// Stores which parts of a newly allocated block are graph-retained. During a capture, a stream
    /// may allocate memory that it freed during a capture. The graph of that free may still use the
    /// memory, also after this block is freed. Requires `reserve` before. The list (`use_node`) is
    /// made now, so that freeing the block cannot fail.
    void keep(block* b, tags const& kept) noexcept {
        if (!kept.empty()) { note(b, kept); }
    }
    /// Called because the stream with the index `slot` is being captured. If the stream freed the
    /// block, or a part of it, in the epoch `from` (a numbered part of its work) or later, the
    /// memory may belong to the graph: only captures of that stream may reuse it until captures are
    /// forgotten.
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
    /// Drops those pending uses of a block (streams that may still access it) for which
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
    /// Called after the front of `rest` became a separate block and `rest->address` was raised.
    /// Removes the pending uses (streams that may still access it) of memory before the new
    /// beginning of `rest`.
    void drop_front(block* rest) noexcept {
        if (rest->slot != block::several) { return; }
        rest->note->what.drop_before(rest->address);
        simplify(rest, rest->address, rest->end());
    }

    /// Merges the pending uses (streams that may still access it) of the neighbour `gone` into
    /// those of `b`. If the uses do not fit, returns false, and has dropped at most complete uses.
    template <class IsComplete>
    [[gnu::always_inline]] bool merge_uses(block* b, block* gone,
                                           IsComplete const& is_complete) noexcept {
        if (!same_use(*b, *gone)) [[unlikely]] { return merge_other_uses(b, gone, is_complete); }
        b->epoch = b->epoch > gone->epoch ? b->epoch : gone->epoch;
        return true;
    }

private:
    /// Slow path of `merge_uses`: merges the pending uses (streams that may still access the
    /// memory) of `gone` into those of its neighbour `b`, if the two blocks have different uses or
    /// several. Returns false if the uses do not fit into one list; at most complete uses were
    /// dropped then.
    template <class IsComplete>
    [[gnu::noinline]] bool merge_other_uses(block* b, block* gone,
                                            IsComplete const& is_complete) noexcept {
        // If `b` is the empty block at the end of a chunk that can grow, `b` gets the uses of
        // `gone`. If `gone` is that block, it has no uses.
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
    /// Stores a list of pending uses by streams in a `use_node`, for a block that has no
    /// `use_node`.
    void note(block* b, tags const& held) noexcept {
        b->slot       = block::several;
        b->note       = notes_.make();
        b->note->what = held;
    }
    /// Returns true if both blocks have no use, or each has one use by the same stream and of the
    /// same kind: kept for a captured graph, or ordinary.
    [[nodiscard]] static bool same_use(block const& a, block const& b) noexcept {
        if (a.slot != b.slot || a.slot == block::several) { return false; }
        return (a.epoch == tag::captured) == (b.epoch == tag::captured) || a.slot == block::nobody;
    }
    /// Drops the complete pending uses (streams that may still access the memory) of `b` and of its
    /// neighbour `gone`. Merges the remaining uses of `gone` into those of `b`. Returns false, and
    /// merges nothing, if the uses do not fit into one list, or if a `use_node` (list in host
    /// memory) is needed and `reserve` was not called for it.
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
            // `add` cannot fail: each of the two blocks has at most one use here, and the list is
            // empty.
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
    /// Replaces the `use_node` of a block that covers [from, to) by the block's own fields if there
    /// is no use or one use of the whole block.
    void simplify(block* b, std::uintptr_t from, std::uintptr_t to) noexcept {
        tags const& held = b->note->what;
        if (held.empty()) { return release(b); }
        tag const only = *held.begin();
        if (held.begin() + 1 != held.end() || only.begin > from || only.end < to) { return; }
        release(b);
        hold(b, only);
    }
    /// Adds the pending uses (streams that may still access it) of `b` to the list `to`, perhaps
    /// without those that are complete. Returns false if there is no room.
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
