// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/balance_facts.hpp> // first: the header must stand alone

#include <vram/handle/any_resource.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/tracking.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace vram;

namespace balance_test {

using sim_stack   = tracking<pool<stream_ordered<sim_resource>>>;
using memory_type = statistics<sim_stack>;

bool contains(std::string const& text, char const* words) {
    return text.find(words) != std::string::npos;
}

TEST_CASE("balance_facts: blocks that are allocated and freed on their streams are balanced") {
    sim_node                    node;
    sim_stream                  one, two;
    memory_type                 memory;
    void* const                 older = memory.allocate(one, 1_KiB);
    detail::balance_facts const facts{memory};
    CHECK(facts.unbalanced() == "");
    memory.deallocate(one, memory.allocate(one, 1_KiB), 1_KiB);
    memory.deallocate(two, memory.allocate(two, 2_KiB), 2_KiB);
    memory.deallocate_sync(memory.allocate_sync(2_KiB), 2_KiB);
    one.synchronize();
    void* const p = memory.allocate(one, 3_KiB);
    memory.deallocate_sync(p, 3_KiB);
    CHECK(facts.unbalanced() == "");
    memory.deallocate(one, older, 1_KiB);
}

TEST_CASE("balance_facts: a kept block does not cancel an older one of its size and line that is "
          "freed") {
    sim_node    node;
    sim_stream  one, two;
    memory_type memory;
    auto const  make = [&](sim_stream& s) {
        tagged const scope{"cache"};
        return memory.allocate(s, 3_KiB);
    };
    void* const                 older = make(two);
    detail::balance_facts const facts{memory};
    void* const                 kept = make(one);
    memory.deallocate(two, older, 3_KiB);
    std::string const text = facts.unbalanced();
    CHECK(contains(text, "does not free 1 block that it allocates, 3.00 KiB:\n  3.00 KiB of tag "
                         "\"cache\""));
    if (call_site::current().known()) { CHECK(contains(text, " allocated at balance_facts.cpp:")); }
    memory.deallocate(one, kept, 3_KiB);
    CHECK(contains(facts.unbalanced(), "frees 1 block that it does not allocate, 3.00 KiB:\n"));
}

TEST_CASE("balance_facts: an older block is another one than a new block at its address") {
    sim_node                    node;
    sim_stream                  one;
    memory_type                 memory;
    void* const                 older = memory.allocate(one, 3_KiB);
    detail::balance_facts const facts{memory};
    memory.deallocate(one, older, 3_KiB);
    void* const kept = memory.allocate(one, 3_KiB);
    REQUIRE(kept == older);
    CHECK(contains(facts.unbalanced(), "does not free 1 block"));
    memory.deallocate(one, kept, 3_KiB);
}

TEST_CASE("balance_facts: a free on another stream than that of the allocation is named") {
    sim_node                    node;
    sim_stream                  one, two;
    memory_type                 memory;
    detail::balance_facts const facts{memory};
    void* const                 p = memory.allocate(one, 3_KiB);
    void* const                 q = memory.allocate(two, 3_KiB);
    one.synchronize();
    two.synchronize();
    memory.deallocate(two, p, 3_KiB); // the sums of both streams are balanced
    memory.deallocate(one, q, 3_KiB);
    CHECK(contains(facts.unbalanced(),
                   "frees 2 blocks on another stream than that of the allocation:\n  1 frees"));
}

TEST_CASE("balance_facts: blocks behind a handle that hides the type are compared") {
    sim_node                    node;
    sim_stream                  one;
    any_resource_of<sim_stack>  memory{sim_stack{}};
    detail::balance_facts const facts{memory};
    void* const                 p = memory.allocate(one, 3_KiB);
    CHECK(contains(facts.unbalanced(), "does not free 1 block that it allocates, 3.00 KiB"));
    memory.deallocate(one, p, 3_KiB);
    CHECK(facts.unbalanced() == "");
    any_resource_of<sim_stack>  plain{stream_ordered{sim_resource{}}};
    detail::balance_facts const none{plain};
    CHECK(none.unbalanced() == "the checked resource has no layer tracking");
}

TEST_CASE("balance_facts: a handle that gets another resource is compared with it") {
    sim_node                    node;
    sim_stream                  one;
    any_resource_of<sim_stack>  memory{sim_stack{}};
    detail::balance_facts const facts{memory};
    memory        = any_resource_of<sim_stack>{sim_stack{}}; // the first one is destroyed
    void* const p = memory.allocate(one, 3_KiB);
    CHECK(contains(facts.unbalanced(), "does not free 1 block that it allocates, 3.00 KiB"));
    memory.deallocate(one, p, 3_KiB);
    CHECK(facts.unbalanced() == "");
}

TEST_CASE("balance_facts: at most five blocks are listed") {
    sim_node                    node;
    memory_type                 memory;
    detail::balance_facts const facts{memory};
    void*                       p[7];
    for (void*& each : p) { each = memory.allocate_sync(1_KiB); }
    std::string const text = facts.unbalanced();
    CHECK(contains(text, "7 blocks that it allocates, 7.00 KiB:"));
    CHECK(text.ends_with("\n  ..."));
    for (void* each : p) { memory.deallocate_sync(each, 1_KiB); }
}

} // namespace balance_test
