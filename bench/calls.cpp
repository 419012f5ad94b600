// SPDX-License-Identifier: Apache-2.0
// The time that recorded programs spend in calls of the device, through the driver's allocators
// and through pools: measured on a GPU, or predicted by the simulated device.

#include "subjects/stack_memory.hpp"
#include "support/machine.hpp"
#include "support/options.hpp"
#include "support/recordings.hpp"
#include "support/results.hpp"

#include <output_file.hpp>

#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/source/virtual_source.hpp>
#include <vram/transfer/platform_clock.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <utility>

using namespace bench;
using namespace vram::literals;

namespace {

/// The calls of the device by this program, and their time.
struct called {
    std::uint64_t calls = 0;
    std::uint64_t ns    = 0;
};
called total;

/// Returns the result of `call()`, a call of the device, and adds its time to `total`.
template <class Clock, class Call>
decltype(auto) timed(Call call) {
    struct timer {
        ~timer() {
            total.ns += Clock::now() - since;
            ++total.calls;
        }
        std::uint64_t since = Clock::now();
    } const running;
    return call();
}

/// A platform whose calls about events and streams are timed.
template <class P>
struct timed_platform : P {
    using clock  = vram::platform_clock<P>;
    using stream = typename P::stream;
    using event  = typename P::event;
    using device = typename P::device;

    static void record(event& e, stream s) {
        timed<clock>([&] { P::record(e, s); });
    }
    static void wait(stream s, event const& e) {
        timed<clock>([&] { P::wait(s, e); });
    }
    static bool done(event const& e) {
        return timed<clock>([&] { return P::done(e); });
    }
    static void synchronize(event const& e) {
        timed<clock>([&] { P::synchronize(e); });
    }
    static void synchronize(stream s) {
        timed<clock>([&] { P::synchronize(s); });
    }
    static void synchronize(device d) {
        timed<clock>([&] { P::synchronize(d); });
    }
};

/// A resource of the driver whose calls are timed.
template <class Resource>
class timed_resource : public Resource {
public:
    using platform = timed_platform<typename Resource::platform>;
    using clock    = typename platform::clock;
    using stream   = typename platform::stream;
    using Resource::Resource;

    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t a = vram::default_alignment) {
        return timed<clock>([&] { return Resource::allocate_sync(n, a); });
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t n,
                                          std::size_t a = vram::default_alignment) noexcept {
        return timed<clock>([&] { return Resource::try_allocate_sync(n, a); });
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = vram::default_alignment) noexcept {
        timed<clock>([&] { Resource::deallocate_sync(p, n, a); });
    }
    friend bool operator==(timed_resource const&, timed_resource const&) = default;
};

/// The virtual memory of a device, with timed calls.
template <class Pages>
class timed_pages : public Pages {
public:
    using platform = timed_platform<typename Pages::platform>;
    using clock    = typename platform::clock;
    using handle   = typename Pages::handle;
    using Pages::Pages;

    [[nodiscard]] void* reserve(std::size_t n, std::size_t alignment) const {
        return timed<clock>([&] { return Pages::reserve(n, alignment); });
    }
    void release(void* p, std::size_t n) const noexcept {
        timed<clock>([&] { Pages::release(p, n); });
    }
    [[nodiscard]] handle create(std::size_t n) const {
        return timed<clock>([&] { return Pages::create(n); });
    }
    void destroy(handle h, std::size_t n) const noexcept {
        timed<clock>([&] { Pages::destroy(h, n); });
    }
    void map(void* p, handle h, std::size_t n) const {
        timed<clock>([&] { Pages::map(p, h, n); });
    }
    void set_access(void* p, std::size_t n) const {
        timed<clock>([&] { Pages::set_access(p, n); });
    }
    void unmap(void* p, std::size_t n) const {
        timed<clock>([&] { Pages::unmap(p, n); });
    }
    friend bool operator==(timed_pages const&, timed_pages const&) = default;
};

/// The driver's allocator itself, on streams: an allocation or a free is one call.
template <class Resource>
class direct_memory {
    using platform = typename Resource::platform;
    using clock    = vram::platform_clock<platform>;

public:
    using stream = typename platform::stream;

    explicit direct_memory(set_up const& how) {
        for (unsigned i = 0; i < how.streams; ++i) {
            streams_.emplace_back(platform::current_device());
        }
    }
    [[nodiscard]] stream stream_at(unsigned i) const { return streams_[i].view(); }

    [[nodiscard]] void* allocate(stream s, std::size_t n) {
        return timed<clock>([&] {
            if constexpr (vram::resource<Resource>) {
                return memory_.allocate(s, n);
            } else {
                return memory_.allocate_sync(n);
            }
        });
    }
    void deallocate(stream s, void* p, std::size_t n) {
        timed<clock>([&] {
            if constexpr (vram::resource<Resource>) {
                memory_.deallocate(s, p, n);
            } else {
                memory_.deallocate_sync(p, n);
            }
        });
    }

private:
    std::vector<typename platform::own_stream> streams_;
    Resource                                   memory_{};
};

