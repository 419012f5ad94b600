// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_driver_lock.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

namespace {
/// A lock with a hand-over of 5 ns.
struct driver_of_calls {
    /// Returns the end of a call that begins at `now` and costs `cost`.
    int call(int now, int cost) {
        return static_cast<int>(lock.hold(sim_time{now}, sim_time{cost}, sim_time{5}).count());
    }
    sim_driver_lock lock;
};
} // namespace

TEST_CASE("sim_driver_lock: calls that do not overlap cost what they cost alone") {
    driver_of_calls d;
    CHECK(d.call(0, 10) == 10);
    CHECK(d.call(10, 10) == 20); // the next call of the same thread
    CHECK(d.call(50, 10) == 60);
}

TEST_CASE("sim_driver_lock: a call that begins during another one waits, and for the hand-over") {
    driver_of_calls d;
    CHECK(d.call(0, 10) == 10);
    CHECK(d.call(3, 10) == 25);
    CHECK(d.call(4, 10) == 40); // the lock was held or handed over from 0 to 25
    CHECK(d.call(20, 10) == 55);
    CHECK(d.call(56, 10) == 66);
}

TEST_CASE(
    "sim_driver_lock: a call waits for all calls that another thread made one after another") {
    driver_of_calls d;
    CHECK(d.call(0, 10) == 10);
    CHECK(d.call(10, 10) == 20);
    CHECK(d.call(3, 10) == 35);
}

TEST_CASE("sim_driver_lock: a call without a cost takes no lock") {
    driver_of_calls d;
    CHECK(d.call(0, 10) == 10);
    CHECK(d.call(3, 0) == 3);
    CHECK(d.call(10, 0) == 10);
    CHECK(d.call(11, 10) == 21);
}

TEST_CASE("sim_driver_lock: a call that begins before all calls so far does not wait for them") {
    driver_of_calls d;
    CHECK(d.call(100, 10) == 110);
    CHECK(d.call(3, 10) == 13);
}
