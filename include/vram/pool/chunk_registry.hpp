// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `chunk_registry` is the one way upstream for many pools: it knows whose chunk is where.

#include <vram/base/align.hpp>         // saturating_add
#include <vram/base/memory_usage.hpp>  // memory_usage
#include <vram/base/out_of_memory.hpp> // out_of_memory
#include <vram/concepts/powers.hpp>    // resource, reusing_resource
#include <vram/concepts/sited.hpp>     // sited
#include <vram/pool/ask_upstream.hpp>  // ask_upstream
#include <vram/pool/chunk_map.hpp>     // chunk_map
#include <vram/pool/platform_lock.hpp> // platform_lock

#include <atomic>  // atomic
#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <utility> // move, exchange

namespace vram {

/// Takes chunks from an upstream that it borrows, for owners that are numbers, never more than
/// `max_size` bytes in all, and says when there are many. An upstream's call is made without the
/// lock.
///
/// Failure   what the upstream throws; `out_of_memory` with the limit where that refuses, and
///           `std::bad_alloc` for want of host memory, both before the upstream is asked
/// Threads   any, at once, where the upstream can be used so; moving while unshared
/// Cost      that of the upstream, and the lock twice
template <synchronous_resource Upstream>
class chunk_registry {
public:
    using platform = typename Upstream::platform;
    using stream   = typename platform::stream;

    /// `trim_above`: how many bytes are a crowd at first.
    chunk_registry(Upstream& upstream, std::size_t max_size, std::size_t trim_above) noexcept
        : upstream_{&upstream}, max_size_{max_size}, least_{trim_above}, crowd_{trim_above} {}
    chunk_registry(chunk_registry&& other) noexcept
        : crowded_{other.crowded_.exchange(false)},
          upstream_{other.upstream_},
          max_size_{other.max_size_},
          least_{other.least_},
          chunks_{std::move(other.chunks_)},
          reserved_{std::exchange(other.reserved_, 0)},
          peak_{std::exchange(other.peak_, 0)},
          peak_live_{std::exchange(other.peak_live_, 0)},
          past_{std::exchange(other.past_, 0)},
          restarts_{std::exchange(other.restarts_, 0)},
          crowd_{std::exchange(other.crowd_, other.least_)} {}
    chunk_registry& operator=(chunk_registry&& other) noexcept {
        upstream_  = other.upstream_;
        chunks_    = std::move(other.chunks_);
        max_size_  = other.max_size_;
        reserved_  = std::exchange(other.reserved_, 0);
        peak_      = std::exchange(other.peak_, 0);
        peak_live_ = std::exchange(other.peak_live_, 0);
        past_      = std::exchange(other.past_, 0);
        restarts_  = std::exchange(other.restarts_, 0);
        least_     = other.least_;
        crowd_     = std::exchange(other.crowd_, other.least_);
        crowded_   = other.crowded_.exchange(false);
        return *this;
    }

    /// The upstream has moved here.
    void                    rebind(Upstream& upstream) noexcept { upstream_ = &upstream; }
    [[nodiscard]] Upstream& upstream() const noexcept { return *upstream_; }

    /// A chunk for `owner`, in the order of a stream or at once (null). Null, unless `Throwing`,
    /// where the limit or the upstream refuses it.
    template <bool Throwing>
    [[nodiscard]] void* take(unsigned owner, stream const* on, std::size_t bytes,
                             std::size_t alignment) {
        claim mine{*this, bytes};
        if (!mine.granted) {
            if constexpr (Throwing) {
                throw out_of_memory{{.asked     = bytes,
                                     .rounded   = bytes,
                                     .alignment = alignment,
                                     .reserved  = reserved(),
                                     .limit     = max_size_}};
            }
            return nullptr;
        }
        void* const at = ask_upstream<Throwing>(*upstream_, on, bytes, alignment);
        if (at != nullptr) { mine.keep(at, owner); }
        return at;
    }
    /// The same out of what the upstream has for a stream at once. Null where it has none, where
    /// the limit refuses it, and where there is no host memory for it.
    [[nodiscard]] void* take_at_once(unsigned owner, stream s, std::size_t bytes,
                                     std::size_t alignment)
        requires reusing_resource<Upstream>
    {
        if (bytes > room()) { return nullptr; }
        void* const at = upstream_->try_allocate_ready(s, bytes, alignment);
        if (at == nullptr) { return nullptr; }
        // Claimed now that it is there: others would be refused meanwhile for nothing.
        try {
            claim mine{*this, bytes};
            if (mine.granted) {
                mine.keep(at, owner);
                return at;
            }
        } catch (std::bad_alloc const&) {} // no place in the map
        sited{*upstream_}.deallocate(s, at, bytes, alignment);
        return nullptr;
    }
    /// Gives a chunk back that nobody uses.
    void give(void* at, std::size_t bytes, std::size_t alignment) noexcept {
        hand_back(at, bytes, [&] { sited{*upstream_}.deallocate_sync(at, bytes, alignment); });
    }
    /// Gives a chunk back that the stream may still be using.
    void give(stream s, void* at, std::size_t bytes, std::size_t alignment) noexcept
        requires resource<Upstream>
    {
        hand_back(at, bytes, [&] { sited{*upstream_}.deallocate(s, at, bytes, alignment); });
    }

