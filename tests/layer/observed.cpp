// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/observed.hpp> // first: the header stands alone

#include "../doubles/recorder.hpp"
#include "../doubles/small_pages.hpp"
#include "../doubles/streams_at_work.hpp"
#include "../laws/resource.hpp"
#include "../laws/stream_set.hpp"

#include <vram/handle/shared.hpp>
#include <vram/layer/aligned.hpp>
#include <vram/layer/fallback.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/locked.hpp>
#include <vram/layer/retrying.hpp>
#include <vram/layer/segregated.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>
#include <vram/pressure/trim_upstream.hpp>
#include <vram/sim/sim.hpp>

#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace vram;
using kind = memory_event_kind;

namespace {
/// Counts events.
struct event_count {
    std::size_t events = 0;

    template <class Stream>
    void observe(memory_event<Stream> const&) noexcept {
        ++events;
    }
};

/// Stores the bytes that the upstream has not returned when captures are forgotten.
struct forgetting_log : doubles::recorder<sim_stream_view> {
    stream_ordered<sim_resource>* source    = nullptr;
    std::size_t                   forgotten = 0;
    std::size_t                   pending   = 0;

    void forget_captures() noexcept {
        ++forgotten;
        pending = source->usage().pending;
    }
};

/// Asks for one more attempt.
struct one_more_try {
    static constexpr unsigned max_tries = 1;

    template <class R>
    bool operator()(R&, failed_attempt const&) const {
        return true;
    }
};
} // namespace

template class vram::observed<doubles::archetype<>, event_count>;

namespace {

using device_log = doubles::recorder<sim_stream_view>;
using log_ref    = std::reference_wrapper<device_log>;

/// Allocates and frees at random on three streams, with an invalid free now and then. The blocks
/// that are live according to the events are those of the program; `same` compares them with the
/// usage. At the end no event contradicted another, and every chunk was removed.
template <class Make>
void observed_at_random(char const* name, Make const& make, std::size_t largest = 100'000,
                        bool paged = false) {
    CAPTURE(name);
    sim_node node{
        {.capacity = 64_MiB, .page = doubles::small_page, .on_report = sim_on_report::collect}};
    device_log log;
    {
        laws::stream_set<sim_platform> streams{3};
        auto                           mr = make(std::ref(log));
        struct block {
            void*       p;
            std::size_t bytes;
            std::size_t stream;
        };
        std::vector<block> live;
        std::mt19937       random{1};
        std::size_t        bytes = 0;
        auto const         free  = [&](std::size_t i) {
            block const b = live[i];
            live[i]       = live.back();
            live.pop_back();
            bytes -= b.bytes;
            if (random() % 4 == 0) {
                sim_platform::synchronize(streams[b.stream]);
                mr.deallocate_sync(b.p, b.bytes);
            } else {
                mr.deallocate(streams[b.stream], b.p, b.bytes);
            }
        };
        for (int i = 0; i < 600; ++i) {
            if (live.size() < 30 && random() % 5 < 3) {
                std::size_t const n = 1 + random() % largest;
                std::size_t const s = random() % 3;
                void* const       p =
                    random() % 4 == 0 ? mr.allocate_sync(n) : mr.allocate(streams[s], n);
                live.push_back({p, n, s});
                bytes += n;
            } else if (!live.empty()) {
                free(random() % live.size());
            }
            if (i % 97 == 0) { mr.trim(); }
            if (i % 20 == 0) {
                CHECK(log.live(name) == bytes);
                CHECK(mr.usage().requested == bytes);
                CHECK((paged ? log.mapped(name) : log.chunks(name)) == mr.usage().reserved);
            }
        }
        while (!live.empty()) { free(live.size() - 1); }
        CHECK(log.live(name) == 0);
        streams.synchronize();
        streams.retire_from(mr);
    }
    CHECK(log.chunks("") == 0);
    CHECK(log.wrong == std::vector<std::string>{});
    CHECK(log.count(kind::allocated) > 250);
    CHECK(node.reports().empty());
}

auto seen_by(log_ref to) { return observed{stream_ordered{sim_resource{}}, to}; }

} // namespace

