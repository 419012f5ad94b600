// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The laws of resources: properties that every resource must have.
///
///     // over the archetype, over another source, without an upstream, on an existing object
///     laws::resource([](auto up) { return limiting{std::move(up), 64_KiB}; });
///     laws::resource<sim_resource>([](auto up) { return stream_ordered{std::move(up)}; },
///                                  {.largest_alignment = 2_MiB});
///     laws::source([] { return host_resource{}; });
///     laws::obeyed_by(memory);
///     laws::resource_of_many_threads([](auto up) { return locked{std::move(up)}; });
///
/// Memory is accessed only through the platform, so the laws also apply to memory that the host
/// cannot access.

#include "../doubles/archetype.hpp"         // archetype
#include "../doubles/counting_resource.hpp" // counting_resource
#include "../doubles/ledger.hpp"            // ledger
#include "../doubles/mishaps.hpp"           // mishaps
#include "model_heap.hpp"                   // model_heap
#include "options.hpp"                      // options
#include "stream_set.hpp"                   // stream_set
#include "survives_every_failure.hpp"       // survives_every_failure

#include <vram/base/core/worker.hpp> // host_platform's thread

#include <doctest/doctest.h>

#include <concepts> // move_constructible
#include <cstddef>  // size_t, byte
#include <utility>  // move
#include <vector>   // vector

