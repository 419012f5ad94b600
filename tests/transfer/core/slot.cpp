// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/slot.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

template struct vram::detail::slot<sim_platform>;
template struct vram::detail::slot<host_platform>;

TEST_CASE("slot: a new slot is empty and waits for nothing") {
    sim_node           node;
    sim_stream         stream;
    slot<sim_platform> s{sim_device::current()};
    CHECK(s.size == 0);
    CHECK(s.memory == nullptr);
    CHECK_FALSE(s.in_use);
    CHECK(s.copied.done());
    s.await_users(stream);
    CHECK(node.figures().stream_waits == 0);
    CHECK(node.figures().host_waits == 0);
}

TEST_CASE("slot: its next owner waits once for every stream that used it") {
    sim_node           node{{.compute_slots = 2}};
    sim_stream         copies, a, b;
    slot<sim_platform> s{sim_device::current()};
    s.copied.record(copies);
    s.add_user(b);
    s.add_user(b);
    CHECK(s.others.size() == 1);
    sim_launch(a, {.duration = 10us});
    sim_launch(b, {.duration = 30us});
    s.record_users(a);
    CHECK(s.in_use);
    s.await_users(copies);
    CHECK_FALSE(s.in_use);
    CHECK(s.others.empty());
    copies.synchronize();
    CHECK(node.now() == 30us);

    s.add_user(b); // the event from before is used again
    sim_launch(b, {.duration = 10us});
    s.record_users(a);
    CHECK(s.others_released.size() == 1);
    CHECK(s.finish_users(a));
    CHECK(node.now() == 40us);
    CHECK_FALSE(s.in_use);
}

TEST_CASE("slot: if a wait for its users fails, the end of its last use is unknown") {
    for (std::uint64_t const call : {1U, 2U}) { // the loop's stream, the further stream
        sim_node               node;
        sim_stream             a, b;
        slot<sim_platform>     s{sim_device::current()};
        doubles::mishaps const errors;
        s.add_user(b);
        node.faults().at(sim_call_kind::synchronize, call, {.status = sim_status::refused}, 2);
        CHECK_FALSE(s.finish_users(a));
        CHECK(s.end_unknown);
        CHECK(errors.count() == 2); // the stream, and the device
        CHECK(s.others.empty());
    }
}

TEST_CASE("slot: a user waits for the copy, unless its completion flag is set") {
    sim_node           node;
    sim_stream         copies, a;
    slot<sim_platform> s{sim_device::current()};
    s.copied.record(copies);
    std::uint64_t waits = 0;
    s.await_copy(a); // nothing will be marked
    CHECK(node.figures().stream_waits == ++waits);
    std::uint32_t mark = 0;
    s.flag             = &mark;
    for (std::uint32_t const copy_number : {1U, 2U, 0x8000'0000U, 0U, 1U}) { // it starts over
        s.copy_number = copy_number;
        s.await_copy(a);
        CHECK(node.figures().stream_waits == ++waits);
        for (std::uint32_t const later : {0U, 1U, 7U}) {
            mark = copy_number + later;
            s.await_copy(a);
        }
        CHECK(node.figures().stream_waits == waits);
        mark = copy_number; // and the next has not come
    }
}

TEST_CASE("slot: each stream that used it has an event of its own device, created once") {
    sim_node           node{{.devices = 2}};
    sim_stream         here{sim_device{0}}, a{sim_device{0}}, far{sim_device{1}};
    slot<sim_platform> s{sim_device{0}};
    for (int round = 0; round < 6; ++round) { // in turn, and together in both orders
        if (round % 3 != 0) { s.add_user(round % 2 != 0 ? a : far); }
        if (round % 3 != 1) { s.add_user(round % 2 != 0 ? far : a); }
        s.record_users(here);
        s.await_users(here);
        CHECK(s.others_released.size() <= 2);
    }
    here.synchronize();
    CHECK(node.reports().empty());
}
