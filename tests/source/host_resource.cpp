// SPDX-License-Identifier: Apache-2.0
#include <vram/source/host_resource.hpp> // first: the header stands alone

#include "../laws/resource.hpp"

using namespace vram;

TEST_CASE("host_resource: it keeps the laws of a resource") {
    laws::source([] { return host_resource{}; }, {.largest_alignment = 2_MiB});
}

TEST_CASE("host_resource: any two are equal") { CHECK(host_resource{} == host_resource{}); }

TEST_CASE("host_resource: a refusal has the requested and the rounded size") {
    try {
        (void)host_resource{}.allocate_sync(unsatisfiable - 100, 64);
        FAIL("nobody has that much");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == unsatisfiable - 100);
        CHECK(e.numbers().rounded == unsatisfiable - 63);
        CHECK(e.numbers().alignment == 64);
    }
}

TEST_CASE(
    "host_resource: a size above the largest object is refused without a call of the system") {
    CHECK(host_resource{}.try_allocate_sync(unsatisfiable / 2 + 1, 1) == nullptr);
    CHECK_THROWS_AS((void)host_resource{}.allocate({}, unsatisfiable / 2 + 1, 1), out_of_memory);
}
