// SPDX-License-Identifier: Apache-2.0
#include <vram/pressure/split_on_oom.hpp> // first: the header must stand alone

#include <vram/base/bytes.hpp>
#include <vram/base/over_limit.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace vram;

namespace {

/// Work that fits up to `room` items at a time and records its calls.
struct worker_of {
    std::size_t                                      room;
    std::vector<std::pair<std::size_t, std::size_t>> finished{};
    int                                              refused = 0;

    void operator()(std::size_t first, std::size_t count) {
        if (count > room) {
            ++refused;
            throw out_of_memory{{.asked = count}};
        }
        finished.emplace_back(first, count);
    }

    [[nodiscard]] std::size_t covered() const { // 0 if there is a gap or an overlap
        std::size_t next = 0;
        for (auto const& [first, count] : finished) {
            if (first != next) { return 0; }
            next += count;
        }
        return next;
    }
};

} // namespace

TEST_CASE("split_on_oom: work that fits is done in one call") {
    worker_of    work{1000};
    split_on_oom split;
    split(1000, work);
    CHECK(work.finished == std::vector<std::pair<std::size_t, std::size_t>>{{0, 1000}});
    CHECK(split.done() == 1000);
    CHECK(split.splits() == 0);
    CHECK(split.size() == split_on_oom::unlimited);
}

TEST_CASE("split_on_oom: zero items call nothing") {
    worker_of    work{0};
    split_on_oom split;
    split(0, work);
    CHECK(work.finished.empty());
    CHECK(split.done() == 0);
}

TEST_CASE("split_on_oom: every count is covered in order without gap or overlap, for any limit") {
    for (std::size_t const granule : {1, 3, 16}) {
        for (std::size_t room = granule; room < 70; ++room) {
            for (std::size_t count = 1; count < 140; count += 7) {
                worker_of    work{room};
                split_on_oom split{{.granule = granule}};
                split(count, work);
                REQUIRE(work.covered() == count);
                REQUIRE(split.pieces() == work.finished.size());
                REQUIRE(split.splits() == static_cast<unsigned>(work.refused));
            }
        }
    }
}

TEST_CASE("split_on_oom: pieces are whole granules, except the last of a call") {
    worker_of    work{100};
    split_on_oom split{{.granule = 32}};
    split(1001, work);
    CHECK(work.covered() == 1001);
    for (std::size_t i = 0; i + 1 < work.finished.size(); ++i) {
        CHECK(work.finished[i].second % 32 == 0);
    }
}

TEST_CASE("split_on_oom: the size that fits is remembered from call to call") {
    worker_of    work{100};
    split_on_oom split;
    split(400, work);
    CHECK(work.refused == 2); // 400, 200
    split(400, work);
    CHECK(work.refused == 2);
    CHECK(split.size() == 100);
}

TEST_CASE("split_on_oom: pieces grow after a run of successes if the options say so") {
    worker_of    work{100};
    split_on_oom split{{.grow_after = 4}};
    split(400, work); // 100 fits; after four of them 200 is next
    CHECK(split.size() == 200);
    work.room = 1000; // memory was freed
    split(1600, work);
    CHECK(work.refused == 2);
    CHECK(split.size() > 200);
}

TEST_CASE("split_on_oom: finished pieces stay finished if the smallest one does not fit") {
    std::vector<std::size_t> finished;
    split_on_oom             split{{.least = 10}};
    auto const               work = [&](std::size_t first, std::size_t count) {
        if (first >= 50 || count > 25) { throw out_of_memory{{.asked = count, .live = 77}}; }
        finished.push_back(count);
    };
    try {
        split(100, work);
        FAIL("it does not fit");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 10); // the smallest piece that was tried
        CHECK(e.numbers().live == 77);
    }
    CHECK(split.done() == 50);
    CHECK(finished == std::vector<std::size_t>{25, 25});
}

TEST_CASE(
    "split_on_oom: an error that is not about memory ends the call at once and keeps its type") {
    int          calls = 0;
    split_on_oom split;
    CHECK_THROWS_AS(split(8,
                          [&](std::size_t, std::size_t) {
                              ++calls;
                              throw std::domain_error{"no"};
                          }),
                    std::domain_error);
    CHECK(calls == 1);
    CHECK(split.done() == 0);
    CHECK_THROWS_AS(split(8, [&](std::size_t, std::size_t) { throw std::bad_alloc{}; }),
                    std::bad_alloc); // splitting does not help if host memory is short
    CHECK(split.splits() == 0);
}

TEST_CASE("split_on_oom: a piece that cannot be halved throws the error of the budget") {
    split_on_oom split;
    limiting     memory{host_resource{}, 4_KiB};
    CHECK_THROWS_AS(split(1, [&](std::size_t, std::size_t) { (void)memory.allocate_sync(8_KiB); }),
                    over_limit);
}

TEST_CASE("split_on_oom: objects that the exception kept alive are destroyed before the next try") {
    auto               kept = std::make_shared<int>(0);
    std::vector<long>  uses;
    std::weak_ptr<int> watched = kept;
    struct holding : out_of_memory {
        explicit holding(std::shared_ptr<int> p) : out_of_memory{{}}, held{std::move(p)} {}
        std::shared_ptr<int> held;
    };
    split_on_oom split;
    split(4, [&](std::size_t, std::size_t count) {
        uses.push_back(watched.use_count());
        if (count == 4) { throw holding{std::exchange(kept, nullptr)}; }
    });
    CHECK(uses == std::vector<long>{1, 0, 0});
}

TEST_CASE("split_on_oom: a budget smaller than the batch is met, and no byte is lost") {
    limiting     memory{host_resource{}, 10_KiB};
    split_on_oom split{{.granule = 1_KiB}};
    std::size_t  covered = 0;
    split(64_KiB, [&](std::size_t, std::size_t count) {
        void* const p = memory.allocate_sync(count);
        covered += count;
        memory.deallocate_sync(p, count);
    });
    CHECK(covered == 64_KiB);
    CHECK(split.size() == 8_KiB);
    CHECK(memory.used() == 0);
}

TEST_CASE("split_on_oom: with the largest `least` no piece is split, for any granule") {
    split_on_oom split{{.granule = 4_KiB, .least = split_on_oom::unlimited}};
    int          calls = 0;
    CHECK_THROWS_AS(split(1_MiB,
                          [&](std::size_t, std::size_t n) {
                              CHECK(n == 1_MiB);
                              if (++calls == 3) { throw 3; }
                              throw out_of_memory{{}};
                          }),
                    out_of_memory);
    CHECK(calls == 1);
}