/// A pool of the simulated driver that keeps what it has, as `cuda_async_resource` does.
struct sim_pool_resource : vram::sim_async_resource {
    sim_pool_resource()
        : sim_async_resource{vram::sim_device::current(),
                             {.release_threshold = vram::unsatisfiable}} {}
};

template <class Machine>
struct types {
    using direct         = vram::sim_resource;
    using pooled         = sim_pool_resource;
    using virtual_memory = vram::detail::sim_virtual_memory;
};
#if defined VRAM_BENCH_CUDA
template <>
struct types<on_cuda> {
    using direct         = vram::cuda_resource;
    using pooled         = vram::cuda_async_resource;
    using virtual_memory = vram::detail::cuda_virtual_memory;
};
#endif

/// A pool in place over timed virtual memory, with the granularity of the driver.
template <class Pages>
struct timed_source : vram::virtual_source<timed_pages<Pages>> {
    timed_source() : vram::virtual_source<timed_pages<Pages>>{timed_pages<Pages>{}} {}
};

struct replayed {
    std::string name;

    std::function<void(tape const&, results&)> run;
};

/// Replays the tape on an empty memory, and once more on the memory after that.
template <class Memory>
void replay(tape const& t, std::string const& name, results& r) {
    Memory memory{{.streams = t.streams, .room = t.peak_live}};
    player tape{t, memory};
    for (char const* const pass : {"cold", "warm"}) {
        total = {};
        (void)tape.play();
        called const now = total;
        tape.give_back();
        r.add(t.name, name,
              {{fmt::format("ms_of_calls_{}", pass), static_cast<double>(now.ns) / 1e6, "ms"},
               {fmt::format("calls_{}", pass), static_cast<double>(now.calls), "count"}});
    }
}

template <class Machine>
int run_on(Machine& machine, options const& o, std::vector<tape> const& tapes) {
    if constexpr (!Machine::is_gpu) { // they check nothing that is of interest here
        machine.node().set_checks({false, false, false, false, false, false, false, false});
    }
    using direct = typename types<Machine>::direct;
    using pooled = typename types<Machine>::pooled;
    using pages  = typename types<Machine>::virtual_memory;
    std::vector<replayed> all;
    auto const            add = [&]<class Memory>(std::type_identity<Memory>, std::string name) {
        all.push_back({name, [name](tape const& t, results& r) { replay<Memory>(t, name, r); }});
    };
    add(std::type_identity<direct_memory<direct>>{}, "cudaMalloc");
    add(std::type_identity<direct_memory<pooled>>{}, "cudaMallocAsync");
    add(std::type_identity<
            stack_memory<vram::pool<vram::stream_ordered<timed_resource<direct>>>>>{},
        "pool<stream_ordered>");
    add(std::type_identity<stack_memory<vram::pool<timed_source<pages>>>>{}, "pool<virtual>");
    all = chosen(std::move(all), o.subjects, "subject");
    cli::output_file json{o.json};
    results          r{"calls"};
    fmt::print("on {}\nthe time of all calls of the device in a replay, ms: cold, warm\n",
               Machine::name());
    for (tape const& t : tapes) {
        fmt::print("\n{:<28}{:>12}{:>12}{:>12}{:>12}\n", t.name, "cold, ms", "calls", "warm, ms",
                   "calls");
        for (replayed const& each : all) {
            try {
                for (unsigned i = 0; i < (o.repeat != 0 ? o.repeat : 1); ++i) { each.run(t, r); }
            } catch (std::exception const& e) {
                fmt::print("left out: {} in {}: {}\n", each.name, t.name, e.what());
                r.drop(t.name, each.name);
                continue;
            }
            auto const value = [&](char const* metric) {
                return *r.value(t.name, each.name, metric);
            };
            fmt::print("  {:<26}{:>12.4g}{:>12.0f}{:>12.4g}{:>12.0f}\n", each.name,
                       value("ms_of_calls_cold"), value("calls_cold"), value("ms_of_calls_warm"),
                       value("calls_warm"));
            std::fflush(stdout);
        }
        if (json.can_be_replaced()) { json.write(r.rows().dump(1) + "\n"); }
    }
    json.write(r.rows().dump(1) + "\n");
    return cli::success;
}

int run(options const& o) {
    auto const        picked = chosen(recordings({}), o.cases, "case");
    std::vector<tape> tapes;
    for (recording const& each : picked) {
        tapes.push_back(make_tape(each.name, read_trace(each.file)));
        if (o.quick) { // the beginning alone
            auto& steps = tapes.back().operations;
            steps.resize(std::min<std::size_t>(steps.size(), 500));
        }
    }
    return on_machine(o.device, 70_GiB, [&](auto& machine) { return run_on(machine, o, tapes); });
}

} // namespace

int main(int argc, char** argv) {
    options  o;
    CLI::App app{"The time of recorded programs in calls of the device.", "calls"};
    add_options(app, o);
    add_profile(app);
    return cli::run(app, argc, argv, [&] { return run(o); });
}
