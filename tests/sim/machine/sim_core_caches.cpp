// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_core_caches.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <thread>

using namespace vram::detail;

namespace {
/// Two threads with caches of 1000 bytes.
struct caches_of_two {
    void copied(std::thread::id thread, std::uintptr_t begin, std::size_t bytes,
                std::size_t times = 1) {
        caches.copied(thread, begin, bytes, times, 1000);
    }
    std::thread           second{[] {}};
    std::thread::id const one = std::this_thread::get_id();
    std::thread::id const two = second.get_id();
    sim_core_caches       caches;
    ~caches_of_two() { second.join(); }
};
} // namespace

TEST_CASE("sim_core_caches: memory is in a cache from a host copy until a copy by a device") {
    caches_of_two c;
    CHECK(c.caches.take(5000, 100) == 0);
    c.copied(c.one, 5000, 100);
    CHECK(c.caches.take(5000, 100) == 100);
    CHECK(c.caches.take(5000, 100) == 0);
}

TEST_CASE("sim_core_caches: a copy of a part leaves the parts before and after it in the cache") {
    caches_of_two c;
    c.copied(c.one, 5000, 300);
    CHECK(c.caches.take(5100, 50) == 50);
    CHECK(c.caches.take(4900, 150) == 50);
    CHECK(c.caches.take(4000, 2000) == 200);
}

TEST_CASE("sim_core_caches: the last copies stay that together fill less than the cache") {
    caches_of_two c;
    c.copied(c.one, 1000, 400);
    c.copied(c.one, 2000, 400);
    c.copied(c.one, 3000, 300); // 1100 bytes
    CHECK(c.caches.take(1000, 400) == 0);
    CHECK(c.caches.take(2000, 400) == 400);
    CHECK(c.caches.take(3000, 300) == 300);
    c.copied(c.one, 1000, 1000);
    CHECK(c.caches.take(1000, 1000) == 0); // the cache is full
    c.copied(c.one, 1000, 500, 2);         // with its source
    CHECK(c.caches.take(1000, 500) == 0);
    c.copied(c.one, 1000, 499, 2);
    CHECK(c.caches.take(1000, 499) == 499);
}

TEST_CASE("sim_core_caches: a copy of another thread takes memory out of the cache of the first") {
    caches_of_two c;
    c.copied(c.one, 1000, 800);
    c.copied(c.two, 3000, 800); // a cache of its own
    c.copied(c.two, 1000, 100);
    CHECK(c.caches.take(1000, 800) == 800);
    CHECK(c.caches.take(3000, 800) == 800);
    c.copied(c.one, 1000, 800);
    c.copied(c.two, 1000, 800);
    c.copied(c.two, 5000, 800);
    CHECK(c.caches.take(1000, 800) == 0);
}

TEST_CASE("sim_core_caches: of a thread, at most 64 ranges are recorded") {
    caches_of_two c;
    for (std::uintptr_t i = 0; i < 65; ++i) { c.copied(c.one, 100 * i, 1); }
    CHECK(c.caches.take(0, 1) == 0);
    CHECK(c.caches.take(100, 6400) == 64);
}
