// SPDX-License-Identifier: Apache-2.0
// Measures how the cost of an operation of the simulated device grows: with the number of
// operations, live blocks, events and pieces of a block, and with the number of streams.

#include "support/results.hpp"

#include <vram/layer/stream_ordered.hpp> // stream_ordered
#include <vram/pool/pool.hpp>            // pool
#include <vram/sim/sim.hpp>

#include <cli.hpp>         // run
#include <output_file.hpp> // output_file

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/resource.h> // getrusage
#include <sys/wait.h>     // waitpid
#include <unistd.h>       // fork, pipe

#include <algorithm> // max, min
#include <cmath>     // log
#include <cstddef>   // size_t, byte
#include <cstdint>   // uint64_t
#include <cstdio>    // fflush
#include <cstdlib>   // _Exit
#include <ctime>     // clock_gettime
#include <deque>
#include <functional> // function
#include <memory>     // unique_ptr
#include <random>     // mt19937_64
#include <string>
#include <unordered_map>
#include <vector>

using namespace bench;
using namespace vram;
using namespace std::chrono_literals;

namespace {

/// Device memory from `sim_resource`, freed at the end.
class memory {
public:
    explicit memory(std::size_t bytes)
        : p{static_cast<std::byte*>(source.allocate_sync(bytes))}, bytes_{bytes} {}
    memory(memory const&) = delete;
    ~memory() { source.deallocate_sync(p, bytes_); }

    [[nodiscard]] sim_range all() const { return {p, bytes_}; }
    [[nodiscard]] sim_range part(std::size_t at, std::size_t bytes) const {
        return {p + at, bytes};
    }

private:
    sim_resource source;
    std::byte*   p;
    std::size_t  bytes_;
};

std::uint64_t process_time() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000U +
           static_cast<std::uint64_t>(t.tv_nsec);
}

/// Returns the processor time of `body(count)` in nanoseconds, for each of `count` operations.
template <class Body>
double time_of(std::size_t count, Body body) {
    std::uint64_t const before = process_time();
    body(count);
    return static_cast<double>(process_time() - before) / static_cast<double>(count);
}

sim_options quiet() {
    return {.capacity = std::size_t{1} << 40, .backed = false, .on_report = sim_on_report::collect};
}

/// Fails if the checker reported a program that is correct.
void expect_silence(sim_node const& node) {
    if (!node.reports().empty()) { throw cli::failure{cli::failed, node.reports()[0].text()}; }
}

/// Kernels with one read and one write on four streams, which wait for the device every `every`.
double kernels(std::size_t x, sim_options const& options, std::size_t every) {
    sim_node                             node{options};
    sim_stream                           streams[4];
    std::vector<std::unique_ptr<memory>> blocks;
    for (int i = 0; i < 8; ++i) { blocks.push_back(std::make_unique<memory>(4096)); }
    double const time = time_of(x, [&](std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            std::size_t const s = i % 4;
            sim_launch(streams[s], {.reads = {blocks[s]->all()}, .writes = {blocks[s + 4]->all()}});
            if ((i + 1) % every == 0) { sim_device{}.synchronize(); }
        }
    });
    sim_device{}.synchronize();
    expect_silence(node);
    return time;
}
double checked(std::size_t x) { return kernels(x, quiet(), 1000); }
double never_synchronised(std::size_t x) { return kernels(x, quiet(), ~std::size_t{0}); }
double unchecked(std::size_t x) {
    sim_options options = quiet();
    options.checks      = {false, false, false, false, false, false, false, false};
    return kernels(x, options, 1000);
}

/// Kernels that read one and write another of `x` live blocks, chosen at random.
double live_blocks(std::size_t x) {
    sim_node           node{quiet()};
    sim_stream         stream;
    std::deque<memory> blocks;
    for (std::size_t i = 0; i < x; ++i) { blocks.emplace_back(1024); }
    std::mt19937_64 random{1};
    return time_of(std::max<std::size_t>(2 * x, 20000), [&](std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            sim_launch(stream, {.reads  = {blocks[random() % x].all()},
                                .writes = {blocks[random() % x].all()}});
            if (i % 1000 == 0) { sim_device{}.synchronize(); }
        }
    });
}

