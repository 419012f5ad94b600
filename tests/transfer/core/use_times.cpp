// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/use_times.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

template class vram::detail::use_times<sim_platform>;
template class vram::detail::use_times<host_platform>;

TEST_CASE("use_times: it adds the times between starts and ends") {
    sim_node                node;
    sim_stream              stream;
    slot<sim_platform>      s{sim_device::current()};
    use_times<sim_platform> times{sim_device::current(), 4};
    for (int i = 0; i < 10; ++i) {
        times.begin(s, stream);
        sim_launch(stream, {.duration = 5us});
        times.end(s, stream);
        times.end(s, stream); // once
        sim_launch(stream, {.duration = 3us});
        stream.synchronize();
    }
    CHECK(times.sum() == 50'000);
    CHECK(times.sum() == 50'000);
}

TEST_CASE("use_times: if an event pair is still pending when reused, that use is not timed") {
    sim_node                node;
    sim_stream              stream;
    slot<sim_platform>      a{sim_device::current()}, b{sim_device::current()};
    use_times<sim_platform> times{sim_device::current(), 1};
    times.begin(a, stream);
    times.begin(b, stream); // the only pair is in use
    sim_launch(stream, {.duration = 5us});
    times.end(b, stream);
    times.end(a, stream);
    stream.synchronize();
    CHECK(times.sum() == 5'000);
    use_times<sim_platform> none{sim_device::current(), 0};
    none.begin(a, stream);
    none.end(a, stream);
    CHECK(none.sum() == 0);
}

TEST_CASE(
    "use_times: a batch that is kept long occupies its pair, and the others continue with theirs") {
    sim_node                node;
    sim_stream              stream;
    slot<sim_platform>      kept{sim_device::current()}, s{sim_device::current()};
    use_times<sim_platform> times{sim_device::current(), 3};
    times.begin(kept, stream);
    for (int i = 0; i < 10; ++i) {
        times.begin(s, stream);
        sim_launch(stream, {.duration = 5us});
        times.end(s, stream);
        stream.synchronize();
    }
    CHECK(times.sum() == 50'000);
    times.end(kept, stream);
    stream.synchronize();
    CHECK(times.sum() == 100'000);
}

TEST_CASE("use_times: a use that cannot be measured does not occupy its pair of events") {
    sim_node                node;
    sim_stream              stream;
    slot<sim_platform>      s{sim_device::current()};
    use_times<sim_platform> times{sim_device::current(), 1};
    for (int i = 0; i < 3; ++i) {
        times.begin(s, stream);
        node.faults().at(sim_call_kind::record, 1);
        CHECK_THROWS_AS(times.end(s, stream), sim_error);
        times.leave_out(s);
    }
    times.begin(s, stream);
    sim_launch(stream, {.duration = 5us});
    times.end(s, stream);
    stream.synchronize();
    CHECK(times.sum() == 5'000);
}
