// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/observation.hpp> // first: the header stands alone

#include "../../doubles/recorder.hpp" // recorder

#include <vram/layer/fallback.hpp>       // fallback
#include <vram/layer/limiting.hpp>       // limiting
#include <vram/layer/observed.hpp>       // observed
#include <vram/layer/retrying.hpp>       // retrying
#include <vram/layer/stream_ordered.hpp> // stream_ordered
#include <vram/pool/pool.hpp>            // pool
#include <vram/pressure/calling.hpp>     // calling
#include <vram/source/host_resource.hpp> // host_resource

#include <doctest/doctest.h>

#include <functional>  // ref
#include <string>      // string
#include <type_traits> // remove_reference_t
#include <utility>     // exchange
#include <vector>      // vector

using namespace vram;

namespace {

/// The platform of the host, which records the events of all resources.
struct watching_platform : host_platform {
    static inline doubles::recorder<host_platform::stream> log;
    static inline int                                      depth = 0;

    static void     observe(memory_event<stream> const& e) noexcept { log.observe(e); }
    static void     begin_resource_call() noexcept { ++depth; }
    static void     end_resource_call() noexcept { --depth; }
    static unsigned begin_program_call() noexcept {
        return static_cast<unsigned>(std::exchange(depth, 0));
    }
    static void end_program_call(unsigned outer) noexcept { depth = static_cast<int>(outer); }
};
struct watched_host : host_resource {
    using platform = watching_platform;
};
static_assert(observing_platform<watching_platform> && !observing_platform<host_platform>);
static_assert(sizeof(detail::observation<host_resource>) == 1);
static_assert(detail::observation<watched_host>::on && !detail::observation<host_resource>::on);

using kind = memory_event_kind;

/// Skips all events except those of chunks until there was one.
struct choosy_log : doubles::recorder<host_platform::stream> {
    bool skips(kind k) const noexcept { return events.empty() && k != kind::chunk_added; }
};
static_assert(detail::may_skip_events<observed<host_resource, choosy_log>>);
static_assert(!detail::may_skip_events<observed<watched_host, choosy_log>>);
static_assert(!detail::may_skip_events<host_resource>);

/// Skips all events.
struct deaf_log : choosy_log {
    bool skips(kind) const noexcept { return true; }
};

/// Skips all events except those of one kind.
struct log_of_one_kind : doubles::recorder<host_platform::stream> {
    kind wanted = kind::allocated;

    bool skips(kind k) const noexcept { return k != wanted; }
};

} // namespace

TEST_CASE("observation: a pool notifies the platform of chunks, blocks and refused frees") {
    auto& log = watching_platform::log;
    log.clear();
    {
        pool<stream_ordered<watched_host>> memory;
        void* const                        p = memory.allocate({}, 1000);
        CHECK(watching_platform::depth == 0);
        CHECK(log.live("pool") == 1000);
        CHECK(log.live("stream_ordered") == log.chunks("pool"));
        CHECK(log.chunks("stream_ordered") == log.live("stream_ordered"));
        memory.deallocate({}, p, 999);
        CHECK(log.count(kind::free_refused, "pool") == 1);
        memory.deallocate({}, p, 1000);
        CHECK(log.live("pool") == 0);
        CHECK_THROWS_AS((void)memory.allocate({}, unsatisfiable), out_of_memory);
        CHECK(log.count(kind::refused, "pool") == 1);
    }
    CHECK(log.chunks("pool") == 0);
    CHECK(log.chunks("stream_ordered") == 0);
    CHECK(log.wrong == std::vector<std::string>{});
    CHECK(watching_platform::depth == 0);
}

TEST_CASE("observation: a retry policy is code of the program, also within a call of a pool") {
    int  inside = -1;
    pool memory{retrying{limiting{stream_ordered{watched_host{}}, 1000},
                         calling{[&](failed_attempt const&) {
                             inside = watching_platform::depth;
                             return false;
                         }}}};
    CHECK(memory.try_allocate({}, 2000) == nullptr);
    CHECK(inside == 0);
    CHECK(watching_platform::depth == 0);
}

TEST_CASE("observation: an event of `stream_ordered` says that any stream may use the block") {
    auto& log = watching_platform::log;
    log.clear();
    {
        pool<stream_ordered<watched_host>> memory;
        memory.deallocate({}, memory.allocate({}, 1000), 1000);
    }
    for (auto const& e : log.events) {
        if (e.kind == kind::allocated) {
            CHECK(e.any_stream == (std::string{"stream_ordered"} == e.name));
        }
    }
    CHECK(log.count(kind::allocated) == 2);
}