/// An allocation and its free among `x` live blocks.
double allocations(std::size_t x) {
    sim_node                             node{quiet()};
    std::vector<std::unique_ptr<memory>> blocks;
    for (std::size_t i = 0; i < x; ++i) { blocks.push_back(std::make_unique<memory>(1024)); }
    return time_of(50000, [&](std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) { memory const one{1024}; }
    });
}

/// A block of a stream, used by a kernel and freed.
template <class Resource>
double rounds(std::size_t x, Resource&& resource) {
    sim_stream stream;
    return time_of(x, [&](std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            void* const p = resource.allocate(stream, 4096);
            sim_launch(stream, {.writes = {{p, 4096}}});
            resource.deallocate(stream, p, 4096);
            if (i % 100 == 99) { stream.synchronize(); }
        }
        stream.synchronize();
    });
}
double async_rounds(std::size_t x) {
    sim_node     node{quiet()};
    double const time = rounds(x, sim_async_resource{});
    expect_silence(node);
    return time;
}
double pool_rounds(std::size_t x) {
    sim_node     node{quiet()};
    double const time = rounds(x, pool{stream_ordered{sim_resource{}}});
    expect_silence(node);
    return time;
}

/// A kernel, a record and a wait of the next of 64 streams. All events are kept.
double events_kept(std::size_t x) {
    sim_node                node{quiet()};
    std::vector<sim_stream> streams(64);
    std::deque<sim_event>   events;
    return time_of(x, [&](std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            sim_launch(streams[i % 64], {});
            events.emplace_back().record(streams[i % 64]);
            events.back().wait(streams[(i * 7 + 1) % 64]);
            if (i % 1000 == 999) { sim_device{}.synchronize(); }
        }
    });
}

/// Small reads at `x` places of a block, by four streams, each place several times.
double small_reads(std::size_t x) {
    sim_node                node{quiet()};
    std::vector<sim_stream> streams(4);
    memory const            block{x * 64};
    std::mt19937_64         random{1};
    return time_of(std::max<std::size_t>(2 * x, 20000), [&](std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            sim_launch(streams[i % 4], {.reads = {block.part(random() % x * 64, 32)}});
            if (i % 1000 == 0) { sim_device{}.synchronize(); }
        }
    });
}

/// Reads of a whole block that was read (or written) in `x` small pieces before, after a wait.
double whole_reads(std::size_t x, bool written) {
    sim_node     node{quiet()};
    sim_stream   stream;
    memory const block{x * 64};
    for (std::size_t i = 0; i < x; ++i) {
        std::vector<sim_range> const part{block.part(i * 64, 32)};
        sim_launch(stream, written ? sim_kernel{.writes = part} : sim_kernel{.reads = part});
    }
    stream.synchronize();
    return time_of(std::max<std::size_t>(x, 1000), [&](std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            sim_launch(stream, {.reads = {block.all()}});
            if (i % 1000 == 999) { stream.synchronize(); }
        }
    });
}
double whole_after_reads(std::size_t x) { return whole_reads(x, false); }
double whole_after_writes(std::size_t x) { return whole_reads(x, true); }

/// A new stream waits for an event of the one before, runs a kernel and is destroyed. The host
/// never waits.
double destroyed(std::size_t x) {
    sim_node     node{quiet()};
    memory const block{4096};
    sim_event    event;
    double const time = time_of(x, [&](std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            sim_stream stream;
            event.wait(stream);
            sim_launch(stream, {.writes = {block.all()}});
            event.record(stream);
        }
    });
    event.synchronize();
    expect_silence(node);
    return time;
}
/// A new stream runs a kernel and is destroyed; nothing orders the streams.
double destroyed_unordered(std::size_t x) {
    sim_node     node{quiet()};
    memory const block{4096};
    return time_of(x, [&](std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            sim_stream stream;
            sim_launch(stream, {.reads = {block.all()}});
        }
        sim_device{}.synchronize();
    });
}

/// An idle stream waits for each event of a busy one.
double idle_waits(std::size_t x) {
    sim_node   node{quiet()};
    sim_stream busy, idle;
    sim_event  event;
    return time_of(x, [&](std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            sim_launch(busy, {});
            event.record(busy);
            event.wait(idle);
        }
    });
}

