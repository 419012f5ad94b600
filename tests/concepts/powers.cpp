// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/powers.hpp> // first: the header stands alone

#include <vram/handle/any_resource.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>

#include "../doubles/archetype.hpp"
#include "../doubles/minimal_resource.hpp"

#include <doctest/doctest.h>

using namespace vram;

namespace {
struct throwing_try : doubles::minimal_resource<> { // a `try_` that may throw is no power
    void* try_allocate_sync(std::size_t, std::size_t) { return nullptr; }
};
struct silent_trim : doubles::minimal_resource<> { // does not return the number of bytes
    void trim(std::size_t) {}
};
} // namespace

TEST_CASE("powers: the archetype has all, and the minimal resource none") {
    using all  = powers<doubles::archetype<>>;
    using none = powers<doubles::minimal_resource<>>;
    static_assert(all::stream_ordered && all::fallible && all::owning);
    static_assert(all::trimmable && all::measured && all::retiring);
    static_assert(!none::stream_ordered && !none::fallible && !none::owning);
    static_assert(!none::trimmable && !none::measured && !none::retiring);
}

TEST_CASE("powers: a set of powers includes another if it has at least those") {
    static_assert(powers<doubles::archetype<>>::include<doubles::minimal_resource<>>);
    static_assert(!powers<doubles::minimal_resource<>>::include<doubles::archetype<>>);
    static_assert(powers<doubles::archetype<>>::include<doubles::archetype<>>);
}

TEST_CASE("powers: a handle does not forward forget_captures, except any_resource, which hides its "
          "resource") {
    static_assert(forgetting_resource<doubles::archetype<>>);
    static_assert(!forgetting_resource<doubles::minimal_resource<>>);
    static_assert(!forgetting_resource<shared<doubles::archetype<>>>);
    static_assert(!forgetting_resource<resource_ref<host_platform>>);
    static_assert(forgetting_resource<any_resource<host_platform>>);
}

TEST_CASE("powers: a member with the right name and a wrong signature is no power") {
    static_assert(!fallible_resource<throwing_try>);
    static_assert(!trimmable_resource<silent_trim>);
}
