// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/meeting.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <thread> // thread

using vram::detail::meeting;

TEST_CASE("meeting: a thread waits until the data has the expected value") {
    meeting     m;
    int         turn = 0;
    int const   last = 2000;
    std::thread other{[&] {
        for (int i = 1; i < last; i += 2) {
            auto held = m.hold();
            m.wait(held, [&] { return turn == i; });
            ++turn;
            m.notify();
        }
    }};
    for (int i = 0; i < last; i += 2) {
        auto held = m.hold();
        m.wait(held, [&] { return turn == i; });
        ++turn;
        held.unlock();
        m.notify();
    }
    other.join();
    CHECK(turn == last);
}

TEST_CASE("meeting: each of several waiting threads is woken") {
    meeting    m;
    bool       open   = false;
    int        passed = 0;
    auto const pass   = [&] {
        auto held = m.hold();
        m.wait(held, [&] { return open; });
        ++passed;
    };
    std::thread one{pass}, two{pass}, three{pass};
    {
        auto const held = m.hold();
        open            = true;
    }
    m.notify();
    one.join();
    two.join();
    three.join();
    CHECK(passed == 3);
}

TEST_CASE("meeting: a condition that is changed under another lock ends the wait") {
    for (int i = 0; i != 300; ++i) {
        meeting     m;
        std::mutex  lock;
        bool        ready = false;
        std::thread other{[&] {
            {
                std::lock_guard const held{lock};
                ready = true;
            }
            { auto const everybody = m.hold(); }
            m.notify();
        }};
        auto        held = m.hold();
        m.wait(held, [&] {
            std::lock_guard const look{lock};
            return ready;
        });
        held.unlock();
        other.join();
        CHECK(ready);
    }
}
