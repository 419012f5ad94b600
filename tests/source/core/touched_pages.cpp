// SPDX-License-Identifier: Apache-2.0
#include <vram/source/core/touched_pages.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

using vram::detail::touched_pages;

namespace {
/// How many pages of a range are in memory.
std::size_t pages_present(void* p, std::size_t bytes) {
    std::vector<unsigned char> in((bytes + 4095) / 4096);
    REQUIRE(::mincore(p, bytes, in.data()) == 0);
    std::size_t there = 0;
    for (unsigned char const each : in) { there += each & 1U; }
    return there;
}
} // namespace

TEST_CASE("touched_pages: every page exists, is zero and writable, at every size") {
    std::size_t const huge = touched_pages::huge_page;
    for (std::size_t const bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{5000}, huge - 1,
                                    huge, huge + 1, 5 * huge + 123}) {
        for (unsigned const threads : {0U, 1U, 3U}) {
            for (bool const huge_pages : {false, true}) {
                void* const p = touched_pages::map(
                    bytes, {.threads = threads, .huge_pages = huge_pages, .piece_bytes = huge});
                REQUIRE(p != nullptr);
                CHECK(vram::is_aligned(p, bytes > huge - 4096 ? huge : 4096));
                CHECK(touched_pages::rounded(bytes) >= bytes);
                CHECK(pages_present(p, bytes) == (bytes + 4095) / 4096);
                auto* const at = static_cast<unsigned char*>(p);
                CHECK(at[0] == 0);
                CHECK(at[bytes - 1] == 0);
                std::memset(p, 7, bytes);
                touched_pages::unmap(p, bytes);
            }
        }
    }
}

TEST_CASE("touched_pages: zero bytes, or more than the system has, are null") {
    CHECK(touched_pages::map(0) == nullptr);
    CHECK(touched_pages::map(vram::unsatisfiable) == nullptr);
    CHECK(touched_pages::map(vram::unsatisfiable / 2) == nullptr);
    touched_pages::unmap(nullptr, 100);
}

TEST_CASE("touched_pages: an unknown NUMA node is no failure") {
    for (int const node : {0, 63, 1000, 1'000'000}) {
        void* const p = touched_pages::map(8192, {.numa_node = node});
        REQUIRE(p != nullptr);
        CHECK(pages_present(p, 8192) == 2);
        touched_pages::unmap(p, 8192);
    }
}
