// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/owner_accounts.hpp> // first: the header stands alone

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>

using namespace vram;
using namespace vram::detail;

TEST_CASE("owner_accounts: blocks are counted for a thread, a tag and a line") {
    owner_accounts  all;
    call_site const one = call_site::current();
    call_site const two = call_site::current();
    memory_tag      tagged_once;
    {
        tagged const scope{"owner_accounts"};
        tagged_once = current_tag();
    }
    site_sums* const a = all.charge(1, tagged_once, one, 100);
    site_sums* const b = all.charge(1, tagged_once, two, 10);
    site_sums* const c = all.charge(1, {}, one, 1);
    site_sums* const d = all.charge(1024 + 2, tagged_once, one, 1000); // the account of thread 2
    REQUIRE((a != nullptr && b != nullptr && c != nullptr && d != nullptr));
    CHECK(all.charge(1, tagged_once, one, 5) == a);
    CHECK(a != b);
    CHECK(a->of == b->of);
    CHECK(a->of != c->of);
    CHECK(a->account != d->account);
    CHECK(a->sums.live == 105);
    CHECK(a->of->sums.live == 115);
    CHECK(a->account->sums.live == 116);
    all.refund(*a, 100, true, two);
    CHECK(a->sums.live == 5);
    CHECK(a->sums.blocks == 1);
    CHECK(a->of->sums.live == 15);
    CHECK(a->account->sums.live == 16);
    CHECK(a->sums.peak == 105);
    CHECK(a->crossed == 1);
    CHECK(a->crossed_at.line() == two.line());
    unsigned accounts = 0;
    all.for_each([&](owner_account const& each) {
        if (each.sums.allocations != 0) { ++accounts; }
    });
    CHECK(accounts == 2);
}

TEST_CASE("owner_accounts: the peak is exact for one thread, and within the slack for several") {
    owner_accounts   all;
    site_sums* const a = all.charge(0, {}, {}, 100);
    all.refund(*a, 60, false, {});
    (void)all.charge(0, {}, {}, 50);
    CHECK(all.peak() == 100);
    (void)all.charge(0, {}, {}, 50);
    CHECK(all.peak() == 140);
    std::size_t const large = 10 * owner_accounts::slack;
    for (unsigned thread = 1; thread <= 4; ++thread) { (void)all.charge(thread, {}, {}, large); }
    CHECK(all.peak() + 4 * owner_accounts::slack >= 4 * large);
    CHECK(all.peak() <= 140 + 4 * large);
}

namespace {
/// Waits until `of` is at least `value`.
void await(std::atomic<int> const& of, int value) {
    for (int i = 0; of.load() < value; ++i) {
        if (i > 1000) { std::this_thread::yield(); }
    }
}
/// Calls `body(0)` and `body(1)` in two threads that start at the same time.
template <class Body>
void together(Body const& body) {
    std::atomic<int> ready{0};
    auto const       run = [&](unsigned thread) {
        ++ready;
        await(ready, 2);
        body(thread);
    };
    std::thread other{run, 1U};
    run(0);
    other.join();
}
} // namespace

TEST_CASE("owner_accounts: the peak has the large blocks that two threads allocate at once") {
    std::size_t const large = 10 * owner_accounts::slack;
    owner_accounts    all;
    int               missed = 0;
    std::atomic<int>  turn{0};
    std::size_t       expected = 0;
    together([&](unsigned thread) {
        for (int round = 0; round != 20'000; ++round) {
            (void)all.charge(thread, {}, {}, large);
            ++turn;
            await(turn, 4 * round + 2);
            if (thread == 0) {
                expected += 2 * large;
                missed += all.peak() != expected;
            }
            ++turn;
            await(turn, 4 * round + 4);
        }
    });
    CHECK(missed == 0);
}

TEST_CASE("owner_accounts: no block is lost while another thread frees and reads") {
    owner_accounts          all;
    std::atomic<site_sums*> to_free{nullptr};
    constexpr unsigned      count = 20'000;
    together([&](unsigned thread) {
        for (unsigned i = 0; i != count; ++i) {
            if (thread == 0) {
                site_sums* const mine = all.charge(0, {}, {}, 8);
                all.refund(*mine, 8, false, {});
                site_sums* const other = all.charge(0, {}, {}, 8);
                while (to_free.load() != nullptr) { std::this_thread::yield(); }
                to_free = other;
            } else {
                site_sums* other = nullptr;
                while ((other = to_free.exchange(nullptr)) == nullptr) {
                    std::this_thread::yield();
                }
                all.refund(*other, 8, false, {});
                if (i % 64 != 0) { continue; }
                all.for_each([](owner_account const& a) { CHECK(a.sums.live <= 8 * 3); });
            }
        }
    });
    all.for_each([&](owner_account const& a) {
        CHECK(a.sums.live == 0);
        CHECK(a.sums.blocks == 0);
        CHECK((a.sites == nullptr || a.sums.allocations == 2 * count));
    });
}

TEST_CASE("owner_accounts: each number of a peak stands for a higher peak") {
    owner_accounts all;
    together([&](unsigned thread) {
        for (int i = 0; i != 600'000; ++i) { (void)all.charge(thread, {}, {}, 1); }
    });
    CHECK(all.moment() - 1 <= all.peak());
}

TEST_CASE("owner_accounts: the holders of memory are merged over threads and sorted") {
    owner_accounts all;
    memory_tag     tags[5];
    for (int i = 0; i != 5; ++i) {
        tagged const scope{"merged holders/" + std::to_string(i)};
        tags[i] = current_tag();
    }
    for (unsigned thread = 0; thread != 3; ++thread) {
        for (unsigned i = 0; i != 5; ++i) { (void)all.charge(thread, tags[i], {}, 10 * (i + 1)); }
    }
    (void)all.charge(2, tags[0], {}, 1000);
    shortage n;
    all.name_holders(n);
    CHECK(n.holders[0].owner == tags[0]);
    CHECK(n.holders[0].bytes == 1030);
    CHECK(n.holders[0].blocks == 4);
    CHECK(n.holders[1].owner == tags[4]);
    CHECK(n.holders[1].bytes == 150);
    CHECK(n.holders[2].owner == tags[3]);
}
