// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/arena_shard.hpp> // first: the header stands alone

#include <vram/pool/core/pool_core.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/sim/sim.hpp>

#include "../../doubles/bombing.hpp"
#include "../../doubles/mishaps.hpp"
#include "../../doubles/shy_platform.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

template class vram::detail::arena_shard<pool_core<sim_resource, exact_growth>>;

namespace {

/// A shard with the functions of its core that these tests use.
template <class Upstream>
struct shard : arena_shard<pool_core<Upstream, exact_growth>> {
    using base = arena_shard<pool_core<Upstream, exact_growth>>;
    using base::base;
    using typename base::stream;

    void* allocate(stream s, std::size_t bytes) { return this->core().allocate(s, bytes); }
    void* allocate_sync(std::size_t bytes) { return this->core().allocate_sync(bytes); }
    void  deallocate(stream s, void* p, std::size_t bytes) {
        CHECK(this->core().try_deallocate(s, p, bytes));
    }
    void deallocate_sync(void* p, std::size_t bytes) {
        CHECK(this->core().try_deallocate_sync(p, bytes));
    }
    void                       retire(stream s) { this->core().retire(s); }
    [[nodiscard]] memory_usage usage() const { return this->core().usage(); }
};
using own_pool = shard<sim_resource>;

void leave(own_pool& mr, sim_stream_view s, void* p, std::size_t bytes) {
    mr.free_remotely(&s, p, bytes, default_alignment);
}

} // namespace

TEST_CASE("arena_shard: a remote free is live until it is drained, with one lock for all") {
    sim_node         node;
    sim_stream const s;
    own_pool         mr{sim_resource{}};
    void* const      p = mr.allocate(s, 1_MiB);
    void* const      q = mr.allocate(s, 1_MiB);
    leave(mr, s, p, 1_MiB);
    mr.free_remotely(nullptr, q, 1_MiB, default_alignment);
    CHECK(mr.usage().live == 2_MiB);
    mr.drain_remote_frees();
    CHECK(mr.usage().live == 0);
    CHECK(mr.usage().reserved == 2_MiB);
    CHECK(mr.allocate(s, 1_MiB) == p);
    mr.deallocate(s, p, 1_MiB);
}

TEST_CASE("arena_shard: a remote free keeps its stream, or none, as it was made") {
    // A shard without an arena does not notify of its blocks.
    sim_node         node{{.checks = {.bounds = false}, .on_report = sim_on_report::collect}};
    sim_stream const a, b;
    own_pool         mr{sim_resource{}};
    void* const      p = mr.allocate(a, 1_MiB);
    a.synchronize(); // now each stream may use the block
    doubles::busy(b, p, 1_MiB, 5ms);
    leave(mr, b, p, 1_MiB);
    auto const before = node.now();
    mr.drain_remote_frees();
    CHECK(mr.usage().pending == 1_MiB);
    CHECK(mr.usage().events == 0);
    void* const q = mr.allocate(a, 1_MiB);
    CHECK(q == p);
    CHECK(mr.usage().waits == 1);     // its stream waits,
    CHECK(node.now() - before < 1ms); // and the host does not
    doubles::busy(a, q, 1_MiB);
    a.synchronize();
    // Now the shard knows the default stream, which is not queued.
    mr.deallocate({}, mr.allocate({}, 256), 256);
    mr.free_remotely(nullptr, q, 1_MiB, default_alignment);
    mr.drain_remote_frees();
    CHECK(mr.usage().pending == 256); // meant here
    void* const r = mr.allocate_sync(1_MiB);
    CHECK(r == q);
    CHECK(mr.usage().waits == 1);
    mr.deallocate_sync(r, 1_MiB);
    CHECK(node.reports().empty());
}

TEST_CASE("arena_shard: a remote free to a full queue drains the queue") {
    constexpr std::size_t most = remote_free_list<sim_platform>::most;
    sim_node              node;
    sim_stream const      s;
    own_pool              mr{sim_resource{}};
    std::vector<void*>    blocks(most + 44);
    for (void*& p : blocks) { p = mr.allocate(s, 1000); }
    std::size_t const all = mr.usage().live;
    for (std::size_t i = 0; i < most; ++i) { leave(mr, s, blocks[i], 1000); }
    CHECK(mr.usage().live == all);
    leave(mr, s, blocks[most], 1000);
    CHECK(mr.usage().live == 43 * std::size_t{1024});
    for (std::size_t i = most + 1; i < blocks.size(); ++i) { mr.deallocate(s, blocks[i], 1000); }
    CHECK(mr.usage().live == 0);
}

TEST_CASE("arena_shard: without host memory for the queue a remote free is immediate") {
    sim_node         node;
    sim_stream const s;
    own_pool         mr{sim_resource{}};
    void* const      p = mr.allocate(s, 1000);
    {
        doubles::bombing armed{1};
        leave(mr, s, p, 1000);
        CHECK(armed.defuse());
    }
    CHECK(mr.usage().live == 0);
}

TEST_CASE("arena_shard: if the time of a free matters it is not queued") {
    sim_node         node{{.on_report = sim_on_report::collect}};
    sim_stream const s;
    SUBCASE("with eager events each has its own at once") {
        own_pool    mr{sim_resource{}, {.events = event_policy::eager}};
        void* const p      = mr.allocate(s, 1_MiB);
        auto const  before = mr.usage().events;
        leave(mr, s, p, 1_MiB);
        CHECK(mr.usage().events == before + 1);
        CHECK(mr.usage().live == 0);
    }
    SUBCASE("with graphs it matters whether the stream is being captured") {
        own_pool    mr{sim_resource{}, {.graphs = true}};
        void* const p = mr.allocate(s, 1_MiB);
        leave(mr, s, p, 1_MiB);
        CHECK(mr.usage().live == 0);
    }
    SUBCASE("a default stream means another on another thread") {
        own_pool    mr{sim_resource{}};
        void* const p = mr.allocate(s, 1_MiB);
        leave(mr, {}, p, 1_MiB);
        CHECK(mr.usage().live == 0);
    }
    CHECK(node.reports().empty());
}

