// SPDX-License-Identifier: Apache-2.0
// The cost of each call of a device for the thread that makes it, and the times of short work on
// the device: the measurements behind the profiles of the simulated device (`sim_options::h200`).

#include "support/feeding.hpp"
#include "support/options.hpp"
#include "support/results.hpp"

#include <output_file.hpp>

#include <vram/concepts/completion_flags.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <mutex>
#include <utility>

using namespace bench;
using namespace vram::literals;

namespace {

/// Types without a common name on the platforms.
template <class Platform>
struct parts;
template <>
struct parts<vram::sim_platform> {
    using pages = vram::detail::sim_virtual_memory;
    static vram::sim_async_resource pool() {
        return vram::sim_async_resource{vram::sim_device::current(),
                                        {.release_threshold = vram::unsatisfiable}};
    }
};
#ifdef VRAM_BENCH_NVCC
template <>
struct parts<vram::cuda_platform> {
    using pages = vram::detail::cuda_virtual_memory;
    static vram::cuda_async_resource pool() { return vram::cuda_async_resource{}; }
};
#endif

std::string size_name(std::size_t n) {
    for (auto const& [unit, word] : {std::pair{1_GiB, "GiB"}, {1_MiB, "MiB"}, {1_KiB, "KiB"}}) {
        if (n % unit == 0) { return fmt::format("{}{}", n / unit, word); }
    }
    return fmt::format("{}B", n);
}

template <class Machine>
class costs {
    using P      = typename Machine::platform;
    using stream = typename P::own_stream;
    using event  = typename P::event;

public:
    costs(Machine& machine, results& to, bool quick) : m_{machine}, r_{to}, quick_{quick} {}

