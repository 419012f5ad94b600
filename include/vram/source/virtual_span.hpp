// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `virtual_span` is a reserved range cut into pages, each with memory behind it or without.

#include <vram/base/error.hpp>           // report_error
#include <vram/source/address_range.hpp> // address_range
#include <vram/source/page_pieces.hpp>   // page_pieces

#include <cstddef>      // size_t, byte
#include <cstdint>      // uint32_t, uint64_t
#include <system_error> // system_error
#include <utility>      // move, exchange
#include <vector>       // vector

namespace vram {

/// Pages are numbered from the front of the range. A page whose memory goes elsewhere stays mapped
/// to it, unused: when just that memory comes back no call of the driver is made, and one that
/// repeats itself, as a training loop does, soon makes none at all (after the stitched blocks of
/// GMLake, 2024). Memory that was taken from one page and is behind no other is a spare.
///
///     virtual_span span{memory, 1_GiB, 2_MiB};
///     span.fill(0, 10);        // the first ten pages have memory
///     span.move(0, 5, 20, 25); // five of them are pages 20 to 24 now
///     span.move(20, 25, 0, 5); // and back, at no cost
///
/// Failure   `fill` throws, with all as it was. What cannot be unmapped is told to the error sink,
///           and its memory is a spare until it can
/// Threads   one at a time
/// Streams   none: what is dropped is out of use, and so are addresses that get memory other than
///           they had last
/// Cost      one call of the driver to create, map, unmap and destroy each page; one for each run
///           of pages to give access; none for memory that comes back
template <virtual_memory Memory>
class virtual_span {
public:
    using handle = typename Memory::handle;

    static constexpr std::uint32_t nowhere = page_pieces<handle>::nowhere; ///< no page

    /// `page` is a multiple of the memory's granularity, `bytes` one of `page`. The range begins as
    /// a power of two in `page` does, so that for every alignment some page has it.
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
        for (std::size_t i = 0; i < spares(); ++i) { // what stays mapped goes with its mappings
            memory().destroy(pieces_.memory(pieces_.spare_at(i)), page_);
        }
    }

    /// Gives memory to each of the pages [first, last) that has none: what it had last where that
    /// is a spare, other spares, then new. All or none.
    void fill(std::size_t first, std::size_t last) {
        std::size_t const had  = spares();
        std::size_t       bare = 0;
        for (std::size_t i = first; i < last; ++i) { bare += mapped(i) ? 0 : 1; }
        numbers done;
        done.reserve(bare);
        try {
            while (spares() < bare) { make(); } // before anything is mapped in vain
            for (number i = to_number(first); i < last; ++i) {
                if (pieces_.piece(i) == nowhere || mapped(i) || moved_to(i) != nowhere) {
                    continue;
                }
                pieces_.occupy(i); // the spare that it had last
                done.push_back(i);
            }
            for (number i = to_number(first); i < last; ++i) {
                if (mapped(i)) { continue; }
                put(i, pieces_.spare_at(spares() - 1));
                pieces_.occupy(i);
                done.push_back(i);
            }
            grant(done);
        } catch (...) {
            for (number const i : done) {
                pieces_.vacate(i);
                forget_closed(i);
            }
            trim(had);
            throw;
        }
    }

    /// Takes the memory of the pages [first, last) away: it is the device's again, but for as much
    /// as makes `spare` spares. Returns how many pages had some, but for those of which the device
    /// could not have it.
    std::size_t drop(std::size_t first, std::size_t last, std::size_t spare) noexcept {
        std::size_t gone = 0;
        for (number i = to_number(first); i < last; ++i) {
            if (!mapped(i)) { continue; }
            pieces_.vacate(i);
            if (spares() <= spare || destroy(pieces_.piece(i))) { ++gone; }
        }
        return gone;
    }

