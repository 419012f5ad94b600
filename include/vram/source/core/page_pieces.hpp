// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `page_pieces` records to which piece of physical memory each page of an address range is mapped.

#include <vram/base/contract.hpp> // expects
#include <vram/base/core/heap_array.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// Records which pages of an address range are mapped to which pieces of physical memory. The class
/// makes no driver calls: the caller maps and unmaps the pages. A piece backs at most one page,
/// which *owns* the piece. A piece that no page owns is a *spare*. A page that has lost its piece
/// stays mapped to it (a *stale* mapping). So the page can own the piece again without a driver
/// call.
///
///     page_pieces<handle> pieces{16};
///     pieces.reserve();
///     auto const k = pieces.add(memory.create(page)); // a spare
///     pieces.map(3, k);                               // page 3 has a stale mapping to it
///     pieces.attach(3);                               // page 3 owns it
///     pieces.detach(3);                               // it is a spare again; the mapping is stale
///
/// Failure   The constructor and `reserve` throw `std::bad_alloc` and change nothing.
/// Threads   One thread at a time.
template <class Handle>
class page_pieces {
public:
    using number = std::uint32_t; ///< index of a page, or of a piece of physical memory

    /// Value that means no page, or no piece of physical memory.
    static constexpr number nowhere = ~number{0};

    explicit page_pieces(std::size_t pages) {
        slots_.reserve(counted(pages));
        while (slots_.size() != pages) { slots_.push(); }
    }
    page_pieces(page_pieces&&) noexcept   = default;
    page_pieces& operator=(page_pieces&&) = delete;

    /// Allocates host memory for one more piece (of physical memory): `add` then cannot fail.
    void reserve() {
        if (unused_.size() != 0) { return; }
        if (pieces_.size() == pieces_.capacity()) {
            std::size_t const room = 2 * pieces_.size() + 8;
            // `spares_`, `unused_` and `pieces_` get room for every piece, so that later calls of
            // `add`, `detach` and `remove` allocate nothing.
            spares_.reserve(room);
            unused_.reserve(room);
            pieces_.reserve(room);
        }
        unused_.push(static_cast<number>(pieces_.size()));
        pieces_.push();
    }
    /// Adds a piece of physical memory that no page owns, and returns its index. Call `reserve`
    /// before each `add`.
    number add(Handle memory) noexcept {
        number const k = unused_.take(unused_.size() - 1);
        pieces_[k]     = {.memory = memory};
        spare(k);
        return k;
    }
    /// Removes the piece with the index `k`. No page may own the piece or be mapped to it.
    void remove(number k) noexcept {
        no_spare(k);
        unused_.push(k);
    }

    [[nodiscard]] Handle memory(number k) const noexcept { return pieces_[k].memory; }
    /// Returns a page that is mapped to the piece `k` of memory but does not own it, or `nowhere`.
    [[nodiscard]] number stale_page(number k) const noexcept { return pieces_[k].first_stale; }

    /// Returns the number of pieces of physical memory, whether a page owns them or not.
    [[nodiscard]] std::size_t held() const noexcept { return pieces_.size() - unused_.size(); }
    [[nodiscard]] std::size_t spares() const noexcept { return spares_.size(); }
    /// Returns the index of a spare (a piece of physical memory that no page owns). `i` is less
    /// than `spares()`.
    [[nodiscard]] number spare_at(std::size_t i) const noexcept { return spares_[i]; }

    /// Records that the caller has mapped the unmapped page `i` to the piece `k` of physical
    /// memory. The page does not own the piece until `attach(i)` is called.
    void map(number i, number k) noexcept {
        slots_[i] = {.piece = k};
        link(i);
    }
    /// Records that the caller has unmapped page `i`. The page must not own a piece of physical
    /// memory.
    void unmap(number i) noexcept {
        unlink(i);
        slots_[i] = {};
    }
    /// Makes page `i` the owner of the piece of physical memory to which it is mapped. A previous
    /// owner stays mapped.
    void attach(number i) noexcept {
        number const k = slots_[i].piece;
        unlink(i);
        number const other = std::exchange(pieces_[k].at, i);
        if (other != nowhere) { return link(other); }
        no_spare(k);
    }
    /// Makes the piece of physical memory that page `i` owns a spare (a piece that no page owns).
    /// Page `i` stays mapped to the piece.
    void detach(number i) noexcept {
        number const k = slots_[i].piece;
        pieces_[k].at  = nowhere;
        link(i);
        spare(k);
    }
    void               grant(number i) noexcept { slots_[i].granted = true; }
    [[nodiscard]] bool granted(number i) const noexcept { return slots_[i].granted; }

    [[nodiscard]] std::size_t pages() const noexcept { return slots_.size(); }
    /// Returns the piece of physical memory to which page `i` is mapped, or `nowhere`.
    [[nodiscard]] number piece(number i) const noexcept { return slots_[i].piece; }
    /// Returns true if page `i` owns a piece of physical memory, which then backs the page.
    [[nodiscard]] bool has(number i) const noexcept {
        number const k = slots_[i].piece;
        return k != nowhere && pieces_[k].at == i;
    }
    /// If another page owns the piece of physical memory to which page `i` is mapped, returns that
    /// other page. Otherwise returns `nowhere`.
    [[nodiscard]] number current_owner(number i) const noexcept {
        number const k = slots_[i].piece;
        return k != nowhere && pieces_[k].at != i ? pieces_[k].at : nowhere;
    }

private:
    /// The mapping of one page. The index in `slots_` is the index of the page.
    struct slot {
        number piece = nowhere;
        /// Links of the list of the pages that are mapped to `piece` but do not own `piece`.
        number next    = nowhere;
        number before  = nowhere;
        bool   granted = false;
    };
    struct entry {
        Handle memory{};
        /// Index of the page that owns this piece of physical memory; `nowhere` if no page owns it.
        number at = nowhere;
        /// Head of the list of pages that are mapped to this piece but do not own the piece.
        number first_stale = nowhere;
        number spared      = 0; ///< index in `spares_`, if the piece is a spare
    };

    static std::size_t counted(std::size_t pages) {
        expects(pages < nowhere, "page_pieces: a range must have less than 2^32 - 1 pages");
        return pages;
    }

    void spare(number k) noexcept {
        pieces_[k].spared = static_cast<number>(spares_.size());
        spares_.push(k);
    }
    void no_spare(number k) noexcept {
        number const last    = spares_[spares_.size() - 1];
        number const at      = pieces_[k].spared;
        pieces_[last].spared = at;
        spares_[at]          = last;
        spares_.pop();
    }
    void link(number i) noexcept {
        entry& p         = pieces_[slots_[i].piece];
        slots_[i].next   = p.first_stale;
        slots_[i].before = nowhere;
        if (p.first_stale != nowhere) { slots_[p.first_stale].before = i; }
        p.first_stale = i;
    }
    void unlink(number i) noexcept {
        slot const& s = slots_[i];
        if (s.next != nowhere) { slots_[s.next].before = s.before; }
        (s.before != nowhere ? slots_[s.before].next : pieces_[s.piece].first_stale) = s.next;
    }

    heap_array<slot>   slots_;
    heap_array<entry>  pieces_;
    heap_array<number> spares_; ///< indices of spare pieces; has capacity for every piece
    heap_array<number> unused_; ///< indices of removed pieces; has capacity for every piece
};

} // namespace detail
} // namespace vram
