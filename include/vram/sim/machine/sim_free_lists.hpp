// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_free_lists` holds lists of address ranges, and orders of their entries.

#include <vram/base/requirements.hpp>

#include <compare> // <=>
#include <cstddef>
#include <iterator> // prev
#include <map>      // map
#include <set>      // set
#include <utility>

namespace vram {
namespace detail {

/// Lists of disjoint address ranges, each list with a number, and a set of keys that orders the
/// ranges, for example by size. Changes allocate no host memory: `stock` does that before.
///
/// Failure   Only `stock` throws, `std::bad_alloc`.
/// Cost      O(log ranges).
class sim_free_lists {
public:
    /// One range of a list.
    struct range {
        std::size_t end = 0;
        std::size_t age = 0; ///< increases with each insertion
        /// Number of the stream that freed the range last, and the ticket of that free.
        std::size_t stream = 0, ticket = 0;
        bool        pending = false; ///< true if this free is not complete
        /// For a range of the pool's list: true if it has a key of this kind.
        bool whole = false, spare = false;
    };
    /// Kinds of keys: ranges by size, wholly backed ranges by size, ranges with a unit that can be
    /// moved by place, and ranges by ticket.
    enum kind : std::size_t { by_size, whole, spare, by_ticket };
    /// The kind, the list, the size (or place, or ticket), the age, and the begin of the range.
    struct key {
        std::size_t what, list, value, age, begin;

        friend auto operator<=>(key const&, key const&) = default;
    };
    using place  = std::pair<std::size_t, std::size_t>; ///< a list and the begin of a range
    using ranges = std::map<place, range>;
    using keys   = std::set<key>;

    /// Allocates host memory, so that `more_ranges` ranges and `more_keys` keys can be added. Frees
    /// unused memory if there is much more.
    void stock(std::size_t more_ranges, std::size_t more_keys) {
        while (idle_ranges_.size() < more_ranges) { idle_ranges_.emplace(next_place(), range{}); }
        while (idle_keys_.size() < more_keys) { idle_keys_.insert({0, 0, 0, 0, next_++}); }
        drop(idle_ranges_, more_ranges);
        drop(idle_keys_, more_keys);
    }

    /// Adds a range to a list. The range gets the next age.
    void add(std::size_t list, std::size_t begin, range const& r) noexcept {
        auto node         = idle_ranges_.extract(idle_ranges_.begin());
        node.key()        = {list, begin};
        node.mapped()     = r;
        node.mapped().age = ++age_;
        ranges_.insert(std::move(node));
    }
    void remove(ranges::const_iterator at) noexcept {
        auto node  = ranges_.extract(at);
        node.key() = next_place();
        idle_ranges_.insert(std::move(node));
    }
    void mark(key const& k) noexcept {
        auto node    = idle_keys_.extract(idle_keys_.begin());
        node.value() = k;
        keys_.insert(std::move(node));
    }
    void unmark(key const& k) noexcept {
        auto node    = keys_.extract(k);
        node.value() = {0, 0, 0, 0, next_++};
        idle_keys_.insert(std::move(node));
    }

    /// Returns the range of `list` that begins at `begin`.
    [[nodiscard]] ranges::iterator at(std::size_t list, std::size_t begin) noexcept {
        return ranges_.find({list, begin});
    }
    /// Returns the range of `list` that begins at `begin` or is the next one, or `none()`.
    [[nodiscard]] ranges::iterator from(std::size_t list, std::size_t begin) noexcept {
        auto const i = ranges_.lower_bound({list, begin});
        return i != ranges_.end() && i->first.first == list ? i : none();
    }
    /// Returns the last range of `list` that begins before `begin`, or `none()`.
    [[nodiscard]] ranges::iterator before(std::size_t list, std::size_t begin) noexcept {
        auto const i = ranges_.lower_bound({list, begin});
        return i != ranges_.begin() && std::prev(i)->first.first == list ? std::prev(i) : none();
    }
    [[nodiscard]] ranges::iterator none() noexcept { return ranges_.end(); }
    /// Returns the number of the first list from `list` on that has a range, or the largest number.
    [[nodiscard]] std::size_t next_list(std::size_t list) const noexcept {
        auto const i = ranges_.lower_bound({list, 0});
        return i != ranges_.end() ? i->first.first : ~std::size_t{0};
    }

    /// Returns the first key of this kind and list with at least this value, or null.
    [[nodiscard]] key const* first(kind what, std::size_t list, std::size_t value) const noexcept {
        return here(keys_.lower_bound({what, list, value, 0, 0}), what, list);
    }
    /// Returns the stored key that is equal to `k`.
    [[nodiscard]] key const* find(key const& k) const noexcept { return &*keys_.find(k); }
    /// Returns the key of the same kind and list after or before `k`, or null.
    [[nodiscard]] key const* after(key const& k) const noexcept {
        return here(keys_.upper_bound(k), k.what, k.list);
    }
    [[nodiscard]] key const* before(key const& k) const noexcept {
        auto const i = keys_.lower_bound(k);
        return i == keys_.begin() ? nullptr : here(std::prev(i), k.what, k.list);
    }

private:
    [[nodiscard]] place      next_place() noexcept { return {0, next_++}; }
    [[nodiscard]] key const* here(keys::const_iterator i, std::size_t what,
                                  std::size_t list) const noexcept {
        return i != keys_.end() && i->what == what && i->list == list ? &*i : nullptr;
    }
    template <class Container>
    static void drop(Container& idle, std::size_t needed) noexcept {
        while (idle.size() > 2 * needed + 64) { idle.erase(idle.begin()); }
    }

    ranges      ranges_;
    keys        keys_;
    ranges      idle_ranges_; ///< nodes for ranges that will be added
    keys        idle_keys_;
    std::size_t next_ = 0; ///< distinguishes the idle nodes
    std::size_t age_  = 0;
};

} // namespace detail
} // namespace vram
