// SPDX-License-Identifier: Apache-2.0
// A fuzz target, and the test that replays its findings. With clang, -DVRAM_BUILD_FUZZERS=ON builds
// the program fuzz-pool from this file: `fuzz-pool tests/fuzz/corpus/pool`.

#include "pool.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#ifdef VRAM_FUZZER

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    try {
        fuzz::run_pool({data, size});
    } catch (std::exception const& e) {
        std::fprintf(stderr, "%s\n", e.what());
        std::abort();
    }
    return 0;
}

#else

TEST_CASE("fuzz: each file of the corpus replays without a failure") {
    std::filesystem::path const corpus =
        std::filesystem::path{__FILE__}.parent_path() / "corpus/pool";
    std::size_t files = 0;
    for (auto const& entry : std::filesystem::directory_iterator{corpus}) {
        std::ifstream                   file{entry.path(), std::ios::binary};
        std::vector<std::uint8_t> const bytes{std::istreambuf_iterator<char>{file}, {}};
        CAPTURE(entry.path().filename().string());
        CHECK_NOTHROW(fuzz::run_pool(bytes));
        ++files;
    }
    CHECK(files >= 20);
}

#endif
