// SPDX-License-Identifier: Apache-2.0
#include <vram/source/core/posix_thread.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <atomic>  // atomic
#include <utility> // move

#if __has_include(<pthread.h>)
using vram::detail::posix_thread;

namespace {
/// A callable that counts its live objects.
struct counted_steps {
    std::atomic<int>* live;
    std::atomic<int>* calls;

    counted_steps(std::atomic<int>& l, std::atomic<int>& c) : live{&l}, calls{&c} { ++*live; }
    counted_steps(counted_steps const& other) : live{other.live}, calls{other.calls} { ++*live; }
    ~counted_steps() { --*live; }
    void operator()() { ++*calls; }
};
} // namespace

TEST_CASE("posix_thread: the destructor joins the thread, and the callable is destroyed once") {
    std::atomic<int> live = 0, calls = 0;
    { posix_thread const t{counted_steps{live, calls}}; }
    CHECK(calls == 1);
    CHECK(live == 0);
}

TEST_CASE("posix_thread: a second join, and a join of a thread that never ran, do nothing") {
    std::atomic<int> done = 0;
    posix_thread     t{[&] { ++done; }};
    t.join();
    CHECK(done == 1);
    t.join();
    posix_thread none;
    none.join();
}

TEST_CASE("posix_thread: an assignment joins the running thread, and a move transfers it") {
    std::atomic<int> done = 0;
    posix_thread     first{[&] { ++done; }};
    first = posix_thread{[&] { done += 10; }};
    CHECK(done >= 1); // the first one has ended
    posix_thread second = std::move(first);
    second.join();
    CHECK(done == 11);
}

TEST_CASE("posix_thread: a thread that ends by pthread_exit destroys its callable") {
    std::atomic<int> live = 0, calls = 0;
    {
        posix_thread const t{[body = counted_steps{live, calls}]() mutable {
            body();
            ::pthread_exit(nullptr);
        }};
    }
    CHECK(calls == 1);
    CHECK(live == 0);
}

TEST_CASE("posix_thread: a thread begins with the tag of its creator") {
    vram::tagged const scope{"creator of a posix_thread"};
    vram::memory_tag   inherited;
    posix_thread{[&] { inherited = vram::current_tag(); }}.join();
    CHECK(inherited == vram::current_tag());
}
#endif
