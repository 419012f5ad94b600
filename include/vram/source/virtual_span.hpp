// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `virtual_span` is a reserved range cut into pages, each with memory behind it or without.

#include <vram/base/align.hpp>           // unsatisfiable
#include <vram/base/error.hpp>           // report_error
#include <vram/source/address_range.hpp> // address_range

#include <cstddef>      // size_t, byte
#include <cstdint>      // uint64_t
#include <system_error> // system_error
#include <utility>      // move, exchange
#include <vector>       // vector

namespace vram {

/// Pages are numbered from the front of the range. Memory that was taken from one page and could
/// not be put elsewhere is kept as a spare: nothing is lost when a call of the driver fails.
///
///     virtual_span span{memory, 1_GiB, 2_MiB};
///     span.fill(0, 10);       // the first ten pages have memory
///     span.move(0, 5, 20, 25); // five of them are pages 20 to 24 now
///
/// Failure   `fill` throws, with all as it was. What cannot be taken away is told to the error
/// sink,
///           and tried again by `trim` and at the end
/// Threads   one at a time
/// Streams   none: what is dropped or moved is out of use
/// Cost      one call of the driver to create, map, unmap and destroy each page; one for each run
/// of
///           pages to give access
template <virtual_memory Memory>
class virtual_span {
public:
    using handle = typename Memory::handle;

    /// `page` is a multiple of the memory's granularity, `bytes` one of `page`.
    virtual_span(Memory memory, std::size_t bytes, std::size_t page)
        : page_{page}, slots_(bytes / page), range_{memory, bytes, memory.granularity()} {}
    virtual_span(virtual_span&& other) noexcept
        : page_{other.page_},
          held_{std::exchange(other.held_, 0)},
          calls_{std::exchange(other.calls_, 0)},
          stuck_{std::exchange(other.stuck_, false)},
          slots_{std::exchange(other.slots_, {})},
          spares_{std::exchange(other.spares_, {})},
          range_{std::move(other.range_)} {}
    virtual_span& operator=(virtual_span&&) = delete;
    ~virtual_span() {
        drop(0, pages(), 0);
        for (slot& each : slots_) { // what stays mapped: its memory goes with the mapping
            if (each.now != state::none) { destroy(each.page); }
            each.now = state::none;
        }
        trim(0);
    }

    /// Gives memory to each of the pages [first, last) that has none: spares, then new. All or
    /// none.
    void fill(std::size_t first, std::size_t last) {
        std::size_t const had  = spares_.size();
        std::size_t       bare = 0;
        for (std::size_t i = first; i < last; ++i) { bare += slots_[i].now == state::none ? 1 : 0; }
        try {
            while (spares_.size() < bare) { make(); } // before anything is mapped in vain
            for (std::size_t i = first; i < last; ++i) {
                if (slots_[i].now == state::none) { put(i, take()); }
            }
            grant(first, last);
        } catch (...) {
            for (std::size_t i = last; i-- > first;) {
                bool const made = slots_[i].now == state::fresh || slots_[i].now == state::closed;
                if (made && unmap(i)) { spares_.push_back(slots_[i].page); }
            }
            keep(had);
            throw;
        }
    }

    /// Takes the memory of the pages [first, last) away: it is the device's again, but for as much
    /// as makes `spare` spares. Returns how many pages had some and have none now.
    std::size_t drop(std::size_t first, std::size_t last, std::size_t spare) noexcept {
        std::size_t gone = 0;
        for (std::size_t i = first; i < last; ++i) {
            if (slots_[i].now == state::none || !unmap(i)) { continue; }
            ++gone;
            spares_.push_back(slots_[i].page);
            if (spares_.size() > spare) { keep(spares_.size() - 1); }
        }
        return gone;
    }

    /// Moves memory from pages of [from, from_end) to those of [to, to_end) that have none, in
    /// order, until either runs out. Returns how many pages moved; what could not is where it was.
    std::size_t move(std::size_t from, std::size_t from_end, std::size_t to,
                     std::size_t to_end) noexcept {
        std::vector<step> steps;
        try {
            steps.reserve(to_end - to);
        } catch (...) { return 0; } // no room for the notes
        for (std::size_t i = to; i < to_end; ++i) {
            if (slots_[i].now != state::none) { continue; }
            while (from < from_end && slots_[from].now != state::open) { ++from; }
            if (from == from_end || !carry(from, i)) { break; }
            steps.push_back({from, i});
        }
        try {
            if (!steps.empty()) { grant(to, steps.back().to + 1); }
        } catch (...) {
            for (; !steps.empty() && slots_[steps.back().to].now == state::closed;
                 steps.pop_back()) {
                handle const page = slots_[steps.back().to].page;
                if (unmap(steps.back().to)) { restore(steps.back().from, page); }
            }
        }
        return steps.size();
    }

