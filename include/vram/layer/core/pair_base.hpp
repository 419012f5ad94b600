// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pair_base` is the common part of the layers over two upstreams, `fallback` and `segregated`.

#include <vram/base/core/first_exception.hpp>
#include <vram/base/core/smaller_of.hpp> // larger_of, smaller_of
#include <vram/base/memory_usage.hpp>
#include <vram/concepts/core/diagnosed.hpp>     // refuse_order
#include <vram/concepts/core/held_resource.hpp> // expect_resource
#include <vram/concepts/observer.hpp>           // observed_resource, observing_platform
#include <vram/concepts/powers.hpp>             // the powers that are forwarded
#include <vram/concepts/property.hpp>           // property_set
#include <vram/layer/core/observer_pair.hpp>

#include <concepts> // same_as
#include <cstddef>
#include <type_traits> // conditional_t
#include <utility>

namespace vram {
namespace detail {

/// Base class of `fallback` and `segregated`: owns two upstreams and forwards optional functions to
/// them. The layers themselves allocate and free.
///
/// `owns`, `usage`, `free_memory` and `reset_peaks` need both upstreams to have the function.
/// `trim`, `trim_no_wait`, `retire` and `forget_captures` call each upstream that has it, the
/// second one also if the first one throws.
///
/// Failure   The functions fail as those of the upstreams.
/// Threads   The rules are those of the less safe of the two upstreams.
template <synchronous_resource First, synchronous_resource Second>
    requires std::same_as<typename First::platform, typename Second::platform>
class pair_base {
    template <class P>
    static constexpr bool both_are = has_property<First, P> && has_property<Second, P>;

public:
    using platform = typename First::platform;
    using stream   = typename platform::stream;
    using properties =
        std::conditional_t<both_are<device_accessible>,
                           std::conditional_t<both_are<host_accessible>,
                                              property_set<device_accessible, host_accessible>,
                                              property_set<device_accessible>>,
                           std::conditional_t<both_are<host_accessible>,
                                              property_set<host_accessible>, property_set<>>>;

    /// Selected if a stream is passed but one upstream has no stream order. Does not compile: the
    /// error message names the alternatives.
    template <detail::not_a_size Stream>
        requires(!(resource<First> && resource<Second>))
    [[nodiscard]] void* allocate(Stream&&, std::size_t) {
        detail::refuse_order<Stream>();
        return nullptr;
    }
    template <detail::not_a_size Stream>
        requires(!(resource<First> && resource<Second>))
    void deallocate(Stream&&, void*, std::size_t) noexcept {
        detail::refuse_order<Stream>();
    }

    [[nodiscard]] bool owns(void const* p) const
        requires owning_resource<First> && owning_resource<Second>
    {
        return first_.owns(p) || second_.owns(p);
    }

    /// Returns the usage of both upstreams together. Each number is the sum of both, except
    /// `largest_free`, which is the larger of both. A sum of peaks may be higher than the true
    /// peak.
    [[nodiscard]] memory_usage usage() const
        requires measured_resource<First> && measured_resource<Second>
    {
        return sum(first_.usage(), second_.usage());
    }

    /// Calls `trim` of each upstream that has this function. Returns the number of bytes freed.
    /// `keep`: bytes of unused memory that these upstreams may retain together. If the first has no
    /// `usage`, each of them may retain `keep` bytes.
    std::size_t trim(std::size_t keep = 0)
        requires trimmable_resource<First> || trimmable_resource<Second>
    {
        std::size_t     returned = 0;
        first_exception failed;
        if constexpr (trimmable_resource<First>) {
            failed.of([&] { returned += first_.trim(keep); });
        }
        if constexpr (trimmable_resource<Second>) {
            failed.of([&] {
                if constexpr (trimmable_resource<First> && measured_resource<First>) {
                    memory_usage const now = first_.usage();
                    keep -= smaller_of(keep, now.reserved - smaller_of(now.reserved, now.live));
                }
                returned += second_.trim(keep);
            });
        }
        failed.rethrow();
        return returned;
    }