TEST_CASE("observation: an observer that skips events gets the others, in order") {
    choosy_log seen;
    {
        pool memory{observed{stream_ordered{host_resource{}}, std::ref(seen)}};
        CHECK_THROWS_AS((void)memory.allocate({}, unsatisfiable), out_of_memory);
        CHECK(memory.try_allocate_sync(unsatisfiable) == nullptr);
        CHECK(seen.events.empty()); // the refusals were skipped
        void* const p = memory.allocate({}, 1000);
        REQUIRE(seen.events.size() == 2); // the chunk ended the skipping
        CHECK(seen.events[0].kind == kind::chunk_added);
        CHECK(seen.events[1].kind == kind::allocated);
        CHECK(seen.events[1].at.line() != 0);
        void* const q = memory.try_allocate({}, 500);
        void* const r = memory.allocate_sync(400);
        CHECK(seen.live("pool") == 1900);
        CHECK_THROWS_AS((void)memory.allocate({}, unsatisfiable), out_of_memory);
        CHECK(seen.count(kind::refused) == 1);
        memory.deallocate({}, p, 999);
        CHECK(seen.count(kind::free_refused, "pool") == 1);
        memory.deallocate({}, p, 1000);
        memory.deallocate({}, q, 500);
        memory.deallocate_sync(r, 400);
        CHECK(seen.live("pool") == 0);
    }
    CHECK(seen.count(kind::chunk_removed) == 1);
    CHECK(seen.wrong == std::vector<std::string>{});
}

TEST_CASE("observation: an observer gets the events that it does not skip, and no others") {
    auto const events_of = [](kind wanted) {
        log_of_one_kind seen;
        seen.wanted = wanted;
        pool        memory{observed{stream_ordered{host_resource{}}, std::ref(seen)}};
        void* const p = memory.allocate({}, 1000);
        CHECK(memory.try_allocate({}, unsatisfiable) == nullptr);
        CHECK_THROWS_AS((void)memory.allocate_sync(unsatisfiable), out_of_memory);
        memory.deallocate({}, p, 1000);

        // A resource that makes a stream wait, and waits itself.
        auto&                       upstream = memory.upstream();
        host_platform::stream const s{};
        auto const                  wait = [&](void* result) {
            ++detail::waits_made;
            ++detail::host_waits_made;
            return result;
        };
        {
            detail::observation<std::remove_reference_t<decltype(upstream)>> const own{
                upstream, "waiting", &wait};
            CHECK(own.allocate(100, &s, {}, [&] { return wait(&seen); }) == &seen);
            CHECK(own.allocate(100, &s, {}, [&] { return wait(nullptr); }) == nullptr);
            auto const watched = own.watch();
            wait(nullptr);
        }
        for (auto const& e : seen.events) { CHECK(e.kind == wanted); }
        return seen.events.size();
    };
    CHECK(events_of(kind::allocated) == 2);
    CHECK(events_of(kind::refused) == 3);
    CHECK(events_of(kind::stream_waited) == 6);
    CHECK(events_of(kind::freed) == 1);
    CHECK(events_of(kind::marked) == 0);
}

TEST_CASE("observation: a wait is notified by the resource that waits, not by those over it") {
    doubles::recorder<host_platform::stream> seen;
    observed                                 upstream{host_resource{}, std::ref(seen)};
    detail::observation<decltype(upstream)>  outer{upstream, "outer", &seen};
    detail::observation<decltype(upstream)>  inner{upstream, "inner", &upstream};
    host_platform::stream const              s{};
    auto const                               wait = [&] {
        ++detail::waits_made;
        ++detail::host_waits_made;
        return static_cast<void*>(&seen);
    };
    auto const allocate = [&] { return inner.allocate(100, &s, {}, wait); };
    CHECK(outer.allocate(100, &s, {}, allocate) == &seen);
    CHECK(seen.count(kind::stream_waited, "inner") == 2);
    CHECK(seen.count(kind::stream_waited, "outer") == 0);
    CHECK(seen.count(kind::allocated, "outer") == 1);
}

TEST_CASE("observation: an observer of two gets no event that it skips") {
    doubles::recorder<host_platform::stream> all;
    log_of_one_kind                          one, other;
    deaf_log                                 none;
    other.wanted  = kind::freed;
    auto const by = [](auto& to) {
        return observed{stream_ordered{host_resource{}}, std::ref(to)};
    };
    auto const use = [](auto memory) {
        memory.deallocate({}, memory.allocate({}, 1000), 1000);
        CHECK_THROWS_AS((void)memory.allocate({}, unsatisfiable), out_of_memory);
    };
    use(pool{fallback{by(all), fallback{by(one), by(none)}}});
    CHECK(all.count(kind::allocated) == 1);
    CHECK(all.count(kind::freed) == 1);
    CHECK(all.count(kind::refused) == 1);
    CHECK(one.events.size() == 1);
    CHECK(none.events.empty());
    use(pool{fallback{by(one), by(other)}});
    CHECK(one.events.size() == 2);
    CHECK(one.count(kind::allocated) == 2);
    CHECK(other.events.size() == 1);
    CHECK(other.count(kind::freed) == 1);

    using pair = fallback<observed<host_resource, choosy_log>, observed<host_resource, deaf_log>>;
    static_assert(detail::may_skip_events<pair>);
    using half = fallback<observed<host_resource, choosy_log>,
                          observed<host_resource, doubles::recorder<host_platform::stream>>>;
    static_assert(!detail::may_skip_events<half>);
}

TEST_CASE("observation: an observer that skips all events is not called") {
    deaf_log seen;
    {
        pool memory{observed{stream_ordered{host_resource{}}, std::ref(seen)}};
        memory.deallocate({}, memory.allocate({}, 1000), 1000);
        memory.deallocate_sync(memory.try_allocate_sync(1000), 1000);
    }
    CHECK(seen.events.empty());
}