namespace laws {

/// An allocation of zero bytes is `nullptr`, and freeing `nullptr` does nothing.
template <class R>
void zero_bytes_are_nothing(R& mr) {
    for (std::size_t const alignment : {1_B, 256_B, 4_KiB}) {
        CHECK(mr.allocate_sync(0, alignment) == nullptr);
        mr.deallocate_sync(nullptr, 0, alignment);
        if constexpr (vram::fallible_resource<R>) {
            CHECK(mr.try_allocate_sync(0, alignment) == nullptr);
        }
        if constexpr (vram::resource<R>) {
            CHECK(mr.allocate({}, 0, alignment) == nullptr);
            mr.deallocate({}, nullptr, 0, alignment);
            if constexpr (vram::fallible_resource<R>) {
                CHECK(mr.try_allocate({}, 0, alignment) == nullptr);
            }
        }
    }
}

/// Every power of two is a valid alignment, and the default is `default_alignment`.
template <class R>
void alignment_is_honoured(R& mr, options const& o) {
    for (std::size_t alignment = 1; alignment <= o.largest_alignment; alignment *= 2) {
        for (std::size_t const bytes : {std::size_t{1}, std::size_t{7}, alignment, alignment + 1}) {
            if (bytes > o.room) { continue; }
            void* const p = mr.allocate_sync(bytes, alignment);
            CHECK(p != nullptr);
            CHECK(vram::is_aligned(p, alignment));
            mr.deallocate_sync(p, bytes, alignment);
            if constexpr (vram::resource<R>) {
                void* const q = mr.allocate({}, bytes, alignment);
                CHECK(vram::is_aligned(q, alignment));
                mr.deallocate({}, q, bytes, alignment);
            }
        }
    }
    void* const p = mr.allocate_sync(5);
    CHECK(vram::is_aligned(p, vram::default_alignment));
    mr.deallocate_sync(p, 5);
}

/// A size that overflows when rounded throws `out_of_memory`, and never gives a small block. A
/// refusal loses no memory.
template <class R>
void impossible_sizes_are_refused(R& mr, options const& o) {
    void* const before = mr.allocate_sync(64);
    for (std::size_t const bytes :
         {vram::unsatisfiable, vram::unsatisfiable - 1, vram::unsatisfiable - 255}) {
        for (std::size_t const alignment : {1_B, 256_B, 4_KiB}) {
            if (o.overflow_throws) {
                CHECK_THROWS_AS((void)mr.allocate_sync(bytes, alignment), vram::out_of_memory);
            }
            if constexpr (vram::fallible_resource<R>) {
                CHECK(mr.try_allocate_sync(bytes, alignment) == nullptr);
            }
            if constexpr (vram::resource<R>) {
                if (o.overflow_throws) {
                    CHECK_THROWS_AS((void)mr.allocate({}, bytes, alignment), vram::out_of_memory);
                }
                if constexpr (vram::fallible_resource<R>) {
                    CHECK(mr.try_allocate({}, bytes, alignment) == nullptr);
                }
            }
        }
    }
    if constexpr (vram::measured_resource<R>) { CHECK(mr.usage().live < 1_MiB + o.room); }
    mr.deallocate_sync(before, 64);
    mr.deallocate_sync(mr.allocate_sync(64), 64); // it still allocates
}

/// The host can access host-accessible memory. The platform can fill and copy all memory.
template <class R>
void memory_is_usable(R& mr, options const& o) {
    using platform = typename R::platform;
    if (!o.touch) { return; }
    std::vector<std::byte> const pattern(1000, std::byte{0x5a});
    std::vector<std::byte>       back(1000);
    stream_set<platform>         streams{1};

    void* const p = mr.allocate_sync(1000);
    platform::copy(streams[0], p, pattern.data(), 1000);
    platform::copy(streams[0], back.data(), p, 1000);
    platform::synchronize(streams[0]);
    CHECK(back == pattern);
    if constexpr (vram::has_property<R, vram::host_accessible>) {
        auto* const bytes = static_cast<std::byte*>(p);
        for (std::size_t i = 0; i < 1000; ++i) { bytes[i] = std::byte{0x33}; }
        CHECK(bytes[999] == std::byte{0x33});
    }
    mr.deallocate_sync(p, 1000);
    streams.retire_from(mr);
}

/// A block may be allocated with one pair of functions and freed with the other.
template <class R>
void pairs_mix(R& mr) {
    using platform = typename R::platform;
    if constexpr (vram::resource<R>) {
        stream_set<platform> streams{2};
        void*                p = mr.allocate(streams[0], 300);
        platform::synchronize(streams[0]);
        mr.deallocate_sync(p, 300);
        p = mr.allocate_sync(300);
        mr.deallocate(streams[1], p, 300);
        p = mr.allocate(streams[0], 300);
        streams.order(streams[0], streams[1]);
        mr.deallocate(streams[1], p, 300);
        streams.synchronize();
        streams.retire_from(mr);
    }
}

/// `owns` returns true for the resource's own memory only.
template <class R>
void ownership_is_known(R& mr) {
    if constexpr (vram::owning_resource<R>) {
        int const   mine = 0;
        void* const p    = mr.allocate_sync(500);
        CHECK(mr.owns(p));
        CHECK(mr.owns(static_cast<std::byte const*>(p) + 499));
        CHECK_FALSE(mr.owns(&mine));
        CHECK_FALSE(mr.owns(nullptr));
        mr.deallocate_sync(p, 500);
    }
}

/// A trim frees no live block, and an unused stream may be retired.
template <class R>
void powers_at_rest(R& mr) {
    void* const p = mr.allocate_sync(100);
    if constexpr (vram::trimmable_resource<R>) {
        mr.trim(0);
        if constexpr (vram::measured_resource<R>) {
            auto const before = mr.usage().reserved;
            mr.trim(vram::unsatisfiable);
            CHECK(mr.usage().reserved == before); // the resource may keep everything
            mr.trim(0);
            CHECK(mr.usage().reserved <= before);
        }
    }
    stream_set<typename R::platform>{1}.retire_from(mr);
    mr.deallocate_sync(p, 100);
}

/// Checks all laws on an existing object: a handle, a shared stack, or a resource without an
/// upstream.
template <class R>
void obeyed_by(R& mr, options const& o = {}) {
    static_assert(vram::synchronous_resource<R>);
    doubles::mishaps const told;
    zero_bytes_are_nothing(mr);
    alignment_is_honoured(mr, o);
    impossible_sizes_are_refused(mr, o);
    memory_is_usable(mr, o);
    pairs_mix(mr);
    ownership_is_known(mr);
    powers_at_rest(mr);
    model_heap<R>{mr, o}.run();
    CHECK(mr == mr);
    CHECK(told.count() == 0);
}

/// Blocks stay valid if their resource is moved.
template <class R, class Remake>
void moves_while_unshared(Remake remake) {
    if constexpr (std::move_constructible<R>) {
        R           first  = remake();
        void* const p      = first.allocate_sync(200);
        R           second = std::move(first);
        void* const q      = second.allocate_sync(100);
        CHECK(p != q);
        second.deallocate_sync(p, 200);
        R third = std::move(second);
        third.deallocate_sync(q, 100);
    }
}

/// Equal resources can free each other's blocks.
template <class R>
void equals_share_memory(R& a, R& b) {
    CHECK(a == a);
    CHECK((a == b) == (b == a));
    CHECK((a != b) == !(a == b));
    if (a == b) {
        b.deallocate_sync(a.allocate_sync(70), 70);
        a.deallocate_sync(b.allocate_sync(70), 70);
    }
}

/// Checks a resource without an upstream, which `make()` returns.
template <class Make>
void source(Make make, options const& o = {}) {
    using made = decltype(make());
    doubles::mishaps const told;
    made                   mr = make();
    obeyed_by(mr, o);
    moves_while_unshared<made>(make);
    made other = make();
    equals_share_memory(mr, other);
    CHECK(told.count() == 0);
}

/// Checks a layer or a pool: `make(upstream)` returns it over an upstream that records its blocks.
/// At the end every block must be freed with its size and alignment. `more...` are arguments of the
/// upstream.
template <vram::synchronous_resource Upstream = doubles::archetype<>, class Make, class... More>
void resource(Make make, options const& o = {}, More const&... more) {
    using counted = doubles::counting_resource<Upstream>;
    using made    = decltype(make(std::declval<counted>()));
    static_assert(vram::powers<made>::template include<counted>,
                  "a layer never takes a power away");

    doubles::mishaps const told;
    doubles::ledger        book;
    doubles::ledger        other_book;
    auto const             remake = [&] { return make(counted{Upstream(more...), book}); };
    {
        made mr = remake();
        obeyed_by(mr, o);
        made other = make(counted{Upstream(more...), other_book});
        equals_share_memory(mr, other);
    }
    CHECK(book.blocks() == 0);
    moves_while_unshared<made>(remake);
    CHECK(book.allocations() != 0);
    CHECK(book.blocks() == 0);
    CHECK(other_book.blocks() == 0);
    CHECK_MESSAGE(*book.broken() == '\0', book.broken());
    CHECK(told.count() == 0);
}

/// Checks the laws from several concurrent threads, each with its own streams, for resources that
/// are thread-safe.
template <vram::synchronous_resource Upstream = doubles::archetype<>, class Make, class... More>
void resource_of_many_threads(Make make, options const& o = {}, More const&... more) {
    using counted  = doubles::counting_resource<Upstream>;
    using made     = decltype(make(std::declval<counted>()));
    using platform = typename made::platform;

    doubles::mishaps const told;
    doubles::ledger        book;
    {
        made                                   mr = make(counted{Upstream(more...), book});
        std::vector<typename platform::thread> threads;
        for (unsigned i = 0; i < 4; ++i) {
            threads.emplace_back(platform::current_device(), [&mr, o, i] {
                options mine = o;
                mine.seed    = o.seed + i;
                mine.room    = o.room / 4;
                model_heap<made>{mr, mine, false}.run();
            });
        }
    }
    CHECK(book.blocks() == 0);
    CHECK_MESSAGE(*book.broken() == '\0', book.broken());
    CHECK(told.count() == 0);
}

} // namespace laws
