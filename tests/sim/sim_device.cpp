// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_device.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include "../doubles/collecting.hpp" // status_of

#include <doctest/doctest.h>

#include <concepts>
#include <thread>

using namespace vram;
using namespace std::chrono_literals;

static_assert(std::regular<sim_device>);

TEST_CASE("sim_device: each thread has a current device, which is device 0 at first") {
    sim_node const node{{.devices = 2}};
    CHECK(sim_device::current() == sim_device{0});
    sim_device{1}.make_current();
    CHECK(sim_device::current().index() == 1);
    int other = -1;
    std::thread{[&] { other = sim_device::current().index(); }}.join();
    CHECK(other == 0);
}

TEST_CASE("sim_device: an index without a device is refused") {
    sim_node const node{{.devices = 2}};
    CHECK_THROWS_AS(sim_device{2}, sim_error);
    CHECK_THROWS_AS(sim_device{-1}, sim_error);
}

TEST_CASE("sim_device: synchronize waits for all streams of the device, and for no other device") {
    sim_node const node{{.devices = 2}};
    sim_stream     a, b, far{sim_device{1}};
    sim_launch(a, {.duration = 2us});
    sim_launch(b, {.duration = 3us});
    sim_launch(far, {.duration = 90us});
    sim_device{0}.synchronize();
    CHECK(sim_node::current().now() == 5us);
    CHECK_FALSE(far.done());
}

TEST_CASE("sim_device: devices of two nodes differ") {
    sim_node const   a;
    sim_device const d;
    sim_node const   b;
    CHECK_FALSE(d == sim_device{});
}

TEST_CASE("sim_device: set_peer_access refuses a device of another node, and on a lost device") {
    sim_node         first{{.devices = 2}};
    sim_device const d;
    auto const       status = [&](sim_device other) {
        return doubles::status_of([&] { d.set_peer_access(other, true); });
    };
    {
        sim_node const second{{.devices = 4}};
        CHECK(status(sim_device{1}) == sim_status::invalid_device);
        CHECK(status(sim_device{3}) == sim_status::invalid_device);
    }
    CHECK(status(sim_device{1}) == sim_status::ok);
    first.faults().at(sim_call_kind::other, 1);
    CHECK(status(sim_device{1}) == sim_status::refused);
    CHECK(status(sim_device{1}) == sim_status::ok);
    first.faults().at(sim_call_kind::other, 1, {.lost = true});
    CHECK(status(sim_device{1}) == sim_status::device_lost);
    CHECK(status(sim_device{1}) == sim_status::device_lost);
}

TEST_CASE("sim_device_guard: guards nest, and each restores the previous device") {
    sim_node const node{{.devices = 3}};
    {
        sim_device_guard const one{sim_device{1}};
        CHECK(sim_device::current().index() == 1);
        {
            sim_device_guard const two{sim_device{2}};
            CHECK(sim_device::current().index() == 2);
        }
        CHECK(sim_device::current().index() == 1);
    }
    CHECK(sim_device::current().index() == 0);
}
