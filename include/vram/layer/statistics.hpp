// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `statistics` is a layer that counts live bytes and blocks, their peaks and totals, also for
/// nested scopes.

#include <vram/base/call_site.hpp>
#include <vram/base/core/biased_lock.hpp>
#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/counter.hpp>
#include <vram/concepts/core/diagnosed.hpp> // refuse_copy, checked_upstream
#include <vram/concepts/powers.hpp> // fallible_resource, reusing_resource, measured_resource
#include <vram/concepts/sited.hpp>
#include <vram/layer/core/scope_counters.hpp> // scope_counters, no_histograms
#include <vram/layer/histograms.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/with.hpp> // with::word

#include <concepts> // default_initializable
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {

/// The counts of all allocations and frees in a scope (from its `push` to its `pop`), or since the
/// layer was created.
struct counters {
    /// Requested bytes. `value` is allocated minus freed and may be negative in a scope; `peak` is
    /// at least 0.
    counter bytes;
    counter blocks; ///< numbers of blocks: `value` allocated minus freed, `total` allocations
    /// Number of requests of more than 0 bytes that failed, by an exception or by null. Calls of
    /// `try_allocate_ready` are not counted.
    std::uint64_t refusals = 0;

    friend bool operator==(counters const&, counters const&) = default;
};

/// A resource that counts its allocations and frees, also for nested scopes.
///
///     statistics mr{pool{cuda_resource{}}};
///     mr.push();
///     train_step(mr);
///     auto const step = mr.pop();   // step.bytes.peak: the peak of this step alone
///
/// `with::histograms` also counts sizes and lifetimes by powers of two, from the creation of the
/// layer on.
///
/// Over a pool the layer counts the requests of the clients, under a pool the chunks of the pool.
///
/// Failure   A request of more than 0 bytes that fails, by an exception of any kind or by null, is
///           counted as a refusal (except a call of `try_allocate_ready`). The exception is
///           rethrown.
/// Threads   The rules are those of the upstream (with `no_lock`: one thread). A scope counts the
///           calls of all threads.
/// Cost      One short lock per call, at any depth of scopes. If several threads use the layer,
///           each has a lock and counters of its own; with `with::histograms`, the free of a block
///           of another thread also takes locks of others until it is found. `push` may allocate.
///           `pop` is linear in the number of scopes within the one that ends. `push`, `pop` and
///           functions that return counters take the locks of all threads.
///
/// Values and totals are exact, and no peak is too high. Peaks are exact if one thread alone
/// allocates and frees. Otherwise the layer adds up the counters of the threads whenever the sum
/// may exceed the peak. After 256 such additions since the last `push` or `pop`, a peak may be too
/// low: for each thread by 1 MiB or 1/128 of the peak, whichever is more (64 blocks or 1/128).
template <class Upstream, class Lock = detail::biased_lock,
          class Histograms = detail::no_histograms>
class statistics : public layer_base<detail::checked_upstream<Upstream>> {
    using base = layer_base<Upstream>;

public:
    using typename base::stream;
    using base::allocate;
    using base::deallocate;

    statistics()
        requires std::default_initializable<Upstream>
        : statistics{Upstream{}} {}
    /// Creates the layer over `upstream`, with all counters at zero.
    explicit statistics(Upstream upstream) : base{std::move(upstream)} {}

    /// A copy does not compile: the error message names the alternatives (move, borrow, share).
    template <std::same_as<statistics> Same>
    statistics(Same& other) : statistics{detail::refuse_copy(other)} {}
    template <std::same_as<statistics> Same>
    statistics& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires resource<Upstream>
    {
        attempt made{*this, bytes};
        return made.got(sited{this->upstream_, at}.allocate(s, bytes, alignment));
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        attempt made{*this, bytes};
        return made.got(sited{this->upstream_, at}.allocate_sync(bytes, alignment));
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        attempt made{*this, bytes};
        return made.got(sited{this->upstream_, at}.try_allocate(s, bytes, alignment));
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        attempt made{*this, bytes};
        return made.got(sited{this->upstream_, at}.try_allocate_sync(bytes, alignment));
    }

    /// Returns memory that the stream may use without a wait, or null, which is not counted as a
    /// refusal.
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current())
        requires reusing_resource<Upstream>
    {
        void* const p = sited{this->upstream_, at}.try_allocate_ready(s, bytes, alignment);
        if (p == nullptr) { return p; }
        attempt made{*this, bytes};
        return made.got(p);
    }

    // Subtracts the block from the counters before the upstream frees it. Otherwise another thread
    // could allocate the memory first, and a peak would count it twice.
    [[gnu::always_inline]] void deallocate(stream s, void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) noexcept
        requires resource<Upstream>
    {
        counts_.freed(p, bytes);
        sited{this->upstream_, at}.deallocate(s, p, bytes, alignment);
    }
    [[gnu::always_inline]] void deallocate_sync(void* p, std::size_t bytes,
                                                std::size_t alignment = default_alignment,
                                                call_site   at = call_site::current()) noexcept {
        counts_.freed(p, bytes);
        sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
    }

    /// Begins a scope with counters at zero. Returns its number, for `pop(number)`.
    std::uint64_t push() { return counts_.push(); }
    /// Ends the open scope that began last and returns its counters. A scope must be open.
    counters pop() { return counts_.pop(); }
    /// Ends the open scope for which `push` returned `scope_number`, even if scopes that began
    /// later are still open. Returns its counters.
    counters pop(std::uint64_t scope_number) { return counts_.pop(scope_number); }

    /// Returns the counters of the open scope that began last, or `overall()` if none is open.
    [[nodiscard]] counters now() const { return counts_.now(); }
    /// Returns the counters until now of the open scope for which `push` returned `scope_number`.
    [[nodiscard]] counters now(std::uint64_t scope_number) const {
        return counts_.now(scope_number);
    }
    /// Returns the counters since the layer was created.
    [[nodiscard]] counters overall() const { return counts_.overall(); }

    /// Returns the histograms since the layer was created: the sizes of all allocated blocks, and
    /// the lifetimes of all freed ones.
    [[nodiscard]] Histograms histograms() const
        requires std::same_as<Histograms, vram::histograms>
    {
        return counts_.histograms();
    }

    /// Returns the usage of the upstream, or the counts of this layer if the upstream has no
    /// `usage`.
    [[nodiscard]] memory_usage usage() const {
        if constexpr (measured_resource<Upstream>) {
            return base::usage();
        } else {
            counters const all = overall();
            auto const     live =
                static_cast<std::size_t>(detail::larger_of<std::ptrdiff_t>(all.bytes.value, 0));
            return {.live        = live,
                    .requested   = live,
                    .peak_live   = static_cast<std::size_t>(all.bytes.peak),
                    .allocations = all.blocks.total};
        }
    }

private:
    /// A request in progress. If it got no block, the destructor counts it as refused, unless it is
    /// for 0 bytes.
    class attempt {
    public:
        attempt(statistics& owner, std::size_t bytes) noexcept : owner_{owner}, bytes_{bytes} {}
        attempt(attempt&&) = delete;
        ~attempt() {
            if (bytes_ != 0) { owner_.counts_.refused(); }
        }

        void* got(void* p) noexcept {
            if (p != nullptr) { owner_.counts_.allocated(p, std::exchange(bytes_, 0)); }
            return p;
        }

    private:
        statistics& owner_;
        std::size_t bytes_;
    };

    [[no_unique_address]] detail::scope_counters<counters, Lock, Histograms> counts_;
};

namespace detail {
/// A `statistics` layer that also counts histograms of sizes and lifetimes.
template <class Upstream>
using statistics_with_histograms = statistics<Upstream, biased_lock, histograms>;
} // namespace detail

namespace with {
/// Puts a `statistics` layer over a resource: `source | with::statistics`.
inline constexpr word<vram::statistics> statistics{};
/// Puts a `statistics` layer with histograms over a resource: `source | with::histograms`.
inline constexpr word<detail::statistics_with_histograms> histograms{};
} // namespace with

} // namespace vram
