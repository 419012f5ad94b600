// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/held_resource.hpp> // first: the header stands alone

#include "../../doubles/archetype.hpp"
#include "../../doubles/contracts_throw.hpp"

#include <vram/handle/any_resource.hpp>
#include <vram/handle/array.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/handle/std_allocator.hpp>
#include <vram/interop/pmr.hpp>
#include <vram/layer/fallback.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>
#include <vram/staging/staging.hpp>
#include <vram/transfer/loader.hpp>

#include <doctest/doctest.h>

#include <utility> // move

using namespace vram;
using namespace vram::detail;

namespace {

using full = doubles::archetype<>;
using any  = any_resource_of<full>;

static_assert(resource_handle<shared<full>> && resource_handle<any>);
static_assert(resource_handle<resource_ref_of<full>>);
static_assert(!resource_handle<full> && !resource_handle<limiting<shared<full>>>);

/// A handle that was moved from.
template <class Handle>
Handle emptied() {
    Handle       mr{full{}};
    Handle const kept{std::move(mr)};
    CHECK(kept.holds_resource());
    CHECK(!mr.holds_resource());
    return mr;
}

template <class Part>
void refuses_an_empty_handle(Part make) {
    using doubles::broken_contract;
    CHECK_THROWS_AS((void)make(emptied<shared<full>>()), broken_contract);
    CHECK_THROWS_AS((void)make(emptied<any>()), broken_contract);
}

} // namespace

TEST_CASE("resource_handle: a pool or layer refuses a handle that was moved from") {
    doubles::contracts_throw const guard;
    refuses_an_empty_handle([](auto mr) { return resource_ref_of<full>{mr}.holds_resource(); });
    refuses_an_empty_handle(
        [](auto mr) { return any_resource<host_platform>{std::move(mr)}.holds_resource(); });
    refuses_an_empty_handle([](auto mr) { return limiting{std::move(mr), 1}.used(); });
    refuses_an_empty_handle(
        [](auto mr) { return fallback{std::move(mr), full{}}.allocate_sync(0); });
    refuses_an_empty_handle(
        [](auto mr) { return fallback{full{}, std::move(mr)}.allocate_sync(0); });
    refuses_an_empty_handle([](auto mr) { return pool{std::move(mr)}.usage().live; });
    refuses_an_empty_handle([](auto mr) { return buffer{std::move(mr)}.size(); });
    refuses_an_empty_handle([](auto mr) { return array<int, decltype(mr)>{std::move(mr)}.size(); });
    refuses_an_empty_handle([](auto mr) { return buffer<decltype(mr)&>{mr}.size(); });
    refuses_an_empty_handle([](auto mr) {
        std_allocator<int, decltype(mr)> const made{std::move(mr)};
        return made == made;
    });
    refuses_an_empty_handle([](auto mr) { return vram::pmr<decltype(mr)>{mr}.upstream() == mr; });
}

TEST_CASE("resource_handle: a moved-from handle is valid again after an assignment") {
    auto mr = emptied<any>();
    CHECK(mr == emptied<any>());
    mr = any{full{}};
    CHECK(mr.holds_resource());
    mr.deallocate_sync(mr.allocate_sync(10), 10);
}

TEST_CASE("any_resource: an allocation from a moved-from handle is a broken contract") {
    doubles::contracts_throw const guard;
    auto const                     mr = emptied<any>();
    CHECK_THROWS_AS((void)mr.allocate({}, 10), doubles::broken_contract);
    unsigned line = 0;
    try {
        line = __LINE__ + 1;
        (void)mr.allocate_sync(10);
        FAIL("the contract is broken");
    } catch (doubles::broken_contract const& b) { CHECK(b.line == line); } // the caller's line
    CHECK(!mr.owns(nullptr).has_value());
    CHECK(!mr.usage().has_value());
    CHECK(mr.trim() == 0);
    mr.retire({});
}
