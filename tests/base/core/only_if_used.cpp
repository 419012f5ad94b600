// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/only_if_used.hpp> // first: the header stands alone

#include <doctest/doctest.h>

namespace {
template <class Type>
struct incomplete;

/// Would not compile if it were no template, or if it were used.
template <class Unused = vram::detail::only_if_used>
int size_of_incomplete() {
    return sizeof(incomplete<Unused>);
}
template <class = vram::detail::only_if_used>
int seven() {
    return 7;
}
} // namespace

TEST_CASE("only_if_used: a function template with this argument is called like a function") {
    CHECK(seven() == 7);
}
