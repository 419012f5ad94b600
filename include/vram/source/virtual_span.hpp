// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `virtual_span` is a reserved address range whose pages are backed individually.

#include <vram/base/error.hpp>           // error_kind
#include <vram/base/report_caught.hpp>   // report_caught
#include <vram/source/address_range.hpp> // address_range
#include <vram/source/page_pieces.hpp>   // page_pieces

#include <cstddef> // size_t, byte
#include <cstdint> // uint32_t, uint64_t
#include <utility> // move, exchange
#include <vector>  // vector

namespace vram {

/// Pages are numbered from the front of the range. If the memory of a page moves elsewhere, the
/// page keeps a stale mapping to it. If that memory returns, no driver call is made, so a program
/// that repeats itself, such as a training loop, soon makes none (after the stitched blocks of
/// GMLake, 2024). Memory that backs no page is a spare.
///
///     virtual_span span{memory, 1_GiB, 2_MiB};
///     span.fill(0, 10);        // backs the first ten pages
///     span.move(0, 5, 20, 25); // moves the memory of five pages to pages 20 to 24
///     span.move(20, 25, 0, 5); // and back, without a driver call
///
/// Failure   `fill` throws and changes nothing. If memory cannot be unmapped, the error is reported
///           to the error sink, and the memory stays a spare.
/// Threads   One thread at a time.
/// Streams   No function waits for a stream. No stream may use the pages that are dropped, nor
///           addresses that are backed by other memory than they had last.
/// Cost      One driver call to create, map, unmap or destroy each page. One call per contiguous
///           run of pages to set access rights. None for memory that returns to its last page.
template <virtual_memory Memory>
class virtual_span {
public:
    using handle = typename Memory::handle;

    /// Value that means no page.
    static constexpr std::uint32_t nowhere = page_pieces<handle>::nowhere;

    /// `page` is a multiple of `memory.granularity()`, and `bytes` a multiple of `page`. The start
    /// of the range is aligned to the largest power of two that divides `page`, so that for every
    /// alignment some page is aligned.
    virtual_span(Memory memory, std::size_t bytes, std::size_t page)
        : page_{page}, pieces_{bytes / page}, range_{memory, bytes, page & (~page + 1)} {}
    virtual_span(virtual_span&& other) noexcept
        : page_{other.page_},
          calls_{std::exchange(other.calls_, 0)},
          pieces_{std::move(other.pieces_)},
          range_{std::move(other.range_)} {}
    virtual_span& operator=(virtual_span&&) = delete;
    ~virtual_span() {
        trim(0);
        drop(0, pages(), 0);
        for (std::size_t i = 0; i < spares();
             ++i) { // the driver frees it once its mappings are gone
            memory().destroy(pieces_.memory(pieces_.spare_at(i)), page_);
        }
    }

    /// Backs each unbacked page of [first, last): with the memory that the page had last, if that
    /// is a spare, else with another spare, else with new memory. If it throws, it backed no page.
    void fill(std::size_t first, std::size_t last) {
        std::size_t const had  = spares();
        std::size_t       bare = 0;
        for (std::size_t i = first; i < last; ++i) { bare += mapped(i) ? 0 : 1; }
        numbers done;
        done.reserve(bare);
        try {
            while (spares() < bare) { make(); } // creates all missing memory before it maps a page
            for (number i = to_number(first); i < last; ++i) {
                if (pieces_.piece(i) == nowhere || mapped(i) || moved_to(i) != nowhere) {
                    continue;
                }
                pieces_.attach(i); // the page still has a mapping to the memory that it had last
                done.push_back(i);
            }
            for (number i = to_number(first); i < last; ++i) {
                if (mapped(i)) { continue; }
                put(i, pieces_.spare_at(spares() - 1));
                pieces_.attach(i);
                done.push_back(i);
            }
            grant(done);
        } catch (...) {
            for (number const i : done) {
                pieces_.detach(i);
                unmap_without_access(i);
            }
            trim(had);
            throw;
        }
    }

    /// Releases the memory of the pages [first, last) to the device, except that up to `spare`
    /// spares are kept. Returns how many backed pages lost their memory; those that could not be
    /// unmapped are not counted.
    std::size_t drop(std::size_t first, std::size_t last, std::size_t spare) noexcept {
        std::size_t gone = 0;
        for (number i = to_number(first); i < last; ++i) {
            if (!mapped(i)) { continue; }
            pieces_.detach(i);
            if (spares() <= spare || destroy(pieces_.piece(i))) { ++gone; }
        }
        return gone;
    }

