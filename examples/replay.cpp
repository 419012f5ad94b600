// SPDX-License-Identifier: Apache-2.0
// Replays a recorded sequence of allocations through a stack of resources, and reports the cost.

#include "cli.hpp"
#include "machine.hpp"
#include "output_file.hpp"
#include "trace.hpp"

#include <vram/layer/limiting.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/explain.hpp>
#include <vram/probe/layer_name.hpp>
#include <vram/probe/report.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

using namespace vram;

namespace {

struct options {
    std::string file;
    std::string stack    = "pool";
    std::string device   = "auto";
    std::string json     = {};
    std::size_t capacity = 0;
    unsigned    passes   = 2;
    bool        list     = false;
};

/// The results of a replay.
struct figures {
    /// Nanoseconds per operation in the first pass, in which memory is allocated from the device.
    double       first_ns = 0;
    double       warm_ns  = 0; ///< per operation, in the best later pass
    memory_usage usage{};      ///< after the last operation of the trace
    std::string  layers{};     ///< usage of each layer
};

/// A live block of the trace.
struct block {
    void*         p      = nullptr;
    std::size_t   bytes  = 0;
    std::uint32_t stream = 0;
};

/// Replays a trace on a stack: one operation is one call, and each recorded stream has its own
/// stream.
template <class Memory>
class player {
    using platform = typename Memory::platform;

public:
    player(trace const& t, Memory& memory) : trace_{t}, memory_{memory}, blocks_(t.slots) {
        for (std::uint32_t i = 0; i < t.streams; ++i) {
            streams_.emplace_back(platform::current_device());
            views_.push_back(streams_.back().view());
        }
    }
    player(player&&) = delete;
    ~player() {
        give_back();
        for (auto const& view : views_) {
            if constexpr (retiring_resource<Memory>) { memory_.retire(view); }
        }
    }

    /// Replays all operations and returns nanoseconds per operation. Drawing the bar is not
    /// measured.
    double play(cli::progress& bar, std::uint64_t done) {
        using clock = std::chrono::steady_clock;
        clock::duration                spent{};
        static constexpr std::size_t   batch = 8192;
        std::vector<trace_step> const& steps = trace_.steps;
        for (std::size_t at = 0; at < steps.size();) {
            std::size_t const end   = std::min(at + batch, steps.size());
            auto const        start = clock::now();
            for (; at < end; ++at) { play(steps[at]); }
            spent += clock::now() - start;
            bar.update(done + at);
        }
        return static_cast<double>(std::chrono::nanoseconds{spent}.count()) /
               static_cast<double>(steps.size());
    }

    /// Frees the blocks that the trace leaves live.
    void give_back() noexcept {
        for (block& each : blocks_) {
            if (each.p == nullptr) { continue; }
            memory_.deallocate(views_[each.stream], std::exchange(each.p, nullptr), each.bytes);
        }
    }

private:
    void play(trace_step const& step) {
        block& b = blocks_[step.slot];
        if (step.action == trace_step::kind::free) {
            memory_.deallocate(views_[step.stream], std::exchange(b.p, nullptr), step.bytes);
            return;
        }
        try {
            b = {memory_.allocate(views_[step.stream], step.bytes), step.bytes, step.stream};
        } catch (out_of_memory const& e) {
            throw cli::failure{cli::no_memory, fmt::format("line {}: {}", step.line, explain(e))};
        }
    }

