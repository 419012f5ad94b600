// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sorted_map` is a map from addresses to values with a compact index.

#include <vram/base/requirements.hpp>

#include <algorithm> // upper_bound
#include <cstddef>
#include <cstdint>
#include <memory> // unique_ptr
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// A map from addresses to values, as sorted arrays that fit in the processor's caches. Values
/// never move.
///
/// Failure   An insertion throws `std::bad_alloc` and leaves the map unchanged.
/// Cost      A lookup is O(log values).
template <class Value>
class sorted_map {
public:
    /// A position in a `sorted_map`: that of an entry, or the end. Each insertion into the map, and
    /// each removal, invalidates the position.
    class iterator {
    public:
        iterator() = default;

        [[nodiscard]] std::uintptr_t key() const noexcept { return entry().key; }
        [[nodiscard]] Value&         operator*() const noexcept { return *entry().value; }
        [[nodiscard]] Value*         operator->() const noexcept { return entry().value.get(); }

        iterator& operator++() noexcept {
            if (++at_ == map_->groups_[group_].entries.size()) { ++group_, at_ = 0; }
            return *this;
        }
        iterator& operator--() noexcept {
            if (at_ == 0) { at_ = map_->groups_[--group_].entries.size(); }
            --at_;
            return *this;
        }
        [[nodiscard]] bool operator==(iterator const&) const = default;

    private:
        friend class sorted_map;
        iterator(sorted_map* map, std::size_t group, std::size_t at)
            : map_{map}, group_{group}, at_{at} {}
        [[nodiscard]] auto& entry() const noexcept { return map_->groups_[group_].entries[at_]; }

        sorted_map* map_   = nullptr;
        std::size_t group_ = 0;
        std::size_t at_    = 0;
    };

    [[nodiscard]] bool        empty() const noexcept { return groups_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] iterator    begin() noexcept { return {this, 0, 0}; }
    [[nodiscard]] iterator    end() noexcept { return {this, groups_.size(), 0}; }

    /// Returns the position of the first key after `key`, or the end.
    [[nodiscard]] iterator upper_bound(std::uintptr_t key) noexcept {
        std::size_t const group = group_of(key);
        if (group == groups_.size()) { return end(); }
        std::size_t const at = after(groups_[group], key);
        return at == groups_[group].entries.size() ? iterator{this, group + 1, 0}
                                                   : iterator{this, group, at};
    }
    /// Returns the value with the largest key that is at most `key`, or null.
    [[nodiscard]] Value* before(std::uintptr_t key) noexcept {
        std::size_t const group = group_of(key);
        if (group == groups_.size()) { return nullptr; }
        std::size_t const at = after(groups_[group], key);
        return at == 0 ? nullptr : groups_[group].entries[at - 1].value.get();
    }
    /// Returns the position of `key`, or the end.
    [[nodiscard]] iterator find(std::uintptr_t key) noexcept {
        std::size_t const group = group_of(key);
        if (group == groups_.size()) { return end(); }
        std::size_t const at = after(groups_[group], key);
        bool const        is = at != 0 && groups_[group].entries[at - 1].key == key;
        return is ? iterator{this, group, at - 1} : end();
    }

    /// Returns the value of `key`. Adds a default-constructed one if there is none.
    Value& operator[](std::uintptr_t key) {
        std::size_t group = group_of(key);
        std::size_t at    = group == groups_.size() ? 0 : after(groups_[group], key);
        if (at != 0 && groups_[group].entries[at - 1].key == key) {
            return *groups_[group].entries[at - 1].value;
        }
        auto value = std::make_unique<Value>();
        if (group == groups_.size() || at == most) {
            group = groups_.empty() ? 0 : group + 1;
            at    = 0;
            add_group(group, 1);
        } else if (groups_[group].entries.size() == most) {
            split(group);
            if (at > most / 2) { ++group, at -= most / 2; }
        }
        auto& entries        = groups_[group].entries;
        auto& added          = *entries.insert(position(entries, at), entry{key, std::move(value)});
        groups_[group].first = entries.front().key;
        ++size_;
        return *added.value;
    }

    /// Removes an entry. Returns the position of the next one.
    iterator erase(iterator it) noexcept {
        auto& entries = groups_[it.group_].entries;
        entries.erase(position(entries, it.at_));
        --size_;
        if (entries.empty()) {
            groups_.erase(position(groups_, it.group_));
            return {this, it.group_, 0};
        }
        groups_[it.group_].first = entries.front().key;
        return it.at_ < entries.size() ? it : iterator{this, it.group_ + 1, 0};
    }
    void erase(std::uintptr_t key) noexcept {
        iterator const it = find(key);
        if (it != end()) { erase(it); }
    }

private:
    static constexpr std::size_t most = 64; ///< largest number of entries in one group (array)

    struct entry {
        std::uintptr_t         key;
        std::unique_ptr<Value> value;
    };
    /// A part of the map: a sorted array of entries with neighbouring keys. A group is empty only
    /// while `operator[]` adds an entry.
    struct group_of_entries {
        std::uintptr_t     first = 0; ///< key of the first entry in `entries`
        std::vector<entry> entries;
    };

    /// Returns the index of the last group (array of entries) with a first key of at most `key`.
    /// Returns 0 if there is no such group.
    [[nodiscard]] std::size_t group_of(std::uintptr_t key) const noexcept {
        auto const at = std::upper_bound(
            groups_.begin(), groups_.end(), key,
            [](std::uintptr_t k, group_of_entries const& g) { return k < g.first; });
        return at == groups_.begin() ? 0 : static_cast<std::size_t>(at - groups_.begin()) - 1;
    }
    /// Returns the index of the first entry in `group` with a key greater than `key`. Returns the
    /// number of entries if there is none.
    [[nodiscard]] static std::size_t after(group_of_entries const& group,
                                           std::uintptr_t          key) noexcept {
        auto const at =
            std::upper_bound(group.entries.begin(), group.entries.end(), key,
                             [](std::uintptr_t k, entry const& e) { return k < e.key; });
        return static_cast<std::size_t>(at - group.entries.begin());
    }
    /// Inserts an empty group (array of entries) into `groups_` at the index `group`. Reserves
    /// memory for `entries` entries in the new group.
    void add_group(std::size_t group, std::size_t entries) {
        group_of_entries added;
        added.entries.reserve(entries);
        groups_.insert(position(groups_, group), std::move(added));
    }
    /// Moves the second half of a full group to a new group.
    void split(std::size_t group) {
        add_group(group + 1, most);
        auto& entries = groups_[group].entries;
        auto& second  = groups_[group + 1].entries;
        for (std::size_t i = most / 2; i < most; ++i) { second.push_back(std::move(entries[i])); }
        entries.resize(most / 2);
        groups_[group + 1].first = second.front().key;
    }
    template <class Element>
    [[nodiscard]] static auto position(std::vector<Element>& of, std::size_t at) noexcept {
        return of.begin() + static_cast<std::ptrdiff_t>(at);
    }

    std::vector<group_of_entries> groups_; ///< sorted by their first keys
    std::size_t                   size_ = 0;
};

} // namespace detail
} // namespace vram
