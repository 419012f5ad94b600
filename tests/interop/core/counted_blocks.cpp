// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/counted_blocks.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
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

TEST_CASE("counted_blocks: random ranges end, of all sizes") {
    std::minstd_rand draw{11};
    for (int round = 0; round != 20; ++round) {
        vram::detail::counted_blocks<owner>    blocks;
        owner                                  a;
        std::map<std::uintptr_t, std::int64_t> live;
        auto const                             sum = [&] {
            std::int64_t all = 0;
            for (auto const& [p, bytes] : live) { all += bytes; }
            return all;
        };
        // Few addresses, so that they are used again, in areas that are adjacent or far away.
        auto const address = [&] {
            return 0x10'0000 + (draw() % 4 << 30) + draw() % 8 * 0x1'0000 + draw() % 16 * 0x1000;
        };
        for (int i = 0; i != 2000; ++i) {
            std::uintptr_t const p    = address();
            auto const           side = draw() % 50;
            if (side == 0) {
                std::size_t const bytes = std::size_t{1} << draw() % 34;
                blocks.end(at(p), bytes, count);
                live.erase(live.lower_bound(p), live.lower_bound(p + bytes));
            } else if (side < 25) {
                std::int64_t const bytes = 1 + draw() % 100;
                blocks.add(at(p), static_cast<std::size_t>(bytes), &a, count);
                live[p] = bytes;
            } else if (live.contains(p)) {
                bool const right = side < 45; // the size
                auto const bytes = static_cast<std::size_t>(live[p]) + (right ? 0 : 1);
                blocks.free(at(p), bytes, count);
                if (side % 2 == 0) {
                    blocks.refuse(at(p), count);
                } else {
                    live.erase(p);
                }
            }
            REQUIRE(a.live == sum());
        }
        blocks.end(at(0), ~std::size_t{0}, count);
        CHECK(a.live == 0);
    }
}

TEST_CASE("counted_blocks: the end of a range does not visit the blocks of other ranges") {
    using clock = std::chrono::steady_clock;
    // Returns the time of 200 ends of 2 MiB while there are `others` blocks.
    auto const time = [](std::uintptr_t others) {
        vram::detail::counted_blocks<owner> blocks;
        owner                               a;
        for (std::uintptr_t i = 0; i != others; ++i) {
            blocks.add(at(0x10'0000'0000 + i * 256), 10, &a, count);
        }
        auto const begin = clock::now();
        for (int i = 0; i != 200; ++i) {
            blocks.add(at(0x20'0000), 10, &a, count);
            blocks.end(at(0x20'0000), 0x20'0000, count);
        }
        auto const needed = clock::now() - begin;
        CHECK(a.live == static_cast<std::int64_t>(others) * 10);
        return needed;
    };
    auto const alone = time(0);
    CHECK(time(100'000) < 20 * alone + std::chrono::milliseconds{20});
}

} // namespace counted_blocks_tests
