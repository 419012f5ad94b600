// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/freed_blocks.hpp> // first: the header stands alone

#include <vram/base/call_site.hpp>

#include "../../doubles/at.hpp"
#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <new>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
using doubles::at;

namespace {

/// Puts a block in, with a link of its own.
void put(freed_blocks& into, std::uintptr_t address, std::size_t bytes) {
    freed_blocks fresh;
    fresh.add_link();
    auto* const one = fresh.pop();
    *one            = {at(address), bytes, 256};
    into.push(one);
}

std::vector<void*> drained(freed_blocks& from) {
    std::vector<void*> seen;
    seen.reserve(from.count());
    from.drain([&](void* p, std::size_t, std::size_t, call_site) { seen.push_back(p); });
    return seen;
}

} // namespace

TEST_CASE("freed_blocks: they come out oldest first, and nodes do not move") {
    freed_blocks chain;
    put(chain, 256, 10);
    put(chain, 512, 20);
    put(chain, 768, 30);
    CHECK(chain.count() == 3);
    CHECK(chain.bytes() == 60);
    CHECK(drained(chain) == std::vector{at(256), at(512), at(768)});
    CHECK(chain.count() == 3); // the links, empty
    CHECK(chain.bytes() == 0);
    CHECK(drained(chain) == std::vector<void*>(3, nullptr));
}

TEST_CASE("freed_blocks: one list can be appended to another") {
    freed_blocks first, second, none;
    put(first, 256, 10);
    put(second, 512, 20);
    put(second, 768, 30);
    first.splice(second);
    CHECK(second.empty());
    CHECK(second.bytes() == 0);
    first.splice(none);
    CHECK(first.bytes() == 60);
    none.splice(first);
    CHECK(first.empty());
    CHECK(drained(none) == std::vector{at(256), at(512), at(768)});
}

TEST_CASE("freed_blocks: removing and inserting nodes keeps the counts") {
    freed_blocks chain;
    CHECK(chain.pop() == nullptr);
    put(chain, 256, 10);
    put(chain, 512, 20);
    auto* const one = chain.pop();
    CHECK(one->p == at(256));
    CHECK(chain.bytes() == 20);
    chain.push(one);
    CHECK(drained(chain) == std::vector{at(512), at(256)});
}

TEST_CASE("freed_blocks: a move takes the list along") {
    freed_blocks first;
    put(first, 256, 10);
    freed_blocks second = std::move(first);
    CHECK(first.empty());
    CHECK(second.bytes() == 10);
    put(first, 512, 5); // usable
    first = std::move(second);
    CHECK(first.bytes() == 10);
    auto& itself = first;
    first        = std::move(itself);
    CHECK(first.bytes() == 10);
}

TEST_CASE("freed_blocks: only the creation of a node allocates, and a failure changes nothing") {
    freed_blocks chain;
    put(chain, 256, 10);
    bool threw = false;
    {
        doubles::bombing armed{1};
        try {
            chain.add_link();
        } catch (std::bad_alloc const&) { threw = true; }
    }
    CHECK(threw);
    CHECK(chain.count() == 1);
    auto const   before = doubles::host_allocations();
    freed_blocks other  = std::move(chain);
    other.push(other.pop());
    chain.splice(other);
    CHECK(doubles::host_allocations() == before);
}
