// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `chunk_directory` allocates the chunks of all shards of an arena, and records the owner of each.

#include <vram/base/align.hpp> // saturating_add
#include <vram/base/memory_usage.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/observation.hpp>
#include <vram/concepts/core/platform_lock.hpp>
#include <vram/concepts/powers.hpp> // resource, reusing_resource
#include <vram/concepts/sited.hpp>
#include <vram/pool/core/chunk_budget.hpp>
#include <vram/pool/core/chunk_map.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// Allocates the chunks of all shards (the pools of an arena) from the upstream, and records which
/// shard owns each chunk. One limit applies to all chunks together.
///
/// Failure   `take` throws exceptions of the upstream and `std::bad_alloc`, and `out_of_memory` at
///           the limit. `take<false>` returns null if the limit or the upstream refuses.
/// Threads   Any number of threads may call concurrently; a move needs exclusive access.
template <synchronous_resource Upstream>
class chunk_directory {
public:
    using platform = typename Upstream::platform;
    using stream   = typename platform::stream;

    /// `max_size`: limit on the reserved bytes of all shards (pools) together. If the reserved
    /// bytes exceed `trim_above`, the arena returns chunks without a live block to the upstream.
    chunk_directory(Upstream& upstream, std::size_t max_size, std::size_t trim_above) noexcept
        : upstream_{&upstream}, least_{trim_above}, budget_{max_size}, watermark_{trim_above} {}
    chunk_directory(chunk_directory&& other) noexcept
        : above_watermark_{other.above_watermark_.exchange(false)},
          upstream_{other.upstream_},
          least_{other.least_},
          chunks_{std::move(other.chunks_)},
          budget_{std::move(other.budget_)},
          watermark_{std::exchange(other.watermark_, other.least_)} {}
    chunk_directory& operator=(chunk_directory&& other) noexcept {
        upstream_        = other.upstream_;
        chunks_          = std::move(other.chunks_);
        budget_          = std::move(other.budget_);
        least_           = other.least_;
        watermark_       = std::exchange(other.watermark_, other.least_);
        above_watermark_ = other.above_watermark_.exchange(false);
        return *this;
    }

    /// Sets the address of the upstream after the upstream was moved.
    void                    rebind(Upstream& upstream) noexcept { upstream_ = &upstream; }
    [[nodiscard]] Upstream& upstream() const noexcept { return *upstream_; }
    /// Returns the object that notifies the observers of events. The events of all shards (pools)
    /// name the arena as their source.
    [[nodiscard, gnu::always_inline]] observation<Upstream> seen() const noexcept {
        return {*upstream_, "arena", this};
    }

    /// Allocates a chunk for the shard (pool) with the index `owner`, on the stream `on` if it is
    /// not null.
    template <bool Throwing>
    [[nodiscard]] void* take(unsigned owner, stream const* on, std::size_t bytes,
                             std::size_t alignment) {
        void* const at = budget_.template grow<Throwing>(unseen{}, lock_, *upstream_, bytes,
                                                         alignment, on, recorder(owner, bytes));
        if constexpr (Throwing) {
            if (at == nullptr) {
                throw out_of_memory{{.asked     = bytes,
                                     .rounded   = bytes,
                                     .alignment = alignment,
                                     .reserved  = reserved(),
                                     .limit     = budget_.limit()}};
            }
        }
        return at;
    }
    /// Allocates a chunk for the shard (pool) with the index `owner`. The stream `s` can use the
    /// chunk without a wait. Returns null on failure.
    [[nodiscard]] void* take_ready(unsigned owner, stream s, std::size_t bytes,
                                   std::size_t alignment)
        requires reusing_resource<Upstream>
    {
        return budget_.grow_ready(unseen{}, lock_, *upstream_, bytes, alignment, s,
                                  recorder(owner, bytes));
    }
    /// Returns to the upstream a chunk that no stream uses.
    void give(void* at, std::size_t bytes, std::size_t alignment) noexcept {
        hand_back(at, bytes, [&] { sited{*upstream_}.deallocate_sync(at, bytes, alignment); });
    }
    /// Returns to the upstream a chunk that the stream `s` may still use.
    void give(stream s, void* at, std::size_t bytes, std::size_t alignment) noexcept
        requires resource<Upstream>
    {
        hand_back(at, bytes, [&] { sited{*upstream_}.deallocate(s, at, bytes, alignment); });
    }