/// A wait, a kernel and a record on the next of `x` streams in a ring.
double ring(std::size_t x) {
    sim_node                node{quiet()};
    std::vector<sim_stream> streams(x);
    std::vector<sim_event>  events(x);
    memory const            block{4096};
    std::size_t             i    = 0;
    auto const              step = [&](std::size_t n) {
        for (std::size_t k = 0; k < n; ++k, ++i) {
            std::size_t const now = i % x, before = (i + x - 1) % x;
            events[before].wait(streams[now]);
            sim_launch(streams[now], {.writes = {block.all()}});
            events[now].record(streams[now]);
            if (i % 1000 == 0) { events[now].synchronize(); }
        }
    };
    step(2 * x);
    double const time = time_of(20000 + 10 * x, step);
    expect_silence(node);
    return time;
}

/// Kernels on two of `x` streams.
double two_used(std::size_t x) {
    sim_node                node{quiet()};
    std::vector<sim_stream> streams(x);
    memory const            a{4096}, b{4096};
    return time_of(100000, [&](std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            sim_launch(streams[i % 2], {.writes = {(i % 2 == 0 ? a : b).all()}});
            if (i % 1000 == 0) { sim_device{}.synchronize(); }
        }
    });
}
/// A kernel on one of `x` streams, and a wait for the device.
double device_waits(std::size_t x) {
    sim_node                node{quiet()};
    std::vector<sim_stream> streams(x);
    memory const            a{4096};
    std::size_t             i = 0;
    return time_of(50000 + 2 * x, [&](std::size_t n) {
        for (std::size_t k = 0; k < n; ++k, ++i) {
            sim_launch(streams[i % x], {.writes = {a.all()}});
            sim_device{}.synchronize();
        }
    });
}
/// Kernels on all of `x` streams, then a wait for each stream.
double stream_waits(std::size_t x) {
    sim_node                node{quiet()};
    std::vector<sim_stream> streams(x);
    auto const              step = [&](std::size_t n) {
        for (std::size_t i = 0; i < n / x; ++i) {
            for (sim_stream& s : streams) { sim_launch(s, {}); }
            for (sim_stream& s : streams) { s.synchronize(); }
        }
    };
    step(x);
    return time_of(std::max<std::size_t>(20 * x, 32768), step);
}

/// Reads of one block by `x` streams in turns.
double readers(std::size_t x) {
    sim_node                node{quiet()};
    std::vector<sim_stream> streams(x);
    memory const            block{4096};
    std::size_t             i    = 0;
    auto const              step = [&](std::size_t n) {
        for (std::size_t k = 0; k < n; ++k, ++i) {
            sim_launch(streams[i % x], {.reads = {block.all()}});
            if (i % 10000 == 9999) { sim_device{}.synchronize(); }
        }
    };
    step(2 * x);
    return time_of(50000 + 10 * x, step);
}

/// A kernel on the next of `x` blocking streams, and one on the legacy default stream.
double legacy(std::size_t x) {
    sim_node                node{quiet()};
    std::vector<sim_stream> streams;
    for (std::size_t i = 0; i < x; ++i) {
        streams.emplace_back(sim_device{}, sim_stream_options{.blocking = true});
    }
    memory const block{4096};
    std::size_t  i    = 0;
    auto const   step = [&](std::size_t n) {
        for (std::size_t k = 0; k < n; ++k, ++i) {
            sim_launch(k % 2 == 0 ? sim_stream_view{streams[k / 2 % x]} : sim_stream_view{},
                       {.writes = {block.all()}});
            if (i % 1000 == 999) { sim_device{}.synchronize(); }
        }
    };
    step(4 * x);
    double const time = time_of(20000 + 8 * x, step);
    expect_silence(node);
    return time;
}

/// Creates and joins a `sim_thread`.
double threads(std::size_t x) {
    sim_node node{quiet()};
    return time_of(x, [&](std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            sim_thread one{sim_device{}, [] {}};
            one.join();
        }
    });
}

/// Two lookups at random in a hash table of `x` values of 512 bytes, and a change of their eight cache
/// lines. This is the yardstick of the processor's caches: the number of misses is that of a kernel
/// that uses two of 10^5 blocks (20 by callgrind, with 512 KiB of cache).
double lookups(std::size_t x) {
    struct value {
        std::uint64_t words[64] = {};
    };
    std::unordered_map<std::size_t, value> table;
    for (std::size_t i = 0; i < x; ++i) { table[i * 1280]; }
    std::mt19937_64 random{1};
    auto const      step = [&](std::size_t n) {
        for (std::size_t i = 0; i < 2 * n; ++i) {
            value& found = table.find(random() % x * 1280)->second;
            for (std::size_t line = 0; line < 64; line += 8) { ++found.words[line]; }
        }
    };
    step(x);
    return time_of(std::max<std::size_t>(2 * x, 20000), step);
}