    void allocations() {
        for (std::size_t const n :
             {512_B, 64_KiB, 1_MiB, 2_MiB, 4_MiB, 8_MiB, 32_MiB, 128_MiB, 512_MiB, 2048_MiB}) {
            typename P::device_resource memory{};
            held(
                "allocate", "free", n, count(4_GiB / n, 2, 256), 5,
                [&] { return memory.allocate_sync(n); },
                [&](void* p) { memory.deallocate_sync(p, n); });
            held(
                "allocate_alone", "free_alone", n, 1, quick_ ? 1 : 20,
                [&] { return memory.allocate_sync(n); },
                [&](void* p) { memory.deallocate_sync(p, n); });
        }
    }
    void pools() {
        for (std::size_t const n :
             {512_B, 64_KiB, 1_MiB, 4_MiB, 32_MiB, 128_MiB, 512_MiB, 2048_MiB}) {
            for (int turn = 0; turn < 3; ++turn) {
                auto         memory = parts<P>::pool();
                stream const s{P::current_device()};
                for (char const* const name : {"allocate_async_cold", "allocate_async"}) {
                    held(
                        name, "free_async", n, count(4_GiB / n, 2, 256), 1,
                        [&] { return memory.allocate(s.view(), n); },
                        [&](void* p) { memory.deallocate(s.view(), p, n); });
                    P::synchronize(s.view());
                }
                held(
                    "allocate_async_alone", "free_async_alone", n, 1, 20,
                    [&] { return memory.allocate(s.view(), n); },
                    [&](void* p) { memory.deallocate(s.view(), p, n); });
                std::uint64_t const since = m_.now();
                (void)memory.trim();
                add("trim_async", size_name(n), since, 1);
            }
        }
    }
    void pinning() {
        for (std::size_t const n : {4_KiB, 64_KiB, 1_MiB, 16_MiB, 64_MiB, 256_MiB, 1_GiB}) {
            typename P::pinned_resource memory{};
            held(
                "pin", "unpin", n, count(256_MiB / n, 1, 32), 3,
                [&] { return memory.allocate_sync(n); },
                [&](void* p) { memory.deallocate_sync(p, n); });
        }
    }
    void mappings() {
        typename parts<P>::pages pages{};
        using handle = typename parts<P>::pages::handle;
        for (std::size_t const n : {2_MiB, 4_MiB, 20_MiB, 64_MiB, 512_MiB, 2048_MiB}) {
            std::size_t const   many = count(4_GiB / n, 2, 128);
            std::vector<handle> made(many);
            std::byte*          p    = nullptr;
            auto const          each = [&](char const* name, auto call) {
                timed(name, size_name(n), many, [&](std::size_t i) { call(i); });
            };
            for (int turn = 0; turn < (quick_ ? 1 : 5); ++turn) {
                timed("reserve", size_name(n * many), 1, [&](std::size_t) {
                    p = static_cast<std::byte*>(pages.reserve(n * many, 2_MiB));
                });
                each("create", [&](std::size_t i) { made[i] = pages.create(n); });
                each("map", [&](std::size_t i) { pages.map(p + i * n, made[i], n); });
                each("set_access", [&](std::size_t i) { pages.set_access(p + i * n, n); });
                each("unmap", [&](std::size_t i) { pages.unmap(p + i * n, n); });
                each("map_again", [&](std::size_t i) { pages.map(p + i * n, made[i], n); });
                timed(
                    "set_access_all", size_name(n), 1,
                    [&](std::size_t) { pages.set_access(p, n * many); }, many);
                timed(
                    "unmap_all", size_name(n), 1, [&](std::size_t) { pages.unmap(p, n * many); },
                    many);
                each("destroy", [&](std::size_t i) { pages.destroy(made[i], n); });
                timed("release", size_name(n * many), 1,
                      [&](std::size_t) { pages.release(p, n * many); });
            }
        }
    }
    void calls() {
        auto const          here = P::current_device();
        stream const        s{here}, t{here};
        std::vector<stream> streams;
        std::vector<event>  events;
        for (int turn = 0; turn < 5; ++turn) {
            streams.reserve(32);
            events.reserve(256);
            timed("create_stream", "each", 32, [&](std::size_t) { streams.emplace_back(here); });
            timed("create_event", "each", 256, [&](std::size_t) { events.emplace_back(here); });
            timed("record", "each", 256, [&](std::size_t i) { P::record(events[i], s.view()); });
            P::synchronize(s.view());
            timed("query", "complete", 256, [&](std::size_t i) { (void)P::done(events[i]); });
            timed("wait", "complete", 256, [&](std::size_t i) { P::wait(t.view(), events[i]); });
            timed("synchronize", "event", 256, [&](std::size_t i) { P::synchronize(events[i]); });
            timed("synchronize", "stream", 256, [&](std::size_t) { P::synchronize(s.view()); });
            timed("synchronize", "device", 64, [&](std::size_t) { P::synchronize(here); });
            m_.kernel(s.view(), nullptr, 0, 4'000'000);
            timed("record", "pending", 64, [&](std::size_t i) { P::record(events[i], s.view()); });
            timed("query", "pending", 64, [&](std::size_t i) { (void)P::done(events[i]); });
            timed("wait", "pending", 64, [&](std::size_t i) { P::wait(t.view(), events[i]); });
            P::synchronize(here);
            timed("destroy_event", "each", 1, [&](std::size_t) { events.clear(); }, 256);
            timed("destroy_stream", "each", 1, [&](std::size_t) { streams.clear(); }, 32);
        }
    }
    void launches() {
        auto const         here = P::current_device();
        stream const       s{here}, t{here};
        std::vector<event> events;
        for (int i = 0; i < 256; ++i) { events.emplace_back(here); }
        auto const kernel = [&](stream const& on, std::uint64_t ns) {
            m_.kernel(on.view(), nullptr, 0, ns);
        };
        for (int turn = 0; turn < 5; ++turn) {
            kernel(s, 4'000'000);
            timed("launch", "each", 256, [&](std::size_t) { kernel(s, 1000); });
            P::synchronize(s.view());
            kernel(s, 4'000'000);
            timed("call", "each", 64,
                  [&](std::size_t) { P::call(s.view(), [](void*) {}, nullptr); });
            P::synchronize(s.view());
            timed("call", "alone", 32, [&](std::size_t) {
                P::call(s.view(), [](void*) {}, nullptr);
                P::synchronize(s.view());
            });
            for (std::uint64_t const ns : {0, 2000, 20'000, 200'000}) {
                std::string const length = fmt::format("{}us", ns / 1000);
                timed("kernel_alone", length, 32, [&](std::size_t) {
                    kernel(s, ns);
                    P::synchronize(s.view());
                });
                whole("kernel_chain", length, 256, here, [&](std::size_t) { kernel(s, ns); });
                whole("kernel_record", length, 256, here, [&](std::size_t i) {
                    kernel(s, ns);
                    P::record(events[i], s.view());
                });
                // Kernels that take turns on two streams, in order through events.
                whole("kernel_cross", length, 256, here, [&](std::size_t i) {
                    stream const& on = i % 2 == 0 ? s : t;
                    if (i != 0) { P::wait(on.view(), events[i - 1]); }
                    kernel(on, ns);
                    P::record(events[i], on.view());
                });
                // Kernels on two streams without an order.
                whole("kernel_side", length, 256, here,
                      [&](std::size_t i) { kernel(i % 2 == 0 ? s : t, ns); });
            }
        }
    }
    void copies() {
        std::size_t constexpr largest           = 256_MiB;
        auto const                         here = P::current_device();
        stream const                       s{here}, t{here};
        block<typename P::pinned_resource> host{2 * largest};
        block<typename P::device_resource> device{2 * largest};
        std::vector<std::byte>             pageable(Machine::real ? largest : 1);
        std::vector<std::byte>             none;
        auto const up = [&](stream const& on, std::size_t n, std::size_t at) {
            P::copy(on.view(), device.data + at, host.data + at, n);
        };
        auto const down = [&](stream const& on, std::size_t n, std::size_t at) {
            P::copy(on.view(), host.data + at, device.data + at, n);
        };
        auto const within = [&](stream const& on, std::size_t n, std::size_t at) {
            P::copy(on.view(), device.data + largest + at, device.data + at, n);
        };
        auto const fill = [&](stream const& on, std::size_t n, std::size_t at) {
            P::fill(on.view(), device.data + at, std::byte{1}, n);
        };
        auto const both = [&](char const* name, auto first, auto second) {
            event const marks[] = {event{here}, event{here}};
            for (int turn = 0; turn < 3; ++turn) {
                std::uint64_t const since = m_.now();
                first(s, 128_MiB, 0);
                second(t, 128_MiB, 128_MiB);
                P::synchronize(s.view());
                add(name, "first", since, 1);
                P::synchronize(t.view());
                add(name, "both", since, 1);
            }
        };
        std::vector<event> marks;
        for (int i = 0; i < 256; ++i) { marks.emplace_back(here); }
        auto const measure = [&](std::string const& name, auto copy) {
            for (std::size_t const n :
                 {4_KiB, 64_KiB, 256_KiB, 1_MiB, 4_MiB, 16_MiB, 64_MiB, largest}) {
                std::size_t const many = count(1_GiB / n, 4, 256);
                for (int turn = 0; turn < (quick_ ? 1 : 5); ++turn) {
                    timed(name + "_alone", size_name(n), count(256_MiB / n, 2, 32),
                          [&](std::size_t) {
                              copy(s, n, 0);
                              P::synchronize(s.view());
                          });
                    whole(name + "_chain", size_name(n), many, here,
                          [&](std::size_t) { copy(s, n, 0); });
                    whole(name + "_record", size_name(n), many, here, [&](std::size_t i) {
                        copy(s, n, 0);
                        P::record(marks[i], s.view());
                    });
                    m_.kernel(s.view(), nullptr, 0, 4'000'000);
                    timed(name, size_name(n), 64, [&](std::size_t) { copy(s, n, 0); });
                    P::synchronize(s.view());
                }
            }
            both((name + "_two").c_str(), copy, copy);
        };
        measure("up", up);
        measure("down", down);
        measure("within", within);
        measure("fill", fill);
        both("up_and_down", up, down);
        both("up_and_within", up, within);
        for (std::size_t const n :
             {4_KiB, 64_KiB, 256_KiB, 1_MiB, 4_MiB, 16_MiB, 64_MiB, largest}) {
            std::byte* const place = Machine::real ? pageable.data() : address(none, largest);
            for (int turn = 0; turn < (quick_ ? 1 : 3); ++turn) {
                std::size_t const many = count(64_MiB / n, 2, 32);
                timed("up_pageable_alone", size_name(n), many, [&](std::size_t) {
                    P::copy(s.view(), device.data, place, n);
                    P::synchronize(s.view());
                });
                timed("down_pageable_alone", size_name(n), many, [&](std::size_t) {
                    P::copy(s.view(), place, device.data, n);
                    P::synchronize(s.view());
                });
            }
        }
    }
    /// Copies of memory that a thread of the host has just written, or reads after each copy.
    void touched() {
        std::size_t constexpr largest           = 4_MiB;
        auto const                         here = P::current_device();
        stream const                       s{here};
        block<typename P::pinned_resource> host{2 * largest};
        block<typename P::device_resource> device{2 * largest};
        std::vector<std::byte>             pageable(largest);
        for (std::size_t const n : {64_KiB, 256_KiB, 1_MiB, largest}) {
            std::size_t const many = count(64_MiB / n, 2, 32);
            for (int turn = 0; turn < (quick_ ? 1 : 5); ++turn) {
                std::uint64_t up = 0, down = 0;
                for (std::size_t i = 0; i < 2 * many; ++i) {
                    std::byte* const place = host.data + i % 2 * largest;
                    m_.host_copy(place, pageable.data(), n);
                    std::uint64_t since = m_.now();
                    P::copy(s.view(), device.data, place, n);
                    P::synchronize(s.view());
                    up += m_.now() - since;
                }
                for (std::size_t i = 0; i < 2 * many; ++i) {
                    std::byte* const    place = host.data + i % 2 * largest;
                    std::uint64_t const since = m_.now();
                    P::copy(s.view(), place, device.data, n);
                    P::synchronize(s.view());
                    down += m_.now() - since;
                    m_.host_copy(pageable.data(), place, n);
                }
                add_sum("up_written", size_name(n), up, 2 * many);
                add_sum("down_read", size_name(n), down, 2 * many);
            }
        }
    }
    /// A copy and its record, which several threads queue on one stream at the same time.
    void together() {
        std::size_t constexpr pairs             = 64;
        auto const                         here = P::current_device();
        stream const                       s{here};
        block<typename P::pinned_resource> host{64_KiB};
        block<typename P::device_resource> device{64_KiB};
        for (unsigned const n : {1U, 2U, 4U, 8U}) {
            for (int turn = 0; turn < (quick_ ? 1 : 5); ++turn) {
                std::vector<event>              marks;
                std::vector<std::uint64_t>      took(n);
                std::vector<typename P::thread> threads;
                std::atomic<unsigned>           ready{0};
                for (unsigned i = 0; i < n; ++i) { marks.emplace_back(here); }
                for (unsigned i = 0; i < n; ++i) {
                    threads.emplace_back(here, [&, i] {
                        // Threads of the simulated device begin at the same time.
                        if constexpr (Machine::real) {
                            for (++ready; ready < n;) {}
                        }
                        std::uint64_t const since = m_.now();
                        for (std::size_t k = 0; k < pairs; ++k) {
                            P::copy(s.view(), device.data + i * 4_KiB, host.data + i * 4_KiB,
                                    4_KiB);
                            P::record(marks[i], s.view());
                        }
                        took[i] = m_.now() - since;
                    });
                }
                for (auto& each : threads) { each.join(); }
                P::synchronize(s.view());
                add_sum("pair", fmt::format("threads_{}", n),
                        *std::max_element(took.begin(), took.end()), pairs);
            }
        }
    }
    /// Calls as a program makes them: the driver's pool has many blocks of many sizes, and the
    /// program uses other memory between two calls.
    void apart() {
        stream const                       s{P::current_device()};
        std::vector<event>                 events;
        block<typename P::pinned_resource> host{4_MiB};
        std::vector<std::byte>             pageable(2_MiB);
        std::uint64_t                      first = 0, second = 0;
        auto const                         took = [&](std::uint64_t& sum, auto call) {
            std::uint64_t const since = m_.now();
            call();
            sum += m_.now() - since;
        };
        auto const work = [&] { m_.host_copy(host.data, pageable.data(), 2_MiB); };
        {
            std::size_t const                          steps  = quick_ ? 64 : 100'000;
            std::size_t                                frees  = 0;
            std::uint64_t                              seed   = 1;
            auto                                       memory = parts<P>::pool();
            std::vector<std::pair<void*, std::size_t>> live(512);
            for (std::size_t i = 0; i < live.size() + steps; ++i) {
                seed                = seed * 6364136223846793005 + 1442695040888963407;
                auto& [p, bytes]    = live[(seed >> 33) % live.size()];
                std::size_t const n = 512_B << ((seed >> 45) % 14);
                if (p != nullptr) {
                    took(second, [&] { memory.deallocate(s.view(), p, bytes); });
                    ++frees;
                }
                took(first, [&] { p = memory.allocate(s.view(), bytes = n); });
                if (i < live.size()) { first = second = frees = 0; }
            }
            for (auto const& [p, bytes] : live) {
                if (p != nullptr) { memory.deallocate(s.view(), p, bytes); }
            }
            P::synchronize(s.view());
            add_sum("allocate_async", "mixed", first, steps);
            add_sum("free_async", "mixed", second, frees);
        }
        std::size_t const many = quick_ ? 2 : 64;
        for (std::size_t i = 0; i < many; ++i) { events.emplace_back(P::current_device()); }
        first = second = 0;
        for (event& e : events) {
            work();
            took(first, [&] { P::record(e, s.view()); });
            work();
            took(second, [&] { (void)P::done(e); });
        }
        add_sum("record", "apart", first, many);
        add_sum("query", "apart", second, many);
        for (std::size_t const n : {2_MiB, 8_MiB, 32_MiB, 128_MiB, 512_MiB, 2048_MiB}) {
            typename P::device_resource memory{};
            std::vector<void*>          blocks(count(8_GiB / n, 2, 16));
            first = second = 0;
            for (void*& p : blocks) {
                work();
                took(first, [&] { p = memory.allocate_sync(n); });
            }
            for (void* p : blocks) {
                work();
                took(second, [&] { memory.deallocate_sync(p, n); });
            }
            add_sum("allocate_apart", size_name(n), first, blocks.size());
            add_sum("free_apart", size_name(n), second, blocks.size());
        }
    }
    /// Words that the device writes in the order of a stream.
    void marks() {
        if constexpr (vram::completion_flags<P>) {
            stream const                       s{P::current_device()};
            block<typename P::pinned_resource> words{4_KiB};
            auto* const                        at = reinterpret_cast<std::uint32_t*>(words.data);
            for (int turn = 0; turn < 5; ++turn) {
                m_.kernel(s.view(), nullptr, 0, 4'000'000);
                timed("mark", "each", 64, [&](std::size_t i) {
                    (void)P::mark(s.view(), at, static_cast<std::uint32_t>(i));
                });
                P::synchronize(s.view());
                whole("mark_chain", "each", 256, P::current_device(), [&](std::size_t i) {
                    (void)P::mark(s.view(), at, static_cast<std::uint32_t>(i));
                });
            }
        }
    }
    /// The time until a thread that waits on a condition variable runs.
    void threads() {
        if constexpr (Machine::real) {
            std::mutex              mutex;
            std::condition_variable changed;
            std::size_t constexpr rounds = 2000;
            std::size_t turn             = 0;
            std::thread other{[&] {
                std::unique_lock held{mutex};
                for (std::size_t i = 0; i < rounds; ++i) {
                    changed.wait(held, [&] { return turn % 2 == 1; });
                    ++turn;
                    changed.notify_one();
                }
            }};
            timed(
                "wake", "thread", rounds,
                [&](std::size_t) {
                    std::unique_lock held{mutex};
                    changed.wait(held, [&] { return turn % 2 == 0; });
                    ++turn;
                    changed.notify_one();
                },
                2 * rounds);
            other.join();
        }
    }

private:
    template <class R>
    struct block {
        explicit block(std::size_t n)
            : bytes{n}, data{static_cast<std::byte*>(R{}.allocate_sync(n))} {}
        block(block&&) = delete;
        ~block() { R{}.deallocate_sync(data, bytes); }

