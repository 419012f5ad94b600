// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/block_shards.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace {
using shards = block_shards<host_platform::stream>;
void* at(std::size_t i) { return reinterpret_cast<void*>(std::uintptr_t{i} << 21); }
auto  sized(std::size_t bytes) {
    return [=](shards::record& r) { r.bytes = bytes; };
}
} // namespace

TEST_CASE("block_shards: a block is found by its address until it is taken") {
    shards    all;
    site_sums owner{
        .key = 0, .next = nullptr, .owner = {}, .line = {}, .of = nullptr, .account = nullptr};
    auto const any = [](shards::record const&) { return true; };
    for (std::size_t i = 1; i != 2000; ++i) {
        all.insert(at(i), [&](shards::record& r) { r.bytes = i, r.owner = &owner; });
    }
    CHECK(all.size() == 1999);
    CHECK(all.take(at(7), {}, [](shards::record const& r) { return r.bytes == 8; }) == nullptr);
    CHECK(all.take(at(7), call_site::current(), any) == &owner);
    CHECK(all.take(at(7), {}, any) == nullptr);
    REQUIRE(all.last_free(at(7)).has_value());
    CHECK(all.last_free(at(7))->bytes == 7);
    CHECK(all.last_free(at(7))->freed_at.line() == __LINE__ - 4);
    CHECK_FALSE(all.last_free(at(8)).has_value());
    CHECK_FALSE(all.containing(at(7)).has_value());
    auto* const inside = static_cast<std::byte*>(at(100)) + 99;
    REQUIRE(all.containing(inside).has_value());
    CHECK(all.containing(inside)->memory == at(100));
    CHECK_FALSE(all.containing(inside + 1).has_value());
    std::size_t sum = 0;
    all.for_each([&](shards::record const& r) { sum += r.bytes; });
    CHECK(sum == 1999 * 1000 - 7);
}

TEST_CASE("block_shards: addresses of large blocks are spread over the shards") {
    // If all blocks were in one shard, it would remember only the last 16 frees.
    shards    all;
    site_sums owner{
        .key = 0, .next = nullptr, .owner = {}, .line = {}, .of = nullptr, .account = nullptr};
    for (std::size_t i = 1; i <= 200; ++i) {
        all.insert(at(i), [&](shards::record& r) { r.bytes = 1, r.owner = &owner; });
        (void)all.take(at(i), {}, [](shards::record const&) { return true; });
    }
    unsigned remembered = 0;
    for (std::size_t i = 1; i <= 200; ++i) { remembered += all.last_free(at(i)).has_value(); }
    CHECK(remembered > 150);
    all.insert(at(1), sized(1)); // a record is used again
    CHECK(all.size() == 1);
}
