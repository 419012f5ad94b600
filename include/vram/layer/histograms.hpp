// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `histograms` counts the sizes and lifetimes of blocks by powers of two, for `statistics`.

#include <vram/base/core/address_records.hpp>
#include <vram/base/core/durations.hpp> // nanoseconds, steady_clock

#include <array> // array
#include <bit>   // bit_width
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {

/// Counts values by powers of two: entry 0 counts zeros, and entry i counts the values from 2^(i-1)
/// to 2^i - 1.
///
///     histogram sizes;
///     sizes.add(1000);                     // entry 10: 512 to 1023
///     sizes.counts[histogram::entry_of(700)] == 1;
///
/// Threads   Not synchronised.
struct histogram {
    /// `counts[0]` is the number of zeros, and `counts[i]` that of the values from 2^(i-1) to
    /// 2^i - 1.
    std::array<std::uint64_t, 65> counts{};

    /// Returns the index in `counts` of the entry for `value`: 0 for 0, 1 for 1, 2 for 2 and 3, 3
    /// for 4 to 7.
    [[nodiscard]] static constexpr std::size_t entry_of(std::uint64_t value) noexcept {
        return static_cast<std::size_t>(std::bit_width(value));
    }
    /// Returns the least value that `counts[entry]` counts: 0 for entry 0, otherwise 2^(entry - 1).
    [[nodiscard]] static constexpr std::uint64_t least(std::size_t entry) noexcept {
        return entry == 0 ? 0 : std::uint64_t{1} << (entry - 1);
    }
    /// Adds one to the element of `counts` that counts `value`.
    constexpr void add(std::uint64_t value) noexcept { ++counts[entry_of(value)]; }
    /// Returns the number of counted values.
    [[nodiscard]] constexpr std::uint64_t total() const noexcept {
        std::uint64_t sum = 0;
        for (std::uint64_t const n : counts) { sum += n; }
        return sum;
    }

    /// Adds the counts of `other`.
    constexpr void merge(histogram const& other) noexcept {
        for (std::size_t i = 0; i != counts.size(); ++i) { counts[i] += other.counts[i]; }
    }

    friend bool operator==(histogram const&, histogram const&) = default;
};

/// The sizes of the allocated blocks, and the lifetimes of the freed ones in nanoseconds: the third
/// type argument of `statistics`.
///
///     auto memory = source | with::pool | with::histograms;
///     histograms const seen = memory.histograms();
///     seen.sizes.counts[histogram::entry_of(4_KiB)];
///
/// Failure   Never throws. If there is no host memory for the time of an allocation, its lifetime
///           is not counted.
/// Threads   Not synchronised: `statistics` has one for each thread, and calls it under a lock.
/// Cost      About 50 ns for an allocation and its free: two readings of the time, one hash table.
class histograms {
public:
    histogram sizes;     ///< bytes of each allocation, as requested
    histogram lifetimes; ///< nanoseconds from the allocation to the free

    histograms() noexcept = default;
    /// Copies the counts. The copy does not count the lifetimes of blocks that are live now.
    histograms(histograms const& other) noexcept : sizes{other.sizes}, lifetimes{other.lifetimes} {}
    histograms(histograms&&) noexcept = default;
    histograms& operator=(histograms other) noexcept {
        sizes     = other.sizes;
        lifetimes = other.lifetimes;
        begins_   = std::move(other.begins_);
        return *this;
    }
    ~histograms() = default;

    /// Counts the size of a block that was allocated at `p`, and stores the time.
    void allocated(void const* p, std::size_t bytes) noexcept {
        sizes.add(bytes);
        try {
            begins_.at(p) = clock::now();
        } catch (...) {}
    }
    /// Called when the block at `p` is freed. If `allocated` has stored the time of its allocation,
    /// counts the lifetime of the block and returns true. Otherwise returns false.
    bool freed(void const* p) noexcept {
        clock::time_point begin;
        if (!begins_.take(p, begin)) { return false; }
        auto const lived = clock::now() - begin;
        lifetimes.add(static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(lived).count()));
        return true;
    }
    /// Adds the counts of `other`, but not the lifetimes of blocks that are live now.
    void merge(histograms const& other) noexcept {
        sizes.merge(other.sizes);
        lifetimes.merge(other.lifetimes);
    }

private:
    using clock = std::chrono::steady_clock;

    /// Times of the allocations of the live blocks, by address.
    detail::address_records<clock::time_point> begins_;
};

} // namespace vram