TEST_CASE("observed: it keeps the laws of a resource") {
    laws::resource([](auto up) { return observed{std::move(up), event_count{}}; });
}

TEST_CASE("observed: every pool notifies of its blocks and chunks") {
    observed_at_random("pool", [](log_ref to) { return pool{seen_by(to)}; });
    observed_at_random("pool", [](log_ref to) {
        return pool{seen_by(to), {.events = event_policy::eager, .graphs = true}};
    });
    observed_at_random("slab", [](log_ref to) { return slab{seen_by(to), 64_KiB}; }, 64_KiB);
    observed_at_random("binned",
                       [](log_ref to) { return binned{seen_by(to), {.largest = 32_KiB}}; });
    observed_at_random("monotonic", [](log_ref to) { return monotonic{seen_by(to)}; });
    observed_at_random("arena", [](log_ref to) { return arena{seen_by(to)}; });
    observed_at_random("arena",
                       [](log_ref to) { return arena{seen_by(to), {.key = arena_key::stream}}; });
    observed_at_random("stream_ordered",
                       [](log_ref to) { return stream_ordered{observed{sim_resource{}, to}}; });
}

TEST_CASE("observed: a pool notifies of the pages of virtual memory") {
    auto const pages = [](log_ref to) {
        return observed{
            sim_virtual_resource{{.reserve = 1 << 28, .handle_size = doubles::small_page}}, to};
    };
    observed_at_random("pool", [&](log_ref to) { return pool{pages(to)}; }, 500'000, true);
    observed_at_random(
        "pool", [&](log_ref to) { return pool{pages(to), {.remap = true}}; }, 500'000, true);
    observed_at_random(
        "pool", [&](log_ref to) { return pool{pages(to), {.slack = 0}}; }, 500'000, true);
}

TEST_CASE("observed: every layer passes its observer on") {
    observed_at_random("pool", [](log_ref to) { return pool{limiting{seen_by(to), 40_MiB}}; });
    observed_at_random("pool", [](log_ref to) { return pool{statistics{seen_by(to)}}; });
    observed_at_random("pool", [](log_ref to) { return pool{aligned{seen_by(to), 4_KiB}}; });
    observed_at_random("pool", [](log_ref to) { return pool{locked{seen_by(to)}}; });
    observed_at_random("pool",
                       [](log_ref to) { return pool{retrying{seen_by(to), trim_upstream{}}}; });
    observed_at_random("pool", [](log_ref to) { return pool{fallback{seen_by(to), seen_by(to)}}; });
    observed_at_random("pool", [](log_ref to) {
        return pool{segregated{seen_by(to), stream_ordered{sim_resource{}}, 2_MiB}};
    });
    observed_at_random("pool", [](log_ref to) { return pool{shared{seen_by(to)}}; });
    observed_at_random("pool",
                       [](log_ref to) { return locked{limiting{pool{seen_by(to)}, 1_GiB}}; });
}

TEST_CASE("observed: resources over resources notify in order") {
    observed_at_random("arena", [](log_ref to) { return arena{pool{seen_by(to)}}; });
    observed_at_random("binned", [](log_ref to) { return binned{pool{seen_by(to)}}; });
    observed_at_random("monotonic", [](log_ref to) { return monotonic{pool{seen_by(to)}}; });
    observed_at_random("stream_ordered", [](log_ref to) {
        return stream_ordered{pool{observed{sim_resource{}, to}}};
    });
    observed_at_random("slab", [](log_ref to) {
        return slab{pool{stream_ordered{observed{sim_resource{}, to}}}, 100'000};
    });
}

TEST_CASE("observed: the events of a block name the call, the stream and the line") {
    sim_node const node;
    device_log     log;
    sim_stream     s;
    {
        pool       mr{seen_by(std::ref(log))};
        auto const line = static_cast<unsigned>(__LINE__) + 1;
        void*      p    = mr.allocate(s, 1000);
        mr.deallocate_sync(p, 1000);
        REQUIRE(log.events.size() == 3);
        CHECK(log.events[0].kind == kind::chunk_added);
        CHECK(log.events[1].kind == kind::allocated);
        CHECK(log.events[1].memory == p);
        CHECK(log.events[1].bytes == 1000);
        CHECK(log.events[1].stream == s.view());
        CHECK(log.events[1].at.line() == line);
        CHECK(log.events[2].kind == kind::freed);
        CHECK(!log.events[2].stream.has_value());
        CHECK(log.events[2].at.line() == line + 1);
        mr.upstream().mark("step 2");
        CHECK(log.events.back().kind == kind::marked);
        CHECK(std::string{log.events.back().name} == "step 2");
        CHECK(log.events.back().at.line() == line + 12);
    }
    CHECK(log.events.back().kind == kind::chunk_removed);
}

TEST_CASE("observed: a refused free is undone, also if another thread's shard refuses it later") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    device_log log;
    sim_stream s;
    {
        arena mr{seen_by(std::ref(log)), {.count = 4}};
        void* p = mr.allocate(s, 1000);
        mr.deallocate(s, p, 999);
        CHECK(log.count(kind::free_refused) == 1);
        std::thread{[&] {
            mr.deallocate(s, p, 1000);
            mr.deallocate(s, p, 1000);
            mr.deallocate(s, &mr, 1000);
        }}.join();
        (void)mr.usage(); // drains the queue
        CHECK(log.count(kind::freed) == 4);
        CHECK(log.count(kind::free_refused) == 3);
        CHECK(log.live("arena") == 0);
    }
    CHECK(log.wrong == std::vector<std::string>{});
}

TEST_CASE("observed: an observer hears of forgotten captures before their memory is returned") {
    sim_node const node;
    sim_stream     s;
    forgetting_log seen;
    binned memory{observed{stream_ordered{sim_resource{}}, std::ref(seen)}, {.largest = 512}};
    seen.source = &memory.upstream().upstream();
    sim_graph::begin(s);
    memory.deallocate(s, memory.allocate(s, 1000), 1000);
    sim_graph const graph = sim_graph::end(s);
    memory.forget_captures();
    CHECK(seen.forgotten == 1);
    CHECK(seen.pending >= 1000);
    CHECK(seen.source->usage().pending == 0);
}

TEST_CASE("observed: marks of a monotonic free blocks together") {
    sim_node const node;
    device_log     log;
    sim_stream     s;
    monotonic      mr{seen_by(std::ref(log)), {.initial_size = 1_MiB}};
    (void)mr.allocate(s, 1000);
    auto const here = mr.mark();
    (void)mr.allocate(s, 500);
    void* const p = mr.allocate(s, 200);
    mr.deallocate(s, p, 200);
    CHECK(log.live("monotonic") == 1500);
    mr.unwind(here, s);
    CHECK(log.live("monotonic") == 1000);
    (void)mr.allocate(s, 700);
    mr.reset(s);
    CHECK(log.live("monotonic") == 0);
    CHECK(log.count(kind::all_freed) == 2);
    CHECK(log.wrong == std::vector<std::string>{});
}

TEST_CASE("observed: waits, completed frees, refusals and retries are notified") {
    sim_node   node{{.capacity = 1_MiB}};
    device_log log;
    sim_stream a;
    sim_stream b;
    {
        retrying mr{pool{seen_by(std::ref(log))}, trim_upstream{}};
        void*    p = mr.allocate(a, 1_MiB);
        CHECK_THROWS_AS((void)mr.allocate(b, 1_MiB), out_of_memory);
        CHECK(log.count(kind::refused, "pool") >= 1);
        doubles::keep_busy(a);
        mr.deallocate(a, p, 1_MiB);
        p = mr.allocate(b, 1_MiB);
        CHECK(log.count(kind::stream_waited, "pool") == 1);
        CHECK(log.events[log.events.size() - 2].kind == kind::stream_waited);
        CHECK(log.events.back().kind == kind::allocated);
        mr.deallocate(b, p, 1_MiB);
    }
    {
        stream_ordered mr{observed{sim_resource{}, std::ref(log)}};
        mr.deallocate(a, mr.allocate(a, 100), 100);
        a.synchronize();
        mr.trim();
        CHECK(log.count(kind::free_completed) == 1);
    }
    CHECK(log.wrong == std::vector<std::string>{});
}

TEST_CASE("observed: a policy that frees memory is followed by the event retried") {
    sim_node const node{{.capacity = 2_MiB}};
    device_log     log;
    sim_stream     s;
    retrying       mr{seen_by(std::ref(log)), one_more_try{}};
    CHECK(mr.try_allocate(s, 3_MiB) == nullptr);
    CHECK(log.count(kind::retried, "retrying") == 1);
    CHECK(log.events.back().bytes == 3_MiB);
}

TEST_CASE("observed: two observers of a pair are notified both, one of both once") {
    sim_node const node;
    device_log     one;
    device_log     two;
    sim_stream     s;
    {
        pool mr{fallback{seen_by(std::ref(one)), seen_by(std::ref(two))}};
        mr.deallocate(s, mr.allocate(s, 100), 100);
    }
    CHECK(one.count(kind::allocated) == 1);
    CHECK(two.count(kind::allocated) == 1);
    {
        pool mr{fallback{seen_by(std::ref(one)), seen_by(std::ref(one))}};
        mr.deallocate(s, mr.allocate(s, 100), 100);
    }
    CHECK(one.count(kind::allocated) == 2);
    CHECK(one.wrong == std::vector<std::string>{});
}

TEST_CASE("observed: an observer of nested pairs is notified once, at any place") {
    sim_node const node;
    device_log     log;
    device_log     other;
    sim_stream     s;
    auto const     one = [&] { return seen_by(std::ref(log)); };
    auto const     two = [&] { return seen_by(std::ref(other)); };
    auto const     use = [&](auto mr) {
        mr.deallocate(s, mr.allocate(s, 100), 100);
        mr.deallocate(s, mr.allocate(s, 4_MiB), 4_MiB);
    };
    auto const once = [&](std::size_t of_log, std::size_t of_other) {
        CHECK(log.count(kind::allocated) == 2 * of_log);
        CHECK(other.count(kind::allocated) == 2 * of_other);
        CHECK(log.wrong == std::vector<std::string>{});
        CHECK(other.wrong == std::vector<std::string>{});
        log.clear();
        other.clear();
    };
    use(pool{fallback{fallback{one(), one()}, one()}});
    once(1, 0);
    use(pool{fallback{one(), fallback{one(), one()}}});
    once(1, 0);
    use(pool{fallback{fallback{one(), two()}, one()}});
    once(1, 1);
    use(pool{segregated{fallback{one(), two()}, segregated{two(), one(), 1_KiB}, 1_KiB}});
    once(1, 1);
    use(pool{fallback{fallback{two(), one()}, fallback{fallback{one(), one()}, one()}}});
    once(1, 1);
    use(arena{segregated{one(), segregated{one(), one(), 1_MiB}, 1_KiB}});
    once(1, 0);
    use(binned{fallback{fallback{pool{one()}, pool{one()}}, pool{one()}}});
    CHECK(log.count(kind::allocated, "binned") == 2);
    CHECK(log.count(kind::allocated, "pool") == 2); // a chunk and a large block
    CHECK(log.wrong == std::vector<std::string>{});
}

TEST_CASE("observed: threads that allocate at the same time notify in order") {
    sim_node   node{{.on_report = sim_on_report::collect}};
    device_log log;
    {
        arena                    mr{seen_by(std::ref(log)), {.count = 2}};
        std::vector<std::thread> threads;
        for (unsigned t = 0; t != 4; ++t) {
            threads.emplace_back([&, t] {
                sim_stream         s;
                std::minstd_rand   random{t + 1};
                std::vector<void*> live;
                for (int i = 0; i != 200; ++i) {
                    if (live.size() < 10) { live.push_back(mr.allocate(s, 5000)); }
                    if (random() % 2 == 0) {
                        mr.deallocate(s, live.back(), 5000);
                        live.pop_back();
                    }
                }
                for (void* p : live) { mr.deallocate(s, p, 5000); }
                s.synchronize();
            });
        }
        for (auto& each : threads) { each.join(); }
        CHECK(log.live("arena") == 0);
    }
    CHECK(log.wrong == std::vector<std::string>{});
}
