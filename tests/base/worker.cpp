// SPDX-License-Identifier: Apache-2.0
#include <vram/base/worker.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <atomic>
#include <utility>

using namespace vram;

TEST_CASE("worker: it is joined when it goes") {
    std::atomic<int> done = 0;
    {
        worker const w{0, [&] { ++done; }};
    }
    CHECK(done == 1);
}

TEST_CASE("worker: joining twice, and joining what never ran, is nothing") {
    std::atomic<int> done = 0;
    worker           w{0, [&] { ++done; }};
    w.join();
    CHECK(done == 1);
    w.join();
    worker none;
    none.join();
}

TEST_CASE("worker: assigning joins the one that ran, and moving takes it along") {
    std::atomic<int> done = 0;
    worker           first{0, [&] { ++done; }};
    first = worker{0, [&] { done += 10; }};
    CHECK(done >= 1); // the first one has ended
    worker second = std::move(first);
    second.join();
    CHECK(done == 11);
}