struct row {
    char const* name;
    double (*measure)(std::size_t x);
    std::vector<std::size_t> points;
    char const*              what;
    /// True if an operation accesses one of x objects, which may exceed the processor's caches. The row
    /// misses the bar only if it also grows faster than `lookups`.
    bool scattered = false;
};

std::vector<row> const& rows() {
    static std::vector<std::size_t> const counts{1000, 10000, 100000, 1000000};
    static std::vector<std::size_t> const blocks{1000, 10000, 100000};
    static std::vector<std::size_t> const alive{2, 8, 32, 128, 512, 2048};
    static std::vector<row> const         all{
                {"kernels", checked, counts, "kernels with a read and a write on 4 streams"},
                {"kernels_unchecked", unchecked, counts, "the same without checks"},
                {"kernels_never_synchronised", never_synchronised, counts, "the same without a host wait"},
                {"live_blocks", live_blocks, blocks, "kernels on two of x blocks, at random", true},
                {"allocations", allocations, blocks, "an allocation and its free among x blocks"},
                {"async_rounds", async_rounds, counts, "sim_async_resource: allocate, kernel, free"},
                {"pool_rounds", pool_rounds, counts, "pool<stream_ordered>: allocate, kernel, free"},
                {"events_kept", events_kept, blocks, "kernel, new event, wait on 64 streams"},
                {"small_reads", small_reads, counts, "reads of 32 bytes at x places of a block"},
                {"whole_after_reads", whole_after_reads, counts,
                 "reads of a block that was read in x pieces"},
                {"whole_after_writes", whole_after_writes, counts,
                 "reads of a block that was written in x pieces"},
                {"destroyed", destroyed, blocks,
                 "streams ordered by an event, destroyed without a host wait"},
                {"destroyed_unordered", destroyed_unordered, blocks, "the same without an order"},
                {"idle_waits", idle_waits, counts, "waits of an idle stream for a busy one"},
                {"threads", threads, {100, 1000, 10000}, "a sim_thread created and joined"},
                {"ring", ring, alive, "wait, kernel and record on x streams in a ring"},
                {"two_used", two_used, alive, "kernels on two of x streams"},
                {"device_waits", device_waits, alive, "a kernel on one of x streams, a wait for the device",
                 true},
                {"stream_waits", stream_waits, alive, "kernels on x streams, then a wait for each"},
                {"readers", readers, alive, "reads of a block by x streams"},
                {"legacy",
                 legacy,
                 {2, 8, 32, 128, 512},
                 "kernels on x blocking streams and the legacy stream"},
    };
    return all;
}

struct point {
    double      time   = 0; ///< nanoseconds for each operation
    std::size_t memory = 0; ///< peak resident memory of the process in KiB
};

struct settings {
    std::vector<std::string> names;
    std::string              json;
    std::size_t              divide = 1;
    unsigned                 repeat = 1;
    unsigned                 limit  = 100;
    double                   bar    = 0;
};

/// Measures one point in a process of its own, so that it starts with a fresh heap. Returns no
/// time if the process failed or took longer than `limit` seconds.
point in_process(char const* name, double (*measure)(std::size_t), std::size_t x, unsigned limit) {
    int ends[2];
    if (pipe(ends) != 0) { throw cli::failure{cli::failed, "pipe"}; }
    std::fflush(stdout);
    pid_t const child = fork();
    if (child == 0) {
        alarm(limit);
        point p;
        try {
            p.time = measure(x);
        } catch (std::exception const& e) { fmt::print(stderr, "{}: {}\n", name, e.what()); }
        rusage used{};
        getrusage(RUSAGE_SELF, &used);
        p.memory           = static_cast<std::size_t>(used.ru_maxrss);
        bool const written = write(ends[1], &p, sizeof p) == sizeof p;
        std::_Exit(written ? 0 : 1);
    }
    close(ends[1]);
    point      p;
    bool const came = read(ends[0], &p, sizeof p) == sizeof p;
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return came ? p : point{};
}

/// Returns the fastest of the runs, or no time if one failed.
point fastest(char const* name, double (*measure)(std::size_t), std::size_t x, settings const& s) {
    point best;
    for (unsigned i = 0; i < s.repeat; ++i) {
        point const p = in_process(name, measure, x, s.limit);
        if (p.time == 0) { return {}; }
        if (best.time == 0 || p.time < best.time) { best = p; }
    }
    return best;
}

