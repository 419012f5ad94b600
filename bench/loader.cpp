// SPDX-License-Identifier: Apache-2.0
// The benchmark of the loader: batches are filled on the host, copied and used; compared with
// handwritten loops.

#include "support/feeding.hpp"
#include "support/results.hpp"
#include "support/timeline.hpp"
#include "support/verdicts.hpp"

#include <cli.hpp>         // failure, add_size
#include <output_file.hpp> // output_file

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>

using namespace bench;
using namespace vram::literals;

// Counts every host allocation. (If these functions are inlined, g++ reports mismatched pairs.)
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    ++bench::host_allocations;
    if (void* const p = std::malloc(bytes == 0 ? 1 : bytes)) { return p; }
    throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

struct options {
    std::string              device = "auto";
    std::string              json   = {};
    std::string              svg    = {};
    std::vector<std::string> subjects;
    std::vector<std::string> cases;
    unsigned                 repeat    = 0;
    std::size_t              bytes     = 0; ///< batch size given by the user
    double                   fill_us   = 0;
    double                   kernel_us = 0;
    std::size_t              producers = 1;
    std::size_t              batches   = 0;
    bool                     list      = false;
    bool                     quick     = false;
    bool                     check     = false;
};

std::vector<feed_case> cases() {
    std::vector<feed_case> all;
    for (auto const& [size, bytes] : {std::pair{"1MiB", 1_MiB}, std::pair{"16MiB", 16_MiB},
                                      std::pair{"64MiB", 64_MiB}, std::pair{"256MiB", 256_MiB}}) {
        auto const add = [&, s = std::string{size}, n = bytes](char const* bound, double fill,
                                                               double kernel, double loop = 0) {
            all.push_back(
                {.name   = s + "_" + bound,
                 .about  = fmt::format("filled in {} and used in {} of its copy's time{}", fill,
                                       kernel, loop == 0 ? "" : ", the loop itself busy for 2"),
                 .bytes  = n,
                 .fill   = fill,
                 .kernel = kernel,
                 .loop   = loop});
        };
        add("producer", 2, 0.5);
        add("transfer", 0.5, 0.5);
        add("compute", 0.5, 2);
        add("loop", 0.5, 0.5, 2);
    }
    all.push_back({.name      = "64MiB_memcpy",
                   .about     = "filled by memcpy by 8 producers, used in 5 ms",
                   .bytes     = 64_MiB,
                   .kernel_ns = 5'000'000,
                   .memcpy    = true,
                   .producers = 8});
    return all;
}

template <class Machine>
struct loop {
    std::string                              name;
    std::string                              about;
    std::function<figures(feeder<Machine>&)> run;
};

template <class Machine>
std::vector<loop<Machine>> loops() {
    std::vector<loop<Machine>> all;
    auto const add = [&](std::string name, std::string about, vram::loader_options o) {
        all.push_back({std::move(name), std::move(about), [o](auto& f) { return f.loader(o); }});
    };
    add("loader", "two batches on their way", {});
    add("loader(depth=1)", "one", {.depth = 1});
    add("loader(depth=3)", "three", {.depth = 3});
    add("loader(depth=4)", "four", {.depth = 4});
    add("loader(call_back=false)", "its producers wait for the copies' events",
        {.call_back = false});
    all.push_back({"serial_pageable", "fill, copy, use, wait, out of pageable memory",
                   [](auto& f) { return f.serial(false); }});
    all.push_back(
        {"serial_pinned", "the same out of pinned memory", [](auto& f) { return f.serial(true); }});
    all.push_back({"side_stream", "two buffers and two streams, one thread",
                   [](auto& f) { return f.side_stream(); }});
    return all;
}

