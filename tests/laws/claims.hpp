// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `claims` records the allocated bytes, and detects bytes that are allocated twice.

#include <array>     // array
#include <atomic>    // atomic
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t, uintptr_t
#include <memory>    // unique_ptr
#include <stdexcept> // length_error

namespace laws {

/// A bitmap of allocated address space, with one bit for 256 bytes, in pages that are allocated on
/// demand. Every pool allocates multiples of 256 bytes.
///
/// Threads   Any thread may call it concurrently.
/// Cost      One atomic instruction for each 16 KiB of a block.
class claims {
public:
    static constexpr std::size_t granule = 256;

    claims() : pages_{std::make_unique<std::array<slot, slots>>()} {}
    ~claims() {
        for (slot& each : *pages_) { delete each.bits.load(); }
    }
    claims(claims&&) = delete;

    /// Marks the bytes as allocated. Returns false if some of them already were.
    bool take(std::uintptr_t p, std::size_t bytes) {
        return each_word(p, bytes, [](word& w, std::uint64_t mask) {
            return (w.fetch_or(mask, std::memory_order_relaxed) & mask) == 0;
        });
    }
    /// Marks the bytes as free. Returns false if some of them already were.
    bool give(std::uintptr_t p, std::size_t bytes) {
        return each_word(p, bytes, [](word& w, std::uint64_t mask) {
            return (w.fetch_and(~mask, std::memory_order_relaxed) & mask) == mask;
        });
    }
    /// Returns true if none of the bytes is allocated.
    [[nodiscard]] bool free(std::uintptr_t p, std::size_t bytes) {
        return each_word(p, bytes, [](word& w, std::uint64_t mask) {
            return (w.load(std::memory_order_relaxed) & mask) == 0;
        });
    }

private:
    using word = std::atomic<std::uint64_t>;

    /// Largest number of pages: 1 TiB of addresses.
    static constexpr std::size_t slots      = 65536;
    static constexpr int         hash_shift = 48;
    static constexpr std::size_t words      = 1024;
    static constexpr std::size_t page_bytes = words * 64 * granule; // 16 MiB of addresses

    using page = std::array<word, words>;
    struct slot {
        std::atomic<std::uintptr_t> number{0};
        std::atomic<page*>          bits{nullptr};
    };

    template <class Act>
    bool each_word(std::uintptr_t p, std::size_t bytes, Act act) {
        bool                 well  = true;
        std::uintptr_t       first = p / granule;
        std::uintptr_t const end   = (p + bytes - 1) / granule + 1;
        while (first < end) {
            page&               bits  = page_of(first / (64 * words));
            std::size_t const   bit   = first % 64;
            std::size_t const   count = end - first < 64 - bit ? end - first : 64 - bit;
            std::uint64_t const mask =
                (count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1) << bit;
            well = act(bits[first / 64 % words], mask) && well;
            first += count;
        }
        return well;
    }

    page& page_of(std::uintptr_t number) {
        static_assert(slots == std::size_t{1} << (64 - hash_shift));
        std::size_t i = number * 0x9E3779B97F4A7C15U >> hash_shift;
        for (std::size_t tried = 0; tried < slots; ++tried, i = (i + 1) % slots) {
            slot&          s  = (*pages_)[i];
            std::uintptr_t at = s.number.load(std::memory_order_acquire);
            if (at == 0 && s.number.compare_exchange_strong(at, number)) { at = number; }
            if (at != number) { continue; }
            if (page* const there = s.bits.load(std::memory_order_acquire)) { return *there; }
            auto  fresh = std::make_unique<page>();
            page* none  = nullptr;
            return s.bits.compare_exchange_strong(none, fresh.get()) ? *fresh.release() : *none;
        }
        throw std::length_error{"claims: more than 1 TiB of addresses"};
    }

    std::unique_ptr<std::array<slot, slots>> pages_;
};

} // namespace laws
