// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/growth.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;

namespace growth_models { // named, because some compilers warn about unused types
struct doubling {
    static constexpr bool asks_device = false;

    std::size_t operator()(growth_request const& r) const {
        return r.needed > r.held ? r.needed : r.held;
    }
};
struct silent { // does not say whether it asks the device
    std::size_t operator()(growth_request const& r) const { return r.needed; }
};
struct vague { // no size
    static constexpr bool asks_device = false;

    void operator()(growth_request const&) const {}
};
} // namespace growth_models
using namespace growth_models;

TEST_CASE("growth: a policy returns a size and declares if it needs the device's memory info") {
    static_assert(growth<doubling>);
    static_assert(!growth<silent>);
    static_assert(!growth<vague>);
    static_assert(!growth<int>);
    CHECK(doubling{}({.needed = 10, .held = 100}) == 100);
}
