// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/slab_heaps.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

using namespace vram;
using namespace vram::detail;

namespace {

void* slab_address(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

} // namespace

TEST_CASE("slab_heaps: the figures of all heaps are added") {
    slab_heaps heaps;
    CHECK(heaps.chunk_count() == 0);
    CHECK(heaps.largest_free() == 0);
    slab_heap& small_blocks = (heaps.reserve(2), heaps.push(std::size_t{256}));
    slab_heap& large_blocks = heaps.push(std::size_t{4096});
    small_blocks.add(slab_address(0x10000), 4 * 256, nullptr);
    large_blocks.add(slab_address(0x20000), 2 * 4096, nullptr);
    CHECK(heaps.chunk_count() == 2);
    CHECK(heaps.free_bytes() == 4 * 256 + 2 * 4096);
    CHECK(heaps.largest_free() == 4096);
    CHECK(heaps.owns(slab_address(0x10000 + 1023)));
    CHECK(heaps.owns(slab_address(0x20000)));
    CHECK_FALSE(heaps.owns(slab_address(0x30000)));

    CHECK(large_blocks.take_clean() != nullptr);
    CHECK(large_blocks.take_clean() != nullptr);
    CHECK(heaps.blocks_live() == 2);
    CHECK(heaps.largest_free() == 256);
    free_pieces const pieces = heaps.free_memory();
    CHECK(pieces.bytes == 4 * 256);
    CHECK(pieces.count == 4);
    CHECK(pieces.releasable == 4 * 256); // the chunk with live blocks is not
}

TEST_CASE("slab_heaps: a rejected free is explained by the heap that has its address") {
    slab_heaps heaps;
    heaps.push(std::size_t{256}).add(slab_address(0x10000), 256, nullptr);
    refused_free freed{"slab", slab_address(0x10000), 256, 256};
    CHECK(heaps.explain_refusal(freed));
    CHECK(freed.what.kind == error_kind::double_free);
    refused_free foreign{"slab", slab_address(0x30000), 256, 256};
    CHECK_FALSE(heaps.explain_refusal(foreign));
}

TEST_CASE("slab_heaps: a request gets the heap of its size class, or none if it is too large") {
    slab_heaps heaps;
    heaps.add_classes(4096);
    CHECK(heaps.largest() == 4096);
    CHECK(heaps.for_request(1, 256)->stride() == 256);
    CHECK(heaps.for_request(1025, 256)->stride() == 1280);
    CHECK(heaps.for_request(300, 1024)->stride() == 1024); // for the alignment
    CHECK(heaps.for_request(4096, 256)->stride() == 4096);
    CHECK(heaps.for_request(4097, 256) == nullptr);
    CHECK(heaps.for_request(256, 8192) == nullptr);
    CHECK(heaps.for_request(256, 3) == nullptr); // no alignment
    CHECK(heaps.for_request(0, 256) == nullptr);
}
