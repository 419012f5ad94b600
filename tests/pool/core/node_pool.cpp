// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/node_pool.hpp> // first: the header stands alone

#include <vram/pool/core/block.hpp>

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <set>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;

template class vram::detail::node_pool<block>;

TEST_CASE("node_pool: nodes are distinct, fresh, and reused") {
    node_pool<block>    store;
    std::set<block*>    out;
    std::vector<block*> order;
    for (int i = 0; i < 1000; ++i) {
        store.reserve(1);
        block* const b = store.make();
        CHECK(b->bytes == 0);
        b->bytes = 7;
        out.insert(b);
        order.push_back(b);
    }
    CHECK(out.size() == 1000);
    for (block* const b : order) { store.put_back(b); }
    auto const before = doubles::host_allocations();
    for (int i = 0; i < 1000; ++i) {
        store.reserve(1);
        order[static_cast<std::size_t>(i)] = store.make();
    }
    CHECK(doubles::host_allocations() == before);
    CHECK(out == std::set<block*>(order.begin(), order.end()));
}

TEST_CASE("node_pool: nodes stay in place when the pool of nodes moves") {
    node_pool<block> a;
    a.reserve(1);
    block* const b = a.make();
    b->bytes       = 42;
    node_pool<block> c{std::move(a)};
    CHECK(b->bytes == 42);
    a = std::move(c);
    a.put_back(b);
    CHECK(a.make() == b);
}

TEST_CASE("node_pool: without host memory nothing has changed") {
    node_pool<block> store;
    doubles::bombing armed{1};
    bool             threw = false;
    try {
        store.reserve(1);
    } catch (std::bad_alloc const&) { threw = true; }
    armed.defuse();
    CHECK(threw);
    store.reserve(1);
    CHECK(store.make() != nullptr);
}

TEST_CASE("node_pool: it has the number of available nodes") {
    node_pool<block> store;
    CHECK(store.has(0));
    CHECK_FALSE(store.has(1));
    store.reserve(3);
    CHECK(store.has(3));
    CHECK(store.has(node_pool<block>::per_slab));
    CHECK_FALSE(store.has(node_pool<block>::per_slab + 1));
}