/// Returns the exponent of the time over the last three points: the slope of a line through their
/// logarithms, by least squares.
double exponent(std::vector<std::size_t> const& x, std::vector<point> const& y) {
    std::size_t const first = x.size() > 3 ? x.size() - 3 : 0;
    double            n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (std::size_t i = first; i < x.size(); ++i) {
        double const a = std::log(static_cast<double>(x[i])), b = std::log(y[i].time);
        n += 1, sx += a, sy += b, sxx += a * a, sxy += a * b;
    }
    return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

int run(settings const& s) {
    cli::output_file json{s.json, {}};
    results          out{"sim_scale"};
    std::string      missed;
    for (row const& r : rows()) {
        if (!s.names.empty() &&
            std::find(s.names.begin(), s.names.end(), r.name) == s.names.end()) {
            continue;
        }
        fmt::print("{:<27}", r.name);
        std::vector<std::size_t> points;
        for (std::size_t const x : r.points) {
            std::size_t const y = std::max<std::size_t>(x / s.divide, 2);
            if (points.empty() || points.back() != y) { points.push_back(y); }
        }
        std::vector<point> times;
        std::vector<point> caches; // of `lookups`
        bool               whole = true;
        for (std::size_t const x : points) {
            point const best = whole ? fastest(r.name, r.measure, x, s) : point{};
            whole            = best.time != 0;
            times.push_back(best);
            if (r.scattered && whole) { caches.push_back(fastest("lookups", lookups, x, s)); }
            fmt::print("{:>9}", whole ? fmt::format("{:.0f}", best.time) : "-");
            std::fflush(stdout);
            if (!whole) { continue; }
            out.add(
                fmt::format("{}_{}", r.name, x), "sim",
                {{"time", best.time, "ns"}, {"memory", static_cast<double>(best.memory), "KiB"}});
        }
        for (std::size_t i = points.size(); i < 6; ++i) { fmt::print("{:>9}", ""); }
        double const grows     = whole ? exponent(points, times) : INFINITY;
        double const of_caches = whole && r.scattered ? exponent(points, caches) : 0;
        double const bar       = r.scattered ? std::max(s.bar, of_caches) : s.bar;
        if (s.bar != 0 && !(grows <= bar)) { missed += fmt::format(" {}", r.name); }
        fmt::print("{:>8.2f}{:>7} MiB   {}{}\n", grows, times.back().memory >> 10U, r.what,
                   r.scattered ? fmt::format(" (lookups: {:.2f})", of_caches) : "");
        std::fflush(stdout);
        if (!whole) { continue; }
        out.add(r.name, "sim", {{"exponent", grows, "1"}});
        if (r.scattered) { out.add(r.name, "sim", {{"exponent_of_lookups", of_caches, "1"}}); }
    }
    json.write(out.rows().dump(1) + "\n");
    if (missed.empty()) { return cli::success; }
    fmt::print("grows faster than an exponent of {}:{}\n", s.bar, missed);
    return cli::failed;
}

} // namespace

int main(int argc, char** argv) {
    settings s;
    CLI::App app{
        "How the cost of an operation of the simulated device grows. Prints nanoseconds of "
        "processor time for each operation at each point (1000 to 1000000 operations, "
        "blocks or pieces; 2 to 2048 streams), the exponent over the last three points, "
        "and the peak memory of the last one. Rows whose operations access one of x objects also "
        "have the exponent of as many lookups in a hash table of x values, whose growth is that "
        "of misses of the processor's caches.",
        "sim_scale"};
    app.add_option("--row", s.names, "only these rows")->type_name("NAME");
    app.add_option("--divide", s.divide, "divide the sizes by this")->check(CLI::PositiveNumber);
    app.add_option("--repeat", s.repeat, "measure each point so often, and take the fastest")
        ->check(CLI::PositiveNumber);
    app.add_option("--limit", s.limit, "give up a point after so many seconds");
    app.add_option("--bar", s.bar,
                   "end with 1 if an exponent is larger (and larger than that of lookups)");
    app.add_option("--json", s.json, "also write the figures to this file (-: stdout)")
        ->type_name("FILE");
    return cli::run(app, argc, argv, [&] { return run(s); });
}