    /// Moves memory from pages of [from, from_end) to those of [to, to_end) that have none, in
    /// order, until either runs out. Returns how many pages moved; what could not is where it was.
    std::size_t move(std::size_t from, std::size_t from_end, std::size_t to,
                     std::size_t to_end) noexcept {
        numbers done; // these are mapped to the memory, which is in use where it was until the end
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
        } catch (...) {} // those before are as good as any
        try {
            grant(done);
        } catch (...) {}
        std::size_t moved = 0;
        for (number const i : done) {
            if (pieces_.granted(i)) {
                pieces_.occupy(i);
                ++moved;
            } else {
                forget_closed(i);
            }
        }
        return moved;
    }

    /// Gives spares back to the device until at most `spare` are left. Returns how many went.
    std::size_t trim(std::size_t spare) noexcept {
        std::size_t gone = 0;
        for (std::size_t i = spares(); i-- > 0 && spares() > spare;) {
            gone += destroy(pieces_.spare_at(i)) ? 1 : 0;
        }
        return gone;
    }

    /// Whether page `i` has memory, and which.
    [[nodiscard]] bool   mapped(std::size_t i) const noexcept { return pieces_.has(to_number(i)); }
    [[nodiscard]] handle physical(std::size_t i) const noexcept {
        return pieces_.memory(pieces_.piece(to_number(i)));
    }
    /// The page that has the memory that page `i` had last; `nowhere` where there is no such.
    [[nodiscard]] std::uint32_t moved_to(std::size_t i) const noexcept {
        return pieces_.went_to(to_number(i));
    }
    [[nodiscard]] void* address(std::size_t i) const noexcept {
        return static_cast<std::byte*>(range_.base()) + i * page_;
    }

    [[nodiscard]] std::size_t page() const noexcept { return page_; } ///< its size
    [[nodiscard]] std::size_t pages() const noexcept { return pieces_.pages(); }
    /// Pieces of memory, with an address or without.
    [[nodiscard]] std::size_t held() const noexcept { return pieces_.held(); }
    [[nodiscard]] std::size_t spares() const noexcept { return pieces_.spares(); }
    /// Calls that made or ended some.
    [[nodiscard]] std::uint64_t                calls() const noexcept { return calls_; }
    [[nodiscard]] address_range<Memory> const& range() const noexcept { return range_; }
    [[nodiscard]] Memory const&                memory() const noexcept { return range_.memory(); }

private:
    using number  = std::uint32_t; ///< of a page, or of a piece of memory
    using numbers = std::vector<number>;

    static number to_number(auto i) noexcept { return static_cast<number>(i); }

    /// A new spare.
    void make() {
        pieces_.reserve();
        pieces_.add(memory().create(page_));
        ++calls_;
    }
    /// Unmaps a spare wherever it is, and gives it back. What will not go is told, and stays.
    bool destroy(number k) noexcept {
        for (number i = pieces_.in_vain(k); i != nowhere; i = pieces_.in_vain(k)) {
            int code = 0;
            try {
                unmap(i);
                continue;
            } catch (std::system_error const& e) { code = e.code().value(); } catch (...) {
            }
            report_error({error_kind::platform_error, address(i), page_, code});
            return false;
        }
        memory().destroy(pieces_.memory(k), page_);
        pieces_.remove(k);
        ++calls_;
        return true;
    }

    /// Maps a page that has no memory to a piece: in vain as yet, and without access.
    void put(number i, number k) {
        if (pieces_.piece(i) != nowhere) { unmap(i); }
        memory().map(address(i), pieces_.memory(k), page_);
        pieces_.map(i, k);
    }
    void unmap(number i) {
        memory().unmap(address(i), page_);
        pieces_.unmap(i);
    }
    /// Unmaps a page, mapped in vain, to which access could not be had; if it will not go it stays.
    void forget_closed(number i) noexcept {
        try {
            if (!pieces_.granted(i)) { unmap(i); }
        } catch (...) {}
    }
    /// Makes pages usable, each run of them with one call.
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
    address_range<Memory> range_; ///< last to be made and first to end
};

} // namespace vram
