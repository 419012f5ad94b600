// SPDX-License-Identifier: Apache-2.0
// Properties of the types of the pools for small blocks.
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/slab.hpp>
#include <vram/source/host_resource.hpp>

#include "../doubles/archetype.hpp"
#include "../doubles/minimal_resource.hpp"

#include <doctest/doctest.h>

#include <type_traits>

using namespace vram;

namespace {

using all_powers = doubles::archetype<>;
using no_powers  = doubles::minimal_resource<>;

/// Properties of a pool over any upstream that it accepts.
template <class Pool, class Upstream>
consteval bool is_a_pool() {
    static_assert(resource<Pool>, "a pool gives the order of streams to an upstream without");
    static_assert(owning_resource<Pool> && measured_resource<Pool>);
    static_assert(trimmable_resource<Pool> && retiring_resource<Pool>);
    static_assert(forgetting_resource<Pool>);
    static_assert(fallible_resource<Pool> == fallible_resource<Upstream>);
    static_assert(std::is_nothrow_move_constructible_v<Pool>, "a stack moves without failing");
    static_assert(std::is_move_assignable_v<Pool> == std::is_move_assignable_v<Upstream>);
    static_assert(!std::is_copy_constructible_v<Pool> && !std::is_copy_assignable_v<Pool>);
    static_assert(std::is_same_v<typename Pool::platform, typename Upstream::platform>);
    static_assert(std::is_same_v<typename Pool::properties, typename Upstream::properties>);
    return powers<Pool>::template include<Upstream>;
}
static_assert(is_a_pool<slab<all_powers>, all_powers>());
static_assert(is_a_pool<slab<no_powers>, no_powers>());
static_assert(is_a_pool<monotonic<all_powers>, all_powers>());
static_assert(is_a_pool<monotonic<no_powers, exact_growth>, no_powers>());
static_assert(is_a_pool<binned<all_powers>, all_powers>());
static_assert(is_a_pool<binned<stream_ordered<no_powers>>, stream_ordered<no_powers>>());

static_assert(is_a_pool<arena<all_powers>, all_powers>());
static_assert(is_a_pool<arena<no_powers, exact_growth>, no_powers>());
static_assert(is_a_pool<arena<slab<all_powers>>, slab<all_powers>>());

// A pool without required arguments is default-constructible if its upstream is.
static_assert(std::is_default_constructible_v<monotonic<all_powers>>);
static_assert(std::is_default_constructible_v<arena<all_powers>>);
static_assert(std::is_default_constructible_v<binned<stream_ordered<host_resource>>>);
static_assert(!std::is_default_constructible_v<slab<all_powers>>);
static_assert(std::is_constructible_v<slab<all_powers>, std::size_t>);

// Both spellings are one type.
template <class Piped, class Nested>
inline constexpr bool is_spelt = std::is_same_v<Piped, Nested>;
static_assert(is_spelt<decltype(all_powers{} | with::slab(1)), slab<all_powers>>);
static_assert(is_spelt<decltype(all_powers{} | with::binned), binned<all_powers>>);
static_assert(is_spelt<decltype(all_powers{} | with::arena | with::arena({.count = 2})),
                       arena<arena<all_powers>>>);
static_assert(
    is_spelt<decltype(all_powers{} | with::binned({.largest = 4096})), binned<all_powers>>);
static_assert(is_spelt<decltype(all_powers{} | with::monotonic), monotonic<all_powers>>);
static_assert(is_spelt<decltype(all_powers{} | with::monotonic({.initial_size = 1}) |
                                with::monotonic | with::slab(1) | with::slab(1)),
                       slab<slab<monotonic<monotonic<all_powers>>>>>);
static_assert(is_spelt<decltype(statistics{binned{stream_ordered{host_resource{}}}}),
                       statistics<binned<stream_ordered<host_resource>>>>);

// A mark is a value.
static_assert(std::is_trivially_copyable_v<monotonic_mark>);
static_assert(!std::is_default_constructible_v<monotonic_mark>);

} // namespace

TEST_CASE("small pools: the static_asserts of this file compile") {
    CHECK(is_a_pool<slab<all_powers>, all_powers>());
}
