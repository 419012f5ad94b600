// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/core/nontemporal_copy.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

using vram::detail::nontemporal_copy;
using vram::detail::nontemporal_width;

TEST_CASE("nontemporal_copy: every width, size and alignment copies exactly its bytes") {
    std::mt19937               random{3};
    std::vector<unsigned char> from(20'000), to(from.size());
    unsigned char constexpr other = 0xA5;
    for (unsigned char& each : from) { each = static_cast<unsigned char>(random()); }
    for (unsigned w = 0; w <= static_cast<unsigned>(vram::detail::widest_nontemporal()); ++w) {
        for (std::size_t const bytes :
             {0U, 1U, 63U, 64U, 255U, 4095U, 4096U, 4097U, 4159U, 4160U, 4351U, 4352U, 9999U}) {
            for (std::size_t const shift : {0U, 1U, 16U, 63U, 64U, 100U}) {
                for (std::size_t const source : {0U, 1U, 64U, 33U}) {
                    std::fill(to.begin(), to.end(), other);
                    nontemporal_copy(to.data() + shift, from.data() + source, bytes,
                                     static_cast<nontemporal_width>(w));
                    std::size_t wrong = 0;
                    for (std::size_t i = 0; i < to.size(); ++i) {
                        bool const inside = i >= shift && i < shift + bytes;
                        wrong += to[i] != (inside ? from[source + i - shift] : other) ? 1 : 0;
                    }
                    CAPTURE(w);
                    CAPTURE(bytes);
                    CAPTURE(shift);
                    CAPTURE(source);
                    REQUIRE(wrong == 0);
                }
            }
        }
    }
}

TEST_CASE(
    "nontemporal_copy: the processor is queried once, and there is always an implementation") {
    CHECK(vram::detail::widest_nontemporal() == vram::detail::widest_nontemporal());
    CHECK_NOTHROW(nontemporal_copy(nullptr, nullptr, 0));
}
