// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/timed.hpp> // first: the header must stand alone

#include "../doubles/archetype.hpp"

#include <vram/base/bytes.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/error_count.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

using namespace vram;

template class vram::timed<sim_platform>;
template class vram::timed<host_platform, doubles::archetype<>>;

namespace timed_test {

using namespace std::chrono_literals;
using stack = statistics<pool<stream_ordered<sim_resource>>>;

void kernel(sim_stream_view s, sim_time duration) { sim_launch(s, {.duration = duration}); }

void named_function(profile<sim_platform>& times, sim_stream_view s) {
    timed const scope{times, s};
    kernel(s, 10us);
}

TEST_CASE("timed: the time between the events of a scope, and its memory") {
    sim_node   node;
    sim_stream s;
    stack      memory;
    profile    times{memory};
    void*      kept = nullptr;
    for (int i = 1; i <= 3; ++i) {
        timed const scope{times, s, "step", memory};
        void* const work = memory.allocate(s, 1_MiB);
        kernel(s, sim_time{i * 100us});
        memory.deallocate(s, work, 1_MiB);
        if (i == 2) { kept = memory.allocate(s, 4_KiB); }
    }
    auto const rows = times.rows();
    REQUIRE(rows.size() == 1);
    profile_row const& row = rows[0];
    CHECK(row.name == "step");
    CHECK(row.runs == 3);
    CHECK(row.depth == 0);
    CHECK(row.device.count == 3);
    CHECK(row.device.total == 600'000);
    CHECK(row.device.least == 100'000);
    CHECK(row.device.most == 300'000);
    CHECK(row.device.mean() == 200'000);
    CHECK(row.host.count == 3);
    CHECK(row.has_memory);
    CHECK(row.live == 4096);
    CHECK(row.peak == 1_MiB);
    CHECK(row.allocations == 4);
    memory.deallocate(s, kept, 4_KiB);
    CHECK(node.reports().empty());
}

TEST_CASE("timed: the end of a scope does not wait for the device") {
    sim_node              node;
    sim_stream            s;
    profile<sim_platform> times;
    auto const            before = node.now();
    {
        timed const scope{times, s, "long"};
        kernel(s, 1s);
    }
    CHECK(node.now() - before < 1ms);
    CHECK(times.rows()[0].device.total == 1'000'000'000);
    CHECK(node.now() - before >= 1s);
}

TEST_CASE("timed: the ends of many scopes do not wait for the device") {
    sim_node              node;
    sim_stream            s;
    profile<sim_platform> times;
    auto const            before = node.now();
    for (int i = 0; i < 200; ++i) {
        timed const scope{times, s, "long"};
        kernel(s, 1s);
    }
    CHECK(node.now() - before < 1s);
    CHECK(times.rows()[0].device.count == 200);
}

TEST_CASE("timed: scopes nest, and the same name at two places is two rows") {
    sim_node              node;
    sim_stream            s;
    profile<sim_platform> times;
    for (int i = 0; i < 2; ++i) {
        timed const outer{times, s, "train"};
        kernel(s, 5us);
        {
            timed const inner{times, s, "copy"};
            kernel(s, 1us);
        }
        named_function(times, s);
    }
    {
        timed const other{times, s, "copy"};
        kernel(s, 2us);
    }
    auto const rows = times.rows();
    REQUIRE(rows.size() == 4);
    CHECK(rows[0].name == "train");
    CHECK(rows[0].device.total == 32'000);
    CHECK(rows[1].name == "copy");
    CHECK(rows[1].depth == 1);
    CHECK(rows[1].device.total == 2'000);
    CHECK(rows[2].name == "named_function");
    CHECK(rows[2].depth == 1);
    CHECK(rows[3].name == "copy");
    CHECK(rows[3].depth == 0);
    CHECK_FALSE(rows[3].has_memory);
    std::string const text = times.text();
    CHECK(text.find("\n  copy") != std::string::npos);
    CHECK(text.find("32.0 us") != std::string::npos);
    CHECK(text.find("peak") == std::string::npos); // no column without figures
    times.clear();
    CHECK(times.rows()[0].runs == 0);
}

TEST_CASE("timed: scopes of two profiles do not nest in each other") {
    sim_node              node;
    sim_stream            s;
    profile<sim_platform> one, two;
    {
        timed const a{one, s, "a"};
        timed const b{two, s, "b"};
        timed const c{one, s, "c"};
    }
    CHECK(one.rows()[1].name == "c");
    CHECK(one.rows()[1].depth == 1);
    CHECK(two.rows()[0].depth == 0);
}

TEST_CASE("timed: threads are merged, or listed for each" * doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    sim_node              node;
    profile<sim_platform> times;
    auto const            work = [&] {
        sim_stream s;
        for (int i = 0; i < 5; ++i) {
            timed const scope{times, s, "work"};
            kernel(s, 10us);
        }
        s.synchronize();
    };
    {
        sim_thread one{sim_device{}, work}, two{sim_device{}, work};
        sim_thread::join_together(one, two);
    }
    auto const all = times.rows();
    REQUIRE(all.size() == 1);
    CHECK(all[0].runs == 10);
    CHECK(all[0].device.count == 10);
    auto const each = times.rows(true);
    REQUIRE(each.size() == 2);
    CHECK(each[0].runs == 5);
    CHECK(each[1].runs == 5);
    CHECK(each[0].thread != each[1].thread);
    CHECK(times.text(true).find("thread") != std::string::npos);
    CHECK(node.reports().empty());
}

TEST_CASE("timed: the events of many runs are read in between, without a wait") {
    sim_node              node;
    sim_stream            s;
    profile<sim_platform> times;
    for (int i = 0; i < 1000; ++i) {
        timed const scope{times, s, "step"};
        kernel(s, 1us);
        if (i % 10 == 0) { s.synchronize(); }
    }
    CHECK(times.rows()[0].device.count == 1000);
    CHECK(times.rows()[0].device.total == 1'000'000);
}

TEST_CASE("timed: the events of a scope order nothing in the program") {
    sim_node              node{{.on_report = sim_on_report::collect}};
    sim_stream            one, two;
    sim_resource          memory;
    profile<sim_platform> times;
    void* const           p = memory.allocate_sync(64);
    {
        timed const scope{times, one, "write"};
        sim_launch(one, {.name = "scale", .writes = {{p, 64}}});
    }
    (void)times.rows(); // waits for the device, but the program has not
    sim_launch(two, {.name = "add", .writes = {{p, 64}}});
    sim_device{}.synchronize();
    CHECK(node.reports().size() == 1);
    memory.deallocate_sync(p, 64);
}

TEST_CASE("timed: a default stream is that of the device that was current at the start") {
    sim_node const        node{{.devices = 2}};
    error_count const     errors;
    profile<sim_platform> times;
    {
        timed const scope{times, sim_stream_view{}, "two devices"};
        kernel({}, 500us);
        sim_device{1}.make_current();
        kernel({}, 900us);
    }
    auto const rows = times.rows();
    CHECK(errors.count() == 0);
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].device.count == 1);
    CHECK(rows[0].device.total == 500'000);
}

TEST_CASE("timed: in a capture no events are recorded") {
    sim_node              node;
    sim_stream            s;
    profile<sim_platform> times;
    sim_graph::begin(s);
    {
        timed const scope{times, s, "captured"};
        kernel(s, 10us);
    }
    sim_graph graph = sim_graph::end(s);
    CHECK(times.rows()[0].runs == 1);
    CHECK(times.rows()[0].device.count == 0);
    CHECK(graph.size() == 1);
    graph.launch(s);
    s.synchronize();
    {
        timed const scope{times, s, "ends in a capture"};
        sim_graph::begin(s);
    }
    (void)sim_graph::end(s);
    CHECK(times.rows()[1].runs == 1);
    CHECK(times.rows()[1].device.count == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("timed: a platform without timed events has the time of the host") {
    doubles::archetype<>   memory;
    profile<host_platform> times;
    {
        timed const scope{times, host_platform::stream{}, "work", memory};
        memory.deallocate_sync(memory.allocate_sync(64), 64);
    }
    auto const rows = times.rows();
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].device.count == 0);
    CHECK(rows[0].host.count == 1);
    CHECK(rows[0].peak == 64);
}

TEST_CASE("timed: the name of a function is without type, arguments and namespaces") {
    CHECK(detail::name_of_function("void app::train_step(auto&, int) [with auto = x(y)]") ==
          "train_step");
    CHECK(detail::name_of_function("int main()") == "main");
    CHECK(detail::name_of_function("char* text(int)") == "text");
    CHECK(detail::name_of_function("lambda") == "lambda");
}

} // namespace timed_test
