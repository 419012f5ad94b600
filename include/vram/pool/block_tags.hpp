// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_tags` notes with a block who may still be using which part of it.

#include <vram/pool/block.hpp>      // block, tag_note
#include <vram/pool/note_store.hpp> // note_store

#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t, uint32_t
#include <utility> // exchange

namespace vram {

/// Nearly always it is nobody, or one stream all of it: that stands in the block itself. More has a
/// note of its own. `settled(tag)` tells what is over.
///
/// Failure   `std::bad_alloc` from `reserve`; nothing else fails
/// Threads   one at a time
/// Cost      a few instructions where a block has no note
class block_tags {
public:
    /// Makes sure that so many notes can be had, or tells whether they can.
    void               reserve(std::size_t notes) { notes_.reserve(notes); }
    [[nodiscard]] bool has(std::size_t notes) const noexcept { return notes_.has(notes); }
    [[nodiscard]] bool empty() const noexcept { return notes_.empty(); }

    /// Who may still be using a block that is not in a bin: after `reserve`, or nobody, or one
    /// stream all of it.
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

    /// A block was handed out, and graphs keep this of it meanwhile. After `reserve`: the note is
    /// made now, so that there is one when the block comes back.
    void keep(block* b, tags const& kept) noexcept {
        if (!kept.empty()) { note(b, kept); }
    }
    /// What the stream in `slot` may still be using of a block, and gave back in the epoch `from`
    /// or later, is kept for a graph that is captured on it.
    static void keep_for_capture(block* b, std::size_t slot, std::uint64_t from) noexcept {
        if (b->slot == block::several) {
            b->note->what.keep_for_capture(slot, from);
        } else if (b->slot == slot && b->epoch >= from) {
            b->epoch = tag::captured;
        }
    }
    /// What graphs kept of a free block waits until `epoch(slot)` from now on.
    template <class Epoch>
    static void end_captures(block* b, Epoch const& epoch) noexcept {
        if (b->slot == block::several) {
            b->note->what.end_captures(epoch);
        } else if (b->slot != block::nobody && b->epoch == tag::captured) {
            b->epoch = epoch(b->slot);
        }
    }

    /// Nobody uses the block any more.
    void release(block* b) noexcept {
        if (b->slot == block::several) { notes_.put_back(b->note); }
        b->slot = block::nobody;
    }
    /// Forgets what is settled.
    template <class Settled>
    void refresh(block* b, Settled const& settled) noexcept {
        if (b->slot == block::nobody) { return; }
        if (b->slot == block::several) {
            b->note->what.drop(settled);
            if (b->note->what.empty()) { release(b); }
        } else if (settled({b->address, b->end(), b->epoch, b->slot})) {
            b->slot = block::nobody;
        }
    }
    /// The front of a block has become another one.
    void drop_front(block* rest) noexcept {
        if (rest->slot != block::several) { return; }
        rest->note->what.drop_before(rest->address);
        simplify(rest, rest->address, rest->end());
    }

    /// `b` takes over what `gone`, which lies beside it, waits for, if that can be noted.
    template <class Settled>
    [[gnu::always_inline]] bool take_over(block* b, block* gone, Settled const& settled) noexcept {
        if (!alike(*b, *gone)) [[unlikely]] { return take_over_other(b, gone, settled); }
        b->epoch = b->epoch > gone->epoch ? b->epoch : gone->epoch;
        return true;
    }

private:
    /// `take_over` where not one stream, or nobody, holds all of both.
    template <class Settled>
    [[gnu::noinline]] bool take_over_other(block* b, block* gone, Settled const& settled) noexcept {
        if (b->bytes == 0) { // the end of a chunk, for which nobody waits
            if (gone->slot == block::several) {
                b->note = gone->note;
            } else {
                b->epoch = gone->epoch;
            }
            b->slot = std::exchange(gone->slot, block::nobody);
            return true;
        }
        return gone->bytes == 0 || join_tags(b, gone, settled);
    }
    /// Who may still be using a block of which nothing is noted: in a note of its own.
    void note(block* b, tags const& held) noexcept {
        b->slot       = block::several;
        b->note       = notes_.make();
        b->note->what = held;
    }
    /// Whether one stream, or nobody, holds all of both. What a graph keeps is of another kind.
    [[nodiscard]] static bool alike(block const& a, block const& b) noexcept {
        if (a.slot != b.slot || a.slot == block::several) { return false; }
        return (a.epoch == tag::captured) == (b.epoch == tag::captured) || a.slot == block::nobody;
    }
    /// `take_over` where not all of both is held by one.
    template <class Settled>
    bool join_tags(block* b, block* gone, Settled const& settled) noexcept {
        refresh(b, settled);
        refresh(gone, settled);
        if (b->slot == block::nobody && gone->slot == block::nobody) { return true; }
        if (b->slot == block::several) {
            if (!add(b->note->what, *gone, settled)) { return false; }
            release(gone);
        } else if (gone->slot == block::several) {
            if (!add(gone->note->what, *b, settled)) { return false; }
            b->note = gone->note;
            b->slot = std::exchange(gone->slot, block::nobody);
        } else {
            if (notes_.empty()) { return false; }
            tag_note* const both = notes_.make();
            (void)add(both->what, *b, settled); // there is room for two
            (void)add(both->what, *gone, settled);
            b->slot    = block::several;
            b->note    = both;
            gone->slot = block::nobody;
        }
        std::uintptr_t const from = b->address < gone->address ? b->address : gone->address;
        simplify(b, from, from + b->bytes + gone->bytes);
        return true;
    }
    /// Where all of a block, which lies in [from, to), waits for one stream, or none of it for
    /// anybody, there is no note.
    void simplify(block* b, std::uintptr_t from, std::uintptr_t to) noexcept {
        tags const& held = b->note->what;
        if (held.empty()) { return release(b); }
        tag const only = *held.begin();
        if (held.begin() + 1 != held.end() || only.begin > from || only.end < to) { return; }
        release(b);
        hold(b, only);
    }
    /// Adds what a block waits for.
    template <class Settled>
    [[nodiscard]] static bool add(tags& to, block const& b, Settled const& settled) noexcept {
        if (b.slot == block::nobody) { return true; }
        if (b.slot == block::several) { return to.merge(b.note->what, settled); }
        return to.merge(tags{{b.address, b.end(), b.epoch, b.slot}}, settled);
    }

    note_store<tag_note> notes_;
};

} // namespace vram
