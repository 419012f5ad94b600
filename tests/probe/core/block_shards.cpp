// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/block_shards.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace {
using host_shards = block_shards<host_platform::stream>;
void* address_of_shards(std::size_t i) { return reinterpret_cast<void*>(std::uintptr_t{i} << 21); }
auto  record_of_size(std::size_t bytes) {
    return [=](host_shards::record& r) { r.bytes = bytes; };
}
} // namespace

TEST_CASE("block_shards: a block is found by its address until it is taken") {
    host_shards all;
    site_sums   owner{
          .key = 0, .next = nullptr, .owner = {}, .line = {}, .of = nullptr, .account = nullptr};
    auto const any = [](host_shards::record const&) { return true; };
    for (std::size_t i = 1; i != 2000; ++i) {
        all.insert(address_of_shards(i),
                   [&](host_shards::record& r) { r.bytes = i, r.owner = &owner; });
    }
    CHECK(all.size() == 1999);
    CHECK(all.take(address_of_shards(7), {},
                   [](host_shards::record const& r) { return r.bytes == 8; }) == nullptr);
    CHECK(all.take(address_of_shards(7), call_site::current(), any) == &owner);
    CHECK(all.take(address_of_shards(7), {}, any) == nullptr);
    REQUIRE(all.last_free(address_of_shards(7)).has_value());
    CHECK(all.last_free(address_of_shards(7))->bytes == 7);
    CHECK(all.last_free(address_of_shards(7))->freed_at.line() == __LINE__ - 4);
    CHECK_FALSE(all.last_free(address_of_shards(8)).has_value());
    CHECK_FALSE(all.containing(address_of_shards(7)).has_value());
    auto* const inside = static_cast<std::byte*>(address_of_shards(100)) + 99;
    REQUIRE(all.containing(inside).has_value());
    CHECK(all.containing(inside)->memory == address_of_shards(100));
    CHECK_FALSE(all.containing(inside + 1).has_value());
    std::size_t sum = 0;
    all.for_each([&](host_shards::record const& r) { sum += r.bytes; });
    CHECK(sum == 1999 * 1000 - 7);
}

TEST_CASE("block_shards: addresses of large blocks are spread over the shards") {
    // If all blocks were in one shard, it would remember only the last 16 frees.
    host_shards all;
    site_sums   owner{
          .key = 0, .next = nullptr, .owner = {}, .line = {}, .of = nullptr, .account = nullptr};
    for (std::size_t i = 1; i <= 200; ++i) {
        all.insert(address_of_shards(i),
                   [&](host_shards::record& r) { r.bytes = 1, r.owner = &owner; });
        (void)all.take(address_of_shards(i), {}, [](host_shards::record const&) { return true; });
    }
    unsigned remembered = 0;
    for (std::size_t i = 1; i <= 200; ++i) {
        remembered += all.last_free(address_of_shards(i)).has_value();
    }
    CHECK(remembered > 150);
    all.insert(address_of_shards(1), record_of_size(1)); // a record is used again
    CHECK(all.size() == 1);
}