        std::size_t bytes;
        std::byte*  data;
    };

    /// Pageable memory of the simulated host, which is never accessed.
    static std::byte* address(std::vector<std::byte>& memory, std::size_t bytes) {
        if (memory.empty()) { memory.resize(bytes); }
        return memory.data();
    }

    [[nodiscard]] std::size_t count(std::size_t n, std::size_t least, std::size_t most) const {
        return quick_ ? least : std::clamp(n, least, most);
    }

    void add(std::string const& name, std::string const& of, std::uint64_t since,
             std::size_t calls) {
        add_sum(name, of, m_.now() - since, calls);
    }
    void add_sum(std::string const& name, std::string const& of, std::uint64_t sum,
                 std::size_t calls) {
        r_.add(name, of, {{"ns", static_cast<double>(sum) / static_cast<double>(calls), "ns"}});
    }
    /// Adds the mean time of `calls` calls; `parts` if each call counts as several.
    template <class Call>
    void timed(std::string const& name, std::string const& of, std::size_t calls, Call call,
               std::size_t count_as = 0) {
        std::uint64_t const since = m_.now();
        for (std::size_t i = 0; i < calls; ++i) { call(i); }
        add(name, of, since, count_as == 0 ? calls : count_as);
    }
    /// Adds the mean time of operations that are queued together, until the device has done all.
    template <class Device, class Call>
    void whole(std::string const& name, std::string const& of, std::size_t calls, Device device,
               Call call) {
        P::synchronize(device);
        std::uint64_t const since = m_.now();
        for (std::size_t i = 0; i < calls; ++i) { call(i); }
        P::synchronize(device);
        add(name, of, since, calls);
    }
    /// Allocates `many` blocks, then frees them.
    template <class Take, class Give>
    void held(std::string const& take, std::string const& give, std::size_t n, std::size_t many,
              int turns, Take takes, Give gives) {
        std::vector<void*> blocks(many);
        for (int turn = 0; turn < (quick_ ? 1 : turns); ++turn) {
            timed(take, size_name(n), many, [&](std::size_t i) { blocks[i] = takes(); });
            timed(give, size_name(n), many, [&](std::size_t i) { gives(blocks[i]); });
        }
    }

