// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `owner_accounts` counts live bytes, peaks and allocations for each tag, line and thread.

#include <vram/base/call_site.hpp>
#include <vram/base/core/address_map.hpp>
#include <vram/base/out_of_memory.hpp> // shortage
#include <vram/base/tag.hpp>           // memory_tag
#include <vram/probe/core/owner_account.hpp>

#include <atomic> // atomic
#include <bit>    // bit_cast
#include <cstddef>
#include <cstdint>
#include <new> // nothrow, bad_alloc

namespace vram {
namespace detail {

/// Stores the figures of the blocks of each thread, by tag and by program line, and the peak of the
/// live bytes of all threads together. Any thread may call.
class owner_accounts {
public:
    /// Largest number of bytes that an account (the figures of one thread) may hold back before it
    /// adds them to `total_`, the live bytes of all threads.
    static constexpr std::size_t slack = std::size_t{1} << 20;

    owner_accounts()                 = default;
    owner_accounts(owner_accounts&&) = delete;
    ~owner_accounts() {
        for (auto& each : accounts_) { delete each.load(std::memory_order_relaxed); }
    }

    /// Counts a new block of the thread number `thread`. Returns the figures to which the block was
    /// added; `refund` needs them when the block is freed. Returns null if there is no host memory.
    [[nodiscard]] site_sums* charge(unsigned thread, memory_tag owner, call_site at,
                                    std::size_t bytes) noexcept {
        owner_account& account = account_of(thread);
        auto const     held    = account.lock.hold();
        try {
            site_sums&          site = account.find(key_of(owner, at), owner, at);
            std::uint32_t const now  = moment_.load(std::memory_order_relaxed);
            site.sums.add(bytes, now);
            site.of->sums.add(bytes, now);
            account.sums.add(bytes, now);
            account.pending += static_cast<std::ptrdiff_t>(bytes);
            // Adds more than 1 MiB of pending bytes to `total_` before the comparison. So another
            // thread that allocates at the same time counts these bytes too.
            std::ptrdiff_t const all =
                account.pending > limit ? settle(account)
                                        : total_.load(std::memory_order_relaxed) + account.pending;
            if (all > peak_.load(std::memory_order_relaxed)) { raise(all); }
            return &site;
        } catch (std::bad_alloc const&) { return nullptr; }
    }

    /// Subtracts a freed block from `site`, the figures to which `charge` added it. `crossed` is
    /// true if the free is on another stream than the allocation. `at` is the line of the free.
    void refund(site_sums& site, std::size_t bytes, bool crossed, call_site at) noexcept {
        owner_account&      account = *site.account;
        auto const          held    = account.lock.hold();
        std::uint32_t const now     = moment_.load(std::memory_order_relaxed);
        site.sums.sub(bytes, now);
        site.of->sums.sub(bytes, now);
        account.sums.sub(bytes, now);
        account.pending -= static_cast<std::ptrdiff_t>(bytes);
        if (crossed) {
            ++site.crossed;
            site.crossed_at = at;
        }
        if (account.pending < -limit) { settle(account); }
    }

    /// Calls `visit(account)` for each account (the figures of one thread), while holding its lock.
    template <class Visit>
    void for_each(Visit const& visit) const {
        for (auto& each : accounts_) {
            owner_account* const account = each.load(std::memory_order_acquire);
            if (account == nullptr) { continue; }
            auto const held = account->lock.hold();
            visit(*account);
        }
        auto const held = spare_.lock.hold();
        visit(spare_);
    }

    /// Returns the peak of the live bytes of all threads together. The error is at most 1 MiB
    /// (`slack`) for each thread.
    [[nodiscard]] std::size_t peak() const noexcept {
        return static_cast<std::size_t>(peak_.load(std::memory_order_relaxed));
    }
    /// Returns the number of the latest peak of the live bytes of all threads together. Each new
    /// peak gets a larger number. Pass the number to `owner_sums::at_the_peak`.
    [[nodiscard]] std::uint32_t moment() const noexcept {
        return moment_.load(std::memory_order_relaxed);
    }

    /// Writes the tags with the most live bytes to `n.holders`, for the message of a refusal. If
    /// fewer than two tags have live bytes, writes the program lines instead. Allocates nothing.
    void name_holders(shortage& n) const noexcept {
        std::size_t const tags = list<tag_sums>(n, &owner_account::tags, &owner_account::tag_map);
        if (tags < 2) { list<site_sums>(n, &owner_account::sites, &owner_account::site_map); }
    }

private:
    static constexpr auto        limit   = static_cast<std::ptrdiff_t>(slack);
    static constexpr std::size_t threads = 1024;

