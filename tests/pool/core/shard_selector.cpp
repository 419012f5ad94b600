// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/shard_selector.hpp> // first: the header stands alone

#include <vram/base/core/worker.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <utility>

using namespace vram;
using namespace vram::detail;

template class vram::detail::shard_selector<sim_platform>;

TEST_CASE("shard_selector: the number of shards is a power of two") {
    using selector = shard_selector<sim_platform>;
    CHECK(selector{arena_key::thread, 1}.count() == 1);
    CHECK(selector{arena_key::thread, 5}.count() == 8);
    CHECK(selector{arena_key::thread, selector::most}.count() == selector::most);
    CHECK(selector{arena_key::thread, 0}.count() > 1); // there is at least one hardware thread
}

TEST_CASE("shard_selector: by thread, each thread has its own shard, on any stream") {
    sim_node                     node;
    sim_stream                   s, other;
    shard_selector<sim_platform> select{arena_key::thread, 64};
    std::size_t const            mine = select.of_thread();
    CHECK(mine < select.count());
    CHECK(select.of(s) == mine);
    CHECK(select.of(other) == mine);
    std::size_t second = mine;
    {
        worker const thread{0, [&] { second = select.of_thread(); }};
    }
    CHECK(second != mine);
}

TEST_CASE("shard_selector: by stream, each stream has its own shard until it is forgotten") {
    sim_node                     node;
    sim_stream                   s, other;
    shard_selector<sim_platform> select{arena_key::stream, 2};
    std::size_t const            mine = select.of(s);
    CHECK(select.of(s) == mine);
    CHECK(select.of(other) != mine);
    sim_stream_view const on = s;
    CHECK(select.of(&on) == mine);
    CHECK(select.of(nullptr) == select.of_thread()); // no stream
    shard_selector<sim_platform> moved{std::move(select)};
    CHECK(moved.of(s) == mine);
    moved.forget(s);
    sim_stream third;
    CHECK(moved.of(third) == mine); // the shard with the fewest streams
}
