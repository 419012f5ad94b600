// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/survives_oom.hpp> // first: the header must stand alone

#include "../doubles/archetype.hpp"
#include "../doubles/contracts_throw.hpp"
#include "../doubles/mishaps.hpp"

#include <vram/handle/buffer.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/retrying.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pressure/split_on_oom.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace vram;

namespace survives_oom_test {

using stack = pool<stream_ordered<host_resource>>;

/// A block that is freed at the end of its scope.
template <class R>
struct scoped_block {
    scoped_block(R& mr, std::size_t n) : memory{mr}, bytes{n}, p{mr.allocate_sync(n)} {}
    scoped_block(scoped_block&&) = delete;
    ~scoped_block() { memory.deallocate_sync(p, bytes); }

    R&          memory;
    std::size_t bytes;
    void*       p;
};

/// Returns the result of `work` over a new stack.
template <class Work>
oom_survival result_of(Work work, survives_oom_options const& options = {}) {
    stack memory;
    return survives_oom(memory, std::move(work), options);
}

// --- ten planted bugs, each with a correct twin --------------------------------------------------

TEST_CASE("survives_oom: bug 1, a leak after a refusal") {
    auto const leaks = [](auto& mr) {
        void* const first  = mr.allocate_sync(1_KiB);
        void* const second = mr.allocate_sync(2_KiB); // if it throws, `first` is lost
        mr.deallocate_sync(second, 2_KiB);
        mr.deallocate_sync(first, 1_KiB);
        return 1;
    };
    auto const result = result_of(leaks);
    CHECK(result.fault == oom_fault::leak);
    CHECK(result.refused == 2);
    CHECK(result.bytes == 2_KiB);
    CHECK(result.leaked == 1_KiB);
    CHECK(result.block_bytes == 1_KiB);
    CHECK(result.requests == 2);
    CHECK(result.owner == memory_tag{});
#ifndef VRAM_NO_CALL_SITES
    CHECK(std::string{result.at.file()}.ends_with("survives_oom.cpp"));
    CHECK(result.allocated_at.line() + 1 == result.at.line());
#endif
    CHECK(result_of([](auto& mr) {
        scoped_block const first{mr, 1_KiB}, second{mr, 2_KiB};
        return 1;
    }));
}

TEST_CASE("survives_oom: bug 2, a half-built state that later runs use") {
    struct table {
        bool        built = false;
        std::size_t rows  = 0;
    };
    table      wrong, right;
    auto const build = [](table& t, auto& mr, bool early) {
        if (early) { t.built = true; } // before the allocation that may fail
        if (t.rows == 0) {
            scoped_block const scratch{mr, 4_KiB};
            t.rows = 100;
        }
        t.built = true;
    };
    auto const result = result_of([&](auto& mr) {
        if (!wrong.built) { build(wrong, mr, true); }
        scoped_block const out{mr, 1_KiB};
        std::size_t const  rows = std::exchange(wrong.rows, 0);
        wrong.built             = false;
        return rows;
    });
    CHECK(result.fault == oom_fault::damaged);
    CHECK(result.afterwards);
    CHECK(result.refused == 1);
    CHECK(result_of([&](auto& mr) {
        if (!right.built) { build(right, mr, false); }
        scoped_block const out{mr, 1_KiB};
        std::size_t const  rows = std::exchange(right.rows, 0);
        right.built             = false;
        return rows;
    }));
}

TEST_CASE("survives_oom: bug 3, a null result of try_allocate that skips the work") {
    auto const sum = [](auto& mr, bool reports) {
        int total = 0;
        for (int i = 1; i <= 3; ++i) {
            void* const p = mr.try_allocate_sync(1_KiB);
            if (p == nullptr) {
                if (reports) { throw std::runtime_error{"no memory for the sum"}; }
                continue;
            }
            total += i;
            mr.deallocate_sync(p, 1_KiB);
        }
        return total;
    };
    auto const result = result_of([&](auto& mr) { return sum(mr, false); });
    CHECK(result.fault == oom_fault::swallowed);
    CHECK(result.refused == 1);
    CHECK(result_of([&](auto& mr) { return sum(mr, true); }));
}

TEST_CASE("survives_oom: bug 4, an exception that becomes a wrong result") {
    auto const work = [](auto& mr, bool tells) {
        scoped_block const input{mr, 1_KiB};
        try {
            scoped_block const scratch{mr, 8_KiB};
            return 42;
        } catch (std::bad_alloc const&) {
            if (tells) { throw; }
            return 0;
        }
    };
    auto const result = result_of([&](auto& mr) { return work(mr, false); });
    CHECK(result.fault == oom_fault::swallowed);
    CHECK(result.refused == 2);
    CHECK(result.bytes == 8_KiB);
    CHECK(result_of([&](auto& mr) { return work(mr, true); }));
}

TEST_CASE("survives_oom: bug 5, a retry with half the size that uses the whole") {
    auto const work = [](auto& mr, bool remembers) {
        std::size_t bytes = 8_KiB;
        void*       p     = mr.try_allocate_sync(bytes);
        if (p == nullptr) {
            bytes /= 2;
            p = mr.allocate_sync(bytes);
        }
        std::size_t done = 0;
        while (done < 8_KiB) { done += bytes; }
        mr.deallocate_sync(p, remembers ? bytes : 8_KiB);
        return done;
    };
    auto const result = result_of([&](auto& mr) { return work(mr, false); });
    CHECK(result.fault == oom_fault::wrong_size);
    CHECK(result.refused == 1);
    CHECK_FALSE(result.for_good);
    CHECK(result.block_bytes == 4_KiB);
    CHECK(result.wrong_bytes == 8_KiB);
    CHECK(result_of([&](auto& mr) { return work(mr, true); }));
}

TEST_CASE("survives_oom: bug 6, a leak in a thread that the code starts") {
    sim_node   node;
    auto const work = [](auto& mr, bool frees) {
        bool               failed = false;
        scoped_block const own{mr, 1_KiB};
        sim_thread         other{sim_device{}, [&] {
                             void* first = nullptr;
                             try {
                                 first              = mr.allocate_sync(2_KiB);
                                 void* const second = mr.allocate_sync(3_KiB);
                                 mr.deallocate_sync(second, 3_KiB);
                             } catch (std::bad_alloc const&) {
                                 failed = true;
                                 if (!frees) { return; }
                             }
                             mr.deallocate_sync(first, 2_KiB);
                         }};
        other.join();
        if (failed) { throw std::runtime_error{"the thread has no memory"}; }
        return 7;
    };
    pool<stream_ordered<sim_resource>> memory;
    auto const result = survives_oom(memory, [&](auto& mr) { return work(mr, false); });
    if (sim_ordered_threads) {
        CHECK(result.fault == oom_fault::leak);
        CHECK(result.refused == 3);
        CHECK(result.requests == 3);
        CHECK(result.bytes == 3_KiB);
    }
    CHECK(survives_oom(memory, [&](auto& mr) { return work(mr, true); }));
    memory.trim();
    (void)node;
}

TEST_CASE("survives_oom: bug 7, a free with a wrong size after a refusal") {
    auto const work = [](auto& mr, bool exact) {
        void* const first = mr.allocate_sync(1_KiB);
        try {
            scoped_block const second{mr, 2_KiB};
        } catch (...) {
            mr.deallocate_sync(first, exact ? 1_KiB : 2_KiB);
            throw;
        }
        mr.deallocate_sync(first, 1_KiB);
        return 1;
    };
    auto const result = result_of([&](auto& mr) { return work(mr, false); });
    CHECK(result.fault == oom_fault::wrong_size);
    CHECK(result.refused == 2);
    CHECK(result.block_bytes == 1_KiB);
    CHECK(result.wrong_bytes == 2_KiB);
    CHECK(result_of([&](auto& mr) { return work(mr, true); }));
}

TEST_CASE("survives_oom: bug 8, a second free after a refusal") {
    auto const work = [](auto& mr, bool once) {
        void* first = mr.allocate_sync(1_KiB);
        try {
            scoped_block const second{mr, 2_KiB};
        } catch (std::bad_alloc const&) {
            mr.deallocate_sync(first, 1_KiB);
            if (once) { first = nullptr; }
        }
        mr.deallocate_sync(first, 1_KiB);
        return 1;
    };
    doubles::mishaps const quiet;
    auto const             result = result_of([&](auto& mr) { return work(mr, false); });
    CHECK(result.fault == oom_fault::double_free);
    CHECK(result.refused == 2);
    CHECK(result.block_bytes == 1_KiB);
    CHECK(quiet.count() == 0); // the pool did not get the second free
    CHECK(result_of([&](auto& mr) { return work(mr, true); }));
}

TEST_CASE("survives_oom: bug 9, a retry without an end") {
    auto const work = [](auto& mr, int most) {
        void* p = nullptr;
        for (int i = 0; p == nullptr; ++i) {
            if (i == most) { throw std::runtime_error{"no memory after some attempts"}; }
            p = mr.try_allocate_sync(1_KiB);
        }
        mr.deallocate_sync(p, 1_KiB);
        return 1;
    };
    auto const result = result_of([&](auto& mr) { return work(mr, -1); });
    CHECK(result.fault == oom_fault::endless_retry);
    CHECK(result.refused == 1);
    CHECK(result.for_good);
    CHECK(result_of([&](auto& mr) { return work(mr, 3); }));
    CHECK(result_of([&](auto& mr) { return work(mr, -1); }, {.for_good = false}));
}

TEST_CASE("survives_oom: bug 10, a state that was changed before the exception") {
    struct account {
        std::vector<int> items;
    };
    account    wrong, right;
    auto const work = [](account& a, auto& mr, bool first) {
        if (first) { a.items.push_back(1); }
        scoped_block const receipt{mr, 512};
        if (!first) { a.items.push_back(1); }
        scoped_block const copy{mr, 1_KiB};
        a.items.pop_back();
        return a.items.size();
    };
    auto const result = result_of([&](auto& mr) { return work(wrong, mr, true); });
    CHECK(result.fault == oom_fault::damaged);
    CHECK(result.refused == 1);
    CHECK(result_of([&](auto& mr) {
        scoped_block const receipt{mr, 512}, copy{mr, 1_KiB};
        right.items.push_back(1);
        right.items.pop_back();
        return right.items.size();
    }));
}

// --- what else is found, and what is not ---------------------------------------------------------

TEST_CASE("survives_oom: a leak without a refusal, and values that differ, are reported as such") {
    std::vector<void*> lost;
    stack              memory;
    auto const         leak = survives_oom(memory, [&](auto& mr) {
        lost.push_back(mr.allocate_sync(1_KiB));
        return 1;
    });
    CHECK(leak.fault == oom_fault::leak);
    CHECK(leak.refused == 0);
    CHECK(leak.leaked == 1_KiB);
    CHECK(leak.runs == 2);
    for (void* p : lost) { memory.deallocate_sync(p, 1_KiB); }

    int n = 0;
    CHECK(result_of([&](auto&) { return ++n; }).fault == oom_fault::unsteady);
    auto const throws = result_of([&](auto&) {
        if (++n > 3) { throw std::runtime_error{"enough"}; }
        return 1;
    });
    CHECK(throws.fault == oom_fault::unsteady);
    CHECK(throws.cause == "enough");
}

TEST_CASE("survives_oom: an error that is reported after a refusal is a failure") {
    doubles::mishaps const quiet;
    stack                  other;
    auto const             result = result_of([&](auto& mr) {
        try {
            scoped_block const b{mr, 1_KiB};
        } catch (std::bad_alloc const&) {
            void* const p = other.allocate_sync(64);
            other.deallocate_sync(p, 64);
            other.deallocate_sync(p, 64);
        }
        return 1;
    });
    CHECK(result.fault == oom_fault::error_reported);
    CHECK(result.cause.find("double free") != std::string::npos);
}

TEST_CASE("survives_oom: an exception of the next run, and one that is not a std::exception") {
    bool       broken = false;
    auto const result = result_of([&](auto& mr) {
        if (broken) { throw std::runtime_error{"broken"}; }
        try {
            scoped_block const b{mr, 1_KiB};
        } catch (...) {
            broken = true;
            throw 5;
        }
        return 1;
    });
    CHECK(result.fault == oom_fault::damaged);
    CHECK(result.cause == "broken");
}

TEST_CASE("survives_oom: an exception of the first run is that of the call") {
    stack memory;
    CHECK_THROWS_AS(
        (void)survives_oom(memory, [](auto&) -> int { throw std::runtime_error{"at once"}; }),
        std::runtime_error);
    memory.deallocate_sync(memory.allocate_sync(10), 10);
}

TEST_CASE("survives_oom: code that recovers by another way survives") {
    // With a fallback of its own.
    stack reserve;
    CHECK(result_of([&](auto& mr) {
        void* const p = mr.try_allocate_sync(1_KiB);
        void* const q = p != nullptr ? p : reserve.allocate_sync(1_KiB);
        p != nullptr ? mr.deallocate_sync(p, 1_KiB) : reserve.deallocate_sync(q, 1_KiB);
        return 1;
    }));
    // With smaller pieces: the sum is the same.
    auto const split = result_of([](auto& mr) {
        std::size_t  done = 0;
        split_on_oom pieces{{.granule = 1_KiB}};
        pieces(8_KiB, [&](std::size_t, std::size_t n) {
            scoped_block const scratch{mr, n};
            done += n;
        });
        return done;
    });
    CHECK(split);
    CHECK(split.requests == 1);
    // Without a value.
    CHECK(result_of([](auto& mr) { scoped_block const b{mr, 1_KiB}; }));
    // Without a request.
    CHECK(result_of([](auto&) { return 1; }));
}

TEST_CASE("survives_oom: a value may own memory, and the first run may fill a cache") {
    sim_node                           node;
    sim_stream                         s;
    pool<stream_ordered<sim_resource>> memory;
    void*                              cache  = nullptr;
    auto const                         result = survives_oom(memory, [&](auto& mr) {
        if (cache == nullptr) { cache = mr.allocate_sync(4_KiB); }
        buffer out{mr, s, 1_KiB};
        return out.size();
    });
    CHECK(result);
    CHECK(result.requests == 1);
    memory.deallocate_sync(cache, 4_KiB);
}

TEST_CASE("survives_oom: the largest number of refused requests must be at least 2") {
    auto const work = [](auto& mr) { mr.deallocate_sync(mr.allocate_sync(1_KiB), 1_KiB); };
    doubles::contracts_throw const here;
    for (std::uint64_t const most : {0U, 1U}) {
        CHECK_THROWS_AS((void)result_of(work, {.most_refusals = most}), doubles::broken_contract);
        CHECK(result_of(work, {.for_good = false, .most_refusals = most}));
    }
    CHECK(result_of(work, {.most_refusals = 2}));
}

TEST_CASE("survives_oom: one request alone can be refused, and a run may be too long") {
    auto const leaks_second = [](auto& mr) {
        void* const first = mr.allocate_sync(1_KiB);
        mr.deallocate_sync(mr.allocate_sync(2_KiB), 2_KiB);
        mr.deallocate_sync(first, 1_KiB);
    };
    oom_survival const first = result_of(leaks_second, {.only = 1});
    CHECK(first);
    CHECK(first.text() == "Request 1 of 2 was refused; all 6 runs are correct.");
    oom_survival const third = result_of(leaks_second, {.only = 3});
    CHECK(third);
    CHECK(third.text().find("No request was refused") == 0);
    CHECK(result_of(leaks_second, {.only = 2}).fault == oom_fault::leak);
    CHECK(result_of(leaks_second, {.most_requests = 1}).fault == oom_fault::too_many_requests);
}

TEST_CASE("survives_oom: too many requests are reported at once, for the run that makes them") {
    unsigned   calls = 0;
    auto const many  = [&](auto& mr) {
        ++calls;
        for (int i = 0; i != 10; ++i) { mr.deallocate_sync(mr.allocate_sync(1_KiB), 1_KiB); }
    };
    oom_survival const all = result_of(many, {.most_requests = 9});
    CHECK(all.fault == oom_fault::too_many_requests);
    CHECK(all.text() == "Without a refusal, the run has too many requests; set "
                        "survives_oom_options::most_requests.");
    CHECK(all.requests == 10);
    CHECK(calls == 2);
    CHECK(result_of(many, {.most_requests = 10}));

    // After a refusal, the code makes more requests.
    auto const more = [&](auto& mr) {
        std::size_t pieces = 1;
        try {
            mr.deallocate_sync(mr.allocate_sync(2_KiB), 2_KiB);
            return;
        } catch (out_of_memory const&) { pieces = 20; }
        for (; pieces != 0; --pieces) { mr.deallocate_sync(mr.allocate_sync(1_KiB), 1_KiB); }
    };
    oom_survival const after = result_of(more, {.most_requests = 20});
    CHECK(after.fault == oom_fault::too_many_requests);
    CHECK(after.refused == 1);
    CHECK(after.text().find("Request 1 of 1") == 0);
    CHECK(result_of(more, {.most_requests = 21}));
}

TEST_CASE("survives_oom: the layer in the stack is found, also in a handle and under layers") {
    statistics<refusing<stack>> outer;
    auto const                  leaks = [&] {
        void* const first = outer.allocate_sync(1_KiB);
        outer.deallocate_sync(outer.allocate_sync(2_KiB), 2_KiB);
        outer.deallocate_sync(first, 1_KiB);
    };
    auto const result = survives_oom(outer, leaks);
    CHECK(result.fault == oom_fault::leak);
    CHECK(result.refused == 2);
    CHECK(result.block_bytes == 1_KiB);
    CHECK(survives_oom(outer,
                       [&](statistics<refusing<stack>>& mr) { scoped_block const b{mr, 10}; }));

    shared handle{refusing<stack>{}};
    auto   count = survives_oom(handle, [&] { scoped_block const b{handle, 1_KiB}; });
    CHECK(count);
    CHECK(count.requests == 1);
}

TEST_CASE("survives_oom: under a pool, the chunks of the pool are refused") {
    sim_node                                     node;
    sim_stream                                   s;
    pool<refusing<stream_ordered<sim_resource>>> memory;
    auto const                                   work = [&](bool frees) {
        void* const first = memory.allocate(s, 30_MiB);
        try {
            void* const second = memory.allocate(s, 70_MiB);
            memory.deallocate(s, second, 70_MiB);
        } catch (out_of_memory const&) {
            if (frees) { memory.deallocate(s, first, 30_MiB); }
            throw;
        }
        memory.deallocate(s, first, 30_MiB);
        return 1;
    };
    auto const good = survives_oom(memory, [&] { return work(true); });
    CHECK(good);
    CHECK(good.requests >= 2);
    auto const result = survives_oom(memory, [&] { return work(false); });
    CHECK(result.fault == oom_fault::leak);
    CHECK(result.leaked >= 30_MiB);
}

TEST_CASE("survives_oom: vram's own layers survive each refusal") {
    sim_node   node;
    sim_stream s;
    auto const work = [&](auto& mr) {
        limiting                                   budget{resource_ref{mr}, 64_MiB};
        statistics                                 counted{pool{std::move(budget)}};
        std::vector<std::pair<void*, std::size_t>> live;
        struct cleanup {
            decltype(counted)& from;
            decltype(live)&    all;
            sim_stream&        stream;
            ~cleanup() {
                for (auto const& [p, n] : all) { from.deallocate(stream, p, n); }
            }
        } const at_end{counted, live, s};
        for (std::size_t n : {1_KiB, 3_MiB, 20_MiB, 5_KiB}) {
            live.reserve(live.size() + 1);
            live.emplace_back(counted.allocate(s, n), n);
        }
        return counted.overall().bytes.peak;
    };
    stream_ordered<sim_resource> memory;
    auto const                   result = survives_oom(memory, work);
    CHECK_MESSAGE(result, result.text());
    CHECK(result.requests >= 2);
    s.synchronize();
}

} // namespace survives_oom_test
