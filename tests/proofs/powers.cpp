// SPDX-License-Identifier: Apache-2.0
// No layer and no handle loses a power: each of them over a resource that has every power, checked
// power by power. A new power is added to `powers` and to `everything`; a new layer to the list.
#include "../doubles/everything.hpp"

#include <vram/handle/any_resource.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/history/logging.hpp>
#include <vram/layer/aligned.hpp>
#include <vram/layer/fallback.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/locked.hpp>
#include <vram/layer/observed.hpp>
#include <vram/layer/retrying.hpp>
#include <vram/layer/segregated.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/peak_scope.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>
#include <vram/probe/guarded.hpp>
#include <vram/probe/refusing.hpp>
#include <vram/probe/tracking.hpp>

#include <doctest/doctest.h>

#include <cstddef> // size_t

using namespace vram;
using doubles::asked_of;
using doubles::everything;

namespace {

/// A policy that has nothing to do.
struct idle_policy {
    static constexpr unsigned max_tries = 1;

    template <class R>
    bool operator()(R&, failed_attempt const&) const {
        return false;
    }
};

using all = powers<everything>;
static_assert(all::stream_ordered && all::fallible && all::owning && all::trimmable &&
              all::measured && all::retiring && all::reusing && all::rounding && all::located &&
              all::prompt && all::surveyed && all::peaking && forgetting_resource<everything>);

template <class Layer>
inline constexpr bool loses_nothing =
    powers<Layer>::template include<everything> && forgetting_resource<Layer>;

static_assert(loses_nothing<limiting<everything>>);
static_assert(loses_nothing<statistics<everything>>);
static_assert(loses_nothing<logging<everything>>);
static_assert(loses_nothing<guarded<everything>>);
static_assert(loses_nothing<tracking<everything>>);
static_assert(loses_nothing<aligned<everything>>);
static_assert(loses_nothing<locked<everything>>);
static_assert(loses_nothing<refusing<everything>>);
static_assert(loses_nothing<retrying<everything, idle_policy>>);
static_assert(loses_nothing<stream_ordered<everything>>);
static_assert(loses_nothing<fallback<everything, everything>>);
static_assert(loses_nothing<segregated<everything, everything>>);
static_assert(loses_nothing<limiting<statistics<aligned<locked<stream_ordered<everything>>>>>>);

// A part of a pair that lacks a power does not take it from the other one, if one is enough.
static_assert(located_resource<fallback<everything, doubles::archetype<>>> &&
              located_resource<segregated<doubles::archetype<>, everything>>);
static_assert(reusing_resource<fallback<everything, doubles::archetype<>>> &&
              rounding_resource<segregated<doubles::archetype<>, everything>>);

// Pools forward the powers that they do not have themselves.
template <class Pool>
inline constexpr bool keeps_the_upstreams =
    located_resource<Pool> && rounding_resource<Pool> && surveyed_resource<Pool> &&
    peaking_resource<Pool> && trimmable_resource<Pool> && forgetting_resource<Pool>;
static_assert(keeps_the_upstreams<pool<everything>> && reusing_resource<pool<everything>>);
static_assert(keeps_the_upstreams<slab<everything>> && keeps_the_upstreams<binned<everything>>);
static_assert(keeps_the_upstreams<monotonic<everything>> && keeps_the_upstreams<arena<everything>>);

// `observer` passes through each layer, pool and `shared`.
struct nothing_seen {
    template <class Stream>
    void observe(memory_event<Stream> const&) noexcept {}
};
using seen = observed<everything, nothing_seen>;
static_assert(loses_nothing<seen> && observed_resource<seen> && !observed_resource<everything>);
static_assert(observed_resource<limiting<seen>> && observed_resource<statistics<seen>> &&
              observed_resource<aligned<seen>> && observed_resource<locked<seen>> &&
              observed_resource<retrying<seen, idle_policy>> && observed_resource<refusing<seen>> &&
              observed_resource<tracking<seen>> && observed_resource<stream_ordered<seen>> &&
              observed_resource<fallback<seen, everything>> &&
              observed_resource<fallback<seen, seen>> &&
              observed_resource<segregated<everything, seen>> &&
              observed_resource<observed<seen, nothing_seen>>);
static_assert(observed_resource<pool<seen>> && observed_resource<slab<seen>> &&
              observed_resource<binned<seen>> && observed_resource<monotonic<seen>> &&
              observed_resource<arena<seen>> && observed_resource<shared<pool<seen>>> &&
              !observed_resource<resource_ref_of<seen>> &&
              !observed_resource<any_resource_of<seen>>);

// A handle has every power. `shared` and `resource_ref` do not forget captures, since graphs of
// other holders may run again.
using handle = shared<everything>;
using any    = any_resource_of<everything>;
static_assert(powers<handle>::include<everything> && !forgetting_resource<handle>);
static_assert(!forgetting_resource<resource_ref_of<everything>> && forgetting_resource<any>);
static_assert(reusing_resource<any> && rounding_resource<any> && promptly_trimmable_resource<any> &&
              fallible_resource<any> && trimmable_resource<any> && retiring_resource<any>);

/// Calls every power of a handle or a layer once.
template <class R>
void call_all(R& mr) {
    if (void* const p = mr.try_allocate_ready({}, 100, 64)) { mr.deallocate({}, p, 100, 64); }
    mr.trim_no_wait();
    (void)mr.free_memory();
    auto const before = mr.reset_peaks();
    if constexpr (requires { before.has_value(); }) {
        mr.raise_peaks(before.value());
    } else {
        mr.raise_peaks(before);
    }
    CHECK(mr.rounded_size(100, 64) == 128);
    (void)mr.device();
}

template <class Make>
void reaches_the_upstream(Make make, unsigned times = 1) {
    asked_of book;
    {
        auto mr = make(everything{book});
        call_all(mr);
        CHECK(book.ready == 1);
        CHECK(book.prompt == times);
        CHECK(book.surveys == times);
        CHECK(book.resets == times);
        CHECK(book.raises == 1);
        mr.forget_captures();
        CHECK(book.forgets == times);
        CHECK(mr.rounded_size(0, 64) == 0);
    }
}

} // namespace

