// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/owner_account.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;
using detail::owner_account;
using detail::owner_sums;

TEST_CASE("owner_account: sums have the live bytes of the last peak until a later peak") {
    owner_sums s;
    s.add(100, 1);
    CHECK(s.at_the_peak(2) == 100); // peak number 2 is now
    s.sub(40, 2);
    s.add(5, 2);
    CHECK(s.live == 65);
    CHECK(s.blocks == 1);
    CHECK(s.peak == 100);
    CHECK(s.allocated == 105);
    CHECK(s.at_the_peak(2) == 100);
    CHECK(s.at_the_peak(3) == 65);
}

TEST_CASE("owner_account: a line has one object for each tag, and tags share none") {
    owner_account   account{7};
    call_site const at  = call_site::current();
    auto&           one = account.find(1, {}, at);
    auto&           two = account.find(2, {}, {});
    tagged const    scope{"owner_account"};
    auto&           tags = account.find(3, current_tag(), at);
    CHECK(&account.find(1, {}, at) == &one);
    CHECK(&one != &two);
    CHECK(one.of == two.of);
    CHECK(one.of != tags.of);
    CHECK(one.account == &account);
    CHECK(one.at().line() == at.line());
    CHECK(tags.of->owner == current_tag());
}