    /// Returns the key of a tag and a program line in a hash table. If two such pairs have the same
    /// key, which is improbable, they are counted together.
    [[nodiscard]] static std::uint64_t key_of(memory_tag owner, call_site at) noexcept {
        std::uint64_t line = 0;
        if constexpr (sizeof at == sizeof(std::uintptr_t)) {
            // A `call_site` is a pointer to constant data of the line, so the pointer serves as the
            // number of the line.
            line = std::bit_cast<std::uintptr_t>(at);
        } else {
            line = (reinterpret_cast<std::uintptr_t>(at.file()) << 12) ^ at.line();
        }
        return (std::uint64_t{owner.id()} << 48) ^ line;
    }

    [[nodiscard]] owner_account& account_of(unsigned thread) noexcept {
        owner_account* const known = accounts_[thread % threads].load(std::memory_order_acquire);
        return known != nullptr ? *known : make(thread % threads);
    }
    [[gnu::noinline]] owner_account& make(unsigned thread) noexcept {
        auto* const    fresh  = new (std::nothrow) owner_account{thread};
        owner_account* before = nullptr;
        if (fresh == nullptr) { return spare_; }
        if (accounts_[thread].compare_exchange_strong(before, fresh)) { return *fresh; }
        delete fresh;
        return *before;
    }

    /// Adds `account.pending` (allocated minus freed bytes that are not yet counted) to `total_`,
    /// the live bytes of all threads. Returns the new `total_`. The caller holds `account.lock`.
    std::ptrdiff_t settle(owner_account& account) noexcept {
        std::ptrdiff_t const pending = account.pending;
        account.pending              = 0;
        return total_.fetch_add(pending, std::memory_order_relaxed) + pending;
    }
    void raise(std::ptrdiff_t all) noexcept {
        std::ptrdiff_t before = peak_.load(std::memory_order_relaxed);
        while (all > before) {
            if (peak_.compare_exchange_weak(before, all, std::memory_order_relaxed)) {
                moment_.fetch_add(1, std::memory_order_relaxed);
                return;
            }
        }
    }

    template <class Node>
    std::size_t list(shortage& n, Node* owner_account::* nodes,
                     address_map<Node> owner_account::* map) const noexcept {
        for (auto& each : n.holders) { each = {}; }
        std::size_t found = 0;
        for (std::size_t a = 0; a <= threads; ++a) {
            owner_account* const account = at(a);
            if (account == nullptr) { continue; }
            Node* each = nullptr;
            {
                auto const held = account->lock.hold();
                each            = account->*nodes;
            }
            // Reads the list without the lock: nodes never move, and their `next` never changes.
            for (; each != nullptr; each = each->next) {
                memory_holder h{each->owner, each->at(), 0, 0};
                bool          first = true;
                for (std::size_t b = 0; first && b <= threads; ++b) {
                    owner_account* const other = at(b);
                    if (other == nullptr) { continue; }
                    auto const  held = other->lock.hold();
                    Node* const same = (other->*map).find(each->key);
                    if (same == nullptr) { continue; }
                    // If several accounts have the same tag or line, lists it only at the first of
                    // them.
                    first = b >= a;
                    h.bytes += same->sums.live;
                    h.blocks += same->sums.blocks;
                }
                if (first && h.bytes != 0) { ++found, insert(n, h); }
            }
        }
        return found;
    }
    [[nodiscard]] owner_account* at(std::size_t i) const noexcept {
        return i < threads ? accounts_[i].load(std::memory_order_acquire) : &spare_;
    }
    /// Inserts `h` into `n.holders`, which is sorted by bytes, the largest first. If all places are
    /// taken, drops the holder with the fewest bytes.
    static void insert(shortage& n, memory_holder h) noexcept {
        for (auto& each : n.holders) {
            if (h.bytes <= each.bytes) { continue; }
            memory_holder const smaller = each;
            each                        = h;
            h                           = smaller;
        }
    }

    std::atomic<owner_account*> accounts_[threads]{};
    /// Account of all threads for which there was no host memory for an account of their own.
    mutable owner_account       spare_{0};
    std::atomic<std::ptrdiff_t> total_{0};
    std::atomic<std::ptrdiff_t> peak_{0};
    std::atomic<std::uint32_t>  moment_{1};
};

} // namespace detail
} // namespace vram
