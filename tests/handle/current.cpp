// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/current.hpp> // first: the header stands alone

#include "../doubles/bombing.hpp"

#include <vram/base/core/gate.hpp>
#include <vram/base/core/worker.hpp>
#include <vram/handle/current_resource_guard.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <atomic>     // atomic
#include <chrono>     // milliseconds
#include <functional> // function
#include <optional>   // optional
#include <thread>     // thread
#include <utility>    // move, exchange
#include <vector>     // vector

using namespace vram;
using namespace vram::detail;

namespace {

template <class Platform>
class synchronous_memory : host_resource {
public:
    using platform   = Platform;
    using properties = property_set<host_accessible>;
    using host_resource::allocate_sync;
    using host_resource::deallocate_sync;

    friend bool operator==(synchronous_memory const&, synchronous_memory const&) = default;
};

/// Runs `at_end` when its last owner is destroyed.
struct ending : host_resource {
    explicit ending(std::function<void()> f) : at_end{std::move(f)} {}
    ending(ending&& other) noexcept : at_end{std::exchange(other.at_end, nullptr)} {}
    ~ending() {
        if (at_end) { at_end(); }
    }
    friend bool operator==(ending const& a, ending const& b) { return &a == &b; }

    std::function<void()> at_end;
};

template <class Platform>
class numbered_memory : public host_resource {
public:
    using platform = Platform;

    explicit numbered_memory(typename Platform::device d) : number{d.number} {
        ++made;
        if constexpr (requires { Platform::on_made(d); }) { Platform::on_made(d); }
    }
    friend bool operator==(numbered_memory const&, numbered_memory const&) = default;

    int                            number;
    static inline std::atomic<int> made = 0;
};

/// Several devices, and a current one for each thread. Different values of `Test` give platforms
/// with separate current resources.
template <int Test>
struct node_platform : host_platform {
    struct device {
        int         number = 0;
        friend bool operator==(device a, device b) {
            if (node_platform::on_compare) { std::exchange(node_platform::on_compare, {})(); }
            return a.number == b.number;
        }
    };
    struct own_stream : host_platform::own_stream {
        explicit own_stream(device = {}) noexcept {}
    };
    struct event : host_platform::event {
        explicit event(device = {}) noexcept {}
    };
    struct device_guard {
        explicit device_guard(device d) noexcept : before{current_number} {
            current_number = d.number;
        }
        ~device_guard() { current_number = before; }
        int before;
    };
    using device_resource = numbered_memory<node_platform>;

    static inline thread_local int                   current_number = 0;
    static inline thread_local std::function<void()> on_compare; ///< for the next comparison

    static device      current_device() noexcept { return {current_number}; }
    static device      device_of(stream) noexcept { return {}; }
    static memory_info memory(device) noexcept { return {}; }
    using host_platform::synchronize;
    static void synchronize(device) noexcept {}
};

/// Its device memory has no streams, and is always that of the current device.
struct plain_platform : node_platform<100> {
    using device_resource = synchronous_memory<plain_platform>;
};

/// It has a resource that is in stream order by itself.
struct async_platform : node_platform<101> {
    using device_resource = synchronous_memory<async_platform>;
    using async_resource  = numbered_memory<async_platform>;
};

/// Creating its memory first requests the device's current resource, as a resource that prefers
/// another one may do.
struct chained_platform : node_platform<102> {
    using device_resource = numbered_memory<chained_platform>;

    static void on_made(device d) {
        if (d.number > 0) { before = current<chained_platform>::get({d.number - 1}); }
    }
    static inline std::optional<current<chained_platform>::ref> before{};
};

/// Creating its memory waits until another thread also creates some.
struct meeting_platform : node_platform<103> {
    using device_resource = numbered_memory<meeting_platform>;

    static void on_made(device) {
        while (device_resource::made < 2) { std::this_thread::yield(); }
    }
};

} // namespace

template class vram::current<host_platform>;
template class vram::current<node_platform<0>>;

TEST_CASE("current: each device has one default resource, of that device") {
    using platform = node_platform<1>;
    using memory   = platform::device_resource;
    CHECK(memory::made == 0);
    auto const first = current<platform>::get({3});
    CHECK(memory::made == 1);
    CHECK(current<platform>::get({3}) == first);
    CHECK(memory::made == 1);
    memory here{{3}}, there{{4}};
    CHECK(first == resource_ref{here});
    CHECK(current_resource<platform>({4}) == resource_ref{there});
    first.deallocate({}, first.allocate({}, 10), 10);
}

