// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/thread_number.hpp> // first: the header stands alone

#include <vram/base/core/gate.hpp>
#include <vram/base/core/worker.hpp>

#include <doctest/doctest.h>

#include <deque>
#include <set>

using namespace vram;
using namespace vram::detail;

TEST_CASE(
    "thread_number: a thread keeps its number, and threads that run together have different ones") {
    gate               meeting;
    std::set<unsigned> numbers{thread_number()};
    unsigned           here = 0;
    {
        std::deque<worker> threads;
        for (int i = 0; i < 8; ++i) {
            threads.emplace_back(0, [&] {
                auto held = meeting.hold();
                numbers.insert(thread_number());
                ++here;
                meeting.notify();
                meeting.wait(held, [&] { return here == 8; });
                numbers.insert(thread_number()); // again: nothing new
            });
        }
    }
    CHECK(numbers.size() == 9);
    CHECK(numbers.count(thread_number()) == 1);
}

TEST_CASE("thread_number: a new thread gets the number of a thread that has ended") {
    std::set<unsigned> numbers;
    for (int i = 0; i < 100; ++i) {
        worker{0, [&] { numbers.insert(thread_number()); }};
    }
    CHECK(numbers.size() == 1);
    CHECK(numbers.count(thread_number()) == 0);
}

TEST_CASE("thread_number: a destructor after the end of the holder gets a shared number") {
    static unsigned last = 0;
    struct late {
        ~late() { last = thread_number(); }
    };
    worker{0, [] {
               thread_local late const of_thread; // destroyed after the holder, which is made later
               static_cast<void>(of_thread);
               static_cast<void>(thread_number());
           }};
    CHECK(last >= most_thread_numbers);
}

TEST_CASE("thread_number: above a thousand threads each still keeps its number") {
    (void)thread_number();
    {
        std::deque<detail::thread_number_holder> crowd(2 * detail::most_thread_numbers);
        std::set<unsigned>                       low;
        for (auto const& each : crowd) {
            if (each.number() < detail::most_thread_numbers) { low.insert(each.number()); }
        }
        CHECK(low.count(thread_number()) == 0);
        CHECK(low.size() > detail::most_thread_numbers / 2);
        CHECK(crowd.back().number() >= detail::most_thread_numbers);
    }
    detail::thread_number_holder const next;
    CHECK(next.number() < detail::most_thread_numbers);
    CHECK(next.number() != thread_number());
}
