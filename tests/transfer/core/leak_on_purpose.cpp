// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/leak_on_purpose.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <memory>

TEST_CASE(
    "leak_on_purpose: an object that keeps itself outlives its owners, and others end with them") {
    struct object {
        explicit object(bool* flag) : ended{flag} {}
        ~object() { *ended = true; }
        bool*                         ended;
        vram::detail::leak_on_purpose kept;
    };
    static bool first = false, second = false, third = false;
    auto        kept  = std::make_shared<object>(&first);
    auto        again = std::make_shared<object>(&second);
    auto        other = std::make_shared<object>(&third);
    kept->kept.keep(kept);
    kept->kept.keep(kept); // once
    again->kept.keep(again);
    other->kept.keep(nullptr);
    kept.reset();
    again.reset();
    other.reset();
    CHECK_FALSE(first);
    CHECK_FALSE(second);
    CHECK(third);
}