TEST_CASE(
    "current: the construction of a default may use another device's, because no lock is held") {
    auto const last = current<chained_platform>::get({3});
    CHECK(chained_platform::device_resource::made == 4);
    CHECK(current<chained_platform>::get({2}) != last);
    CHECK(chained_platform::device_resource::made == 4);
}

TEST_CASE("current: threads that ask concurrently for the first time get one default") {
    using ref = current<meeting_platform>::ref;
    std::optional<ref> seen[2];
    {
        worker const a{0, [&] { seen[0] = current<meeting_platform>::get({1}); }};
        worker const b{1, [&] { seen[1] = current<meeting_platform>::get({1}); }};
    }
    CHECK(meeting_platform::device_resource::made == 2); // one ended again
    CHECK(seen[0].value() == seen[1].value());
    CHECK(seen[0].value() == current<meeting_platform>::get({1}));
}

TEST_CASE("current: without an argument the device is the calling thread's current one") {
    using platform = node_platform<2>;
    platform::device_resource two{{2}};
    CHECK(current<platform>::get() != resource_ref{two});
    platform::device_guard const there{{2}};
    CHECK(current<platform>::get() == resource_ref{two});
    CHECK(current_resource<platform>() == resource_ref{two});
}

TEST_CASE("current: the default of synchronous memory is that memory in stream order") {
    auto const mr = current<plain_platform>::get({1});
    CHECK(mr.usage().has_value()); // the memory has no usage; stream_ordered counts it
    mr.deallocate({}, mr.allocate({}, 100), 100);
}

TEST_CASE("current: a platform's stream-ordered resource is preferred to its synchronous one") {
    async_platform::async_resource three{{3}};
    CHECK(current<async_platform>::get({3}) == resource_ref{three});
}

TEST_CASE("current: set returns the previous resource, and reset restores the default") {
    using platform      = node_platform<3>;
    using any           = current<platform>::resource;
    auto const standard = current<platform>::get({0});
    shared     mine{limiting{numbered_memory<platform>{{7}}, 100}};
    {
        any const before = current<platform>::set({0}, mine);
        CHECK(before == standard);
        CHECK(mine.holders() == 2);
        CHECK(current<platform>::get({0}) == resource_ref{mine});
        CHECK(current<platform>::get({1}) != resource_ref{mine}); // another device
    }
    any const again = current<platform>::reset({0});
    CHECK(again == resource_ref{mine});
    CHECK(mine.holders() == 2); // `again` and `mine`
    CHECK(current<platform>::get({0}) == standard);
    // Requested for the first time.
    CHECK(current<platform>::reset({9}) == current<platform>::get({9}));
}

TEST_CASE("current: if host memory is short, a device is set up at the next call") {
    using platform = node_platform<4>;
    for (std::uint64_t n = 1;; ++n) {
        doubles::bombing armed{n};
        bool             failed = false;
        try {
            (void)current<platform>::get({5});
        } catch (std::bad_alloc const&) { failed = true; }
        bool const hit = armed.defuse();
        CHECK(failed == hit);
        if (!hit) { break; }
        CHECK(n < 100);
    }
    platform::device_resource five{{5}};
    CHECK(current<platform>::get({5}) == resource_ref{five});
}

TEST_CASE("current: a forgotten device starts over") {
    using platform = node_platform<7>;
    using memory   = platform::device_resource;
    memory one{{1}};
    current<platform>::forget({1}); // nothing to forget
    CHECK(current<platform>::get({1}) == resource_ref{one});
    CHECK(memory::made == 2); // `one`, too
    shared mine{limiting{memory{{7}}, 100}};
    current<platform>::set({1}, mine);
    current<platform>::forget({1});
    CHECK(mine.holders() == 1);
    CHECK(current<platform>::get({1}) == resource_ref{one});
    CHECK(memory::made == 4);
    current<platform>::forget({1});
    current<platform>::set({1}, mine);
    CHECK(current<platform>::get({1}) == resource_ref{mine});
    current<platform>::reset({1});
    CHECK(mine.holders() == 1);
    CHECK(current<platform>::get({1}) == resource_ref{one});
}