template <class Named>
std::vector<Named> chosen(std::vector<Named> all, std::vector<std::string> const& wanted,
                          char const* kind) {
    if (wanted.empty()) { return all; }
    std::vector<Named> out;
    for (std::string const& name : wanted) {
        auto const        holds  = [&](Named const& n) { return n.name == name; };
        auto const        at     = std::find_if(all.begin(), all.end(), holds);
        std::size_t const before = out.size();
        for (Named const& n : all) {
            bool const mine = at != all.end() ? n.name == name : n.name.find(name) != n.name.npos;
            bool const new_ = std::none_of(out.begin(), out.end(),
                                           [&](Named const& o) { return o.name == n.name; });
            if (mine && new_) { out.push_back(n); }
        }
        if (out.size() == before) {
            throw cli::failure{cli::bad_usage,
                               fmt::format("no {} '{}'; --list names them", kind, name)};
        }
    }
    return out;
}

/// PyTorch's own loader, in a separate process, if it is installed.
std::optional<figures> torch_loader(feed_case const& c, std::uint64_t fill_ns,
                                    std::uint64_t kernel_ns, std::uint64_t loop_ns,
                                    std::uint64_t slowest_ns, std::size_t batches) {
    std::string const command = fmt::format("python3 -B '{}/support/loader_torch.py' --bytes {} "
                                            "--fill-ns {} --kernel-ns {} --loop-ns {} --batches {} "
                                            "--workers {}{} 2>/dev/null",
                                            VRAM_BENCH_FOLDER, c.bytes, fill_ns, kernel_ns, loop_ns,
                                            batches, c.producers, c.memcpy ? " --memcpy" : "");
    std::FILE* const  pipe    = ::popen(command.c_str(), "r");
    if (pipe == nullptr) { return {}; }
    double     ms   = 0;
    int const  read = std::fscanf(pipe, "%lf", &ms);
    bool const fine = ::pclose(pipe) == 0 && read == 1 && ms > 0;
    if (!fine) { return {}; }
    return figures{{"overlap_efficiency", static_cast<double>(slowest_ns) / (ms * 1e6), "ratio"},
                   {"ms_per_batch", ms, "ms"},
                   {"GBps", static_cast<double>(c.bytes) / (ms * 1e6), "GB/s"}};
}

void judge(verdicts& v, results const& r, std::vector<feed_case> const& cells, bool gpu) {
    for (feed_case const& c : cells) {
        auto const value = [&](char const* metric) { return r.value(c.name, "loader", metric); };
        if (c.memcpy) {
            v.at_most(c.name, "loader", "ms a batch", value("ms_per_batch"), 1.05 * 5);
        } else {
            v.at_least(c.name, "loader", "of the slowest stage alone", value("overlap_efficiency"),
                       gpu ? 0.95 : 0.97);
        }
        v.at_most(c.name, "loader", "allocations a batch", value("allocations_per_batch"), 0);
        v.at_most(c.name, "loader", "waits of the host a batch", value("host_waits_per_batch"), 0);
        v.at_most(c.name, "loader", "us of the host a step", value("host_us_per_batch"), 5);
    }
}

void print_table(results const& r, feed_case const& c, std::string const& stages,
                 std::vector<std::string> const& names) {
    static char const* const columns[] = {
        "overlap_efficiency",    "ms_per_batch",         "GBps",
        "allocations_per_batch", "host_waits_per_batch", "host_us_per_batch"};
    fmt::print("\n{} ({}): {}\n{:<26}{:>9}{:>11}{:>8}{:>14}{:>14}{:>14}\n", c.name, c.about, stages,
               "", "overlap", "ms/batch", "GB/s", "allocs/batch", "waits/batch", "host us/batch");
    for (std::string const& name : names) {
        if (!r.value(c.name, name, "ms_per_batch")) { continue; }
        fmt::print("  {:<24}", name);
        int const widths[] = {9, 11, 8, 14, 14, 14};
        for (std::size_t i = 0; i < std::size(columns); ++i) {
            auto const value = r.value(c.name, name, columns[i]);
            fmt::print("{:>{}}", value ? fmt::format("{:.4g}", *value) : "-", widths[i]);
        }
        fmt::print("\n");
    }
    std::fflush(stdout);
}

