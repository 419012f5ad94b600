// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `page_pieces` knows which piece of memory each page has, and which it had last.

#include <vram/base/contract.hpp> // expects

#include <cstddef> // size_t
#include <cstdint> // uint32_t
#include <utility> // exchange
#include <vector>  // vector

namespace vram {

/// The books of a range of pages and of pieces of memory as large as a page. A piece is some page's
/// memory, or a spare. Pages that had it before stay mapped to it, in vain: each knows where its
/// memory went, and each piece knows them all.
///
///     page_pieces<handle> pieces{16};
///     pieces.reserve();
///     auto const k = pieces.add(memory.create(page)); // a spare
///     pieces.map(3, k);                               // page 3 is mapped to it, in vain as yet
///     pieces.occupy(3);                               // and has it
///     pieces.vacate(3);                               // which is a spare again, and mapped there
///
/// Failure   `std::bad_alloc` from `reserve` and the constructor alone, with nothing changed
/// Threads   one at a time
/// Cost      constant, and `reserve` now and then
template <class Handle>
class page_pieces {
public:
    using number = std::uint32_t; ///< of a page, or of a piece

    static constexpr number nowhere = ~number{0}; ///< no page, and no piece

    explicit page_pieces(std::size_t pages) : slots_(counted(pages)) {}
    page_pieces(page_pieces&& other) noexcept
        : slots_{std::exchange(other.slots_, {})},
          pieces_{std::exchange(other.pieces_, {})},
          spares_{std::exchange(other.spares_, {})},
          unused_{std::exchange(other.unused_, {})} {}
    page_pieces& operator=(page_pieces&&) = delete;

    // Pieces

    /// Makes sure of room for one piece more.
    void reserve() {
        if (!unused_.empty()) { return; }
        if (pieces_.size() == pieces_.capacity()) {
            std::size_t const room = 2 * pieces_.size() + 8;
            spares_.reserve(room); // each may become a spare, and be gone: that must not fail
            unused_.reserve(room);
            pieces_.reserve(room);
        }
        unused_.push_back(static_cast<number>(pieces_.size()));
        pieces_.emplace_back();
    }
    /// A new spare. After `reserve`.
    number add(Handle memory) noexcept {
        number const k = unused_.back();
        unused_.pop_back();
        pieces_[k] = {.memory = memory};
        spare(k);
        return k;
    }
    /// A spare that no page is mapped to is gone.
    void remove(number k) noexcept {
        no_spare(k);
        unused_.push_back(k);
    }

    [[nodiscard]] Handle memory(number k) const noexcept { return pieces_[k].memory; }
    /// A page that is mapped to the piece in vain; `nowhere` where there is none.
    [[nodiscard]] number in_vain(number k) const noexcept { return pieces_[k].vain; }

    /// Pieces, those of pages and spares.
    [[nodiscard]] std::size_t held() const noexcept { return pieces_.size() - unused_.size(); }
    [[nodiscard]] std::size_t spares() const noexcept { return spares_.size(); }
    /// The `i`-th of the spares, in no order that lasts.
    [[nodiscard]] number spare_at(std::size_t i) const noexcept { return spares_[i]; }

    // Pages

    /// Page `i`, which is mapped to nothing, is mapped to a piece: in vain, and not usable yet.
    void map(number i, number k) noexcept {
        slots_[i] = {.piece = k};
        link(i);
    }
    /// Page `i`, which is mapped to a piece in vain, is mapped to nothing.
    void unmap(number i) noexcept {
        unlink(i);
        slots_[i] = {};
    }
    /// Page `i`, which is mapped to a piece in vain, has it now; whoever had it has nothing.
    void occupy(number i) noexcept {
        number const k = slots_[i].piece;
        unlink(i);
        number const other = std::exchange(pieces_[k].at, i);
        if (other != nowhere) { return link(other); }
        no_spare(k);
    }
    /// What page `i` has is a spare now. It stays mapped.
    void vacate(number i) noexcept {
        number const k = slots_[i].piece;
        pieces_[k].at  = nowhere;
        link(i);
        spare(k);
    }
    /// What page `i` is mapped to may be used there.
    void               grant(number i) noexcept { slots_[i].granted = true; }
    [[nodiscard]] bool granted(number i) const noexcept { return slots_[i].granted; }

    [[nodiscard]] std::size_t pages() const noexcept { return slots_.size(); }
    /// The piece that page `i` is mapped to, or `nowhere`.
    [[nodiscard]] number piece(number i) const noexcept { return slots_[i].piece; }
    /// Whether page `i` has memory.
    [[nodiscard]] bool has(number i) const noexcept {
        number const k = slots_[i].piece;
        return k != nowhere && pieces_[k].at == i;
    }
    /// The page that has the piece which page `i` is mapped to in vain; `nowhere` where none has.
    [[nodiscard]] number went_to(number i) const noexcept {
        number const k = slots_[i].piece;
        return k != nowhere && pieces_[k].at != i ? pieces_[k].at : nowhere;
    }

private:
    /// A page, and what is mapped there: its memory, or memory that is elsewhere, or a spare.
    struct slot {
        number piece   = nowhere;
        number next    = nowhere; ///< of the pages that are mapped to that piece in vain
        number before  = nowhere;
        bool   granted = false;
    };
    struct entry {
        Handle memory{};
        number at     = nowhere; ///< whose it is; `nowhere`: it is a spare
        number vain   = nowhere; ///< the first of the other pages that are mapped to it
        number spared = 0;       ///< of a spare: where it is noted
    };

    static std::size_t counted(std::size_t pages) {
        expects(pages < nowhere, "page_pieces: a range has less than 2^32 - 1 pages");
        return pages;
    }

    void spare(number k) noexcept {
        pieces_[k].spared = static_cast<number>(spares_.size());
        spares_.push_back(k);
    }
    void no_spare(number k) noexcept {
        number const last    = spares_.back();
        number const at      = pieces_[k].spared;
        pieces_[last].spared = at;
        spares_[at]          = last;
        spares_.pop_back();
    }
    void link(number i) noexcept {
        entry& p         = pieces_[slots_[i].piece];
        slots_[i].next   = p.vain;
        slots_[i].before = nowhere;
        if (p.vain != nowhere) { slots_[p.vain].before = i; }
        p.vain = i;
    }
    void unlink(number i) noexcept {
        slot const& s = slots_[i];
        if (s.next != nowhere) { slots_[s.next].before = s.before; }
        (s.before != nowhere ? slots_[s.before].next : pieces_[s.piece].vain) = s.next;
    }

    std::vector<slot>   slots_;
    std::vector<entry>  pieces_;
    std::vector<number> spares_; ///< these and the next have room for every piece
    std::vector<number> unused_; ///< pieces that are gone
};

} // namespace vram
