// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_books` are the books of a `tracking` layer: its blocks, its owners, and their texts.

#include <vram/base/core/durations.hpp> // nanoseconds
#include <vram/base/core/sort.hpp>
#include <vram/base/core/thread_number.hpp>
#include <vram/base/error.hpp> // report_error
#include <vram/concepts/core/is_destroyed.hpp>
#include <vram/concepts/core/name_of_stream.hpp>
#include <vram/concepts/core/refused_free.hpp>
#include <vram/probe/core/block_shards.hpp>
#include <vram/probe/core/owner_accounts.hpp>
#include <vram/probe/core/owner_list.hpp> // merged_owners, sorted_owners
#include <vram/probe/core/owner_lists.hpp>
#include <vram/probe/tracked_block.hpp>
#include <vram/probe/tracked_owner.hpp>
#include <vram/probe/tracking_options.hpp>

#include <concepts> // equality_comparable
#include <cstddef>
#include <cstdint>
#include <cstring>  // strcmp
#include <new>      // bad_alloc
#include <optional> // optional
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// The records of a `tracking` layer: a record of each live block, and figures, such as live bytes
/// and peak, for each thread, tag and allocating program line. Any thread may call any function.
template <class Platform>
class block_books final : public owner_lists {
public:
    using stream = typename Platform::stream;
    using record = block_record<stream>;

    explicit block_books(tracking_options options) noexcept : options_{options} {}

    [[nodiscard]] tracking_options const& options() const noexcept { return options_; }

    /// Adds the record of a block that the calling thread allocated. Returns false if there is no
    /// host memory for the record.
    [[nodiscard]] bool add(void* p, std::size_t bytes, std::size_t alignment, stream const* s,
                           call_site at, call_stack stack) noexcept {
        site_sums* const owner = owners_.charge(thread_number(), current_tag(), at, bytes);
        if (owner == nullptr) { return false; }
        try {
            blocks_.insert(p, [&](record& r) {
                r.bytes     = bytes;
                r.alignment = alignment;
                r.owner     = owner;
                r.since     = tick_clock::now();
                r.stack     = stack;
                if (s != nullptr) {
                    r.stream.emplace(*s);
                } else {
                    r.stream.reset();
                }
            });
        } catch (std::bad_alloc const&) {
            owners_.refund(*owner, bytes, false, {});
            return false;
        }
        return true;
    }

    /// Removes the record of the live block at `p`, which is about to be freed. If there is no such
    /// block, or its size or alignment differs, reports a wrong free and returns false. Only the
    /// report needs `owns(p)`, which returns true if the upstream owns `p`.
    template <class Owns>
    [[nodiscard]] bool remove(void* p, std::size_t bytes, std::size_t alignment, stream const* s,
                              call_site at, Owns const& owns) noexcept {
        bool       crossed = false;
        auto const right   = [&](record const& r) {
            if constexpr (std::equality_comparable<stream>) {
                crossed = s != nullptr && r.stream.has_value() && !(*r.stream == *s);
            }
            return r.bytes == bytes && r.alignment == alignment;
        };
        site_sums* const owner = blocks_.take(p, at, right);
        if (owner == nullptr) [[unlikely]] {
            refuse(p, bytes, alignment, s, at, owns);
            return false;
        }
        owners_.refund(*owner, bytes, crossed, at);
        return true;
    }

    /// Removes the records of all live blocks. Does not free the blocks.
    void forget() {
        std::vector<record> const all = records();
        for (record const& each : all) {
            auto const same_one = [&](record const& r) { return r.since == each.since; };
            if (site_sums* const owner = blocks_.take(each.memory, {}, same_one)) {
                owners_.refund(*owner, each.bytes, false, {});
            }
        }
    }

    void                      name_holders(shortage& n) const noexcept { owners_.name_holders(n); }
    [[nodiscard]] std::size_t peak() const noexcept { return owners_.peak(); }

    [[nodiscard]] owner_sums sums() const {
        owner_sums all;
        owners_.for_each([&](owner_account const& a) { all.merge(a.sums); });
        all.peak = peak();
        return all;
    }

    [[nodiscard]] std::vector<tracked_block> blocks(tracked_order order) const override {
        std::vector<record>        all        = records();
        auto const                 conversion = clock_.conversion(); // after the last allocation
        std::int64_t const         now        = conversion.nanoseconds(tick_clock::now());
        std::vector<tracked_block> found;
        found.reserve(all.size());
        sort(all.data(), all.size(), [&](record const& a, record const& b) {
            if (order == tracked_order::by_tag && a.owner->owner != b.owner->owner) {
                return std::strcmp(a.owner->owner.path(), b.owner->owner.path()) < 0;
            }
            if (order != tracked_order::oldest_first && a.bytes != b.bytes) {
                return a.bytes > b.bytes;
            }
            return a.since < b.since;
        });
        for (record const& r : all) {
            tracked_block b{.memory    = r.memory,
                            .bytes     = r.bytes,
                            .alignment = r.alignment,
                            .owner     = r.owner->owner,
                            .at        = r.owner->line,
                            .thread    = r.owner->account->thread,
                            .age = std::chrono::nanoseconds{now - conversion.nanoseconds(r.since)},
                            .ticks = r.since,
                            .stack = r.stack};
            if (r.stream.has_value() && !is_destroyed<Platform>(*r.stream)) {
                b.stream = name_of_stream<Platform>(*r.stream);
            }
            found.push_back(b);
        }
        return found;
    }

