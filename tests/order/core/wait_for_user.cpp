// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/wait_for_user.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "../../doubles/ending_platform.hpp"
#include "../../doubles/mishaps.hpp"
#include "../../doubles/streams_at_work.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>

using namespace vram;
using namespace vram::detail;

namespace {

/// A platform that neither waits for a stream nor returns its device.
struct lost_stream_platform : sim_platform {
    static void synchronize(stream) { throw sim_error{sim_status::invalid_handle}; }
    static void synchronize(device d) { d.synchronize(); }
    [[nodiscard]] static sim_device device_of(stream) {
        throw sim_error{sim_status::invalid_handle};
    }
};

} // namespace

TEST_CASE("wait_for_user: a stream is neither queried nor waited for if the process is ending") {
    sim_node           node;
    sim_stream         s;
    sim_resource const device;
    int const          before = doubles::ending_platform::queries;
    doubles::keep_busy(s);
    CHECK(wait_for_user<doubles::ending_platform>(s, device));
    CHECK(doubles::ending_platform::queries == before);
    CHECK_FALSE(s.done());
}

TEST_CASE("wait_for_user: the host waits for the stream, unless it is being captured") {
    sim_node               node;
    doubles::mishaps const told;
    sim_stream             s;
    sim_resource const     device;
    doubles::keep_busy(s);
    CHECK(wait_for_user<sim_platform>(s, device));
    CHECK(s.done());
    sim_graph::begin(s);
    CHECK_FALSE(wait_for_user<sim_platform>(s, device));
    CHECK_NOTHROW((void)sim_graph::end(s)); // a wait would have broken the capture
    CHECK(told.count() == 0);
}

TEST_CASE("wait_for_user: if the device of the stream is unknown, the devices of the memory and of "
          "the thread are waited for") {
    sim_node               node{{.devices = 3}};
    doubles::mishaps const told;
    sim_stream             here, other{sim_device{1}}, unrelated{sim_device{2}};
    sim_resource const     memory;
    doubles::keep_busy(here, std::chrono::milliseconds{3});
    doubles::keep_busy(other, std::chrono::milliseconds{5});
    doubles::keep_busy(unrelated, std::chrono::milliseconds{50});
    sim_device_guard const on{sim_device{1}};
    CHECK(wait_for_user<lost_stream_platform>(other, memory));
    CHECK(here.done());
    CHECK(other.done());
    CHECK_FALSE(unrelated.done());
    CHECK(told.count() == 1); // the wait for the stream
    for (std::uint64_t const failing : {1, 2}) {
        node.faults().at(sim_call_kind::synchronize, failing);
        CHECK_FALSE(wait_for_user<lost_stream_platform>(other, memory));
    }
}
