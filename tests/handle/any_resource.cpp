// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/any_resource.hpp> // first: the header stands alone

#include "../laws/resource.hpp"

#include <vram/layer/fallback.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/segregated.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/device_delta.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/null_resource.hpp>

#include <array>  // array
#include <thread> // thread

using namespace vram;

template class vram::any_resource<host_platform>;
template class vram::any_resource<host_platform, host_accessible>;

namespace {

using full = doubles::archetype<>;
using any  = any_resource<host_platform, host_accessible>;

static_assert(std::copyable<any>);
static_assert(std::is_nothrow_copy_constructible_v<any> &&
              std::is_nothrow_move_constructible_v<any>);
static_assert(std::is_convertible_v<full, any>);
static_assert(!std::is_constructible_v<any, full&>, "a move-only resource is moved in");
static_assert(!std::is_constructible_v<any_resource<host_platform, device_accessible>, full>);
static_assert(std::is_convertible_v<any, any_resource<host_platform>>);
static_assert(!std::is_constructible_v<any, any_resource<host_platform>>);
static_assert(std::is_same_v<any_resource_of<full>, any>);
static_assert(has_property<any, host_accessible> && !has_property<any, device_accessible>);

} // namespace

TEST_CASE("any_resource: it keeps the laws of the resource that it owns") {
    doubles::ledger book;
    {
        any mr = doubles::counting_resource{full{}, book};
        laws::obeyed_by(mr);
    }
    CHECK(book.allocations() != 0);
    CHECK(book.blocks() == 0);
    CHECK(*book.broken() == '\0');
}

TEST_CASE("any_resource: a failed construction loses nothing") {
    doubles::bombing armed{1};
    bool             failed = false;
    try {
        any const mr = full{};
    } catch (std::bad_alloc const&) { failed = true; }
    bool const hit = armed.defuse();
    CHECK(hit);
    CHECK(failed);
}

TEST_CASE("any_resource: copies share one resource, which is destroyed with the last copy") {
    doubles::ledger book;
    {
        std::optional<any> first{limiting{doubles::counting_resource{full{}, book}, 100}};
        any const          second = *first;
        CHECK(second.holders() == 2);
        CHECK(second == *first);
        void* const p = first->allocate({}, 60);
        first.reset();
        CHECK_THROWS_AS((void)second.allocate({}, 60), over_limit);
        second.deallocate({}, p, 60);
        CHECK(second.holders() == 1);
    }
    CHECK(book.blocks() == 0);
}

TEST_CASE("any_resource: made from a `shared`, it is another owner and allocates nothing") {
    shared                      mr{full{}};
    auto const                  before = doubles::host_allocations();
    any                         a      = mr;
    any_resource<host_platform> b      = a;
    any_resource<host_platform> c      = std::move(a);
    auto const                  after  = doubles::host_allocations();
    CHECK(after == before);
    CHECK(mr.holders() == 3);
    CHECK(b == c);
    CHECK(b == resource_ref{mr});
    any const d = std::move(mr);
    CHECK(d.holders() == 3);
}

TEST_CASE("any_resource: made from a reference, it does not own the resource") {
    full      mr;
    any const borrowed = resource_ref{mr};
    CHECK(borrowed.holders() == 0);
    CHECK(borrowed == resource_ref{mr});
    any const copy = borrowed;
    copy.deallocate({}, copy.allocate({}, 10), 10);
    CHECK(mr.usage().allocations == 1);
}

TEST_CASE("any_resource: moves, assignments to itself and swaps keep the count") {
    any       a = full{};
    any       b = host_resource{};
    any const was_a{a}, was_b{b};
    CHECK(a != b);
    std::swap(a, b);
    CHECK(a == was_b);
    CHECK(b == was_a);
    auto& same = a;
    a          = same;
    CHECK(a == was_b);
    CHECK(a.holders() == 2);
    a = std::move(same);
    CHECK(a == was_b);
    CHECK(a.holders() == 2);
    any c = std::move(a);
    CHECK(c.holders() == 2);
    CHECK(a != c); // a holds nothing now
    a = b;
    CHECK(b.holders() == 3);
    c = b;
    CHECK(was_b.holders() == 1);
}

TEST_CASE("any_resource: many threads copy and destroy handles") {
    doubles::ledger book;
    {
        any                        mr = doubles::counting_resource{full{}, book};
        std::array<std::thread, 4> threads;
        for (auto& each : threads) {
            each = std::thread{[mr] {
                for (int i = 0; i < 500; ++i) {
                    any const   mine = mr;
                    void* const p    = mine.allocate({}, 32);
                    any const   more = mine;
                    more.deallocate({}, p, 32);
                }
            }};
        }
        for (auto& each : threads) { each.join(); }
        CHECK(mr.holders() == 1);
    }
    CHECK(book.blocks() == 0);
}

TEST_CASE("any_resource: layers, pools and handles over it name the device of its resource") {
    sim_node const   node{{.devices = 2}};
    sim_device const far{1};
    using device_memory        = any_resource<sim_platform, device_accessible>;
    device_memory const memory = stream_ordered{sim_resource{far}};
    auto const          names  = [&](auto const& over) {
        return over.device() == far && detail::device_of_resource(over) == far;
    };
    CHECK(names(limiting{memory, 1_GiB}));
    CHECK(names(shared{limiting{memory, 1_GiB}}));
    CHECK(names(device_memory{limiting{memory, 1_GiB}}));
    CHECK(names(pool{limiting{memory, 1_GiB}}));
    CHECK(names(monotonic{memory}));
    CHECK(names(arena{memory}));
    CHECK(names(fallback{memory, memory}));
    CHECK(names(fallback{memory, stream_ordered{sim_resource{sim_device{0}}}}));
    CHECK(names(segregated{null_resource<sim_platform>{}, memory, 1_KiB}));

    device_memory const nowhere = null_resource<sim_platform>{};
    CHECK_FALSE(limiting{nowhere, 1_GiB}.device().has_value());
    CHECK(names(fallback{nowhere, memory}));
    CHECK(names(fallback{nowhere, stream_ordered{sim_resource{far}}}));

    // The current device is device 0.
    device_delta used{limiting{memory, 1_GiB}};
    static_assert(std::same_as<decltype(used), device_delta<sim_platform>>);
    device_memory owner = memory;
    void* const   p     = owner.allocate_sync(1_MiB);
    CHECK(used.bytes() >= 1_MiB);
    owner.deallocate_sync(p, 1_MiB);
}