    /// Returns the index of the shard (pool) that owns the chunk around `p`, or
    /// `chunk_map::nobody`. Takes the lock only if attempts without the lock fail, because other
    /// threads change the map.
    [[nodiscard]] unsigned owner_of(void const* p) const {
        unsigned const seen = chunks_.try_find(p);
        if (seen != chunk_map::contended) { return seen; }
        auto const held = lock_.hold();
        return chunks_.find(p);
    }
    [[nodiscard]] std::size_t reserved() const {
        auto const held = lock_.hold();
        return budget_.usage.reserved;
    }
    /// Corrects `figures`, the sum of the usage of all shards (pools). Replaces numbers that are
    /// known only for the whole arena, such as the reserved bytes and their peak.
    void report_to(memory_usage& figures) const {
        auto const          held = lock_.hold();
        memory_usage const& own  = budget_.usage;
        figures.reserved         = own.reserved;
        figures.peak_reserved    = own.peak_reserved;
        figures.restarts += own.restarts;
        if (own.peak_live > figures.peak_live) { figures.peak_live = own.peak_live; }
        std::size_t const most = budget_.most_reserved();
        if (figures.past_peak > most) { figures.past_peak = most; }
    }
    /// Sets the peak of the reserved bytes to the bytes reserved now. Returns the previous usage,
    /// in which only `reserved` and the two peaks are set.
    memory_usage reset_peaks() noexcept {
        auto const         held   = lock_.hold();
        memory_usage const before = budget_.usage.restart_peaks();
        return {.reserved      = before.reserved,
                .peak_live     = before.peak_live,
                .peak_reserved = before.peak_reserved};
    }
    /// Raises the peaks of the reserved and live bytes to at least the peaks in `before`, a result
    /// of `reset_peaks`. Later results of `report_to` include the raised peaks.
    void raise_peaks(memory_usage const& before) noexcept {
        auto const held = lock_.hold();
        budget_.usage.raise_peaks(before);
    }

    /// Returns true if the reserved bytes have exceeded a threshold (the watermark) since the last
    /// `reset_watermark`. The arena then returns chunks without a live block to the upstream.
    [[nodiscard]] bool above_watermark() const noexcept {
        return above_watermark_.load(std::memory_order_relaxed);
    }
    /// Makes `above_watermark` false and sets a new threshold: `trim_above` or 1.25 times the
    /// present reserved bytes, the larger of the two.
    void reset_watermark() {
        auto const        held = lock_.hold();
        std::size_t const next = saturating_add(budget_.usage.reserved, budget_.usage.reserved / 4);
        watermark_             = next > least_ ? next : least_;
        above_watermark_.store(false, std::memory_order_relaxed);
    }

private:
    /// Returns a function that records a new chunk of the shard (pool) with the index `owner`. The
    /// lock must be held when that function is called.
    [[nodiscard]] auto recorder(unsigned owner, std::size_t bytes) noexcept {
        return [this, owner, bytes](void* at) {
            chunks_.reserve(1);
            chunks_.insert(at, bytes, owner);
            if (budget_.usage.reserved + bytes > watermark_) {
                above_watermark_.store(true, std::memory_order_relaxed);
            }
            return at;
        };
    }
    /// Removes a chunk from the map, then calls `call()`, which returns the chunk to the upstream.
    template <class Call>
    void hand_back(void* at, std::size_t bytes, Call call) noexcept {
        auto held = lock_.hold();
        // Erases the record first: after `call()`, another shard may get a chunk at this address.
        chunks_.erase(at);
        budget_.give_back(bytes, held, call);
    }

    // Most calls only read the members from here to `chunks_`. `lock_` and the members after it are
    // written often, so they begin another cache line.
    alignas(64) std::atomic<bool> above_watermark_ = false;
    Upstream*   upstream_;
    std::size_t least_;
    chunk_map   chunks_;
    alignas(64) platform_lock<platform> lock_;
    /// The limit and the reserved bytes of all shards (pools) together. The shards count the live
    /// bytes themselves.
    chunk_budget budget_;
    std::size_t watermark_; ///< number of reserved bytes above which `above_watermark` becomes true
};

} // namespace detail
} // namespace vram
