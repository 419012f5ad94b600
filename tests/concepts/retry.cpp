// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/retry.hpp> // first: the header stands alone

#include <vram/source/null_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;

namespace {
struct once {
    static constexpr unsigned max_tries = 1;

    template <class R>
    bool operator()(R&, failed_attempt const& failed) {
        return failed.bytes != 0;
    }
};
struct boundless { // does not say when it ends
    template <class R>
    bool operator()(R&, failed_attempt const&) {
        return true;
    }
};
struct trims { // only for resources that can
    static constexpr unsigned max_tries = 1;

    bool operator()(trimmable_resource auto& r, failed_attempt const&) { return r.trim(0) != 0; }
};
} // namespace

TEST_CASE("retry: a policy ends, and fits the resource that it works on") {
    static_assert(retry<once, null_resource<>>);
    static_assert(!retry<boundless, null_resource<>>);
    static_assert(retry<trims, null_resource<>>);
    static_assert(!retry<trims, int>);
    null_resource<> none;
    CHECK(once{}(none, failed_attempt{.bytes = 1}));
    CHECK_FALSE(trims{}(none, {}));
}
