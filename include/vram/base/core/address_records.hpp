// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `address_records` is a hash table from addresses to records, which the table owns.

#include <vram/base/core/address_map.hpp>

#include <bit> // bit_cast
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// A hash table that owns one record for each address, such as that of a live block. A record stays
/// in place until erased.
///
/// Failure   `at` throws `std::bad_alloc` and changes nothing; no other function fails.
/// Threads   One thread at a time.
template <class Record>
class address_records {
public:
    address_records() = default;
    address_records(address_records&& other) noexcept : records_{std::move(other.records_)} {}
    address_records& operator=(address_records&& other) noexcept {
        std::swap(records_, other.records_);
        return *this;
    }
    ~address_records() {
        records_.for_each([](std::uint64_t, Record* each) { delete each; });
    }

    /// Returns the record of the address `p`. Adds a default one if there is none.
    [[nodiscard]] Record& at(void const* p) {
        if (Record* const known = find(p)) { return *known; }
        records_.reserve(1);
        auto* const fresh = new Record{};
        records_.insert(key(p), fresh);
        return *fresh;
    }
    [[nodiscard]] Record* find(void const* p) const noexcept { return records_.find(key(p)); }
    /// Removes the record of the address `p` from the table and moves it into the object `to`.
    /// Returns false if there is none.
    bool take(void const* p, Record& to) noexcept {
        Record* const found = find(p);
        if (found == nullptr) { return false; }
        records_.erase(key(p));
        to = std::move(*found);
        delete found;
        return true;
    }
    /// Calls `visit(record)` for each record, in any order. `visit` must not change the table.
    template <class Visit>
    void for_each(Visit const& visit) const {
        records_.for_each([&](std::uint64_t, Record const* each) { visit(*each); });
    }
    [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }

private:
    [[nodiscard]] static std::uint64_t key(void const* p) noexcept {
        return std::bit_cast<std::uintptr_t>(p);
    }

    address_map<Record> records_;
};

} // namespace detail
} // namespace vram
