// SPDX-License-Identifier: Apache-2.0
#include <vram/data/memory_chunks.hpp> // first: the header stands alone

#include "files.hpp"

#include <vram/data/mapped_file.hpp>

#include <doctest/doctest.h>

using namespace vram;

namespace memory_chunks_tests {

using files::content;
using files::same;

TEST_CASE(
    "memory_chunks: chunks of memory, for example of a mapped file, are copied to the batch") {
    files::folder const    here;
    auto const             all = content(1000);
    mapped_file const      map{here.with("a", all)};
    memory_chunks const    source{map.bytes(), 300, {.overlap = 100}};
    std::vector<std::byte> to(300);
    CHECK(source.size() == 5);
    CHECK(source.batch_bytes() == 300);
    for (std::size_t i = 0; i < 5; ++i) {
        std::size_t const n = source.fill(to, i);
        CHECK(n == (i < 4 ? 300 : 200));
        CHECK(same(std::span{to}.first(n), std::span{all}.subspan(i * 200, n)));
        CHECK(source[i].data() == map.bytes().data() + i * 200);
        CHECK(source[i].size() == n);
    }
    CHECK(source.fill(to, 5) == 0);
}

TEST_CASE(
    "memory_chunks: a chunk that does not fit is not copied, and empty memory has no batches") {
    auto const             all = content(100);
    memory_chunks const    source{all, 60};
    std::vector<std::byte> small(59, std::byte{9});
    CHECK(source.fill(small, 0) == 60);
    CHECK(same(small, std::vector<std::byte>(59, std::byte{9})));
    CHECK(source.fill(small, 1) == 40);
    memory_chunks const none{{}, 60};
    CHECK(none.size() == 0);
    CHECK(none.fill(small, 0) == 0);
}

} // namespace memory_chunks_tests
