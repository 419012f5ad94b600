// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/owner_lists.hpp> // first: the header must stand alone

#include "../../doubles/archetype.hpp"

#include <vram/handle/any_resource.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/fallback.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/probe/tracking.hpp>

#include <doctest/doctest.h>

#include <utility>

using namespace vram;
using detail::may_have_owners;
using detail::owners_of;

namespace owner_lists_test {

using source  = doubles::archetype<>;
using tracked = tracking<source>;

static_assert(may_have_owners<tracked>() && may_have_owners<limiting<tracked>>() &&
              may_have_owners<shared<limiting<tracked>>>() &&
              may_have_owners<fallback<source, tracked>>() &&
              may_have_owners<limiting<any_resource_of<source>>>() &&
              !may_have_owners<limiting<source>>() && !may_have_owners<shared<source>>());

TEST_CASE(
    "owners_of: a layer tracking is found below layers, behind handles and in both upstreams") {
    tracked                          below;
    detail::owner_lists const* const lists = &below.owners();
    CHECK(owners_of(below) == lists);
    resource_ref const ref{below};
    CHECK(owners_of(ref) == lists);
    statistics over{limiting{ref, 1000}};
    CHECK(owners_of(over) == lists);
    any_resource_of<source> const any{ref};
    CHECK(owners_of(any) == lists);
    fallback pair{source{}, ref};
    CHECK(owners_of(pair) == lists);
    shared<statistics<any_resource_of<source>>> const kept{statistics{any}};
    CHECK(owners_of(kept) == lists);
    // Of two layers, the outermost one.
    tracking outer{ref};
    CHECK(owners_of(outer) == &outer.owners());
}

TEST_CASE("owner_source: the lists are those of the value that the stack has now") {
    any_resource_of<source> any{tracked{}};
    detail::owner_source    owners{any};
    CHECK(owners.lists() == owners_of(any));
    CHECK(owners.lists() != nullptr);
    tracked other;
    any = resource_ref{other};
    CHECK(owners.lists() == &other.owners());
    detail::owner_source of_stack{other};
    other = tracked{};
    CHECK(of_stack.lists() == &other.owners());
    CHECK(owners.lists() == &other.owners());
    any = any_resource_of<source>{source{}};
    CHECK(owners.lists() == nullptr);
}

TEST_CASE("owners_of: a stack without the layer has no lists") {
    CHECK(owners_of(source{}) == nullptr);
    any_resource_of<source> any{source{}};
    CHECK(owners_of(any) == nullptr);
    any_resource_of<source> const moved{std::move(any)};
    CHECK(owners_of(any) == nullptr);
}

} // namespace owner_lists_test