    Machine& m_;
    results& r_;
    bool     quick_;
};

template <class Machine>
int run(options const& o) {
    cli::output_file json{o.json};
    results          r{"costs"};
    Machine          machine;
    costs<Machine>   all{machine, r, o.quick};
    fmt::print("on {}\n", Machine::name());
    std::pair<char const*, std::function<void()>> const groups[] = {
        {"calls", [&] { all.calls(); }},     {"launches", [&] { all.launches(); }},
        {"copies", [&] { all.copies(); }},   {"allocations", [&] { all.allocations(); }},
        {"pools", [&] { all.pools(); }},     {"mappings", [&] { all.mappings(); }},
        {"pinning", [&] { all.pinning(); }}, {"marks", [&] { all.marks(); }},
        {"threads", [&] { all.threads(); }}, {"together", [&] { all.together(); }},
        {"touched", [&] { all.touched(); }}, {"apart", [&] { all.apart(); }},
    };
    for (auto const& [name, measure] : groups) {
        auto const is = [n = name](std::string const& c) { return c == n; };
        if (!o.cases.empty() && std::none_of(o.cases.begin(), o.cases.end(), is)) { continue; }
        measure();
        if (json.can_be_replaced()) { json.write(r.rows().dump(1) + "\n"); }
    }
    auto const rows = r.rows();
    json.write(rows.dump(1) + "\n");
    for (auto const& row : rows) {
        if (row["metric"] != "ns") { continue; }
        fmt::print("{:<24}{:>10}{:>14.0f} ns\n", row["case"].get<std::string>(),
                   row["subject"].get<std::string>(), row["value"].get<double>());
    }
    return cli::success;
}

int run_there(options const& o) {
#ifdef VRAM_BENCH_NVCC
    int        devices = 0;
    bool const gpu     = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
    if (o.device == "cuda" && !gpu) { throw cli::failure{cli::bad_usage, "there is no GPU"}; }
    if (gpu && o.device != "sim") { return run<feed_on_cuda>(o); }
#else
    if (o.device == "cuda") {
        throw cli::failure{cli::bad_usage, "this build has no CUDA: only the simulated device"};
    }
#endif
    return run<feed_on_sim>(o);
}

} // namespace

int main(int argc, char** argv) {
    options  o;
    CLI::App app{"The cost of each call of a device, and the times of short work.", "costs"};
    add_options(app, o);
    add_profile(app);
    return cli::run(app, argc, argv, [&] { return run_there(o); });
}
