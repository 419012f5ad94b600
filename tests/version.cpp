// SPDX-License-Identifier: Apache-2.0
#include <vram/version.hpp>

#include <doctest/doctest.h>

#include <string>

#if VRAM_VERSION < VRAM_VERSION_MAJOR * 10000
#error "VRAM_VERSION is not a number for the preprocessor"
#endif

TEST_CASE("version: the string and the number consist of the three parts") {
    auto const text = std::to_string(VRAM_VERSION_MAJOR) + "." +
                      std::to_string(VRAM_VERSION_MINOR) + "." + std::to_string(VRAM_VERSION_PATCH);
    CHECK(VRAM_VERSION_STRING == text);
    CHECK(VRAM_VERSION / 10000 == VRAM_VERSION_MAJOR);
    CHECK(VRAM_VERSION / 100 % 100 == VRAM_VERSION_MINOR);
    CHECK(VRAM_VERSION % 100 == VRAM_VERSION_PATCH);
}
