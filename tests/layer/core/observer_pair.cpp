// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/core/observer_pair.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>
#include <utility>

using namespace vram;
using namespace vram::detail;

namespace {

using event = memory_event<host_platform::stream>;
using kind  = memory_event_kind;

/// Counts events. Its copies share the number of their group.
struct sharer {
    int         group  = 0;
    std::size_t events = 0;

    void               observe(event const&) noexcept { ++events; }
    [[nodiscard]] bool shares_with(sharer const& other) const noexcept {
        return group == other.group;
    }
};
/// Counts events, except those of one kind.
struct chooser {
    kind        unwanted = kind::freed;
    std::size_t events   = 0;

    void               observe(event const&) noexcept { ++events; }
    [[nodiscard]] bool skips(kind k) const noexcept { return k == unwanted; }
    bool               operator==(chooser const&) const = default; // equal, but not one observer
};

/// Two types from which `derived_counter` derives: neither has the address of the object's other.
struct first_base {
    std::size_t events = 0;

    void observe(event const&) noexcept { ++events; }
};
struct second_base : first_base {};
struct derived_counter : sharer, second_base {
    using second_base::observe;
};

template <bool Filters, class First, class Second>
auto pair_of(First&& first, Second&& second) {
    return observer_pair<First, Second, Filters>{std::forward<First>(first),
                                                 std::forward<Second>(second)};
}

} // namespace

TEST_CASE("observer_pair: each observer is notified once, in the order of the upstreams") {
    chooser a, b, c;
    auto    all = pair_of<true>(pair_of<true>(a, b), pair_of<true>(pair_of<true>(b, a), c));
    all.observe(event{.kind = kind::allocated});
    CHECK((a.events == 1 && b.events == 1 && c.events == 1));
    c.unwanted = kind::allocated;
    all.observe(event{.kind = kind::allocated});
    CHECK((a.events == 2 && b.events == 2 && c.events == 1));
}

TEST_CASE("observer_pair: of copies that share their state one is notified") {
    sharer a{1}, b{2}, c{1}, d{2};
    pair_of<true>(pair_of<true>(a, b), pair_of<true>(c, d)).observe(event{});
    CHECK((a.events == 1 && b.events == 1 && c.events == 0 && d.events == 0));
}

TEST_CASE("observer_pair: an object is notified once if it is also given by a base type") {
    derived_counter one;
    second_base&    base = one;
    CHECK(static_cast<void*>(&base) != static_cast<void*>(&one));
    pair_of<true>(one, base).observe(event{});
    CHECK(one.second_base::events == 1);
    pair_of<true>(base, one).observe(event{});
    CHECK(one.second_base::events == 2);
    pair_of<true>(pair_of<true>(static_cast<first_base&>(one), base), one).observe(event{});
    CHECK(one.second_base::events == 3);
    second_base other;
    pair_of<true>(other, one).observe(event{});
    CHECK((other.events == 1 && one.second_base::events == 4));
}

TEST_CASE("observer_pair: it skips what all its observers skip") {
    static_assert(!skipping_observer<decltype(pair_of<true>(std::declval<chooser&>(),
                                                            std::declval<sharer&>()))>);
    chooser    a, b, c;
    auto const all = pair_of<true>(a, pair_of<true>(b, c));
    static_assert(skipping_observer<std::remove_const_t<decltype(all)>>);
    CHECK(all.skips(kind::freed));
    CHECK_FALSE(all.skips(kind::allocated));
    c.unwanted = kind::marked;
    CHECK_FALSE(all.skips(kind::freed));
}

TEST_CASE("observer_pair: on a platform that observes, no event is skipped") {
    chooser a, b;
    pair_of<false>(a, b).observe(event{.kind = kind::freed});
    CHECK((a.events == 1 && b.events == 1));
}
