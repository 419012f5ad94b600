// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/segregated.hpp> // first: the header stands alone

#include "../doubles/minimal_resource.hpp"
#include "../laws/resource.hpp"

using namespace vram;

template class vram::segregated<doubles::archetype<>, doubles::archetype<>>;
template class vram::segregated<doubles::minimal_resource<>, doubles::archetype<>>;

TEST_CASE("segregated: it keeps the laws of a resource, with either upstream in use") {
    laws::resource([](auto up) { return segregated{std::move(up), doubles::archetype<>{}, 100}; });
    laws::resource([](auto up) { return segregated{doubles::archetype<>{}, std::move(up), 40}; });
    laws::resource<doubles::minimal_resource<>>(
        [](auto up) { return segregated{std::move(up), doubles::minimal_resource<>{}, 100}; });
    laws::resource_of_many_threads(
        [](auto up) { return segregated{std::move(up), doubles::archetype<>{}, 100}; });
}

TEST_CASE("segregated: no failure loses memory") {
    laws::survives_every_failure(
        [](auto up) { return segregated{doubles::archetype<>{}, std::move(up), 100}; },
        [](auto& mr) { laws::block const first{mr, 10}, second{mr, 990}; },
        [](auto& mr) { return mr.usage().live; });
}

TEST_CASE("segregated: a request of the threshold is small, and one byte more is large") {
    doubles::ledger small, large;
    segregated      mr{doubles::counting_resource{host_resource{}, small},
                  doubles::counting_resource{host_resource{}, large}, 100};
    void* const     p = mr.allocate_sync(100);
    void* const     q = mr.allocate({}, 101);
    CHECK(small.out() == 100);
    CHECK(large.out() == 101);
    CHECK(mr.threshold() == 100);
    mr.deallocate_sync(p, 100);
    mr.deallocate({}, q, 101);
    CHECK(small.out() == 0);
    CHECK(large.out() == 0);
    mr.deallocate_sync(mr.try_allocate_sync(5), 5);
    mr.deallocate({}, mr.try_allocate({}, 500), 500);
    CHECK(*small.broken() == '\0');
    CHECK(*large.broken() == '\0');
}

TEST_CASE("segregated: usage is the sum of both upstreams") {
    segregated  mr{doubles::archetype<>{}, doubles::archetype<>{}, 100};
    void* const p = mr.allocate_sync(100);
    void* const q = mr.allocate_sync(200);
    CHECK(mr.usage().live == 300);
    CHECK(mr.usage().allocations == 2);
    CHECK(mr.owns(p));
    CHECK(mr.owns(q));
    mr.deallocate_sync(p, 100);
    mr.deallocate_sync(q, 200);
}

TEST_CASE("segregated: both spellings are one type") {
    auto mr = doubles::archetype<>{} | with::segregated(doubles::minimal_resource<>{}, 4_KiB);
    static_assert(std::is_same_v<decltype(mr),
                                 segregated<doubles::archetype<>, doubles::minimal_resource<>>>);
    static_assert(!fallible_resource<decltype(mr)>); // one of the two has no `try_allocate_sync`
    mr.deallocate_sync(mr.allocate_sync(5_KiB), 5_KiB);
}
