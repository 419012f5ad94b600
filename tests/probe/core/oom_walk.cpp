// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/oom_walk.hpp> // first: the header must stand alone

#include "../../doubles/archetype.hpp"

#include <vram/handle/shared.hpp>
#include <vram/probe/refusing.hpp>

#include <doctest/doctest.h>

#include <utility>

using namespace vram;

TEST_CASE("oom_walk: the stack of a handle is its resource") {
    refusing<doubles::archetype<>> plain;
    CHECK(&detail::stack_of(plain) == &plain);
    shared handle{std::move(plain)};
    CHECK(&detail::stack_of(handle) == &handle.get());
}

TEST_CASE("oom_walk: a run without a refusal, and four for each request") {
    refusing<doubles::archetype<>> memory;
    auto                           work = [](auto& mr) {
        for (int i = 0; i < 3; ++i) { mr.deallocate_sync(mr.allocate_sync(64), 64); }
    };
    survives_oom_options const                               usual;
    detail::oom_walk<decltype(memory), decltype(work), true> runs{memory.plan(), memory, work,
                                                                  usual};
    oom_survival const                                       result = runs.walk();
    CHECK(result);
    CHECK(result.requests == 3);
    CHECK(result.runs == 2 + 4 * 3 + 1);
}