    trace const&                               trace_;
    Memory&                                    memory_;
    std::vector<typename platform::own_stream> streams_;
    std::vector<typename platform::stream>     views_;
    std::vector<block>                         blocks_;
};

template <class Memory>
figures replay(trace const& t, Memory memory, unsigned passes) {
    figures       found;
    cli::progress bar{"replay", std::uint64_t{passes} * t.steps.size()};
    player        tape{t, memory};
    for (unsigned pass = 0; pass < passes; ++pass) {
        if (pass != 0) { tape.give_back(); }
        double const ns = tape.play(bar, pass * t.steps.size());
        if (pass == 0) {
            found.first_ns = ns;
        } else if (pass == 1 || ns < found.warm_ns) {
            found.warm_ns = ns;
        }
    }
    if constexpr (measured_resource<Memory>) { found.usage = memory.usage(); }
    found.layers = report(memory);
    return found;
}

/// Returns the type of a stack as it is written, without default arguments.
template <class Memory>
std::string type_name() {
    std::string name{layer_name<Memory>()};
    if constexpr (requires { typename Memory::upstream_type; }) {
        name += "<" + type_name<typename Memory::upstream_type>() + ">";
    }
    return name;
}

/// A stack with a name for the command line.
struct stack {
    std::string                                          name;
    std::string                                          about;
    std::string                                          type;
    std::function<figures(trace const&, options const&)> play;
};

/// Describes a stack; `make` composes its layers over a source. The simulated device gets the
/// requested capacity. On a GPU, a budget directly above the source limits the memory.
template <class Machine, class Source, class Make>
stack make_stack(std::string name, std::string about, Make make) {
    auto const play = [make](trace const& t, options const& o) {
        if constexpr (!std::same_as<Machine, on_sim>) {
            if (o.capacity != 0) {
                return replay(t, make(limiting{Source{}, o.capacity}), o.passes);
            }
        }
        return replay(t, make(Source{}), o.passes);
    };
    return {std::move(name), std::move(about), type_name<decltype(make(Source{}))>(), play};
}

template <class Machine>
std::vector<stack> stacks() {
    using source  = typename Machine::resource;
    using async   = typename Machine::async_resource;
    auto const on = [](auto make, std::string name, std::string about) {
        return make_stack<Machine, source>(std::move(name), std::move(about), make);
    };
    auto const on_async = [](auto make, std::string name, std::string about) {
        return make_stack<Machine, async>(std::move(name), std::move(about), make);
    };
    return {
        on([](auto from) { return pool{stream_ordered{std::move(from)}}; }, "pool",
           "a pool over plain device memory (the default)"),
        on([](auto from) { return statistics{pool{stream_ordered{std::move(from)}}}; },
           "counted-pool", "the same, counting what passes"),
        on_async([](auto from) { return pool{std::move(from)}; }, "pool-async",
                 "a pool over the driver's own"),
        on_async([](auto from) { return from; }, "async", "the driver's own pool"),
        on([](auto from) { return stream_ordered{std::move(from)}; }, "stream-ordered",
           "no pool: every allocation goes to the device"),
    };
}

/// Returns a number with a space between thousands.
std::string grouped(std::uint64_t n) {
    std::string text = std::to_string(n);
    for (std::size_t at = text.size(); at > 3;) { text.insert(at -= 3, " "); }
    return text;
}

/// Returns nothing if the trace never has a live byte.
std::optional<double> reserved_over_live(trace const& t, memory_usage const& u) {
    if (t.peak_live == 0) { return {}; }
    return static_cast<double>(u.peak_reserved) / static_cast<double>(t.peak_live);
}

std::string size(std::size_t n) { return bytes{n}.text().c_str(); }

void print(trace const& t, figures const& f) {
    memory_usage const& u   = f.usage;
    auto const          row = [](char const* what, std::string const& value) {
        fmt::print("{:<22}{:>14}\n", what, value);
    };
    row("operations", grouped(t.steps.size()));
    if (t.failures != 0) { row("recorded failures", grouped(t.failures)); }
    row("streams", grouped(t.streams));
    row("ns per operation", fmt::format("{:.1f}", f.first_ns));
    if (f.warm_ns != 0) { row("  when warm", fmt::format("{:.1f}", f.warm_ns)); }
    row("peak live", size(t.peak_live));
    row("peak reserved", size(u.peak_reserved));
    auto const held = reserved_over_live(t, u);
    row("reserved / live", held ? fmt::format("{:.3f}", *held) : "nothing was live");
    row("largest free block", size(u.largest_free));
    row("waits", grouped(u.waits));
    row("events", grouped(u.events));
    fmt::print("\n{}", f.layers);
}

nlohmann::json rows(trace const& t, figures const& f, std::string const& file,
                    std::string const& type) {
    auto       out = nlohmann::json::array();
    auto const add = [&](char const* metric, auto value, char const* unit) {
        out.push_back({{"bench", "replay"},
                       {"case", std::filesystem::path{file}.filename().string()},
                       {"subject", type},
                       {"metric", metric},
                       {"value", value},
                       {"unit", unit}});
    };
    memory_usage const& u = f.usage;
    add("operations", t.steps.size(), "count");
    add("time per operation", f.first_ns, "ns");
    if (f.warm_ns != 0) { add("time per operation, warm", f.warm_ns, "ns"); }
    add("peak live", t.peak_live, "bytes");
    add("peak reserved", u.peak_reserved, "bytes");
    if (auto const held = reserved_over_live(t, u)) {
        add("peak reserved / peak live", *held, "ratio");
    }
    add("largest free block", u.largest_free, "bytes");
    add("waits", u.waits, "count");
    add("events", u.events, "count");
    return out;
}

template <class Machine>
int run(Machine& machine, options const& o) {
    auto const known = stacks<Machine>();
    if (o.list) {
        for (stack const& each : known) {
            fmt::print("{:<16}{}\n{:16}{}\n", each.name, each.about, "", each.type);
        }
        return cli::success;
    }
    auto const chosen = std::ranges::find(known, o.stack, &stack::name);
    if (chosen == known.end()) {
        throw cli::failure{cli::bad_usage,
                           fmt::format("no stack '{}'; --list names them", o.stack)};
    }
    cli::output_file json{o.json, {o.file}};
    trace const      recorded = read_trace(o.file);
    fmt::print("replaying {} on {}\n{}\n\n", o.file == "-" ? "stdin" : o.file.c_str(),
               machine.name(), chosen->type);
    figures found;
    try {
        found = chosen->play(recorded, o);
    } catch (cli::failure const& e) {
        throw cli::failure{e.code(), fmt::format("{}: {}", o.file, e.what())};
    }
    print(recorded, found);
    if (json) { json.write(rows(recorded, found, o.file, chosen->type).dump(2) + "\n"); }
    return cli::success;
}

} // namespace

