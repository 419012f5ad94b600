// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/counted_blocks.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace counted_blocks_tests {

struct owner {
    std::int64_t live = 0;
};

constexpr auto count = [](owner* whose, std::int64_t by) { whose->live += by; };

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

TEST_CASE("counted_blocks: a block belongs to its owner until it is freed") {
    vram::detail::counted_blocks<owner> blocks;
    owner                               a, b;
    blocks.add(at(0x1000), 100, &a, count);
    blocks.add(at(0x2000), 10, &b, count);
    CHECK(a.live == 100);
    CHECK(b.live == 10);
    blocks.free(at(0x1000), 100, count);
    CHECK(a.live == 0);
    blocks.free(at(0x1000), 100, count); // not a live block
    blocks.refuse(at(0x1000), count);
    CHECK(a.live == 0);
    CHECK(b.live == 10);
}

TEST_CASE("counted_blocks: a refused free of another size leaves the block live") {
    vram::detail::counted_blocks<owner> blocks;
    owner                               a;
    blocks.add(at(0x1000), 100, &a, count);
    blocks.free(at(0x1000), 50, count);
    CHECK(a.live == 0);
    blocks.free(at(0x1000), 60, count);
    blocks.refuse(at(0x1000), count);
    CHECK(a.live == 0);
    blocks.refuse(at(0x1000), count);
    CHECK(a.live == 100);
    blocks.refuse(at(0x1000), count); // of a free that was not notified
    CHECK(a.live == 100);
    blocks.free(at(0x1000), 100, count);
    CHECK(a.live == 0);
}

TEST_CASE("counted_blocks: a free with the size of the block may be refused") {
    vram::detail::counted_blocks<owner> blocks;
    owner                               a, others;
    blocks.add(at(0x1000), 100, &a, count);
    blocks.free(at(0x1000), 100, count); // with another alignment
    CHECK(a.live == 0);
    blocks.refuse(at(0x1000), count);
    CHECK(a.live == 100);
    blocks.free(at(0x1000), 100, count); // accepted
    CHECK(a.live == 0);
    blocks.free(at(0x1000), 100, count); // again
    blocks.refuse(at(0x1000), count);
    CHECK(a.live == 0);
    blocks.add(at(0x1000), 30, &a, count);
    blocks.refuse(at(0x1000), count); // of a free that was not notified
    CHECK(a.live == 30);
    // The records of freed blocks do not stay for ever, and a record that is gone is not restored.
    blocks.free(at(0x1000), 30, count);
    for (std::uintptr_t i = 1; i != 20'000; ++i) {
        blocks.add(at(0x1000 + i * 256), 10, &others, count);
        blocks.free(at(0x1000 + i * 256), 10, count);
    }
    CHECK(others.live == 0);
    blocks.refuse(at(0x1000), count);
    CHECK(a.live == 0);
}

TEST_CASE("counted_blocks: a new block ends the block that was known at its address") {
    vram::detail::counted_blocks<owner> blocks;
    owner                               a, b;
    blocks.add(at(0x1000), 100, &a, count);
    blocks.add(at(0x1000), 30, &b, count);
    CHECK(a.live == 0);
    CHECK(b.live == 30);
    blocks.free(at(0x1000), 20, count); // accepted by a resource that does not compare sizes
    blocks.add(at(0x1000), 40, &a, count);
    CHECK(a.live == 40);
    CHECK(b.live == 0);
}

TEST_CASE("counted_blocks: the blocks of a range end, the others do not") {
    vram::detail::counted_blocks<owner> blocks;
    owner                               in, out;
    std::minstd_rand                    draw{7};
    for (std::uintptr_t i = 0; i != 3000; ++i) {
        bool const inside = i >= 1000 && i < 2000;
        blocks.add(at(0x10000 + i * 256), 1 + draw() % 256, inside ? &in : &out, count);
    }
    std::int64_t const others = out.live;
    CHECK(in.live > 1000);
    blocks.end(at(0x10000 + 1000 * 256), 1000 * 256, count);
    CHECK(in.live == 0);
    CHECK(out.live == others);
    blocks.end(at(0), ~std::size_t{0}, count);
    CHECK(out.live == 0);
}

} // namespace counted_blocks_tests
