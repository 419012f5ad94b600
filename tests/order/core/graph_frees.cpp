// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/graph_frees.hpp> // first: the header stands alone

#include <vram/concepts/core/platform_lock.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include "../../doubles/bombing.hpp"
#include "../../doubles/mishaps.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <utility>

using namespace vram;
using namespace vram::detail;
using doubles::keep_busy;
using namespace std::chrono_literals;

template class vram::detail::graph_frees<sim_platform>;
template class vram::detail::graph_frees<host_platform>;

namespace {

void* const kept_block = reinterpret_cast<void*>(std::uintptr_t{256});

freed_blocks::link* one_link() { return new freed_blocks::link{kept_block, 10, 256}; }

/// A platform that cannot return the device of a stream during a capture.
struct forgetful_platform : sim_platform {
    [[nodiscard]] static sim_device device_of(stream) { throw sim_error{sim_status::refused}; }
};

} // namespace

TEST_CASE("graph_frees: each device of a captured stream is waited for once, with the lock free") {
    sim_node                          node{{.devices = 3, .on_report = sim_on_report::collect}};
    platform_lock<sim_platform> const lock;
    graph_frees<sim_platform>         first;
    sim_stream                        a, b, far{sim_device{1}}, unrelated{sim_device{2}};
    for (sim_stream const* s : {&a, &b, &far}) { first.add(*s, one_link()); }
    CHECK(first.has(kept_block));
    CHECK(first.bytes() == 30);
    graph_frees<sim_platform> kept{std::move(first)};
    CHECK(first.bytes() == 0);
    keep_busy(far, 5ms);
    keep_busy(unrelated, 50ms);
    auto         held = lock.hold();
    freed_blocks free;
    CHECK(first.finish(held, sim_resource{}, free) == 0);
    node.faults().at(sim_call_kind::synchronize, 2);
    CHECK_THROWS_AS((void)kept.finish(held, sim_resource{}, free), sim_error);
    CHECK(held.owns_lock());
    CHECK(kept.bytes() == 30);
    CHECK(free.empty());
    auto const before = host_waits_made;
    CHECK(kept.finish(held, sim_resource{}, free) == 2);
    CHECK(host_waits_made == before + 2);
    CHECK(held.owns_lock());
    CHECK(free.count() == 3);
    CHECK(kept.bytes() == 0);
    CHECK_FALSE(kept.has(kept_block));
    CHECK(node.now() == 5ms);
    CHECK(kept.finish(held, sim_resource{}, free) == 0);
}

TEST_CASE("graph_frees: a block that is added during the wait is kept until the next one") {
    sim_node                  node{{.on_report = sim_on_report::collect}};
    graph_frees<sim_platform> kept;
    sim_stream                s;
    freed_blocks              free;
    kept.add(s, one_link());
    // Another thread frees a block into a capture while the lock is released.
    struct {
        graph_frees<sim_platform>& frees;
        sim_stream const&          on;
        bool                       once = false;

        void unlock() {}
        void lock() {
            if (!std::exchange(once, true)) { frees.add(on, one_link()); }
        }
    } guard{kept, s};
    CHECK(kept.finish(guard, sim_resource{}, free) == 1);
    CHECK(free.count() == 1);
    CHECK(kept.bytes() == 10);
    keep_busy(s, 5ms); // a launch of the graph
    CHECK(kept.finish(guard, sim_resource{}, free) == 1);
    CHECK(node.now() == 5ms);
    CHECK(free.count() == 2);
    CHECK(kept.finish(guard, sim_resource{}, free) == 0);
}

TEST_CASE("graph_frees: the device of the memory is waited for if that of the stream is unknown") {
    for (bool const no_memory : {false, true}) {
        sim_node           node{{.devices = 2}};
        sim_stream         s, far{sim_device{1}};
        sim_resource const memory{sim_device{1}};
        freed_blocks       free;
        keep_busy(far, 5ms);
        auto const use = [&](auto& kept) {
            kept.finish_or_report(memory, free);
            CHECK(free.bytes() == 10);
            CHECK(node.now() == 5ms);
        };
        if (no_memory) {
            graph_frees<sim_platform> kept;
            auto* const               one = one_link();
            doubles::bombing          armed{1};
            kept.add(s, one);
            CHECK(armed.defuse());
            use(kept);
        } else {
            graph_frees<forgetful_platform> kept;
            kept.add(s, one_link());
            use(kept);
        }
    }
}

TEST_CASE("graph_frees: the current device of a free is waited for if that of the stream is "
          "unknown") {
    for (bool const at_end : {false, true}) {
        sim_node                          node{{.devices = 3}};
        platform_lock<sim_platform> const lock;
        graph_frees<forgetful_platform>   kept;
        sim_stream                        s, other{sim_device{1}}, unrelated{sim_device{2}};
        freed_blocks                      free;
        keep_busy(other, 5ms);
        keep_busy(unrelated, 50ms);
        {
            sim_device_guard const on{sim_device{1}};
            kept.add(s, one_link());
            kept.add(s, one_link());
        }
        if (at_end) {
            kept.finish_or_report(sim_resource{}, free);
        } else {
            auto held = lock.hold();
            CHECK(kept.finish(held, sim_resource{}, free) == 2);
        }
        CHECK(free.count() == 2);
        CHECK(node.now() == 5ms);
    }
}

TEST_CASE("graph_frees: at the end a failed wait is reported, and the blocks are leaks") {
    sim_node                  node{{.devices = 2, .on_report = sim_on_report::collect}};
    doubles::mishaps const    told;
    graph_frees<sim_platform> kept;
    sim_stream                s, far{sim_device{1}};
    freed_blocks              free;
    kept.add(s, one_link());
    kept.add(far, one_link());
    node.faults().at(sim_call_kind::synchronize, 1);
    kept.finish_or_report(sim_resource{}, free);
    CHECK(free.empty());
    CHECK(kept.bytes() == 0);
    CHECK(told.count(error_kind::platform_error) == 1);
    CHECK(told.count(error_kind::leak) == 2);
    CHECK(told.pointer() == kept_block);
}