    /// Whose chunk `p` lies in, or `chunk_map::nobody`. Cost: no lock, but where chunks come and go
    /// meanwhile.
    [[nodiscard]] unsigned owner_of(void const* p) const {
        unsigned const seen = chunks_.glance(p);
        if (seen != chunk_map::unclear) { return seen; }
        auto const held = lock_.hold();
        return chunks_.find(p);
    }
    [[nodiscard]] std::size_t reserved() const {
        auto const held = lock_.hold();
        return reserved_;
    }
    /// Writes `reserved` and its peak into `figures`, lifts `peak_live` to what was taken in,
    /// bounds `past_peak` by what was ever held, and adds its own `restarts`.
    void report_to(memory_usage& figures) const {
        auto const held       = lock_.hold();
        figures.reserved      = reserved_;
        figures.peak_reserved = peak_;
        figures.restarts += restarts_;
        if (peak_live_ > figures.peak_live) { figures.peak_live = peak_live_; }
        std::size_t const most = peak_ > past_ ? peak_ : past_;
        if (figures.past_peak > most) { figures.past_peak = most; }
    }
    /// The peak starts again from what is held now. Returns the figures from before; `peak_live` is
    /// what was taken in.
    memory_usage reset_peaks() noexcept {
        auto const held = lock_.hold();
        past_           = peak_ > past_ ? peak_ : past_;
        ++restarts_;
        return {.reserved      = reserved_,
                .peak_live     = std::exchange(peak_live_, 0),
                .peak_reserved = std::exchange(peak_, reserved_)};
    }
    /// Takes in the peaks of figures from before. That of what is out is kept for the owners, who
    /// only know their own.
    void raise_peaks(memory_usage const& before) noexcept {
        auto const held = lock_.hold();
        peak_           = before.peak_reserved > peak_ ? before.peak_reserved : peak_;
        peak_live_      = before.peak_live > peak_live_ ? before.peak_live : peak_live_;
        ++restarts_;
    }

    /// Whether so much is held that idle chunks should go back. Cost: a load.
    [[nodiscard]] bool crowded() const noexcept { return crowded_.load(std::memory_order_relaxed); }
    /// Idle chunks went back: a quarter more than what is left is a crowd from now on.
    void set_crowd() {
        auto const        held = lock_.hold();
        std::size_t const next = saturating_add(reserved_, reserved_ / 4);
        crowd_                 = next > least_ ? next : least_;
        crowded_.store(false, std::memory_order_relaxed);
    }

private:
    [[nodiscard]] std::size_t room() const {
        auto const held = lock_.hold();
        return left();
    }
    /// The same with the lock held: what is neither held nor on its way.
    [[nodiscard]] std::size_t left() const noexcept {
        std::size_t const out = reserved_ + under_way_;
        return out < max_size_ ? max_size_ - out : 0;
    }
    /// Has `call()` give a chunk back that is nobody's any more: once it is back another may get
    /// this address. Its bytes are within the limit until then.
    template <class Call>
    void hand_back(void* at, std::size_t bytes, Call call) noexcept {
        {
            auto const held = lock_.hold();
            chunks_.erase(at);
            reserved_ -= bytes;
            under_way_ += bytes;
        }
        call();
        auto const held = lock_.hold();
        under_way_ -= bytes;
    }

    /// Bytes on their way from the upstream, within the limit, with room in the map.
    struct claim {
        chunk_registry&   all;
        std::size_t const bytes;
        bool              granted;

        claim(chunk_registry& r, std::size_t n) : all{r}, bytes{n} {
            auto const held = r.lock_.hold();
            granted         = n <= r.left();
            if (!granted) { return; }
            r.chunks_.reserve(r.claims_ + 1); // those on their way have no place in it yet
            r.under_way_ += n;
            ++r.claims_;
        }
        claim(claim const&) = delete;
        ~claim() {
            if (!granted) { return; }
            auto const held = all.lock_.hold();
            drop();
        }

        /// They have come.
        void keep(void* at, unsigned owner) noexcept {
            auto const held = all.lock_.hold();
            drop();
            granted = false;
            all.chunks_.insert(at, bytes, owner);
            all.reserved_ += bytes;
            if (all.reserved_ > all.peak_) { all.peak_ = all.reserved_; }
            if (all.reserved_ > all.crowd_) { all.crowded_.store(true, std::memory_order_relaxed); }
        }
        void drop() noexcept {
            all.under_way_ -= bytes;
            --all.claims_;
        }
    };

    // What every call looks at, and what growth writes to, on lines of their own.
    alignas(64) std::atomic<bool> crowded_ = false;
    Upstream*   upstream_;
    std::size_t max_size_;
    std::size_t least_;
    chunk_map   chunks_;
    alignas(64) platform_lock<platform> lock_;
    std::size_t   reserved_  = 0;
    std::size_t   peak_      = 0; ///< of `reserved_`
    std::size_t   peak_live_ = 0; ///< as taken in; what is out is counted by the owners
    std::size_t   past_      = 0; ///< the highest `peak_` that started again
    std::uint64_t restarts_  = 0; ///< how often peaks did, or took earlier ones in
    std::size_t   under_way_ = 0; ///< bytes that come, or go back
    std::size_t   claims_    = 0; ///< chunks that come
    std::size_t   crowd_;
};

} // namespace vram
