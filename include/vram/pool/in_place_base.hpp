// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `in_place_base` is the part of a pool that grows by moving the ends of its chunks.

#include <vram/concepts/expandable.hpp> // expandable_resource
#include <vram/pool/pool_base.hpp>      // pool_base

#include <cstddef> // size_t

namespace vram {

/// Chunks that grow and shrink at their ends, by whole pages.
///
/// Failure   as the upstream; an end that cannot be moved stays where it is
/// Threads   any; while an end is moved its chunk is `busy`, and others make a chunk of their own
/// Cost      that of the upstream
template <expandable_resource Upstream, growth Growth>
class in_place_base : public pool_base<Upstream, Growth, true> {
    using base = pool_base<Upstream, Growth, true>;

protected:
    using typename base::guard;
    using typename base::request;
    using move_of_end = block_heap::move_of_end;

    using base::base;
    using base::heap_;
    using base::unused;

    [[nodiscard]] std::size_t wanted(request const& r, growth_request const& wish) const {
        return base::wanted(r, wish, this->upstream_.page_size());
    }

    void* take_in_hole(request const& r) { return heap_.take_in_hole(r); }

    /// Moves the end of a chunk out, by what the policy wants (`more`) or what is needed, and takes
    /// the request there; null where there is no such chunk, or no memory.
    void* lengthen(request const& r, bool, bool more) {
        auto              held = this->lock_.hold();
        move_of_end const m    = heap_.begin_growth(r);
        if (m.base == nullptr) { return nullptr; }
        std::size_t const by =
            move_end(r, m, more, held, [&](std::size_t n) { return extend(m, n); });
        heap_.end_move(m, by);
        return by == 0 ? nullptr : heap_.take(r, held, true);
    }
    /// Has `move(bytes)`, which says by how much it did, move an end that is to be moved: by what
    /// the policy wants (`more`), less, or what is needed. Opens the lock meanwhile; what is thrown
    /// passes through, and the chunk is as it was.
    template <class Move>
    std::size_t move_end(request const& r, move_of_end const& m, bool more, guard& held,
                         Move move) {
        growth_request const wish{.needed = m.by,
                                  .held   = heap_.blocks().of(r.bytes).chunks().reserved()};
        held.unlock();
        std::size_t by = 0;
        try {
            by = base::stepping_down(more ? wanted(r, wish) : m.by, m.by, move);
        } catch (...) { // nobody knows how much memory the device has
            held.lock();
            heap_.end_move(m, 0);
            throw;
        }
        held.lock();
        return by;
    }
    /// By how much the end was moved out, if it was.
    std::size_t extend(move_of_end const& m, std::size_t by) {
        by = whole_pages(by);
        typename base::claim mine{*this, by};
        if (!mine.granted || !this->upstream_.extend(m.base, m.bytes, by)) { return 0; }
        auto const held = this->lock_.hold();
        ++this->figures_.upstream;
        mine.keep();
        this->raise_most(this->figures_.reserved);
        return by;
    }
    /// Gives the free ends of chunks back until at most `keep` free bytes are held.
    std::size_t give_parts_back(std::size_t keep, guard& held) {
        std::size_t back = 0;
        while (unused() > keep) {
            std::size_t const excess = unused() - keep;
            move_of_end const m      = heap_.begin_shrinking(this->upstream_.page_size(), excess);
            if (m.base == nullptr) { break; }
            this->hand_back(m.by, held,
                            [&] { back += this->upstream_.shrink(m.base, m.bytes, m.by); });
            heap_.end_move(m, 0);
        }
        return back;
    }

    template <bool Throwing>
    void* new_chunk(request const& r, std::size_t size, request const* out) {
        return base::template new_chunk<Throwing>(r, whole_pages(size), out);
    }
    [[nodiscard]] std::size_t whole_pages(std::size_t bytes) const noexcept {
        std::size_t const page  = this->upstream_.page_size();
        std::size_t const pages = bytes / page + (bytes % page != 0 ? 1 : 0);
        return pages > unsatisfiable / page ? unsatisfiable : pages * page;
    }
};

} // namespace vram
