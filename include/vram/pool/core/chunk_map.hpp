// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `chunk_map` finds the owner of the chunk that contains an address, without a lock.

#include <vram/base/core/heap_array.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// A sorted array of chunks by address. Finds the owner of a chunk (the index of a shard of an
/// arena) for any address in the chunk. Readers take no lock: a version counter shows them
/// concurrent changes (a seqlock: Boehm, 2012).
///
/// Failure   `reserve` throws `std::bad_alloc` and changes nothing.
/// Threads   Any thread may call `try_find` concurrently. The other functions need a lock. A move
///           needs exclusive access.
class chunk_map {
public:
    /// Result of `find` and `try_find` for an address that lies in no chunk.
    static constexpr unsigned nobody = ~0U;
    /// Result of `try_find` if the map kept changing during the lookup.
    static constexpr unsigned contended = ~0U - 1;

    chunk_map() = default;
    chunk_map(chunk_map&& other) noexcept { *this = static_cast<chunk_map&&>(other); }
    chunk_map& operator=(chunk_map&& other) noexcept {
        if (this == &other) { return *this; }
        drop();
        now_.store(other.now_.exchange(nullptr));
        size_.store(other.size_.exchange(0));
        return *this;
    }
    ~chunk_map() { drop(); }

    /// Makes room for `more` further chunks, so that as many calls of `insert` cannot fail.
    void reserve(std::size_t more) {
        std::size_t const count = size() + more;
        table* const      old   = now_.load(std::memory_order_relaxed);
        std::size_t const room  = old != nullptr ? old->cells.size() : 0;
        if (count <= room) { return; }
        auto* const fresh = new table{count < 2 * room ? 2 * room : count, old};
        for (std::size_t i = 0; i < size(); ++i) { fresh->cells[i].set(old->cells[i].get()); }
        now_.store(fresh, std::memory_order_release);
    }

    /// Adds a chunk that overlaps no other. `owner` is the index of the shard (pool) that owns the
    /// chunk. Requires a call of `reserve` before.
    void insert(void const* base, std::size_t bytes, unsigned owner) noexcept {
        auto const        first = reinterpret_cast<std::uintptr_t>(base);
        std::size_t const at    = behind(first);
        change const      under_way{version_};
        auto&             cells = now_.load(std::memory_order_relaxed)->cells;
        for (std::size_t i = size(); i > at; --i) { cells[i].set(cells[i - 1].get()); }
        cells[at].set({first, first + bytes, owner});
        size_.store(size() + 1, std::memory_order_release);
    }
    /// Removes the chunk that begins at `base`, which must exist.
    void erase(void const* base) noexcept {
        std::size_t const next = behind(reinterpret_cast<std::uintptr_t>(base));
        change const      under_way{version_};
        auto&             cells = now_.load(std::memory_order_relaxed)->cells;
        for (std::size_t i = next; i < size(); ++i) { cells[i - 1].set(cells[i].get()); }
        size_.store(size() - 1, std::memory_order_release);
    }

    /// Returns the index of the shard that owns the chunk around `p`, or `nobody`.
    [[nodiscard]] unsigned find(void const* p) const noexcept {
        auto const        address = reinterpret_cast<std::uintptr_t>(p);
        std::size_t const next    = behind(address);
        if (next == 0) { return nobody; }
        chunk const below = now_.load(std::memory_order_acquire)->cells[next - 1].get();
        return address < below.end ? below.owner : nobody;
    }
    /// Same as `find`, but without a lock. Makes several attempts. Returns `contended` if other
    /// threads changed the map during each of them.
    [[nodiscard]] unsigned try_find(void const* p) const noexcept {
        for (int tries = 0; tries < 8; ++tries) {
            std::uint64_t const before = version_.load(std::memory_order_acquire);
            if (before % 2 != 0) { continue; }
            unsigned const owner = find(p);
            // If the version is unchanged, no other thread changed the map during `find`. The
            // acquire loads in `find` ensure that this load comes after them.
            if (version_.load(std::memory_order_relaxed) == before) { return owner; }
        }
        return contended;
    }
    [[nodiscard]] std::size_t size() const noexcept {
        return size_.load(std::memory_order_acquire);
    }

private:
    struct chunk {
        std::uintptr_t begin = 0;
        std::uintptr_t end   = 0;
        unsigned       owner = nobody;
    };
    struct cell {
        cell() = default;
        cell(cell&& other) noexcept { set(other.get()); }

        [[nodiscard]] chunk get() const noexcept {
            return {begin.load(std::memory_order_acquire), end.load(std::memory_order_acquire),
                    owner.load(std::memory_order_acquire)};
        }
        /// Stores `c` with release order. If a concurrent `try_find` reads a new value, it then
        /// also reads the changed `version_` and repeats its search.
        void set(chunk const& c) noexcept {
            begin.store(c.begin, std::memory_order_release);
            end.store(c.end, std::memory_order_release);
            owner.store(c.owner, std::memory_order_release);
        }

        std::atomic<std::uintptr_t> begin{};
        std::atomic<std::uintptr_t> end{};
        std::atomic<unsigned>       owner{};
    };
    struct table {
        table(std::size_t places, table* before) : older{before} {
            cells.reserve(places);
            while (cells.size() < places) { cells.push(); }
        }

        heap_array<cell> cells;
        /// Table that was replaced by this one; other threads may still read it.
        table* older;
    };
    /// While an object of this type exists, the map is being changed. The version is odd during
    /// that time, so that `try_find` repeats its search.
    struct change {
        std::atomic<std::uint64_t>& version;
        std::uint64_t const         before;

        explicit change(std::atomic<std::uint64_t>& v) noexcept
            : version{v}, before{v.load(std::memory_order_relaxed)} {
            version.store(before + 1, std::memory_order_relaxed);
        }
        change(change const&) = delete;
        ~change() { version.store(before + 2, std::memory_order_release); }
    };

    /// Returns the index of the first chunk that begins behind `address`, or `size()` if none does.
    [[nodiscard]] std::size_t behind(std::uintptr_t address) const noexcept {
        table const* const all = now_.load(std::memory_order_acquire);
        if (all == nullptr) { return 0; }
        std::size_t low = 0, high = size();
        // Another thread may have replaced the table `all` by a larger one after `all` was read. So
        // `size()` can exceed the number of cells of `all`.
        if (high > all->cells.size()) { high = all->cells.size(); }
        while (low != high) {
            std::size_t const middle = low + (high - low) / 2;
            bool const below = all->cells[middle].begin.load(std::memory_order_acquire) <= address;
            (below ? low : high) = below ? middle + 1 : middle;
        }
        return low;
    }
    void drop() noexcept {
        for (table* each = now_.exchange(nullptr); each != nullptr;) {
            delete std::exchange(each, each->older);
        }
    }

    std::atomic<table*>        now_     = nullptr;
    std::atomic<std::size_t>   size_    = 0;
    std::atomic<std::uint64_t> version_ = 0;
};

} // namespace detail
} // namespace vram
