// SPDX-License-Identifier: Apache-2.0
// Random operations on every pool, compared with a model of a heap and checked by the simulated
// device: no byte is allocated twice, none is reused before its last use is complete, and nothing
// is lost at the end.
//
//   random_operations --pool pool --operations 10000000 --seed 1
//
// A run is a sequence of rounds. A round is one pool with options, streams, threads and sizes that
// its seed determines. The next round has the next seed, so that each round can be repeated alone.

#include "subjects.hpp" // subjects, round, wishes

#include "../../examples/cli.hpp" // run, failure, progress

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/personality.h> // personality
#include <unistd.h>          // execv

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>

namespace {

struct choice {
    std::string   pool;
    std::uint64_t operations = 100'000;
    std::uint64_t seed       = 1;
    double        seconds    = 0; ///< 0: until all operations are done
    trial::wishes fixed;
    bool          list    = false;
    bool          verbose = false;
};

/// The positions of blocks depend on addresses, so a round repeats exactly only with equal
/// addresses. If the system permits it, the process starts again without address randomization.
void fix_addresses(char** argv) {
    int const now = ::personality(0xFFFFFFFF);
    if (now == -1 || (now & ADDR_NO_RANDOMIZE) != 0) { return; }
    if (::personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) == -1) { return; }
    ::execv("/proc/self/exe", argv);
}

std::string again(trial::subject const& s, trial::round const& r, trial::wishes const& fixed) {
    std::string line = fmt::format("random_operations --pool {} --seed {} --operations {}", s.name,
                                   r.seed, r.operations);
    line += fmt::format(" --round {}", fixed.length);
    if (fixed.streams != 0) { line += fmt::format(" --streams {}", fixed.streams); }
    if (fixed.threads != 0) { line += fmt::format(" --threads {}", fixed.threads); }
    return line;
}

/// A round in one line.
void describe(trial::round const& r, std::clock_t took) {
    char const* const kinds[] = {"any", "small", "few", "large"};
    fmt::print(
        "  seed {}: {} operations, {} streams, {} threads{}, {} sizes to {}, {} of {} out in {} "
        "blocks, watched every {}, {}{}: {:.2f} us each\n",
        r.seed, r.operations, r.streams, r.threads, r.by_seed ? " in turns" : "",
        kinds[static_cast<int>(r.kind)], vram::bytes{r.largest}.text().c_str(),
        vram::bytes{r.room}.text().c_str(), vram::bytes{r.max_size}.text().c_str(), r.blocks,
        vram::bytes{r.watched}.text().c_str(),
        r.events == vram::event_policy::eager ? "eager" : "lazy", r.graphs ? ", graphs" : "",
        static_cast<double>(took) * 1e6 / CLOCKS_PER_SEC / static_cast<double>(r.operations));
    std::fflush(stdout);
}

char running[256] = ""; ///< how to run the round that is under way again
using handler     = void (*)(int);
handler before[64]{};

/// Prints the round if it ends the process, and then calls the previous signal handler.
void name_it(int signal) {
    [[maybe_unused]] auto const written = ::write(STDERR_FILENO, running, std::strlen(running));
    std::signal(signal, before[signal]);
    if (signal == SIGABRT) { std::raise(signal); }
}

void run(trial::subject const& subject, choice const& c) {
    auto const begin = std::clock();
    fmt::print("{}: {} operations, seed {}\n", subject.name, c.operations, c.seed);
    std::fflush(stdout);
    cli::progress bar{subject.name, c.operations};
    std::uint64_t seed = c.seed, done = 0;
    auto const    started_at = std::chrono::steady_clock::now();
    auto const    time_is_up = [&] {
        std::chrono::duration<double> const passed = std::chrono::steady_clock::now() - started_at;
        return c.seconds > 0 && passed.count() >= c.seconds;
    };
    for (; done < c.operations && !(done != 0 && time_is_up()); ++seed) {
        trial::round r{seed, c.fixed};
        r.operations       = std::min<std::size_t>(r.operations, c.operations - done);
        auto const started = std::clock();
        *fmt::format_to_n(running, sizeof running - 2, "again: {}\n", again(subject, r, c.fixed))
             .out                 = '\0';
        std::string const mistake = subject.run(r);
        if (c.verbose) { describe(r, std::clock() - started); }
        if (!mistake.empty()) {
            throw cli::failure{cli::wrong_result,
                               fmt::format("{}: seed {}: {}\nagain: {}", subject.name, seed,
                                           mistake, again(subject, r, c.fixed))};
        }
        done += r.operations;
        bar.update(done);
    }
    double const took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    fmt::print("{}: nothing wrong in {} operations, {} rounds, seeds {} to {}, {:.1f} s of CPU "
               "time, {:.2f} us an operation\n",
               subject.name, done, seed - c.seed, c.seed, seed - 1, took,
               took * 1e6 / static_cast<double>(done));
}

} // namespace

int main(int argc, char** argv) {
    fix_addresses(argv);
    for (int const deadly : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) {
        before[deadly] = std::signal(deadly, name_it);
    }
    choice   c;
    CLI::App app{"Random operations on vram's pools, on the simulated device", "random_operations"};
    app.add_option("--pool", c.pool, "One of --list; all of them otherwise");
    app.add_option("--operations", c.operations, "On each pool")->capture_default_str();
    app.add_option("--seconds", c.seconds,
                   "On each pool: no round begins later, even if operations are left")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--seed", c.seed, "Of the first round; each has the next")
        ->capture_default_str();
    app.add_option("--streams", c.fixed.streams,
                   "1 to 64 in every round; 1 to 16 as it comes otherwise")
        ->check(CLI::Range(1, 64));
    app.add_option("--threads", c.fixed.threads,
                   "1 to 64 in every round; 1 to 8 as it comes otherwise")
        ->check(CLI::Range(1, 64));
    app.add_option("--round", c.fixed.length, "Operations of a round, about, but for the dear ones")
        ->capture_default_str();
    app.add_flag("--verbose", c.verbose, "A line for each round");
    app.add_flag("--list", c.list, "Names the pools");
    return cli::run(app, argc, argv, [&] {
        bool found = false;
        for (trial::subject const& each : trial::subjects) {
            if (c.list) {
                fmt::print("{:<14} {}\n", each.name, each.what);
            } else if (c.pool.empty() || c.pool == each.name) {
                found = true;
                run(each, c);
            }
        }
        if (!found && !c.list) {
            throw cli::failure{cli::bad_usage, "no pool '" + c.pool + "' (--list names them)"};
        }
        return cli::success;
    });
}
