// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/chunk_finder.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
using doubles::at;

namespace {

struct found_chunk {
    void*        base   = nullptr;
    std::size_t  bytes  = 0;
    found_chunk* beside = nullptr;
};

} // namespace

template class vram::detail::chunk_finder<found_chunk>;

TEST_CASE("chunk_finder: every address of a chunk finds it, and no other address does") {
    chunk_finder<found_chunk> finder{0x1000};
    CHECK(finder.find(at(0x5000)) == nullptr);
    // Side by side in one stretch, over the edge of one, and as long as one.
    std::vector<found_chunk> chunks{
        {at(0x5100), 0x100}, {at(0x5200), 0x100}, {at(0x5f00), 0x400}, {at(0x6800), 0x1000}};
    for (auto& c : chunks) {
        finder.reserve();
        finder.add(c);
    }
    for (std::uintptr_t where = 0x4000; where < 0x9000; where += 0x80) {
        found_chunk* expected = nullptr;
        for (auto& c : chunks) {
            auto const begin = reinterpret_cast<std::uintptr_t>(c.base);
            if (begin <= where && where < begin + c.bytes) { expected = &c; }
        }
        if (finder.find(at(where)) != expected) { FAIL("not the right one"); }
        if (where % 0x180 == 0 && finder.find_again(at(where)) != expected) { FAIL("nor again"); }
    }
}

TEST_CASE("chunk_finder: a removed chunk is not found, and its neighbours are") {
    found_chunk               a{at(0x5100), 0x100}, b{at(0x5200), 0x100}, c{at(0x5300), 0x100};
    chunk_finder<found_chunk> first{0x1000};
    for (auto* each : {&a, &b, &c}) {
        first.reserve();
        first.add(*each);
    }
    CHECK(first.find_again(at(0x5210)) == &b);
    chunk_finder<found_chunk> finder{std::move(first)};
    CHECK(first.find(at(0x5210)) == nullptr);
    finder.remove(b);
    CHECK(finder.find(at(0x5210)) == nullptr);
    CHECK(finder.find(at(0x5110)) == &a);
    CHECK(finder.find(at(0x5310)) == &c);
    finder.remove(c);
    finder.remove(a);
    CHECK(finder.find(at(0x5110)) == nullptr);
    CHECK(finder.find_again(at(0x5310)) == nullptr);
}
