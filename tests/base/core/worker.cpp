// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/worker.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <atomic>
#include <utility>

using namespace vram;
using namespace vram::detail;

TEST_CASE("worker: the destructor joins the thread") {
    std::atomic<int> done = 0;
    {
        worker const w{0, [&] { ++done; }};
    }
    CHECK(done == 1);
}

TEST_CASE("worker: a second join, and a join of a thread that never ran, do nothing") {
    std::atomic<int> done = 0;
    worker           w{0, [&] { ++done; }};
    w.join();
    CHECK(done == 1);
    w.join();
    worker none;
    none.join();
}

TEST_CASE("worker: an assignment joins the running thread, and a move transfers it") {
    std::atomic<int> done = 0;
    worker           first{0, [&] { ++done; }};
    first = worker{0, [&] { done += 10; }};
    CHECK(done >= 1); // the first one has ended
    worker second = std::move(first);
    second.join();
    CHECK(done == 11);
}