template <class Machine>
int run(options const& o) {
    auto const all  = loops<Machine>();
    auto       todo = cases();
    if (o.bytes != 0) {
        // Durations of stages are multiples of the duration of a copy.
        Machine               machine;
        feeder<Machine> const plain{machine, {.bytes = o.bytes}, 1};
        double const          copy_us = static_cast<double>(plain.copy_ns()) / 1e3;
        todo                          = {{.name      = "custom",
                                          .about     = "as asked for",
                                          .bytes     = o.bytes,
                                          .fill      = o.fill_us / copy_us,
                                          .kernel    = o.kernel_us / copy_us,
                                          .producers = o.producers}};
    }
    if (o.list) {
        fmt::print("on {}\n\nsubjects\n", Machine::name());
        for (auto const& l : all) { fmt::print("  {:<26}{}\n", l.name, l.about); }
        fmt::print(
            "  {:<26}PyTorch's DataLoader, pinned, where there is a GPU and torch\n\ncases\n",
            "torch_dataloader");
        for (auto const& c : todo) { fmt::print("  {:<18}{}\n", c.name, c.about); }
        return cli::success;
    }
    auto          named = all;
    loop<Machine> torch{"torch_dataloader", "", {}};
    named.push_back(torch);
    auto const       picked = chosen(named, o.subjects, "subject");
    auto const       cells  = chosen(todo, o.cases, "case");
    cli::output_file json{o.json};
    results          r{"loader"};
    unsigned const   turns = o.repeat != 0 ? o.repeat : Machine::real && !o.quick ? 3U : 1U;
    fmt::print("on {}\nmedians of {} turn{}; overlap: the slowest stage alone / the time of all\n",
               Machine::name(), turns, turns == 1 ? "" : "s");
    if (!Machine::real) { fmt::print("left out: torch_dataloader: there is no GPU\n"); }
    for (feed_case const& c : cells) {
        std::string              stages;
        std::vector<std::string> names;
        for (loop<Machine> const& l : picked) {
            names.push_back(l.name);
            for (unsigned turn = 0; turn < turns; ++turn) {
                Machine         machine;
                feeder<Machine> probe{machine, c, 1};
                // On a GPU half a second, elsewhere a hundred batches; the first one is a warm-up.
                std::size_t const fit =
                    500'000'000 / std::max<std::uint64_t>(probe.slowest_ns(), 1);
                std::size_t const n = o.batches != 0  ? o.batches
                                      : o.quick       ? 20
                                      : Machine::real ? std::clamp<std::size_t>(fit, 100, 2000)
                                                      : 100;
                feeder<Machine>   f{machine, c, n};
                if (Machine::real && l.run &&
                    turn == 0) { // once per process: initialisation of the driver
                    feeder<Machine> first{machine, c, 4};
                    (void)l.run(first);
                }
                stages = fmt::format("fill {:.3f} ms, copy {:.3f} ms, use {:.3f} ms",
                                     static_cast<double>(f.fill_ns()) / 1e6,
                                     static_cast<double>(f.copy_ns()) / 1e6,
                                     static_cast<double>(f.kernel_ns()) / 1e6);
                if (f.loop_ns() != 0) {
                    stages +=
                        fmt::format(", loop {:.3f} ms", static_cast<double>(f.loop_ns()) / 1e6);
                }
                if (l.run) {
                    r.add(c.name, l.name, l.run(f));
                } else if (Machine::real) {
                    auto const t =
                        torch_loader(c, f.fill_ns(), f.kernel_ns(), f.loop_ns(), f.slowest_ns(), n);
                    if (t) { r.add(c.name, l.name, *t); }
                }
            }
        }
        print_table(r, c, stages, names);
    }
    verdicts v;
    judge(v, r, cells, Machine::real);
    v.print();
    json.write(r.rows().dump(1) + "\n");
    return o.check && v.missed() != 0 ? cli::failed : cli::success;
}

