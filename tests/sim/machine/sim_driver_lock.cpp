// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_driver_lock.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

namespace {
/// A lock with a hand-over of 5 ns, and 3 ns more for a call after one of another thread.
struct driver_of_calls {
    /// Returns the end of a call of a thread that begins at `now` and costs `cost`.
    int call(int now, int cost, int thread = 0) {
        sim_time const end =
            lock.hold(&threads[thread], sim_time{now}, sim_time{cost}, sim_time{5}, sim_time{3});
        return static_cast<int>(end.count());
    }
    sim_driver_lock lock;
    char            threads[3] = {};
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

TEST_CASE("sim_driver_lock: a call after one of another thread costs more, also without a wait") {
    driver_of_calls d;
    CHECK(d.call(10, 10, 0) == 20); // the first call of all
    CHECK(d.call(20, 10, 1) == 33);
    CHECK(d.call(33, 10, 1) == 43);
    CHECK(d.call(43, 10, 0) == 56); // at the end of the other call: no wait
    CHECK(d.call(60, 0, 1) == 60);  // takes no lock
    CHECK(d.call(60, 10, 0) == 70);
    CHECK(d.call(5, 10, 2) == 18); // earlier than all calls so far
}

TEST_CASE("sim_driver_lock: a call that waited for another thread costs the hand-over alone") {
    driver_of_calls d;
    CHECK(d.call(0, 10, 0) == 10);
    CHECK(d.call(5, 10, 1) == 25);
    CHECK(d.call(30, 10, 1) == 40);
    CHECK(d.call(50, 10, 0) == 63);
    CHECK(d.call(62, 10, 2) == 78); // the lock was held until 63
}

TEST_CASE("sim_driver_lock: calls that begin earlier do not change when the lock is in use later") {
    driver_of_calls d;
    CHECK(d.call(100, 10) == 110);
    CHECK(d.call(3, 10) == 13);
    CHECK(d.call(105, 10) == 125);
    CHECK(d.call(5, 10) == 28);   // waits for the call from 3 to 13
    CHECK(d.call(95, 10) == 105); // ends while another call holds the lock
    CHECK(d.call(98, 10) == 140); // waits for both
}

TEST_CASE("sim_driver_lock: a call that has waited waits again if the lock is then in use") {
    driver_of_calls d;
    CHECK(d.call(0, 10) == 10);
    CHECK(d.call(12, 10) == 22);
    CHECK(d.call(5, 10) == 37); // receives the lock at 15, when the second call holds it
    CHECK(d.call(1, 10) == 52);
}

TEST_CASE("sim_driver_lock: after many calls with pauses, the last ones still count") {
    driver_of_calls d;
    for (int i = 1; i <= 40; ++i) { CHECK(d.call(100 * i, 10) == 100 * i + 10); }
    CHECK(d.call(4005, 10) == 4025);
    CHECK(d.call(3905, 10) == 3925);
    CHECK(d.call(50, 10) == 60);
    CHECK(d.call(55, 10) == 75);
    CHECK(d.call(3906, 10) == 3940);
}
