// SPDX-License-Identifier: Apache-2.0
#include <vram/base/call_site.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <source_location>
#include <string>

using namespace vram;

namespace {
struct entry {
    call_site at(int, call_site where = call_site::current()) const { return where; }
};
template <class Entry>
call_site forwarded(Entry const& e, call_site where = call_site::current()) {
    return e.at(1, where);
}
template <class Entry>
struct owner {
    explicit owner(Entry const& e, call_site where = call_site::current()) : site{e.at(1, where)} {}
    call_site site;
};
} // namespace

TEST_CASE("call_site: the default argument is the line of the caller, also through a layer") {
    entry const    e;
    unsigned const line = __LINE__ + 1;
    auto const     site = e.at(0);
    CHECK(site.line() == line);
    CHECK(std::string{site.file()}.ends_with("call_site.cpp"));
    CHECK(forwarded(e).line() == __LINE__);
    CHECK(owner{e}.site.line() == __LINE__);
    CHECK(call_site{std::source_location::current()}.line() == __LINE__);
}

TEST_CASE("call_site: a site that no caller passed is unknown") {
    CHECK_FALSE(call_site{}.known());
    CHECK_FALSE(entry{}.at(0, {}).known());
    CHECK(call_site::current().known());
    CHECK(std::string{call_site{}.file()}.empty());
}

static_assert(sizeof(call_site) == sizeof(void*), "one register");