    /// Moves memory from the backed pages of [from, from_end) to the unbacked pages of [to,
    /// to_end), in order, until one of the two is exhausted. Returns how many pages were moved. If
    /// a page cannot be moved, its memory stays.
    std::size_t move(std::size_t from, std::size_t from_end, std::size_t to,
                     std::size_t to_end) noexcept {
        numbers done; // mapped, but the old pages stay the owners until the end
        try {
            done.reserve(to_end - to);
            for (number i = to_number(to); i < to_end; ++i) {
                if (mapped(i)) { continue; }
                while (from < from_end && !mapped(from)) { ++from; }
                if (from == from_end) { break; }
                number const k = pieces_.piece(to_number(from++));
                if (pieces_.piece(i) != k) { put(i, k); }
                done.push_back(i);
            }
        } catch (...) {} // the pages mapped so far are moved
        try {
            grant(done);
        } catch (...) {}
        std::size_t moved = 0;
        for (number const i : done) {
            if (pieces_.granted(i)) {
                pieces_.attach(i);
                ++moved;
            } else {
                unmap_without_access(i);
            }
        }
        return moved;
    }

    /// Releases spares to the device until at most `spare` are left. Returns how many were
    /// released.
    std::size_t trim(std::size_t spare) noexcept {
        std::size_t gone = 0;
        for (std::size_t i = spares(); i-- > 0 && spares() > spare;) {
            gone += destroy(pieces_.spare_at(i)) ? 1 : 0;
        }
        return gone;
    }

    /// Returns true if page `i` is backed. `physical` returns its memory.
    [[nodiscard]] bool   mapped(std::size_t i) const noexcept { return pieces_.has(to_number(i)); }
    [[nodiscard]] handle physical(std::size_t i) const noexcept {
        return pieces_.memory(pieces_.piece(to_number(i)));
    }
    /// Returns the page that owns the memory which page `i` had last, or `nowhere`.
    [[nodiscard]] std::uint32_t moved_to(std::size_t i) const noexcept {
        return pieces_.current_owner(to_number(i));
    }
    [[nodiscard]] void* address(std::size_t i) const noexcept {
        return static_cast<std::byte*>(range_.base()) + i * page_;
    }

    [[nodiscard]] std::size_t page() const noexcept { return page_; } ///< bytes of a page
    [[nodiscard]] std::size_t pages() const noexcept { return pieces_.pages(); }
    /// Returns the number of pieces of physical memory, including spares.
    [[nodiscard]] std::size_t held() const noexcept { return pieces_.held(); }
    [[nodiscard]] std::size_t spares() const noexcept { return pieces_.spares(); }
    /// Returns the number of pieces created and destroyed so far.
    [[nodiscard]] std::uint64_t                calls() const noexcept { return calls_; }
    [[nodiscard]] address_range<Memory> const& range() const noexcept { return range_; }
    [[nodiscard]] Memory const&                memory() const noexcept { return range_.memory(); }

private:
    using number  = std::uint32_t; ///< index of a page or of a piece
    using numbers = std::vector<number>;

    static number to_number(auto i) noexcept { return static_cast<number>(i); }

    /// Creates a spare.
    void make() {
        pieces_.reserve();
        pieces_.add(memory().create(page_));
        ++calls_;
    }
    /// Unmaps a spare from all pages and destroys it. If a call fails, reports the error, keeps the
    /// spare and returns false.
    bool destroy(number k) noexcept {
        for (number i = pieces_.stale_page(k); i != nowhere; i = pieces_.stale_page(k)) {
            try {
                unmap(i);
            } catch (...) {
                report_caught({.kind     = error_kind::platform_error,
                               .pointer  = address(i),
                               .bytes    = page_,
                               .resource = "virtual_source",
                               .call     = "unmapping a page"});
                return false;
            }
        }
        memory().destroy(pieces_.memory(k), page_);
        pieces_.remove(k);
        ++calls_;
        return true;
    }

    /// Maps an unbacked page to a piece. The mapping is stale and has no access rights.
    void put(number i, number k) {
        if (pieces_.piece(i) != nowhere) { unmap(i); }
        memory().map(address(i), pieces_.memory(k), page_);
        pieces_.map(i, k);
    }
    void unmap(number i) {
        memory().unmap(address(i), page_);
        pieces_.unmap(i);
    }
    /// Unmaps a page with a stale mapping and no access rights. If the call fails, it stays
    /// mapped.
    void unmap_without_access(number i) noexcept {
        try {
            if (!pieces_.granted(i)) { unmap(i); }
        } catch (...) {}
    }
    /// Sets access rights, with one call per contiguous run of pages.
    void grant(numbers const& which) {
        for (auto i = which.begin(); i != which.end();) {
            auto end = i;
            while (end != which.end() && !pieces_.granted(*end) &&
                   *end == *i + to_number(end - i)) {
                ++end;
            }
            if (end == i) {
                ++i;
                continue;
            }
            memory().set_access(address(*i), static_cast<std::size_t>(end - i) * page_);
            for (; i != end; ++i) { pieces_.grant(*i); }
        }
    }

    std::size_t           page_;
    std::uint64_t         calls_ = 0;
    page_pieces<handle>   pieces_;
    address_range<Memory> range_; ///< constructed last and destroyed first, before the table
};

} // namespace vram
