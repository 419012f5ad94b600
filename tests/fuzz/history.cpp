// SPDX-License-Identifier: Apache-2.0
// A fuzz target for the reader of histories, and a test with damaged files. With clang,
// -DVRAM_BUILD_FUZZERS=ON builds the program fuzz-history from this file.

#include "history.hpp"

#ifdef VRAM_FUZZER

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    try {
        static_cast<void>(fuzz::run_history({reinterpret_cast<char const*>(data), size}));
    } catch (std::exception const& e) {
        std::fprintf(stderr, "%s\n", e.what());
        std::abort();
    }
    return 0;
}

#else

#include "../history/recorded.hpp"
#include "damaged.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <string>

TEST_CASE("fuzz: a damaged history is refused, or is a record that each format can write") {
    // For a second, or VRAM_FUZZ_SECONDS.
    char const* const given = std::getenv("VRAM_FUZZ_SECONDS");
    auto const        until = std::chrono::steady_clock::now() +
                       std::chrono::seconds{given != nullptr ? std::atol(given) : 1};
    vram::history_record empty;
    vram::history_record record = recorded_history::sample(60);
    record.stacks.push_back({0x401000, 0x402000});
    record.events[0].stack    = 1;
    std::string const files[] = {fuzz::bytes_of(empty), fuzz::bytes_of(record)};
    std::mt19937_64   random{given != nullptr ? std::random_device{}() : 1};
    unsigned long     accepted = 0, refused = 0;
    while (std::chrono::steady_clock::now() < until) {
        std::string const bytes = fuzz::damaged(files[random() % 8 != 0], random);
        CAPTURE(bytes);
        bool read = false;
        REQUIRE_NOTHROW(read = fuzz::run_history(bytes));
        ++(read ? accepted : refused);
    }
    MESSAGE("accepted ", accepted, ", refused ", refused);
    CHECK(accepted > 0);
    CHECK(refused > 0);
}

#endif