    /// Gives spares back to the device until at most `spare` are left. Returns how many went.
    std::size_t trim(std::size_t spare) noexcept {
        if (std::exchange(stuck_, false)) {
            for (std::size_t i = 0; i < slots_.size(); ++i) {
                if (slots_[i].now == state::closed && unmap(i)) {
                    spares_.push_back(slots_[i].page);
                }
            }
        }
        return keep(spare);
    }

    /// Whether page `i` has memory that can be used, and which.
    [[nodiscard]] bool mapped(std::size_t i) const noexcept { return slots_[i].now == state::open; }
    [[nodiscard]] handle physical(std::size_t i) const noexcept { return slots_[i].page; }
    [[nodiscard]] void*  address(std::size_t i) const noexcept {
        return static_cast<std::byte*>(range_.base()) + i * page_;
    }

    [[nodiscard]] std::size_t page() const noexcept { return page_; } ///< its size
    [[nodiscard]] std::size_t pages() const noexcept { return slots_.size(); }
    [[nodiscard]] std::size_t held() const noexcept {
        return held_;
    } ///< with an address or without
    [[nodiscard]] std::size_t   spares() const noexcept { return spares_.size(); }
    [[nodiscard]] std::uint64_t calls() const noexcept {
        return calls_;
    } ///< that made or ended some
    [[nodiscard]] address_range<Memory> const& range() const noexcept { return range_; }
    [[nodiscard]] Memory const&                memory() const noexcept { return range_.memory(); }

private:
    /// `closed` is mapped and of no use: not yet, or because it could not be unmapped. `fresh` is
    /// usable, in an operation that may yet fail.
    enum class state : unsigned char { none, closed, fresh, open };

    struct slot {
        handle page{};
        state  now = state::none;
    };
    struct step {
        std::size_t from, to;
    };

    void make() {
        // Every page may become a spare: that must not fail then.
        if (spares_.capacity() <= held_) { spares_.reserve(2 * held_ + 8); }
        spares_.push_back(memory().create(page_));
        ++held_;
        ++calls_;
    }
    handle take() noexcept {
        handle const page = spares_.back();
        spares_.pop_back();
        return page;
    }
    void destroy(handle page) noexcept {
        memory().destroy(page, page_);
        --held_;
        ++calls_;
    }
    /// Lets the spares beyond `count` go.
    std::size_t keep(std::size_t count) noexcept {
        std::size_t gone = 0;
        for (; spares_.size() > count; ++gone) {
            destroy(spares_.back());
            spares_.pop_back();
        }
        return gone;
    }

    void put(std::size_t i, handle page) {
        try {
            memory().map(address(i), page, page_);
        } catch (...) {
            spares_.push_back(page);
            throw;
        }
        slots_[i] = {page, state::closed};
    }

    /// Makes the closed pages of [first, last) usable, each run of them with one call: open when
    /// all are.
    void grant(std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last;) {
            std::size_t end = i;
            while (end < last && slots_[end].now == state::closed) { ++end; }
            if (end == i) {
                ++i;
                continue;
            }
            memory().set_access(address(i), (end - i) * page_);
            for (; i < end; ++i) { slots_[i].now = state::fresh; }
        }
        for (std::size_t i = first; i < last; ++i) {
            if (slots_[i].now == state::fresh) { slots_[i].now = state::open; }
        }
    }

    /// Page `i` is nowhere then; what will not go is told, and is of no use from here on.
    bool unmap(std::size_t i) noexcept {
        int code = 0;
        try {
            memory().unmap(address(i), page_);
            slots_[i].now = state::none;
            return true;
        } catch (std::system_error const& e) { code = e.code().value(); } catch (...) {
        }
        slots_[i].now = state::closed;
        stuck_        = true;
        report_error({mishap::platform_error, address(i), page_, code});
        return false;
    }

    /// From one address to another, without access there; or all stays as it is.
    bool carry(std::size_t from, std::size_t to) noexcept {
        handle const page = slots_[from].page;
        try {
            memory().unmap(address(from), page_);
        } catch (...) { return false; }
        slots_[from].now = state::none;
        try {
            memory().map(address(to), page, page_);
        } catch (...) {
            restore(from, page);
            return false;
        }
        slots_[to] = {page, state::closed};
        return true;
    }
    /// Back to where it was. Where not even that is possible, it is a spare.
    void restore(std::size_t i, handle page) noexcept {
        try {
            put(i, page);
            memory().set_access(address(i), page_);
            slots_[i].now = state::open;
        } catch (...) {
            stuck_ = stuck_ || slots_[i].now == state::closed;
            report_error({mishap::platform_error, address(i), page_, 0});
        }
    }

    std::size_t           page_;
    std::size_t           held_  = 0;
    std::uint64_t         calls_ = 0;
    bool                  stuck_ = false; ///< some page is closed that no operation is about
    std::vector<slot>     slots_;
    std::vector<handle>   spares_; ///< memory without an address; has room for all that is held
    address_range<Memory> range_;  ///< last to be made and first to end
};

} // namespace vram