TEST_CASE("current: setting a moved-from handle restores the default") {
    using platform      = node_platform<8>;
    using any           = current<platform>::resource;
    any        mine     = numbered_memory<platform>{{7}};
    any const  kept     = std::move(mine);
    auto const standard = current<platform>::get({0});
    CHECK(current<platform>::set({0}, kept) == standard);
    CHECK(current<platform>::set({0}, std::move(mine)) == kept);
    CHECK(current<platform>::get({0}) == standard);
    current<platform>::forget({0});
    CHECK(current<platform>::set({0}, kept).holds_resource()); // the default, made anew
}

TEST_CASE("current: a resource may use another device's current resource in its destructor") {
    using platform = host_platform;
    bool ended     = false;
    current<platform>::set({}, shared{ending{[&] {
                               (void)current<platform>::get({}); // made anew, which takes the lock
                               ended = true;
                           }}});
    current<platform>::forget({});
    CHECK(ended);
}

TEST_CASE("current: a simulated device has one as long as its node exists") {
    for (int i = 0; i < 3; ++i) { // nodes that are created one after the other may have one address
        sim_node node{{.on_report = sim_on_report::collect}};
        {
            sim_stream s;
            auto const mr = current_resource<sim_platform>();
            mr.deallocate(s, mr.allocate(s, 1000), 1000);
            s.synchronize();
        }
        current<sim_platform>::forget(sim_device{});
        CHECK(node.figures().used == 0);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("current: a concurrent get and set return one or the other resource") {
    using platform = node_platform<5>;
    using any      = current<platform>::resource;
    using memory   = numbered_memory<platform>;
    any const one{memory{{1}}};
    any const two{limiting{memory{{2}}, 1000}};
    current<platform>::set({0}, one);
    std::atomic<bool>        stop  = false;
    std::atomic<int>         wrong = 0;
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i) {
        readers.emplace_back([&] {
            while (!stop) {
                auto const now = current<platform>::get({0});
                if (!(now == one) && !(now == two)) { ++wrong; }
                now.deallocate({}, now.allocate({}, 8), 8);
            }
        });
    }
    for (int i = 0; i < 2000; ++i) { current<platform>::set({0}, i % 2 == 0 ? two : one); }
    stop = true;
    for (auto& each : readers) { each.join(); }
    CHECK(wrong == 0);
}

TEST_CASE(
    "current: many threads that ask first share one default, and surplus ones are destroyed") {
    using platform = node_platform<6>;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([] {
            for (int d = 0; d < 8; ++d) { (void)current<platform>::get({d}); }
        });
    }
    for (auto& each : threads) { each.join(); }
    int const made = platform::device_resource::made;
    CHECK(made >= 8);
    CHECK(made <= 32);
    for (int d = 0; d < 8; ++d) { (void)current<platform>::get({d}); }
    CHECK(platform::device_resource::made == made); // no thread constructs another one
}

TEST_CASE("current: one thread resets a device while another one forgets it") {
    using platform = node_platform<9>;
    std::atomic<bool> stop{false};
    std::thread       forgetting{[&] {
        while (!stop) { current<platform>::forget({0}); }
    }};
    for (int i = 0; i < 20000; ++i) { (void)current<platform>::reset({0}); }
    stop = true;
    forgetting.join();
    CHECK(current<platform>::get({0}).holds_resource());
    CHECK(current<platform>::reset({0}).holds_resource());
}

TEST_CASE("current: the end of a guard does not undo the `forget` of another thread") {
    using platform = node_platform<10>;
    for (int i = 0; i != 10; ++i) {
        shared            kept{limiting{platform::device_resource{{0}}, 100}};
        std::atomic<bool> locked{false}, ending{false};
        std::thread       forgetting;
        (void)current<platform>::set({0}, kept);
        {
            current_resource_guard<platform> const scope{{0}, platform::device_resource{{0}}};
            forgetting = std::thread{[&] {
                // `reset` compares devices under the mutex, for which the other thread then waits.
                platform::on_compare = [&] {
                    locked = true;
                    while (!ending) { std::this_thread::yield(); }
                    std::this_thread::sleep_for(std::chrono::milliseconds{2});
                };
                (void)current<platform>::reset({0});
                current<platform>::forget({0});
            }};
            while (!locked) { std::this_thread::yield(); }
            platform::on_compare = [&] { ending = true; };
        }
        forgetting.join();
        CHECK(kept.holders() == 1);
    }
}
