// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `virtual_span` is a reserved address range that maps physical memory to each page separately.

#include <vram/base/core/heap_array.hpp>
#include <vram/base/core/report_caught.hpp>
#include <vram/base/error.hpp> // error_kind
#include <vram/source/core/address_range.hpp>
#include <vram/source/core/page_pieces.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// A reserved address range that is divided into pages. Each page may be backed by a piece of
/// physical memory. A piece can be moved to another page. The first page then stays mapped to the
/// piece (a stale mapping), so that moving the piece back needs no driver call. A piece that backs
/// no page is a spare.
///
///     virtual_span span{memory, 1_GiB, 2_MiB};
///     span.fill(0, 10);        // backs the first ten pages
///     span.move(0, 5, 20, 25); // moves the memory of five pages to pages 20 to 24
///     span.move(20, 25, 0, 5); // and back, without a driver call
///
/// Failure   `fill` throws `out_of_memory` or the error of the platform, and then has backed no
///           page.
/// Threads   One thread at a time.
/// Streams   No function waits for a stream: no stream may use a page that loses its memory.
template <virtual_memory Memory>
class virtual_span {
public:
    using handle = typename Memory::handle;

    static constexpr std::uint32_t nowhere = page_pieces<handle>::nowhere;

    /// Reserves `bytes` bytes in pages of `page` bytes. `page` is a multiple of
    /// `memory.granularity()`, and `bytes` of `page`.
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
        // Destroys the pieces of physical memory from which a page could not be unmapped. The
        // driver frees the memory of such a piece once no page is mapped to it.
        for (std::size_t i = 0; i < spares(); ++i) {
            memory().destroy(pieces_.memory(pieces_.spare_at(i)), page_);
        }
    }

    /// Maps physical memory to each page of [first, last) that has none. If it throws, all of these
    /// pages are without memory again.
    void fill(std::size_t first, std::size_t last) {
        std::size_t const had  = spares();
        std::size_t       bare = 0;
        for (std::size_t i = first; i < last; ++i) { bare += mapped(i) ? 0 : 1; }
        numbers done;
        done.reserve(bare);
        try {
            // Creates the memory for all pages first, so that no page has changed if this fails.
            while (spares() < bare) { make(); }
            for (number i = to_number(first); i < last; ++i) {
                if (pieces_.piece(i) == nowhere || mapped(i) || moved_to(i) != nowhere) {
                    continue;
                }
                // The page is still mapped to the memory that backed it last. So it needs no driver
                // call.
                pieces_.attach(i);
                done.push(i);
            }
            for (number i = to_number(first); i < last; ++i) {
                if (mapped(i)) { continue; }
                put(i, pieces_.spare_at(spares() - 1));
                pieces_.attach(i);
                done.push(i);
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

    /// Takes the physical memory from the pages [first, last). A piece of it becomes a spare (it
    /// backs no page) while there are fewer than `spare` spares. Other pieces are destroyed.
    /// Returns the number of taken pieces, without those that could not be destroyed.
    std::size_t drop(std::size_t first, std::size_t last, std::size_t spare) noexcept {
        std::size_t gone = 0;
        for (number i = to_number(first); i < last; ++i) {
            if (!mapped(i)) { continue; }
            pieces_.detach(i);
            if (spares() <= spare || destroy(pieces_.piece(i))) { ++gone; }
        }
        return gone;
    }

    /// Moves physical memory from pages of [from, from_end) to the pages of [to, to_end) that have
    /// none. Returns the number of pages to which memory was moved.
    std::size_t move(std::size_t from, std::size_t from_end, std::size_t to,
                     std::size_t to_end) noexcept {
        // Target pages that are mapped to the memory of a source page. The source page owns the
        // memory until the target page has access rights. So no page loses memory if a driver call
        // fails.
        numbers done;
        try {
            done.reserve(to_end - to);
            for (number i = to_number(to); i < to_end; ++i) {
                if (mapped(i)) { continue; }
                while (from < from_end && !mapped(from)) { ++from; }
                if (from == from_end) { break; }
                number const k = pieces_.piece(to_number(from++));
                if (pieces_.piece(i) != k) { put(i, k); }
                done.push(i);
            }
        } catch (...) {} // the memory that was mapped before the failure is moved
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

    /// Destroys spares (pieces of physical memory that back no page) until `spare` of them are
    /// left. A spare stays if the driver fails to unmap it. Returns the number of destroyed spares.
    std::size_t trim(std::size_t spare) noexcept {
        std::size_t gone = 0;
        for (std::size_t i = spares(); i-- > 0 && spares() > spare;) {
            gone += destroy(pieces_.spare_at(i)) ? 1 : 0;
        }
        return gone;
    }

    /// `mapped` returns true if page `i` has physical memory; `physical` then returns its handle.
    [[nodiscard]] bool   mapped(std::size_t i) const noexcept { return pieces_.has(to_number(i)); }
    [[nodiscard]] handle physical(std::size_t i) const noexcept {
        return pieces_.memory(pieces_.piece(to_number(i)));
    }
    /// If page `i` is mapped to physical memory that now backs another page, returns that other
    /// page. Otherwise returns `nowhere`.
    [[nodiscard]] std::uint32_t moved_to(std::size_t i) const noexcept {
        return pieces_.current_owner(to_number(i));
    }
    [[nodiscard]] void* address(std::size_t i) const noexcept {
        return static_cast<std::byte*>(range_.base()) + i * page_;
    }

    [[nodiscard]] std::size_t page() const noexcept { return page_; }
    [[nodiscard]] std::size_t pages() const noexcept { return pieces_.pages(); }
    /// Returns the number of pieces of physical memory, including those that back no page.
    [[nodiscard]] std::size_t held() const noexcept { return pieces_.held(); }
    [[nodiscard]] std::size_t spares() const noexcept { return pieces_.spares(); }
    /// Returns how many driver calls created or destroyed a piece of physical memory so far.
    [[nodiscard]] std::uint64_t                calls() const noexcept { return calls_; }
    [[nodiscard]] address_range<Memory> const& range() const noexcept { return range_; }
    [[nodiscard]] Memory const&                memory() const noexcept { return range_.memory(); }

private:
    using number  = std::uint32_t; ///< index of a page, or of a piece of physical memory
    using numbers = heap_array<number>;

    static number to_number(auto i) noexcept { return static_cast<number>(i); }

    /// Creates a piece of physical memory that backs no page.
    void make() {
        pieces_.reserve();
        pieces_.add(memory().create(page_));
        ++calls_;
    }
    /// Destroys the piece `k` of physical memory, which backs no page. First unmaps the pages that
    /// are still mapped to it. If that fails, reports the error to the error sink and returns
    /// false.
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

    /// Maps page `i` to the piece `k` of physical memory. If the page is mapped to another piece,
    /// unmaps it first. The page has no access rights, and does not own the piece yet.
    void put(number i, number k) {
        if (pieces_.piece(i) != nowhere) { unmap(i); }
        memory().map(address(i), pieces_.memory(k), page_);
        pieces_.map(i, k);
    }
    void unmap(number i) {
        memory().unmap(address(i), page_);
        pieces_.unmap(i);
    }
    /// Unmaps page `i` if its mapping has no access rights. The page must not own its memory.
    /// Ignores errors.
    void unmap_without_access(number i) noexcept {
        try {
            if (!pieces_.granted(i)) { unmap(i); }
        } catch (...) {}
    }
    /// Sets access rights for those pages of `which` that have none. Makes one driver call for each
    /// sequence of adjacent pages.
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

    std::size_t         page_;
    std::uint64_t       calls_ = 0;
    page_pieces<handle> pieces_;
    /// Must be the last member. Addresses are reserved only after `pieces_` has allocated host
    /// memory, and are released before `pieces_` is destroyed.
    address_range<Memory> range_;
};

} // namespace detail
} // namespace vram