    void retire(stream s)
        requires retiring_resource<First> || retiring_resource<Second>
    {
        first_exception failed;
        if constexpr (retiring_resource<First>) {
            failed.of([&] { first_.retire(s); });
        }
        if constexpr (retiring_resource<Second>) {
            failed.of([&] { second_.retire(s); });
        }
        failed.rethrow();
    }
    void forget_captures()
        requires forgetting_resource<First> || forgetting_resource<Second>
    {
        first_exception failed;
        if constexpr (forgetting_resource<First>) {
            failed.of([&] { first_.forget_captures(); });
        }
        if constexpr (forgetting_resource<Second>) {
            failed.of([&] { second_.forget_captures(); });
        }
        failed.rethrow();
    }

    /// Returns the device of the first upstream, or, if that names no device, of the second.
    [[nodiscard]] auto device() const
        requires names_device<First> || names_device<Second>
    {
        if constexpr (located_resource<First> || !names_device<Second>) {
            return first_.device();
        } else if constexpr (!names_device<First>) {
            return second_.device();
        } else {
            auto const known = first_.device();
            return known ? decltype(second_.device()){*known} : second_.device();
        }
    }
    std::size_t trim_no_wait()
        requires promptly_trimmable_resource<First> || promptly_trimmable_resource<Second>
    {
        std::size_t     returned = 0;
        first_exception failed;
        if constexpr (promptly_trimmable_resource<First>) {
            failed.of([&] { returned += first_.trim_no_wait(); });
        }
        if constexpr (promptly_trimmable_resource<Second>) {
            failed.of([&] { returned += second_.trim_no_wait(); });
        }
        failed.rethrow();
        return returned;
    }
    [[nodiscard]] auto free_memory() const
        requires surveyed_resource<First> && surveyed_resource<Second>
    {
        auto all = first_.free_memory();
        all.add(second_.free_memory());
        return all;
    }
    memory_usage reset_peaks()
        requires peaking_resource<First> && peaking_resource<Second>
    {
        memory_usage const first = first_.reset_peaks();
        return sum(first, second_.reset_peaks());
    }
    /// Raises the peaks of this layer to at least those in `before`, a result of `reset_peaks`.
    void raise_peaks(memory_usage const& before)
        requires peaking_resource<First> && peaking_resource<Second> && measured_resource<Second>
    {
        memory_usage       part   = before;
        memory_usage const second = second_.usage();
        part.peak_live -= smaller_of(part.peak_live, second.peak_live);
        part.peak_reserved -= smaller_of(part.peak_reserved, second.peak_reserved);
        first_.raise_peaks(part);
    }

    /// Returns the observer of the upstream that has one. If both upstreams have one, returns an
    /// `observer_pair` by value, which notifies both.
    [[nodiscard]] decltype(auto) observer()
        requires observed_resource<First> || observed_resource<Second>
    {
        if constexpr (observed_resource<First> && observed_resource<Second>) {
            return observer_pair<decltype(first_.observer()), decltype(second_.observer()),
                                 !observing_platform<platform>>{first_.observer(),
                                                                second_.observer()};
        } else if constexpr (observed_resource<First>) {
            return first_.observer();
        } else {
            return second_.observer();
        }
    }

    /// Returns the first of the two upstreams, which the layer owns.
    [[nodiscard]] First&       first() noexcept { return first_; }
    [[nodiscard]] First const& first() const noexcept { return first_; }
    /// Returns the second of the two upstreams, which the layer owns.
    [[nodiscard]] Second&       second() noexcept { return second_; }
    [[nodiscard]] Second const& second() const noexcept { return second_; }

    /// A layer is equal only to itself: memory must be freed by the layer that allocated it.
    friend bool operator==(pair_base const& a, pair_base const& b) noexcept { return &a == &b; }

protected:
    pair_base(First first, Second second) : first_{std::move(first)}, second_{std::move(second)} {
        detail::expect_resource(first_,
                                "the first upstream must hold a resource; it was moved from");
        detail::expect_resource(second_,
                                "the second upstream must hold a resource; it was moved from");
    }
    pair_base(pair_base&&)            = default;
    pair_base& operator=(pair_base&&) = default;
    ~pair_base()                      = default;

    [[nodiscard]] static memory_usage sum(memory_usage sum, memory_usage const& more) noexcept {
        sum.add(more);
        return sum;
    }

    [[no_unique_address]] First  first_;
    [[no_unique_address]] Second second_;
};

} // namespace detail
} // namespace vram