    /// Returns the figures, such as live bytes, of each thread that has allocated. The thread with
    /// the most live bytes is the first.
    [[nodiscard]] std::vector<tracked_owner> by_thread() const {
        std::vector<tracked_owner> all;
        owners_.for_each([&](owner_account const& a) {
            if (a.sums.allocations == 0) { return; }
            all.push_back(figures(a.sums));
            all.back().thread = a.thread;
            for (site_sums const* each = a.sites; each != nullptr; each = each->next) {
                add_crossed(all.back(), *each);
            }
        });
        return sorted_owners(std::move(all));
    }
    [[nodiscard]] std::vector<tracked_owner> by_tag() const override {
        return sorted_owners(merged_owners(tags_of_threads()));
    }
    [[nodiscard]] std::vector<tracked_owner> by_tag_and_thread() const {
        return sorted_owners(tags_of_threads());
    }
    [[nodiscard]] std::vector<tracked_owner> by_site() const override {
        std::vector<tracked_owner> all;
        owners_.for_each([&](owner_account const& a) {
            for (site_sums const* each = a.sites; each != nullptr; each = each->next) {
                all.push_back(figures(each->sums));
                all.back().owner  = each->owner;
                all.back().at     = each->line;
                all.back().thread = a.thread;
                add_crossed(all.back(), *each);
            }
        });
        return sorted_owners(merged_owners(std::move(all)));
    }

    /// Reports the live blocks to the error sink, grouped by owner (a pair of a tag and a program
    /// line), the largest sum first. Returns the number of live blocks.
    std::size_t report_leaks() const noexcept {
        std::size_t const count = blocks_.size();
        if (count == 0) { return 0; }
        try {
            // Reports each of the `most` owners with the most live bytes, and the rest together.
            constexpr std::size_t      most = 20;
            std::vector<tracked_owner> all  = by_site();
            std::vector<void*>         example(all.size());
            blocks_.for_each([&](record const& r) {
                for (std::size_t i = 0; i != all.size(); ++i) {
                    if (is_of(all[i], r.owner->owner, r.owner->line)) { example[i] = r.memory; }
                }
            });
            error rest{.kind = error_kind::leak, .resource = name};
            for (std::size_t i = 0; i != all.size() && all[i].blocks != 0; ++i) {
                if (i < most) {
                    report_error({.kind         = error_kind::leak,
                                  .pointer      = example[i],
                                  .bytes        = all[i].live,
                                  .blocks       = all[i].blocks,
                                  .allocated_at = all[i].at,
                                  .tag          = all[i].owner.path(),
                                  .resource     = name});
                } else {
                    rest.bytes += all[i].live;
                    rest.blocks += all[i].blocks;
                }
            }
            if (rest.blocks != 0) { report_error(rest); }
        } catch (...) { // no host memory for the list
            report_error({.kind = error_kind::leak, .blocks = count, .resource = name});
        }
        return count;
    }

    static constexpr char const* name = "tracking";

private:
    template <class Owns>
    [[gnu::noinline, gnu::cold]] void refuse(void* p, std::size_t bytes, std::size_t alignment,
                                             stream const* s, call_site at,
                                             Owns const& owns) const noexcept {
        refused_free refused{name, p, bytes, alignment, at};
        refused.template on<Platform>(s);
        if (auto const block = blocks_.containing(p)) {
            refused.found_live(block->memory, block->bytes, block->alignment);
            add_past(refused.what, *block->owner);
        } else if (auto const freed = blocks_.last_free(p)) {
            refused.found_free();
            refused.what.block_bytes = freed->bytes;
            refused.what.freed_at    = freed->freed_at;
            add_past(refused.what, *freed->owner);
        } else if (owns(p)) {
            refused.found_free();
        }
        refused.template report<Platform>();
    }
    static void add_past(error& e, site_sums const& owner) noexcept {
        e.allocated_at = owner.line;
        e.tag          = owner.owner.path();
    }

    [[nodiscard]] std::vector<record> records() const {
        std::vector<record> all;
        for (bool complete = false; !complete;) {
            complete = true;
            all.clear();
            all.reserve(blocks_.size() + 64); // `push_back` below must not allocate under a lock
            blocks_.for_each([&](record const& r) {
                complete = complete && all.size() != all.capacity();
                if (complete) { all.push_back(r); }
            });
        }
        return all;
    }

    /// Returns figures, such as live bytes and peak, for each pair of a thread and a tag with which
    /// the thread has allocated.
    [[nodiscard]] std::vector<tracked_owner> tags_of_threads() const {
        std::vector<tracked_owner> all;
        owners_.for_each([&](owner_account const& a) {
            for (tag_sums const* each = a.tags; each != nullptr; each = each->next) {
                all.push_back(figures(each->sums));
                all.back().owner  = each->owner;
                all.back().thread = a.thread;
                for (site_sums const* site = a.sites; site != nullptr; site = site->next) {
                    if (site->of == each) { add_crossed(all.back(), *site); }
                }
            }
        });
        return all;
    }
    [[nodiscard]] tracked_owner figures(owner_sums const& s) const {
        return {.live        = s.live,
                .blocks      = s.blocks,
                .peak        = s.peak,
                .at_peak     = s.at_the_peak(owners_.moment()),
                .allocations = s.allocations,
                .allocated   = s.allocated};
    }
    static void add_crossed(tracked_owner& to, site_sums const& from) noexcept {
        to.crossed += from.crossed;
        if (from.crossed_at.known()) { to.crossed_at = from.crossed_at; }
    }

    tracking_options     options_;
    tick_clock           clock_;
    owner_accounts       owners_;
    block_shards<stream> blocks_;
};

} // namespace detail
} // namespace vram
