// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/checked_scope.hpp> // first: the header must stand alone

#include "../../doubles/archetype.hpp"

#include <vram/base/bytes.hpp>

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

using namespace vram;
using namespace vram::detail;

using memory_type = doubles::archetype<>;
template class vram::detail::checked_scope<memory_type, void (*)(scope_facts<memory_type> const&)>;

TEST_CASE("checked_scope: the check runs once, at the end of the scope") {
    memory_type memory;
    int         asked = 0;
    std::string seen;
    void*       p = nullptr;
    {
        checked_scope const scope{memory, [&](auto const& facts) {
                                      ++asked;
                                      seen = facts.no_leak();
                                  }};
        p = memory.allocate_sync(2_KiB);
        CHECK(asked == 0);
    }
    CHECK(asked == 1);
    CHECK(seen.find("2.00 KiB") != std::string::npos);
    memory.deallocate_sync(p, 2_KiB);
}

TEST_CASE("checked_scope: the check also runs after break and return") {
    memory_type memory;
    int         asked = 0;
    auto const  leave = [&] {
        checked_scope const scope{memory, [&](auto const&) { ++asked; }};
        return;
    };
    leave();
    for (;;) {
        checked_scope const scope{memory, [&](auto const&) { ++asked; }};
        break;
    }
    CHECK(asked == 2);
}

TEST_CASE("checked_scope: an exception that leaves the scope is not replaced") {
    memory_type memory;
    int         asked = 0;
    try {
        checked_scope const scope{memory, [&](auto const&) { ++asked; }};
        throw std::runtime_error{"news"};
    } catch (std::runtime_error const&) {}
    CHECK(asked == 0);

    // A scope inside a destructor that runs during another exception is still checked.
    struct in_unwinding {
        memory_type& memory;
        int&         asked;
        ~in_unwinding() {
            checked_scope const scope{memory, [this](auto const&) { ++asked; }};
        }
    };
    try {
        in_unwinding const late{memory, asked};
        throw std::runtime_error{"news"};
    } catch (std::runtime_error const&) {}
    CHECK(asked == 1);
}

TEST_CASE("checked_scope: an exception of the check leaves the scope") {
    memory_type memory;
    CHECK_THROWS_AS((void)checked_scope(memory, [](auto const&) { throw std::logic_error{"no"}; }),
                    std::logic_error);
}
