// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/chunk_extension.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

using namespace vram::detail;

namespace {

constexpr auto always_ready = [](auto const&...) { return availability::ready; };

} // namespace

TEST_CASE("chunk_extension: the chunk that must grow least is selected, and is busy from then on") {
    block_chunks chunks;
    free_blocks  free{true};
    block        tails[2];
    for (std::size_t i = 0; i < 2; ++i) {
        tails[i].address = 0x10000 * (i + 1);
        tails[i].bytes   = 1024 * (i + 1);
        tails[i].now     = block::state::free;
        free.insert(&tails[i]);
        chunks.reserve();
        chunks.add({.first = &tails[i],
                    .base  = reinterpret_cast<void*>(tails[i].address),
                    .bytes = tails[i].bytes});
    }
    auto const begin = [&] {
        return chunk_extension::begin(free, chunks, 4096, 256, always_ready, front_of{});
    };
    chunk_extension const first = begin();
    CHECK(first.base == chunks[1].base);
    CHECK(first.bytes == 2048);
    CHECK(first.by == 2048);
    CHECK(chunks[1].busy);
    chunk_extension const second = begin();
    CHECK(second.base == chunks[0].base);
    CHECK(second.by == 3072);
    CHECK(begin().base == nullptr); // both are busy
    for (block& tail : tails) { free.remove(&tail); }
}