int main(int argc, char** argv) {
    options  o;
    CLI::App app{"Replays a recorded sequence of allocations through a stack of resources.",
                 "replay"};
    auto*    file = app.add_option("TRACE", o.file,
                                   "CSV of RMM's logging adaptor, plain or gzip (" VRAM_EXAMPLE_DATA
                                   "/gpt2.csv.gz is one); - reads stdin");
    app.add_option("--stack", o.stack, "the stack to replay on")->capture_default_str();
    cli::add_size(app, "--capacity", o.capacity,
                  "bytes of device memory (the simulated device has 140 GiB by default)")
        ->check([](std::string const& text) {
            return cli::parse_size(text) == 0 ? "a device of no memory holds nothing" : "";
        });
    app.add_option("--passes", o.passes, "how often; all but the first find the memory there")
        ->check(CLI::Range(1U, 1000U))
        ->capture_default_str();
    app.add_option("--json", o.json,
                   "also write the figures to this file; - is stdout, and the "
                   "report goes to stderr then")
        ->type_name("FILE");
    app.add_flag("--list", o.list, "list the stacks and end");
    add_device(app, o.device);

    return cli::run(app, argc, argv, [&] {
        if (!o.list && file->empty()) {
            throw cli::failure{cli::bad_usage, "which trace? (--help lists the options)"};
        }
        machine_options wanted{.backed = false}; // a replay accesses no memory
        if (o.capacity != 0) { wanted.capacity = o.capacity; }
        return on_machine(o.device, wanted, [&](auto& machine) { return run(machine, o); });
    });
}
