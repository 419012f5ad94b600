// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `owner_account` has the figures of the blocks that one thread allocated, by tag and by line.

#include <vram/base/call_site.hpp>
#include <vram/base/core/address_map.hpp>
#include <vram/base/core/biased_lock.hpp>
#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/tag.hpp>             // memory_tag

#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// The figures of one owner (a tag, a program line or a thread). Each new maximum of the live bytes
/// of all owners together has a number. `at_peak` is the number of live bytes of this owner at the
/// maximum with the number `moment`.
struct owner_sums {
    std::size_t   live        = 0;
    std::size_t   blocks      = 0;
    std::size_t   peak        = 0; ///< the largest value of `live`
    std::size_t   at_peak     = 0;
    std::uint64_t allocations = 0;
    std::uint64_t allocated   = 0; ///< bytes of all allocations of the owner, also freed ones
    std::uint32_t moment      = 0;

    void add(std::size_t bytes, std::uint32_t now) noexcept {
        settle(now);
        live += bytes;
        peak = larger_of(peak, live);
        allocated += bytes;
        ++blocks;
        ++allocations;
    }
    void sub(std::size_t bytes, std::uint32_t now) noexcept {
        settle(now);
        live -= bytes;
        --blocks;
    }
    [[nodiscard]] std::size_t at_the_peak(std::uint32_t now) const noexcept {
        return moment == now ? at_peak : live;
    }
    /// Adds the figures `other`, such as those of the same owner in another thread. The sum of two
    /// peaks may be more than the true peak, because they may belong to different times.
    void merge(owner_sums const& other) noexcept {
        live += other.live;
        blocks += other.blocks;
        peak += other.peak;
        at_peak += other.at_peak;
        allocations += other.allocations;
        allocated += other.allocated;
    }

private:
    void settle(std::uint32_t now) noexcept {
        if (moment == now) { return; }
        at_peak = live;
        moment  = now;
    }
};

struct owner_account;

/// The figures of one tag in one `owner_account` (the figures of one thread).
struct tag_sums {
    std::uint64_t key;
    tag_sums*     next;
    memory_tag    owner;
    owner_sums    sums{};

    [[nodiscard]] call_site at() const noexcept { return {}; }
};

/// The figures of one program line with one tag, in one `owner_account` (figures of one thread).
struct site_sums {
    std::uint64_t  key;
    site_sums*     next;
    memory_tag     owner;
    call_site      line;
    tag_sums*      of;
    owner_account* account;
    owner_sums     sums{};
    std::uint64_t  crossed = 0;  ///< number of frees on another stream than that of the allocation
    call_site      crossed_at{}; ///< program line of the last free that `crossed` counts

    [[nodiscard]] call_site at() const noexcept { return line; }
};

/// The figures of the blocks that one thread allocated. Threads with numbers (`thread_number`) that
/// are equal modulo 1024 share an account. Any thread may free the blocks, so there is a `lock`.
struct owner_account {
    explicit owner_account(unsigned number) noexcept : thread{number} {}
    owner_account(owner_account&&) = delete;
    ~owner_account() {
        while (site_sums* const each = sites) { sites = each->next, delete each; }
        while (tag_sums* const each = tags) { tags = each->next, delete each; }
    }

    /// Returns the figures of the program line `at` and the tag `owner`, and creates them if there
    /// are none. The caller holds `lock`. Throws `std::bad_alloc`.
    [[nodiscard]] site_sums& find(std::uint64_t key, memory_tag owner, call_site at) {
        if (last != nullptr && last->key == key) [[likely]] { return *last; }
        site_sums* found = site_map.find(key);
        if (found == nullptr) { found = &make(key, owner, at); }
        last = found;
        return *found;
    }

    biased_lock lock;
    unsigned    thread;
    owner_sums  sums{};
    /// Allocated minus freed bytes that are not yet added to `owner_accounts::total_`, the live
    /// bytes of all accounts.
    std::ptrdiff_t         pending = 0;
    site_sums*             last    = nullptr;
    site_sums*             sites   = nullptr;
    tag_sums*              tags    = nullptr;
    address_map<site_sums> site_map;
    address_map<tag_sums>  tag_map;

private:
    [[gnu::noinline]] site_sums& make(std::uint64_t key, memory_tag owner, call_site at) {
        site_map.reserve(1);
        tag_map.reserve(1);
        std::uint64_t const of_tag = std::uint64_t{owner.id()} + 1;
        tag_sums*           t      = tag_map.find(of_tag);
        if (t == nullptr) {
            t = new tag_sums{of_tag, tags, owner};
            tag_map.insert(of_tag, t);
            tags = t;
        }
        sites = new site_sums{key, sites, owner, at, t, this};
        site_map.insert(key, sites);
        return *sites;
    }
};

} // namespace detail
} // namespace vram