TEST_CASE("arena_shard: a remote free before a capture of its stream is drained during it") {
    using shy_pool = shard<doubles::shy_memory>;
    for (bool const has_own : {false, true}) {
        sim_node               node{{.on_report = sim_on_report::collect}};
        doubles::mishaps const told;
        sim_stream             owners, other;
        shy_pool               mr{doubles::shy_memory{}}, own{doubles::shy_memory{}};
        sim_stream_view const  on = other; // a stream that was not queried
        void* const            p  = mr.allocate(owners, 1_MiB);
        mr.free_remotely(&on, p, 1_MiB, default_alignment, has_own ? &own : nullptr);
        CHECK(mr.usage().live == 1_MiB);
        sim_graph::begin(other);
        mr.drain_remote_frees();
        CHECK(mr.usage().live == 0);
        (void)sim_graph::end(other);
        CHECK(told.count() == 0);
        CHECK(node.reports().empty());
    }
}

TEST_CASE(
    "arena_shard: a thread with remote frees queries a stream's id once, until it is retired") {
    using shy_pool = shard<doubles::shy_memory>;
    sim_node              node;
    sim_stream            owners, other;
    shy_pool              mr{doubles::shy_memory{}}, own{doubles::shy_memory{}};
    sim_stream_view const on        = other;
    auto const            questions = [&] {
        void* const p      = mr.allocate(owners, 1_MiB);
        int const   before = doubles::shy_platform::asked;
        mr.free_remotely(&on, p, 1_MiB, default_alignment, &own);
        return doubles::shy_platform::asked - before;
    };
    CHECK(questions() == 1);
    for (int i = 0; i < 10; ++i) { CHECK(questions() == 0); }
    own.retire(other);
    CHECK(questions() == 1); // another stream may have its handle by now
}

TEST_CASE("arena_shard: a remote free on a stream without an id is immediate") {
    using shy_pool = shard<doubles::shy_memory>;
    sim_node               node;
    doubles::mishaps const told;
    sim_stream             owners, other;
    shy_pool               mr{doubles::shy_memory{}};
    sim_stream_view const  on = other;
    void* const            p  = mr.allocate(owners, 1_MiB);
    sim_graph::begin(other);
    mr.free_remotely(&on, p, 1_MiB, default_alignment);
    CHECK(told.count(error_kind::leak) == 1); // its user is unknown
    CHECK(told.pointer() == p);
    (void)sim_graph::end(other);
    mr.deallocate(owners, p, 1_MiB);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("arena_shard: an invalid remote free is reported when it is drained") {
    sim_node               node;
    doubles::mishaps const told;
    sim_stream const       s;
    {
        own_pool    mr{sim_resource{}};
        void* const p       = mr.allocate(s, 1000);
        int         foreign = 0;
        leave(mr, s, &foreign, 4);
        mr.drain_remote_frees();
        CHECK(told.count(error_kind::foreign_pointer) == 1);
        CHECK(told.pointer() == &foreign);
        leave(mr, s, p, 900);
        mr.free_remotely(nullptr, p, 1001, default_alignment);
        mr.drain_remote_frees();
        CHECK(told.count(error_kind::wrong_size) == 2);
        CHECK(mr.usage().live != 0);
        leave(mr, s, p, 1000);
        mr.free_remotely(nullptr, p, 1000, default_alignment);
        mr.drain_remote_frees();
        CHECK(told.count(error_kind::double_free) == 1);
        CHECK(mr.usage().live == 0);
        leave(mr, {}, &foreign, 4); // and immediately if none are queued
        CHECK(told.count(error_kind::foreign_pointer) == 2);
        CHECK(told.under_a_lock() == 0);
    }
    CHECK(told.count() == 5);
}

TEST_CASE("arena_shard: the simulator reports a queued free of a block that is allocated again") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    sim_stream const       s, other;
    own_pool               mr{sim_resource{}};
    void* const            p = mr.allocate(s, 1_MiB);
    leave(mr, s, p, 1_MiB);
    mr.deallocate(s, p, 1_MiB); // the second free of one allocation
    CHECK(told.count() == 0);
    CHECK(mr.allocate(s, 1_MiB) == p);
    CHECK(mr.checked(p) == p);
    CHECK(told.count(error_kind::double_free) == 1);
    CHECK(told.pointer() == p);
    CHECK(told.under_a_lock() == 0);
    mr.drain_remote_frees();
    CHECK(mr.usage().live == 1_MiB);
    CHECK(mr.checked(p) == p);
    leave(mr, other, p, 1_MiB);
    mr.drain_remote_frees();
    CHECK(mr.usage().live == 0);
    CHECK(told.count() == 1);
    CHECK(node.reports().size() == 1); // the refused free
}

TEST_CASE("arena_shard: remote frees at its end are no leak") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    sim_stream const       s;
    {
        own_pool mr{sim_resource{}};
        leave(mr, s, mr.allocate(s, 1000), 1000);
    }
    CHECK(told.count() == 0);
    CHECK(node.reports().empty());
}
