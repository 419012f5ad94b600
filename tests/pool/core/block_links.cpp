// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block_links.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

// Divided and merged blocks are also tested in block_heap.cpp.

using namespace vram::detail;

TEST_CASE("block_links: the pieces of a divided block are neighbours, and merge into one again") {
    block_links links{true};
    CHECK_FALSE(links.has(1));
    links.reserve(4);
    block* const all = links.make_first(reinterpret_cast<void*>(std::uintptr_t{0x1000}), 4096);
    CHECK(bool{all->apart});
    CHECK(bool{all->now == block::state::free});
    block* const rest = links.cut(all, 1024);
    CHECK(all->bytes == 1024);
    CHECK(rest->address == 0x1400);
    CHECK(rest->bytes == 3072);
    CHECK(all->after == rest);
    CHECK(rest->before == all);

    block* const part = links.cut_front(rest, 256);
    rest->bytes -= 256; // the caller changes the bin
    CHECK(part->address == 0x1400);
    CHECK(part->bytes == 256);
    CHECK(rest->address == 0x1500);
    CHECK(all->after == part);
    CHECK(part->after == rest);
    CHECK(rest->before == part);

    rest->bytes += part->bytes;
    links.drop_previous(rest);
    CHECK(rest->address == 0x1400);
    CHECK(all->after == rest);
    CHECK(rest->before == all);
    all->bytes += rest->bytes;
    links.drop_next(all);
    CHECK(all->bytes == 4096);
    CHECK(all->after == nullptr);

    block_links moved{std::move(links)};
    moved.put_back(all);
    CHECK(moved.has(4));
}
