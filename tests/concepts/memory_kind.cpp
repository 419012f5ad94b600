// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/memory_kind.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <cstring>

using vram::memory_kind;

TEST_CASE("memory_kind: every kind has a different name") {
    memory_kind const all[] = {memory_kind::pageable, memory_kind::pinned, memory_kind::managed,
                               memory_kind::device};
    for (memory_kind a : all) {
        for (memory_kind b : all) {
            CHECK((std::strcmp(vram::name(a), vram::name(b)) == 0) == (a == b));
        }
    }
}

namespace {
struct memory_kind_knower {
    using device = int;
    static memory_kind memory_kind_of(void const*) { return memory_kind::device; }
    static bool        uses_host_page_tables(device) { return true; }
};
struct memory_kind_guesser {
    using device = int;
    static int  memory_kind_of(void const*) { return 0; }
    static void uses_host_page_tables(device) {}
};
} // namespace

TEST_CASE("memory_kind: a platform returns kinds if it has memory_kind_of") {
    CHECK(vram::knows_memory<memory_kind_knower>);
    CHECK(vram::knows_page_tables<memory_kind_knower>);
    CHECK_FALSE(vram::knows_memory<memory_kind_guesser>);
    CHECK_FALSE(vram::knows_page_tables<memory_kind_guesser>);
    CHECK_FALSE(vram::knows_memory<vram::host_platform>);
    CHECK_FALSE(vram::knows_page_tables<vram::host_platform>);
}
