// SPDX-License-Identifier: Apache-2.0
#include <vram/base/bytes.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <sstream>
#include <string>

using namespace vram;

namespace {

std::string text(std::size_t n) { return bytes{n}.text().c_str(); }

} // namespace

TEST_CASE("bytes: sizes print with a unit and at most three digits") {
    CHECK(text(0) == "0 B");
    CHECK(text(512) == "512 B");
    CHECK(text(999) == "999 B");
    CHECK(text(1024) == "1.00 KiB");
    CHECK(text(1536) == "1.50 KiB");
    CHECK(text(10 * 1024) == "10.0 KiB");
    CHECK(text(100 * 1024) == "100 KiB");
    CHECK(text(1610612736) == "1.50 GiB");
}

TEST_CASE("bytes: every value has a unit that fits, also the largest") {
    CHECK(text(1000) == "0.98 KiB");
    CHECK(text(1023 * 1024) == "1.00 MiB");
    CHECK(text(~std::size_t{0}) == "16.0 EiB");
    for (std::size_t n = 1; n != 0; n *= 2) {
        std::string const each = text(n - 1);
        CHECK(each.find_first_not_of("0123456789.") <= 4);
        CHECK(each.size() < sizeof(bytes::text_type));
    }
}

TEST_CASE("bytes: sizes print into any stream") {
    std::ostringstream out;
    out << bytes{2048} << ' ' << bytes{3};
    CHECK(out.str() == "2.00 KiB 3 B");
    CHECK(bytes{3} == bytes{3});
}

TEST_CASE("bytes: literals are powers of 1024, except GB") {
    static_assert(1_B == 1 && 4_KiB == 4096 && 1_MiB == 1u << 20 && 1_GiB == 1u << 30);
    static_assert(1_TiB == std::size_t{1} << 40 && 3_GB == 3'000'000'000);
    static_assert(0_GiB == 0);
    CHECK(text(8_GiB) == "8.00 GiB");
}
