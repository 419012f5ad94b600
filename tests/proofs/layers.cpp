// SPDX-License-Identifier: Apache-2.0
// Properties of the layer types: their sizes, moves and powers, and that both spellings of a stack
// are one type.
#include <vram/layer/aligned.hpp>
#include <vram/layer/fallback.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/locked.hpp>
#include <vram/layer/observed.hpp>
#include <vram/layer/retrying.hpp>
#include <vram/layer/segregated.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/source/null_resource.hpp>
#include <vram/source/region_resource.hpp>

#include "../doubles/everything.hpp"
#include "../doubles/minimal_resource.hpp"

#include <doctest/doctest.h>

#include <type_traits>

using namespace vram;
using namespace vram::detail;

namespace {

using nothing = null_resource<>;
using full    = doubles::everything;
using least   = doubles::minimal_resource<>;

struct polite { // a policy without a state
    static constexpr unsigned max_tries = 1;

    template <class R>
    bool operator()(R&, failed_attempt const&) const {
        return false;
    }
};

template <class Upstream>
using polite_retrying = retrying<Upstream, polite>;
template <class Upstream>
using with_a_reserve = fallback<Upstream, full>;
template <class Upstream>
using as_a_reserve = fallback<full, Upstream>;
template <class Upstream>
using for_small = segregated<Upstream, full>;
template <class Upstream>
using for_large = segregated<full, Upstream>;

struct unseen_events { // an observer without a state
    template <class Stream>
    void observe(memory_event<Stream> const&) noexcept {}
};
template <class Upstream>
using plain_observed = observed<Upstream, unseen_events>;

template <template <class> class... Layers>
struct list {};

/// Every layer, as a template of its upstream alone.
template <class Upstream>
using plain_limiting = limiting<Upstream>;
template <class Upstream>
using plain_locked = locked<Upstream>;
template <class Upstream>
using plain_statistics = statistics<Upstream>;
template <class Upstream>
using plain_stream_ordered = stream_ordered<Upstream>;
template <class Upstream>
using plain_aligned = aligned<Upstream>;
using layers =
    list<plain_limiting, plain_locked, plain_statistics, plain_stream_ordered, plain_aligned,
         plain_observed, polite_retrying, with_a_reserve, as_a_reserve, for_small, for_large>;

/// Properties of a layer over any upstream.
template <class Layer, class Upstream>
consteval bool is_a_layer() {
    static_assert(synchronous_resource<Layer>);
    static_assert(std::is_nothrow_move_constructible_v<Layer>, "a stack moves without failing");
    static_assert(!std::is_copy_constructible_v<Layer>, "a stack is never copied by accident");
    static_assert(!std::is_copy_assignable_v<Layer>);
    static_assert(std::is_same_v<typename Layer::platform, typename Upstream::platform>);
    return true;
}

/// Every layer over one upstream, with the powers of that upstream.
template <class Upstream, template <class> class... Layer>
consteval bool each_over(list<Layer...>) {
    return (... && (is_a_layer<Layer<Upstream>, Upstream>() &&
                    powers<Layer<Upstream>>::template include<Upstream>));
}
/// Every layer over every layer over one upstream.
template <class Upstream, template <class> class... Layer>
consteval bool pairs_over(list<Layer...> all) {
    return (... && each_over<Layer<Upstream>>(all));
}

static_assert(each_over<nothing>(layers{}) && each_over<full>(layers{}));
static_assert(pairs_over<nothing>(layers{}) && pairs_over<full>(layers{}));

// Over a minimal upstream no layer has a power of its own.
template <class Layer>
inline constexpr bool invents_nothing =
    !fallible_resource<Layer> && !owning_resource<Layer> && synchronous_resource<Layer>;
static_assert(invents_nothing<limiting<least>> && !resource<limiting<least>>);
static_assert(invents_nothing<locked<least>> && !resource<locked<least>>);
static_assert(invents_nothing<statistics<least>> && !resource<statistics<least>>);
static_assert(invents_nothing<aligned<least>> && !resource<aligned<least>>);
static_assert(invents_nothing<polite_retrying<least>> && !resource<polite_retrying<least>>);
static_assert(invents_nothing<fallback<least, full>> && !resource<fallback<full, least>>);
static_assert(invents_nothing<segregated<full, least>> && !resource<segregated<least, full>>);
static_assert(invents_nothing<stream_ordered<least>> && resource<stream_ordered<least>>);

// A layer has the size of its own state; an empty upstream adds nothing.
static_assert(sizeof(limiting<nothing>) == sizeof(detail::gauge));
static_assert(sizeof(limiting<limiting<nothing>>) == 2 * sizeof(detail::gauge));
static_assert(sizeof(aligned<nothing>) == 2 * sizeof(std::size_t));
static_assert(sizeof(retrying<nothing, polite>) == sizeof(std::size_t)); // its counter
static_assert(sizeof(segregated<nothing, host_resource>) == sizeof(std::size_t));
static_assert(std::is_empty_v<nothing> && std::is_empty_v<host_resource>);
static_assert(sizeof(statistics<nothing, no_lock>) < sizeof(statistics<nothing>));

// Sources: those without a state are copied, a region is not.
static_assert(std::is_trivially_copyable_v<host_resource> && std::is_trivially_copyable_v<nothing>);
static_assert(!std::is_copy_constructible_v<region_resource<>>);
static_assert(std::is_nothrow_move_constructible_v<region_resource<>>);

// Both spellings are one type, also for a layer over another of its kind.
template <class Piped, class Nested>
inline constexpr bool same = std::is_same_v<Piped, Nested>;
static_assert(same<decltype(full{} | with::limiting(1)), limiting<full>>);
static_assert(same<decltype(full{} | with::locked), locked<full>>);
static_assert(same<decltype(full{} | with::statistics), statistics<full>>);
static_assert(same<decltype(full{} | with::stream_ordered), stream_ordered<full>>);
static_assert(
    same<decltype(full{} | with::stream_ordered({.frees_per_event = 2})), stream_ordered<full>>);
static_assert(same<decltype(full{} | with::aligned(512)), aligned<full>>);
static_assert(same<decltype(full{} | with::retrying(polite{})), retrying<full, polite>>);
static_assert(same<decltype(full{} | with::fallback(nothing{})), fallback<full, nothing>>);
static_assert(same<decltype(full{} | with::segregated(nothing{}, 1)), segregated<full, nothing>>);
static_assert(same<decltype(full{} | with::statistics | with::statistics | with::limiting(1)),
                   limiting<statistics<statistics<full>>>>);
static_assert(same<decltype(locked{stream_ordered{limiting{full{}, 1}}}),
                   decltype(full{} | with::limiting(1) | with::stream_ordered | with::locked)>);

// A layer over a default-constructible upstream is default-constructible, unless it needs an
// argument.
static_assert(std::is_default_constructible_v<stream_ordered<full>>);
static_assert(std::is_default_constructible_v<locked<statistics<stream_ordered<host_resource>>>>);
static_assert(!std::is_default_constructible_v<limiting<full>>);
static_assert(!std::is_default_constructible_v<statistics<region_resource<>>>);

} // namespace

TEST_CASE("layers: the static_asserts of this file compile") { CHECK(pairs_over<full>(layers{})); }