TEST_CASE("powers: each layer forwards each power") {
    asked_of other;
    reaches_the_upstream([](auto up) { return limiting{std::move(up), 1000}; });
    reaches_the_upstream([](auto up) { return statistics{std::move(up)}; });
    reaches_the_upstream([](auto up) { return logging{std::move(up), "/dev/null"}; });
    reaches_the_upstream([](auto up) { return tracking{std::move(up)}; });
    reaches_the_upstream([](auto up) { return aligned{std::move(up), 64}; });
    reaches_the_upstream([](auto up) { return locked{std::move(up)}; });
    reaches_the_upstream([](auto up) { return refusing{std::move(up)}; });
    reaches_the_upstream([](auto up) { return observed{std::move(up), nothing_seen{}}; });
    reaches_the_upstream([](auto up) { return retrying{std::move(up), idle_policy{}}; });
    reaches_the_upstream([&](auto up) { return fallback{std::move(up), everything{other}}; });
    reaches_the_upstream(
        [&](auto up) { return segregated{std::move(up), everything{other}, 200}; });
    reaches_the_upstream([](auto up) { return any{std::move(up)}; });
}

TEST_CASE("powers: handles forward each power") {
    asked_of book;
    handle   mr{everything{book}};
    call_all(mr);
    resource_ref_of<everything> ref{mr};
    call_all(ref);
    CHECK(book.ready == 2);
    CHECK(book.raises == 2);
    CHECK(ref.free_memory()->largest == 100);
    CHECK(ref.device().has_value());
    any const none{doubles::archetype<>{}};
    CHECK(!none.free_memory().has_value());
    CHECK(!none.reset_peaks().has_value());
    CHECK(!none.device().has_value());
    CHECK(none.try_allocate_ready({}, 100) == nullptr);
    CHECK(none.rounded_size(100, 64) == 100);
    none.forget_captures();
}

TEST_CASE("powers: the peaks of a pair are the sums, also after raise_peaks") {
    using source = doubles::archetype<>;
    fallback    mr{pool{source{}}, pool{source{}}};
    void* const p = mr.primary().allocate({}, 1000);
    void* const q = mr.secondary().allocate({}, 3000);
    mr.primary().deallocate({}, p, 1000);
    mr.secondary().deallocate({}, q, 3000);
    std::size_t const peak = mr.usage().peak_live;
    CHECK(peak >= 4000);
    {
        peak_scope const inner{mr};
        CHECK(inner.live() == 0);
    }
    CHECK(mr.usage().peak_live == peak);
}

TEST_CASE("powers: stream_ordered has peaks of its own") {
    stream_ordered mr{host_resource{}};
    mr.deallocate_sync(mr.allocate_sync(1000), 1000);
    {
        peak_scope const inner{mr};
        mr.deallocate_sync(mr.allocate_sync(10), 10);
        CHECK(inner.live() == 10);
    }
    CHECK(mr.usage().peak_live == 1000);
}