// --- the picture ------------------------------------------------------------------------------------

constexpr std::size_t drawn = 6;

/// Draws six batches on the simulated device, sequential or overlapped.
timeline::panel draw(std::string title, bool overlapped) {
    using namespace std::chrono_literals;
    vram::sim_node  node{{.backed         = false,
                          .host_bandwidth = 1_GB,
                          .copy_latency   = vram::sim_time{0},
                          .trace          = true}};
    timeline::panel p{std::move(title), {}};
    auto const      ns   = [](vram::sim_time t) { return static_cast<std::uint64_t>(t.count()); };
    constexpr auto  size = std::size_t{7'000'000};
    auto const      fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        if (index == drawn) { return 0; }
        auto const from = node.now();
        node.work(8ms);
        p.boxes.push_back({0, index, ns(from), ns(node.now())});
        return to.size();
    };
    {
        vram::sim_stream stream;
        auto const       train = [&](void const* data) {
            vram::sim_launch(stream, {.name = "train", .reads = {{data, size}}, .duration = 10ms});
        };
        if (overlapped) {
            for (auto& b : vram::loader{fill, stream, {.batch_bytes = size}}) { train(b.data()); }
        } else {
            for (auto& b : vram::loader{fill, stream, {.batch_bytes = size, .depth = 0}}) {
                train(b.data());
                stream.synchronize();
            }
        }
        stream.synchronize();
    }
    std::size_t copies = 0, kernels = 0;
    for (auto const& t : node.trace()) {
        if (t.engine == vram::sim_engine::to_device) {
            p.boxes.push_back({1, copies++, ns(t.start), ns(t.end)});
        } else if (t.engine == vram::sim_engine::compute) {
            p.boxes.push_back({2, kernels++, ns(t.start), ns(t.end)});
        }
    }
    return p;
}

int picture(std::string const& path) {
    cli::output_file file{path};
    timeline         t{{"fill (host)", "copy", "use (device)"}};
    t.add(draw("one after the other", false));
    t.add(draw("with a loader, depth = 2", true));
    file.write(t.svg());
    return cli::success;
}

int run_there(options const& o) {
    if (!o.svg.empty()) { return picture(o.svg); }
#ifdef VRAM_BENCH_NVCC
    int        count = 0;
    bool const gpu   = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
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
    CLI::App app{"Batches filled on the host, copied, and used: a loader, and loops by hand.",
                 "loader"};
    app.add_option("--subject", o.subjects, "only these subjects, or those whose name holds this");
    app.add_option("--case", o.cases, "only these cases, or those whose name holds this");
    app.add_option("--json", o.json,
                   "also write the figures to this file (-: stdout), as an array of rows");
    app.add_option("--svg", o.svg, "only draw a loop and a loader's into this file");
    app.add_option("--repeat", o.repeat, "turns of each subject")->check(CLI::Range(1U, 1000U));
    app.add_option("--batches", o.batches, "batches of a turn")->check(CLI::Range(1U, 1000000U));
    cli::add_size(app, "--bytes", o.bytes, "instead of the cases, one with batches of this size");
    app.add_option("--fill-us", o.fill_us, "what filling takes in it")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--kernel-us", o.kernel_us, "what the kernel takes")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--producers", o.producers, "how many fill")->check(CLI::Range(1, 256));
    app.add_flag("--quick", o.quick, "few batches, to see that everything runs");
    app.add_flag("--list", o.list, "list the subjects and the cases, and end");
    app.add_flag("--check", o.check, "end with 1 when a bar is missed");
    app.add_option("--device", o.device, "auto (the GPU if there is one), sim or cuda")
        ->check(CLI::IsMember({"auto", "sim", "cuda"}))
        ->capture_default_str();
    add_profile(app);
    return cli::run(app, argc, argv, [&] { return run_there(o); });
}
